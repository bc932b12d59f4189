"""Overrides and tombstones: changes to how a memory is shown; the memory itself is unchanged."""

from typing import Final

from elytron.context import OperationContext
from elytron_adapter.system_documents import record_of
from elytron_core.errors import AlreadyExists, Conflict, InvalidInput, LimitExceeded, NotFound
from elytron_core.planes.servers.gateway import EDITS, EditKind, MemoryOverride, SpaceCounts
from elytron_core.planes.transcript import Message
from elytron_core.text.similarity import is_blank
from elytron_gateway import names
from elytron_gateway.collection import CollectionDocument, CollectionRepository
from elytron_gateway.names import MemoryOwner
from elytron_gateway.quotas import PlannedChange, SpaceCounting
from elytron_gateway.sessions import OwnerSessions
from elytron_gateway.upstream.port import EmbeddedUpstream, FoundMemory, SearchWhere, UpstreamMemory, UpstreamMessage

MAX_EDITS: Final = 10_000
"""Overrides and tombstones of one space."""


EDIT_OF = "edit_of"
EDIT_SESSION = "edit_session"
_UNDO_FIRST: Final = "the memory is hidden, and overriding its text does not restore it: undo the deletion first"


def edit_tag(session_id: str, /) -> str:
    """Return the tag of a session's edits; those of resources share one."""
    return RESOURCE_TAG if session_id.startswith("resource:") else f"edits:{session_id}"


RESOURCE_TAG = "resource"


