"""Nested filters in mem0's format are equivalent to typed ones."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elytron.api.metadata_filters import also_prefixed, filters_from, where_from
from elytron_core.clock import instant
from elytron_core.contracts.recall import RecallFilters, Scalar
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.policy.ranking.filters import filters_hold


def leaf(name: str, comparison: str, value: int) -> dict[str, Any]:
    return {name: {comparison: value}}


def joined(join: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {join: items}


ODD: list[dict[str, Any]] = [{"a": "*"}, {"a": 1}, {"b": [0, 1]}, {"a": {"nin": [1]}}]
COMPARISONS = ("eq", "ne", "gt", "gte", "lt", "lte")
LEAVES = st.builds(leaf, st.sampled_from("ab"), st.sampled_from(COMPARISONS), st.integers(0, 2)) | st.sampled_from(ODD)
TREES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    LEAVES,
    lambda inner: st.builds(joined, st.sampled_from(("AND", "OR", "NOT")), st.lists(inner, min_size=1, max_size=2)),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2))


def means(tree: Mapping[str, Any], fields: Mapping[str, Scalar]) -> bool:
    """Evaluate a tree, as a reference implementation."""
    ((name, value),) = tree.items()
    match name:
        case "AND":
            return all(means(item, fields) for item in value)
        case "OR":
            return any(means(item, fields) for item in value)
        case "NOT":
            return not any(means(item, fields) for item in value)
        case _:
            return filters_hold(where_from(tree), fields)


@given(tree=TREES, fields=FIELDS)
def test_a_tree_of_and_or_and_not_is_equivalent_to_its_groups(tree: dict[str, Any], fields: dict[str, Scalar]) -> None:
    assert filters_hold(where_from(tree), fields) is means(tree, fields)


@given(tree=TREES, fields=FIELDS)
def test_a_prefixed_field_means_the_same_as_the_field(tree: dict[str, Any], fields: dict[str, Scalar]) -> None:
    try:
        where = also_prefixed(where_from(tree), "mem0.")
    except LimitExceeded:
        assume(False)
        raise
    for prefix in ("", "mem0."):
        assert filters_hold(where, {f"{prefix}{name}": value for name, value in fields.items()}) is means(tree, fields)


def test_names_with_a_dedicated_filter_become_that_filter() -> None:
    nested = {
        "AND": [
            {"agent_id": "a", "run_id": {"in": ["r1", "r2"]}, "actor_id": {"eq": "Mina"}},
            {"categories": ["x"], "created_at": {"gte": "2026-01-01", "lt": "2026-02-01"}},
            {"metadata": {"team": "red"}},
        ]
    }
    assert filters_from(nested) == RecallFilters(
        agents=("a",),
        conversations=("r1", "r2"),
        speakers=("Mina",),
        tags_any=("x",),
        since=instant("2026-01-01"),
        until=instant("2026-02-01"),
        where=where_from({"team": "red"}),
    )


@pytest.mark.parametrize(
    "nested",
    [
        {"agent_id": {"ne": "a"}},
        {"AND": [{"agent_id": "a"}, {"agent_id": "b"}]},
        {"OR": [{"agent_id": "a"}, {"team": "red"}]},
        {"NOT": [{"created_at": {"gte": "2026-01-01"}}]},
        {"created_at": "2026-01-01"},
        {"created_at": {"gt": "2026-01-01"}},
        {"size": {"around": 3}},
        {"size": {}},
        {"size": {"in": 3}},
        {"size": {"eq": {"nested": 1}}},
        {"AND": []},
        {"OR": ["team"]},
        {"": 1},
        {"agent_id": ""},
    ],
)
def test_invalid_filters_are_rejected(nested: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        filters_from(nested)


def test_a_filter_that_expands_too_far_is_rejected() -> None:
    pairs = [{"AND": [{f"a{number}": 1}, {f"b{number}": 1}]} for number in range(12)]
    with pytest.raises(LimitExceeded, match="tests in a filter"):
        filters_from({"OR": pairs})


@pytest.mark.parametrize("value", [[], {"in": []}])
@pytest.mark.parametrize("name", ["agent_id", "app_id", "run_id", "actor_id", "tags", "speaker", "conversation"])
def test_an_empty_list_does_not_select_everything(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="empty list"):
        filters_from({name: value})
