"""Projection: the bounded block a model may see."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.knowledge.recall import RecallFilters
from elytron_core.contracts.knowledge.skills import AgentSkillHit
from elytron_core.contracts.modes import ActionAdmission, HostRoom, ModeInput, Pressure
from elytron_core.contracts.scope_fields import Clip, MaxChars, Query, ScopedRequest
from elytron_core.contracts.tools import AgentToolHint, RegistryRefs, ToolExperienceStatus
from elytron_core.model import Value
from elytron_core.planes.conversation.transcript import AliasTrust
from elytron_core.scope import Name


class PrivateContext(StrEnum):
    """Whether what is private may be shown to the model."""

    WITHHELD = "withheld"
    ALLOWED = "allowed"


class MemoryProjectionRequest(ScopedRequest):
    """Build the block for `query` in at most `max_chars` characters."""

    query: Query
    max_chars: MaxChars = limits.PROJECTION_CHARS_DEFAULT
    recent_messages_limit: Annotated[int, Field(ge=0, le=limits.RECENT_MESSAGES_MAX)] = limits.RECENT_MESSAGES_DEFAULT
    recall_limit: Annotated[int, Field(ge=0, le=limits.RECALL_MAX)] | None = None
    """How many recalled memories are shown at most; without it, as many as there is room for."""
    pressure: Pressure = Pressure.NORMAL
    filters: RecallFilters = RecallFilters()
    provider_max_len: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] | None = None
    """What the model's provider takes at most; the smaller bound counts."""
    private_context: PrivateContext = PrivateContext.WITHHELD
    subject: Name | None = None
    """Who speaks: an active subject of the space, by name; without it, the scope's agent as `agent:<name>`."""
    mode_input: ModeInput | None = None
    """What the host is doing; where projecting is not admitted meanwhile, the block is empty."""
    host_room: HostRoom | None = None
    tool_registry_refs: RegistryRefs = ()
    """The host's tool registries that hints are asked for; without any, all that the space knows."""


class SectionName(StrEnum):
    """The parts of a projection, in the order in which they stand."""

    DISCLOSURE = "disclosure"
    """The rule about private context; there only with it."""
    INTEGRITY = "integrity"
    """The rule about work; there only where it is told how far work has come."""
    POLICY = "policy"
    SUBJECT = "subject"
    PRIVATE = "private"
    FACTS = "facts"
    SKILLS = "skills"
    WISHES = "wishes"
    """What people said is to hold from now on: wishes for answers, tastes, what they cannot have, latest first."""
    CONTINUITY = "continuity"
    """Where the conversation's work stands, its summary, its capsules."""
    AGENT_SKILLS = "agent_skills"
    """Skills in the host's directories that fit the query: names and descriptions."""
    AGENT_TOOLS = "agent_tools"
    """Tools that have served before: what experience says of them, no schemas."""
    RECENT = "recent"
    RECALLED = "recalled"


class ProjectionLayer(StrEnum):
    """How close to the session a section is."""

    L1 = "L1"
    """Rules, who speaks, and what was just said."""
    L2 = "L2"
    """What was governed: beliefs, and what is recalled."""
    L3 = "L3"
    """What is private."""


class ProjectionSection(Value):
    """What became of one part: its characters in the block, and which memories it shows."""

    name: SectionName
    layer: ProjectionLayer = ProjectionLayer.L1
    chars: int
    budget: int
    included: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class MissReason(StrEnum):
    """Why the block holds no memory."""

    NO_BUDGET = "no_budget"
    NOTHING_RELEVANT = "nothing_relevant"
    EMPTY_SPACE = "empty_space"
    NOT_ADMITTED = "not_admitted"
    """What the host is doing now lets nothing be shown."""


class PrivateGate(Value):
    """What became of private memories."""

    context: PrivateContext = PrivateContext.WITHHELD
    withheld: int = 0
    """Private documents of the conversation, and private facts that answer the query, that were not shown."""
    shown: tuple[str, ...] = ()


class ProjectionChecks(Value):
    """What looking at the finished block once more showed."""

    within_budget: bool = True
    fence_closed: bool = True
    faithful: bool = True
    """Every line says what its memory says, or the beginning of it."""
    disclosure_kept: bool = True
    """Nothing private is shown that may not be, and what is shown stands under its rule."""


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
    intent: str = "mixed"
    """What the query was taken to be after."""
    unchanged_bytes: int = 0
    """How many leading bytes, in whole lines, are those of this conversation's last block from this runtime."""
    private_gate: PrivateGate = PrivateGate()
    checks: ProjectionChecks = ProjectionChecks()
    lifecycle: tuple[ActionAdmission, ...] = ()
    """With `mode_input`: which actions are admitted now."""
    alias: AliasTrust = AliasTrust.TRUSTED
    """Whether the scope's chat may stand for a conversation; where not, nothing that was said is shown."""
    agent_skill_hits: tuple[AgentSkillHit, ...] = ()
    agent_tool_hints: tuple[AgentToolHint, ...] = ()
    tool_experience_status: ToolExperienceStatus = ToolExperienceStatus()
    selected_ids: tuple[str, ...] = ()
    """The ids of all memories in the block, each once."""
    candidate_ids: tuple[str, ...] = ()
    """The ids of all memories that a section had to choose from, each once."""
