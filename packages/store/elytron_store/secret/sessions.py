"""Open secrets of this process: data keys in memory, each for a time."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elytron_core.clock import Clock, Instant
from elytron_core.ids import SpaceId

if TYPE_CHECKING:
    from elytron_store.sealed.cipher import DataKey


@dataclass(frozen=True, slots=True)
class SecretSession:
    """The open data keys of one space, of one generation of its secret, for a time."""

    inner: SpaceId
    generation: int
    since: Instant
    until: Instant
    keys: Mapping[int, "DataKey"] = field(repr=False)


class SecretSessions:
    """Sessions by space. Those that users opened are everyone's in this process, lent ones their own task's alone."""

    def __init__(self, clock: Clock, /) -> None:
        self._clock = clock
        self._open: dict[SpaceId, SecretSession] = {}
        self._lent: ContextVar[Mapping[SpaceId, SecretSession] | None] = ContextVar("elytron_lent", default=None)

    def __iter__(self) -> Iterator[SpaceId]:
        return iter(tuple(self._open))

    def of(self, space: SpaceId, /) -> SecretSession | None:
        """Return the session of `space` for this task; None if there is none, or its time is over."""
        for found in (self._open.get(space), (self._lent.get() or {}).get(space)):
            if found is not None and self._clock.now() < found.until:
                return found
        return None

    def is_open(self, space: SpaceId, /) -> bool:
        """Return whether a user opened `space`, and its time may be over."""
        return space in self._open

    def begin(self, space: SpaceId, session: SecretSession, /) -> None:
        """Open `space` for this process."""
        self._open[space] = session

    def end(self, space: SpaceId, /) -> bool:
        """Let go of the keys of `space`; return whether they were open."""
        return self._open.pop(space, None) is not None

    def clear(self) -> None:
        """Let go of all keys."""
        self._open.clear()

    @contextmanager
    def lent(self, space: SpaceId, session: SecretSession, /) -> Generator[None]:
        """Open `space` for this task, and those that it begins, until the block ends."""
        token = self._lent.set({**(self._lent.get() or {}), space: session})
        try:
            yield
        finally:
            self._lent.reset(token)
