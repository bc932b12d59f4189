"""The facade: one line per operation. What an operation does stands in `elytron.ops`."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self

from elytron import ops, plain
from elytron.clearing import delete_all
from elytron.context import OperationContext
from elytron_core import limits
from elytron_core.contracts import control, inspecting, moving, projecting, recalling, writing
from elytron_core.scope import Scope


class MemoryRuntime:
    """Governed memory over one store. Every call is a typed operation of one memory space and returns its report.

    Calls take the typed request; the everyday ones also take plain values, and the ids that mem0's users know:
    `user_id` names the space, `agent_id` the agent, `run_id` the conversation. Many calls may run at once.
    `async with elytron.open(...) as memory` opens and closes it.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._context = context

    @property
    def context(self) -> OperationContext:
        """Return what the operations work with: the store, clock, ids and index of this runtime."""
        return self._context

    @property
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""
        return self._context.default_scope

    async def write(self, request: writing.MemoryWriteRequest, /) -> writing.MemoryWriteReport:
        """Store evidence, facts or procedures as one durable batch. Raises TurnConflict, IdempotencyConflict."""
        return await ops.write(self._context, request)

    async def add(
        self,
        messages: plain.Messages,
        /,
        *,
        speaker: str | None = None,
        at: plain.When | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        idempotency_key: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> writing.MemoryWriteReport:
        """Store a text or messages as evidence, each message a turn of its own; it can be recalled at once."""
        turns = plain.turns_of(messages, speaker=speaker, at=at, tags=tags, metadata=metadata)
        scope = plain.scope_of(
            self.scope, user_id=user_id, agent_id=agent_id, run_id=run_id, conversation=conversation
        )
        write = writing.TranscriptWrite(turns=turns)
        return await self.write(
            writing.MemoryWriteRequest(scope=scope, write=write, idempotency_key=idempotency_key)
        )

    async def recall(
        self,
        query: str | recalling.MemoryRecallRequest,
        /,
        *,
        limit: int = limits.RECALL_DEFAULT,
        max_tokens: int | None = None,
        filters: recalling.RecallFilters | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> recalling.MemoryRecallReport:
        """Find what answers the query, best first, from the whole space or what the filters leave of it."""
        if isinstance(query, str):
            query = recalling.MemoryRecallRequest(
                scope=plain.scope_of(self.scope, user_id=user_id),
                query=query,
                limit=limit,
                max_tokens=max_tokens,
                filters=plain.filters_of(filters, agent_id=agent_id, run_id=run_id),
            )
        return await ops.recall(self._context, query)

    search = recall

    async def project(
        self,
        query: str | projecting.MemoryProjectionRequest,
        /,
        *,
        max_chars: int = limits.PROJECTION_CHARS_DEFAULT,
        user_id: str | None = None,
    ) -> projecting.MemoryProjectionReport:
        """Build the bounded block that a model may see for this query."""
        if isinstance(query, str):
            scope = plain.scope_of(self.scope, user_id=user_id)
            query = projecting.MemoryProjectionRequest(scope=scope, user_query=query, system_max_len=max_chars)
        return await ops.project(self._context, query)

    async def get(
        self, memory: str | control.MemoryGetRequest, /, *, user_id: str | None = None
    ) -> recalling.RecallHit:
        """Read one memory by its id. Raises NotFound."""
        if isinstance(memory, str):
            memory = control.MemoryGetRequest(scope=plain.scope_of(self.scope, user_id=user_id), id=memory)
        return await ops.get(self._context, memory)

    async def list(self, request: control.MemoryListRequest | None = None, /) -> control.MemoryListReport:
        """Read memories a page at a time."""
        return await ops.list_memories(self._context, request or control.MemoryListRequest())

    async def get_all(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        filters: recalling.RecallFilters | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> control.MemoryListReport:
        """Read memories a page at a time, by mem0's name."""
        return await self.list(
            control.MemoryListRequest(
                scope=plain.scope_of(self.scope, user_id=user_id),
                limit=limit,
                cursor=cursor,
                filters=plain.filters_of(filters, agent_id=agent_id, run_id=run_id),
            )
        )

    async def history(
        self, memory: str | control.MemoryHistoryRequest, /, *, user_id: str | None = None
    ) -> control.MemoryHistoryReport:
        """Read what happened to a memory, oldest first. Raises NotFound."""
        if isinstance(memory, str):
            memory = control.MemoryHistoryRequest(scope=plain.scope_of(self.scope, user_id=user_id), id=memory)
        return await ops.history(self._context, memory)

    async def forget(self, request: control.MemoryForgetRequest, /) -> control.MemoryControlReport:
        """Hide memories from recall and projection; `undo` brings them back."""
        return await ops.forget(self._context, request)

    async def correct(self, request: control.MemoryCorrectRequest, /) -> control.MemoryControlReport:
        """Replace a fact's content; the old version stays in history. Raises NotFound."""
        return await ops.correct(self._context, request)

    async def erase(self, request: control.MemoryEraseRequest, /) -> control.MemoryControlReport:
        """Remove memories, or the whole space, physically. Raises ScopeMissing where nothing is named."""
        return await ops.erase(self._context, request)

    async def delete(self, memory: str, /, *, user_id: str | None = None) -> control.MemoryControlReport:
        """Erase one memory, by mem0's name. Raises NotFound."""
        await self.get(memory, user_id=user_id)
        scope = plain.scope_of(self.scope, user_id=user_id)
        return await self.erase(control.MemoryEraseRequest(scope=scope, ids=(memory,)))

    async def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> control.MemoryControlReport:
        """Erase a user's space, or an agent's or run's part of it, by mem0's name. Raises ScopeMissing without any."""
        return await delete_all(self._context, user_id=user_id, agent_id=agent_id, run_id=run_id)

    async def inspect(
        self, request: inspecting.MemoryInspectionRequest | None = None, /
    ) -> inspecting.MemoryInspectionReport:
        """Say what the space holds, with fingerprints; with `check`, whether its store is sound."""
        return await ops.inspect(self._context, request or inspecting.MemoryInspectionRequest())

    async def replay(
        self, request: str | inspecting.MemoryReplayRequest | None = None, /
    ) -> inspecting.MemoryReplayReport:
        """Read a conversation's turn ledger a page at a time; a text names the conversation."""
        if isinstance(request, str):
            request = inspecting.MemoryReplayRequest(chat_id=request)
        return await ops.replay(self._context, request or inspecting.MemoryReplayRequest())

    async def export(self, target: str | PathLike[str] | moving.MemoryExportRequest, /) -> moving.MemoryExportReport:
        """Write the whole space to one archive file."""
        if not isinstance(target, moving.MemoryExportRequest):
            target = moving.MemoryExportRequest(path=fspath(target))
        return await ops.export(self._context, target)

    async def import_archive(
        self, source: str | PathLike[str] | moving.MemoryImportRequest, /
    ) -> moving.MemoryImportReport:
        """Read an archive file into the space: exactly into an empty one, or what is new (see ImportMode)."""
        if not isinstance(source, moving.MemoryImportRequest):
            source = moving.MemoryImportRequest(path=fspath(source))
        return await ops.import_archive(self._context, source)

    async def recover(
        self, request: inspecting.MemoryRecoverRequest | None = None, /
    ) -> inspecting.MemoryLifecycleReport:
        """Check the store and build the space's index anew from its journal."""
        return await ops.recover(self._context, request or inspecting.MemoryRecoverRequest())

    async def close(self, request: inspecting.MemoryCloseRequest | None = None, /) -> inspecting.MemoryLifecycleReport:
        """Finish what was accepted and let go of the store; a second close does nothing."""
        return await ops.close(self._context, request or inspecting.MemoryCloseRequest())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
