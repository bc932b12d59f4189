"""Ranking: candidates with raw signals become one order, by weights that are data.

A signal whose weight is `scaled` is brought to 0..1 over the candidates of one query (its lowest value to 0, its
highest to 1; alike everywhere: 1 where it is above 0). The others count as they are, cut to -1..1. A score is the
weighted sum, divided by the weights of the signals that any candidate shows: so it lies in 0..1 with or without a
vector signal, below 0 only by signals that speak against. Equal scores fall to the later moment, then to the smaller
id, so the order never depends on the input's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elytron_core.model import Value

DIGITS = 9
"""Scores are compared to this many digits, so that the last bit of a float orders nothing."""

HALF_STRENGTH = 20.0
"""The points at which a fact's or skill's match is worth one half on the common scale."""


class Weight(Value):
    """How much a signal counts, and whether it is brought to 0..1 over the candidates first."""

    by: float
    scaled: bool = False


class RankWeights(Value):
    """The weight of each signal by name; signals of other names count nothing."""

    body: Weight = Weight(by=0.45, scaled=True)
    title: Weight = Weight(by=0.05, scaled=True)
    speaker: Weight = Weight(by=0.12)
    vector: Weight = Weight(by=0.45, scaled=True)
    context: Weight = Weight(by=0.25, scaled=True)
    session: Weight = Weight(by=0.08, scaled=True)
    recency: Weight = Weight(by=0.03)
    informative: Weight = Weight(by=0.06)
    fact: Weight = Weight(by=0.45)
    skill: Weight = Weight(by=0.45)

    def by_name(self) -> dict[str, Weight]:
        """Return the weights by the name of their signal."""
        return {name: getattr(self, name) for name in type(self).model_fields}


STANDARD = RankWeights()


@dataclass(frozen=True, slots=True)
class RankInput:
    """A candidate: what it is known by, when it was said, its place in the journal, and what speaks for it."""

    id: str
    at: int
    order: int
    signals: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score and what each signal gave to it; `parts` add up to `score`."""

    id: str
    at: int
    order: int
    score: float
    parts: Mapping[str, float]


def rank(candidates: Sequence[RankInput], weights: RankWeights = STANDARD) -> list[Ranked]:
    """Return `candidates` best first, whatever order they come in. A signal that is no finite number counts as 0."""
    shown = {name for candidate in candidates for name in candidate.signals}
    used = {name: weight for name, weight in weights.by_name().items() if weight.by and name in shown}
    whole = sum(abs(weight.by) for weight in used.values())
    parts: list[dict[str, float]] = [{} for _ in candidates]
    for name, weight in used.items():
        values = [_finite(candidate.signals.get(name, 0.0)) for candidate in candidates]
        for part, value in zip(parts, _scaled(values) if weight.scaled else _clamped(values), strict=True):
            if value:
                part[name] = weight.by * value / whole
    ranked = [
        Ranked(item.id, item.at, item.order, round(math.fsum(part.values()), DIGITS), part)
        for item, part in zip(candidates, parts, strict=True)
    ]
    return sorted(ranked, key=lambda item: (-item.score, -item.at, item.id))


def common_scale(points: float, /) -> float:
    """Return points of match on the scale 0..1: s / (s + 20); more points never give less, none give 0."""
    return points / (points + HALF_STRENGTH) if points > 0 else 0.0


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _clamped(values: Sequence[float]) -> list[float]:
    return [min(max(value, -1.0), 1.0) for value in values]


def _scaled(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    # Halved first, so that the distance of the two ends of the float range is still a number.
    reach = high / 2 - low / 2
    if not reach:
        return [1.0 if high > 0 else 0.0] * len(values)
    return [(value / 2 - low / 2) / reach for value in values]
