"""Projection: the bounded block a model may see."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.recalling import RecallFilters
from elytron_core.contracts.scoped import Clip, ScopedRequest
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint, RegistryRefs, ToolExperienceStatus
from elytron_core.model import Value
from elytron_core.planes.transcript import AliasTrust


class Pressure(StrEnum):
    """How short the host is of room; budgets shrink to 100, 60 and 35 per cent."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    CRITICAL = "critical"


class MemoryProjectionRequest(ScopedRequest):
    """Build the block for `user_query` in at most `system_max_len` characters."""

    user_query: Annotated[str, Field(max_length=limits.QUERY_CHARS)]
    system_max_len: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] = limits.PROJECTION_CHARS_DEFAULT
    recent_messages_limit: Annotated[int, Field(ge=0, le=limits.RECENT_MESSAGES_MAX)] = limits.RECENT_MESSAGES_DEFAULT
    recall_limit: Annotated[int, Field(ge=0, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    pressure: Pressure = Pressure.NORMAL
    filters: RecallFilters = RecallFilters()
    tool_registry_refs: RegistryRefs = ()
    """The host's tool registries that hints are asked for; without any, all that the space knows."""


class SectionName(StrEnum):
    """The parts of a projection, in the order in which they stand."""

    POLICY = "policy"
    FACTS = "facts"
    SKILLS = "skills"
    AGENT_SKILLS = "agent_skills"
    """Skills in the host's directories that fit the query: names and descriptions."""
    AGENT_TOOLS = "agent_tools"
    """Tools that have served before: what experience says of them, no schemas."""
    RECENT = "recent"
    RECALLED = "recalled"


class ProjectionSection(Value):
    """What became of one part: its characters in the block, and which memories it shows."""

    name: SectionName
    chars: int
    budget: int
    included: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class MissReason(StrEnum):
    """Why the block holds no memory."""

    NO_BUDGET = "no_budget"
    NOTHING_RELEVANT = "nothing_relevant"
    EMPTY_SPACE = "empty_space"


class MemoryProjectionReport(Value):
    """The block and the account of it. `system_memory_block` never has more than `budget` characters.

    The first `stable_chars` characters stay the same while policy and standing facts do, so a provider's prompt
    cache holds; what was recalled for this turn stands last, escaped, inside a fence with a fresh mark.
    """

    space: str
    projection_id: str
    system_memory_block: str
    requested_chars: int
    budget: int
    stable_chars: int
    pressure: Pressure
    sections: tuple[ProjectionSection, ...]
    truncated: bool
    limited_by: tuple[Clip, ...] = ()
    miss_reason: MissReason | None = None
    sequence: int = 0
    alias: AliasTrust = AliasTrust.TRUSTED
    """Whether the scope's chat may stand for a conversation; where not, nothing that was said is shown."""
    agent_skill_hits: tuple[AgentSkillHit, ...] = ()
    agent_tool_hints: tuple[AgentToolHint, ...] = ()
    tool_experience_status: ToolExperienceStatus = ToolExperienceStatus()

    @property
    def selected_ids(self) -> tuple[str, ...]:
        """Return the ids of all memories in the block, each once."""
        return tuple(dict.fromkeys(memory for section in self.sections for memory in section.included))
