"""Open secrets of this process: data keys in memory, each for a time, and the stored seats that they belong to."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elytron_core.clock import Clock, Instant
from elytron_core.errors import KeyDestroyed, SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, Store
from elytron_store import limits
from elytron_store.secret.records import SEAT, SECRET_GUARD, SeatState, SecretSeat, read_seat

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


class SeatBook:
    """Reads seats, and compares them with the sessions of this process."""

    def __init__(self, inner: Store, sessions: SecretSessions, /) -> None:
        self.inner = inner
        self._sessions = sessions

    async def document(self, space: SpaceId, /) -> Document | None:
        """Return the stored seat of `space`, None if it is under no secret."""
        (found,) = await self.inner.get(space, (SEAT,))
        return found

    async def read(self, space: SpaceId, /) -> tuple[SecretSeat, int] | None:
        """Return the seat of `space` and its revision, None if it is under no secret. Raises SealBroken."""
        found = await self.document(space)
        return None if found is None else (read_seat(found), found.revision)

    def require(self, space: SpaceId, seat: SecretSeat, /) -> SecretSession:
        """Return the session that opens the space of `seat`. Raises SpaceLocked, SpaceIncomplete, KeyDestroyed."""
        if seat.filled:
            raise incomplete_space(space)
        if seat.state is SeatState.DESTROYED:
            raise KeyDestroyed
        session = self._sessions.of(space)
        if session is None or (session.inner, session.generation) != (seat.inner, seat.generation):
            raise SpaceLocked(space=space)
        return session


def incomplete_space(space: SpaceId, /) -> SpaceIncomplete:
    """Return what a call of a space that is being sealed is answered."""
    within = f"within {limits.SECRET_MAKING_MS // 1000} s"
    problem = (
        f"is being sealed under its user's secret: try again. If that was broken off, it is as it was {within}; "
        "erasing the whole space is possible at once"
    )
    return SpaceIncomplete(space=space, problem=problem)


async def guard_revision(store: Store, inner: SpaceId, /) -> int:
    """Return the revision of the guard of an inner space, 0 if it has none."""
    (guard,) = await store.get(inner, (SECRET_GUARD,))
    return 0 if guard is None else guard.revision
