"""Judgement of candidates: accepted ones become beliefs in the same batch, others wait or are refused with a reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet
from elytron.memories.links import RestingMemory, link_sources, link_written
from elytron.transcript import NOT_THERE, cited_messages
from elytron.writes.commit import PlannedWrite
from elytron.writes.continuity import plan_garden
from elytron.writes.facts import plan_facts
from elytron.writes.skills import plan_skills
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import GardenDraft, GardenWrite
from elytron_core.contracts.facts import CandidatesWrite, FactDraft
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    ProcedureSource,
    RuntimeSkillWrite,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.planes import candidates
from elytron_core.planes.candidates import (
    AdmissionVerdict,
    Candidate,
    CandidateDraft,
    CandidateId,
    CandidateState,
    DiagnosticProposal,
    FactProposal,
    GardenProposal,
    SkillProposal,
    SoulProposal,
)
from elytron_core.planes.facts import FACTS, Fact, FactOperation, FactReach, topic_key
from elytron_core.planes.skills import SkillSource
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy.admission import candidates as admission_candidates
from elytron_core.policy.admission import rules
from elytron_core.policy.admission.near_duplicates import most_similar_fact
from elytron_core.policy.extraction.rule_facts import kind_of_topic
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import Scope

CANDIDATES_WAITING: Final = 1_000
"""Open candidates of one space; what comes beyond is refused."""


WAITING = {AdmissionVerdict.DEFER: CandidateState.DEFERRED, AdmissionVerdict.HANDOFF: CandidateState.HANDED_OFF}
TOO_MANY = f"{CANDIDATES_WAITING} candidates already await a decision: resolve some first"

_PLANES = {
    candidates.CandidateTarget.LONG_TERM: RecallPlane.LONG_TERM,
    candidates.CandidateTarget.PROCEDURAL: RecallPlane.PROCEDURAL,
    candidates.CandidateTarget.PRIVATE_GARDEN: RecallPlane.PRIVATE_GARDEN,
    candidates.CandidateTarget.SOUL: RecallPlane.CANDIDATE,
    candidates.CandidateTarget.OPERATOR_DIAGNOSTIC: RecallPlane.CANDIDATE,
}


async def plan_candidates(
    ctx: OperationContext, scope: Scope, write: CandidatesWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing these candidates now, and the decision on each, in order."""
    citation_names = (name for draft in write.candidates for name in draft.citations)
    messages = await cited_messages(ctx, scope.space, citation_names)
    cited_sources = {name: one for name, one in messages.items() if one is not None}
    current_facts = await _current_facts(ctx, scope, write.candidates)
    decisions: list[WriteDecision | None] = []
    accepted: list[tuple[int, CandidateDraft]] = []
    deferred_drafts: list[tuple[int, CandidateDraft, candidates.CandidateJudgement]] = []
    for position, draft in enumerate(write.candidates):
        if None in [messages[name] for name in draft.citations if name in messages]:
            decisions.append(_unfounded_decision(draft))
            continue
        judgement = admission_candidates.judge_candidate(
            draft, tuple(cited_sources[name] for name in draft.citations if name in cited_sources)
        )
        if judgement.verdict is AdmissionVerdict.ACCEPT:
            duplicate = _said_already(draft, current_facts)
            decisions.append(duplicate)
            if duplicate is None:
                accepted.append((position, draft))
        elif judgement.verdict is AdmissionVerdict.REJECT:
            decisions.append(_candidate_decision(draft, WriteOutcome.REJECTED, judgement))
        else:
            decisions.append(None)
            deferred_drafts.append((position, draft, judgement))
    changes = ChangeSet(record)
    for position, decision in await _admit_accepted(ctx, scope, accepted, record, changes):
        decisions[position] = decision
    for position, decision in await _keep_waiting(ctx, scope, deferred_drafts, record, changes):
        decisions[position] = decision
    final_decisions = tuple(decision for decision in decisions if decision is not None)
    assert len(final_decisions) == len(write.candidates)
    return PlannedWrite(changes, final_decisions, DocumentRef(candidates.CANDIDATES, record.tag("candidate", "")))


async def admit_candidate(
    ctx: OperationContext, scope: Scope, draft: CandidateDraft, record: SpaceRecord, /
) -> tuple[WriteDecision, ChangeSet]:
    """Return its plane's decision on one accepted candidate, and its changes."""
    changes = ChangeSet(record)
    if None in (await cited_messages(ctx, scope.space, draft.citations)).values():
        return _unfounded_decision(draft), changes
    ((_, decision),) = await _admit_accepted(ctx, scope, [(0, draft)], record, changes)
    await link_written(ctx, scope.space, record, changes)
    return decision, changes


