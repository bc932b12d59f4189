"""The state of a conversation, and its transfer to another conversation or memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet
from elytron.intake import admit_texts, require_chars, scrub_value
from elytron.memories.chat_aliases import home_scope, meant_conversation
from elytron.transcript import with_founded_citations
from elytron.writes.commit import PlannedWrite, SettledChanges, settle_report
from elytron.writes.continuity import plan_capsules, plan_execution, plan_summary
from elytron.writes.facts import draft_of, plan_facts
from elytron_core import limits
from elytron_core.contracts.continuity import (
    CapsuleDraft,
    CapsulesWrite,
    ContinuityExportReport,
    ContinuityExportRequest,
    ContinuityImportReport,
    ContinuityImportRequest,
    ContinuityReport,
    ContinuityRequest,
    ContinuitySnapshot,
    ExecutionDraft,
    ExecutionWrite,
    GardenAudience,
    GardenReport,
    GardenRequest,
    LayerDecision,
    LayerOutcome,
    SnapshotLayer,
    SnapshotLayers,
    SnapshotManifest,
    SnapshotMode,
    SubjectAudience,
    SubjectsReport,
    SubjectsRequest,
    SummaryDraft,
    SummaryWrite,
)
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import LongTermExtraction, WriteOutcome
from elytron_core.errors import InvalidInput
from elytron_core.ids import ConversationTag
from elytron_core.planes import continuity, subjects, transcript
from elytron_core.planes.continuity import NOTES, DailyNote, GardenDocument, GardenRole
from elytron_core.planes.facts import FACTS, Fact, FactPrivacy, FactReach, fact_holds, topic_key
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.subjects import Subject, SubjectEdge, SubjectVisibility
from elytron_core.policy import continuity as capsule_policy
from elytron_core.policy import maintenance
from elytron_core.policy.admission import rules
from elytron_core.policy.continuity import choose_facts, facts_limit, included_layers, layers_fingerprint
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope

STORED_OUTCOMES = frozenset({WriteOutcome.STORED, WriteOutcome.UPDATED})
NOTES_SHOWN = 31
OWN_IS_NEWER = "the stored state is newer, or the same"


async def read_continuity(ctx: OperationContext, request: ContinuityRequest, /) -> ContinuityReport:
    """Return the state of the scope's conversation: work, summary, capsules, notes; empty for another's chat."""
    scope, documents = await _meant_and_kept(ctx, ctx.scope_of(request))
    now = ctx.clock.now()
    capsules = tuple(
        capsule.model_copy(update={"state": continuity.state_at(capsule, now)})
        for capsule in sorted(documents.capsules, key=lambda one: (-one.updated_at, one.id))
        if capsule.forgotten_at is None
    )
    selected_capsules = capsule_policy.select_capsules(capsules, request.query, now=now)
    channel, conversation = scope.conversation_key
    return ContinuityReport(
        space=scope.space,
        channel=channel,
        conversation=conversation,
        state=documents.state,
        summary=documents.summary,
        summary_is_due=maintenance.is_summary_due(documents.messages, documents.summary),
        capsules=capsules,
        selected=tuple(capsule.id for capsule in selected_capsules),
        block=capsule_policy.capsule_block(selected_capsules),
        notes=documents.notes,
    )


async def export_continuity(ctx: OperationContext, request: ContinuityExportRequest, /) -> ContinuityExportReport:
    """Return the continuity of the scope's conversation as a snapshot; read-only."""
    scope, documents = await _meant_and_kept(ctx, ctx.scope_of(request))
    key = channel, conversation = scope.conversation_key
    now = ctx.clock.now()
    current_facts = [fact for fact in documents.facts if fact_holds(fact, as_of=now) and fact.counts_in(key)]
    facts = choose_facts(current_facts, mode=request.mode, conversation=conversation)
    layers = SnapshotLayers(facts=tuple(draft_of(fact) for fact in facts))
    if request.mode is SnapshotMode.FULL_RESTORE:
        layers = _whole_layers(documents, layers)
    manifest = SnapshotManifest(
        mode=request.mode,
        space=scope.space,
        channel=channel,
        conversation=conversation,
        made_at=now,
        includes=included_layers(layers),
        fingerprint=layers_fingerprint(layers),
    )
    private_count = sum(fact.privacy is FactPrivacy.PRIVATE for fact in current_facts)
    return ContinuityExportReport(
        space=scope.space,
        snapshot=ContinuitySnapshot(manifest=manifest, layers=layers),
        facts_left=len(current_facts) - private_count - len(facts),
        private_left=private_count,
    )


