"""The everyday calls: the typed request, or plain values."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from elytron.api import arguments, validation
from elytron.api.base import Face
from elytron_core import limits
from elytron_core.contracts.admin import archive, erasures, inspection
from elytron_core.contracts.conversation import projection
from elytron_core.contracts.conversation import write as contracts_write
from elytron_core.contracts.knowledge import control
from elytron_core.contracts.knowledge import recall as contracts_recall


class EverydayFace(Face):
    """Write, recall, project, control, look, move and end."""

    async def write(self, request: contracts_write.MemoryWriteRequest, /) -> contracts_write.MemoryWriteReport:
        """Store evidence, facts or procedures as one durable batch. Raises TurnConflict, IdempotencyConflict."""
        return await self.operate(request, contracts_write.MemoryWriteReport)

    async def add(
        self,
        messages: arguments.Messages,
        *,
        speaker: str | None = None,
        at: arguments.When | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        idempotency_key: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> contracts_write.MemoryWriteReport:
        """Store a text or messages as evidence, each message a turn of its own; it can be recalled at once."""
        write = arguments.transcript_of(messages, speaker=speaker, at=at, tags=tags, metadata=metadata)
        scope = arguments.scope_of(
            self.scope, user_id=user_id, agent_id=agent_id, run_id=run_id, conversation=conversation
        )
        return await self.write(arguments.write_of(write, scope=scope, idempotency_key=idempotency_key))

    async def recall(
        self,
        query: str | contracts_recall.MemoryRecallRequest,
        *,
        limit: int = limits.RECALL_DEFAULT,
        top_k: int | None = None,
        max_tokens: int | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        cursor: str | None = None,
        diversity: contracts_recall.Diversity = contracts_recall.Diversity.AUTO,
        neighbours: int = 0,
        min_score: float = 0.0,
        why_not: Sequence[str] = (),
        include_private: bool = False,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> contracts_recall.MemoryRecallReport:
        """Find what answers the query, best first, from the whole space or what the filters leave of it.

        `filters` may be nested ones as mem0 takes them, which may name the user; `top_k` is its word for `limit`.
        """
        if isinstance(query, str):
            user_id, narrowed = arguments.narrowed_by(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
            query = contracts_recall.MemoryRecallRequest(
                scope=arguments.scope_of(self.scope, user_id=user_id),
                query=query,
                limit=limit if top_k is None else top_k,
                max_tokens=max_tokens,
                filters=narrowed,
                cursor=cursor,
                diversity=diversity,
                neighbours=neighbours,
                min_score=min_score,
                why_not=validation.texts(why_not, field="why_not"),
                include_private=include_private,
            )
        return await self.operate(query, contracts_recall.MemoryRecallReport)

    search = recall

    async def project(
        self,
        query: str | projection.MemoryProjectionRequest,
        /,
        *,
        max_chars: int = limits.PROJECTION_CHARS_DEFAULT,
        conversation: str | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        user_id: str | None = None,
    ) -> projection.MemoryProjectionReport:
        """Build the bounded block that a model may see for this query.

        `conversation` is the one whose last messages are shown; what is recalled comes from all, but for `filters`.
        """
        if isinstance(query, str):
            user_id, narrowed = arguments.narrowed_by(filters, user_id=user_id)
            scope = arguments.scope_of(self.scope, user_id=user_id, conversation=conversation)
            query = projection.MemoryProjectionRequest(scope=scope, query=query, max_chars=max_chars, filters=narrowed)
        return await self.operate(query, projection.MemoryProjectionReport)

    async def get(
        self, memory_id: str | control.MemoryGetRequest, *, include_private: bool = False, user_id: str | None = None
    ) -> contracts_recall.RecallHit:
        """Read one memory by its id. Raises NotFound."""
        if isinstance(memory_id, str):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            memory_id = control.MemoryGetRequest(scope=scope, id=memory_id, include_private=include_private)
        return await self.operate(memory_id, contracts_recall.RecallHit)

    async def list(
        self,
        request: control.MemoryListRequest | None = None,
        /,
        *,
        limit: int = 100,
        cursor: str | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        hidden: control.Hidden = control.Hidden.LEFT_OUT,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> control.MemoryListReport:
        """Read memories a page at a time."""
        if request is None:
            user_id, narrowed = arguments.narrowed_by(filters, user_id=user_id)
            scope = arguments.scope_of(self.scope, user_id=user_id)
            request = control.MemoryListRequest(
                scope=scope,
                limit=limit,
                cursor=cursor,
                filters=narrowed,
                hidden=validation.word(control.Hidden, hidden, field="hidden"),
                include_private=include_private,
            )
        return await self.operate(request, control.MemoryListReport)

    async def history(
        self,
        memory_id: str | control.MemoryHistoryRequest,
        *,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> control.MemoryHistoryReport:
        """Read what happened to a memory, oldest first. Raises NotFound."""
        if isinstance(memory_id, str):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            memory_id = control.MemoryHistoryRequest(scope=scope, id=memory_id, include_private=include_private)
        return await self.operate(memory_id, control.MemoryHistoryReport)

    async def forget(
        self,
        memories: str | Sequence[str] | control.MemoryForgetRequest,
        /,
        *,
        undo: bool = False,
        reason: str = "",
        user_id: str | None = None,
    ) -> control.MemoryControlReport:
        """Hide memories from recall and projection, by their ids; `undo` brings them back."""
        if not isinstance(memories, control.MemoryForgetRequest):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            ids = validation.ids(memories)
            memories = control.MemoryForgetRequest(scope=scope, ids=ids, reason=reason, undo=undo)
        return await self.operate(memories, control.MemoryControlReport)

    async def correct(
        self,
        memory_id: str | control.MemoryCorrectRequest,
        content: str = "",
        /,
        *,
        reason: str = "",
        user_id: str | None = None,
    ) -> control.MemoryControlReport:
        """Replace a fact's content; the old version stays in history. Raises NotFound."""
        if isinstance(memory_id, str):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            memory_id = control.MemoryCorrectRequest(scope=scope, id=memory_id, content=content, reason=reason)
        return await self.operate(memory_id, control.MemoryControlReport)

    async def erase(
        self,
        memories: str | Sequence[str] | control.MemoryEraseRequest = (),
        /,
        *,
        whole_space: str | None = None,
        reason: str = "",
        user_id: str | None = None,
    ) -> control.MemoryControlReport:
        """Remove memories by their ids, or the whole space by its name, physically.

        Raises ScopeMissing if nothing is named.
        """
        if not isinstance(memories, control.MemoryEraseRequest):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            ids = validation.ids(memories)
            memories = control.MemoryEraseRequest(scope=scope, ids=ids, whole_space=whole_space, reason=reason)
        return await self.operate(memories, control.MemoryControlReport)

    async def inspect(
        self,
        request: inspection.MemoryInspectionRequest | None = None,
        /,
        *,
        check: bool = False,
        head: str | None = None,
        user_id: str | None = None,
    ) -> inspection.MemoryInspectionReport:
        """Say what the space holds, with fingerprints; with `check`, whether its store is sound."""
        if request is None:
            scope = arguments.scope_of(self.scope, user_id=user_id)
            request = inspection.MemoryInspectionRequest(scope=scope, check=check, head=head)
        return await self.operate(request, inspection.MemoryInspectionReport)

    async def replay(
        self,
        request: str | inspection.MemoryReplayRequest | None = None,
        /,
        *,
        limit: int = limits.LEDGER_TURNS,
        cursor: str | None = None,
        order: inspection.LedgerOrder = inspection.LedgerOrder.LATEST,
        user_id: str | None = None,
    ) -> inspection.MemoryReplayReport:
        """Read the last turns of a conversation, or with `order` the first; a text names the conversation."""
        if not isinstance(request, inspection.MemoryReplayRequest):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            order = validation.word(inspection.LedgerOrder, order, field="order")
            request = inspection.MemoryReplayRequest(
                scope=scope, chat_id=request, limit=limit, cursor=cursor, order=order
            )
        return await self.operate(request, inspection.MemoryReplayReport)

    async def export(
        self,
        target: str | PathLike[str] | archive.MemorySpaceExportRequest,
        /,
        *,
        include_private: bool = False,
        overwrite: bool = False,
        user_id: str | None = None,
    ) -> archive.MemorySpaceExportReport:
        """Write what of the space may leave its owner's hands to one archive file, or with `include_private` all.

        A file that exists is replaced only with `overwrite`.
        """
        if not isinstance(target, archive.MemorySpaceExportRequest):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            target = archive.MemorySpaceExportRequest(
                scope=scope, path=fspath(target), include_private=include_private, overwrite=overwrite
            )
        return await self.operate(target, archive.MemorySpaceExportReport)

    async def import_archive(
        self,
        source: str | PathLike[str] | archive.MemoryImportRequest,
        /,
        *,
        mode: archive.ImportMode = archive.ImportMode.FULL_RESTORE,
        user_id: str | None = None,
    ) -> archive.MemoryImportReport:
        """Read an archive file into the space: exactly into an empty one, or what is new (see ImportMode)."""
        if not isinstance(source, archive.MemoryImportRequest):
            scope = arguments.scope_of(self.scope, user_id=user_id)
            mode = validation.word(archive.ImportMode, mode, field="mode")
            source = archive.MemoryImportRequest(scope=scope, path=fspath(source), mode=mode)
        return await self.operate(source, archive.MemoryImportReport)

    async def keep_erasures(
        self, target: str | PathLike[str] | erasures.MemoryErasuresKeepRequest, /
    ) -> erasures.MemoryErasuresKeepReport:
        """Write the erasures to a file, beside those already in it; it has no content of memories."""
        if not isinstance(target, erasures.MemoryErasuresKeepRequest):
            target = erasures.MemoryErasuresKeepRequest(path=fspath(target))
        return await self.operate(target, erasures.MemoryErasuresKeepReport)

    async def apply_erasures(
        self, source: str | PathLike[str] | erasures.MemoryErasuresApplyRequest, /
    ) -> erasures.MemoryErasuresApplyReport:
        """Erase again what such a file lists, if an older copy brought it back."""
        if not isinstance(source, erasures.MemoryErasuresApplyRequest):
            source = erasures.MemoryErasuresApplyRequest(path=fspath(source))
        return await self.operate(source, erasures.MemoryErasuresApplyReport)

    async def recover(
        self, request: inspection.MemoryRecoverRequest | None = None, /
    ) -> inspection.MemoryLifecycleReport:
        """Check the store and rebuild the space's index from its journal."""
        return await self.operate(request or inspection.MemoryRecoverRequest(), inspection.MemoryLifecycleReport)

    async def close(self, request: inspection.MemoryCloseRequest | None = None, /) -> inspection.MemoryLifecycleReport:
        """Finish what was accepted and let go of the store; a second close does nothing."""
        return await self.operate(request or inspection.MemoryCloseRequest(), inspection.MemoryLifecycleReport)
