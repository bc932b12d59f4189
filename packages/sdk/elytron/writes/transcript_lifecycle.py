"""Lifecycle of raw text: turns are archived, restored, masked or emptied; memories that cite them stay."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.prefix_scan import documents_under
from elytron.documents.stored_values import documents_at, value_at
from elytron.indexing.checkpoint_store import CHECKPOINT
from elytron.memories.audit_trail import event_of, note
from elytron.memories.chat_aliases import Meant, meant
from elytron.transcript.clipper import Clipper
from elytron.writes.settlement import Settled, settle
from elytron_core import limits
from elytron_core.contracts.conversation.transcript import (
    DerivedMemoryLink,
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptLifecycleRequest,
    TranscriptRedactionReason,
    TranscriptRedactionReportItem,
)
from elytron_core.contracts.conversation.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.planes.admin import jobs
from elytron_core.planes.admin.audit import AuditAction, AuditEvent
from elytron_core.planes.conversation import transcript
from elytron_core.planes.conversation.attributes import TURN_ATTRIBUTES, AttributePolicy, TurnAttribute
from elytron_core.planes.conversation.host_refs import HostOpaqueRef
from elytron_core.planes.derived_refs import DERIVED_REFS, DerivedMemoryRef
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.transcript.lifecycle import turned
from elytron_core.policy.transcript.view_cut import cut_refs
from elytron_core.ports.store import Action, Erasure, Ref
from elytron_core.scope import ConversationKey, Scope

PAGE = 500
"""Turns that are changed in one batch; a request about more, broken off, is finished by sending it again."""

_ACTIONS = {
    Transition.ARCHIVE: AuditAction.ARCHIVED,
    Transition.RESTORE: AuditAction.RESTORED,
    Transition.MASK: AuditAction.MASKED,
    Transition.DELETE_RAW: AuditAction.RAW_DELETED,
}


@dataclass(slots=True)
class _Touched:
    """Findings and changes of a request so far."""

    turns: list[tuple[TurnId, transcript.Turn]] = field(default_factory=list[tuple[TurnId, transcript.Turn]])
    emptied: set[TurnId] = field(default_factory=set[TurnId])
    """Turns without text now, by this request or an earlier one that may not have got to remove its bytes."""
    derived: list[DerivedMemoryLink] = field(default_factory=list[DerivedMemoryLink])
    changed: bool = False
    sequence: int = 0


async def turn_lives(
    ctx: OperationContext, scope: Scope, request: MemoryTranscriptLifecycleRequest, /
) -> MemoryTranscriptLifecycleReport:
    """Apply `request` to the scope's conversation and report what it touched.

    Deleted text is gone from documents, index and every remain when this returns; facts and procedures that were
    accepted from it stay and are named. Broken off, the same request finishes the work.
    """
    found = await meant(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    touched = _Touched()
    if record is not None and found.is_trusted:
        tag = record.conversation_tag(found.key)
        async for refs in _pages(ctx, scope, record, found.key, request):
            await _turn_page(ctx, scope, refs, request, touched)
        if touched.emptied:
            await _remove(ctx, scope, touched)
        await _find_derived(ctx, scope, tag, touched)
    return _report(ctx, scope, found, request, touched)


async def _pages(
    ctx: OperationContext,
    scope: Scope,
    record: SpaceRecord,
    key: ConversationKey,
    request: MemoryTranscriptLifecycleRequest,
) -> AsyncIterator[list[Ref]]:
    """Yield where the turns stand that `request` means, in their order; ids of other conversations are none of them."""
    tag = record.conversation_tag(key)
    if request.turn_ids:
        own = {turn for turn in request.turn_ids if transcript.is_turn_of(turn, tag)}
        names = [Ref(transcript.TURN_NAMES, record.turn_name_tag(key, turn)) for turn in request.turn_ids]
        known = await ctx.store.get(scope.space, names)
        given = {transcript.TurnName.from_bytes(document.body).turn for document in known if document is not None}
        named = sorted(own | given)
        for start in range(0, len(named), PAGE):
            yield [Ref(transcript.TURNS, turn) for turn in named[start : start + PAGE]]
        return
    after = ""
    while page := await ctx.store.scan(scope.space, transcript.TURNS, prefix=f"{tag}.", after=after, limit=PAGE):
        after = page[-1].ref.key
        yield [document.ref for document in page]


async def _turn_page(
    ctx: OperationContext,
    scope: Scope,
    refs: list[Ref],
    request: MemoryTranscriptLifecycleRequest,
    touched: _Touched,
) -> None:
    """Change the turns at `refs` as one batch, with who requested it and why, and add them to `touched`."""
    transition = request.transition

    async def plan(record: SpaceRecord) -> Settled[list[tuple[TurnId, transcript.Turn]]]:
        changes = Changes(record)
        affected: list[tuple[TurnId, transcript.Turn]] = []
        for document in (await documents_at(ctx.store, scope.space, refs)).values():
            turn = transcript.Turn.from_bytes(document.body)
            after = turned(turn, transition)
            if transition is Transition.DELETE_RAW:
                touched.emptied.add(TurnId(document.ref.key))
            if after != turn:
                changes.put(document.ref, after, expects=document.revision, action=Action.LIFECYCLE)
            if after != turn or transition is Transition.REVIEW:
                affected.append((TurnId(document.ref.key), after))
        if transition is Transition.RESTORE and affected:
            turn_id, turn = affected[0]
            await _note_anew(ctx, scope, changes, transcript.tag_of(turn_id), turn.sequence)
        if changes:
            await note(ctx, scope.space, record, changes, _events(ctx, request, changes))
        return Settled(affected, changes)

    affected, sequence = await settle(ctx, scope.space, plan, takes_back=True)
    touched.turns += affected
    if sequence:
        touched.changed, touched.sequence = True, sequence


def _events(
    ctx: OperationContext, request: MemoryTranscriptLifecycleRequest, changes: Changes
) -> dict[Ref, list[AuditEvent]]:
    """Return what was done to each turn of a batch."""
    done = event_of(
        ctx,
        _ACTIONS[request.transition],
        at=ctx.clock.now(),
        reason=request.reason,
        asked_by=request.requested_by,
    )
    return {ref: [done] for ref in changes.folded if ref.collection == transcript.TURNS}


async def _note_anew(
    ctx: OperationContext, scope: Scope, changes: Changes, tag: ConversationTag, sequence: int
) -> None:
    """Add to a batch that notes of days are drawn again from the turn of this sequence on."""
    ref = Ref(jobs.MAINTAINED, tag)
    known, revision = await value_at(ctx.store, scope.space, ref, jobs.Maintained)
    if known is not None and known.noted >= sequence:
        after = known.model_copy(update={"noted": sequence - 1})
        changes.put(ref, after, expects=revision, action=Action.MAINTENANCE)


async def _remove(ctx: OperationContext, scope: Scope, touched: _Touched) -> None:
    """Remove what is left of emptied turns: replaced bodies, attributes that go with the text, the index checkpoint."""
    beside = [f"{turn}." for turn in touched.emptied]
    refs = [
        document.ref
        for document in await documents_under(ctx.store, scope.space, TURN_ATTRIBUTES, beside)
        if TurnAttribute.from_bytes(document.body).policy is AttributePolicy.FOLLOW_TRANSCRIPT
    ]
    erasure = Erasure(space=scope.space, at=ctx.clock.now(), refs=tuple(refs), blobs=(CHECKPOINT,))
    touched.sequence = (await ctx.store.erase(erasure)).sequence
    ctx.folds.drop(scope.space)


async def _find_derived(ctx: OperationContext, scope: Scope, tag: ConversationTag, touched: _Touched) -> None:
    affected = {turn_id for turn_id, _ in touched.turns}
    if not affected:
        return
    for document in await documents_under(ctx.store, scope.space, DERIVED_REFS, (f"{tag}.",)):
        if TurnId(document.ref.key.rpartition(".")[0]) in affected:
            ref = DerivedMemoryRef.read(document.body, space=scope.space)
            touched.derived.append(DerivedMemoryLink.of(ref))


def _report(
    ctx: OperationContext,
    scope: Scope,
    found: Meant,
    request: MemoryTranscriptLifecycleRequest,
    touched: _Touched,
) -> MemoryTranscriptLifecycleReport:
    budget = ctx.profile.budget.transcript
    clipper = Clipper()
    refs: list[HostOpaqueRef] = []
    redactions: list[TranscriptRedactionReportItem] = []
    for turn_id, turn in touched.turns:
        shown, items = cut_refs(turn_id, turn, view=request.view, budget=budget)
        refs += shown
        redactions += items
    messages = [message_id for turn_id, turn in touched.turns for message_id in _messages(turn_id, turn)]
    listed = clipper.limit("turns", [turn_id for turn_id, _ in touched.turns], limits.PAGE_MAX)
    return MemoryTranscriptLifecycleReport(
        space=scope.space,
        channel=found.key.channel,
        conversation=found.key.conversation,
        transition=request.transition,
        alias=found.trust,
        affected_turns=len(touched.turns),
        affected_turn_ids=listed,
        affected_message_ids=clipper.limit("messages", messages, limits.PAGE_MAX),
        affected_host_refs=clipper.limit("host_refs", refs, limits.PAGE_MAX),
        redacted_host_refs=sum(1 for item in redactions if item.reason is not TranscriptRedactionReason.HOST_REF_LABEL),
        host_ref_redactions=clipper.profile("redactions", redactions, budget.redaction_items),
        derived_memory_refs=clipper.profile("derived_refs", touched.derived, budget.derived_refs),
        profile_budget_applied=clipper.is_by_profile
        or any(item.reason is TranscriptRedactionReason.PROFILE_BUDGET for item in redactions),
        clipped=tuple(clipper.clips),
        changed=touched.changed,
        reason=request.reason,
        requested_by=request.requested_by,
        sequence=touched.sequence,
    )


def _messages(turn_id: TurnId, turn: transcript.Turn) -> list[str]:
    return [transcript.message_id(turn_id, part) for part in range(len(turn.messages)) if part not in turn.erased]
