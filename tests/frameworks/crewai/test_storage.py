"""The storage of CrewAI's memory: its whole interface, over records that recall finds and no other user sees.

CrewAI itself is not needed: `.ci/long` loads the modules of its interface only. It is the same in 1.15.0 and 1.15.30.
"""

import asyncio
import copy
import inspect
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryConfig, MemoryRecord, ScopeInfo, compute_composite_score

import elytron
from elytron.api import MemoryFace
from elytron.runtime import BlockingMemory
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing, Unsupported
from elytron_integrations import integration_table
from elytron_integrations.crewai import ElytronStorage

KEY = "The boat key is under the oar."
METHODS = sorted(name for name, each in vars(StorageBackend).items() if inspect.isfunction(each) and name[0] != "_")
START = datetime(2026, 5, 4)  # noqa: DTZ001 - CrewAI's own times have no zone


@pytest.fixture
def memory() -> Iterator[BlockingMemory[Any]]:
    with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def storage(memory: BlockingMemory[Any]) -> ElytronStorage:
    return ElytronStorage(memory)


@pytest.fixture
async def shared() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


def record_of(content: str = KEY, vector: list[float] | None = None, *, day: int = 0, **fields: Any) -> MemoryRecord:
    at = START + timedelta(days=day)
    return MemoryRecord(content=content, embedding=vector, created_at=at, last_accessed=at, **fields)


def contents(records: list[MemoryRecord]) -> list[str]:
    return [record.content for record in records]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_parameters_that_the_interface_has(name: str) -> None:
    own, expected = (inspect.signature(getattr(owner, name)) for owner in (ElytronStorage, StorageBackend))
    shapes = [[(each.name, each.kind, each.default) for each in one.parameters.values()] for one in (own, expected)]
    assert shapes[0] == shapes[1]
    is_async = [inspect.iscoroutinefunction(getattr(owner, name)) for owner in (ElytronStorage, StorageBackend)]
    assert is_async[0] is is_async[1]


def test_it_is_a_storage_backend_of_crewai(storage: ElytronStorage) -> None:
    assert isinstance(storage, StorageBackend)
    assert {"save", "search", "delete", "update", "get_record", "asave", "asearch", "adelete"} <= {*METHODS}
    assert copy.deepcopy({"storage": storage})["storage"] is storage


def test_a_record_comes_back_as_it_was_saved(storage: ElytronStorage) -> None:
    record = record_of(
        vector=[0.25, -0.5], scope="/crew/sea", categories=["boat"], metadata={"page": {"n": 3}}, importance=0.9,
        source="ada", private=True,
    )  # fmt: skip
    storage.save([record])
    assert storage.get_record(record.id) == record
    assert storage.get_record("no such id") is None


def test_a_search_returns_the_nearest_records_with_their_cosines(storage: ElytronStorage) -> None:
    storage.save([record_of("east", [2.0, 0.0]), record_of("north-east", [1.0, 1.0]), record_of("west", [-1.0, 0.0])])
    storage.save([record_of("nowhere", [0.0, 0.0]), record_of("unmeasured")])
    hits = storage.search([1.0, 0.0])
    assert [record.content for record, _ in hits] == ["east", "north-east", "nowhere"]
    assert [score for _, score in hits] == pytest.approx([1.0, 0.5**0.5, 0.0])
    assert [record.content for record, _ in storage.search([1.0, 0.0], limit=1)] == ["east"]
    assert [record.content for record, _ in storage.search([1.0, 0.0], min_score=0.9)] == ["east"]
    assert storage.search([1.0, 0.0], min_score=-1.0)[-1][0].embedding == [-1.0, 0.0]
    score, reasons = compute_composite_score(hits[0][0], hits[0][1], MemoryConfig())
    assert (score > 0.5, reasons[0]) == (True, "semantic")


def test_a_search_looks_only_at_what_meets_its_criteria(storage: ElytronStorage) -> None:
    storage.save(
        [
            record_of("a", [1.0], scope="/crew/a", categories=["x"], metadata={"n": 1}),
            record_of("ab", [1.0], scope="/crew/ab", categories=["x", "y"], metadata={"n": 2}),
            record_of("root", [1.0]),
        ]
    )
    criteria: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"a", "ab", "root"}),
        ({"scope_prefix": "/"}, {"a", "ab", "root"}),
        ({"scope_prefix": "/crew"}, {"a", "ab"}),
        ({"scope_prefix": "crew/a/"}, {"a"}),
        ({"categories": ["y", "z"]}, {"ab"}),
        ({"metadata_filter": {"n": 1}}, {"a"}),
        ({"scope_prefix": "/crew", "categories": ["x"], "metadata_filter": {"n": 2}}, {"ab"}),
        ({"scope_prefix": "/other"}, set()),
    ]
    for each, expected in criteria:
        assert {record.content for record, _ in storage.search([1.0], **each)} == expected


