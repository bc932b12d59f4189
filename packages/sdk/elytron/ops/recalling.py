"""Recall: what answers a query, best first."""

from elytron.context import OperationContext
from elytron.explaining import absences
from elytron.gathering import gather
from elytron.hinting import hints_beside
from elytron.neighbouring import with_neighbours
from elytron.paging import cursor_of, place_in, require_same
from elytron.reranking import reranked
from elytron.writes.reuse import touch_skills
from elytron_core import limits
from elytron_core.contracts.recalling import MemoryRecallReport, MemoryRecallRequest, RecallHit
from elytron_core.contracts.scoped import Clip, ClipReason
from elytron_core.text.tokens import estimate_tokens


async def recall(ctx: OperationContext, request: MemoryRecallRequest, /) -> MemoryRecallReport:
    """Find what answers the query; say what a bound cut off."""
    scope = ctx.scope_of(request)
    offset = place_in(request.cursor)
    end = min(offset + request.limit, limits.RECALL_MAX)
    reads_more = limits.RERANK_HITS if ctx.models.reranker is not None else 0
    gathered = await gather(
        ctx,
        scope,
        request.query,
        request.filters,
        limit=max(end, reads_more),
        diversity=request.diversity,
        depth=limits.RECALL_MAX if request.why_not else 0,
    )
    rerank, ordered = await reranked(ctx, request.query, gathered.hits)
    require_same(request, [hit.id for hit in ordered[:offset]], gathered.sequence)
    page = hits = ordered[offset:end]
    clipped: list[Clip] = []
    beyond = gathered.available - offset - len(hits)
    if beyond > 0 and len(hits) == request.limit:
        clipped.append(Clip(what="hits", reason=ClipReason.LIMIT, limit=request.limit, dropped=beyond))
    if request.max_tokens is not None:
        hits = _within(hits, request.max_tokens)
        if dropped := len(page) - len(hits):
            clipped.append(Clip(what="hits", reason=ClipReason.TOKENS, limit=request.max_tokens, dropped=dropped))
    beside = await hints_beside(ctx, scope, request, sequence=gathered.sequence)
    await touch_skills(ctx, scope, hits)
    shown = [hit.id for hit in ordered[: offset + len(hits)]]
    has_more = bool(hits) and len(gathered.scores) > len(shown) < limits.RECALL_MAX
    return MemoryRecallReport(
        space=scope.space,
        query=request.query,
        outcome=gathered.outcome,
        hits=await with_neighbours(ctx, scope, hits, count=request.neighbours),
        considered=gathered.considered,
        intent=gathered.intent.value,
        sequence=gathered.sequence,
        clipped=tuple(clipped),
        next_cursor=cursor_of(request, shown, gathered.sequence) if has_more else None,
        cut=round(gathered.scores[len(shown)], 6) if has_more else None,
        rerank=rerank,
        why_not=await absences(
            ctx,
            scope,
            request.why_not,
            filters=request.filters,
            order=gathered.order,
            page=page,
            shown=hits,
            offset=offset,
        ),
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
