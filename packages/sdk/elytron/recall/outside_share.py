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
    distinct_hits: list[RecallHit] = []
    for hit in hits:
        if is_outside(hit):
            text = hit.plane, " ".join(hit.text.casefold().split())
            if text in texts:
                continue
            texts.add(text)
        distinct_hits.append(hit)
    return tuple(distinct_hits)


def is_crowded(hits: Sequence[RecallHit], /, *, limit: int) -> bool:
    """Return whether text from outside takes more than its share of `hits`, or leaves positions free."""
    if len(hits) < limit and any(map(is_outside, hits)):
        return True
    outside_count = 0
    for position, hit in enumerate(hits, 1):
        if is_outside(hit):
            outside_count += 1
            if outside_count > _allowed_outside(position):
                return True
    return False


def share_hits(hits: Sequence[RecallHit], searched_hits: Sequence[RecallHit], /) -> tuple[RecallHit, ...]:
    """Return the hits, text from outside within its share; scores stay with the positions.

    Where that leaves a place free, the first of `searched_hits` without a place takes it; those left over stand last.
    """
    inside_hits = {hit.id: hit for hit in searched_hits if not is_outside(hit)}
    ordered_hits: dict[str, RecallHit] = {}
    outside_count = 0
    for hit in hits:
        if is_outside(hit):
            if outside_count >= _allowed_outside(len(ordered_hits) + 1) and inside_hits:
                first_id = next(iter(inside_hits))
                ordered_hits[first_id] = inside_hits.pop(first_id)
            outside_count += 1
        inside_hits.pop(hit.id, None)
        ordered_hits.setdefault(hit.id, hit)
    ordered_hits |= inside_hits
    return tuple(_with_scores([*ordered_hits.values()], [hit.score for hit in hits]))


def _allowed_outside(place: int) -> int:
    return place - place // RUN


def _with_scores(ordered_hits: Sequence[RecallHit], scores: Sequence[float]) -> Iterator[RecallHit]:
    """Yield the hits with the scores of their positions; after those, scores never increase."""
    lowest_score = 1.0
    for position, hit in enumerate(ordered_hits):
        lowest_score = scores[position] if position < len(scores) else min(lowest_score, hit.score)
        yield hit if hit.score == lowest_score else hit.model_copy(update={"score": lowest_score})
