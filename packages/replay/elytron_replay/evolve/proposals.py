"""A proposed change to memory, and why it is not even tried."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_core.policy.host.capabilities import snapshot
from elytron_core.text import similarity
from elytron_replay.json_files import value_in

CANDIDATES_MAX = 32


class CandidateKind(StrEnum):
    """Type of fact that a candidate would become."""

    PROCEDURAL_MEMORY = "procedural_memory"
    GOVERNANCE_NOTE = "governance_note"
    """A note to the operator: handed over, never a belief."""


class EvolutionCandidate(Value):
    """One change. A procedure needs all fields, a note its topic and content."""

    kind: CandidateKind
    topic: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    content: Annotated[str, Field(max_length=limits.SKILL_CHARS)] = ""
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    title: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""

    @property
    def is_complete(self) -> bool:
        needed = [self.topic, self.content]
        if self.kind is CandidateKind.PROCEDURAL_MEMORY:
            needed += [self.name, self.title, self.summary]
        return not any(similarity.is_blank(part) for part in needed)


class EvolutionProposal(Value):
    """A proposed change with its evidence and reason. Proposing it writes nothing."""

    id: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    profile: str = ""
    candidates: Annotated[tuple[EvolutionCandidate, ...], Field(max_length=CANDIDATES_MAX)] = ()
    evidence_refs: Annotated[tuple[str, ...], Field(max_length=limits.CANDIDATE_CITATIONS)] = ()
    """Ids of stored turns that it rests on."""
    rationale: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""


class Rejection(StrEnum):
    """Why a proposal is not tried."""

    NOT_ALLOWED_FOR_PROFILE = "not_allowed_for_profile"
    PROFILE_MISMATCH = "profile_mismatch"
    EMPTY_ID = "empty_id"
    EMPTY_EVIDENCE = "empty_evidence"
    EMPTY_RATIONALE = "empty_rationale"
    EMPTY_CANDIDATES = "empty_candidates"
    CANDIDATE_INCOMPLETE = "candidate_incomplete"


class Tier(StrEnum):
    """Thoroughness of a profile's trial of a proposal."""

    PREVIEW = "preview"
    """It is judged, and nothing is copied."""
    COMPACT = "compact"
    """It is written to a copy of the space, of which some memories are asked for before and after."""
    FULL = "full"
    """Likewise, and many more of them are asked for."""


class ProposalReview(Value):
    """Findings of a proposal's check. Without rejections it may be tried in this tier."""

    proposal: str
    profile: str
    tier: Tier | None
    may_submit: bool
    """True if the profile lets a tried proposal be written."""
    rejections: tuple[Rejection, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.rejections


def tier_of(profile: ProfileName, /) -> Tier | None:
    """Return how thoroughly `profile` tries proposals; None where it takes none."""
    allowed = snapshot(profile).catalog.validation
    for capability, tier in (
        (allowed.full_sandbox, Tier.FULL),
        (allowed.compact_sandbox, Tier.COMPACT),
        (allowed.proposal_preview, Tier.PREVIEW),
    ):
        if capability.profile_allows:
            return tier
    return None


def review(proposal: EvolutionProposal, profile: ProfileName, /) -> ProposalReview:
    """Return every reason against trying `proposal` where memory runs in `profile`."""
    tier = tier_of(profile)
    against = (
        (tier is None, Rejection.NOT_ALLOWED_FOR_PROFILE),
        (proposal.profile != profile.value, Rejection.PROFILE_MISMATCH),
        (similarity.is_blank(proposal.id), Rejection.EMPTY_ID),
        (not any(not similarity.is_blank(ref) for ref in proposal.evidence_refs), Rejection.EMPTY_EVIDENCE),
        (similarity.is_blank(proposal.rationale), Rejection.EMPTY_RATIONALE),
        (not proposal.candidates, Rejection.EMPTY_CANDIDATES),
        (any(not found.is_complete for found in proposal.candidates), Rejection.CANDIDATE_INCOMPLETE),
    )
    return ProposalReview(
        proposal=proposal.id,
        profile=profile.value,
        tier=tier,
        may_submit=snapshot(profile).catalog.validation.submission.profile_allows,
        rejections=tuple(reason for holds, reason in against if holds),
    )


def load_proposal(path: Path, /) -> EvolutionProposal:
    """Return the proposal in the JSON file `path`. Raises UnreadableFile."""
    return value_in(path, EvolutionProposal)
