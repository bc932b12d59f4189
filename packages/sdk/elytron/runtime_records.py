"""The runtime's own records: an agent's journal, and what a proxy continues.

They are in a collection that only this port writes. No registered operation reaches it, so no wire, tool or member's
archive does, and the store port over HTTP refuses it. Their reader may therefore act on them.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from pydantic import JsonValue, ValidationError

from elytron.api import MemoryFace
from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.intake import admit_texts, require_chars, scrub_value
from elytron.runtime import MemoryRuntime
from elytron.writes.records import (
    plan_records,
    put_records,
    record_ref,
    records_below,
)
from elytron_core.contracts.maintenance.maintenance import MemoryFinalizeTurnReport, MemoryFinalizeTurnRequest
from elytron_core.contracts.records import RecordPutRequest
from elytron_core.contracts.transcript import (
    CanonicalTurnDelta,
    MemoryTranscriptCommitReport,
    MemoryTranscriptCommitRequest,
)
from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.ids import TurnId
from elytron_core.model import invalid_input
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import RUNTIME_RECORDS, BoundedJson, Record, is_reserved
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import Turn
from elytron_core.policy.admission.own_output import is_own_output, json_texts
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.ports.store import Document, DocumentRef, ErasureTarget
from elytron_core.scope import Scope

_ELSEWHERE = (
    "the runtime's own records require a memory that is opened in this process: open it here, or pass one as `journal=`"
)


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """A value to store. With `expected_version`, only if the record has that version; 0: if there is none."""

    namespace: tuple[str, ...]
    key: str
    value: JsonValue
    _: KW_ONLY
    text: str = ""
    ttl_s: int | None = None
    expected_version: int | None = None
    is_opaque: bool = False
    """True if the value is another program's state, whose bytes must return as they are: nothing is redacted in it."""

    @property
    def name(self) -> "RecordName":
        """Return the namespace and key."""
        return self.namespace, self.key


class _OwnPut(RecordPutRequest):
    """A put of a serialized form of the runtime's own, or one read from JSON."""

    value: BoundedJson


RecordName = tuple[tuple[str, ...], str]
"""Namespace and key."""
TurnDrafts = Callable[[str | None, tuple[str, ...]], Sequence[RecordDraft]]
"""Returns the drafts for a turn of this id (None for one that creates no evidence) and of these messages."""