async def _admit_accepted(
    ctx: OperationContext,
    scope: Scope,
    accepted: Sequence[tuple[int, CandidateDraft]],
    record: SpaceRecord,
    changes: ChangeSet,
) -> list[tuple[int, WriteDecision]]:
    """Put the accepted candidates into `changes` and return their planes' decisions, by position."""
    facts: dict[int, FactDraft] = {}
    skills: dict[int, RuntimeSkillWrite] = {}
    gardens: dict[int, GardenDraft] = {}
    for position, draft in accepted:
        match draft.proposal:
            case FactProposal() as proposal:
                facts[position] = _proposed_fact(draft, proposal)
            case SkillProposal() as proposal:
                skills[position] = _proposed_skill(scope, draft, proposal)
            case GardenProposal(role=role, name=name, text=text):
                gardens[position] = GardenDraft(role=role, name=name, text=text)
            case SoulProposal() | DiagnosticProposal():
                raise AssertionError("what is handed over is never admitted")
            case _:
                assert_never(draft.proposal)
    planned_parts: list[tuple[Iterable[int], PlannedWrite]] = []
    if facts:
        write = LongTermExtraction(facts=tuple(facts.values()))
        planned_parts.append((facts, await plan_facts(ctx, scope, write, record)))
    if skills:
        write = ProcedureSource(writes=tuple(skills.values()), source=SkillSource.EXTRACTION)
        planned_parts.append((skills, await plan_skills(ctx, scope, write, record)))
    if gardens:
        write = GardenWrite(documents=tuple(gardens.values()))
        planned_parts.append((gardens, await plan_garden(ctx, scope, write, record)))
    decisions: list[tuple[int, WriteDecision]] = []
    for positions, planned_write in planned_parts:
        changes.join(planned_write.changes)
        decisions += zip(positions, planned_write.decisions, strict=True)
    await link_sources(ctx, scope.space, record, changes, _private_links(dict(accepted), decisions))
    return decisions


def _private_links(
    drafts: Mapping[int, CandidateDraft], decisions: Sequence[tuple[int, WriteDecision]]
) -> list[RestingMemory]:
    """Return the private documents that were written, each with its candidate's citations."""
    return [
        RestingMemory(DerivedMemoryPlane.PRIVATE_GARDEN, decision.id, drafts[position].citations)
        for position, decision in decisions
        if decision.id is not None and isinstance(drafts[position].proposal, GardenProposal)
    ]


async def _keep_waiting(
    ctx: OperationContext,
    scope: Scope,
    deferred_drafts: Sequence[tuple[int, CandidateDraft, candidates.CandidateJudgement]],
    record: SpaceRecord,
    changes: ChangeSet,
) -> list[tuple[int, WriteDecision]]:
    """Put the pending candidates into `changes`, each once however often it is proposed, and return the decisions."""
    if not deferred_drafts:
        return []
    documents = await ctx.store.scan(scope.space, candidates.CANDIDATES, limit=limits.SCAN_MAX)
    stored_candidates = {
        document.ref: (Candidate.from_bytes(document.body), document.revision) for document in documents
    }
    resolved_refs = sorted(
        (stored_candidate.proposed_at, ref)
        for ref, (stored_candidate, _) in stored_candidates.items()
        if not stored_candidate.is_open
    )
    free_places = CANDIDATES_WAITING - len(stored_candidates)
    now = ctx.clock.now()
    decisions: list[tuple[int, WriteDecision]] = []
    soul_memories: list[RestingMemory] = []
    for position, draft, judgement in deferred_drafts:
        # Without the judgement: the same candidate, judged again, is the same one.
        unjudged_draft = draft.model_copy(update={"judgement": None})
        ref = DocumentRef(candidates.CANDIDATES, record.tag("candidate", record.digest(unjudged_draft.to_bytes())))
        if ref in stored_candidates:
            decisions.append((position, _known_decision(draft, id_of(ref), stored_candidates[ref][0])))
            continue
        if free_places < 1 and resolved_refs:
            _, oldest_ref = resolved_refs.pop(0)
            changes.delete(oldest_ref, expects=stored_candidates.pop(oldest_ref)[1])
            free_places += 1
        if free_places < 1:
            rejection = candidates.CandidateJudgement(verdict=AdmissionVerdict.REJECT, reason=TOO_MANY)
            decisions.append((position, _candidate_decision(draft, WriteOutcome.REJECTED, rejection)))
            continue
        candidate = _waiting_candidate(scope, ref, draft, judgement, now)
        stored_candidates[ref] = (candidate, 0)
        free_places -= 1
        changes.put(ref, candidate, expects=0, action=JournalAction.WRITE)
        decisions.append(
            (position, _candidate_decision(draft, WriteOutcome.DEFERRED, judgement, candidate_id=candidate.id))
        )
        if isinstance(draft.proposal, candidates.SoulProposal):
            soul_memories.append(
                RestingMemory(DerivedMemoryPlane.SOUL_CANDIDATE_HANDOFF, candidate.id, draft.citations)
            )
    await link_sources(ctx, scope.space, record, changes, soul_memories)
    return decisions


