import pytest
from pydantic import JsonValue

from elytron_core.errors import InvalidInput
from elytron_replay.comparison import pick_value, resolve_references, used_names

VALUES: dict[str, JsonValue] = {"turn": "t1", "count": 3, "tags": ["a", "b"], "flag": True, "tmp": "/somewhere"}


def test_names_are_found_anywhere_in_a_value() -> None:
    value: JsonValue = {
        "a": "${turn}",
        "b": ["x ${count} y ${turn}", 7, None],
        "c": {"d": "${tmp}/x ${time 2026-01-01}"},
    }
    assert used_names(value) == {"turn", "count"}


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("${turn}", "t1"),
        ("${count}", 3),
        ("${tags}", ["a", "b"]),
        ("${flag}", True),
        ("${turn}#1 of ${count}", "t1#1 of 3"),
        ("${tmp}/x", "/somewhere/x"),
        ("${time 2026-01-01T00:00:00Z}", 1_767_225_600_000),
        ({"ids": ["${turn}"]}, {"ids": ["t1"]}),
        ("$ {turn} $turn", "$ {turn} $turn"),
        (None, None),
    ],
)
def test_a_reference_is_replaced_by_its_value(value: JsonValue, resolved: JsonValue) -> None:
    assert resolve_references(value, VALUES) == resolved


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("${cup}", "not saved by an earlier step"),
        ("a ${tags}", "cannot be inserted into a text"),
        ("a ${flag}", "cannot be inserted into a text"),
        ("${time soon}", "not an ISO 8601 timestamp"),
    ],
)
def test_an_invalid_reference_is_rejected(value: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        resolve_references(value, VALUES)


def test_a_path_leads_through_objects_and_lists() -> None:
    report: JsonValue = {"decisions": [{"id": "t1"}, {"id": "t2"}], "sequence": 4}
    assert pick_value(report, "decisions.1.id") == "t2"
    assert pick_value(report, "sequence") == 4


@pytest.mark.parametrize("path", ["decisions.2.id", "decisions.x", "sequence.id", "missing"])
def test_a_path_to_nothing_is_an_error(path: str) -> None:
    with pytest.raises(KeyError):
        pick_value({"decisions": [{}, {}], "sequence": 4}, path)
