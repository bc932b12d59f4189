"""Hints of a recall or projection beside memories: skills in the host's directories, and useful tools."""

from dataclasses import dataclass
from functools import cache

from elytron.context import OperationContext
from elytron.recall.filters import wants
from elytron.state.tools import NO_TOOLS
from elytron_core.contracts.conversation.projection import MemoryProjectionRequest
from elytron_core.contracts.knowledge.recall import MemoryRecallRequest, Plane, RecallFilters
from elytron_core.contracts.knowledge.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint, ToolExperienceStatus
from elytron_core.policy.projection.builder import LabelledItem
from elytron_core.policy.ranking.agent_skills import score_agent_skills
from elytron_core.policy.ranking.facts import FactQuery
from elytron_core.policy.tools.experience import Hints, select_hints
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_core.text.analyser import Analyser

Asking = MemoryRecallRequest | MemoryProjectionRequest

_ANALYSER = Analyser()


@dataclass(frozen=True, slots=True)
class Beside:
    """Hints, best first. None of them is a memory, and none a permission."""

    agent_skills: tuple[AgentSkillHit, ...]
    agent_tools: tuple[AgentToolHint, ...]
    tool_status: ToolExperienceStatus


async def hints_beside(ctx: OperationContext, scope: Scope, request: Asking, /, *, sequence: int) -> Beside:
    """Return the agent skills that fit the query, and what is known of the tools it names.

    `sequence` is the journal position that the recall saw.
    """
    query = request.query
    record = await ctx.spaces.find(scope.space)
    tools = NO_TOOLS
    if record is not None:
        tools = await ctx.tool_shelves.at(ctx.store, scope.space, record, sequence=sequence)
    refs = request.tool_registry_refs
    selected = select_hints(tools.registries, tools.experiences, refs) if tools.registries or refs else _no_hints()
    skills = await _agent_skills(ctx, query, request.filters) if ctx.skill_dirs.has_any else ()
    return Beside(skills, selected.hints, selected.status)


@cache
def _no_hints() -> Hints:
    return select_hints({}, {}, ())


async def _agent_skills(ctx: OperationContext, query: str, filters: RecallFilters) -> tuple[AgentSkillHit, ...]:
    now = ctx.clock.now()
    directories = await ctx.skill_dirs.current(at=now)
    if not directories.skills or similarity.is_blank(query) or not wants(filters, Plane.PROCEDURAL):
        return ()
    terms = tuple(_ANALYSER.query_terms(query))
    return score_agent_skills(directories.skills, FactQuery(text=query, terms=terms, now=now))


def hint_of_skill(hit: AgentSkillHit, /) -> LabelledItem:
    """Return the line that a block has of an agent skill."""
    return LabelledItem(id=f"agent_skill:{hit.place}", label=hit.name, text=hit.description)


def hint_of_tool(hint: AgentToolHint, /) -> LabelledItem:
    """Return the line that a block has of a tool: what experience says, its tags, nothing of its schema."""
    parts = (
        hint.reason,
        hint.guidance,
        f"confidence {hint.confidence}, {hint.success_count} successes",
        f"permissions: {', '.join(hint.permission_tags)}" if hint.permission_tags else "",
        f"risks: {', '.join(hint.risk_tags)}" if hint.risk_tags else "",
    )
    return LabelledItem(id=hint.experience_id, label=hint.tool_id, text="; ".join(part for part in parts if part))
