"""Hints next to the hits of a recall: skills of the host, tools, and the count of shown memories."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from elytron.context import OperationContext
from elytron.recall.filters import wants_plane
from elytron.recall.space_reader import SpaceReader
from elytron.state.tool_state import NO_TOOLS
from elytron.writes.skills import touch_skills
from elytron_core import limits
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import (
    MemoryRecallRequest,
    RecallFilters,
    RecallHit,
    RecallPlane,
)
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint, ToolExperienceStatus
from elytron_core.policy.ranking.facts import FactQuery
from elytron_core.policy.ranking.skills import score_agent_skills
from elytron_core.policy.tools import ToolHints, select_hints
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_core.text.analyser import TextAnalyser

Asking = MemoryRecallRequest | MemoryProjectionRequest

_ANALYSER = TextAnalyser()


@dataclass(frozen=True, slots=True)
class StandingHints:
    """Hints, best first. None of them is a memory, and none a permission."""

    agent_skills: tuple[AgentSkillHit, ...]
    agent_tools: tuple[AgentToolHint, ...]
    tool_status: ToolExperienceStatus


async def hints_beside(ctx: OperationContext, reader: SpaceReader | None, request: Asking, /) -> StandingHints:
    """Return the agent skills that match the query, and the experience with the tools it names."""
    tools = await reader.tools() if reader is not None else NO_TOOLS
    refs = request.tool_registry_refs
    tool_hints = select_hints(tools.registries, tools.experiences, refs) if tools.registries or refs else _no_hints()
    skills = await _agent_skills(ctx, request.query, request.filters) if ctx.skill_dirs.has_any else ()
    return StandingHints(skills, tool_hints.hints, tool_hints.status)


@cache
def _no_hints() -> ToolHints:
    return select_hints({}, {}, ())


async def _agent_skills(ctx: OperationContext, query: str, filters: RecallFilters) -> tuple[AgentSkillHit, ...]:
    now = ctx.clock.now()
    skill_directories = await ctx.skill_dirs.current(at=now)
    if not skill_directories.skills or similarity.is_blank(query) or not wants_plane(filters, RecallPlane.PROCEDURAL):
        return ()
    terms = tuple(_ANALYSER.query_terms(query))
    return score_agent_skills(skill_directories.skills, FactQuery(text=query, terms=terms, now=now))


async def note_shown(ctx: OperationContext, scope: Scope, hits: Sequence[RecallHit], /) -> None:
    """Count one use of each likely skill among `hits`, and remember that of each likely fact; within six hours, as one.

    Recall is never refused over it.
    """
    likely_hits = [hit for hit in hits if hit.score >= limits.PROJECTED_SCORE]
    facts = [hit.id for hit in likely_hits if hit.plane is RecallPlane.LONG_TERM]
    if facts:
        ctx.fact_uses.note(scope.space, facts, at=ctx.clock.now())
    skill_names = tuple(hit.id for hit in likely_hits if hit.plane is RecallPlane.PROCEDURAL)
    if skill_names:
        await touch_skills(ctx, scope, skill_names)
