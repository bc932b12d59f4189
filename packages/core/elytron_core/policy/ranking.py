"""One scale for the hits of all planes.

The order inside the transcript plane is made by the index, which weighs every unit of a space at once (`Weights` in
`elytron_index.query`); facts and skills are scored by `fact_scoring` and `skill_scoring` in points of match. Here
points become a strength between 0 and 1, beside which a turn counts the share of the query's words that it holds.
"""

HALF_STRENGTH = 20.0
"""The points at which a fact's or skill's match is worth one half on the common scale."""


def common_scale(points: float, /) -> float:
    """Return points of match on the scale 0..1: s / (s + 20); more points never give less, none give 0."""
    return points / (points + HALF_STRENGTH) if points > 0 else 0.0
