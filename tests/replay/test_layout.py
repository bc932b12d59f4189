import json

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from elytron_replay.fixture import WIDTH, write_out

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_written_values_are_read_back(value: JsonValue) -> None:
    text = write_out(value)
    assert json.loads(text) == value
    assert write_out(json.loads(text)) == text


def test_short_values_are_on_one_line_and_long_ones_are_not() -> None:
    long = "x" * WIDTH
    assert write_out({"id": "tea", "spaces": ["a", "b"], "steps": [{"op": "get"}, {"op": long}], "none": {}}) == (
        "{\n"
        '  "id": "tea",\n'
        '  "spaces": ["a", "b"],\n'
        '  "steps": [\n'
        '    {"op": "get"},\n'
        "    {\n"
        f'      "op": "{long}"\n'
        "    }\n"
        "  ],\n"
        '  "none": {}\n'
        "}\n"
    )


def test_no_breakable_line_is_too_long() -> None:
    numbers: list[JsonValue] = list(range(40))
    text = write_out({"a": [{"k" * 10: numbers}, {"k" * 10: numbers}]})
    assert max(map(len, text.splitlines())) <= WIDTH


def test_invisible_characters_are_escaped_and_chinese_is_not() -> None:
    assert write_out("茶\u202e\u0000\u200b") == '"茶\\u202e\\u0000\\u200b"\n'