def test_an_update_replaces_the_record_of_its_id(storage: ElytronStorage, memory: BlockingMemory[Any]) -> None:
    record = record_of(vector=[1.0, 0.0])
    storage.save([record])
    storage.update(record.model_copy(update={"content": "The boat key is on the hook.", "embedding": [0.0, 1.0]}))
    assert contents(storage.list_records()) == ["The boat key is on the hook."]
    assert storage.search([0.0, 1.0])[0][1] == pytest.approx(1.0)
    assert len(memory.record_history(["crewai"], record.id).versions) == 2


def test_scopes_and_categories_are_counted_with_those_below(storage: ElytronStorage) -> None:
    storage.save(
        [
            record_of("one", scope="/crew/a/deep", categories=["x", "y"], day=1),
            record_of("two", scope="/crew/a", categories=["x"], day=3),
            record_of("three", scope="/crewmate", day=2),
            record_of("four", day=4),
        ]
    )
    assert storage.list_scopes() == storage.list_scopes("/") == ["/crew", "/crewmate"]
    assert (storage.list_scopes("/crew"), storage.list_scopes("/crew/a/deep")) == (["/crew/a"], [])
    assert (storage.list_categories(), storage.list_categories("/crewmate")) == ({"x": 2, "y": 1}, {})
    assert [storage.count(scope) for scope in (None, "/", "/crew", "/crew/a/deep", "/none")] == [4, 4, 2, 1, 0]
    assert storage.get_scope_info("/crew/") == ScopeInfo(
        path="/crew",
        record_count=2,
        categories=["x", "y"],
        oldest_record=START + timedelta(days=1),
        newest_record=START + timedelta(days=3),
        child_scopes=["/crew/a"],
    )
    assert storage.get_scope_info("/none") == ScopeInfo(path="/none")
    assert contents(storage.list_records()) == ["four", "two", "three", "one"]
    assert contents(storage.list_records("/crew", limit=1, offset=1)) == ["one"]


def test_a_deletion_takes_what_meets_every_criterion(storage: ElytronStorage) -> None:
    records = [record_of(str(day), categories=["even"] if day % 2 == 0 else [], day=day) for day in range(6)]
    storage.save(records)
    assert storage.delete(record_ids=[]) == storage.delete(record_ids=["no such id"]) == 0
    assert storage.delete(older_than=START + timedelta(days=3), categories=["even"]) == 2
    assert storage.delete(older_than=(START + timedelta(days=2)).replace(tzinfo=UTC)) == 1
    assert storage.delete(record_ids=[records[3].id, records[3].id, records[4].id], categories=["even"]) == 1
    assert sorted(contents(storage.list_records())) == ["3", "5"]
    assert (storage.delete(scope_prefix="/"), storage.count()) == (2, 0)


def test_what_is_deleted_is_erased_with_its_history(storage: ElytronStorage, memory: BlockingMemory[Any]) -> None:
    record, other = record_of(scope="/crew/a"), record_of("Another.", scope="/crew/b")
    storage.save([record, other])
    storage.update(record.model_copy(update={"content": "It moved."}))
    storage.reset("/crew/a")
    assert contents(storage.list_records()) == ["Another."]
    with pytest.raises(NotFound):
        memory.record_history(["crewai"], record.id)
    storage.reset()
    assert storage.count() == 0


def test_recall_finds_what_is_saved_and_not_what_is_private(
    storage: ElytronStorage, memory: BlockingMemory[Any]
) -> None:
    storage.save([record_of(vector=[1.0]), record_of("The diary is in the bow.", private=True)])
    records = {"planes": ["records"]}
    assert [hit.text for hit in memory.recall("where is the boat key?", filters=records).hits] == [KEY]
    assert [hit.text for hit in memory.recall("where is the diary in the bow?", filters=records).hits] == [KEY]


