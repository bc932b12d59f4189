"""Audit trails: a control call is stored in the same batch as the document that it changes."""

from collections.abc import Iterable, Mapping, Sequence

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, values_at
from elytron_core.clock import Instant
from elytron_core.contracts.memories import HistoryEvent, HistoryItem
from elytron_core.ids import SpaceId
from elytron_core.planes.audit_trail import AUDIT, AuditAction, AuditEvent, AuditTrail
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Document, DocumentRef, JournalAction


def event_of(
    ctx: OperationContext,
    action: AuditAction,
    /,
    *,
    at: Instant,
    reason: str = "",
    part: int | None = None,
    asked_by: str | None = None,
) -> AuditEvent:
    """Return the event of a control call by this context's caller, on behalf of `asked_by`."""
    event_author = f"{ctx.caller} for {asked_by}" if asked_by is not None else ctx.caller
    return AuditEvent(
        action=action, at=at, by=event_author, reason=reason, part=part, audit_id=ctx.audit_id, source=ctx.source
    )


def trail_ref(record: SpaceRecord, ref: DocumentRef, /) -> DocumentRef:
    """Return where the trail of the document at `ref` is stored."""
    return DocumentRef(AUDIT, record.tag("audit", ref.collection, ref.key))


async def note_events(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    changes: ChangeSet,
    events: Mapping[DocumentRef, Sequence[AuditEvent]],
    /,
    *,
    action: JournalAction | None = None,
) -> None:
    """Add what was done to the document at each ref to a batch; with `action`, also to the journal."""
    additions_by_trail = {trail_ref(record, ref): additions for ref, additions in events.items() if additions}
    documents = await documents_at(ctx.store, space, additions_by_trail)
    for trail_place, additions in additions_by_trail.items():
        stored_trail, revision = AuditTrail(), 0
        if trail_place in documents:
            stored_trail, revision = AuditTrail.from_bytes(documents[trail_place].body), documents[trail_place].revision
        changes.put(trail_place, stored_trail.plus(*additions), expects=revision, action=action)


async def audit_trails(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord | None, refs: Iterable[DocumentRef], /
) -> dict[DocumentRef, AuditTrail]:
    """Return the trail of each of `refs` that has one."""
    if record is None:
        return {}
    ref_by_trail = {trail_ref(record, ref): ref for ref in refs}
    trails = await values_at(ctx.store, space, ref_by_trail, AuditTrail)
    return {ref_by_trail[trail_place]: trail for trail_place, trail in trails.items()}


async def trail_documents(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, refs: Iterable[DocumentRef], /
) -> dict[DocumentRef, Document]:
    """Return the stored trail of each of `refs` that has one, for an erasure."""
    ref_by_trail = {trail_ref(record, ref): ref for ref in refs}
    documents = await documents_at(ctx.store, space, ref_by_trail)
    return {ref_by_trail[trail_place]: document for trail_place, document in documents.items()}


def with_trail(
    items: Sequence[HistoryItem], trail: AuditTrail | None, /, *, memory: str, part: int | None = None
) -> list[HistoryItem]:
    """Return a history with the control calls on the memory inserted chronologically."""
    item_by_event = {(item.event, item.at): item for item in items}
    event_positions: dict[tuple[HistoryEvent, Instant], int] = {}
    for position, event in enumerate(trail.events if trail is not None else (), 1):
        if event.part is not None and event.part != part:
            continue
        kind = HistoryEvent(event.action.value)
        history_item = item_by_event.get((kind, event.at)) or HistoryItem(id=memory, event=kind, at=event.at)
        reason = event.reason or history_item.reason
        event_positions[kind, event.at] = position
        audit_fields = {"by": event.by, "reason": reason, "audit_id": event.audit_id, "source": event.source}
        item_by_event[kind, event.at] = history_item.model_copy(update=audit_fields)
    return sorted(item_by_event.values(), key=lambda item: (item.at, event_positions.get((item.event, item.at), 0)))