@admit_texts
async def import_continuity(ctx: OperationContext, request: ContinuityImportRequest, /) -> ContinuityImportReport:
    """Import a snapshot into the scope's conversation as one batch; the newer value wins.

    Raises InvalidInput for one whose layers are not those it was made with, and for another subject's chat.
    """
    scope = await home_scope(ctx, ctx.scope_of(request))
    layers = request.snapshot.layers
    # Checked before texts are redacted, which changes the fingerprint.
    if layers_fingerprint(layers) != request.snapshot.manifest.fingerprint:
        raise InvalidInput(field="snapshot", problem="is damaged: its layers do not match its fingerprint")
    if len(layers.capsules) != len(layers.capsules_at):
        raise InvalidInput(field="snapshot", problem="does not give the time of each capsule")
    layers, findings = scrub_value(layers)
    require_chars(ctx.profile, findings.longest)
    channel, conversation = scope.conversation_key

    async def plan(record: SpaceRecord) -> SettledChanges[ContinuityImportReport]:
        changes = ChangeSet(record)
        decisions = await _take_layers(ctx, scope, layers, record, changes, mode=request.mode)
        report = ContinuityImportReport(
            space=scope.space,
            channel=channel,
            conversation=conversation,
            mode=request.mode,
            layers=tuple(decisions),
            changed=bool(changes) and not request.dry_run,
            dry_run=request.dry_run,
            scrubbed=findings.counts,
        )
        return SettledChanges(report, changes if report.changed else None)

    return await settle_report(ctx, scope.space, plan)


@dataclass(slots=True)
class _ContinuityDocuments:
    """Documents of continuity of a space and one of its conversations."""

    state: continuity.ExecutionState | None = None
    summary: continuity.SessionSummary | None = None
    capsules: Sequence[continuity.ContinuityCapsule] = ()
    notes: tuple[DailyNote, ...] = ()
    facts: Sequence[Fact] = ()
    messages: int = 0


async def _meant_and_kept(ctx: OperationContext, scope: Scope) -> tuple[Scope, _ContinuityDocuments]:
    """Return `scope` with its resolved conversation and what is stored there: nothing if its chat is another's."""
    conversation = await meant_conversation(ctx, scope)
    conversation_scope = conversation.within(scope)
    return conversation_scope, await _read_continuity(
        ctx, conversation_scope
    ) if conversation.is_trusted else _ContinuityDocuments()


