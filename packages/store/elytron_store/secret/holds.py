"""Holds of processes on spaces that they seal: renewed during the work, and expired soon after a crash."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from elytron_core.clock import Clock, Instant
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.ports.store import ErasureTarget, PutChange, Store
from elytron_store import limits
from elytron_store.secret.records import HOLD, SealingHold, SecretSlot, hold_space, secret_batch

SECRET_RENEWALS: Final = 3
"""Renewals of a sealing in the time after which it is taken for dead."""


class HoldRenewal:
    """Renews the hold of the process that fills an inner space.

    It is stored in a separate space, because the journals of the two compared spaces may not grow meanwhile.
    """

    def __init__(self, store: Store, inner_space: SpaceId, /, *, clock: Clock) -> None:
        self._store = store
        self._space = hold_space(inner_space)
        self._clock = clock
        self._revision = 0

    async def renew(self) -> None:
        """Hold the space for `limits.SECRET_MAKING_MS` from now. Raises Conflict if another process ended the hold."""
        sealing_hold = SealingHold(until=fresh_until(self._clock))
        change = PutChange(HOLD, sealing_hold.to_bytes(), self._revision)
        await self._store.commit(secret_batch(self._space, self._clock, change))
        self._revision += 1

    @asynccontextmanager
    async def renewed(self) -> AsyncGenerator[None]:
        """Renew the hold until the block ends."""
        over_event = asyncio.Event()
        renewal_task = asyncio.ensure_future(self._renew(over_event))
        try:
            yield
        finally:
            # Not cancelled: a running commit would come after what is erased next.
            over_event.set()
            await asyncio.shield(asyncio.wait({renewal_task}))

    async def _renew(self, over_event: asyncio.Event) -> None:
        while not over_event.is_set():
            try:
                async with asyncio.timeout(limits.SECRET_MAKING_MS / SECRET_RENEWALS / 1000):
                    await over_event.wait()
            except TimeoutError:
                # A process that lost the space finds out with the commit that would end the sealing.
                with suppress(ElytronError):
                    await self.renew()


def fresh_until(clock: Clock, /) -> Instant:
    """Return until when a hold renewed now is valid."""
    return Instant(clock.now() + limits.SECRET_MAKING_MS)


async def held_until(store: Store, slot: SecretSlot, /) -> Instant:
    """Return when the process that makes or renews `slot` is considered dead."""
    (document,) = await store.get(hold_space(slot.filled), (HOLD,))
    return slot.until if document is None else max(slot.until, SealingHold.from_bytes(document.body).until)


async def erase_hold(store: Store, inner_space: SpaceId, /, *, at: Instant) -> None:
    """Erase the hold of the process that filled `inner_space`, if there is one."""
    if (await store.get(space := hold_space(inner_space), (HOLD,)))[0] is not None:
        await store.erase(ErasureTarget(space=space, at=at, whole_space=True))
