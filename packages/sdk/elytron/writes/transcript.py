"""Turns become evidence: numbered in their conversation, each host id once."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, documents_under, value_at
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.links import MeantConversation, meant_conversation, put_alias, read_alias
from elytron.state.spaces import GrownHead
from elytron.transcript import ReportClipper
from elytron.writes.commit import Plan, PlannedWrite, SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import (
    DerivedMemoryLink,
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptLifecycleRequest,
    TranscriptRedactionReason,
    TranscriptRedactionReportItem,
    TranscriptWrite,
    TurnDraft,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.contracts.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.errors import Conflict, InvalidInput, TurnConflict
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.model import VouchedMaker
from elytron_core.planes import jobs, transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.space import AuditAction, AuditEvent, SpaceRecord
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    TURN_ATTRIBUTES,
    AttributePolicy,
    DerivedMemoryRef,
    HostOpaqueRef,
    TurnAttribute,
    attribute_key,
)
from elytron_core.policy.transcript import apply_transition, cut_refs
from elytron_core.ports.store import DocumentRef, ErasureTarget, JournalAction
from elytron_core.scope import ConversationKey, Scope, tag_forms
from elytron_core.text import similarity

# Made by the hundred, of what the drafts hold.
_TURNS = VouchedMaker(
    transcript.Turn, "sequence", "channel", "conversation", "messages", "recorded_at", "host_id", "delivery", "origin",
    "agent", "app", "project", "tags", "metadata", "forgotten", "source", "actor", "tool_observations", "host_refs",
    "items", "external_content_used", "candidate_ids", "chat", "title",
)  # fmt: skip
NO_WORDS = "a turn without words leaves no evidence"
_TOLD = (
    "tags",
    "metadata",
    "source",
    "actor",
    "tool_observations",
    "host_refs",
    "items",
    "external_content_used",
    "candidate_ids",
)
"""New fields of a turn from its delivery."""
_DECISIONS = VouchedMaker(WriteDecision, "plane", "id", "outcome", "verdict", "reason", "name")


class ChangedTurn(StrEnum):
    """Treatment of a turn whose host id is known with other content."""

    REFUSE = "refuse"
    KEEP_FIRST = "keep_first"


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Requests of a write of turns. With `sequence`, its first new turn must become that one of its conversation."""

    changed: ChangedTurn = ChangedTurn.REFUSE
    sequence: int | None = None


class _NamedTurn(NamedTuple):
    """The turn stored under a host id."""

    ref: DocumentRef
    value: transcript.TurnName
    revision: int


@dataclass(frozen=True, slots=True)
class _RetriedTurn:
    """A stored turn that was not delivered at first, with the state that its delivery gives it."""

    name: _NamedTurn
    turn_id: TurnId
    turn: transcript.Turn
    revision: int
    attributes: frozenset[str]
    """The keys of the attributes that it has already."""


