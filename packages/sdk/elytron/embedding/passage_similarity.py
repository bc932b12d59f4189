"""Likeness of messages' passages to a query: one passage may be nearer to it than the whole."""

from collections.abc import Sequence

import numpy as np

from elytron.context import OperationContext
from elytron.indexing.search_result import SearchedSpace
from elytron.indexing.units import vectors_ref
from elytron_core.planes.embedding import VectorSet, check_to_hex
from elytron_index import UnitCandidate
from elytron_index.structures.vectors import Vector, unit_vector


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
    asked = unit_vector(data, field="query vector")
    refs = list(dict.fromkeys(item.unit.ref for item in seen))
    documents = await ctx.store.get(searched.space, [vectors_ref(ref, model) for ref in refs])
    held = {
        ref: VectorSet.from_bytes(document.body)
        for ref, document in zip(refs, documents, strict=True)
        if document is not None
    }
    weights = query.weights
    worth = weights.vector * (weights.vector_assisted if searched.is_assisted else 1.0) / span
    nearer: list[UnitCandidate] = []
    for item in seen:
        kept, check = held.get(item.unit.ref), searched.index.check_of(item.unit.ref, item.unit.part)
        nearest = _nearest_passage(kept, check, asked) if kept is not None else None
        more = weights.passage * (nearest - item.signals.vector) if nearest is not None else 0.0
        signals = item.signals._replace(vector=item.signals.vector + more)
        nearer.append(item._replace(signals=signals, score=item.score + worth * more))
    return nearer


def _nearest_passage(kept: VectorSet, check: int, asked: Vector) -> float | None:
    """Return the highest cosine of a text's passages; None if it has none to compare."""
    halves = kept.halves_of_passages(check_to_hex(check)) if kept.dimensions == len(asked) else b""
    passages = np.frombuffer(halves, "<f2").reshape(-1, kept.dimensions).astype(np.float32)
    return float((passages @ asked).max()) if len(passages) else None
