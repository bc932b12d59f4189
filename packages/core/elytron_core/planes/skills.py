"""The procedural plane: runtime skills, which are learned procedures. They are stored and shown, never executed."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant, order_time
from elytron_core.evidence import TrustLevel
from elytron_core.ids import SkillId
from elytron_core.model import Value
from elytron_core.scope import Name

SKILLS = "skills"
NAME_PREFIX = "runtime_skill__"

Title = Annotated[str, Field(min_length=1, max_length=limits.TOPIC_CHARS)]
Procedure = Annotated[str, Field(min_length=1, max_length=limits.SKILL_CHARS)]


class SkillSource(StrEnum):
    """Author of a skill."""

    MANUAL = "manual"
    EXTRACTION = "extraction"
    TASK_LEARNING = "task_learning"
    PROGRAMMABLE = "programmable"


class SkillOrigin(StrEnum):
    """Source of a skill: given by a caller or learned by the runtime."""

    LEARNED = "learned"
    USER_PROVIDED = "user_provided"


class SkillState(StrEnum):
    """State of a skill."""

    ACTIVE = "active"
    STALE = "stale"
    LOW_VALUE = "low_value"
    RETIRED = "retired"


class ReuseOutcome(StrEnum):
    """Outcome of a use of a skill or a tool."""

    SUCCEEDED = "succeeded"
    MISMATCH = "mismatch"
    NEUTRAL = "neutral"


class LineageStatus(StrEnum):
    """Status of one revision of a skill."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    RETIRED = "retired"


class LineageNode(Value):
    """One revision of a skill, or of one that was merged into it. `digest` is keyed by the space's secret."""

    name: Name
    revision: int
    digest: str
    status: LineageStatus
    at: Instant
    """When that revision was written."""


class StrategyChange(StrEnum):
    """Part of a skill that a revision changed."""

    SUMMARY_REVISION = "summary_revision"
    PROCEDURE_REFINEMENT = "procedure_refinement"
    DOCTRINE_REVISION = "doctrine_revision"
    """Its topic or title."""


class StrategyDiff(Value):
    """Changes of one revision; of long texts the lines that differ, clipped."""

    change: StrategyChange
    at: Instant
    revision: int
    """The revision that the change produced."""
    before: str
    after: str
    reason: str = ""


class Skill(Value):
    """A procedure with its evidence. `id` is its keyed tag, `name` starts with `runtime_skill__`."""

    id: SkillId
    name: Name
    topic: Title
    title: Title
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)]
    procedure: Procedure
    citations: tuple[Name, ...] = ()
    source: SkillSource = SkillSource.MANUAL
    source_chat_id: Name | None = None
    observed_at: Instant
    recorded_at: Instant
    updated_at: Instant
    enabled: bool = True
    forgotten_at: Instant | None = None
    state: SkillState = SkillState.ACTIVE
    revision_count: int = 1
    revision_pending: bool = False
    """It did not fit when last used, and has neither succeeded nor been revised since."""
    use_count: int = 0
    validated_count: int = 0
    mismatch_count: int = 0
    last_used_at: Instant | None = None
    last_outcome_at: Instant | None = None
    last_outcome_note: str = ""
    supersedes: tuple[Name, ...] = ()
    """The skills merged into it."""
    superseded_by: Name | None = None
    predecessors: tuple[LineageNode, ...] = ()
    """Its earlier revisions and those of merged skills, oldest first."""
    diffs: tuple[StrategyDiff, ...] = ()
    """Changes of its latest revisions, oldest first."""

    @property
    def ordered_at(self) -> Instant:
        """Return the observation time that orders it: as claimed, but not after its recording."""
        return order_time(self.observed_at, recorded_at=self.updated_at)

    @property
    def is_recallable(self) -> bool:
        return self.enabled and self.forgotten_at is None and self.state is not SkillState.RETIRED

    @property
    def origin(self) -> SkillOrigin:
        return SkillOrigin.USER_PROVIDED if self.source is SkillSource.MANUAL else SkillOrigin.LEARNED

    @property
    def trust(self) -> TrustLevel:
        """Return its trust: as provided by a user or a program, or as learned."""
        is_provided = self.source in {SkillSource.MANUAL, SkillSource.PROGRAMMABLE}
        return TrustLevel.VOUCHED if is_provided else TrustLevel.DRAWN

    @property
    def content(self) -> str:
        """Return the texts that decide whether two revisions are the same."""
        return f"{self.topic}\n{self.title}\n{self.summary}\n{self.procedure}"


def full_name(name: str, /) -> str:
    """Return `name` with the prefix of runtime skills."""
    return name if name.startswith(NAME_PREFIX) else NAME_PREFIX + name
