"""A closer look at a search's best messages: their nearest sentence and their nearest passage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from elytron.context import OperationContext
from elytron.documents.stored_values import documents_at
from elytron.indexing.units import vectors_ref
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VectorSet, check_to_hex
from elytron_core.policy.ranking.excerpts import NearestSentence, nearest_sentence
from elytron_core.policy.ranking.weights import SignalWeights
from elytron_index import FoundCandidates, IndexQuery, UnitCandidate
from elytron_index.space_index import SpaceIndex
from elytron_index.structures.embeddings import Vector, unit_vector


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """A search in a space, and its result."""

    space: SpaceId
    index: SpaceIndex
    query: IndexQuery
    results: FoundCandidates
    has_passages: bool
    """True if the query's vector is also to be compared with those of passages."""

    @property
    def is_assisted(self) -> bool:
        """True if messages of assistants and of their users were found together."""
        return self.results.highs.owner > 0.0


CLOSER: Final = 24
"""Number of best hits that are read, for any limit, so that a page continues the one before it."""


async def looked_closer(ctx: OperationContext, searched: SearchedSpace, /) -> FoundCandidates:
    """Return the messages found, the best reordered by a closer look, the others after them.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    candidates = searched.results
    best: Sequence[UnitCandidate] = candidates.candidates[:CLOSER]
    others = candidates.candidates[CLOSER:]
    if searched.has_passages:
        best = await by_passages(ctx, searched, best)
    if candidates.long and searched.query.weights.sentence:
        best = await _by_sentences(ctx, searched, best)
    if not best:
        return candidates
    best = sorted(best, key=lambda item: -item.score)
    # The others were not read, so none of them may pass the last one that was.
    down = max(0.0, others[0].score - best[-1].score) if others else 0.0
    return replace(candidates, candidates=(*best, *(item._replace(score=item.score - down) for item in others)))


async def _by_sentences(
    ctx: OperationContext, searched: SearchedSpace, best: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
    """Return `best`, the first of those found, rescored by the nearest sentence of each long message.

    Where people talk with assistants, only messages of those whose words the query is after are read.
    """
    space, index, query = searched.space, searched.index, searched.query
    places = [place for place in searched.results.long if place < len(best)]
    if searched.is_assisted:
        places = [place for place in places if best[place].signals.owner]
    documents = await documents_at(ctx.store, space, (best[place].unit.ref for place in places))
    turns = {ref: ctx.folds.readings.turn(space, document) for ref, document in documents.items()}
    read = list(best)
    sought = index.sought(query)
    for place in places:
        item = best[place]
        turn = turns.get(item.unit.ref)
        if turn is not None:
            sentence = nearest_sentence(turn.sentences(item.unit.part, index.sentences_of), sought, query.fits)
            read[place] = _nearest_sentence(item, sentence, query.weights) if sentence is not None else item
    return read


def _nearest_sentence(item: UnitCandidate, sentence: NearestSentence, weights: SignalWeights) -> UnitCandidate:
    """Return `item` with the score of its nearest sentence."""
    more = weights.sentence * sentence.gain + weights.told * sentence.share * (sentence.factuality - item.signals.told)
    return item._replace(
        signals=item.signals._replace(sentence=sentence.gain, told=sentence.factuality), score=item.score + more
    )


async def by_passages(
    ctx: OperationContext, searched: SearchedSpace, best: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
    """Return `best`, some of those found, rescored by the similarity of their whole and their nearest passage.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    query, candidates = searched.query, searched.results
    span = candidates.highs.vector - candidates.lows.vector
    if query.vector is None or not best or span <= 0.0:
        return best
    model, data = query.vector
    query_vector = unit_vector(data, field="query vector")
    refs = list(dict.fromkeys(item.unit.ref for item in best))
    documents = await ctx.store.get(searched.space, [vectors_ref(ref, model) for ref in refs])
    vectors = {
        ref: VectorSet.from_bytes(document.body)
        for ref, document in zip(refs, documents, strict=True)
        if document is not None
    }
    weights = query.weights
    worth = weights.vector * (weights.vector_assisted if searched.is_assisted else 1.0) / span
    nearer: list[UnitCandidate] = []
    for item in best:
        vector_set, check = vectors.get(item.unit.ref), searched.index.check_of(item.unit.ref, item.unit.part)
        nearest = _nearest_passage(vector_set, check, query_vector) if vector_set is not None else None
        more = weights.passage * (nearest - item.signals.vector) if nearest is not None else 0.0
        signals = item.signals._replace(vector=item.signals.vector + more)
        nearer.append(item._replace(signals=signals, score=item.score + worth * more))
    return nearer


def _nearest_passage(vector_set: VectorSet, check: int, query_vector: Vector) -> float | None:
    """Return the highest cosine of a text's passages; None if there are none to compare."""
    # Vectors of another dimension, from an earlier model, compare with nothing.
    halves = vector_set.halves_of_passages(check_to_hex(check)) if vector_set.dimensions == len(query_vector) else b""
    passages = np.frombuffer(halves, "<f2").reshape(-1, vector_set.dimensions).astype(np.float32)
    return float((passages @ query_vector).max()) if len(passages) else None
