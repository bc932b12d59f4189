"""The store in the cases of LangGraph's own Postgres store, and where a memory differs."""

# Types of the framework are in part unknown, or unions that a test knows better.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportOptionalMemberAccess=false, reportOptionalIterable=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from typing_extensions import TypedDict

import elytron
from elytron.runtime import SyncMemoryRuntime
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import InvalidInput, PermissionRefused, ScopeMissing, Unsupported
from elytron_integrations.langgraph import ElytronStore

MINUTE_MS = 60_000
NOW = Instant(1_800_000_000_000)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOW)


@pytest.fixture
def memory(clock: FrozenClock) -> Iterator[SyncMemoryRuntime]:
    with elytron.open("memory:", space="ada", clock=clock) as memory:
        yield memory


@pytest.fixture
def store(memory: SyncMemoryRuntime) -> ElytronStore:
    return ElytronStore(memory)


def put_names(store: ElytronStore, *namespaces: tuple[str, ...]) -> None:
    """Store a value under the key `k` of each namespace."""
    for namespace in namespaces:
        store.put(namespace, "k", {"v": 1})


def found_names(store: ElytronStore, prefix: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return the namespaces of the items that a search under a prefix finds."""
    return {item.namespace for item in store.search(prefix, limit=100)}


def found_keys(store: ElytronStore, *prefix: str, **search: Any) -> list[str]:
    """Return the keys of the items that a search finds, in order."""
    return [item.key for item in store.search(prefix, **search)]


def test_a_batch_answers_in_order_and_reads_before_it_writes(store: ElytronStore) -> None:
    store.put(("test", "foo"), "key1", {"data": "value1"})
    store.put(("test", "bar"), "key2", {"data": "value2"})
    item, put, hits, names, absent = store.batch(
        [
            GetOp(namespace=("test", "foo"), key="key1"),
            PutOp(namespace=("test", "bar"), key="key2", value={"data": "value1"}),
            SearchOp(namespace_prefix=("test",), filter={"data": "value1"}, limit=10, offset=0),
            ListNamespacesOp(match_conditions=None, max_depth=None, limit=10, offset=0),
            GetOp(namespace=("test",), key="key3"),
        ]
    )
    assert (item.value, put, absent) == ({"data": "value1"}, None, None)
    assert [hit.key for hit in hits] == ["key1"]
    assert names == [("test", "bar"), ("test", "foo")]
    assert store.get(("test", "bar"), "key2").value == {"data": "value1"}


def test_the_last_of_several_puts_to_a_key_in_a_batch_counts(store: ElytronStore) -> None:
    store.batch([PutOp(("a",), "k", {"v": 1}), PutOp(("a",), "gone", {"v": 1}), PutOp(("a",), "k", {"v": 2})])
    store.batch([PutOp(("a",), "gone", None), PutOp(("a",), "never", None)])
    assert [(item.key, item.value) for item in store.search(("a",))] == [("k", {"v": 2})]


def test_a_value_is_replaced_and_its_times_are_updated(store: ElytronStore, clock: FrozenClock) -> None:
    store.put(("test", "documents"), "doc1", {"title": "Tea"})
    clock.advance(1_000)
    store.put(("test", "documents"), "doc1", {"title": "Rye"})
    item = store.get(("test", "documents"), "doc1")
    assert item.value == {"title": "Rye"}
    assert item.created_at == datetime.fromtimestamp(NOW / 1000, UTC)
    assert (item.updated_at - item.created_at).total_seconds() == 1
    assert store.get(("test", "other"), "doc1") is None
    store.delete(("test", "documents"), "doc1")
    assert store.get(("test", "documents"), "doc1") is None


def test_a_search_respects_namespace_part_boundaries(store: ElytronStore) -> None:
    foo = {("foo",), ("foo", "child"), ("foo", "child", "deep")}
    put_names(store, *foo, ("foobar",), ("foobar", "baz"), ("foo2",))
    assert found_names(store, ("foo",)) == foo
    assert found_names(store, ("foobar",)) == {("foobar",), ("foobar", "baz")}
    assert found_names(store, ("foo", "child")) == {("foo", "child"), ("foo", "child", "deep")}
    assert found_names(store, ("fo",)) == set()
    assert len(found_names(store, ())) == 6


def test_pattern_characters_are_literal_in_namespaces(store: ElytronStore) -> None:
    put_names(store, ("user_1",), ("user_1", "child"), ("userX1",), ("a%b",), ("axxb",))
    assert found_names(store, ("user_1",)) == {("user_1",), ("user_1", "child")}
    assert found_names(store, ("a%b",)) == {("a%b",)}


def test_namespaces_are_listed_by_beginnings_ends_wildcards_depth_and_pages(store: ElytronStore) -> None:
    namespaces = [(a, b, c) for a in ("prod", "test") for b in ("documents", "images") for c in ("private", "public")]
    put_names(store, *namespaces, ("prod",))
    assert store.list_namespaces() == [("prod",), *namespaces]
    assert store.list_namespaces(prefix=("test",)) == namespaces[4:]
    assert store.list_namespaces(suffix=("public",)) == namespaces[1::2]
    assert store.list_namespaces(prefix=("*", "images"), suffix=("public",)) == [namespaces[3], namespaces[7]]
    assert store.list_namespaces(prefix=("test", "*", "public")) == [namespaces[5], namespaces[7]]
    assert store.list_namespaces(max_depth=2) == [("prod",), *sorted({name[:2] for name in namespaces})]
    assert store.list_namespaces(limit=2, offset=1) == namespaces[:2]
    assert store.list_namespaces(prefix=("tes",)) == []
    condition = MatchCondition("suffix", ("images", "*"))
    assert store.batch([ListNamespacesOp((condition,), None, 1, 1)]) == [[namespaces[3]]]


def test_filters_compare_fields_and_inner_fields(store: ElytronStore) -> None:
    for number, (colour, size) in enumerate([("red", 1), ("red", 4.5), ("blue", 9)]):
        store.put(("boxes",), f"{number}", {"colour": colour, "size": size, "owner": {"name": f"n{number}"}})
    assert found_keys(store, "boxes", filter={"colour": "red"}) == ["0", "1"]
    assert found_keys(store, "boxes", filter={"colour": {"$ne": "red"}}) == ["2"]
    assert found_keys(store, "boxes", filter={"size": {"$gt": 1, "$lte": 9}, "colour": {"$eq": "red"}}) == ["1"]
    assert found_keys(store, "boxes", filter={"size": {"$gte": 4.5}}) == ["1", "2"]
    assert found_keys(store, "boxes", filter={"size": {"$lt": 4.5}}) == ["0"]
    assert found_keys(store, "boxes", filter={"owner": {"name": "n2"}}) == ["2"]
    assert found_keys(store, "boxes", limit=1, offset=1) == ["1"]
    assert found_keys(store, "boxes", limit=0) == []


def test_a_filter_that_cannot_be_compared_is_rejected(store: ElytronStore) -> None:
    for wrong in ({"size": {"$in": [1]}}, {"size": [1]}, {"size": None}):
        with pytest.raises(InvalidInput, match=r"filter\.size"):
            store.search(("boxes",), filter=wrong)


def test_a_query_orders_items_by_how_well_they_answer_it(store: ElytronStore) -> None:
    store.put(("ada", "facts"), "boat", {"text": "The boat key is under the oar.", "kind": "place"})
    store.put(("ada", "facts"), "tea", {"text": "Ada drinks green tea in the morning.", "kind": "habit"})
    store.put(("noor", "facts"), "boat", {"text": "The boat key is in the kitchen.", "kind": "place"})
    first, *others = store.search(("ada",), query="where is the boat key?")
    assert (first.key, first.namespace) == ("boat", ("ada", "facts"))
    assert all(first.score > other.score for other in others)
    assert "boat" not in found_keys(store, query="boat key", filter={"kind": "habit"})
    assert found_names(store, ("noor",)) == {("noor", "facts")}


def test_recall_finds_the_values_too(store: ElytronStore, memory: SyncMemoryRuntime) -> None:
    store.put(("facts",), "boat", {"text": "The boat key is under the oar."})
    hits = memory.recall("where is the boat key?", filters={"planes": ["records"]})
    assert [hit.text for hit in hits] == ["text: The boat key is under the oar."]


def test_a_query_searches_the_paths_of_an_index_and_nothing_without_one(store: ElytronStore) -> None:
    value = {"title": "harbour", "lines": [{"text": "the boat key"}, {"text": "the oar"}], "none": None}
    store.put(("a",), "paths", value, index=["lines[*].text"])
    store.put(("a",), "hidden", value, index=False)
    store.put(("a",), "absent", value, index=["missing"])
    assert found_keys(store, query="boat key") == found_keys(store, query="harbour boat key") == ["paths"]
    store.put(("a",), "whole", value)
    assert found_keys(store, query="harbour")[0] == "whole"
    assert found_keys(store) == ["absent", "hidden", "paths", "whole"]


def test_more_items_than_a_page_are_found(store: ElytronStore) -> None:
    store.batch([PutOp(("many",), f"{number:04}", {"n": number}) for number in range(1_005)])
    assert found_keys(store, "many", limit=2_000) == [f"{number:04}" for number in range(1_005)]
    assert found_keys(store, "many", limit=3, offset=1_003) == ["1003", "1004"]


def test_a_value_is_gone_after_its_time_to_live_which_counts_from_the_last_put(
    store: ElytronStore, clock: FrozenClock
) -> None:
    store.put(("a",), "k", {"v": 1}, ttl=2)
    clock.advance(MINUTE_MS)
    assert store.get(("a",), "k").value == {"v": 1}
    clock.advance(MINUTE_MS)
    assert store.get(("a",), "k") is None
    assert found_keys(store, "a") == []


@pytest.mark.parametrize("ttl", ["ten", True, float("nan"), float("inf"), 1e308])
def test_a_time_to_live_that_is_no_finite_number_is_rejected(store: ElytronStore, ttl: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^ttl is not a finite number of minutes"):
        store.put(("a",), "k", {"v": 1}, ttl=ttl)
    assert store.get(("a",), "k") is None


def test_a_read_that_extends_a_time_to_live_is_rejected(store: ElytronStore) -> None:
    store.put(("a",), "k", {"v": 1}, ttl=2)
    with pytest.raises(Unsupported, match="does not extend"):
        store.get(("a",), "k", refresh_ttl=True)
    with pytest.raises(Unsupported, match="does not extend"):
        store.search(("a",), refresh_ttl=True)


def test_an_unsupported_time_to_live_is_rejected() -> None:
    with elytron.open("memory:", space="ada", profile="esp-standalone-memory") as memory:
        with pytest.raises(Unsupported, match="does not support a time to live"):
            ElytronStore(memory).put(("a",), "k", {"v": 1}, ttl=2)
        assert ElytronStore(memory).get(("a",), "k") is None


def test_namespaces_and_values_that_cannot_be_stored_are_rejected(store: ElytronStore) -> None:
    for namespace in ((), ("a.b",), ("",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {"v": 1})
    with pytest.raises(PermissionRefused, match="reserved"):
        store.put(("elytron:langgraph:heads",), "k", {"v": 1})
    with pytest.raises(InvalidInput):
        store.put(("a",) * 9, "k", {"v": 1})
    with pytest.raises(InvalidInput):
        store.put(("a",), "k", {"v": object()})


def test_another_space_sees_nothing_even_by_names_of_the_first() -> None:
    with elytron.open("memory:", space=None) as memory:
        ada, noor = (ElytronStore(memory, space=space) for space in ("ada", "noor"))
        ada.put(("facts",), "boat", {"text": "The boat key is under the oar."})
        assert noor.get(("facts",), "boat") is None
        assert noor.search((), query="boat key") == noor.search(()) == []
        assert noor.list_namespaces() == []
        noor.delete(("facts",), "boat")
        assert ada.get(("facts",), "boat").value == {"text": "The boat key is under the oar."}
        with pytest.raises(ScopeMissing, match="pass space="):
            ElytronStore(memory)


class Question(TypedDict):
    """A question and its answer."""

    question: str
    answer: str


@pytest.mark.anyio
async def test_a_node_reads_and_writes_the_store_of_its_graph() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        store = ElytronStore(memory)
        await store.aput(("facts",), "boat", {"text": "The boat key is under the oar."})

        def answer(state: Question, *, store: BaseStore) -> Question:
            (hit,) = store.search(("facts",), query=state["question"])
            store.put(("questions",), "last", {"text": state["question"]}, index=False)
            return {**state, "answer": hit.value["text"]}

        graph = StateGraph(Question).add_node("answer", answer).add_edge(START, "answer").compile(store=store)
        state = await graph.ainvoke({"question": "where is the boat key?", "answer": ""})
        assert state["answer"] == "The boat key is under the oar."
        assert (await store.aget(("questions",), "last")).value == {"text": "where is the boat key?"}