async def _read_continuity(ctx: OperationContext, scope: Scope) -> _ContinuityDocuments:
    documents = _ContinuityDocuments()
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return documents
    tag = record.conversation_tag(scope.conversation_key)
    refs = (
        DocumentRef(continuity.EXECUTION, tag),
        DocumentRef(continuity.SUMMARIES, tag),
        DocumentRef(transcript.CONVERSATIONS, tag),
    )
    state_document, summary, head = await ctx.store.get(scope.space, refs)
    if (
        state_document is not None
        and (execution := continuity.ExecutionState.from_bytes(state_document.body)).forgotten_at is None
    ):
        documents.state = execution
    if (
        summary is not None
        and (last_summary := continuity.SessionSummary.from_bytes(summary.body)).forgotten_at is None
    ):
        documents.summary = last_summary
    if head is not None:
        documents.messages = await _message_count(ctx, scope, tag, documents.summary)
    prefix = f"{tag}."
    capsule_page = await ctx.store.scan(
        scope.space, continuity.CAPSULES, prefix=prefix, limit=limits.CAPSULES_PER_SPACE
    )
    documents.capsules = [continuity.ContinuityCapsule.from_bytes(document.body) for document in capsule_page]
    note_page = await ctx.store.scan(scope.space, NOTES, prefix=prefix, limit=limits.SCAN_MAX)
    notes = [DailyNote.from_bytes(document.body) for document in note_page]
    notes.sort(key=lambda note: note.period, reverse=True)
    documents.notes = tuple(note for note in notes if note.forgotten_at is None)[:NOTES_SHOWN]
    facts = await ctx.store.scan(scope.space, FACTS, limit=limits.SCAN_MAX, descending=True)
    documents.facts = [Fact.from_bytes(document.body) for document in facts]
    return documents


async def _message_count(
    ctx: OperationContext, scope: Scope, tag: str, summary: continuity.SessionSummary | None
) -> int:
    """Return how many messages the conversation has, for a summary's due date."""
    covered_count = summary.messages if summary is not None else 0
    last_covered_id = transcript.turn_id(ConversationTag(tag), summary.through_sequence if summary is not None else 0)
    # A summary is due from this number of turns on, so no more are read.
    documents = await ctx.store.scan(
        scope.space, transcript.TURNS, prefix=f"{tag}.", after=last_covered_id, limit=maintenance.SUMMARY_FROM
    )
    turns = [transcript.Turn.from_bytes(document.body) for document in documents]
    return covered_count + sum(len(turn.messages) - len(turn.erased) for turn in turns)


def _whole_layers(documents: _ContinuityDocuments, layers: SnapshotLayers) -> SnapshotLayers:
    """Return the layers with everything needed to continue the conversation."""
    capsules = [
        capsule
        for capsule in sorted(documents.capsules, key=lambda one: (one.updated_at, one.id))
        if capsule.is_recallable
    ][-limits.CAPSULES_PER_CONVERSATION :]
    fields = set(ExecutionDraft.model_fields)
    return layers.model_copy(
        update={
            "state": ExecutionDraft(**documents.state.model_dump(include=fields))
            if documents.state is not None
            else None,
            "state_at": documents.state.updated_at if documents.state is not None else None,
            "summary": SummaryDraft(
                text=documents.summary.text, messages=documents.summary.messages, model=documents.summary.model
            )
            if documents.summary is not None
            else None,
            "summary_at": documents.summary.updated_at if documents.summary is not None else None,
            "capsules": tuple(_capsule_draft(capsule) for capsule in capsules),
            "capsules_at": tuple(capsule.updated_at for capsule in capsules),
        }
    )