async def plan_turns(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, rules: TurnRules, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the batch that puts the turns of `write` behind what their conversation holds.

    A known host id with the same content is a duplicate. With other content, it completes a turn that was not
    delivered at first, or is a TurnConflict, or is left out, as `rules` say.
    """
    key = scope.conversation_key
    tag = record.conversation_tag(key)
    names = _host_names(record, key, write)
    there = await _known_names(ctx, scope, names)
    known = {host_id: one.value for host_id, one in there.items()}
    retried = await _retried_turns(ctx, scope, record, write, there)
    alias = await read_alias(ctx, scope, record)
    head, revision, line, requires = await ctx.heads.of(scope.space, tag, key)
    # No waiting from here on: what is planned on this head is handed to the store before another writer plans.
    now, changes = ctx.clock.now(), ChangeSet(record)
    decisions: list[WriteDecision] = []
    sequence = head.next_sequence
    stored: list[transcript.Turn] = []
    for draft in write.turns:
        messages = transcript.evidence_of(draft.messages, draft.delivery)
        if reason := _no_evidence(draft, messages):
            decisions.append(_turn_decision(WriteOutcome.SKIPPED, None, draft, reason, AdmissionVerdict.REJECT))
            continue
        digest = record.digest(draft.to_bytes()) if draft.host_id is not None else ""
        name = known.get(draft.host_id) if draft.host_id is not None else None
        retry = retried.get(draft.host_id) if draft.host_id is not None else None
        if name is not None and retry is not None and name.digest != digest:
            head = transcript.note_turns(head, [_complete_turn(changes, record, draft, retry, digest)])
            decisions.append(_turn_decision(WriteOutcome.UPDATED, name.turn, draft))
            continue
        if name is not None:
            decisions.append(_known_turn(name, digest, draft, rules.changed))
            continue
        if not stored and rules.sequence not in {None, sequence}:
            raise Conflict(what="the conversation's next turn", expected=rules.sequence or 0, found=sequence)
        turn_id = transcript.turn_id(tag, sequence)
        chat, title = (None, None) if stored else _new_names(head, scope, write)
        turn = _draft_turn(
            scope, draft, messages, sequence=sequence, now=now, origin=write.origin, chat=chat, title=title
        )
        _put_turn(changes, record, turn_id, turn, draft)
        if draft.host_id is not None:
            # Known from here on, so that the same id later in this write is a duplicate.
            known[draft.host_id] = transcript.TurnName(turn=turn_id, digest=digest)
            changes.put(names[draft.host_id], known[draft.host_id], expects=0, action=None)
        decisions.append(_turn_decision(WriteOutcome.STORED, turn_id, draft))
        stored.append(turn)
        sequence += 1
    about = DocumentRef(transcript.CONVERSATIONS, tag)
    if not stored:
        return PlannedWrite(_with_head(changes, about, head, revision), tuple(decisions), about, requires)
    grown = transcript.append_turns(head, stored)
    changes.put(about, grown, expects=revision, action=None)
    if alias is not None:
        put_alias(changes, record, *alias)
    ahead = GrownHead(tag, grown, revision + 1, head.next_sequence, line)
    return PlannedWrite(changes, tuple(decisions), about, requires, ahead)


class TurnCompanion(Protocol):
    """Part of a batch that commits a turn."""

    async def read(self, record: SpaceRecord, /) -> None:
        """Read what its changes build on; again after each lost race."""
        ...

    def changes(self, record: SpaceRecord, turn_id: TurnId | None, turn: transcript.Turn | None, /) -> ChangeSet:
        """Return the changes beside `turn`, which is None unless it is new; without an id, it leaves no evidence."""
        ...


async def plan_beside(plan: Plan, companions: Sequence[TurnCompanion], record: SpaceRecord, /) -> PlannedWrite:
    """Return the planned write of one turn, with what `companions` commit beside it."""
    for companion in companions:
        await companion.read(record)
    planned = await plan(record)
    # No waiting from here on: the turn is planned on a head that others build on.
    (decision,) = planned.decisions
    turn_id = TurnId(decision.id) if decision.id is not None else None
    is_new = turn_id is not None and decision.outcome is WriteOutcome.STORED
    turn = planned.changes.folded[DocumentRef(transcript.TURNS, turn_id)] if turn_id is not None and is_new else None
    assert turn is None or isinstance(turn, transcript.Turn)
    beside = ChangeSet(record)
    for companion in companions:
        beside.join(companion.changes(record, turn_id, turn))
    return replace(planned, beside=beside)


def _host_names(record: SpaceRecord, key: ConversationKey, write: TranscriptWrite) -> dict[str, DocumentRef]:
    """Return where the host ids of a write stand."""
    return {
        turn.host_id: DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, turn.host_id))
        for turn in write.turns
        if turn.host_id is not None
    }


def _put_turn(
    changes: ChangeSet, record: SpaceRecord, turn_id: TurnId, turn: transcript.Turn, draft: TurnDraft
) -> None:
    """Add a new turn to the batch."""
    changes.put(DocumentRef(transcript.TURNS, turn_id), turn, expects=0, action=JournalAction.WRITE)
    _put_attributes(changes, record, turn_id, turn, draft)


def _with_head(changes: ChangeSet, about: DocumentRef, head: transcript.Conversation, revision: int) -> ChangeSet:
    """Return the batch of turns that were completed, with what they changed of their conversation's head."""
    if changes:
        changes.put(about, head, expects=revision, action=None)
    return changes


def _complete_turn(
    changes: ChangeSet, record: SpaceRecord, draft: TurnDraft, retry: _RetriedTurn, digest: str
) -> transcript.Turn:
    """Add the delivery of a stored turn to the batch, with its new fields, and return the turn."""
    told = {name: getattr(draft, name) for name in _TOLD} | {"tags": tag_forms(draft.tags)}
    turn = retry.turn.model_copy(update=told)
    changes.put(DocumentRef(transcript.TURNS, retry.turn_id), turn, expects=retry.revision, action=JournalAction.MERGE)
    _put_attributes(changes, record, retry.turn_id, turn, draft, known=retry.attributes)
    renamed = transcript.TurnName(turn=retry.turn_id, digest=digest)
    changes.put(retry.name.ref, renamed, expects=retry.name.revision, action=None)
    return turn


def _no_evidence(draft: TurnDraft, messages: tuple[transcript.Message, ...]) -> str:
    """Return why a turn that would keep `messages` is no evidence; empty if it is."""
    if not messages:
        return f"delivery {draft.delivery.value} leaves no evidence"
    if not all(similarity.is_blank(message.text) for message in messages):
        return ""
    # A host may tell of a turn without words what was done in it.
    told = draft.tool_observations or draft.host_refs or draft.items or draft.candidate_ids or draft.attributes
    return "" if told else NO_WORDS


def _put_attributes(
    changes: ChangeSet,
    record: SpaceRecord,
    turn_id: TurnId,
    turn: transcript.Turn,
    draft: TurnDraft,
    *,
    known: frozenset[str] = frozenset(),
) -> None:
    """Add the turn's attributes to the batch. Raises InvalidInput for one that is not the turn's."""
    seen: set[str] = set()
    for attribute in draft.attributes:
        if attribute.part is not None and attribute.part >= len(turn.messages):
            raise InvalidInput(field="attributes", problem="name a message that the turn does not keep")
        if attribute.value_bytes > attribute.max_value_bytes:
            raise InvalidInput(field="attributes", problem="have a value that is longer than its own bound")
        key = attribute_key(turn_id, record.attribute_tag(attribute.key, attribute.part))
        if key in seen:
            raise InvalidInput(field="attributes", problem="say one key twice")
        seen.add(key)
        if key in known:
            continue
        kept = TurnAttribute(
            **attribute.model_dump(),
            turn=turn_id,
            channel=turn.channel,
            conversation=turn.conversation,
            written_at=turn.recorded_at,
        )
        changes.put(DocumentRef(TURN_ATTRIBUTES, key), kept, expects=0, action=None)


def _known_turn(name: transcript.TurnName, digest: str, draft: TurnDraft, changed: ChangedTurn) -> WriteDecision:
    """Return the decision on a turn whose host id is there. Raises TurnConflict as `changed` says."""
    if name.digest == digest:
        return _turn_decision(WriteOutcome.DUPLICATE, name.turn, draft, "this turn is already there")
    if changed is ChangedTurn.KEEP_FIRST:
        return _turn_decision(
            WriteOutcome.DUPLICATE, name.turn, draft, "a turn of this id is already there, and was kept"
        )
    raise TurnConflict(turn=draft.host_id or "")


async def _known_names(ctx: OperationContext, scope: Scope, names: Mapping[str, DocumentRef]) -> dict[str, _NamedTurn]:
    """Return what is stored under the host ids of a write."""
    if not names:
        return {}
    documents = await ctx.store.get(scope.space, tuple(names.values()))
    return {
        host_id: _NamedTurn(document.ref, transcript.TurnName.from_bytes(document.body), document.revision)
        for host_id, document in zip(names, documents, strict=True)
        if document is not None
    }


async def _retried_turns(
    ctx: OperationContext,
    scope: Scope,
    record: SpaceRecord,
    write: TranscriptWrite,
    known: Mapping[str, _NamedTurn],
) -> dict[str, _RetriedTurn]:
    """Return the stored turns that a delivered turn of the write completes."""
    drafts = {
        draft.host_id: draft
        for draft in write.turns
        if draft.host_id is not None and draft.host_id in known and draft.delivery is transcript.TurnDelivery.DELIVERED
    }
    found = (
        await ctx.store.get(scope.space, [DocumentRef(transcript.TURNS, known[name].value.turn) for name in drafts])
        if drafts
        else ()
    )
    retried: dict[str, _RetriedTurn] = {}
    for (host_id, draft), document in zip(drafts.items(), found, strict=True):
        stored = transcript.Turn.from_bytes(document.body) if document is not None else None
        turn = transcript.delivered_after(stored, draft.messages) if stored is not None else None
        if document is None or turn is None:
            continue
        turn_id = TurnId(document.ref.key)
        keys = [attribute_key(turn_id, record.attribute_tag(one.key, one.part)) for one in draft.attributes]
        there = await ctx.store.get(scope.space, [DocumentRef(TURN_ATTRIBUTES, key) for key in keys]) if keys else ()
        attributes = frozenset(one.ref.key for one in there if one is not None)
        retried[host_id] = _RetriedTurn(known[host_id], turn_id, turn, document.revision, attributes)
    return retried


def _draft_turn(
    scope: Scope,
    draft: TurnDraft,
    messages: tuple[transcript.Message, ...],
    *,
    sequence: int,
    now: Instant,
    origin: transcript.TurnOrigin,
    chat: str | None,
    title: str | None,
) -> transcript.Turn:
    channel, conversation = scope.conversation_key
    return _TURNS.make(
        sequence=sequence,
        channel=channel,
        conversation=conversation,
        messages=messages,
        recorded_at=now,
        host_id=draft.host_id,
        delivery=draft.delivery,
        origin=origin,
        agent=scope.agent,
        app=scope.app,
        project=scope.project,
        tags=tag_forms(draft.tags),
        metadata=dict(draft.metadata),
        forgotten={},
        source=draft.source,
        actor=draft.actor,
        tool_observations=draft.tool_observations,
        host_refs=draft.host_refs,
        items=draft.items,
        external_content_used=draft.external_content_used,
        candidate_ids=draft.candidate_ids,
        chat=chat,
        title=title,
    )


def _turn_decision(
    outcome: WriteOutcome,
    turn: TurnId | None,
    draft: TurnDraft,
    reason: str = "",
    verdict: AdmissionVerdict = AdmissionVerdict.ACCEPT,
) -> WriteDecision:
    plane = RecallPlane.TRANSCRIPT.value
    return _DECISIONS.make(plane=plane, id=turn, outcome=outcome, verdict=verdict, reason=reason, name=draft.host_id)


def _new_names(head: transcript.Conversation, scope: Scope, write: TranscriptWrite) -> tuple[str | None, str | None]:
    """Return the chat and the title that the write gives its conversation, each None where `head` has it."""
    return (
        scope.chat if scope.chat != head.chat else None,
        write.title if write.title != head.title else None,
    )


PAGE = 500
"""Turns that are changed in one batch; a request about more, broken off, is finished by sending it again."""

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
    found = await meant_conversation(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    touched = _TouchedTurns()
    if record is not None and found.is_trusted:
        tag = record.conversation_tag(found.key)
        async for refs in _turn_pages(ctx, scope, record, found.key, request):
            await _turn_page(ctx, scope, refs, request, touched)
        if touched.emptied:
            await _remove_emptied(ctx, scope, touched)
        await _find_derived(ctx, scope, tag, touched)
    return _lifecycle_report(ctx, scope, found, request, touched)


async def _turn_pages(
    ctx: OperationContext,
    scope: Scope,
    record: SpaceRecord,
    key: ConversationKey,
    request: MemoryTranscriptLifecycleRequest,
) -> AsyncIterator[list[DocumentRef]]:
    """Yield where the turns stand that `request` means, in their order; ids of other conversations are none of them."""
    tag = record.conversation_tag(key)
    if request.turn_ids:
        own = {turn for turn in request.turn_ids if transcript.is_turn_of(turn, tag)}
        names = [DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, turn)) for turn in request.turn_ids]
        known = await ctx.store.get(scope.space, names)
        given = {transcript.TurnName.from_bytes(document.body).turn for document in known if document is not None}
        named = sorted(own | given)
        for start in range(0, len(named), PAGE):
            yield [DocumentRef(transcript.TURNS, turn) for turn in named[start : start + PAGE]]
        return
    after = ""
    while page := await ctx.store.scan(scope.space, transcript.TURNS, prefix=f"{tag}.", after=after, limit=PAGE):
        after = page[-1].ref.key
        yield [document.ref for document in page]


