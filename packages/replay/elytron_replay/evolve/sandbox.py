"""Trying a proposal on a copy of the space, and writing one that was tried, through the same write as any other."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import computed_field

import elytron
from elytron.runtime import MemoryRuntime
from elytron_core.contracts.admin.archive import MemoryImportRequest, MemorySpaceExportRequest
from elytron_core.contracts.admin.inspection import MemoryInspectionRequest
from elytron_core.contracts.conversation.candidates import CandidatesWrite
from elytron_core.contracts.conversation.write import MemoryWriteReport, MemoryWriteRequest, WriteDecision
from elytron_core.contracts.knowledge.control import MemoryListRequest
from elytron_core.contracts.knowledge.recall import MemoryRecallRequest, Plane, RecallFilters
from elytron_core.errors import PermissionRefused, ScopeMissing
from elytron_core.model import Value
from elytron_core.planes.conversation import candidates
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay.evolve.proposals import (
    CandidateKind,
    EvolutionCandidate,
    EvolutionProposal,
    ProposalReview,
    Tier,
    review,
)

ASKED = {Tier.PREVIEW: 0, Tier.COMPACT: 20, Tier.FULL: 200}
"""Number of the space's facts and procedures that are searched by their titles, before and after."""


class SandboxReport(Value):
    """Result of a trial. The space itself is as it was: `unchanged` says that this was checked."""

    space: str
    review: ProposalReview
    decisions: tuple[WriteDecision, ...] = ()
    """Admission's verdict on each candidate."""
    found: int = 0
    """Accepted procedures that recall finds by their titles, in the copy."""
    asked: int = 0
    displaced: tuple[str, ...] = ()
    """Memories that were the first answer to their own titles, and no longer are in the copy."""
    unchanged: bool = True

    @computed_field
    @property
    def ok(self) -> bool:
        """Return whether it may be submitted: something was accepted, nothing was rejected or pushed aside."""
        verdicts = {decision.verdict for decision in self.decisions}
        accepted = verdicts & {candidates.Verdict.ACCEPT, candidates.Verdict.HANDOFF}
        refused = verdicts - {candidates.Verdict.ACCEPT, candidates.Verdict.HANDOFF}
        return self.review.ok and self.unchanged and bool(accepted) and not refused and not self.displaced


async def try_out(memory: MemoryRuntime, proposal: EvolutionProposal, /, *, profile: ProfileName) -> SandboxReport:
    """Try `proposal` as thoroughly as `profile` does, and write nothing to the space. Raises ScopeMissing.

    A preview judges it. Other tiers write it to a copy in memory, and ask the copy for what the space holds, before
    and after: a proposal that pushes something aside shows it here.
    """
    scope = _scope(memory)
    reviewed = review(proposal, profile)
    report = SandboxReport(space=scope.space, review=reviewed)
    if not reviewed.ok or reviewed.tier is None:
        return report
    before = await memory.inspect(MemoryInspectionRequest(scope=scope))
    if reviewed.tier is Tier.PREVIEW:
        judged = await memory.write(_request(proposal, scope).model_copy(update={"dry_run": True}))
        report = report.model_copy(update={"decisions": judged.decisions})
    else:
        async with _copied(memory, scope) as copy:
            titles = await _titles(copy, scope, ASKED[reviewed.tier])
            first = {memory_id: await _first(copy, scope, title) for memory_id, title in titles.items()}
            written = await copy.write(_request(proposal, scope))
            later = {memory_id: await _first(copy, scope, title) for memory_id, title in titles.items()}
            report = report.model_copy(
                update={
                    "decisions": written.decisions,
                    "found": await _found(copy, scope, proposal, written),
                    "asked": len(titles),
                    "displaced": tuple(name for name in titles if first[name] == name != later[name]),
                }
            )
    after = await memory.inspect(MemoryInspectionRequest(scope=scope))
    same = (before.state_fingerprint, before.event_fingerprint) == (after.state_fingerprint, after.event_fingerprint)
    return report.model_copy(update={"unchanged": same})