async def _take_layers(
    ctx: OperationContext,
    scope: Scope,
    layers: SnapshotLayers,
    record: SpaceRecord,
    changes: ChangeSet,
    *,
    mode: SnapshotMode,
) -> list[LayerDecision]:
    """Add the new parts of each layer to `changes` and return the decision on each layer."""
    own_documents = await _read_continuity(ctx, scope)
    now = ctx.clock.now()
    own_facts = [
        fact for fact in own_documents.facts if fact_holds(fact, as_of=now) and fact.counts_in(scope.conversation_key)
    ]
    facts = _new_drafts(layers.facts[: facts_limit(mode)], own_facts)
    planned_write = None
    if facts:
        fact_write = await with_founded_citations(ctx, scope.space, LongTermExtraction(facts=facts))
        planned_write = await plan_facts(ctx, scope, fact_write, record)
    decisions = [_decide_layer(SnapshotLayer.FACTS, planned_write, changes, offered=len(layers.facts), news=len(facts))]
    if mode is SnapshotMode.BOOTSTRAP:
        omitted_layers = (SnapshotLayer.EXECUTION, SnapshotLayer.SUMMARY, SnapshotLayer.CAPSULES)
        return [
            *decisions,
            *(LayerDecision(layer=layer, outcome=LayerOutcome.NOT_INCLUDED) for layer in omitted_layers),
        ]
    planned_write = None
    if layers.state is not None and (
        own_documents.state is None or (layers.state_at or 0) > own_documents.state.updated_at
    ):
        planned_write = await plan_execution(ctx, scope, ExecutionWrite(state=layers.state), record)
    decisions.append(
        _decide_layer(SnapshotLayer.EXECUTION, planned_write, changes, offered=int(layers.state is not None))
    )
    planned_write = None
    if layers.summary is not None and (
        own_documents.summary is None or (layers.summary_at or 0) > own_documents.summary.updated_at
    ):
        planned_write = await plan_summary(ctx, scope, SummaryWrite(summary=layers.summary), record)
    decisions.append(
        _decide_layer(SnapshotLayer.SUMMARY, planned_write, changes, offered=int(layers.summary is not None))
    )
    newer_capsules = _newer_capsules(layers, own_documents.capsules)
    planned_write = None
    if newer_capsules:
        capsule_write = await with_founded_citations(ctx, scope.space, CapsulesWrite(capsules=newer_capsules))
        planned_write = await plan_capsules(ctx, scope, capsule_write, record)
    decisions.append(
        _decide_layer(
            SnapshotLayer.CAPSULES, planned_write, changes, offered=len(layers.capsules), news=len(newer_capsules)
        )
    )
    return decisions


def _new_drafts(drafts: Sequence[FactDraft], own_facts: Sequence[Fact]) -> tuple[FactDraft, ...]:
    """Return the facts that are new here: importing the same again is no evidence."""
    content_by_slot = {(fact.kind, topic_key(fact.topic), fact.home is not None): fact.content for fact in own_facts}
    slots = [(draft.fact_kind, topic_key(draft.topic), draft.reach is FactReach.CHAT) for draft in drafts]
    return tuple(
        draft
        for draft, slot in zip(drafts, slots, strict=True)
        if not rules.says_the_same(draft.content, content_by_slot.get(slot, ""))
    )


def _newer_capsules(
    layers: SnapshotLayers, own_capsules: Sequence[continuity.ContinuityCapsule]
) -> tuple[CapsuleDraft, ...]:
    update_times = {(capsule.kind, topic_key(capsule.topic)): capsule.updated_at for capsule in own_capsules}
    return tuple(
        draft
        for draft, at in zip(layers.capsules, layers.capsules_at, strict=True)
        if at > update_times.get((draft.capsule_kind, topic_key(draft.topic)), -1)
    )


def _decide_layer(
    layer: SnapshotLayer, planned_write: PlannedWrite | None, changes: ChangeSet, *, offered: int, news: int = 1
) -> LayerDecision:
    """Add `planned_write`, made of the `news` among the `offered` items, to `changes`; return the layer's decision."""
    if not offered:
        return LayerDecision(layer=layer, outcome=LayerOutcome.NOT_INCLUDED)
    if planned_write is None:
        return LayerDecision(layer=layer, outcome=LayerOutcome.KEPT_OWN, left=offered, reason=OWN_IS_NEWER)
    changes.join(planned_write.changes)
    taken_count = sum(decision.outcome in STORED_OUTCOMES for decision in planned_write.decisions)
    refused_count = sum(
        decision.outcome not in STORED_OUTCOMES | {WriteOutcome.DELETED} for decision in planned_write.decisions
    )
    left_count = offered - news + refused_count
    reason = "; ".join(dict.fromkeys(decision.reason for decision in planned_write.decisions if decision.reason))
    if not taken_count:
        return LayerDecision(layer=layer, outcome=LayerOutcome.KEPT_OWN, left=left_count, reason=reason or OWN_IS_NEWER)
    outcome = LayerOutcome.PARTLY if left_count else LayerOutcome.TAKEN
    return LayerDecision(layer=layer, outcome=outcome, taken=taken_count, left=left_count, reason=reason)