async def _turn_page(
    ctx: OperationContext,
    scope: Scope,
    refs: list[DocumentRef],
    request: MemoryTranscriptLifecycleRequest,
    touched: _TouchedTurns,
) -> None:
    """Change the turns at `refs` as one batch, with who requested it and why, and add them to `touched`."""
    transition = request.transition

    async def plan(record: SpaceRecord) -> SettledChanges[list[tuple[TurnId, transcript.Turn]]]:
        changes = ChangeSet(record)
        affected: list[tuple[TurnId, transcript.Turn]] = []
        for document in (await documents_at(ctx.store, scope.space, refs)).values():
            turn = transcript.Turn.from_bytes(document.body)
            after = apply_transition(turn, transition)
            if transition is Transition.DELETE_RAW:
                touched.emptied.add(TurnId(document.ref.key))
            if after != turn:
                changes.put(document.ref, after, expects=document.revision, action=JournalAction.LIFECYCLE)
            if after != turn or transition is Transition.REVIEW:
                affected.append((TurnId(document.ref.key), after))
        if transition is Transition.RESTORE and affected:
            turn_id, turn = affected[0]
            await _note_anew(ctx, scope, changes, transcript.tag_of(turn_id), turn.sequence)
        if changes:
            await note_events(ctx, scope.space, record, changes, _audit_events(ctx, request, changes))
        return SettledChanges(affected, changes)

    affected, sequence = await settle_changes(ctx, scope.space, plan, takes_back=True)
    touched.turns += affected
    if sequence:
        touched.changed, touched.sequence = True, sequence


