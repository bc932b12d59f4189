"""A host's tools: registries, feedback on their use, and hints drawn from it."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes import tools
from elytron_core.planes.skills import ReuseOutcome
from elytron_core.scope import Name, Reason, ScopedRequest, ScrubbedCounts
from elytron_core.time_kinds import ClaimedTime

FEEDBACK_OBSERVATIONS: Final = 64
TOOL_SUMMARY_CHARS: Final = 2_000


__all__ = [
    "AgentToolObservation",
    "AgentToolRegistryDeleteReport",
    "AgentToolRegistryDeleteRequest",
    "AgentToolRegistryGetReport",
    "AgentToolRegistryGetRequest",
    "AgentToolRegistryListReport",
    "AgentToolRegistryListRequest",
    "AgentToolRegistryUpsertReport",
    "AgentToolRegistryUpsertRequest",
    "AgentToolUsageFeedback",
    "AgentToolUsageFeedbackWrite",
    "ToolOutcome",
]

RegistryRefs = Annotated[tuple[tools.AgentToolRegistryRef, ...], Field(max_length=limits.TOOL_REGISTRIES)]


class AgentToolRegistryUpsertRequest(ScopedRequest["AgentToolRegistryUpsertReport"]):
    """Register a snapshot, replacing one of the same id."""

    snapshot: tools.AgentToolRegistrySnapshot


class RegistryRefusal(StrEnum):
    """Why a snapshot was refused."""

    FINGERPRINT_MISMATCH = "agent_tool_registry_fingerprint_mismatch"
    DESCRIPTOR_MISMATCH = "agent_tool_descriptor_fingerprint_mismatch"
    DUPLICATE_TOOL = "agent_tool_id_duplicate"
    FORBIDDEN_BY_PROFILE = "agent_tool_registry_forbidden_by_profile"
    TOO_MANY = "agent_tool_registries_too_many"


class AgentToolRegistryUpsertReport(Value):
    """Outcome of a snapshot. `fingerprint` is computed from it."""

    space: str
    registry_id: str
    accepted: bool
    changed: bool
    refused: RegistryRefusal | None = None
    reason: str = ""
    fingerprint: str
    replaced_fingerprint: str | None = None
    """The fingerprint of the previous snapshot, if it differed."""
    sequence: int = 0
    scrubbed: ScrubbedCounts = {}


class AgentToolRegistryListRequest(ScopedRequest["AgentToolRegistryListReport"]):
    """List every registry of the space."""


class AgentToolRegistryReport(Value):
    """Counts of known tools."""

    registries: int = 0
    tools: int = 0
    disabled_tools: int = 0
    governed_experiences: int = 0
    candidate_experiences: int = 0
    """Single successes that await a repetition."""
    stale_experiences: int = 0
    """Governed experiences whose registry, tool or schema no longer exists."""
    forbidden_by_profile: bool = False


class AgentToolRegistryListReport(Value):
    """The registries of a space, by id."""

    space: str
    registries: tuple[tools.AgentToolRegistrySnapshot, ...]
    report: AgentToolRegistryReport


class AgentToolRegistryGetRequest(ScopedRequest["AgentToolRegistryGetReport"]):
    """Read one registry."""

    registry_id: Name


class AgentToolRegistryGetReport(Value):
    """One registry as it was registered."""

    space: str
    registry: tools.AgentToolRegistrySnapshot
    registered_at: Instant


class AgentToolRegistryDeleteRequest(ScopedRequest["AgentToolRegistryDeleteReport"]):
    """Remove a registry. Experience with its tools stays, but gives no hints until it returns."""

    registry_id: Name


class AgentToolRegistryDeleteReport(Value):
    """True if the registry existed."""

    space: str
    registry_id: str
    changed: bool
    sequence: int = 0


class ToolOutcome(StrEnum):
    """End of one execution."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"


class AgentToolObservation(Value):
    """One execution of a tool in brief: never its result, its arguments or its schema."""

    observation_id: Name | None = None
    tool_id: Name
    schema_fingerprint: tools.Fingerprint
    outcome: ToolOutcome
    task_signature: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    """Kind of task, in the host's own words; equal tasks share experience."""
    summary: Annotated[str, Field(max_length=TOOL_SUMMARY_CHARS)] = ""
    error_code: Name | None = None
    private_content_used: bool = False
    completed_at: ClaimedTime | None = None


class AgentToolUsageFeedback(Value):
    """A host's report of its tools during one reply."""

    registry_ref: tools.AgentToolRegistryRef
    observations: Annotated[tuple[AgentToolObservation, ...], Field(max_length=FEEDBACK_OBSERVATIONS)] = ()
    user_visible_result_summary: Annotated[str, Field(max_length=TOOL_SUMMARY_CHARS)] | None = None
    reuse_outcome: ReuseOutcome = ReuseOutcome.NEUTRAL
    operator_note: Reason | None = None


class AgentToolUsageFeedbackWrite(Value):
    """Feedback that may become governed experience."""

    kind: Literal["agent_tool_usage_feedback"] = "agent_tool_usage_feedback"
    feedback: AgentToolUsageFeedback


class ExperienceDecision(StrEnum):
    """Verdict of governance on feedback."""

    ACCEPTED_AS_EVIDENCE = "accepted_as_evidence"
    DEFERRED_UNTIL_REPEATED = "deferred_until_repeated"
    REJECTED_BY_PRIVACY = "rejected_by_privacy"
    REJECTED_BY_SCHEMA_DRIFT = "rejected_by_schema_drift"
    REJECTED_BY_LOW_CONFIDENCE = "rejected_by_low_confidence"


class AgentToolHint(Value):
    """A tool that worked before. It is not a permission: the host checks, confirms and executes."""

    registry_id: str
    registry_ref: tools.AgentToolRegistryRef
    tool_id: str
    display_name: str = ""
    schema_fingerprint: str
    experience_id: str
    reason: str
    guidance: str = ""
    confidence: tools.ExperienceConfidence
    success_count: int
    failure_count: int
    updated_at: Instant
    permission_tags: tuple[str, ...] = ()
    risk_tags: tuple[str, ...] = ()
    host_execution_required: Literal[True] = True


class HintRejection(StrEnum):
    """Why an experience, or a whole registry, gives no hint."""

    REGISTRY_NOT_FOUND = "agent_tool_registry_not_found"
    REGISTRY_FINGERPRINT_MISMATCH = "agent_tool_registry_fingerprint_mismatch"
    TOOL_NOT_IN_REGISTRY = "agent_tool_not_in_registry"
    DISABLED = "agent_tool_disabled_by_registry"
    STALE_SCHEMA = "agent_tool_experience_stale_schema"


class AgentToolRejection(Value):
    """An experience that gives no hint now; without a tool, its whole registry."""

    registry_id: str
    tool_id: str | None = None
    experience_id: str | None = None
    reason: HintRejection


class ExperienceReason(StrEnum):
    """Basis of the hints."""

    NO_GOVERNED_TOOL_EXPERIENCE = "no_governed_tool_experience"
    GOVERNED_TOOL_EXPERIENCE_AVAILABLE = "governed_tool_experience_available"


class ToolExperienceStatus(Value):
    """Availability of hints. Without them the host decides which tools to show a model."""

    reason: ExperienceReason = ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE
    available: bool = False
    host_fallback_required: bool = True
    cold_start_selection_used: Literal[False] = False
    registry_refs_checked: int = 0
    governed_experience_candidates: int = 0
    rejected: tuple[AgentToolRejection, ...] = ()
    budget_limited: bool = False
