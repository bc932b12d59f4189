"""Governance of beliefs: candidates listed and decided on, near duplicates folded together and brought back."""

import re

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.cursor import CursorForm
from elytron.documents.plane_documents import place_of
from elytron.documents.planes import is_private_candidate
from elytron.documents.slots import key_of, read_slot, versions_of
from elytron.intake.texts import admitting
from elytron.memories.audit_trail import event_of, note
from elytron.memories.provenance_links import Resting, link_written, unlink_left
from elytron.writes.candidates import admit
from elytron.writes.settlement import Settled, settle_report
from elytron_core import limits
from elytron_core.contracts.conversation.candidates import (
    CandidateListReport,
    CandidateListRequest,
    CandidateResolveReport,
    CandidateResolveRequest,
    MemoryMergeReport,
    MemoryMergeRequest,
    MergedPair,
    Resolution,
)
from elytron_core.contracts.conversation.write import Outcome, WriteDecision
from elytron_core.errors import NotFound
from elytron_core.ids import FactId, is_id
from elytron_core.planes.admin.audit import AuditAction
from elytron_core.planes.conversation import candidates
from elytron_core.planes.conversation.candidates import Candidate, CandidateState
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import near_duplicates
from elytron_core.policy.admission.fact_control import SLOT_TAKEN
from elytron_core.policy.temporal import slot_versions
from elytron_core.ports import store_pages
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope

_CURSOR = CursorForm(re.compile(r"[0-9a-f]+"), "a list report")
REFUSED = frozenset({Outcome.REJECTED, Outcome.SKIPPED})
NOT_FOLDED = "it is not folded into another fact"
GONE = "one of the two facts is not there any more"


async def list_candidates(ctx: OperationContext, request: CandidateListRequest, /) -> CandidateListReport:
    """Return the page of candidates behind the cursor, of the states and targets asked for."""
    scope = ctx.scope_of(request)
    after = _CURSOR.key(request.cursor)
    items: list[Candidate] = []
    withheld = 0
    last = ""
    stored = ctx.store, scope.space, candidates.CANDIDATES
    async for document in store_pages.documents(*stored, after=after, page=limits.PAGE_MAX):
        candidate = Candidate.from_bytes(document.body)
        if candidate.state not in request.states:
            continue
        if request.targets and candidate.draft.proposal.target not in request.targets:
            continue
        if not request.include_private and is_private_candidate(candidate):
            withheld += 1
            continue
        if len(items) == request.limit:
            return CandidateListReport(
                space=scope.space, items=tuple(items), withheld=withheld, next_cursor=last, has_more=True
            )
        items.append(candidate)
        last = document.ref.key
    return CandidateListReport(space=scope.space, items=tuple(items), withheld=withheld)


@admitting
async def resolve_candidate(ctx: OperationContext, request: CandidateResolveRequest, /) -> CandidateResolveReport:
    """Decide on a candidate that waits: what is accepted becomes a belief in the same batch. Raises NotFound."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> Settled[CandidateResolveReport]:
        candidate, revision, ref = await _candidate(ctx, scope, request.id)
        report = CandidateResolveReport(space=scope.space, id=request.id, state=candidate.state, changed=False)
        if not candidate.is_open:
            return Settled(report.model_copy(update={"reason": f"it was {candidate.state.value} before"}))
        home = scope.model_copy(update={"channel": candidate.channel, "conversation": candidate.conversation})
        decision, changes = None, Changes(record)
        if request.resolution is Resolution.ACCEPT and candidate.state is CandidateState.DEFERRED:
            decision, changes = await admit(ctx, home, candidate.draft, record)
            if decision.outcome in REFUSED:
                return Settled(report.model_copy(update={"reason": decision.reason}))
        resolved = _resolved(ctx, candidate, request, decision)
        changes.put(ref, resolved, expects=revision, action=Action.OPERATOR)
        done = report.model_copy(
            update={
                "state": resolved.state,
                "became": None if request.dry_run else resolved.became,
                "changed": not request.dry_run,
                "dry_run": request.dry_run,
            }
        )
        return Settled(done, None if request.dry_run else changes)

    return await settle_report(ctx, scope.space, plan)


async def merge_facts(ctx: OperationContext, request: MemoryMergeRequest, /) -> MemoryMergeReport:
    """Fold facts that say nearly the same, or bring folded ones back; all in one batch."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> Settled[MemoryMergeReport]:
        changes = Changes(record)
        if request.undo:
            pairs = [await _unfolded(ctx, scope, name, record, changes) for name in dict.fromkeys(request.undo)]
        else:
            pairs = await _folded(ctx, scope, request.limit, changes)
            await link_written(ctx, scope.space, record, changes)
        changed = any(pair.changed for pair in pairs)
        now = ctx.clock.now()
        done = event_of(ctx, AuditAction.RESTORED if request.undo else AuditAction.MERGED, at=now)
        told = {Ref(long_term.FACTS, pair.folded): (done,) for pair in pairs if pair.changed}
        await note(ctx, scope.space, record, changes, told)
        report = MemoryMergeReport(
            space=scope.space,
            pairs=tuple(pairs),
            changed=changed and not request.dry_run,
            dry_run=request.dry_run,
        )
        return Settled(report, changes if report.changed else None)

    if await ctx.spaces.find(scope.space) is None and not request.undo:
        return MemoryMergeReport(space=scope.space, pairs=(), changed=False, dry_run=request.dry_run)
    return await settle_report(ctx, scope.space, plan)