def test_another_user_sees_nothing_by_the_ids_of_the_first(memory: BlockingMemory[Any]) -> None:
    ada, grace = ElytronStorage(memory), ElytronStorage(memory, space="grace")
    record = record_of(vector=[1.0], scope="/crew", categories=["boat"])
    ada.save([record])
    assert (grace.get_record(record.id), grace.search([1.0, 0.0]), grace.list_records()) == (None, [], [])
    assert (grace.count(), grace.list_scopes(), grace.list_categories()) == (0, [], {})
    assert grace.delete(record_ids=[record.id]) == grace.delete(scope_prefix="/crew") == 0
    grace.reset()
    grace.update(record.model_copy(update={"content": "Grace's own."}))
    assert (contents(ada.list_records()), contents(grace.list_records())) == ([KEY], ["Grace's own."])


def test_credentials_are_redacted(storage: ElytronStorage) -> None:
    storage.save([record_of("The key is AKIAIOSFODNN7EXAMPLE.", metadata={"note": "AKIAIOSFODNN7EXAMPLE"})])
    assert "AKIA" not in storage.list_records()[0].model_dump_json()


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (record_of(" "), "has no words"),
        (record_of(id=""), "is empty"),
        (record_of(metadata={"clock": object()}), "JSON cannot hold"),
        (record_of(vector=[float("nan")]), "finite numbers"),
    ],
)
def test_a_record_that_cannot_be_stored_is_refused_with_those_beside_it(
    storage: ElytronStorage, record: MemoryRecord, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        storage.save([record_of(), record])
    assert storage.count() == 0


def test_a_call_that_names_nothing_is_refused(storage: ElytronStorage) -> None:
    for call in (lambda: storage.get_record(""), lambda: storage.search([])):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(InvalidInput, match="call reset"):
        storage.delete()


def test_vectors_of_another_model_are_refused_as_crewai_expects(memory: BlockingMemory[Any]) -> None:
    storage = ElytronStorage(memory)
    storage.save([record_of(vector=[1.0, 0.0])])
    for each in (storage, ElytronStorage(memory)):
        with pytest.raises(EmbeddingDimensionMismatchError, match="2-dimensional"):
            each.save([record_of(vector=[1.0])])
        with pytest.raises(EmbeddingDimensionMismatchError, match="1-dimensional"):
            each.search([1.0])
    storage.reset()
    storage.save([record_of(vector=[1.0])])
    assert len(storage.search([1.0])) == 1


def test_what_another_program_put_among_the_records_is_left_out(
    storage: ElytronStorage, memory: BlockingMemory[Any], caplog: pytest.LogCaptureFixture
) -> None:
    memory.put_record(["crewai"], "note", {"text": "not a record"})
    memory.put_record(["crewai"], "list", [1])
    storage.save([record_of(vector=[1.0])])
    assert len(storage.search([1.0])) == 1
    assert "'note' is not one of CrewAI's" in caplog.text


@pytest.mark.anyio
async def test_the_asyncio_methods_do_the_same_and_blocking_ones_do_not_stop_the_loop(shared: MemoryFace) -> None:
    storage = ElytronStorage(shared)
    await storage.asave([record_of(vector=[1.0]), record_of("Another.", [-1.0])])
    assert [record.content for record, _ in await storage.asearch([1.0])] == [KEY]
    assert await asyncio.to_thread(storage.count) == 2
    with pytest.raises(Unsupported, match="would stop the loop"):
        storage.count()
    with pytest.raises(InvalidInput, match="call reset"):
        await storage.adelete()
    assert await storage.adelete(scope_prefix="/") == 2


def test_more_records_than_a_page_has_are_searched_and_erased(
    storage: ElytronStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_core.limits.PAGE_MAX", 2)
    monkeypatch.setattr("elytron_core.limits.WRITES_PER_REQUEST", 2)
    storage.save([record_of(str(number), [1.0, float(number)]) for number in range(5)])
    assert storage.search([0.0, 1.0], limit=5)[0][0].content == "4"
    assert (storage.delete(scope_prefix="/"), storage.count()) == (5, 0)


def test_a_storage_without_a_space_is_refused() -> None:
    with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="ElytronStorage"):
            ElytronStorage(memory)
        assert ElytronStorage(memory, space="ada").count() == 0


def test_a_version_outside_the_tested_range_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = (row for row in integration_table.INTEGRATIONS if row.by_contract)
    monkeypatch.setattr(integration_table, "INTEGRATIONS", (replace(row, tested_range=">=0.1,<0.2"),))
    with pytest.warns(UserWarning, match=r"crewai >=0\.1,<0\.2, but 1\.") as warned:
        integration_table.require_framework(row.module)
    assert len(warned) == 1
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        integration_table.require_framework(row.module)
