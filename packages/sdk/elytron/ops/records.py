"""Records: values that a host stores under a namespace and a key."""

from collections import Counter
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.planes import id_of, place_of
from elytron.documents.stored_values import ChangeSet, value_at, values_at
from elytron.intake import admit_texts
from elytron.memories.audit_trail import event_of, note_events
from elytron.recall.retrieval import HitQuery, gather_hits
from elytron.recall.space_reader import open_reader
from elytron.writes.commit import SettledChanges, settle_report
from elytron.writes.records import is_disclosed, item_of, put_records, record_ref, records_below, require_version
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters, RecallGate, RecallPlane
from elytron_core.contracts.records import (
    RecordDeleteReport,
    RecordDeleteRequest,
    RecordGetReport,
    RecordGetRequest,
    RecordHistoryReport,
    RecordHistoryRequest,
    RecordItem,
    RecordNamespace,
    RecordNamespaceListReport,
    RecordNamespaceListRequest,
    RecordPutReport,
    RecordPutRequest,
    RecordSearchReport,
    RecordSearchRequest,
)
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused
from elytron_core.planes import records
from elytron_core.planes.audit_trail import AuditAction
from elytron_core.planes.records import RECORDS, RESERVED_NAMESPACES, Record, is_reserved
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.ranking import filters
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import Scope
from elytron_core.text import similarity

_PRIVATE = "names a private record: pass include_private"


@admit_texts
async def put_record(ctx: OperationContext, request: RecordPutRequest, /) -> RecordPutReport:
    """Store a value, replacing the one of its name; an equal one is left unchanged.

    Raises PreconditionFailed if the record has another version than the expected one, PermissionRefused for a namespace
    of the runtime's own, Unsupported for a time to live in a profile that cannot keep it.
    """
    _require_open(request.namespace)
    scope = ctx.scope_of(request)
    commit = await put_records(ctx, scope, RECORDS, (request,), has_history=True, dry_run=request.dry_run)
    return RecordPutReport(
        space=scope.space,
        record=item_of(commit.refs[0], commit.records[0]),
        changed=commit.changed,
        dry_run=request.dry_run,
        sequence=commit.sequence,
    )


async def get_record(ctx: OperationContext, request: RecordGetRequest, /) -> RecordGetReport:
    """Return one record. Raises NotFound, InvalidInput for a private one."""
    scope = ctx.scope_of(request)
    ref, record = await _must_find(ctx, scope, request)
    if not record.is_alive(ctx.clock.now()):
        raise NotFound(what="record", name=request.key)
    return RecordGetReport(space=scope.space, record=item_of(ref, record))


@admit_texts
async def delete_record(ctx: OperationContext, request: RecordDeleteRequest, /) -> RecordDeleteReport:
    """Delete a record; if there is none, nothing changes. Raises what `put_record` raises."""
    _require_open(request.namespace)
    scope = ctx.scope_of(request)

    async def plan(space: SpaceRecord) -> SettledChanges[RecordDeleteReport]:
        now = ctx.clock.now()
        ref = record_ref(space, request.namespace, request.key)
        current_record, revision = await value_at(ctx.store, scope.space, ref, Record)
        require_version(current_record, request.expected_version, now)
        report = RecordDeleteReport(space=scope.space, id=id_of(ref), changed=False, dry_run=request.dry_run)
        if current_record is None or not current_record.is_alive(now):
            return SettledChanges(report)
        deleted_record = records.delete_record(current_record, at=now)
        report = report.model_copy(update={"changed": not request.dry_run, "version": deleted_record.version})
        if request.dry_run:
            return SettledChanges(report)
        changes = ChangeSet(space)
        changes.put(ref, deleted_record, expects=revision, action=JournalAction.DELETE)
        event = event_of(ctx, AuditAction.DELETED, at=now, reason=request.reason)
        await note_events(ctx, scope.space, space, changes, {ref: [event]})
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan, takes_back=True)


async def search_records(ctx: OperationContext, request: RecordSearchRequest, /) -> RecordSearchReport:
    """Return the matching records, best first for a query, else by namespace and key."""
    scope = ctx.scope_of(request)
    page = await (_list_page if similarity.is_blank(request.query) else _query_page)(ctx, scope, request)
    return RecordSearchReport(space=scope.space, items=tuple(page[: request.limit]), has_more=len(page) > request.limit)