class RuntimeRecords:
    """The runtime's own records in one space: values under reserved namespaces, only in their latest version."""

    def __init__(self, context: OperationContext, scope: Scope, /) -> None:
        self._ctx = context
        self._scope = scope

    def is_of(self, memory: MemoryFace, /) -> bool:
        """Return whether they are in the store of `memory`, whose erasures remove their copies."""
        return isinstance(memory, MemoryRuntime) and memory.context is self._ctx

    async def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: JsonValue,
        /,
        *,
        text: str = "",
        ttl_s: int | None = None,
        expected_version: int | None = None,
    ) -> Record:
        """Store `value` under its name and return the record, with credentials redacted.

        Raises PreconditionFailed if it is not of `expected_version` (0: absent), InvalidInput for a namespace that is
        not reserved, Unsupported for a time to live that this store cannot keep.
        """
        draft = RecordDraft(namespace, key, value, text=text, ttl_s=ttl_s, expected_version=expected_version)
        (record,) = await self.put_all((draft,))
        return record

    async def put_all(self, drafts: Sequence[RecordDraft], /) -> tuple[Record, ...]:
        """Store several values as `put` does, in one commit: all of them or none. Each is named once."""
        requests = [self._request(draft) for draft in drafts]
        record_commit = await put_records(
            self._ctx, self._ctx.scope_of(requests[0]), RUNTIME_RECORDS, requests, has_history=False
        )
        return record_commit.records

    async def finalize_turn(
        self, request: MemoryFinalizeTurnRequest, names: Sequence[RecordName], drafts: TurnDrafts, /
    ) -> tuple[MemoryFinalizeTurnReport, tuple[Record, ...]]:
        """Finalize a turn, and atomically store what `drafts` returns for it, under `names`.

        Raises what `finalize_turn_and_maintain` and `put_all` do.
        """
        # Imported late: storing records needs no maintenance.
        from elytron.flows.maintenance import finalize_turn

        turn_records = _RecordsOfTurn(self._ctx, names, drafts, self._request)

        async def finalize(ctx: OperationContext, admitted: MemoryFinalizeTurnRequest, /) -> MemoryFinalizeTurnReport:
            turn_records.delta = admitted.delta
            return await finalize_turn(ctx, admitted, companions=(turn_records,))

        report = await admit_texts(finalize)(self._ctx, request)
        return report, turn_records.records

    async def commit_turn(
        self, request: MemoryTranscriptCommitRequest, names: Sequence[RecordName], drafts: TurnDrafts, /
    ) -> tuple[Record, ...]:
        """Commit a turn as evidence, and atomically store what `drafts` returns for it, under `names`.

        Raises what `commit_transcript` and `put_all` do.
        """
        from elytron.ops.transcript import commit_turn

        turn_records = _RecordsOfTurn(self._ctx, names, drafts, self._request)

        async def commit(
            ctx: OperationContext, admitted: MemoryTranscriptCommitRequest, /
        ) -> MemoryTranscriptCommitReport:
            turn_records.delta = admitted.delta
            return await commit_turn(ctx, admitted, companions=(turn_records,))

        await admit_texts(commit)(self._ctx, request)
        return turn_records.records

    async def get(self, namespace: tuple[str, ...], key: str, /) -> Record | None:
        """Return the record of this name; None if it is missing or expired."""
        (record,) = await self.get_all(((namespace, key),))
        return record

    async def get_all(self, names: Sequence[RecordName], /) -> tuple[Record | None, ...]:
        """Return the records of these names, read at once; None for each that is missing or expired."""
        space = await self._ctx.spaces.find(self._scope.space)
        if space is None:
            return (None,) * len(names)
        now = self._ctx.clock.now()
        refs = [record_ref(space, *name, collection=RUNTIME_RECORDS) for name in names]
        documents = await self._ctx.store.get(self._scope.space, refs)
        records = (Record.from_bytes(document.body) if document is not None else None for document in documents)
        return tuple(record if record is not None and record.is_alive(now) else None for record in records)

    async def below(self, namespace: tuple[str, ...] = (), /) -> AsyncIterator[Record]:
        """Yield the records whose namespace begins with `namespace`, unordered."""
        now = self._ctx.clock.now()
        records = records_below(self._ctx, self._scope.space, namespace, collection=RUNTIME_RECORDS)
        async for _, record in records:
            if record.is_alive(now):
                yield record

    async def within(self, *namespaces: tuple[str, ...]) -> AsyncIterator[Record]:
        """Yield the records of exactly these namespaces, in no order; no others are read."""
        now = self._ctx.clock.now()
        for namespace in namespaces:
            records = records_below(self._ctx, self._scope.space, namespace, collection=RUNTIME_RECORDS, is_exact=True)
            async for _, record in records:
                if record.namespace == namespace and record.is_alive(now):
                    yield record

    def _request(self, draft: RecordDraft) -> RecordPutRequest:
        """Return the request to store a draft, admitted as any other text is."""
        if not is_reserved(draft.namespace):
            raise InvalidInput(field="namespace", problem="is not one of the runtime's own namespaces")
        try:
            request = _OwnPut(
                scope=self._scope,
                namespace=draft.namespace,
                key=draft.key,
                value=draft.value,
                text=draft.text,
                privacy=FactPrivacy.PRIVATE,
                ttl_s=draft.ttl_s,
                expected_version=draft.expected_version,
            )
        except ValidationError as error:
            raise invalid_input(error) from None
        if draft.is_opaque:
            return request
        # A journal's documents are many short texts, nearly all of them ids: they are searched as one.
        texts = json_texts([draft.value, draft.text])
        require_chars(self._ctx.profile, max(map(len, texts)))
        whole_text = "\n".join(texts)
        if is_own_output(whole_text) or scrub_secrets(whole_text).counts:
            request, _ = scrub_value(request)
        return request

    async def erase(self, records: Iterable[Record], /) -> int:
        """Remove records physically; return their number."""
        space = await self._ctx.spaces.find(self._scope.space)
        if space is None:
            return 0
        refs = (record_ref(space, each.namespace, each.key, collection=RUNTIME_RECORDS) for each in records)
        stored_documents = await documents_at(self._ctx.store, self._scope.space, refs)
        if stored_documents:
            erasure_target = ErasureTarget(
                space=self._scope.space, at=self._ctx.clock.now(), refs=tuple(stored_documents)
            )
            await self._ctx.store.erase(erasure_target)
        return len(stored_documents)


@dataclass(slots=True)
class _RecordsOfTurn:
    """Records that are committed with a turn (see `TurnCompanion`)."""

    ctx: OperationContext
    names: Sequence[RecordName]
    drafts: TurnDrafts
    request_of: Callable[[RecordDraft], RecordPutRequest]
    delta: CanonicalTurnDelta | None = None
    """The turn, as admitted."""
    records: tuple[Record, ...] = ()

    def refs(self, record: SpaceRecord, /) -> Sequence[DocumentRef]:
        return [record_ref(record, *name, collection=RUNTIME_RECORDS) for name in self.names]

    def changes(
        self,
        record: SpaceRecord,
        documents: Mapping[DocumentRef, Document],
        turn_id: TurnId | None,
        _turn: Turn | None,
        /,
    ) -> ChangeSet:
        assert self.delta is not None
        documents_by_name = {
            name: (ref, documents.get(ref)) for name, ref in zip(self.names, self.refs(record), strict=True)
        }
        changes = ChangeSet(record)
        requests = [self.request_of(draft) for draft in self.drafts(turn_id, self.delta.message_ids(turn_id))]
        record_commit = plan_records(documents_by_name, requests, changes, at=self.ctx.clock.now(), has_history=False)
        self.records = record_commit.records
        return changes


def records_of(memory: MemoryFace, /, *, scope: Scope | None = None) -> RuntimeRecords:
    """Return the runtime's own records in the space of `scope`, else of `memory`.

    Raises Unsupported for a memory on a server, which no wire writes them to, InvalidInput for one without a space.
    """
    if not isinstance(memory, MemoryRuntime):
        raise Unsupported(_ELSEWHERE)
    space = scope or memory.scope
    if space is None:
        raise InvalidInput(field="memory", problem="has no space of its own: open it with one")
    return RuntimeRecords(memory.context, space)