def _waiting_candidate(
    scope: Scope, ref: DocumentRef, draft: CandidateDraft, judgement: candidates.CandidateJudgement, now: Instant
) -> Candidate:
    channel, conversation = scope.conversation_key
    return Candidate(
        id=CandidateId(id_of(ref)),
        draft=draft,
        state=WAITING[judgement.verdict],
        reason=judgement.reason,
        proposed_at=now,
        channel=channel,
        conversation=conversation,
    )


def _known_decision(draft: CandidateDraft, candidate_id: str, candidate: Candidate) -> WriteDecision:
    state_text = "already awaits a decision" if candidate.is_open else f"was {candidate.state.value} before"
    verdict = AdmissionVerdict.DEFER if candidate.is_open else AdmissionVerdict.REJECT
    judgement = candidates.CandidateJudgement(verdict=verdict, reason=f"the same candidate {state_text}")
    return _candidate_decision(draft, WriteOutcome.DUPLICATE, judgement, candidate_id=candidate_id)


def _candidate_decision(
    draft: CandidateDraft,
    outcome: WriteOutcome,
    judgement: candidates.CandidateJudgement,
    *,
    candidate_id: str | None = None,
) -> WriteDecision:
    return WriteDecision(
        plane=_PLANES[draft.proposal.target],
        id=candidate_id,
        outcome=outcome,
        verdict=judgement.verdict,
        reason=judgement.reason,
    )


def _unfounded_decision(draft: CandidateDraft) -> WriteDecision:
    return _candidate_decision(
        draft, WriteOutcome.REJECTED, candidates.CandidateJudgement(verdict=AdmissionVerdict.REJECT, reason=NOT_THERE)
    )


def _said_already(draft: CandidateDraft, current_facts: Sequence[Fact]) -> WriteDecision | None:
    """Return the decision on a fact that already exists, and to which this candidate adds no evidence."""
    proposal = draft.proposal
    if not isinstance(proposal, FactProposal) or proposal.operation is FactOperation.DELETE:
        return None
    is_of_chat = proposal.reach is FactReach.CHAT
    kind = kind_of_topic(proposal.fact_kind, proposal.topic)
    slot = (kind, topic_key(proposal.topic), is_of_chat)
    # Newest first, so reversed: the newest of each slot remains.
    facts_by_slot = {
        (fact.kind, topic_key(fact.topic), fact.home is not None): fact for fact in reversed(current_facts)
    }
    slot_fact = facts_by_slot.get(slot)
    if slot_fact is None:
        similar_fact = most_similar_fact(proposal.content, kind, current_facts)
        return (
            _duplicate_decision(similar_fact, "another fact says nearly the same thing")
            if similar_fact is not None
            else None
        )
    says_the_same = rules.says_the_same(proposal.content, slot_fact.content)
    return (
        _duplicate_decision(slot_fact, "another fact says the same thing, with the same evidence")
        if says_the_same and set(draft.citations) <= set(slot_fact.citations)
        else None
    )


def _duplicate_decision(fact: Fact, reason: str) -> WriteDecision:
    return WriteDecision(plane=RecallPlane.LONG_TERM, id=fact.id, outcome=WriteOutcome.DUPLICATE, reason=reason)


def _proposed_fact(draft: CandidateDraft, proposal: FactProposal) -> FactDraft:
    return FactDraft(
        operation=proposal.operation,
        fact_kind=proposal.fact_kind,
        topic=proposal.topic,
        content=proposal.content,
        keywords=proposal.keywords,
        entities=proposal.entities,
        citations=draft.citations,
        privacy=draft.privacy,
        authority=admission_candidates.fact_authority(draft.authority),
        confidence=proposal.confidence,
        reach=proposal.reach,
        observed_at=proposal.observed_at,
        valid_from=proposal.valid_from,
        valid_to=proposal.valid_to,
    )


def _proposed_skill(scope: Scope, draft: CandidateDraft, proposal: SkillProposal) -> RuntimeSkillWrite:
    return RuntimeSkillWrite(
        name=proposal.name,
        topic=proposal.topic,
        title=proposal.title,
        summary=proposal.summary,
        content=proposal.content,
        citations=draft.citations,
        source_chat_id=scope.conversation_key.conversation,
        observed_at=proposal.observed_at,
    )


async def _current_facts(ctx: OperationContext, scope: Scope, drafts: Sequence[CandidateDraft]) -> list[Fact]:
    """Return the newest facts that apply in the conversation, if there is a fact to compare them with."""
    if not any(isinstance(draft.proposal, FactProposal) for draft in drafts):
        return []
    documents = await ctx.store.scan(scope.space, FACTS, limit=limits.SCAN_MAX, descending=True)
    facts = [Fact.from_bytes(document.body) for document in documents]
    return [fact for fact in facts if fact.is_current and fact.counts_in(scope.conversation_key)]
