"""Shipped pattern tables: each compiles, and none refers to a missing part."""

import re

import pytest

from elytron_core.text.traits import pattern_table


@pytest.mark.parametrize("name", ["questions", "changes", "intents"])
def test_each_pattern_of_a_table_compiles_and_is_cached(name: str) -> None:
    shipped = pattern_table(name)
    assert shipped.names
    for pattern in shipped.names:
        assert re.search(r"\{[a-z]", shipped[pattern].pattern) is None
        assert shipped[pattern] is shipped[pattern]


def test_a_table_has_words_too() -> None:
    assert "renamed" in pattern_table("changes").words("changing")
