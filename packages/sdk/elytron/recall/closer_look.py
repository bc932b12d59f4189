"""A closer look at the best messages of a search: their nearest sentence, and their nearest passage."""

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
from elytron_index.structures.vectors import Vector, unit_vector


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """A search in a space, and its result."""

    space: SpaceId
    index: SpaceIndex
    query: IndexQuery
    found: FoundCandidates
    has_passages: bool
    """True if the query's vector is to be compared with those of passages too."""

    @property
    def is_assisted(self) -> bool:
        """True if messages of assistants and of their users were found together."""
        return self.found.highs.owner > 0.0


CLOSER: Final = 24
"""Number of the best that are read, for any limit, so that a page continues the one before it."""


async def looked_closer(ctx: OperationContext, searched: SearchedSpace, /) -> FoundCandidates:
    """Return the messages found, the best in the order that a closer look gives them, the others behind them.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    found = searched.found
    seen: Sequence[UnitCandidate] = found.found[:CLOSER]
    others = found.found[CLOSER:]
    if searched.has_passages:
        seen = await by_passages(ctx, searched, seen)
    if found.long and searched.query.weights.sentence:
        seen = await _by_sentences(ctx, searched, seen)
    if not seen:
        return found
    seen = sorted(seen, key=lambda item: -item.score)
    # The others were not read, so none of them may pass the last one that was.
    down = max(0.0, others[0].score - seen[-1].score) if others else 0.0
    return replace(found, found=(*seen, *(item._replace(score=item.score - down) for item in others)))


async def _by_sentences(
    ctx: OperationContext, searched: SearchedSpace, seen: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
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
            said = nearest_sentence(turn.sentences(item.unit.part, index.sentences_of), sought, query.fits)
            read[place] = _nearest_sentence(item, said, query.weights) if said is not None else item
    return read


def _nearest_sentence(item: UnitCandidate, said: NearestSentence, weights: SignalWeights) -> UnitCandidate:
    """Return `item` with the score of its nearest sentence."""
    more = weights.sentence * said.gain + weights.told * said.share * (said.told - item.signals.told)
    return item._replace(signals=item.signals._replace(sentence=said.gain, told=said.told), score=item.score + more)


async def by_passages(
    ctx: OperationContext, searched: SearchedSpace, seen: Sequence[UnitCandidate], /
) -> Sequence[UnitCandidate]:
    """Return `seen`, some of those found, each as like the query as its whole and its nearest passage together.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    query, found = searched.query, searched.found
    span = found.highs.vector - found.lows.vector
    if query.vector is None or not seen or span <= 0.0:
        return seen
    model, data = query.vector
    query_vector = unit_vector(data, field="query vector")
    refs = list(dict.fromkeys(item.unit.ref for item in seen))
    documents = await ctx.store.get(searched.space, [vectors_ref(ref, model) for ref in refs])
    vectors = {
        ref: VectorSet.from_bytes(document.body)
        for ref, document in zip(refs, documents, strict=True)
        if document is not None
    }
    weights = query.weights
    worth = weights.vector * (weights.vector_assisted if searched.is_assisted else 1.0) / span
    nearer: list[UnitCandidate] = []
    for item in seen:
        vector_set, check = vectors.get(item.unit.ref), searched.index.check_of(item.unit.ref, item.unit.part)
        nearest = _nearest_passage(vector_set, check, query_vector) if vector_set is not None else None
        more = weights.passage * (nearest - item.signals.vector) if nearest is not None else 0.0
        signals = item.signals._replace(vector=item.signals.vector + more)
        nearer.append(item._replace(signals=signals, score=item.score + worth * more))
    return nearer


def _nearest_passage(kept: VectorSet, check: int, asked: Vector) -> float | None:
    """Return the highest cosine of a text's passages; None if it has none to compare."""
    # Vectors of another dimension, from a model before, compare with nothing.
    halves = kept.halves_of_passages(check_to_hex(check)) if kept.dimensions == len(asked) else b""
    passages = np.frombuffer(halves, "<f2").reshape(-1, kept.dimensions).astype(np.float32)
    return float((passages @ asked).max()) if len(passages) else None
