from pydantic import JsonValue

from elytron_replay.comparison import JsonDifference, json_differences, shown_json


def test_equal_values_do_not_differ() -> None:
    value: JsonValue = {"a": [1, {"b": None}], "c": "x", "d": 0.5}
    assert list(json_differences(value, {"d": 0.5, "c": "x", "a": [1, {"b": None}]})) == []


def test_each_difference_is_reported_at_its_deepest_path() -> None:
    left: JsonValue = {"hits": [{"id": "a", "score": 1}, {"id": "b"}], "only": 1, "same": 2}
    right: JsonValue = {"hits": [{"id": "a", "score": 2}], "other": None, "same": 2}
    assert list(json_differences(left, right)) == [
        JsonDifference("hits.0.score", "1", "2"),
        JsonDifference("hits.1", '{"id": "b"}', "(absent)"),
        JsonDifference("only", "1", "(absent)"),
        JsonDifference("other", "(absent)", "null"),
    ]


def test_a_longer_right_list_is_reported_too() -> None:
    assert list(json_differences([1], [1, 2])) == [JsonDifference("1", "(absent)", "2")]


def test_true_is_not_one_and_null_is_not_absent() -> None:
    assert list(json_differences({"a": True, "b": None}, {"a": 1})) == [
        JsonDifference("a", "true", "1"),
        JsonDifference("b", "null", "(absent)"),
    ]


def test_other_types_differ() -> None:
    assert list(json_differences({"a": 1}, [1], path="x")) == [JsonDifference("x", '{"a": 1}', "[1]")]


def test_the_differing_part_of_long_texts_is_shown() -> None:
    (found,) = json_differences("a" * 500 + "X" + "b" * 500, "a" * 500 + "Y" + "b" * 500)
    assert found.left == "…" + "a" * 24 + "X" + "b" * 135 + "…"
    assert found.right == "…" + "a" * 24 + "Y" + "b" * 135 + "…"


def test_a_truncated_text_is_shown_at_its_end() -> None:
    (found,) = json_differences("a" * 200, "a" * 300)
    assert found.left == "…" + "a" * 24 + '"'
    assert found.right == "…" + "a" * 124 + '"'


def test_long_values_are_truncated_for_display() -> None:
    assert shown_json("a" * 500) == '"' + "a" * 159 + "…"
    assert shown_json({"b": 1, "a": "茶"}) == '{"a": "茶", "b": 1}'
