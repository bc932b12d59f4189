"""Looking closer at the best messages: what one sentence or passage says may be nearer to a query than the whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from elytron.context import OperationContext
from elytron.documents.stored_values import documents_at
from elytron.embedding.passage_similarity import by_passages
from elytron.indexing.search_result import Searched
from elytron_core.policy.ranking.best_sentence import Nearest, nearest
from elytron_core.policy.ranking.weights import Weights
from elytron_index import Candidate, Candidates

CLOSER: Final = 24
"""Number of the best that are read, for any limit, so that a page continues the one before it."""


async def looked_closer(ctx: OperationContext, searched: Searched, /) -> Candidates:
    """Return the messages found, the best in the order that a closer look gives them, the others behind them.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    found = searched.found
    seen: Sequence[Candidate] = found.found[:CLOSER]
    others = found.found[CLOSER:]
    if searched.has_passages:
        seen = await by_passages(ctx, searched, seen)
    if found.long and searched.query.weights.sentence:
        seen = await _by_sentences(ctx, searched, seen)
    if not seen:
        return found
    seen = sorted(seen, key=lambda item: -item.score)
    down = max(0.0, others[0].score - seen[-1].score) if others else 0.0
    return replace(found, found=(*seen, *(item._replace(score=item.score - down) for item in others)))


async def _by_sentences(ctx: OperationContext, searched: Searched, seen: Sequence[Candidate], /) -> Sequence[Candidate]:
    """Return `seen`, the first of those found, with what the nearest sentence of each long message says.

    Where people talk with assistants, only messages of those whose words the query is after are read.
    """
    space, index, query = searched.space, searched.index, searched.query
    places = [place for place in searched.found.long if place < len(seen)]
    if searched.is_assisted:
        places = [place for place in places if seen[place].signals.owner]
    documents = await documents_at(ctx.store, space, (seen[place].unit.ref for place in places))
    turns = {ref: ctx.folds.readings.turn(space, document) for ref, document in documents.items()}
    read = list(seen)
    sought = index.sought(query)
    for place in places:
        item = seen[place]
        turn = turns.get(item.unit.ref)
        if turn is not None:
            said = nearest(turn.sentences(item.unit.part, index.sentences_of), sought, query.fits)
            read[place] = _nearer(item, said, query.weights) if said is not None else item
    return read


def _nearer(item: Candidate, said: Nearest, weights: Weights) -> Candidate:
    """Return `item` with the score of its nearest sentence."""
    more = weights.sentence * said.gain + weights.told * said.share * (said.told - item.signals.told)
    return item._replace(signals=item.signals._replace(sentence=said.gain, told=said.told), score=item.score + more)
