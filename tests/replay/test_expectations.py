import pytest
from pydantic import JsonValue

from elytron_replay.comparison import JsonDifference, find_mismatches, find_shortfalls, require_known

REPORT: dict[str, JsonValue] = {
    "outcome": "found",
    "changed": True,
    "count": 1,
    "score": 0.5,
    "hits": [{"id": "a", "text": "green tea"}, {"id": "b", "text": "black tea"}],
    "documents": {"turns": 2},
    "cursor": None,
}


def holds(expected: JsonValue) -> bool:
    return not list(find_mismatches(expected, REPORT))


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"outcome": "found", "cursor": None},
        {"documents": {"turns": 2}},
        {"hits": [{"id": "a"}, {"text": "black tea"}]},
        {"hits": {"$contains": {"id": "b"}}},
        {"hits": {"$contains": [{"id": "b"}, {"text": {"$contains": "green"}}]}},
        {"hits": {"$lacks": {"id": "c"}}},
        {"hits": {"$first": [{"id": "a"}]}},
        {"hits": {"$count": 2, "$first": []}},
        {"hits": {"$at_most": 2}},
        {"hits": [{"text": {"$first": "green"}}, {"text": {"$lacks": ["green", "red"]}}]},
        {"outcome": {"$count": 5}},
        {"score": {"$at_most": 0.5}},
        {"documents": {"$contains": "turns", "$lacks": "facts", "$count": 1}},
    ],
)
def test_only_mentioned_fields_of_a_report_are_checked(expected: JsonValue) -> None:
    assert holds(expected)


@pytest.mark.parametrize(
    "expected",
    [
        {"outcome": "nothing_relevant"},
        {"documents": {"facts": 0}},
        {"hits": [{"id": "a"}]},
        {"hits": [{"id": "b"}, {"id": "a"}]},
        {"hits": {"$contains": {"id": "c"}}},
        {"hits": {"$contains": [{"id": "a"}, {"id": "c"}]}},
        {"hits": {"$lacks": [{"id": "c"}, {"id": "b"}]}},
        {"hits": {"$first": [{"id": "b"}]}},
        {"hits": {"$first": "a"}},
        {"hits": {"$count": 3}},
        {"hits": {"$at_most": 1}},
        {"outcome": {"$first": "lost"}},
        {"outcome": {"$first": ["found"]}},
        {"outcome": {"$contains": 3}},
        {"count": {"$contains": "1"}},
        {"count": {"$lacks": "2"}},
        {"count": {"$count": 1}},
        {"cursor": {"$at_most": 9}},
        {"changed": {"$at_most": 9}},
        {"nothing": {"$lacks": "x"}},
        {"count": True},
        {"changed": 1},
        {"outcome": {"a": 1}},
        {"hits": {"0": {"id": "a"}}},
    ],
)
def test_a_differing_report_is_a_mismatch(expected: JsonValue) -> None:
    assert not holds(expected)


def test_each_mismatch_names_its_path_and_both_sides() -> None:
    expected: JsonValue = {
        "hits": [{"id": "a"}, {"id": "x"}],
        "facts": 1,
        "outcome": {"$contains": "lost", "$count": 5},
    }
    assert list(find_mismatches(expected, REPORT)) == [
        JsonDifference("hits.1.id", '"x"', '"b"'),
        JsonDifference("facts", "1", "(absent)"),
        JsonDifference("outcome", '{"$contains": "lost"}', '"found"'),
    ]


def test_minimums_apply_to_numbers_lists_and_texts() -> None:
    assert not list(find_shortfalls({"count": 1, "hits": 2, "outcome": 5, "documents.turns": 2}, REPORT))


def test_each_shortfall_reports_the_actual_amount() -> None:
    assert list(find_shortfalls({"count": 2, "hits": 3, "missing": 1, "changed": 1}, REPORT)) == [
        JsonDifference("count", "at least 2", "1"),
        JsonDifference("hits", "at least 3", "2"),
        JsonDifference("missing", "at least 1", "(absent)"),
        JsonDifference("changed", "at least 1", "true"),
    ]


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({"hits": {"$near": 1}}, "'\\$near' is not an operator"),
        ({"hits": [{"$count": "two"}]}, "'\\$count' does not accept"),
        ({"hits": {"$first": 1}}, "'\\$first' does not accept"),
        ({"hits": {"$contains": None}}, "'\\$contains' does not accept"),
        ({"hits": {"$count": 2, "id": "a"}}, "is mixed with plain keys"),
        ({"hits": {"$contains": {"$nope": 1}}}, "'\\$nope' is not an operator"),
    ],
)
def test_an_expectation_with_an_unknown_word_is_rejected(expected: JsonValue, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        require_known(expected)
