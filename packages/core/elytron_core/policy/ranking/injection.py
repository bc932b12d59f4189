"""When memory speaks unasked: the one gate for recalled text that goes to a model without having been asked for.

Search answers because it was asked; `recall_gate` says which of the two a request is. The numbers are fitted by
`python -m benchmarks.train_gate`, and `python -m benchmarks.precision` says how well they hold.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Final, NamedTuple

from elytron_core.contracts.recall import GateNumbers, GateReport, RecallHit, RecallPlane
from elytron_core.planes.embedding import ModelReach

ASKS_MOST: Final = 6.0
"""The margin of a prompt counts no further than this, either way."""
OPEN_FROM: Final = 0.5
FIRST_LINES: Final = 5
"""So many hits are shown in any case where the gate is open: the answer is often not the first."""
LEAST_SHARE: Final = 0.05
"""Further ones only with this share of the best score."""
_SMALL_LOG, _GROWTH = 2.5, 4.0


class GateSigns(NamedTuple):
    """What a plane's search says of whether its memories are wanted."""

    evidence: float
    searched: int
    context: float
    terms: int
    encoder: ModelReach | None = None


class GateWeights(NamedTuple):
    """The weights of a logistic model of whether a question that memory answers was asked."""

    intercept: float
    evidence: float
    asks: float
    size: float
    """Taken off for the likeness that the best of so many memories has by chance."""
    context: float
    """Counts in full from some 700 memories on, not at all up to 12."""
    terms: float


WORDED: Final = GateWeights(3.40, 8.42, 0.87, 2.27, 4.40, 0.146)
"""Without an encoder."""
ENCODED: Final = WORDED
"""With one of English, by `minilm`."""
ENCODED_MANY: Final = WORDED
"""With one of many languages, by `e5`."""
_WEIGHTS: Final = MappingProxyType({None: WORDED, ModelReach.ENGLISH: ENCODED, ModelReach.MANY: ENCODED_MANY})


def gate_chance(signs: GateSigns, asks: float, /) -> float:
    """Return the estimate, 0 to 1, that the memories found are wanted; it is open from a half on."""
    intercept, *weights = _WEIGHTS[signs.encoder]
    total = intercept + sum(map(mul, weights, gate_features(signs, asks)))
    return 1.0 / (1.0 + math.exp(-total))


def gate_features(signs: GateSigns, asks: float, /) -> tuple[float, ...]:
    """Return what the weights behind the intercept multiply."""
    log = math.log(max(signs.searched, 2))
    growth = min(max((log - _SMALL_LOG) / _GROWTH, 0.0), 1.0)
    # The highest of N draws of chance lies near the root: so one mark serves small and large spaces.
    return signs.evidence, clipped_margin(asks), -math.sqrt(2.0 * log), growth * signs.context, growth * signs.terms


def clipped_margin(margin: float, /) -> float:
    """Return a classifier's margin as far as it counts; one that is no number counts for neither side."""
    return 0.0 if math.isnan(margin) else min(max(margin, -ASKS_MOST), ASKS_MOST)


def gate_numbers(
    signs: Mapping[RecallPlane, GateSigns], asks: float, /, *, is_answered: bool, named: Iterable[RecallPlane] = ()
) -> tuple[GateNumbers, ...]:
    """Return what the gate decides about each plane; `named` are those that the query names a memory of.

    `is_answered` says whether the search estimates that one of the best hits answers.
    """
    always = frozenset(named)
    rows: list[GateNumbers] = []
    for plane, sign in signs.items():
        chance = gate_chance(sign, asks)
        rows.append(
            GateNumbers(
                plane=plane,
                evidence=round(sign.evidence, 4),
                searched=sign.searched,
                asks=round(clipped_margin(asks), 4),
                context=round(sign.context, 4),
                terms=sign.terms,
                chance=round(chance, 4),
                is_open=plane in always or (is_answered and chance >= OPEN_FROM),
            )
        )
    return tuple(rows)


def injected_hits(hits: Sequence[RecallHit], numbers: Sequence[GateNumbers], /) -> tuple[RecallHit, ...]:
    """Return the hits of the planes that are open: the first, and further ones that are not far behind the best."""
    planes = {row.plane for row in numbers if row.is_open}
    admitted = [hit for hit in hits if hit.plane in planes]
    least = admitted[0].score * LEAST_SHARE if admitted else 0.0
    return tuple(hit for place, hit in enumerate(admitted) if place < FIRST_LINES or hit.score >= least)


def gate_report(numbers: Sequence[GateNumbers], /, *, left_out: int) -> GateReport:
    """Return the account of the gate."""
    return GateReport(is_open=any(row.is_open for row in numbers), planes=tuple(numbers), left_out=left_out)
