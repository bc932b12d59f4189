"""Freshness of a fact, by kind and age."""

import pytest

from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import FactId
from elytron_core.planes.facts import AGES, AGING, FRESH, PACES, STALE, Fact, FactFreshness, FactKind, fact_freshness

THEN = Instant(1_700_000_000_000)


def fact(kind: FactKind = FactKind.TASK, *, confirmed_at: int = THEN, valid_to: int | None = None) -> Fact:
    ending = Instant(valid_to) if valid_to is not None else None
    return Fact(
        id=FactId("f1"),
        kind=kind,
        topic="boat",
        content="sand it",
        observed_at=THEN,
        recorded_at=THEN,
        confirmed_at=Instant(confirmed_at),
        valid_to=ending,
    )


def after(days: int, ms: int = 0) -> Instant:
    return Instant(THEN + days * DAY_MS + ms)


@pytest.mark.parametrize("kind", list(FactKind))
def test_each_kind_ages_and_becomes_stale_after_its_days(kind: FactKind) -> None:
    aging, stale = AGES[PACES[kind]]
    found = [
        fact_freshness(fact(kind), at)
        for at in (after(-1), after(aging, -1), after(aging), after(stale, -1), after(stale))
    ]
    assert found == [FRESH, FRESH, AGING, AGING, STALE]


def test_the_days_are_those_of_the_spec() -> None:
    assert {pace.value: tuple(ages) for pace, ages in AGES.items()} == {
        "stable": (90, 365),
        "dynamic": (14, 90),
        "volatile": (3, 21),
    }


def test_confirming_a_fact_makes_it_fresh_again() -> None:
    assert fact_freshness(fact(confirmed_at=after(30)), after(31)) == FRESH


@pytest.mark.parametrize(("valid_to", "found"), [(after(1), STALE), (after(1, 1), FRESH)])
def test_a_fact_is_stale_as_soon_as_its_validity_ends(valid_to: Instant, found: FactFreshness) -> None:
    assert fact_freshness(fact(valid_to=valid_to), after(1)) == found
