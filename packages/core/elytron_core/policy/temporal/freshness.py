"""Freshness: a fact's age since its last confirmation, by how fast its kind changes."""

from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.freshness import FreshnessHint, FreshnessState


class Pace(StrEnum):
    """Pace at which a kind of fact changes."""

    STABLE = "stable"
    DYNAMIC = "dynamic"
    VOLATILE = "volatile"


class Ages(NamedTuple):
    """From how many days on a fact is aging, and stale."""

    aging: int
    stale: int


PACES: Final = {
    long_term.Kind.PREFERENCE: Pace.STABLE,
    long_term.Kind.PROFILE: Pace.STABLE,
    long_term.Kind.RELATIONSHIP: Pace.STABLE,
    long_term.Kind.CONSTRAINT: Pace.STABLE,
    long_term.Kind.FACT: Pace.STABLE,
    long_term.Kind.PROJECT: Pace.DYNAMIC,
    long_term.Kind.TASK: Pace.VOLATILE,
}
"""Identity and preferences change seldom, a project within weeks, a task within days."""

AGES: Final = {Pace.STABLE: Ages(90, 365), Pace.DYNAMIC: Ages(14, 90), Pace.VOLATILE: Ages(3, 21)}


class Freshness(Value):
    """Freshness of a fact, and the hint for its reader."""

    state: FreshnessState
    hint: FreshnessHint


FRESH: Final = Freshness(state=FreshnessState.FRESH, hint=FreshnessHint.NONE)
AGING: Final = Freshness(state=FreshnessState.AGING, hint=FreshnessHint.REVIEW)
STALE: Final = Freshness(state=FreshnessState.STALE, hint=FreshnessHint.VERIFY)


def freshness(fact: long_term.Fact, now: Instant) -> Freshness:
    """Return how fresh `fact` is by its kind and the days since it was last observed or confirmed.

    A fact whose validity has ended, or that was marked stale, is stale at once.
    """
    if fact.stale_at is not None:
        return STALE
    if fact.valid_to is not None and fact.valid_to <= now:
        return STALE
    ages = AGES[PACES[fact.kind]]
    days = (now - max(fact.observed_at, fact.confirmed_at)) / DAY_MS
    if days >= ages.stale:
        return STALE
    return AGING if days >= ages.aging else FRESH
