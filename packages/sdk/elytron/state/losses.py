"""Unacknowledged losses of the store, by space: content that repairs could not save.

Answers from a space with a loss report it and never claim that the space is empty.
"""

import logging
from collections.abc import Iterable
from time import monotonic
from typing import Final

from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Store, acknowledge_losses, find_losses
from elytron_core.profiles import SpaceLoss

logger = logging.getLogger(__name__)
_FRESH_S: Final = 5.0
"""How long losses are cached: only repairs and operators change them."""


class StoreLosses:
    """Reads the losses of a store, and logs their existence once."""

    def __init__(self, store: Store, /) -> None:
        self._store = store
        self._losses: tuple[SpaceLoss, ...] = ()
        self._read_at: float | None = None
        self._logged: tuple[SpaceLoss, ...] = ()

    async def read(self, *, is_logged: bool = True) -> tuple[SpaceLoss, ...]:
        """Return all current losses of the store; new ones are logged, unless `is_logged` is false."""
        losses = await find_losses(self._store)
        self._losses = tuple(
            SpaceLoss(
                space=loss.space,
                documents=loss.documents,
                entries=loss.entries,
                blobs=loss.blobs,
                at=loss.at,
                what=loss.what,
            )
            for loss in losses
        )
        self._read_at = monotonic()
        # A lost index is rebuilt: its blobs are listed, but not warned about.
        if is_logged and any(loss not in self._logged and not _is_of_index(loss) for loss in self._losses):
            logger.warning(
                "damage took data of this store: `elytron spaces` lists the losses; "
                "`elytron inspect --space NAME --acknowledge` ends the report of one"
            )
        if is_logged:
            self._logged = self._losses
        return self._losses

    async def of(self, space: SpaceId, /) -> tuple[SpaceLoss, ...]:
        """Return the losses of `space`, and those of unknown spaces; cached for some seconds."""
        if self._read_at is None or monotonic() - self._read_at > _FRESH_S:
            await self.read()
        return losses_of(space, self._losses)

    async def fresh(self, space: SpaceId, /) -> tuple[SpaceLoss, ...]:
        """Return the same without the cache: another process may have repaired a space that would be reported as
        empty."""
        return losses_of(space, await self.read())

    async def acknowledge(self, space: SpaceId, /, *, at: Instant) -> int:
        """Acknowledge the losses of `space` that were listed by `at`; return their number.

        Losses of which it is unknown whose they were go with the last of the others.
        """
        acknowledged_count = await acknowledge_losses(self._store, space, at=at)
        remaining_losses = await find_losses(self._store)
        if all(loss.space is None for loss in remaining_losses):
            acknowledged_count += await acknowledge_losses(self._store, None, at=at)
        self.forget()
        return acknowledged_count

    def forget(self) -> None:
        """Read the losses again at their next use."""
        self._read_at = None


def losses_of(space: SpaceId, losses: Iterable[SpaceLoss], /) -> tuple[SpaceLoss, ...]:
    """Return those of `losses` that belong to `space`, or to an unknown one."""
    return tuple(loss for loss in losses if loss.space in {None, space})


def _is_of_index(loss: SpaceLoss) -> bool:
    return bool(loss.blobs) and not (loss.documents or loss.entries)