async def submit(
    memory: MemoryRuntime, proposal: EvolutionProposal, /, *, profile: ProfileName
) -> tuple[SandboxReport, MemoryWriteReport | None]:
    """Try `proposal` once more and, where it did well, write it: the only way from a proposal into memory.

    It goes through admission like any candidate, once per proposal id. Returns no write where the trial was not good
    enough. Raises PermissionRefused where the profile submits nothing.
    """
    report = await try_out(memory, proposal, profile=profile)
    if not report.review.may_submit:
        raise PermissionRefused(f"the profile {profile.value!r} tries proposals and submits none")
    if not report.ok:
        return report, None
    return report, await memory.write(_request(proposal, _scope(memory)))


def _scope(memory: MemoryRuntime) -> Scope:
    if memory.scope is None:
        raise ScopeMissing(operation="evolve", way_out="open the runtime with space=")
    return memory.scope


def _request(proposal: EvolutionProposal, scope: Scope) -> MemoryWriteRequest:
    drafts = tuple(_draft(found, proposal) for found in proposal.candidates)
    return MemoryWriteRequest(
        scope=scope, write=CandidatesWrite(candidates=drafts), idempotency_key=f"evolve.{proposal.id}"
    )


def _draft(found: EvolutionCandidate, proposal: EvolutionProposal) -> candidates.CandidateDraft:
    match found.kind:
        case CandidateKind.PROCEDURAL_MEMORY:
            change: candidates.SkillProposal | candidates.DiagnosticProposal = candidates.SkillProposal(
                target=candidates.Target.PROCEDURAL,
                name=found.name,
                topic=found.topic,
                title=found.title,
                summary=found.summary,
                content=found.content,
            )
        case CandidateKind.GOVERNANCE_NOTE:
            change = candidates.DiagnosticProposal(
                target=candidates.Target.OPERATOR_DIAGNOSTIC, topic=found.topic, content=found.content[:4_000]
            )
    return candidates.CandidateDraft(
        proposal=change,
        authority=EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
        citations=proposal.evidence_refs,
        judgement=candidates.Judgement(verdict=candidates.Verdict.ACCEPT, reason=proposal.rationale[:400]),
    )


@asynccontextmanager
async def _copied(memory: MemoryRuntime, scope: Scope) -> AsyncGenerator[MemoryRuntime]:
    """Give a runtime over a copy of the space, gone afterwards."""
    ctx = memory.context
    with TemporaryDirectory(prefix="elytron-evolve-") as folder:
        archive = str(Path(folder) / "space")
        await memory.export(MemorySpaceExportRequest(scope=scope, path=archive, include_private=True))
        async with elytron.open("memory:", scope=scope, clock=ctx.clock, ids=ctx.ids) as copy:
            await copy.import_archive(MemoryImportRequest(scope=scope, path=archive))
            yield copy


async def _titles(copy: MemoryRuntime, scope: Scope, most: int) -> dict[str, str]:
    """Return the titles of the space's facts and procedures, by id."""
    believed = RecallFilters(planes=(Plane.LONG_TERM, Plane.PROCEDURAL))
    page = await copy.list(MemoryListRequest(scope=scope, limit=most, filters=believed))
    return {item.id: item.title for item in page.items if item.title}


async def _first(copy: MemoryRuntime, scope: Scope, title: str) -> str | None:
    asked = MemoryRecallRequest(
        scope=scope, query=title, limit=1, filters=RecallFilters(planes=(Plane.LONG_TERM, Plane.PROCEDURAL))
    )
    hits = (await copy.recall(asked)).hits
    return hits[0].id if hits else None


async def _found(copy: MemoryRuntime, scope: Scope, proposal: EvolutionProposal, written: MemoryWriteReport) -> int:
    """Return how many of the accepted procedures answer their own titles."""
    found = 0
    for candidate, decision in zip(proposal.candidates, written.decisions, strict=True):
        if candidate.kind is CandidateKind.PROCEDURAL_MEMORY and decision.verdict is candidates.Verdict.ACCEPT:
            found += await _first(copy, scope, candidate.title) == decision.id
    return found
