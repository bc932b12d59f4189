"""Hits that a recall shows, of all that was put in order: text from outside within its share of them."""

from collections.abc import Sequence
from dataclasses import replace

from elytron.context import OperationContext
from elytron.recall.order import Ranked, hits_of, turns_of
from elytron.recall.outside_share import is_crowded, once, shared
from elytron.recall.sentence_scores import CLOSER
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import RecallHit
from elytron_core.planes.evidence import Trust
from elytron_core.policy.ranking.latest_answer import WINDOW
from elytron_core.scope import Scope
from elytron_index import Candidate, Candidates, IndexQuery
from elytron_index.space_index import SpaceIndex


async def shown_hits(
    ctx: OperationContext,
    scope: Scope,
    ranked: Sequence[Ranked],
    index: SpaceIndex,
    search: IndexQuery | None,
    /,
    *,
    limit: int,
    now: Instant,
) -> tuple[RecallHit, ...]:
    """Return the hits of the best of `ranked`, at least `limit` if there are that many.

    `search` found the messages among them: if text from outside crowds the others out, it finds those again, alone.
    """
    seen = await _hits(ctx, scope, ranked, wanted=max(limit, WINDOW), now=now)
    if search is None or not is_crowded(seen, limit=limit):
        return seen
    # The same for any limit: pages of one recall agree on the order.
    least = max(search.filters.min_trust or 0, Trust.DRAWN.rank)
    own = index.search(replace(search, limit=CLOSER, filters=replace(search.filters, min_trust=least)))
    return shared(seen, await _insiders(ctx, scope, ranked, own, now=now))


async def _hits(
    ctx: OperationContext, scope: Scope, ranked: Sequence[Ranked], /, *, wanted: int, now: Instant
) -> tuple[RecallHit, ...]:
    """Return the hits of the best `wanted`; a repetition of text from outside is left out for the next."""
    hits: tuple[RecallHit, ...] = ()
    start = 0
    while len(hits) < wanted and start < len(ranked):
        page = ranked[start : start + wanted - len(hits)]
        start += len(page)
        hits = once((*hits, *await hits_of(ctx, scope, page, limit=len(page), now=now)))
    return hits


async def _insiders(
    ctx: OperationContext, scope: Scope, ranked: Sequence[Ranked], own: Candidates, /, *, now: Instant
) -> tuple[RecallHit, ...]:
    """Return the hits of messages that do not come from outside, and with them all that is no message."""
    others = [item for item in ranked if not isinstance(item.found, Candidate)]
    best = sorted((*turns_of(own), *others), key=_score, reverse=True)
    return await hits_of(ctx, scope, best, limit=len(best), now=now)


def _score(item: Ranked) -> float:
    return item.score
