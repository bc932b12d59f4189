"""Unlocked spaces of this process: data keys in memory, for a limited time and one caller, with their stored slots.

The caller is a context variable, which tasks inherit. A transport sets it to the authenticated principal. Code that
forgets to do so runs as the process itself, which has no session of any caller.
"""

from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elytron_core.clock import Clock, Instant
from elytron_core.errors import KeyDestroyed, SealBroken, SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.ports.store import Document, Store, scan_spaces
from elytron_store import limits
from elytron_store.secret.records import (
    INNER_PREFIX,
    SECRET_GUARD,
    SECRET_SLOT,
    SecretSlot,
    SecretSlotState,
    read_secret_slot,
)

if TYPE_CHECKING:
    from elytron_store.sealed.cipher import DataKey


@dataclass(frozen=True, slots=True)
class SpaceCaller:
    """The caller of the current task: the id of its principal, and the network address it called from."""

    principal: str = ""
    """Empty for the process itself: the library's own user, the command line, the local user over stdio."""
    address: str = ""
    names_spaces: bool = False
    """True for an operator by its key, which opens every space: none of them is its default."""
    is_server: bool = False
    """True for the server's own upkeep of spaces, which may use any caller's session and returns nothing to anyone."""


_OWNERS_KEPT: Final = 65_536
PROCESS: Final = SpaceCaller()
SERVER: Final = SpaceCaller(is_server=True)
_caller: ContextVar[SpaceCaller] = ContextVar("elytron_space_caller", default=PROCESS)


def current_caller() -> SpaceCaller:
    """Return the caller of the current task."""
    return _caller.get()


