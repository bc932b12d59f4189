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


async def looked_closer(ctx: OperationContext, searched_space: SearchedSpace, /) -> FoundCandidates:
    """Return the messages found, the best reordered by a closer look, the others after them.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    candidates = searched_space.results
    best_candidates: Sequence[UnitCandidate] = candidates.candidates[:CLOSER]
    other_candidates = candidates.candidates[CLOSER:]
    if searched_space.has_passages:
        best_candidates = await by_passages(ctx, searched_space, best_candidates)
    if candidates.long and searched_space.query.weights.sentence:
        best_candidates = await _by_sentences(ctx, searched_space, best_candidates)
    if not best_candidates:
        return candidates
    best_candidates = sorted(best_candidates, key=lambda item: -item.score)
    # The others were not read, so none of them may pass the last one that was.
    score_gap = max(0.0, other_candidates[0].score - best_candidates[-1].score) if other_candidates else 0.0
    return replace(
        candidates,
        candidates=(*best_candidates, *(item._replace(score=item.score - score_gap) for item in other_candidates)),
    )


async def _by_sentences(
    ctx: OperationContext, searched_space: SearchedSpace, best_candidates: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
    """Return `best_candidates`, the first of those found, rescored by the nearest sentence of each long message.

    Where people talk with assistants, only messages of those whose words the query is after are read.
    """
    space, index, query = searched_space.space, searched_space.index, searched_space.query
    long_places = [position for position in searched_space.results.long if position < len(best_candidates)]
    if searched_space.is_assisted:
        long_places = [position for position in long_places if best_candidates[position].signals.owner]
    documents = await documents_at(ctx.store, space, (best_candidates[position].unit.ref for position in long_places))
    turns = {ref: ctx.folds.readings.turn(space, document) for ref, document in documents.items()}
    rescored_candidates = list(best_candidates)
    query_terms = index.sought(query)
    for position in long_places:
        item = best_candidates[position]
        turn = turns.get(item.unit.ref)
        if turn is not None:
            sentence = nearest_sentence(turn.sentences(item.unit.part, index.sentences_of), query_terms, query.fits)
            rescored_candidates[position] = (
                _nearest_sentence(item, sentence, query.weights) if sentence is not None else item
            )
    return rescored_candidates


def _nearest_sentence(item: UnitCandidate, sentence: NearestSentence, weights: SignalWeights) -> UnitCandidate:
    """Return `item` with the score of its nearest sentence."""
    score_gain = weights.sentence * sentence.gain + weights.told * sentence.share * (
        sentence.factuality - item.signals.told
    )
    return item._replace(
        signals=item.signals._replace(sentence=sentence.gain, told=sentence.factuality), score=item.score + score_gain
    )


async def by_passages(
    ctx: OperationContext, searched: SearchedSpace, best_candidates: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
    """Return `best_candidates`, some of those found, rescored by how near their whole and their nearest passage are.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    query, candidates = searched.query, searched.results
    vector_span = candidates.highs.vector - candidates.lows.vector
    if query.vector is None or not best_candidates or vector_span <= 0.0:
        return best_candidates
    model, vector_bytes = query.vector
    query_vector = unit_vector(vector_bytes, field="query vector")
    refs = list(dict.fromkeys(item.unit.ref for item in best_candidates))
    documents = await ctx.store.get(searched.space, [vectors_ref(ref, model) for ref in refs])
    vectors = {
        ref: VectorSet.from_bytes(document.body)
        for ref, document in zip(refs, documents, strict=True)
        if document is not None
    }
    weights = query.weights
    vector_weight = weights.vector * (weights.vector_assisted if searched.is_assisted else 1.0) / vector_span
    rescored_candidates: list[UnitCandidate] = []
    for item in best_candidates:
        vector_set, text_digest = vectors.get(item.unit.ref), searched.index.check_of(item.unit.ref, item.unit.part)
        nearest_similarity = _nearest_passage(vector_set, text_digest, query_vector) if vector_set is not None else None
        signal_gain = (
            weights.passage * (nearest_similarity - item.signals.vector) if nearest_similarity is not None else 0.0
        )
        signals = item.signals._replace(vector=item.signals.vector + signal_gain)
        rescored_candidates.append(item._replace(signals=signals, score=item.score + vector_weight * signal_gain))
    return rescored_candidates


def _nearest_passage(vector_set: VectorSet, text_digest: int, query_vector: Vector) -> float | None:
    """Return the highest cosine of a text's passages; None if there are none to compare."""
    # Vectors of another dimension, from an earlier model, compare with nothing.
    half_floats = (
        vector_set.halves_of_passages(check_to_hex(text_digest)) if vector_set.dimensions == len(query_vector) else b""
    )
    passages = np.frombuffer(half_floats, "<f2").reshape(-1, vector_set.dimensions).astype(np.float32)
    return float((passages @ query_vector).max()) if len(passages) else None
