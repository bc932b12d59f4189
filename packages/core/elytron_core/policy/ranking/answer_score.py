"""The score of a hit: an estimate, 0 to 1, that a memory answers a query.

A logistic model of what the search found of one memory: how like it is, how much of the query it holds, and where it
stands among the others. Its numbers are data, fitted by `benchmarks.answer_score` on the conversations that ship.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import mul
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.contracts.recall import RecallConfidence


class Signs(NamedTuple):
    """What speaks for one memory."""

    likeness: float
    """Cosine by the text vectors that ship."""
    coverage: float
    """The share of the query's terms, by rarity, that it holds."""
    context: float
    """The same with what stands beside it, names apart."""
    lead: float
    """How far the best is ahead of the second, as a share of its sum of signals, times the highest of likeness, context
    and closeness: to lead among what hardly answers says little. 0 for all others."""
    behind: float
    """How far it is behind the best, as such a share."""
    closeness: float = 0.0
    """How far an encoder places it on the way from the least like memory (0) to the same text (1)."""


class Estimate(NamedTuple):
    """An intercept, and what each sign counts."""

    intercept: float
    weights: Signs


WORDED: Final = Estimate(-2.19, Signs(1.30, 0.30, 0.96, 4.70, -4.67))
"""Without an encoder."""
ENCODED: Final = Estimate(-2.61, Signs(0.64, -0.09, 1.11, 5.83, -7.12, 1.36))
"""With one."""


def probability(signs: Signs, /, *, is_encoded: bool) -> float:
    """Return the estimate for one memory."""
    estimate = ENCODED if is_encoded else WORDED
    return 1.0 / (1.0 + math.exp(-sum(map(mul, estimate.weights, signs), estimate.intercept)))


def descending(scores: Iterable[float], /) -> Iterator[float]:
    """Yield scores given best first, none above the one before it."""
    least = 1.0
    for score in scores:
        least = min(least, score)
        yield least


def of_any(scores: Iterable[float], /) -> float:
    """Return the estimate that at least one of several memories answers."""
    return 1.0 - math.prod(1.0 - score for score in islice(scores, limits.RECALL_DEFAULT))


def confidence(scores: Iterable[float], /) -> RecallConfidence:
    """Return the word for the estimate that one of the best hits answers."""
    score = of_any(scores)
    if score >= limits.SURE_SCORE:
        return RecallConfidence.SURE
    return RecallConfidence.LIKELY if score >= limits.LIKELY_SCORE else RecallConfidence.DOUBTFUL
