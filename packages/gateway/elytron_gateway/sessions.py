"""Sessions: which a user has written to, and how much of each was handed to extraction."""

from collections.abc import Callable

from elytron.context import OperationContext
from elytron_core.clock import Instant
from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.planes.gateway import SESSIONS, Session
from elytron_gateway.names import Owner
from elytron_gateway.shelves import Kept, Shelf, commit, record_of

ATTEMPTS = 16

Change = Callable[[Session, Instant], Session]


class Sessions:
    """The sessions of every owner."""

    def __init__(self, ctx: OperationContext, /) -> None:
        self._ctx = ctx
        self._shelf = Shelf(ctx, SESSIONS, Session)

    async def find(self, owner: Owner, session_id: str, /) -> Session | None:
        """Return the session, or None where nothing was written to it."""
        kept = await self._kept(owner, session_id)
        return kept.value if kept is not None else None

    async def grow(self, owner: Owner, session_id: str, /, *, messages: int) -> Session:
        """Count messages to the session, which begins with the first."""

        def grown(session: Session, now: Instant) -> Session:
            return session.model_copy(
                update={
                    "messages": session.messages + messages,
                    "updated_at": now,
                }
            )

        return await self._change(owner, session_id, grown)

    async def unflushed(self, owner: Owner, session_id: str, /) -> int | None:
        """Return up to which message the session is to be handed to extraction; None where nothing is new."""
        known = await self.find(owner, session_id)
        return known.messages if known is not None and known.flushed < known.messages else None

    async def flushed(self, owner: Owner, session_id: str, /, *, through: int) -> None:
        """Count the messages up to `through` as handed to extraction."""

        def flushed(session: Session, now: Instant) -> Session:
            return session.model_copy(update={"flushed": max(session.flushed, through), "updated_at": now})

        await self._change(owner, session_id, flushed)

    async def remove(self, owner: Owner, session_id: str, /) -> None:
        """Let go of the session's record."""
        kept = await self._kept(owner, session_id)
        if kept is not None:
            await commit(self._ctx, owner.space, self._shelf.remove(kept))

    async def messages(self, space: SpaceId, /) -> int:
        """Return how many messages were added to a space's sessions."""
        return sum([kept.value.messages async for kept in self._shelf.all(space)])

    async def _kept(self, owner: Owner, session_id: str) -> Kept[Session] | None:
        if await self._ctx.spaces.find(owner.space) is None:
            return None
        return await self._shelf.get(owner.space, await self._place(owner, session_id))

    async def _change(self, owner: Owner, session_id: str, change: Change) -> Session:
        for attempt in range(1, ATTEMPTS + 1):
            key = await self._place(owner, session_id)
            kept = await self._shelf.get(owner.space, key)
            now = self._ctx.clock.now()
            before = kept.value if kept is not None else Session(session_id=session_id, created_at=now, updated_at=now)
            after = change(before, now)
            try:
                put = self._shelf.put(key, after, expects=kept.revision if kept is not None else 0)
                await commit(self._ctx, owner.space, put)
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                continue
            return after
        raise AssertionError("unreachable")

    async def _place(self, owner: Owner, session_id: str) -> str:
        return (await record_of(self._ctx, owner.space)).tag("gateway session", session_id)
