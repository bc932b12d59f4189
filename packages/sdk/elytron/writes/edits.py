"""Edits of messages: an edit is shown in place of the original, which stays in history."""

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.memories.audit_trail import event_of, trail_ref
from elytron.memories.lookup import MessageMemory, must_find
from elytron.memories.versions import latest_versions
from elytron.writes.commit import PlannedWrite, commit_write
from elytron.writes.transcript import TurnRules, plan_turns
from elytron_core.contracts.facts import FactAction
from elytron_core.contracts.memories import ControlDecision, ControlOutcome, MemoryControlReport, MemoryCorrectRequest
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import InvalidInput
from elytron_core.planes.audit_trail import AuditAction, AuditTrail
from elytron_core.planes.facts import FactState
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import EDIT_OF, Message
from elytron_core.policy.admission.facts import CLOSED_REASONS, STAYS
from elytron_core.policy.admission.rules import as_claims
from elytron_core.ports.store import JournalAction
from elytron_core.scope import Scope


async def edit_message(
    ctx: OperationContext, scope: Scope, request: MemoryCorrectRequest, /
) -> tuple[MemoryControlReport, MessageMemory]:
    """Store an edit of a message, hide what it replaces in the same batch, and return the report and what is hidden.

    Raises NotFound; InvalidInput for a message that is hidden and was not edited, and for a blank text.
    """
    message = await _shown_message(ctx, scope, request.id)

    async def plan(record: SpaceRecord) -> PlannedWrite:
        nonlocal message
        message = await _shown_message(ctx, scope, request.id)
        return await _plan_edit(ctx, scope, message, request, record)

    write = TranscriptWrite(turns=(TurnDraft(messages=(Message(text=request.content),)),))
    write_request = MemoryWriteRequest(scope=scope, write=write, dry_run=request.dry_run)
    write_report = await commit_write(ctx, scope.space, write_request, plan)
    decision = ControlDecision(
        id=request.id,
        outcome=ControlOutcome.CHANGED if write_report.decisions else ControlOutcome.UNCHANGED,
        plane=RecallPlane.TRANSCRIPT,
        new_id=next((one.id for one in write_report.decisions), None),
        reason=None if write_report.decisions else STAYS[FactAction.CORRECT],
    )
    report = MemoryControlReport(
        space=scope.space,
        decisions=(decision,),
        changed=write_report.changed,
        dry_run=request.dry_run,
        sequence=write_report.sequence,
        planes=(RecallPlane.TRANSCRIPT,) if write_report.decisions else (),
    )
    return report, message


async def _shown_message(ctx: OperationContext, scope: Scope, name: str, /) -> MessageMemory:
    """Return the message with this id, or the latest edit shown in its place.

    Raises NotFound; InvalidInput for a message that was hidden and not edited.
    """
    memory = await must_find(ctx, scope, name)
    latest_memories, _ = await latest_versions(ctx, scope, {name: memory})
    latest_version = latest_memories[name]
    assert isinstance(latest_version, MessageMemory)
    if not latest_version.turn.is_kept(latest_version.part):
        raise InvalidInput(
            field="id", problem=f"names a message that cannot be changed: {CLOSED_REASONS[FactState.FORGOTTEN]}"
        )
    return latest_version


async def _plan_edit(
    ctx: OperationContext, scope: Scope, memory: MessageMemory, request: MemoryCorrectRequest, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the batch that hides a message and stores the edit with its speaker and time. Raises InvalidInput.

    Nothing is planned for a message that says so already.
    """
    turn, now = memory.turn, ctx.clock.now()
    message = turn.messages[memory.part]
    if message.text == request.content:
        return PlannedWrite(ChangeSet(record), (), memory.ref)
    said_at = message.at if message.at is not None else turn.recorded_at
    edited_message = message.model_copy(update={"text": request.content, "at": said_at})
    draft = TurnDraft(messages=(edited_message,), tags=turn.tags, source=turn.source, actor=turn.actor)
    # It is based on what the message was based on, and on no authority beyond a member's own: an edit adds no trust.
    draft_changes = {
        "metadata": turn.metadata | {EDIT_OF: memory.id},
        "external_content_used": turn.external_content_used,
    }
    write = as_claims(TranscriptWrite(turns=(draft.model_copy(update=draft_changes),), origin=turn.origin))
    assert isinstance(write, TranscriptWrite)
    scope_fields = ("agent", "app", "project", "channel", "conversation")
    turn_scope = Scope(space=scope.space).model_copy(update={name: getattr(turn, name) for name in scope_fields})
    trail_place = trail_ref(record, memory.ref)
    stored_trail = (await documents_at(ctx.store, scope.space, (trail_place,))).get(trail_place)
    planned_write = await plan_turns(ctx, turn_scope, write, TurnRules(), record)
    # No waiting from here on: the edit is planned on a head that others build on.
    (decision,) = planned_write.decisions
    if decision.id is None:
        raise InvalidInput(field="content", problem=f"was not stored: {decision.reason}")
    reason = f"edited: {decision.id} replaces it" + (f" ({request.reason})" if request.reason else "")
    event = event_of(ctx, AuditAction.FORGOTTEN, at=now, reason=reason, part=memory.part)
    events = AuditTrail.from_bytes(stored_trail.body) if stored_trail is not None else AuditTrail()
    revision = stored_trail.revision if stored_trail is not None else 0
    hidden_turn = turn.model_copy(update={"forgotten": turn.forgotten | {memory.part: now}})
    planned_write.changes.put(memory.ref, hidden_turn, expects=memory.revision, action=JournalAction.DELETE)
    planned_write.changes.put(trail_place, events.plus(event), expects=revision, action=None)
    return planned_write
