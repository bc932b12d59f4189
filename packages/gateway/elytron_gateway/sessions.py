"""Gateway sessions: which one a user writes to, and how much of each was submitted for extraction."""

from elytron.context import OperationContext
from elytron_adapter.system_documents import record_of
from elytron_core import strict_json
from elytron_core.errors import PermissionRefused
from elytron_core.planes.servers.gateway import SESSIONS, GatewaySession, SpaceCounts
from elytron_core.ports.store import BatchKey, PutChange
from elytron_gateway import names
from elytron_gateway.collection import CollectionDocument, CollectionRepository
from elytron_gateway.names import MemoryOwner, SessionKind
from elytron_gateway.quotas import PlannedChange, Room, SpaceCounting

_ADD = "gateway add"


class OwnerSessions:
    """The sessions of every owner."""

    def __init__(self, ctx: OperationContext, space_counting: SpaceCounting, /) -> None:
        self._ctx = ctx
        self._counting = space_counting
        self._repository = CollectionRepository(ctx, SESSIONS, GatewaySession)

    async def find(self, owner: MemoryOwner, session_id: str, /) -> GatewaySession | None:
        """Return the session, or None if nothing was written to it."""
        document = await self._read_session(owner, session_id)
        return document.value if document is not None else None

    async def require(self, owner: MemoryOwner, session_id: str, /) -> None:
        """Raise PermissionRefused for a session of another user, and for a chat that this one has not written to.

        The error is the same if another user has such a chat, so that it does not reveal one.
        """
        name = names.owned_session(session_id, owner)
        if name.kind is SessionKind.CHAT and await self.find(owner, session_id) is None:
            raise PermissionRefused(names.FOREIGN)

    async def grow(self, owner: MemoryOwner, session_id: str, /, *, messages: int, room: Room, key: str | None) -> None:
        """Count messages that are about to be added to the session, which starts with the first; with a key, once.

        Raises what `room` raises if there is no room for them.
        """
        record = await record_of(self._ctx, owner.space)
        batch_tag = record.tag(_ADD, session_id, key) if key is not None else None
        batch_key = (
            BatchKey(batch_tag, strict_json.sha256_digest(_ADD.encode()), b"") if batch_tag is not None else None
        )

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            grown_counts = counts.model_copy(update={"messages": counts.messages + messages})
            await room(grown_counts)
            document = await self._read_session(owner, session_id) or await self._new(owner, session_id)
            return PlannedChange(
                None, grown_counts, (self._counted(document, document.value.messages + messages),), batch_key
            )

        await self._counting.change(owner.space, plan)

    async def shrink(self, owner: MemoryOwner, session_id: str, /, *, messages: int | None) -> None:
        """Subtract messages that were not added or are gone, None for all; the record of an empty session is
        removed."""

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            document = await self._read_session(owner, session_id)
            if document is None:
                return PlannedChange(None, counts)
            remaining_messages = max(document.value.messages - messages, 0) if messages is not None else 0
            reduced_counts = counts.model_copy(
                update={"messages": counts.messages - document.value.messages + remaining_messages}
            )
            return PlannedChange(
                None,
                reduced_counts,
                (
                    self._counted(document, remaining_messages)
                    if remaining_messages
                    else self._repository.remove(document),
                ),
            )

        await self._counting.change(owner.space, plan)

    async def flushed(self, owner: MemoryOwner, session_id: str, /, *, through: int) -> None:
        """Count the messages up to `through` as passed to extraction."""

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            document = await self._read_session(owner, session_id)
            if document is None or document.value.flushed >= through:
                return PlannedChange(None, counts)
            flushed_session = document.value.model_copy(
                update={"flushed": through, "updated_at": self._ctx.clock.now()}
            )
            return PlannedChange(
                None, counts, (self._repository.put(document.key, flushed_session, expects=document.revision),)
            )

        await self._counting.change(owner.space, plan)

    def _counted(self, document: CollectionDocument[GatewaySession], messages: int) -> PutChange:
        counted_session = document.value.model_copy(update={"messages": messages, "updated_at": self._ctx.clock.now()})
        return self._repository.put(document.key, counted_session, expects=document.revision)

    async def _new(self, owner: MemoryOwner, session_id: str) -> CollectionDocument[GatewaySession]:
        now = self._ctx.clock.now()
        session = GatewaySession(session_id=session_id, created_at=now, updated_at=now)
        return CollectionDocument(await self._place(owner, session_id), session, 0)

    async def _read_session(self, owner: MemoryOwner, session_id: str) -> CollectionDocument[GatewaySession] | None:
        if await self._ctx.spaces.find(owner.space) is None:
            return None
        return await self._repository.get(owner.space, await self._place(owner, session_id))

    async def _place(self, owner: MemoryOwner, session_id: str) -> str:
        return (await record_of(self._ctx, owner.space)).tag("gateway session", session_id)
