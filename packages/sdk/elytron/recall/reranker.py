"""Putting the best hits in the order of a model that reads query and text together, where the runtime has one."""

import asyncio
import math
from collections.abc import Sequence

from elytron.context import OperationContext
from elytron_core import limits
from elytron_core.contracts.knowledge.recall import RecallHit, RerankUse
from elytron_core.errors import ModelRefused, ModelUnavailable


async def reranked(
    ctx: OperationContext, query: str, hits: Sequence[RecallHit], /
) -> tuple[RerankUse, tuple[RecallHit, ...]]:
    """Return the hits with the best `limits.RERANK_HITS` in the reranker's order; unchanged if it fails.

    Scores belong to the places: the first keeps the highest. The reranker's scores are in `signals`. Equal answers
    leave the order as it was.
    """
    reranker = ctx.models.reranker
    head = hits[: limits.RERANK_HITS]
    if reranker is None or len(head) < 2:
        return RerankUse.NONE, tuple(hits)
    texts = [hit.text[: limits.RERANK_TEXT_CHARS] for hit in head]
    try:
        async with asyncio.timeout(limits.RERANK_WAIT_S):
            answers = await reranker.rerank(query, texts)
    except (ModelUnavailable, ModelRefused, TimeoutError):
        return RerankUse.FAILED, tuple(hits)
    if len(answers) != len(head) or not all(math.isfinite(answer) for answer in answers):
        return RerankUse.FAILED, tuple(hits)
    order = sorted(range(len(head)), key=lambda place: (-answers[place], place))
    moved = (
        head[place].model_copy(
            update={"score": above.score, "signals": {**head[place].signals, "rerank": round(answers[place], 4)}}
        )
        for place, above in zip(order, head, strict=True)
    )
    return RerankUse.RANKED, (*moved, *hits[len(head) :])
