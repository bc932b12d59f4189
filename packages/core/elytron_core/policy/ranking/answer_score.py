"""The score of a hit: an estimate, 0 to 1, that a memory answers a query.

It is the product of two chances. The first is that the best hits answer at all: it follows from their likeness to the
query, and from how far one of them is the best in everything. The second is that this hit is the one that does: it
follows from how far each is behind the best. The numbers are data, fitted by `benchmarks.answer_score` on the
conversations that ship.
"""

import math
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.contracts.knowledge.recall import RecallOutcome

COMPARED: Final = 10
"""The number of best hits among which the answer is looked for."""


class Signs(NamedTuple):
    """Signs in a search's result that it has an answer."""

    strength: float
    """The highest likeness of all, by text vectors or an encoder, 0 to 1; if text vectors do not know the query, the
    highest share of its words that are together."""
    agreement: float
    """The sum of signals of the best hit, as a share of what a memory would have that were best in each of them."""
    behind: tuple[float, ...]
    """The distance of each hit behind the best, as a share of the sum of the best; best first."""

    @property
    def evidence(self) -> float:
        """The evidence for an answer: a strong search whose signals mean the same memory."""
        return self.strength * self.agreement


class Estimate(NamedTuple):
    """The numbers of a score."""

    intercept: float
    evidence: float
    """The weight of evidence in a logistic model of whether the best hits answer."""
    sharpness: float
    """The rate at which the chance of a hit falls with its distance behind; multiplied by the search's strength."""
    pieces: float
    """The pieces that an answer consists of."""


WORDED: Final = Estimate(-2.09, 5.54, 13.0, 1.5)
"""Without an encoder."""
ENCODED: Final = Estimate(-1.59, 3.44, 15.0, 1.5)
"""With one."""


def answered(signs: Signs, /, *, is_encoded: bool) -> float:
    """Return the estimate that one of the best hits answers."""
    estimate = ENCODED if is_encoded else WORDED
    return 1.0 / (1.0 + math.exp(-(estimate.intercept + estimate.evidence * signs.evidence)))


def scores(signs: Signs, /, *, is_encoded: bool) -> list[float]:
    """Return the score of each hit, best first; none is above the one before it."""
    chance = answered(signs, is_encoded=is_encoded)
    return [chance * share for share in shares(signs, ENCODED if is_encoded else WORDED)]


def shares(signs: Signs, estimate: Estimate, /) -> list[float]:
    """Return for each hit the chance that it answers if one of the best does."""
    rate = estimate.sharpness * signs.strength
    weights = [math.exp(-rate * behind) for behind in signs.behind]
    total = sum(islice(weights, COMPARED))
    return [1.0 - (1.0 - weight / total) ** estimate.pieces for weight in weights]


def of_any(found: Iterable[float], /) -> float:
    """Return the estimate that one of several hits answers, by their scores alone."""
    return 1.0 - math.prod(1.0 - score for score in islice(found, COMPARED))


def outcome(score: float, /) -> RecallOutcome:
    """Return the outcome for an estimate that one of the best hits answers."""
    if score >= limits.FOUND_SCORE:
        return RecallOutcome.FOUND
    return RecallOutcome.DOUBTFUL if score >= limits.PROJECTED_SCORE else RecallOutcome.NOTHING