async def _candidate(ctx: OperationContext, scope: Scope, name: str) -> tuple[Candidate, int, Ref]:
    ref = place_of(name)
    if ref is None or ref.collection != candidates.CANDIDATES or not _CURSOR.pattern.fullmatch(ref.key):
        raise NotFound(what="candidate", name=name)
    (document,) = await ctx.store.get(scope.space, (ref,))
    if document is None:
        raise NotFound(what="candidate", name=name)
    return Candidate.from_bytes(document.body), document.revision, ref


def _resolved(
    ctx: OperationContext, candidate: Candidate, request: CandidateResolveRequest, decision: WriteDecision | None
) -> Candidate:
    accepted = request.resolution is Resolution.ACCEPT
    return candidate.model_copy(
        update={
            "state": CandidateState.ACCEPTED if accepted else CandidateState.REJECTED,
            "resolved_at": ctx.clock.now(),
            "resolution": request.reason,
            "became": decision.id if decision is not None else None,
        }
    )


async def _folded(ctx: OperationContext, scope: Scope, limit: int, changes: Changes) -> list[MergedPair]:
    held = await _facts(ctx, scope)
    now = ctx.clock.now()
    current = {fact_id: fact for fact_id, (fact, _) in held.items() if fact.is_current}
    made: list[MergedPair] = []
    for pair in near_duplicates.pairs(tuple(current.values()), limit=limit):
        kept, folded = near_duplicates.fold(current[pair.kept.id], pair.folded, at=now)
        current[kept.id] = kept
        for fact in (kept, folded):
            _, revision = held[fact.id]
            changes.put(Ref(long_term.FACTS, fact.id), fact, expects=revision, action=Action.MERGE)
        made.append(MergedPair(kept=kept.id, folded=folded.id, likeness=round(pair.likeness, 4)))
    return made


async def _facts(ctx: OperationContext, scope: Scope) -> dict[FactId, tuple[long_term.Fact, int]]:
    stored = store_pages.documents(ctx.store, scope.space, long_term.FACTS)
    facts = [(long_term.Fact.from_bytes(document.body), document.revision) async for document in stored]
    return {fact.id: (fact, revision) for fact, revision in facts}


async def _unfolded(
    ctx: OperationContext, scope: Scope, name: str, record: SpaceRecord, changes: Changes
) -> MergedPair:
    folded = await _fact(ctx, scope, name, changes)
    if folded is None or folded[0].state is not long_term.State.MERGED or folded[0].superseded_by is None:
        return MergedPair(kept="", folded=name, changed=False, reason=NOT_FOLDED)
    fact, revision = folded
    into = await _fact(ctx, scope, folded[0].superseded_by, changes)
    if into is None:
        return MergedPair(kept=folded[0].superseded_by, folded=name, changed=False, reason=GONE)
    kept, back = near_duplicates.unfold(into[0], fact)
    slot = await read_slot(ctx.store, scope.space, record, key_of(fact))
    pending = [
        value for value in changes.folded.values() if isinstance(value, long_term.Fact) and value.id in slot.facts
    ]
    if slot_versions.is_taken(back, (*await versions_of(ctx.store, scope.space, slot), *pending)):
        return MergedPair(kept=into[0].id, folded=name, changed=False, reason=SLOT_TAKEN)
    # The slot gets another revision: a write that was judged without this fact is judged again.
    slot.put(changes)
    changes.put(Ref(long_term.FACTS, kept.id), kept, expects=into[1], action=Action.OPERATOR)
    changes.put(Ref(long_term.FACTS, back.id), back, expects=revision, action=Action.OPERATOR)
    rested = Resting(DerivedMemoryPlane.SHARED_FACT, kept.id, into[0].citations)
    await unlink_left(ctx, scope.space, record, changes, rested, after=kept.citations)
    return MergedPair(kept=kept.id, folded=back.id)


async def _fact(ctx: OperationContext, scope: Scope, name: str, changes: Changes) -> tuple[long_term.Fact, int] | None:
    """Return the fact with the changes of the unfinished batch, and its stored revision."""
    if not is_id(name):
        return None
    ref = Ref(long_term.FACTS, name)
    (document,) = await ctx.store.get(scope.space, (ref,))
    if document is None:
        return None
    pending = changes.folded.get(ref)
    fact = pending if isinstance(pending, long_term.Fact) else long_term.Fact.from_bytes(document.body)
    return fact, document.revision
