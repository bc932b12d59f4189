"""The plane of candidates: proposed beliefs waiting for a decision. They are neither recalled nor projected."""

from enum import StrEnum
from typing import Annotated, Literal, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.evidence import EvidenceAuthority
from elytron_core.model import Value
from elytron_core.planes import continuity, facts, skills, subjects
from elytron_core.scope import Name
from elytron_core.time_kinds import ClaimedTime, PlannedTime

CANDIDATES = "candidates"
CandidateId = NewType("CandidateId", str)
ID_WORD = "candidate"


class CandidateTarget(StrEnum):
    """The plane that a candidate is meant for."""

    LONG_TERM = "long_term"
    PROCEDURAL = "procedural"
    PRIVATE_GARDEN = "private_garden"
    SOUL = "soul"
    OPERATOR_DIAGNOSTIC = "operator_diagnostic"


class AdmissionVerdict(StrEnum):
    """Admission's verdict."""

    ACCEPT = "accept"
    REJECT = "reject"
    DEFER = "defer"
    HANDOFF = "handoff"


class OriginTag(StrEnum):
    """Source of the text that a candidate was extracted from."""

    USER = "user"
    ASSISTANT = "assistant"
    EXTERNAL = "external"
    """A page, a mail or a document: a third party's words."""
    TOOL = "tool"
    SYSTEM = "system"
    RECALLED = "recalled"
    """This memory's own output."""
    INJECTED = "injected"
    """Text that a host placed into the context."""


class FactProposal(Value):
    """A fact, within the size limits of facts extracted from conversation."""

    target: Literal[CandidateTarget.LONG_TERM]
    operation: facts.FactOperation = facts.FactOperation.UPSERT
    fact_kind: facts.FactKind = facts.FactKind.FACT
    topic: Annotated[str, Field(max_length=limits.TOPIC_CHARS)]
    content: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    keywords: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    entities: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    confidence: facts.FactConfidence = facts.FactConfidence.MEDIUM
    reach: facts.FactReach = facts.FactReach.USER
    observed_at: ClaimedTime | None = None
    valid_from: PlannedTime | None = None
    valid_to: PlannedTime | None = None


class SkillProposal(Value):
    """A procedure."""

    target: Literal[CandidateTarget.PROCEDURAL]
    name: Name
    topic: skills.Title
    title: skills.Title
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    content: Annotated[str, Field(max_length=limits.SKILL_CHARS)]
    observed_at: ClaimedTime | None = None


class GardenProposal(Value):
    """A private document. It needs a confirmation before it is stored."""

    target: Literal[CandidateTarget.PRIVATE_GARDEN]
    role: continuity.GardenRole
    name: Name
    text: continuity.GardenText


class SoulProposal(Value):
    """A change to a persona's identity: handed over, never applied here."""

    target: Literal[CandidateTarget.SOUL]
    surface: subjects.SoulSurface
    content: Annotated[str, Field(max_length=limits.FACT_CHARS)]


class DiagnosticProposal(Value):
    """Something the operator should know: handed over, never a belief."""

    target: Literal[CandidateTarget.OPERATOR_DIAGNOSTIC]
    topic: Annotated[str, Field(max_length=limits.TOPIC_CHARS)]
    content: Annotated[str, Field(max_length=limits.FACT_CHARS)]


Proposal = Annotated[
    FactProposal | SkillProposal | GardenProposal | SoulProposal | DiagnosticProposal, Field(discriminator="target")
]


class CandidateJudgement(Value):
    """The proposer's wish for a candidate. Rules may refuse; they never accept by themselves."""

    verdict: AdmissionVerdict
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""


class CandidateDraft(Value):
    """A proposed belief with everything its admission considers."""

    proposal: Proposal
    authority: EvidenceAuthority
    """Authority of a candidate."""
    privacy: facts.FactPrivacy = facts.FactPrivacy.SHARED
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    """Ids of the turns or messages that it was extracted from."""
    origins: Annotated[tuple[OriginTag, ...], Field(max_length=limits.TAGS)] = ()
    judgement: CandidateJudgement | None = None


class CandidateState(StrEnum):
    """State of a stored candidate."""

    DEFERRED = "deferred"
    HANDED_OFF = "handed_off"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class Candidate(Value):
    """A pending or resolved candidate."""

    id: CandidateId
    draft: CandidateDraft
    state: CandidateState
    reason: str = ""
    proposed_at: Instant
    channel: Name
    conversation: Name
    resolved_at: Instant | None = None
    resolution: str = ""
    became: str | None = None
    """Id of the belief that an accepted candidate became."""

    @property
    def is_open(self) -> bool:
        return self.state in {CandidateState.DEFERRED, CandidateState.HANDED_OFF}