def _audit_events(
    ctx: OperationContext, request: MemoryTranscriptLifecycleRequest, changes: ChangeSet
) -> dict[DocumentRef, list[AuditEvent]]:
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
    ctx: OperationContext, scope: Scope, changes: ChangeSet, tag: ConversationTag, sequence: int
) -> None:
    """Add to a batch that notes of days are drawn again from the turn of this sequence on."""
    ref = DocumentRef(jobs.MAINTAINED, tag)
    known, revision = await value_at(ctx.store, scope.space, ref, jobs.MaintainedTurns)
    if known is not None and known.noted >= sequence:
        after = known.model_copy(update={"noted": sequence - 1})
        changes.put(ref, after, expects=revision, action=JournalAction.MAINTENANCE)


async def _remove_emptied(ctx: OperationContext, scope: Scope, touched: _TouchedTurns) -> None:
    """Remove what is left of emptied turns: replaced bodies, attributes that go with the text, the index checkpoint."""
    beside = [f"{turn}." for turn in touched.emptied]
    refs = [
        document.ref
        for document in await documents_under(ctx.store, scope.space, TURN_ATTRIBUTES, beside)
        if TurnAttribute.from_bytes(document.body).policy is AttributePolicy.FOLLOW_TRANSCRIPT
    ]
    erasure = ErasureTarget(space=scope.space, at=ctx.clock.now(), refs=tuple(refs), blobs=(CHECKPOINT,))
    touched.sequence = (await ctx.store.erase(erasure)).sequence
    ctx.folds.drop(scope.space)


