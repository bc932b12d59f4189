"""Validity of facts: whether one holds, what a new value replaces, and how fresh it is."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import FactId
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.facts import Fact, FactState, FreshnessHint, FreshnessState


def fact_holds(fact: facts.Fact, /, *, as_of: Instant, known_at: Instant | None = None) -> bool:
    """Return whether a fact is valid at `as_of`, and was believed at `known_at` (without one, is believed)."""
    valid_to = fact.valid_to
    if known_at is None:
        believed = fact.is_believed
    else:
        is_gone = not fact.is_believed and fact.closed_at is not None and fact.closed_at <= known_at
        believed = fact.recorded_at <= known_at and not is_gone
        if fact.end_known_at is not None and known_at < fact.end_known_at:
            valid_to = None
    return believed and (fact.valid_from or as_of) <= as_of and (valid_to is None or as_of < valid_to)


def is_replaceable(fact: facts.Fact, /, *, at: Instant) -> bool:
    """Return whether a new value of its slot takes the place of a fact.

    That is the current one, or an earlier one that still holds at `at`, because the one that follows has not begun.
    """
    return fact.is_current or (fact.is_believed and fact.valid_to is not None and at < fact.valid_to)


def replaceable_versions(versions: Sequence[Fact], /, *, at: Instant) -> tuple[Fact, ...]:
    """Return the versions that a new value takes the place of at `at`, newest first; `versions` are oldest first."""
    return tuple(fact for fact in reversed(versions) if is_replaceable(fact, at=at))


def replace_version(fact: Fact, /, *, began: Instant, at: Instant, because: str, by: FactId) -> Fact | None:
    """Return a version as a value leaves it that holds since `began`; None if it ends before that."""
    if not fact.is_current and fact.valid_to is not None and fact.valid_to <= began:
        return None
    closed = facts.close_fact(fact, at=at, because=because, state=FactState.SUPERSEDED, by=by)
    ends = began if fact.valid_to is None else min(fact.valid_to, began)
    return closed.model_copy(update={"valid_to": ends})


def is_past(fact: Fact, /, *, at: Instant) -> bool:
    """Return whether a version held, and does not any more at `at`."""
    return fact.is_believed and not is_replaceable(fact, at=at) and not _is_empty(fact)


def is_taken(fact: Fact, versions: Iterable[Fact], /) -> bool:
    """Return whether another version is believed to hold at a time at which `fact` would hold."""
    return any(version.id != fact.id and version.is_believed and _spans_overlap(version, fact) for version in versions)


def _spans_overlap(one: Fact, other: Fact) -> bool:
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: Fact, other: Fact) -> bool:
    if one.valid_from is None or other.valid_to is None:
        return not _is_empty(other)
    return not _is_empty(other) and one.valid_from < other.valid_to


def _is_empty(fact: Fact) -> bool:
    """Return whether a version holds at no time: another took its place before it began."""
    return fact.valid_from is not None and fact.valid_to is not None and fact.valid_to <= fact.valid_from


class ChangePace(StrEnum):
    """Pace at which a kind of fact changes."""

    STABLE = "stable"
    DYNAMIC = "dynamic"
    VOLATILE = "volatile"


class FreshnessAges(NamedTuple):
    """From how many days on a fact is aging, and stale."""

    aging: int
    stale: int


PACES: Final = {
    facts.FactKind.PREFERENCE: ChangePace.STABLE,
    facts.FactKind.PROFILE: ChangePace.STABLE,
    facts.FactKind.RELATIONSHIP: ChangePace.STABLE,
    facts.FactKind.CONSTRAINT: ChangePace.STABLE,
    facts.FactKind.FACT: ChangePace.STABLE,
    facts.FactKind.PROJECT: ChangePace.DYNAMIC,
    facts.FactKind.TASK: ChangePace.VOLATILE,
}
"""Identity and preferences change seldom, a project within weeks, a task within days."""

AGES: Final = {
    ChangePace.STABLE: FreshnessAges(90, 365),
    ChangePace.DYNAMIC: FreshnessAges(14, 90),
    ChangePace.VOLATILE: FreshnessAges(3, 21),
}


class FactFreshness(Value):
    """Freshness of a fact, and the hint for its reader."""

    state: FreshnessState
    hint: FreshnessHint


FRESH: Final = FactFreshness(state=FreshnessState.FRESH, hint=FreshnessHint.NONE)
AGING: Final = FactFreshness(state=FreshnessState.AGING, hint=FreshnessHint.REVIEW)
STALE: Final = FactFreshness(state=FreshnessState.STALE, hint=FreshnessHint.VERIFY)


def fact_freshness(fact: facts.Fact, now: Instant) -> FactFreshness:
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
