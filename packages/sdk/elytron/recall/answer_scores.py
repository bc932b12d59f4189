"""Scores of what a search found."""

from collections.abc import Iterator

from elytron_core.policy.ranking.answer_score import Signs, descending, probability
from elytron_core.rounding import six
from elytron_index import Candidates


def answer_scores(found: Candidates, /) -> list[float]:
    """Return the score of each candidate, in their order; none is above the one before it."""
    is_encoded = found.highs.vector > 0.0
    return list(descending(six(probability(signs, is_encoded=is_encoded)) for signs in signs_of(found)))


def signs_of(found: Candidates, /) -> Iterator[Signs]:
    """Yield what speaks for each candidate, in their order."""
    if not found.found:
        return
    best = found.found[0].score
    second = found.found[1].score if len(found.found) > 1 else best
    worth, lowest = abs(best) or 1.0, found.lows.vector
    lead = (best - second) / worth
    for place, (_, signals, score) in enumerate(found.found):
        closeness = (signals.vector - lowest) / (1.0 - lowest) if lowest < 1.0 else 1.0
        strength = max(signals.text_vectors, signals.context, closeness, 0.0)
        yield Signs(
            likeness=signals.text_vectors,
            coverage=signals.coverage,
            context=signals.context,
            lead=0.0 if place else lead * strength,
            behind=(best - score) / worth,
            closeness=closeness,
        )
