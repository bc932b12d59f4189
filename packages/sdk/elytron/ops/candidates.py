"""Candidates: list proposed beliefs, and accept or reject them."""

import re

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm
from elytron.documents.planes import is_private_candidate, place_of
from elytron.documents.stored_values import ChangeSet
from elytron.intake import admit_texts
from elytron.writes.candidates import admit_candidate
from elytron.writes.commit import SettledChanges, settle_report
from elytron_core import limits
from elytron_core.contracts.facts import (
    CandidateListReport,
    CandidateListRequest,
    CandidateResolution,
    CandidateResolveReport,
    CandidateResolveRequest,
)
from elytron_core.contracts.transcript import WriteDecision, WriteOutcome
from elytron_core.errors import NotFound
from elytron_core.planes import candidates
from elytron_core.planes.candidates import Candidate, CandidateState
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import Scope

_CANDIDATE_CURSOR = CursorForm(re.compile(r"[0-9a-f]+"), "a list report")


REFUSED = frozenset({WriteOutcome.REJECTED, WriteOutcome.SKIPPED})


async def list_candidates(ctx: OperationContext, request: CandidateListRequest, /) -> CandidateListReport:
    """Return the page of candidates after the cursor, of the requested states and targets."""
    scope = ctx.scope_of(request)
    start_key = _CANDIDATE_CURSOR.key(request.cursor)
    items: list[Candidate] = []
    withheld_count = 0
    last_key = ""
    stored_place = ctx.store, scope.space, candidates.CANDIDATES
    async for document in store.scan_documents(*stored_place, after=start_key, page=limits.PAGE_MAX):
        candidate = Candidate.from_bytes(document.body)
        if candidate.state not in request.states:
            continue
        if request.targets and candidate.draft.proposal.target not in request.targets:
            continue
        if not request.include_private and is_private_candidate(candidate):
            withheld_count += 1
            continue
        if len(items) == request.limit:
            return CandidateListReport(
                space=scope.space, items=tuple(items), withheld=withheld_count, next_cursor=last_key, has_more=True
            )
        items.append(candidate)
        last_key = document.ref.key
    return CandidateListReport(space=scope.space, items=tuple(items), withheld=withheld_count)


@admit_texts
async def resolve_candidate(ctx: OperationContext, request: CandidateResolveRequest, /) -> CandidateResolveReport:
    """Decide on a pending candidate: an accepted one becomes a belief in the same batch. Raises NotFound."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[CandidateResolveReport]:
        candidate, revision, ref = await _stored_candidate(ctx, scope, request.id)
        report = CandidateResolveReport(space=scope.space, id=request.id, state=candidate.state, changed=False)
        if not candidate.is_open:
            return SettledChanges(report.model_copy(update={"reason": f"it was {candidate.state.value} before"}))
        candidate_scope = scope.model_copy(
            update={"channel": candidate.channel, "conversation": candidate.conversation}
        )
        decision, changes = None, ChangeSet(record)
        if request.resolution is CandidateResolution.ACCEPT and candidate.state is CandidateState.DEFERRED:
            decision, changes = await admit_candidate(ctx, candidate_scope, candidate.draft, record)
            if decision.outcome in REFUSED:
                return SettledChanges(report.model_copy(update={"reason": decision.reason}))
        resolved_candidate = _resolve_candidate(ctx, candidate, request, decision)
        changes.put(ref, resolved_candidate, expects=revision, action=JournalAction.OPERATOR)
        resolution_report = report.model_copy(
            update={
                "state": resolved_candidate.state,
                "became": None if request.dry_run else resolved_candidate.became,
                "changed": not request.dry_run,
                "dry_run": request.dry_run,
            }
        )
        return SettledChanges(resolution_report, None if request.dry_run else changes)

    return await settle_report(ctx, scope.space, plan)


async def _stored_candidate(ctx: OperationContext, scope: Scope, name: str) -> tuple[Candidate, int, DocumentRef]:
    ref = place_of(name)
    if ref is None or ref.collection != candidates.CANDIDATES or not _CANDIDATE_CURSOR.pattern.fullmatch(ref.key):
        raise NotFound(what="candidate", name=name)
    (document,) = await ctx.store.get(scope.space, (ref,))
    if document is None:
        raise NotFound(what="candidate", name=name)
    return Candidate.from_bytes(document.body), document.revision, ref


def _resolve_candidate(
    ctx: OperationContext, candidate: Candidate, request: CandidateResolveRequest, decision: WriteDecision | None
) -> Candidate:
    is_acceptance = request.resolution is CandidateResolution.ACCEPT
    return candidate.model_copy(
        update={
            "state": CandidateState.ACCEPTED if is_acceptance else CandidateState.REJECTED,
            "resolved_at": ctx.clock.now(),
            "resolution": request.reason,
            "became": decision.id if decision is not None else None,
        }
    )
