"""The everyday calls, which take a typed request or plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

from elytron.api import calls
from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron_core import limits
from elytron_core.contracts import inspection, projection
from elytron_core.contracts import memories as contracts_memories
from elytron_core.contracts import recall as contracts_recall
from elytron_core.contracts import transcript as contracts_write


class EverydayFace(CallFace):
    """Write, recall, project, read and control memories."""

    async def write(self, request: contracts_write.MemoryWriteRequest, /) -> contracts_write.MemoryWriteReport:
        """Store evidence, facts or procedures as one durable batch. Raises TurnConflict, IdempotencyConflict.

        >>> draft = elytron.TurnDraft(messages=(elytron.Message(text="The ferry leaves at six."),), host_id="turn-7")
        >>> request = elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(draft,)))
        >>> print(memory.write(request).decisions[0].outcome)
        stored
        """
        return await self.operate(request)

    async def add(
        self,
        messages: calls.Messages,
        *,
        speaker: str | None = None,
        at: calls.When | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        idempotency_key: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> contracts_write.MemoryWriteReport:
        """Store a text or messages as evidence, each message as a separate turn; they can be recalled at once.

        `at` is when it was said: a datetime, ISO 8601 text, or seconds since 1970 (from 100,000,000,000 on,
        milliseconds).

        >>> report = memory.add("Noor is allergic to peanuts.", speaker="Ada", at="2026-05-04", tags=["health"])
        >>> memory.get(report.ids[0]).when.date().isoformat()
        '2026-05-04'
        """
        write = calls.transcript_of(messages, speaker=speaker, at=at, tags=tags, metadata=metadata)
        scope = calls.scope_of(self.scope, user_id=user_id, agent_id=agent_id, run_id=run_id, conversation=conversation)
        return await self.write(calls.write_of(write, scope=scope, idempotency_key=idempotency_key))

    @takes_request(contracts_recall.MemoryRecallRequest)
    async def recall(
        self,
        query: str,
        *,
        limit: int = limits.RECALL_DEFAULT,
        top_k: int | None = None,
        extent: contracts_recall.RecallExtent = contracts_recall.RecallExtent.LIMIT,
        max_tokens: int | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        cursor: str | None = None,
        diversity: contracts_recall.HitDiversity = contracts_recall.HitDiversity.AUTO,
        neighbours: int = 0,
        min_score: float = 0.0,
        threshold: float | None = None,
        why_not: Sequence[str] = (),
        include_private: bool = False,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> contracts_recall.MemoryRecallReport:
        """Find what answers the query, best first, in the whole space or in what the filters select.

        `filters` may be nested ones as mem0 takes them, which may name the user; `top_k` is its word for `limit`, and
        `threshold` for `min_score`.

        >>> for hit in memory.recall("where is the boat key?", limit=1):
        ...     print(hit.speaker, "-", hit.text)
        Ada - The boat key is under the oar.
        """
        user_id, recall_filters = calls.narrowed_by(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        request = contracts_recall.MemoryRecallRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            query=query,
            limit=limit if top_k is None else top_k,
            extent=extent,
            max_tokens=max_tokens,
            filters=recall_filters,
            cursor=cursor,
            diversity=diversity,
            neighbours=neighbours,
            min_score=min_score if threshold is None else threshold,
            why_not=calls.text_list(why_not, field="why_not"),
            include_private=include_private,
        )
        return await self.operate(request)

    search = recall

    @takes_request(projection.MemoryProjectionRequest)
    async def project(
        self,
        query: str,
        /,
        *,
        max_chars: int = limits.PROJECTION_CHARS_DEFAULT,
        conversation: str | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        recall_gate: contracts_recall.RecallGate = contracts_recall.RecallGate.AUTO,
        user_id: str | None = None,
    ) -> projection.MemoryProjectionReport:
        """Build the bounded block that a model may see for this query.

        `conversation` is the one whose last messages are shown; what is recalled comes from all, but for `filters`.
        Without a query that asks for it nothing is recalled, unless `recall_gate` is "off".

        >>> report = memory.project("what does Ada drink?", max_chars=600)
        >>> "Ada drinks green tea" in report.system_memory_block
        True
        """
        user_id, recall_filters = calls.narrowed_by(filters, user_id=user_id)
        scope = calls.scope_of(self.scope, user_id=user_id, conversation=conversation)
        request = projection.MemoryProjectionRequest(
            scope=scope, query=query, max_chars=max_chars, filters=recall_filters, recall_gate=recall_gate
        )
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryGetRequest)
    async def get(
        self, memory_id: str, *, include_private: bool = False, user_id: str | None = None
    ) -> contracts_recall.RecallHit:
        """Read one memory by its id. Raises NotFound.

        >>> memory.get(key).text
        'The boat key is under the oar.'
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = contracts_memories.MemoryGetRequest(scope=scope, id=memory_id, include_private=include_private)
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryListRequest)
    async def list(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        filters: contracts_recall.RecallFilters | Mapping[str, Any] | None = None,
        hidden: contracts_memories.HiddenFilter = contracts_memories.HiddenFilter.LEFT_OUT,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> contracts_memories.MemoryListReport:
        """Read memories a page at a time.

        >>> page = memory.list(limit=2, filters={"speaker": "Ada"})
        >>> [item.text for item in page]
        ['We moved to Lisbon in May.', 'The boat key is under the oar.']
        """
        user_id, recall_filters = calls.narrowed_by(filters, user_id=user_id)
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = contracts_memories.MemoryListRequest(
            scope=scope,
            limit=limit,
            cursor=cursor,
            filters=recall_filters,
            hidden=calls.word_member(contracts_memories.HiddenFilter, hidden, field="hidden"),
            include_private=include_private,
        )
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryHistoryRequest)
    async def history(
        self,
        memory_id: str,
        *,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> contracts_memories.MemoryHistoryReport:
        """Read the history of a memory, oldest first. Raises NotFound.

        >>> _ = memory.correct(tea, "Ada drinks white tea")
        >>> [item.event.value for item in memory.history(tea).items]
        ['added', 'corrected', 'added']
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = contracts_memories.MemoryHistoryRequest(scope=scope, id=memory_id, include_private=include_private)
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryForgetRequest)
    async def forget(
        self,
        memories: str | Sequence[str],
        /,
        *,
        undo: bool = False,
        reason: str = "",
        user_id: str | None = None,
    ) -> contracts_memories.MemoryControlReport:
        """Hide memories from recall and projection, by their ids; `undo` restores them.

        >>> _ = memory.forget(key, reason="the key hangs elsewhere")
        >>> [item.text for item in memory.list()]
        ['We moved to Lisbon in May.', 'Ada drinks green tea']
        >>> memory.forget(key, undo=True).changed
        True
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        memory_ids = calls.id_list(memories)
        request = contracts_memories.MemoryForgetRequest(scope=scope, ids=memory_ids, reason=reason, undo=undo)
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryCorrectRequest)
    async def correct(
        self,
        memory_id: str,
        content: str,
        /,
        *,
        reason: str = "",
        user_id: str | None = None,
    ) -> contracts_memories.MemoryControlReport:
        """Replace the content of a fact or message; the old version stays in history. Raises NotFound.

        >>> _ = memory.correct(tea, "Ada drinks black tea", reason="misheard")
        >>> memory.recall("which tea does Ada drink?")[0].text
        'Ada drinks black tea'
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = contracts_memories.MemoryCorrectRequest(scope=scope, id=memory_id, content=content, reason=reason)
        return await self.operate(request)

    @takes_request(contracts_memories.MemoryEraseRequest)
    async def erase(
        self,
        memories: str | Sequence[str] = (),
        /,
        *,
        whole_space: str | None = None,
        reason: str = "",
        user_id: str | None = None,
    ) -> contracts_memories.MemoryControlReport:
        """Physically remove memories by their ids, or the whole space by its name.

        Raises ScopeMissing if nothing is named.

        >>> dict(memory.erase([move, key]).removed)
        {'turns': 2}
        >>> memory.erase(whole_space="ada").changed
        True
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        memory_ids = calls.id_list(memories)
        request = contracts_memories.MemoryEraseRequest(
            scope=scope, ids=memory_ids, whole_space=whole_space, reason=reason
        )
        return await self.operate(request)

    @takes_request(inspection.MemoryReplayRequest)
    async def replay(
        self,
        conversation: str | None = None,
        /,
        *,
        limit: int = limits.LEDGER_TURNS,
        cursor: str | None = None,
        order: inspection.LedgerOrder = inspection.LedgerOrder.LATEST,
        user_id: str | None = None,
    ) -> inspection.MemoryReplayReport:
        """Read the last turns of a conversation, or with `order` the first; a plain text names the conversation.

        >>> [turn.messages[0].text for turn in memory.replay(limit=1).turns]
        ['The boat key is under the oar.']
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        order = calls.word_member(inspection.LedgerOrder, order, field="order")
        request = inspection.MemoryReplayRequest(
            scope=scope, chat_id=conversation, limit=limit, cursor=cursor, order=order
        )
        return await self.operate(request)


class BlockingEveryday(BlockingCalls):
    """The everyday calls, blocking until their answer."""

    write = blocking_call(EverydayFace.write)
    add = blocking_call(EverydayFace.add)
    recall = blocking_call(EverydayFace.recall)
    search = blocking_call(EverydayFace.search)
    project = blocking_call(EverydayFace.project)
    get = blocking_call(EverydayFace.get)
    list = blocking_call(EverydayFace.list)
    history = blocking_call(EverydayFace.history)
    forget = blocking_call(EverydayFace.forget)
    correct = blocking_call(EverydayFace.correct)
    erase = blocking_call(EverydayFace.erase)
    replay = blocking_call(EverydayFace.replay)
