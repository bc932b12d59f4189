"""Try a proposed change on a copy of the space, and write it normally if the trial succeeds."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field, computed_field

import elytron
from elytron.runtime import MemoryRuntime
from elytron_core import limits
from elytron_core.contracts.archive import MemoryImportRequest, MemorySpaceExportRequest
from elytron_core.contracts.facts import CandidatesWrite
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.recall import MemoryRecallRequest, RecallFilters, RecallPlane
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, WriteDecision
from elytron_core.errors import PermissionRefused, ScopeMissing
from elytron_core.evidence import EvidenceAuthority
from elytron_core.model import Value
from elytron_core.planes import candidates
from elytron_core.policy.platform.capabilities import profile_snapshot
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_replay.fixture import value_in

CANDIDATES_MAX = 32


class CandidateKind(StrEnum):
    """Kind of memory that a candidate would become."""

    PROCEDURAL_MEMORY = "procedural_memory"
    GOVERNANCE_NOTE = "governance_note"
    """A note for the operator. It is handed over and never becomes a belief."""


class EvolutionCandidate(Value):
    """One change. A procedure needs every field, a note only its topic and content."""

    kind: CandidateKind
    topic: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    content: Annotated[str, Field(max_length=limits.SKILL_CHARS)] = ""
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    title: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""

    @property
    def is_complete(self) -> bool:
        required_texts = [self.topic, self.content]
        if self.kind is CandidateKind.PROCEDURAL_MEMORY:
            required_texts += [self.name, self.title, self.summary]
        return not any(similarity.is_blank(part) for part in required_texts)


class EvolutionProposal(Value):
    """A proposed change with its evidence and reason. Creating a proposal writes nothing."""

    id: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    profile: str = ""
    candidates: Annotated[tuple[EvolutionCandidate, ...], Field(max_length=CANDIDATES_MAX)] = ()
    evidence_refs: Annotated[tuple[str, ...], Field(max_length=limits.CANDIDATE_CITATIONS)] = ()
    """Ids of the stored turns that the proposal is based on."""
    rationale: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""


class ProposalRejection(StrEnum):
    """Why a proposal is not tried."""

    NOT_ALLOWED_FOR_PROFILE = "not_allowed_for_profile"
    PROFILE_MISMATCH = "profile_mismatch"
    EMPTY_ID = "empty_id"
    EMPTY_EVIDENCE = "empty_evidence"
    EMPTY_RATIONALE = "empty_rationale"
    EMPTY_CANDIDATES = "empty_candidates"
    CANDIDATE_INCOMPLETE = "candidate_incomplete"


class TrialTier(StrEnum):
    """How thoroughly a profile tries a proposal."""

    PREVIEW = "preview"
    """Admission judges the proposal; nothing is copied."""
    COMPACT = "compact"
    """The proposal is written to a copy of the space, and a sample of memories is recalled before and after."""
    FULL = "full"
    """Like COMPACT, with a larger sample of memories."""


class ProposalReview(Value):
    """The result of checking a proposal. Without rejections it may be tried at this tier."""

    proposal: str
    profile: str
    tier: TrialTier | None
    may_submit: bool
    """True if the profile allows a successfully tried proposal to be written."""
    rejections: tuple[ProposalRejection, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.rejections


def tier_of(profile: ProfileName, /) -> TrialTier | None:
    """Return how thoroughly `profile` tries proposals, or None if it accepts none."""
    validation = profile_snapshot(profile).catalog.validation
    for capability, tier in (
        (validation.full_sandbox, TrialTier.FULL),
        (validation.compact_sandbox, TrialTier.COMPACT),
        (validation.proposal_preview, TrialTier.PREVIEW),
    ):
        if capability.profile_allows:
            return tier
    return None


def review_proposal(proposal: EvolutionProposal, profile: ProfileName, /) -> ProposalReview:
    """Return every reason why `proposal` cannot be tried under `profile`."""
    tier = tier_of(profile)
    conditions = (
        (tier is None, ProposalRejection.NOT_ALLOWED_FOR_PROFILE),
        (proposal.profile != profile.value, ProposalRejection.PROFILE_MISMATCH),
        (similarity.is_blank(proposal.id), ProposalRejection.EMPTY_ID),
        (
            not any(not similarity.is_blank(reference) for reference in proposal.evidence_refs),
            ProposalRejection.EMPTY_EVIDENCE,
        ),
        (similarity.is_blank(proposal.rationale), ProposalRejection.EMPTY_RATIONALE),
        (not proposal.candidates, ProposalRejection.EMPTY_CANDIDATES),
        (any(not candidate.is_complete for candidate in proposal.candidates), ProposalRejection.CANDIDATE_INCOMPLETE),
    )
    return ProposalReview(
        proposal=proposal.id,
        profile=profile.value,
        tier=tier,
        may_submit=profile_snapshot(profile).catalog.validation.submission.profile_allows,
        rejections=tuple(reason for is_met, reason in conditions if is_met),
    )


def load_proposal(path: Path, /) -> EvolutionProposal:
    """Return the proposal in the JSON file `path`. Raises UnreadableFile."""
    return value_in(path, EvolutionProposal)


TITLE_COUNTS = {TrialTier.PREVIEW: 0, TrialTier.COMPACT: 20, TrialTier.FULL: 200}
"""Number of the space's facts and procedures that are recalled by title before and after the change."""


