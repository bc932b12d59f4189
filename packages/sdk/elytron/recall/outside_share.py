"""The share of outside text among hits: in each run of places, the last is reserved for other text."""

from collections.abc import Iterable, Iterator, Sequence

from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.evidence import TrustLevel

RUN = 2
"""In each run of this many positions, the last is for text that is not from outside."""


def is_outside(hit: RecallHit, /) -> bool:
    """Return whether a hit comes from outside; summaries and notes, which have no origin, do not."""
    return hit.trust is TrustLevel.OUTSIDE


def hits_once(hits: Iterable[RecallHit], /) -> tuple[RecallHit, ...]:
    """Return the hits without those from outside that repeat an earlier one from outside.

    A fact with a message's text is shown beside it.
    """
    texts: set[tuple[RecallPlane, str]] = set()
    distinct: list[RecallHit] = []
    for hit in hits:
        if is_outside(hit):
            text = hit.plane, " ".join(hit.text.casefold().split())
            if text in texts:
                continue
            texts.add(text)
        distinct.append(hit)
    return tuple(distinct)


def is_crowded(hits: Sequence[RecallHit], /, *, limit: int) -> bool:
    """Return whether text from outside takes more than its share of `hits`, or leaves positions free."""
    if len(hits) < limit and any(map(is_outside, hits)):
        return True
    outside = 0
    for place, hit in enumerate(hits, 1):
        if is_outside(hit):
            outside += 1
            if outside > _allowed_outside(place):
                return True
    return False


def share_hits(hits: Sequence[RecallHit], own: Sequence[RecallHit], /) -> tuple[RecallHit, ...]:
    """Return the hits, text from outside within its share; scores stay with the positions.

    Where that leaves a place free, the first of `own` takes it that has no place yet; those that are left stand last.
    """
    inside_hits = {hit.id: hit for hit in own if not is_outside(hit)}
    ordered: dict[str, RecallHit] = {}
    outside = 0
    for hit in hits:
        if is_outside(hit):
            if outside >= _allowed_outside(len(ordered) + 1) and inside_hits:
                first = next(iter(inside_hits))
                ordered[first] = inside_hits.pop(first)
            outside += 1
        inside_hits.pop(hit.id, None)
        ordered.setdefault(hit.id, hit)
    ordered |= inside_hits
    return tuple(_with_scores([*ordered.values()], [hit.score for hit in hits]))


def _allowed_outside(place: int) -> int:
    return place - place // RUN


def _with_scores(ordered: Sequence[RecallHit], scores: Sequence[float]) -> Iterator[RecallHit]:
    """Yield the hits with the scores of their positions; after those, scores never increase."""
    least = 1.0
    for place, hit in enumerate(ordered):
        least = scores[place] if place < len(scores) else min(least, hit.score)
        yield hit if hit.score == least else hit.model_copy(update={"score": least})
