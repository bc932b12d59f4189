"""Projection: the bounded block of memory that a model may see."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.recall import MemoryId, RecallFilters, RecallGate, RecallGateReport
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint, RegistryRefs, ToolExperienceStatus
from elytron_core.model import Value
from elytron_core.planes.transcript import AliasTrust
from elytron_core.profiles import ActionAdmission, HostRoom, MemoryPressure, ModeInput
from elytron_core.scope import MaxChars, Name, Query, ReportClip, ScopedRequest

RECENT_MESSAGES_MAX: Final = 200
RECENT_MESSAGES_DEFAULT: Final = 8


__all__ = [
    "MemoryProjectionReport",
    "MemoryProjectionRequest",
    "PrivateContext",
]


class PrivateContext(StrEnum):
    """True if private memories may be shown to the model."""

    WITHHELD = "withheld"
    ALLOWED = "allowed"


class MemoryProjectionRequest(ScopedRequest["MemoryProjectionReport"]):
    """Build the block for `query` in at most `max_chars` characters."""

    query: Query
    max_chars: MaxChars = limits.PROJECTION_CHARS_DEFAULT
    recent_messages_limit: Annotated[int, Field(ge=0, le=RECENT_MESSAGES_MAX)] = RECENT_MESSAGES_DEFAULT
    recall_limit: Annotated[int, Field(ge=0, le=limits.RECALL_MAX)] | None = None
    """Maximum number of recalled memories to show; defaults to as many as fit."""
    recall_gate: RecallGate = RecallGate.AUTO
    """`off` shows memories for any query that is close to one."""
    pressure: MemoryPressure = MemoryPressure.NORMAL
    filters: RecallFilters = RecallFilters()
    provider_max_len: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] | None = None
    """The limit of the model's provider; the smaller limit applies."""
    private_context: PrivateContext = PrivateContext.WITHHELD
    subject: Name | None = None
    """The speaker: an active subject of the space, by name; defaults to the scope's agent as `agent:<name>`."""
    mode_input: ModeInput | None = None
    """The host's mode; if it does not admit projection, the block is empty."""
    host_room: HostRoom | None = None
    tool_registry_refs: RegistryRefs = ()
    """The host's tool registries to give hints for; defaults to all that the space knows."""
    line_label: Name | None = None
    """Prefix of each memory, for a block shown together with blocks of other spaces."""
    answers_only: bool = False
    """Show only what was recalled for the query: no standing facts, wishes, skills or state of work."""
    without_conversation: bool = False
    """Recall nothing from the scope's own conversation, which the model sees anyway."""
    shown_ids: Annotated[tuple[MemoryId, ...], Field(max_length=limits.RECALL_MAX)] = ()
    """Memories that the model has already been shown; none of them is recalled again."""


class SectionName(StrEnum):
    """The parts of a projection, in order."""

    DISCLOSURE = "disclosure"
    """The rule about private context; present only with private context."""
    INTEGRITY = "integrity"
    """The rule about work; present only with the state of work."""
    POLICY = "policy"
    SUBJECT = "subject"
    PRIVATE = "private"
    FACTS = "facts"
    SKILLS = "skills"
    WISHES = "wishes"
    """Standing instructions and preferences: wishes for answers, tastes, restrictions, latest first."""
    CONTINUITY = "continuity"
    """The conversation's state of work, summary and capsules."""
    AGENT_SKILLS = "agent_skills"
    """Skills in the host's directories that match the query: names and descriptions."""
    AGENT_TOOLS = "agent_tools"
    """Tools that worked before: experience with them, no schemas."""
    RECENT = "recent"
    RECALLED = "recalled"


class ProjectionLayer(StrEnum):
    """Distance of a section from the session."""

    L1 = "L1"
    """Rules, the speaker, and the most recent messages."""
    L2 = "L2"
    """Governed content: beliefs and recalled memories."""
    L3 = "L3"
    """Private content."""


class ProjectionSection(Value):
    """Outcome of one part: its characters in the block, and the memories it shows."""

    name: SectionName
    layer: ProjectionLayer = ProjectionLayer.L1
    chars: int
    budget: int
    included: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class MissReason(StrEnum):
    """Why the block contains no memory."""

    NO_BUDGET = "no_budget"
    NOTHING_RELEVANT = "nothing_relevant"
    EMPTY_SPACE = "empty_space"
    NOT_ADMITTED = "not_admitted"
    """The host's mode admits no projection."""


class PrivateGate(Value):
    """Whether private memories were shown."""

    context: PrivateContext = PrivateContext.WITHHELD
    withheld: int = 0
    """Private documents of the conversation and matching private facts that were not shown."""
    shown: tuple[str, ...] = ()


class ProjectionChecks(Value):
    """Result of checking the finished block."""

    within_budget: bool = True
    fence_closed: bool = True
    faithful: bool = True
    """Every line states what its memory states, or the beginning of it."""
    disclosure_kept: bool = True
    """Private content is shown only if allowed, and under its rule."""


class MemoryProjectionReport(Value):
    """The block and an account of it. `system_memory_block` never exceeds `budget` characters.

    The first `stable_chars` characters change only with policy and standing facts, so a provider's prompt
    cache holds; recalled memories of this turn come last, escaped, inside a fence with a fresh mark.
    """

    space: str
    projection_id: str
    system_memory_block: str
    requested_chars: int
    budget: int
    stable_chars: int
    pressure: MemoryPressure
    sections: tuple[ProjectionSection, ...]
    truncated: bool
    limited_by: tuple[ReportClip, ...] = ()
    miss_reason: MissReason | None = None
    sequence: int = 0
    intent: str = "mixed"
    """Intent of the query."""
    unchanged_bytes: int = 0
    """Number of leading bytes, in whole lines, that equal this conversation's last block from this runtime."""
    private_gate: PrivateGate = PrivateGate()
    checks: ProjectionChecks = ProjectionChecks()
    lifecycle: tuple[ActionAdmission, ...] = ()
    """With `mode_input`: which actions are admitted now."""
    alias: AliasTrust = AliasTrust.TRUSTED
    """State of the scope's chat; if the chat names no conversation, no turn is shown."""
    agent_skill_hits: tuple[AgentSkillHit, ...] = ()
    agent_tool_hints: tuple[AgentToolHint, ...] = ()
    tool_experience_status: ToolExperienceStatus = ToolExperienceStatus()
    selected_ids: tuple[str, ...] = ()
    """The ids of all memories in the block, each once."""
    candidate_ids: tuple[str, ...] = ()
    """The ids of all memories that a section could choose from, each once."""
    gate: RecallGateReport | None = None
    """The gate's decision about recalled memories, and the numbers behind it."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the block as messages for a model's API: one of the system, or none if the block is empty."""
        return [{"role": "system", "content": self.system_memory_block}] if self.system_memory_block else []
