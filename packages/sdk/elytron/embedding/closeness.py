"""Looking closer at the best messages: what one passage says may be nearer to a query than the whole."""

from dataclasses import replace
from typing import Final

import numpy as np

from elytron.context import OperationContext
from elytron.embedding.places import vectors_ref
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VectorSet, hexadecimal
from elytron_core.policy import ranking
from elytron_index import Candidate, Candidates
from elytron_index.space import SpaceIndex
from elytron_index.vectors import Vector, unit_vector

CLOSER: Final = 24
"""So many of the best are looked at, whatever the limit, so that a page goes on where the one before it ended."""


async def looked_closer(
    ctx: OperationContext, space: SpaceId, index: SpaceIndex, vector: tuple[str, bytes], found: Candidates, /
) -> Candidates:
    """Return `found` with the best in the order that their passages give them; the others stand behind them.

    Raises StoreCorrupt where a passage's vector is damaged.
    """
    span = found.highs.vector - found.lows.vector
    head, others = found.found[:CLOSER], found.found[CLOSER:]
    if not head or span <= 0.0:
        return found
    model, data = vector
    asked = unit_vector(data, field="query vector")
    refs = list(dict.fromkeys(item.unit.ref for item in head))
    documents = await ctx.store.get(space, [vectors_ref(ref, model) for ref in refs])
    held = {
        ref: VectorSet.from_bytes(document.body)
        for ref, document in zip(refs, documents, strict=True)
        if document is not None
    }
    seen: list[Candidate] = []
    for item in head:
        kept = held.get(item.unit.ref)
        nearest = _nearest(kept, index.check_of(item.unit.ref, item.unit.part), asked) if kept is not None else None
        seen.append(item if nearest is None else _nearer(item, nearest, span))
    seen.sort(key=lambda item: -item.score)
    down = max(0.0, others[0].score - seen[-1].score) if others else 0.0
    return replace(found, found=(*seen, *(item._replace(score=item.score - down) for item in others)))


def _nearest(kept: VectorSet, check: int, asked: Vector) -> float | None:
    """Return the highest cosine of a text's passages; None where it has none to compare."""
    halves = kept.halves_of_passages(hexadecimal(check)) if kept.dimensions == len(asked) else b""
    passages = np.frombuffer(halves, "<f2").reshape(-1, kept.dimensions).astype(np.float32)
    return float((passages @ asked).max()) if len(passages) else None


def _nearer(item: Candidate, nearest: float, span: float) -> Candidate:
    """Return `item` as like the query as its whole and its nearest passage together."""
    more = ranking.STANDARD.passage * (nearest - item.signals.vector)
    signals = item.signals._replace(vector=item.signals.vector + more)
    return item._replace(signals=signals, score=item.score + ranking.STANDARD.vector * more / span)
