"""Which record version follows which, and which earlier ones are stored, to the last byte."""

import pytest

from elytron_core.clock import Instant
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import (
    Record,
    RecordVersion,
    delete_record,
    new_record,
    put_record,
    record_history,
    shown_again,
)


def put(current: Record | None, *, value: str, at: Instant, expires_at: Instant | None = None) -> Record:
    """Return the record `current` after a put of `value`."""
    privacy = FactPrivacy.SHARED
    record = new_record(
        namespace=("notes",), key="theme", value=value, text="", privacy=privacy, expires_at=expires_at, at=at
    )
    return put_record(current, record)


def of(*values: str) -> Record:
    """Return a record that received `values` in turn."""
    known: Record | None = None
    for at, value in enumerate(values, start=1):
        known = put(known, value=value, at=Instant(at))
    assert known is not None
    return known


def kept(record: Record) -> list[object]:
    return [version.value for version in record_history(record)]


def test_a_history_that_exactly_fits_is_preserved(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = sum(len(version.to_bytes()) for version in of("a", "b", "c").earlier)
    whole = earlier + len(record_history(of("a", "b", "c"))[-1].to_bytes())
    monkeypatch.setattr("elytron_core.planes.records.RECORD_HISTORY_BYTES", whole)
    assert kept(of("a", "b", "c", "d")) == ["a", "b", "c", "d"]
    monkeypatch.setattr("elytron_core.planes.records.RECORD_HISTORY_BYTES", whole - 1)
    assert kept(of("a", "b", "c", "d")) == ["b", "c", "d"]


def test_an_oversized_version_hides_all_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_core.planes.records.RECORD_HISTORY_BYTES", 200)
    assert kept(of("a", "x" * 300, "b", "c")) == ["b", "c"]


def test_versions_up_to_the_limit_are_stored_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_core.planes.records.RECORD_VERSIONS", 3)
    assert kept(of("a", "b", "c", "d")) == ["a", "b", "c", "d"]
    assert kept(of("a", "b", "c", "d", "e")) == ["b", "c", "d", "e"]


def test_an_equal_value_adds_no_version_unless_it_was_deleted() -> None:
    known = of("a")
    assert put(known, value="a", at=Instant(9)) is known
    gone = delete_record(known, at=Instant(5))
    again = put(gone, value="a", at=Instant(9))
    assert (again.version, again.created_at, again.deleted) == (3, 9, False)
    assert record_history(again)[1] == RecordVersion(version=2, at=Instant(5), deleted=True)


def test_a_put_over_a_forgotten_record_starts_over_and_preserves_versions() -> None:
    forgotten = of("a", "b").model_copy(update={"forgotten_at": Instant(5)})
    again = put(forgotten, value="b", at=Instant(9))
    assert (again.version, again.created_at, again.forgotten_at) == (3, 9, None)
    assert kept(again) == ["a", "b", "b"]
    assert put(of("a", "b"), value="c", at=Instant(9)).created_at == 1


def test_a_record_expires_at_its_end_and_leaves_no_history() -> None:
    known = of("a").model_copy(update={"expires_at": Instant(5)})
    assert put(known, value="b", at=Instant(4)).earlier != ()
    begun = put(known, value="b", at=Instant(5))
    assert (begun.version, begun.earlier, begun.created_at) == (2, (), 5)


def test_a_forgotten_record_is_restored_as_the_same_version() -> None:
    known = of("a")
    assert shown_again(known.model_copy(update={"forgotten_at": Instant(5)})) == known
    back = shown_again(delete_record(known, at=Instant(5)))
    assert (back.version, back.deleted, back.forgotten_at, kept(back)) == (3, False, None, ["a", None, "a"])
