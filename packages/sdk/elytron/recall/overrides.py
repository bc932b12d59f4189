"""Overridden memories that a query is about, by the words that they had."""

from elytron.context import OperationContext
from elytron.indexing.override_units import COVERED, SESSION
from elytron.recall.order import turns_of
from elytron.recall.retrieval import asked_of_index
from elytron_core.contracts.knowledge.recall import Diversity
from elytron_core.ids import SpaceId
from elytron_core.policy.query import question as query_question
from elytron_core.text import similarity
from elytron_index import Filters


async def covered(
    ctx: OperationContext, space: SpaceId, query: str, /, *, session: str | None, limit: int
) -> dict[str, float]:
    """Return the keys of up to `limit` overrides whose memories' hidden words answer `query`, with their scores.

    With `session`, of that one alone. The scores are those that recall would give.
    """
    if await ctx.spaces.find(space) is None or similarity.is_blank(query):
        return {}
    index = await ctx.folds.current(space)
    if COVERED not in index.planes():
        return {}
    now = ctx.clock.now()
    question = query_question.read(query, now, ctx.models.questions.classify(query))
    scope = ((SESSION, (session,)),) if session is not None else ()
    filters = Filters(planes=(COVERED,), scope=scope)
    asked = asked_of_index(question, None, limit=limit, filters=filters, diversity=Diversity.OFF)
    return {item.key: item.score for item in turns_of(index.search(asked))}
