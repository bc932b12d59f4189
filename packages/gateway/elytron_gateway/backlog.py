"""What an upstream that is down was not told yet: kept durably, told in its order when it answers again."""

from collections.abc import Sequence

from elytron.context import OperationContext
from elytron_core.errors import Unreachable
from elytron_core.ids import SpaceId
from elytron_core.planes.gateway import BACKLOG, Waiting, WaitingMessage
from elytron_gateway import blobs
from elytron_gateway.names import Owner
from elytron_gateway.shelves import Kept, Shelf, commit, record_of
from elytron_gateway.upstream import Added, Flushed, Found, Told, Upstream, Where


class BackedUpstream:
    """An upstream whose additions are never lost: what it cannot take now is kept and told before what comes later."""

    def __init__(self, ctx: OperationContext, upstream: Upstream, /) -> None:
        self._ctx = ctx
        self._upstream = upstream
        self._shelf = Shelf(ctx, BACKLOG, Waiting)

    async def add(self, owner: Owner, session: str, told: Sequence[Told], /) -> Added:
        """Tell the upstream, or keep the messages until it answers; what is kept is said so."""
        try:
            await self.drain(owner)
            return await self._upstream.add(owner, session, told)
        except Unreachable:
            await record_of(self._ctx, owner.space)
            waiting = Waiting(
                user=owner.user,
                app=owner.app,
                project=owner.project,
                session_id=session,
                messages=tuple(
                    WaitingMessage(message=one.message, key=one.key, tags=one.tags, metadata=one.metadata)
                    for one in told
                ),
                at=self._ctx.clock.now(),
            )
            await commit(self._ctx, owner.space, self._shelf.put(blobs.new_key(self._ctx), waiting, expects=0))
            return Added(is_queued=True)

    async def drain(self, owner: Owner, /) -> int:
        """Tell the upstream what it was not told yet, oldest first; return how much. Raises Unreachable."""
        told = 0
        for kept in await self._waiting(owner.space):
            value = kept.value
            messages = [Told(one.message, one.key, one.tags, one.metadata) for one in value.messages]
            await self._upstream.add(Owner(value.user, value.app, value.project), value.session_id, messages)
            await commit(self._ctx, owner.space, self._shelf.remove(kept))
            told += 1
        return told

    async def waiting(self, space: SpaceId, /) -> int:
        """Return how many additions of a space wait."""
        return len(await self._waiting(space))

    async def flush(self, owner: Owner, session: str, /) -> Flushed:
        await self.drain(owner)
        return await self._upstream.flush(owner, session)

    async def search(self, owner: Owner, query: str, where: Where, /, *, limit: int) -> Sequence[Found]:
        return await self._upstream.search(owner, query, where, limit=limit)

    async def session_of(self, owner: Owner, memory_id: str, /) -> str | None:
        return await self._upstream.session_of(owner, memory_id)

    async def hide(self, owner: Owner, memory_id: str, /, *, undo: bool) -> None:
        await self._upstream.hide(owner, memory_id, undo=undo)

    async def erase(self, owner: Owner, memory_ids: Sequence[str], /) -> int:
        return await self._upstream.erase(owner, memory_ids)

    async def healthy(self) -> bool:
        return await self._upstream.healthy()

    async def _waiting(self, space: SpaceId) -> list[Kept[Waiting]]:
        if await self._ctx.spaces.find(space) is None:
            return []
        return [kept async for kept in self._shelf.all(space)]