class MemoryEdits:
    """The edits of every owner.

    An override's text is stored in the owner's `memory_edit` session, so that it is found by its own words; the memory
    beneath is hidden where the upstream can do that, and returns when the edit is undone. Its words find the override
    too.
    """

    def __init__(
        self,
        ctx: OperationContext,
        upstream: UpstreamMemory,
        embedded_upstream: EmbeddedUpstream,
        sessions: OwnerSessions,
        space_counting: SpaceCounting,
        /,
    ) -> None:
        self._ctx = ctx
        self._sessions = sessions
        self._counting = space_counting
        self._upstream = upstream
        self._local = embedded_upstream
        self._repository = CollectionRepository(ctx, EDITS, MemoryOverride)

    async def of(self, owner: MemoryOwner, memory_ids: list[str], /) -> dict[str, MemoryOverride]:
        """Return the edits over these memories."""
        if not memory_ids:
            return {}
        record = await record_of(self._ctx, owner.space)
        memory_by_tag = {record.tag("gateway edit", memory_id): memory_id for memory_id in memory_ids}
        edits = await self._repository.among(owner.space, tuple(memory_by_tag))
        return {memory_by_tag[key]: edit for key, edit in edits.items()}

    async def beneath(
        self, owner: MemoryOwner, query: str, search_where: SearchWhere, /, *, limit: int
    ) -> list[FoundMemory]:
        """Return the memories that answer `query` by words that overrides hide."""
        scores_by_tag = await self._local.beneath(owner, query, search_where, limit=limit)
        edits = await self._repository.among(owner.space, tuple(scores_by_tag))
        memories = [
            await self._local.find_memory(owner, edit.memory_id, score=scores_by_tag[key])
            for key, edit in edits.items()
        ]
        return [item for item in memories if item is not None]

    async def all(self, owner: MemoryOwner, /) -> list[MemoryOverride]:
        """Return every edit of the owner, oldest first."""
        if not (await self._counting.of(owner.space)).edits:
            return []
        return sorted(
            [document.value async for document in self._repository.all(owner.space)], key=lambda edit: edit.at
        )

    async def override(self, owner: MemoryOwner, memory_id: str, session_id: str, text: str, /) -> MemoryOverride:
        """Make search show `text` for a memory. Raises NotFound if the session has no such memory.

        Raises AlreadyExists for a hidden memory, which only `undo` restores.

        Raises InvalidInput, with nothing done, for a text without a visible character, or with only own output.
        """
        now = self._ctx.clock.now()
        edit = self._repository.admit(
            MemoryOverride(kind=EditKind.OVERRIDE, memory_id=memory_id, session_id=session_id, text=text, at=now)
        )
        if is_blank(edit.text):
            raise InvalidInput(field="text", problem="has no visible character: delete the memory to hide it")
        await self._require(owner, memory_id, session_id)
        message = UpstreamMessage(
            Message(text=edit.text, speaker=owner.user, at=now),
            tags=(edit_tag(session_id),),
            metadata={EDIT_OF: memory_id, EDIT_SESSION: session_id},
        )
        # The text first: without its edit, no search shows it.
        (told_by,) = (await self._local.add(owner, names.memory_edit(owner.user), (message,))).ids
        return await self._lay(owner, edit.model_copy(update={"told_by": told_by}))

    async def add_tombstone(
        self, owner: MemoryOwner, memory_id: str, session_id: str, reason: str, /
    ) -> MemoryOverride:
        """Hide a memory from search. Raises NotFound if the session has no such memory."""
        await self._require(owner, memory_id, session_id)
        now = self._ctx.clock.now()
        edit = MemoryOverride(
            kind=EditKind.TOMBSTONE, memory_id=memory_id, session_id=session_id, reason=reason, at=now
        )
        return await self._lay(owner, self._repository.admit(edit))

    async def undo(self, owner: MemoryOwner, memory_id: str, session_id: str, /) -> MemoryOverride:
        """Remove the edit of a memory, which is shown as it was. Raises NotFound if there is none."""
        await self._require(owner, memory_id, session_id)
        edit = await self._take_off(owner, memory_id)
        if edit is None:
            raise NotFound(what="edit of memory", name=memory_id)
        await self._upstream.hide(owner, memory_id, undo=True)
        return edit

    async def purge(self, owner: MemoryOwner, memory_id: str, session_id: str, /) -> bool:
        """Permanently erase a memory and its override; return whether there was one."""
        await self._require(owner, memory_id, session_id)
        # The memory first: if interrupted here, its edit still hides it.
        erased_count = await self._upstream.erase(owner, (memory_id,))
        await self._take_off(owner, memory_id)
        return erased_count > 0

    async def lift_all(self, owner: MemoryOwner, session_id: str, /) -> None:
        """Undo every edit of a session."""
        for edit in await self.all(owner):
            if edit.session_id == session_id:
                await self.undo(owner, edit.memory_id, session_id)

    async def _lay(self, owner: MemoryOwner, edit: MemoryOverride) -> MemoryOverride:
        """Store `edit` for its memory, replacing the previous one."""
        key = await self._place(owner, edit.memory_id)

        async def plan(counts: SpaceCounts) -> PlannedChange[MemoryOverride | None]:
            previous_override = await self._read_override(owner, edit.memory_id)
            if (
                previous_override is not None
                and previous_override.value.kind is EditKind.TOMBSTONE
                and edit.kind is EditKind.OVERRIDE
            ):
                raise AlreadyExists(what="tombstone of memory", name=edit.memory_id, problem=_UNDO_FIRST)
            if previous_override is not None:
                return PlannedChange(
                    previous_override.value,
                    counts,
                    (self._repository.put(key, edit, expects=previous_override.revision),),
                )
            if counts.edits >= MAX_EDITS:
                raise LimitExceeded(what="overrides and tombstones per space", limit=MAX_EDITS)
            grown_counts = counts.model_copy(update={"edits": counts.edits + 1})
            return PlannedChange(None, grown_counts, (self._repository.put(key, edit, expects=0),))

        try:
            before = await self._counting.change(owner.space, plan)
        except (Conflict, LimitExceeded):
            # The text was added already, and would stay unseen.
            await self._lift(owner, edit)
            raise
        if before is not None:
            await self._lift(owner, before)
        await self._upstream.hide(owner, edit.memory_id, undo=False)
        return edit

    async def _take_off(self, owner: MemoryOwner, memory_id: str) -> MemoryOverride | None:
        """Remove a memory's override with its text; return it."""

        async def plan(counts: SpaceCounts) -> PlannedChange[MemoryOverride | None]:
            document = await self._read_override(owner, memory_id)
            if document is None:
                return PlannedChange(None, counts)
            reduced_counts = counts.model_copy(update={"edits": counts.edits - 1})
            return PlannedChange(document.value, reduced_counts, (self._repository.remove(document),))

        edit = await self._counting.change(owner.space, plan)
        if edit is not None:
            await self._lift(owner, edit)
        return edit

    async def _lift(self, owner: MemoryOwner, edit: MemoryOverride) -> None:
        """Remove the text of an override."""
        if edit.told_by is not None:
            await self._local.erase(owner, (edit.told_by,))

    async def _require(self, owner: MemoryOwner, memory_id: str, session_id: str) -> None:
        """Raise NotFound unless the memory is in the session, if the upstream knows.

        A chat that the owner has not written to is refused alike, also if another user has it.
        """
        # The edit first, since an upstream may not know the session of a memory.
        edit = await self._read_override(owner, memory_id)
        not_found = NotFound(what="memory", name=memory_id)
        try:
            memory_session = (
                edit.value.session_id if edit is not None else await self._upstream.session_of(owner, memory_id)
            )
        except NotFound as error:
            memory_session, not_found = "", error
        if memory_session == session_id:
            return
        await self._sessions.require(owner, session_id)
        if memory_session is not None:
            raise not_found

    async def _read_override(self, owner: MemoryOwner, memory_id: str) -> CollectionDocument[MemoryOverride] | None:
        if await self._ctx.spaces.find(owner.space) is None:
            return None
        return await self._repository.get(owner.space, await self._place(owner, memory_id))

    async def _place(self, owner: MemoryOwner, memory_id: str) -> str:
        return (await record_of(self._ctx, owner.space)).tag("gateway edit", memory_id)