async def _find_derived(ctx: OperationContext, scope: Scope, tag: ConversationTag, touched: _TouchedTurns) -> None:
    affected = {turn_id for turn_id, _ in touched.turns}
    if not affected:
        return
    for document in await documents_under(ctx.store, scope.space, DERIVED_REFS, (f"{tag}.",)):
        if TurnId(document.ref.key.rpartition(".")[0]) in affected:
            ref = DerivedMemoryRef.read(document.body, space=scope.space)
            touched.derived.append(DerivedMemoryLink.of(ref))


def _lifecycle_report(
    ctx: OperationContext,
    scope: Scope,
    found: MeantConversation,
    request: MemoryTranscriptLifecycleRequest,
    touched: _TouchedTurns,
) -> MemoryTranscriptLifecycleReport:
    budget = ctx.profile.budget.transcript
    clipper = ReportClipper()
    refs: list[HostOpaqueRef] = []
    redactions: list[TranscriptRedactionReportItem] = []
    for turn_id, turn in touched.turns:
        shown, items = cut_refs(turn_id, turn, view=request.view, budget=budget)
        refs += shown
        redactions += items
    messages = [message_id for turn_id, turn in touched.turns for message_id in _message_ids(turn_id, turn)]
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


def _message_ids(turn_id: TurnId, turn: transcript.Turn) -> list[str]:
    return [transcript.message_id(turn_id, part) for part in range(len(turn.messages)) if part not in turn.erased]