@contextmanager
def calling_as(caller: SpaceCaller, /) -> Generator[None]:
    """Run the block, and the tasks that it starts, on behalf of `caller`."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


@dataclass(frozen=True, slots=True)
class SecretSession:
    """The open data keys of one space, for one generation of its secret, for a limited time."""

    inner: SpaceId
    generation: int
    since: Instant
    until: Instant
    keys: Mapping[int, "DataKey"] = field(repr=False)
    user_key: bytes = field(default=b"", repr=False)
    """The key that wraps the data keys, and seals the user's further spaces; empty in a grant's session."""

    def fits(self, slot: SecretSlot, now: Instant, /) -> bool:
        """Return whether it still opens the space of `slot`."""
        return now < self.until and (self.inner, self.generation) == (slot.inner, slot.generation)


class SecretSessions:
    """Sessions by space and principal. Lent ones belong to one task and the tasks that it starts."""

    def __init__(self, clock: Clock, /) -> None:
        self._clock = clock
        self._open: dict[SpaceId, dict[str, SecretSession]] = {}
        self._task_sessions: ContextVar[Mapping[SpaceId, SecretSession] | None] = ContextVar(
            "elytron_lent", default=None
        )

    def __iter__(self) -> Iterator[SpaceId]:
        return iter(tuple(self._open))

    def of(self, space: SpaceId, /) -> SecretSession | None:
        """Return the session of `space` for this task; None if there is none, or it has expired."""
        caller = current_caller()
        own_session = self.latest(space) if caller.is_server else self._open.get(space, {}).get(caller.principal)
        for session in (own_session, (self._task_sessions.get() or {}).get(space)):
            if session is not None and self._clock.now() < session.until:
                return session
        return None

    def latest(self, space: SpaceId, /) -> SecretSession | None:
        """Return the session of `space` that lasts longest, whoever opened it."""
        return max(self._open.get(space, {}).values(), key=lambda session: session.until, default=None)

    def is_open(self, space: SpaceId, /) -> bool:
        """Return whether anyone opened `space`; the session may have expired."""
        return space in self._open

    def begin(self, space: SpaceId, session: SecretSession, /) -> None:
        """Open `space` for the principal of this task."""
        self._open.setdefault(space, {})[current_caller().principal] = session

    def end(self, space: SpaceId, /) -> bool:
        """Drop all keys of `space`; return whether there were any."""
        return self._open.pop(space, None) is not None

    def end_stale(self, space: SpaceId, slot: SecretSlot, /) -> bool:
        """Drop the sessions that no longer open `space`; return whether there were some and none is left."""
        sessions = self._open.get(space)
        if sessions is None:
            return False
        now = self._clock.now()
        current_sessions = {principal: session for principal, session in sessions.items() if session.fits(slot, now)}
        if current_sessions:
            self._open[space] = current_sessions
            return False
        return self.end(space)

    def clear(self) -> None:
        """Drop all keys."""
        self._open.clear()

    @contextmanager
    def lend_session(self, space: SpaceId, session: SecretSession, /) -> Generator[None]:
        """Open `space` for this task, and those that it starts, until the block ends."""
        token = self._task_sessions.set({**(self._task_sessions.get() or {}), space: session})
        try:
            yield
        finally:
            self._task_sessions.reset(token)


class SecretSlots:
    """Reads slots, and compares them with the sessions of this process."""

    def __init__(self, inner_store: Store, sessions: SecretSessions, /) -> None:
        self.inner = inner_store
        self._sessions = sessions
        self._owners: LruCache[SpaceId, SpaceId | None] = LruCache(_OWNERS_KEPT)
        """Spaces by the inner spaces of the slots read so far."""

    async def document(self, space: SpaceId, /) -> Document | None:
        """Return the stored slot of `space`, None if it is under no secret."""
        (document,) = await self.inner.get(space, (SECRET_SLOT,))
        return document

    async def read(self, space: SpaceId, /) -> tuple[SecretSlot, int] | None:
        """Return the slot of `space` and its revision, None if it is under no secret. Raises SealBroken."""
        document = await self.document(space)
        if document is None:
            return None
        slot = read_secret_slot(document)
        for inner_space in slot.inners:
            self._owners[inner_space] = space
        return slot, document.revision

    async def owners(self, names: AsyncIterator[SpaceId], /) -> AsyncIterator[SpaceId]:
        """Yield `names`, each inner space as its space; leftovers of a sealing are skipped."""
        async for name in names:
            if name.startswith(INNER_PREFIX) and name not in self._owners:
                await self._read_all()
                self._owners.setdefault(name, None)
            owner = self._owners[name] if name.startswith(INNER_PREFIX) else name
            if owner is not None:
                yield owner

    async def _read_all(self) -> None:
        """Read all slots, the only source of an inner space's owner, for one that this process has not used."""
        async for space in scan_spaces(self.inner):
            if not space.startswith(INNER_PREFIX):
                with suppress(SealBroken):
                    await self.read(space)

    def require(self, space: SpaceId, slot: SecretSlot, /) -> SecretSession:
        """Return the session that opens the space of `slot`. Raises SpaceLocked, SpaceIncomplete, KeyDestroyed."""
        if slot.filled:
            raise incomplete_space(space)
        if slot.state is SecretSlotState.DESTROYED:
            raise KeyDestroyed
        session = self._sessions.of(space)
        if session is None or not session.fits(slot, Instant(0)):
            raise SpaceLocked(space=space)
        return session


def incomplete_space(space: SpaceId, /) -> SpaceIncomplete:
    """Return the error for calls of a space that is being sealed."""
    time_limit = f"within {limits.SECRET_MAKING_MS // 1000} s"
    problem = (
        f"is being sealed under its user's secret: try again. If sealing was interrupted, it is undone {time_limit}; "
        "the whole space can be erased at any time"
    )
    return SpaceIncomplete(space=space, problem=problem)


async def guard_revision(store: Store, inner_space: SpaceId, /) -> int:
    """Return the revision of the guard of an inner space, 0 if it has none."""
    (guard_document,) = await store.get(inner_space, (SECRET_GUARD,))
    return 0 if guard_document is None else guard_document.revision