class SandboxReport(Value):
    """The result of a trial. The trial does not change the space; `unchanged` tells whether this was verified."""

    space: str
    review: ProposalReview
    decisions: tuple[WriteDecision, ...] = ()
    """Admission's decision on each candidate."""
    found: int = 0
    """Number of accepted procedures that recall finds by title in the copy."""
    asked: int = 0
    displaced: tuple[str, ...] = ()
    """Memories that were the first hit for their own title before the change, and no longer are."""
    unchanged: bool = True

    @computed_field
    @property
    def ok(self) -> bool:
        """Return whether it may be submitted: something was accepted, nothing was rejected or displaced."""
        verdicts = {decision.verdict for decision in self.decisions}
        accepted_verdicts = verdicts & {candidates.AdmissionVerdict.ACCEPT, candidates.AdmissionVerdict.HANDOFF}
        refused_verdicts = verdicts - {candidates.AdmissionVerdict.ACCEPT, candidates.AdmissionVerdict.HANDOFF}
        return (
            self.review.ok
            and self.unchanged
            and bool(accepted_verdicts)
            and not refused_verdicts
            and not self.displaced
        )


async def try_out(memory: MemoryRuntime, proposal: EvolutionProposal, /, *, profile: ProfileName) -> SandboxReport:
    """Try `proposal` as thoroughly as `profile` requires, without writing to the space. Raises ScopeMissing.

    The preview tier only judges it. The other tiers write it to an in-memory copy and recall existing memories from the
    copy before and after, which reveals memories that the proposal would displace.
    """
    scope = _trial_scope(memory)
    review = review_proposal(proposal, profile)
    report = SandboxReport(space=scope.space, review=review)
    if not review.ok or review.tier is None:
        return report
    inspection_before = await memory.inspect(MemoryInspectionRequest(scope=scope, fingerprints=True))
    if review.tier is TrialTier.PREVIEW:
        dry_run_report = await memory.write(_proposal_request(proposal, scope).model_copy(update={"dry_run": True}))
        report = report.model_copy(update={"decisions": dry_run_report.decisions})
    else:
        async with _copied_runtime(memory, scope) as runtime_copy:
            titles = await _record_titles(runtime_copy, scope, TITLE_COUNTS[review.tier])
            hits_before = {
                memory_id: await _first_titled(runtime_copy, scope, title) for memory_id, title in titles.items()
            }
            write_report = await runtime_copy.write(_proposal_request(proposal, scope))
            hits_after = {
                memory_id: await _first_titled(runtime_copy, scope, title) for memory_id, title in titles.items()
            }
            report = report.model_copy(
                update={
                    "decisions": write_report.decisions,
                    "found": await _count_found(runtime_copy, scope, proposal, write_report),
                    "asked": len(titles),
                    "displaced": tuple(name for name in titles if hits_before[name] == name != hits_after[name]),
                }
            )
    inspection_after = await memory.inspect(MemoryInspectionRequest(scope=scope, fingerprints=True))
    is_unchanged = (inspection_before.state_fingerprint, inspection_before.event_fingerprint) == (
        inspection_after.state_fingerprint,
        inspection_after.event_fingerprint,
    )
    return report.model_copy(update={"unchanged": is_unchanged})


