"""Validity of a fact at one time, as it was believed at another."""

import pytest

from elytron_core.clock import Instant
from elytron_core.planes.facts import Fact, FactState, fact_holds


def fact(state: FactState, **changes: int) -> Fact:
    return Fact.model_validate(
        {
            "id": "f",
            "kind": "profile",
            "topic": "residence",
            "content": "lives in Lisbon",
            "observed_at": 10,
            "recorded_at": 10,
            "confirmed_at": 10,
            "state": state.value,
            **changes,
        }
    )


@pytest.mark.parametrize(("as_of", "is_valid"), [(19, False), (20, True), (29, True), (30, False)])
def test_a_fact_holds_from_its_start_until_just_before_its_end(as_of: int, is_valid: bool) -> None:
    known = fact(FactState.SUPERSEDED, valid_from=20, valid_to=30, closed_at=40)
    assert fact_holds(known, as_of=Instant(as_of), known_at=None) is is_valid


def test_without_times_a_fact_always_holds() -> None:
    assert fact_holds(fact(FactState.ACTIVE), as_of=Instant(0), known_at=None)


@pytest.mark.parametrize("state", [FactState.CORRECTED, FactState.DELETED, FactState.MERGED])
def test_invalidated_and_deleted_facts_are_no_longer_believed(state: FactState) -> None:
    known = fact(state, closed_at=40)
    assert not fact_holds(known, as_of=Instant(20), known_at=None)
    assert not fact_holds(known, as_of=Instant(20), known_at=Instant(40))
    assert fact_holds(known, as_of=Instant(20), known_at=Instant(39))


def test_nothing_was_believed_before_it_was_recorded() -> None:
    assert not fact_holds(fact(FactState.ACTIVE), as_of=Instant(20), known_at=Instant(9))


def test_before_the_change_was_known_a_fact_had_no_end() -> None:
    known = fact(FactState.SUPERSEDED, valid_to=30, closed_at=40)
    assert fact_holds(known, as_of=Instant(35), known_at=Instant(39))
    assert not fact_holds(known, as_of=Instant(35), known_at=Instant(40))