async def list_record_namespaces(
    ctx: OperationContext, request: RecordNamespaceListRequest, /
) -> RecordNamespaceListReport:
    """Return the namespaces with records, each with their number."""
    scope, now = ctx.scope_of(request), ctx.clock.now()
    counts: Counter[tuple[str, ...]] = Counter()
    async for _, record in records_below(ctx, scope.space, request.prefix):
        if record.is_alive(now) and is_disclosed(record, include_private=request.include_private):
            counts[record.namespace[: request.max_depth]] += 1
    end_offset = request.offset + request.limit
    return RecordNamespaceListReport(
        space=scope.space,
        namespaces=tuple(
            RecordNamespace(namespace=name, records=counts[name])
            for name in sorted(counts)[request.offset : end_offset]
        ),
        has_more=len(counts) > end_offset,
    )


async def record_history(ctx: OperationContext, request: RecordHistoryRequest, /) -> RecordHistoryReport:
    """Return the versions of a record, oldest first. Raises NotFound, InvalidInput for a private one."""
    scope = ctx.scope_of(request)
    ref, record = await _must_find(ctx, scope, request)
    return RecordHistoryReport(space=scope.space, id=id_of(ref), versions=records.record_history(record))


async def _must_find(
    ctx: OperationContext, scope: Scope, request: RecordGetRequest | RecordHistoryRequest
) -> tuple[DocumentRef, Record]:
    """Return the record of this name, even a deleted one. Raises NotFound, InvalidInput for a private one."""
    space = await ctx.spaces.find(scope.space)
    if space is not None:
        ref = record_ref(space, request.namespace, request.key)
        record, _ = await value_at(ctx.store, scope.space, ref, Record)
        if record is not None and not record.is_expired(ctx.clock.now()):
            if not is_disclosed(record, include_private=request.include_private):
                raise InvalidInput(field="key", problem=_PRIVATE)
            return ref, record
    raise NotFound(what="record", name=request.key)


def _require_open(namespace: tuple[str, ...]) -> None:
    """Raise PermissionRefused for a namespace reserved for the runtime."""
    if is_reserved(namespace):
        prefixes = " or ".join(map(repr, RESERVED_NAMESPACES))
        raise PermissionRefused(f"namespaces that begin with {prefixes} are reserved for the runtime: choose another")


class _NamedRecord(NamedTuple):
    """Sort key of a list of records, and its document."""

    namespace: tuple[str, ...]
    key: str
    ref: DocumentRef


async def _list_page(ctx: OperationContext, scope: Scope, request: RecordSearchRequest) -> list[RecordItem]:
    """Return a page of the matching records, by namespace and key, and one more if there is one."""
    now, end_offset = ctx.clock.now(), request.offset + request.limit + 1
    first_records: list[_NamedRecord] = []
    async for document, record in records_below(ctx, scope.space, request.namespace):
        if _passes_filters(record, request, now):
            first_records.append(_NamedRecord(record.namespace, record.key, document.ref))
        # At twice the size, so that sorting is rare.
        if len(first_records) >= 2 * end_offset:
            first_records = sorted(first_records)[:end_offset]
    page = [entry.ref for entry in sorted(first_records)[request.offset : end_offset]]
    # Read again, since a record may have changed after the walk passed it.
    current_records = await values_at(ctx.store, scope.space, page, Record)
    return [item_of(ref, record) for ref, record in current_records.items() if _passes_filters(record, request, now)]


async def _query_page(ctx: OperationContext, scope: Scope, request: RecordSearchRequest) -> list[RecordItem]:
    """Return a page of the records that answer the query, best first, and one more if there is one."""
    end_offset = min(request.offset + request.limit + 1, limits.RECALL_MAX)
    hit_query = HitQuery(
        request.query,
        RecallFilters(planes=(RecallPlane.RECORDS,), namespace=request.namespace, where=request.where),
        limit=end_offset,
        gate=RecallGate.OFF,
        private=(RecallPlane.RECORDS,) if request.include_private else (),
    )
    gathered_hits = await gather_hits(ctx, await open_reader(ctx, scope.space), scope, hit_query)
    scores = {place_of(hit.id): hit.score for hit in gathered_hits.hits[request.offset :]}
    current_records = await values_at(ctx.store, scope.space, [ref for ref in scores if ref is not None], Record)
    now = ctx.clock.now()
    return [
        item_of(ref, record, score=scores[ref])
        for ref, record in current_records.items()
        if _passes_filters(record, request, now)
    ]


def _passes_filters(record: Record, request: RecordSearchRequest, now: Instant) -> bool:
    return (
        record.is_alive(now)
        and is_disclosed(record, include_private=request.include_private)
        and filters.filters_hold(request.where, record.fields)
    )