async def submit_proposal(
    memory: MemoryRuntime, proposal: EvolutionProposal, /, *, profile: ProfileName
) -> tuple[SandboxReport, MemoryWriteReport | None]:
    """Try `proposal` again and, if the trial succeeds, write it. This is the only way from a proposal into memory.

    The proposal passes admission like any candidate, once per proposal id. The second value is None if the trial
    failed. Raises PermissionRefused if the profile does not allow submission.
    """
    report = await try_out(memory, proposal, profile=profile)
    if not report.review.may_submit:
        raise PermissionRefused(f"the profile {profile.value!r} can try proposals but not submit them")
    if not report.ok:
        return report, None
    return report, await memory.write(_proposal_request(proposal, _trial_scope(memory)))


def _trial_scope(memory: MemoryRuntime) -> Scope:
    if memory.scope is None:
        raise ScopeMissing(operation="evolve", way_out="open the runtime with space=")
    return memory.scope


def _proposal_request(proposal: EvolutionProposal, scope: Scope) -> MemoryWriteRequest:
    drafts = tuple(_candidate_draft(candidate, proposal) for candidate in proposal.candidates)
    return MemoryWriteRequest(
        scope=scope, write=CandidatesWrite(candidates=drafts), idempotency_key=f"evolve.{proposal.id}"
    )


def _candidate_draft(candidate: EvolutionCandidate, proposal: EvolutionProposal) -> candidates.CandidateDraft:
    match candidate.kind:
        case CandidateKind.PROCEDURAL_MEMORY:
            change_proposal: candidates.SkillProposal | candidates.DiagnosticProposal = candidates.SkillProposal(
                target=candidates.CandidateTarget.PROCEDURAL,
                name=candidate.name,
                topic=candidate.topic,
                title=candidate.title,
                summary=candidate.summary,
                content=candidate.content,
            )
        case CandidateKind.GOVERNANCE_NOTE:
            change_proposal = candidates.DiagnosticProposal(
                target=candidates.CandidateTarget.OPERATOR_DIAGNOSTIC,
                topic=candidate.topic,
                content=candidate.content[:4_000],
            )
    return candidates.CandidateDraft(
        proposal=change_proposal,
        authority=EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
        citations=proposal.evidence_refs,
        judgement=candidates.CandidateJudgement(
            verdict=candidates.AdmissionVerdict.ACCEPT, reason=proposal.rationale[:400]
        ),
    )


@asynccontextmanager
async def _copied_runtime(memory: MemoryRuntime, scope: Scope) -> AsyncGenerator[MemoryRuntime]:
    """Yield a runtime over a temporary copy of the space."""
    context = memory.context
    with TemporaryDirectory(prefix="elytron-evolve-") as folder:
        archive_path = str(Path(folder) / "space")
        await memory.export(MemorySpaceExportRequest(scope=scope, path=archive_path, include_private=True))
        async with elytron.open("memory:", scope=scope, clock=context.clock, ids=context.ids) as runtime_copy:
            await runtime_copy.import_archive(MemoryImportRequest(scope=scope, path=archive_path))
            yield runtime_copy


async def _record_titles(copy: MemoryRuntime, scope: Scope, most: int) -> dict[str, str]:
    """Return the titles of up to `most` facts and procedures of the space, by id."""
    believed_filters = RecallFilters(planes=(RecallPlane.LONG_TERM, RecallPlane.PROCEDURAL))
    page = await copy.list(MemoryListRequest(scope=scope, limit=most, filters=believed_filters))
    return {item.id: item.title for item in page.items if item.title}


async def _first_titled(copy: MemoryRuntime, scope: Scope, title: str) -> str | None:
    request = MemoryRecallRequest(
        scope=scope, query=title, limit=1, filters=RecallFilters(planes=(RecallPlane.LONG_TERM, RecallPlane.PROCEDURAL))
    )
    hits = (await copy.recall(request)).hits
    return hits[0].id if hits else None


async def _count_found(
    copy: MemoryRuntime, scope: Scope, proposal: EvolutionProposal, report: MemoryWriteReport
) -> int:
    """Return how many of the accepted procedures are the first hit for their own title."""
    answered_count = 0
    for candidate, decision in zip(proposal.candidates, report.decisions, strict=True):
        if candidate.kind is CandidateKind.PROCEDURAL_MEMORY and decision.verdict is candidates.AdmissionVerdict.ACCEPT:
            answered_count += await _first_titled(copy, scope, candidate.title) == decision.id
    return answered_count
