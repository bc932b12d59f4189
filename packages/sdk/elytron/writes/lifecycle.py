"""Retention of turns' raw text: archive, restore, mask, delete, or review only."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, documents_under, value_at
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.chat_aliases import MeantConversation, meant_conversation
from elytron.memories.lookup import parts_of
from elytron.memories.versions import message_versions
from elytron.transcript import ReportClipper
from elytron.writes.commit import SettledChanges, settle_changes
from elytron.writes.imported_messages import erasure_marks, messages_of
from elytron_core import limits
from elytron_core.contracts.transcript import (
    DerivedMemoryLink,
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptLifecycleRequest,
    TranscriptRedactionReason,
    TranscriptRedactionReportItem,
)
from elytron_core.contracts.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.planes import jobs, transcript
from elytron_core.planes.audit_trail import AuditAction, AuditEvent
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    TURN_ATTRIBUTES,
    AttributePolicy,
    DerivedMemoryRef,
    HostOpaqueRef,
    TurnAttribute,
)
from elytron_core.policy.transcript import apply_transition, cut_refs
from elytron_core.ports.store import DocumentRef, ErasureTarget, JournalAction
from elytron_core.scope import ConversationKey, Scope

PAGE = 500
"""Turns changed in one batch; an interrupted request about more is finished by repeating it."""

_ACTIONS = {
    Transition.ARCHIVE: AuditAction.ARCHIVED,
    Transition.RESTORE: AuditAction.RESTORED,
    Transition.MASK: AuditAction.MASKED,
    Transition.DELETE_RAW: AuditAction.RAW_DELETED,
}


@dataclass(slots=True)
class _TouchedTurns:
    """Findings and changes of a request so far."""

    turns: list[tuple[TurnId, transcript.Turn]] = field(default_factory=list[tuple[TurnId, transcript.Turn]])
    emptied: set[TurnId] = field(default_factory=set[TurnId])
    """Turns now without text, by this request or an earlier one that may not have removed its bytes."""
    derived: list[DerivedMemoryLink] = field(default_factory=list[DerivedMemoryLink])
    changed: bool = False
    sequence: int = 0


async def turn_lives(
    ctx: OperationContext, scope: Scope, request: MemoryTranscriptLifecycleRequest, /
) -> MemoryTranscriptLifecycleReport:
    """Apply `request` to the scope's conversation and report what it affected.

    Deleted text is gone from documents, index and every remain when this returns; facts and procedures that were
    accepted from it stay and are named. Broken off, the same request finishes the work.
    """
    conversation = await meant_conversation(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    touched_turns = _TouchedTurns()
    if record is not None and conversation.is_trusted:
        tag = record.conversation_tag(conversation.key)
        async for refs in _turn_pages(ctx, scope, record, conversation.key, request):
            await _turn_page(ctx, scope, refs, request, touched_turns)
        if touched_turns.emptied:
            await _remove_emptied(ctx, scope, touched_turns)
        await _find_derived(ctx, scope, tag, touched_turns)
    return _lifecycle_report(ctx, scope, conversation, request, touched_turns)


async def _turn_pages(
    ctx: OperationContext,
    scope: Scope,
    record: SpaceRecord,
    key: ConversationKey,
    request: MemoryTranscriptLifecycleRequest,
) -> AsyncIterator[list[DocumentRef]]:
    """Yield the refs of the turns that `request` selects, in order; ids of other conversations select none."""
    tag = record.conversation_tag(key)
    if request.turn_ids:
        own_ids = {turn for turn in request.turn_ids if transcript.is_turn_of(turn, tag)}
        name_refs = [DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, turn)) for turn in request.turn_ids]
        name_documents = await ctx.store.get(scope.space, name_refs)
        named_turns = {
            transcript.TurnName.from_bytes(document.body).turn for document in name_documents if document is not None
        }
        stored_turns = await documents_at(
            ctx.store, scope.space, [DocumentRef(transcript.TURNS, turn) for turn in own_ids | named_turns]
        )
        messages = [message for document in stored_turns.values() for message in parts_of(document)]
        # A masked or deleted text is removed in all its versions.
        versions = await message_versions(ctx, scope, messages)
        turn_keys = sorted({message.ref.key for family in versions.values() for message in family})
        for start in range(0, len(turn_keys), PAGE):
            yield [DocumentRef(transcript.TURNS, turn) for turn in turn_keys[start : start + PAGE]]
        return
    last_key = ""
    while page := await ctx.store.scan(scope.space, transcript.TURNS, prefix=f"{tag}.", after=last_key, limit=PAGE):
        last_key = page[-1].ref.key
        yield [document.ref for document in page]


async def _turn_page(
    ctx: OperationContext,
    scope: Scope,
    refs: list[DocumentRef],
    request: MemoryTranscriptLifecycleRequest,
    touched_turns: _TouchedTurns,
) -> None:
    """Change the turns at `refs` as one batch, with who requested it and why, and add them to `touched_turns`."""
    transition = request.transition

    async def plan(record: SpaceRecord) -> SettledChanges[list[tuple[TurnId, transcript.Turn]]]:
        changes = ChangeSet(record)
        affected_turns: list[tuple[TurnId, transcript.Turn]] = []
        documents = (await documents_at(ctx.store, scope.space, refs)).values()
        turns = {document.ref: transcript.Turn.from_bytes(document.body) for document in documents}
        if transition is Transition.DELETE_RAW:
            touched_turns.emptied |= {TurnId(ref.key) for ref in turns}
            erasure_marks_by_ref = await erasure_marks(ctx, scope.space, record, messages_of(turns.values()))
            for ref, (erased_import, revision) in erasure_marks_by_ref.items():
                changes.put(ref, erased_import, expects=revision, action=None)
        for document in documents:
            turn = turns[document.ref]
            changed_turn = apply_transition(turn, transition)
            if changed_turn != turn:
                changes.put(document.ref, changed_turn, expects=document.revision, action=JournalAction.LIFECYCLE)
            if changed_turn != turn or transition is Transition.REVIEW:
                affected_turns.append((TurnId(document.ref.key), changed_turn))
        if transition is Transition.RESTORE and affected_turns:
            turn_id, turn = affected_turns[0]
            await _note_anew(ctx, scope, changes, transcript.tag_of(turn_id), turn.sequence)
        if changes:
            await note_events(ctx, scope.space, record, changes, _audit_events(ctx, request, changes))
        return SettledChanges(affected_turns, changes)

    affected_turns, sequence = await settle_changes(ctx, scope.space, plan, takes_back=True)
    touched_turns.turns += affected_turns
    if sequence:
        touched_turns.changed, touched_turns.sequence = True, sequence


def _audit_events(
    ctx: OperationContext, request: MemoryTranscriptLifecycleRequest, changes: ChangeSet
) -> dict[DocumentRef, list[AuditEvent]]:
    """Return what was done to each turn of a batch."""
    event = event_of(
        ctx,
        _ACTIONS[request.transition],
        at=ctx.clock.now(),
        reason=request.reason,
        asked_by=request.requested_by,
    )
    return {ref: [event] for ref in changes.folded if ref.collection == transcript.TURNS}


async def _note_anew(
    ctx: OperationContext, scope: Scope, changes: ChangeSet, tag: ConversationTag, sequence: int
) -> None:
    """Add to a batch that daily notes are regenerated from the turn of this sequence on."""
    ref = DocumentRef(jobs.MAINTAINED, tag)
    progress, revision = await value_at(ctx.store, scope.space, ref, jobs.MaintainedTurns)
    if progress is not None and progress.noted >= sequence:
        changed_progress = progress.model_copy(update={"noted": sequence - 1})
        changes.put(ref, changed_progress, expects=revision, action=JournalAction.MAINTENANCE)


async def _remove_emptied(ctx: OperationContext, scope: Scope, touched_turns: _TouchedTurns) -> None:
    """Remove the remains of emptied turns: replaced bodies, attributes deleted with the text, the index checkpoint."""
    turn_prefixes = [f"{turn}." for turn in touched_turns.emptied]
    refs = [
        document.ref
        for document in await documents_under(ctx.store, scope.space, TURN_ATTRIBUTES, turn_prefixes)
        if TurnAttribute.from_bytes(document.body).policy is AttributePolicy.FOLLOW_TRANSCRIPT
    ]
    erasure_target = ErasureTarget(space=scope.space, at=ctx.clock.now(), refs=tuple(refs), blobs=(CHECKPOINT,))
    touched_turns.sequence = (await ctx.store.erase(erasure_target)).sequence
    await ctx.folds.settle_erasure(scope.space)


async def _find_derived(
    ctx: OperationContext, scope: Scope, tag: ConversationTag, touched_turns: _TouchedTurns
) -> None:
    affected_ids = {turn_id for turn_id, _ in touched_turns.turns}
    if not affected_ids:
        return
    for document in await documents_under(ctx.store, scope.space, DERIVED_REFS, (f"{tag}.",)):
        if TurnId(document.ref.key.rpartition(".")[0]) in affected_ids:
            ref = DerivedMemoryRef.read(document.body, space=scope.space)
            touched_turns.derived.append(DerivedMemoryLink.of(ref))


def _lifecycle_report(
    ctx: OperationContext,
    scope: Scope,
    conversation: MeantConversation,
    request: MemoryTranscriptLifecycleRequest,
    touched_turns: _TouchedTurns,
) -> MemoryTranscriptLifecycleReport:
    transcript_budget = ctx.profile.budget.transcript
    clipper = ReportClipper()
    refs: list[HostOpaqueRef] = []
    redactions: list[TranscriptRedactionReportItem] = []
    for turn_id, turn in touched_turns.turns:
        visible_refs, redaction_items = cut_refs(turn_id, turn, view=request.view, budget=transcript_budget)
        refs += visible_refs
        redactions += redaction_items
    message_ids = [message_id for turn_id, turn in touched_turns.turns for message_id in _message_ids(turn_id, turn)]
    listed_ids = clipper.limit("turns", [turn_id for turn_id, _ in touched_turns.turns], limits.PAGE_MAX)
    return MemoryTranscriptLifecycleReport(
        space=scope.space,
        channel=conversation.key.channel,
        conversation=conversation.key.conversation,
        transition=request.transition,
        alias=conversation.trust,
        affected_turns=len(touched_turns.turns),
        affected_turn_ids=listed_ids,
        affected_message_ids=clipper.limit("messages", message_ids, limits.PAGE_MAX),
        affected_host_refs=clipper.limit("host_refs", refs, limits.PAGE_MAX),
        redacted_host_refs=sum(1 for item in redactions if item.reason is not TranscriptRedactionReason.HOST_REF_LABEL),
        host_ref_redactions=clipper.profile("redactions", redactions, transcript_budget.redaction_items),
        derived_memory_refs=clipper.profile("derived_refs", touched_turns.derived, transcript_budget.derived_refs),
        profile_budget_applied=clipper.is_by_profile
        or any(item.reason is TranscriptRedactionReason.PROFILE_BUDGET for item in redactions),
        clipped=tuple(clipper.clips),
        changed=touched_turns.changed,
        reason=request.reason,
        requested_by=request.requested_by,
        sequence=touched_turns.sequence,
    )


def _message_ids(turn_id: TurnId, turn: transcript.Turn) -> list[str]:
    return [transcript.message_id(turn_id, part) for part in range(len(turn.messages)) if part not in turn.erased]