def _capsule_draft(capsule: continuity.ContinuityCapsule) -> CapsuleDraft:
    return CapsuleDraft(
        capsule_kind=capsule.kind,
        topic=capsule.topic,
        summary=capsule.summary,
        outcome=capsule.outcome,
        decisions=capsule.decisions,
        next_step=capsule.next_step,
        unresolved=capsule.unresolved,
        artifacts=capsule.artifacts,
        state=capsule.state,
    )


async def read_subjects(ctx: OperationContext, request: SubjectsRequest, /) -> SubjectsReport:
    """Return the subjects that the audience may see, by name, and the edges between them."""
    scope = ctx.scope_of(request)
    # One more shows that there are others.
    documents = await ctx.store.scan(scope.space, subjects.SUBJECTS, limit=limits.PAGE_MAX + 1)
    all_subjects = [Subject.from_bytes(document.body) for document in documents[: limits.PAGE_MAX]]
    candidates = [subject for subject in all_subjects if not request.kinds or subject.kind in request.kinds]
    visible_subjects = sorted(
        (subject for subject in candidates if _may_see(subject, request.audience)), key=lambda one: one.name
    )
    names = {subject.name for subject in visible_subjects}
    edge_page = await ctx.store.scan(scope.space, subjects.SUBJECT_EDGES, limit=limits.SCAN_MAX)
    all_edges = [SubjectEdge.from_bytes(document.body) for document in edge_page]
    visible_edges = [edge for edge in all_edges if {edge.source, edge.target} <= names]
    visible_edges.sort(key=lambda edge: (edge.source, edge.kind, edge.target))
    return SubjectsReport(
        space=scope.space,
        subjects=tuple(visible_subjects),
        edges=tuple(visible_edges),
        withheld=len(candidates) - len(visible_subjects),
        clipped=len(documents) > limits.PAGE_MAX or len(edge_page) == limits.SCAN_MAX,
    )


async def read_garden(ctx: OperationContext, request: GardenRequest, /) -> GardenReport:
    """Return the private documents of the scope's conversation that the audience may see; none for another's chat."""
    target_conversation = await meant_conversation(ctx, ctx.scope_of(request))
    scope = target_conversation.within(ctx.scope_of(request))
    channel, conversation = scope.conversation_key
    record = await ctx.spaces.find(scope.space)
    documents: list[GardenDocument] = []
    if record is not None and target_conversation.is_trusted:
        garden_prefix = f"{record.conversation_tag(scope.conversation_key)}."
        page = await ctx.store.scan(scope.space, continuity.GARDEN, prefix=garden_prefix, limit=limits.GARDEN_DOCUMENTS)
        documents = [GardenDocument.from_bytes(document.body) for document in page]
    visible_documents = [document for document in documents if _may_read(document, request.audience)]
    return GardenReport(
        space=scope.space,
        channel=channel,
        conversation=conversation,
        documents=tuple(sorted(visible_documents, key=lambda document: document.name)),
        withheld=len(documents) - len(visible_documents),
    )


def _may_see(subject: Subject, audience: SubjectAudience) -> bool:
    return audience is SubjectAudience.AUDIT or subject.visibility is SubjectVisibility.VISIBLE


def _may_read(document: GardenDocument, audience: GardenAudience) -> bool:
    match audience:
        case GardenAudience.OWNER:
            return document.forgotten_at is None
        case GardenAudience.MODEL:
            return document.forgotten_at is None and document.role is not GardenRole.SEALED
        case GardenAudience.HOST_UI:
            return False
        case _:
            assert_never(audience)
