"""The stored seats of spaces that are under a secret, and whether this task may open one."""

from elytron_core.errors import KeyDestroyed, SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, Store
from elytron_store.secret.records import SEAT, SECRET_GUARD, SeatState, SecretSeat, read_seat
from elytron_store.secret.sessions import SecretSession, SecretSessions


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
        if seat.state is SeatState.MAKING:
            raise SpaceIncomplete(space=space)
        if seat.state is SeatState.DESTROYED:
            raise KeyDestroyed
        session = self._sessions.of(space)
        if session is None or (session.inner, session.generation) != (seat.inner, seat.generation):
            raise SpaceLocked(space=space)
        return session


async def guard_revision(store: Store, inner: SpaceId, /) -> int:
    """Return the revision of the guard of an inner space, 0 if it has none."""
    (guard,) = await store.get(inner, (SECRET_GUARD,))
    return 0 if guard is None else guard.revision
