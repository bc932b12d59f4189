"""The procedural plane: runtime skills, learned ways of doing something. Stored and shown, never executed."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import SkillId
from elytron_core.model import Value
from elytron_core.scope import Name

SKILLS = "skills"
NAME_PREFIX = "runtime_skill__"

Title = Annotated[str, Field(min_length=1, max_length=limits.TOPIC_CHARS)]
Procedure = Annotated[str, Field(min_length=1, max_length=limits.SKILL_CHARS)]


class SkillSource(StrEnum):
    """Who wrote the skill."""

    MANUAL = "manual"
    EXTRACTION = "extraction"
    TASK_LEARNING = "task_learning"
    PROGRAMMABLE = "programmable"


class SkillState(StrEnum):
    """Where a skill is in its life."""

    ACTIVE = "active"
    STALE = "stale"
    LOW_VALUE = "low_value"
    RETIRED = "retired"


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

    @property
    def is_recallable(self) -> bool:
        return self.enabled and self.forgotten_at is None and self.state is not SkillState.RETIRED
