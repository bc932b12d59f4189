"""Recall: what answers a query, best first."""

from elytron.context import OperationContext
from elytron.gathering import gather
from elytron.hinting import hints_beside
from elytron.writes.reuse import touch_skills
from elytron_core.contracts.recalling import MemoryRecallReport, MemoryRecallRequest, RecallHit
from elytron_core.contracts.scoped import Clip, ClipReason
from elytron_core.text.tokens import estimate_tokens


async def recall(ctx: OperationContext, request: MemoryRecallRequest, /) -> MemoryRecallReport:
    """Find what answers the query; say what a bound cut off."""
    scope = ctx.scope_of(request)
    gathered = await gather(ctx, scope, request.query, request.filters, limit=request.limit)
    hits = gathered.hits
    clipped: list[Clip] = []
    beyond = gathered.available - len(hits)
    if beyond > 0 and len(hits) == request.limit:
        clipped.append(Clip(what="hits", reason=ClipReason.LIMIT, limit=request.limit, dropped=beyond))
    if request.max_tokens is not None:
        kept = _within(hits, request.max_tokens)
        if len(kept) < len(hits):
            dropped = len(hits) - len(kept)
            clipped.append(Clip(what="hits", reason=ClipReason.TOKENS, limit=request.max_tokens, dropped=dropped))
        hits = kept
    beside = await hints_beside(
        ctx, scope, request.query, request.filters, request.tool_registry_refs, sequence=gathered.sequence
    )
    await touch_skills(ctx, scope, hits)
    return MemoryRecallReport(
        space=scope.space,
        query=request.query,
        outcome=gathered.outcome,
        hits=hits,
        considered=gathered.considered,
        sequence=gathered.sequence,
        clipped=tuple(clipped),
        agent_skill_hits=beside.agent_skills,
        agent_tool_hints=beside.agent_tools,
        tool_experience_status=beside.tool_status,
        vectors=gathered.vectors,
        unembedded=gathered.unembedded,
        alias=gathered.alias,
    )


def _within(hits: tuple[RecallHit, ...], max_tokens: int) -> tuple[RecallHit, ...]:
    """Return the longest beginning of `hits` whose texts fit."""
    spent = 0
    for count, hit in enumerate(hits):
        spent += estimate_tokens(hit.text)
        if spent > max_tokens:
            return hits[:count]
    return hits
