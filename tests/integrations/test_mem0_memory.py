"""A program written for mem0 gets the answers that it expects, with either generation of arguments."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import elytron
from elytron.compat.mem0 import AsyncMemory, Memory
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing, StoreClosed, Unsupported

CONFIG = {"vector_store": {"provider": "elytron", "config": {"path": "memory:"}}}
MESSAGES = [
    {"role": "system", "content": "You are a cook."},
    {"role": "user", "content": "I never eat coriander.", "name": "Ada"},
    {"role": "assistant", "content": "Noted: no coriander."},
]
TEXTS = ["I never eat coriander.", "Noted: no coriander."]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with closing(Memory.from_config(CONFIG)) as opened:
        yield opened


def texts_of(answer: dict[str, Any]) -> list[str]:
    """Return the texts of an answer of add, search or get_all."""
    return [result["memory"] for result in answer["results"]]


def raw_id(memory: Memory, text: str, **ids: Any) -> str:
    """Store one message unchanged and return its id."""
    return memory.add(text, infer=False, **(ids or {"user_id": "ada"}))["results"][0]["id"]


def test_raw_messages_are_stored_without_system_messages(memory: Memory) -> None:
    results = memory.add(MESSAGES, user_id="ada", run_id="dinner", infer=False)["results"]
    assert [{name: value for name, value in result.items() if name != "id"} for result in results] == [
        {"memory": TEXTS[0], "event": "ADD", "role": "user", "actor_id": "Ada"},
        {"memory": TEXTS[1], "event": "ADD", "role": "assistant"},
    ]
    assert [result["id"] for result in memory.get_all(user_id="ada")["results"]] == [one["id"] for one in results]


def test_system_messages_alone_are_rejected(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="no message from a user or an assistant"):
        memory.add(MESSAGES[:1], user_id="ada")


@pytest.mark.anyio
async def test_a_memory_that_was_never_used_is_closed_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await AsyncMemory().close()
    assert list(tmp_path.iterdir()) == []


def test_facts_extracted_from_messages_are_added_to_them(memory: Memory) -> None:
    answer = memory.add("My name is Ada and I live in Lisbon.", user_id="ada")
    assert texts_of(answer) == [
        "My name is Ada and I live in Lisbon.",
        "The user is called Ada",
        "The user lives in Lisbon",
    ]
    assert texts_of(memory.add("I live in Lisbon.", user_id="grace", infer=False)) == ["I live in Lisbon."]


def test_the_same_messages_are_stored_once(memory: Memory) -> None:
    first = memory.add([*MESSAGES, MESSAGES[1]], user_id="ada", metadata={"topic": "food"})
    again = memory.add([*MESSAGES, MESSAGES[1]], user_id="ada", metadata={"topic": "food"})
    assert [result["event"] for result in again["results"]] == ["NONE"] * 3
    assert [result["id"] for result in again["results"]] == [result["id"] for result in first["results"][:3]]
    assert texts_of(memory.get_all(user_id="ada", filters={"role": "user"})) == [TEXTS[0]] * 2
    others: list[dict[str, Any]] = [{"user_id": "grace"}, {"user_id": "ada", "run_id": "x"}, {"agent_id": "cook"}]
    for ids in others:
        assert memory.add(MESSAGES, infer=False, metadata={"topic": "food"}, **ids)["results"][0]["event"] == "ADD"


def test_deleted_memories_can_be_added_again(memory: Memory) -> None:
    memory.delete(raw_id(memory, "I like tea."))
    assert memory.add("I like tea.", user_id="ada", infer=False)["results"][0]["event"] == "ADD"


def test_no_digest_of_a_secret_is_stored(memory: Memory) -> None:
    first = memory.add("My card is 4111 1111 1111 1111.", user_id="ada", infer=False)["results"][0]
    other = memory.add("My card is 5500 0000 0000 0004.", user_id="ada", infer=False)["results"][0]
    assert (first["event"], other["event"]) == ("ADD", "NONE")
    assert "4111" not in first["memory"]


@pytest.mark.parametrize(
    "ids",
    [
        {"user_id": "ada"},
        {"filters": {"user_id": "ada"}},
        {"user_id": " ada ", "run_id": "dinner"},
        {"filters": {"AND": [{"user_id": "ada"}, {"agent_id": "cook"}]}},
        {"user_id": "ada", "filters": {"metadata": {"topic": "food"}}},
        {"options": {"filters": {"user_id": "ada"}}},
        {"filters": {"OR": [{"user_id": "ada"}]}},
    ],
)
def test_both_generations_of_arguments_find_the_same_memories(memory: Memory, ids: dict[str, Any]) -> None:
    place: dict[str, Any] = {"user_id": "ada", "agent_id": "cook", "run_id": "dinner"}
    memory.add(MESSAGES, infer=False, metadata={"topic": "food"}, **place)
    memory.add("I eat coriander daily.", infer=False, user_id="grace")
    assert texts_of(memory.get_all(**ids)) == TEXTS
    assert texts_of(memory.search("coriander", **ids))[0] in TEXTS
    assert len(memory.search("coriander", top_k=1, **ids)["results"]) == 1
    assert len(memory.search("coriander", limit=1, **ids)["results"]) == 1
    assert memory.search("coriander", threshold=0.9999, **ids) == {"results": []}


def test_a_memory_is_the_dictionary_that_mem0_returns(memory: Memory) -> None:
    metadata: dict[str, Any] = {
        "topic": "food",
        "stars": 4,
        "deep": {"tags": ["a", None], "more": {}},
        "list": [1, 2.5],
    }
    place: dict[str, Any] = {"user_id": "ada", "agent_id": "cook", "run_id": "dinner"}
    message = {"role": "user", "content": "I never eat coriander.", "name": "Ada"}
    added = memory.add(message, infer=False, metadata=metadata, timestamp=1_777_593_600, **place)
    expected: dict[str, Any] = {
        "id": added["results"][0]["id"],
        "memory": "I never eat coriander.",
        "hash": hashlib.md5(b"I never eat coriander.").hexdigest(),
        "metadata": metadata,
        "created_at": "2026-05-01T00:00:00+00:00",
        "updated_at": "2026-05-01T00:00:00+00:00",
        "actor_id": "Ada",
        "role": "user",
        **place,
    }
    (listed,) = memory.get_all(user_id="ada")["results"]
    assert listed == expected
    assert memory.get(expected["id"]) == expected | {"score": None}
    (found,) = memory.search("coriander", user_id="ada")["results"]
    assert found == expected | {"score": found["score"]}


def test_an_update_keeps_the_id_and_the_earlier_text(memory: Memory) -> None:
    memory_id = raw_id(memory, "I live in Lisbon.")
    assert memory.update(memory_id, "I live in Porto.") == {"message": "Memory updated successfully!"}
    memory.update(memory_id, data="I live in Faro.")
    memory.update(memory_id=memory_id, text="I live in Braga.")
    (listed,) = memory.get_all(user_id="ada")["results"]
    assert (listed["id"], listed["memory"]) == (memory_id, "I live in Braga.")
    assert (memory.get(memory_id) or {})["memory"] == "I live in Braga."
    texts = ["I live in Lisbon.", "I live in Porto.", "I live in Faro.", "I live in Braga."]
    rows = memory.history(memory_id)
    assert [row["new_memory"] for row in rows] == texts
    assert [row["old_memory"] for row in rows] == [None, *texts[:3]]
    assert [row["event"] for row in rows] == ["ADD", "UPDATE", "UPDATE", "UPDATE"]
    assert {row["memory_id"] for row in rows} == {memory_id}


def test_a_deleted_memory_is_gone_with_its_versions(memory: Memory) -> None:
    memory_id = raw_id(memory, "I live in Lisbon.")
    memory.update(memory_id, "I live in Porto.")
    assert memory.delete(memory_id) == {"message": "Memory deleted successfully!"}
    assert (memory.get(memory_id), memory.history(memory_id)) == (None, [])
    assert memory.get_all(user_id="ada") == {"results": []}


def test_an_extracted_fact_is_updated_and_deleted_by_its_id(memory: Memory) -> None:
    fact = memory.add("I live in Lisbon.", user_id="ada")["results"][1]["id"]
    memory.update(fact, "The user lives in Porto")
    assert (memory.get(fact) or {})["memory"] == "The user lives in Porto"
    assert [row["event"] for row in memory.history(fact)] == ["ADD", "UPDATE"]
    memory.delete(fact)
    assert texts_of(memory.get_all(user_id="ada")) == ["I live in Lisbon."]


@pytest.mark.parametrize("memory_id", ["", "@", "x", "x@ada", "00000000-0000-0000-0000-000000000000", "x@nobody"])
def test_an_unknown_id_has_no_memory(memory: Memory, memory_id: str) -> None:
    raw_id(memory, "I like tea.")
    assert memory.get(memory_id) is None
    assert memory.history(memory_id) == []
    with pytest.raises(NotFound):
        memory.update(memory_id, "I like coffee.")
    with pytest.raises(NotFound):
        memory.delete(memory_id)


def test_calls_without_any_id_are_rejected(memory: Memory) -> None:
    raw_id(memory, "I like tea.")
    for call in (
        lambda: memory.add("tea"),
        lambda: memory.search("tea"),
        lambda: memory.search("tea", filters={"topic": "food"}),
        memory.get_all,
        memory.delete_all,
        memory.reset,
    ):
        with pytest.raises(ScopeMissing, match="scope is missing"):
            call()
    assert texts_of(memory.get_all(user_id="ada")) == ["I like tea."]


@pytest.mark.parametrize(
    "ids",
    [
        {"user_id": ""},
        {"user_id": " "},
        {"user_id": "a" * 300},
        {"filters": {"user_id": ""}},
        {"user_id": "ada", "agent_id": ""},
    ],
)
def test_an_empty_or_too_long_id_is_refused(memory: Memory, ids: dict[str, Any]) -> None:
    for call in (partial(memory.add, "tea"), partial(memory.search, "tea"), memory.get_all, memory.delete_all):
        with pytest.raises(InvalidInput, match=r"_id of .* is empty, longer than 200"):
            call(**ids)


def test_a_part_of_a_memory_is_deleted_with_its_extracted_facts(memory: Memory) -> None:
    memory.add("I live in Lisbon.", user_id="ada", run_id="trip")
    memory.add("I like tea.", user_id="ada", run_id="home", infer=False)
    memory.add("Call me by my first name.", user_id="grace", run_id="trip", infer=False)
    assert memory.delete_all(user_id="ada", run_id="trip") == {"message": "Memories deleted successfully!"}
    assert texts_of(memory.get_all(user_id="ada")) == ["I like tea."]
    assert texts_of(memory.get_all(user_id="grace")) == ["Call me by my first name."]
    memory.reset(user_id="ada")
    assert memory.get_all(user_id="ada") == {"results": []}
    assert texts_of(memory.get_all(user_id="grace")) == ["Call me by my first name."]


def test_memories_of_an_agent_belong_to_no_user(memory: Memory) -> None:
    memory_id = raw_id(memory, "Answer in metric units.", agent_id="cook")
    assert texts_of(memory.search("units", agent_id="cook")) == ["Answer in metric units."]
    assert memory.get_all(agent_id="driver") == memory.get_all(user_id="ada") == {"results": []}
    assert "user_id" not in (memory.get(memory_id) or {})
    with pytest.raises(InvalidInput, match="is a reserved name"):
        memory.get_all(user_id="mem0-shared")


@pytest.mark.parametrize(
    ("call", "arguments", "problem"),
    [
        ("add", {"memory_type": "procedural_memory"}, "memory_type of add"),
        ("add", {"expiration_date": "2027-01-01"}, "expiration_date of add"),
        ("add", {"metadata": {"user_id": "grace"}}, "is reserved for an id"),
        ("add", {"metadata": {"at": {"x": object()}}}, "JSON cannot represent"),
        ("add", {"filters": {"topic": "food"}}, "may only name"),
        ("search", {"rerank": True}, "reranker"),
        ("search", {"top_k": 3, "limit": 4}, "different numbers"),
        ("search", {"filter": {"topic": "food"}}, "use filters="),
        ("search", {"options": "fast"}, "must be a mapping"),
        ("get_all", {"show_expired": True}, "show_expired of get_all"),
        ("search", {"filters": ["a"]}, "filters must be a mapping"),
        ("search", {"filters": "a"}, "filters must be a mapping"),
        ("get_all", {"filters": 5}, "filters must be a mapping"),
        ("add", {"metadata": "oops"}, "metadata must be a mapping"),
        ("add", {"metadata": [1]}, "metadata must be a mapping"),
        ("add", {"run_id": "r" * 300}, "run_id of add"),
        ("search", {"agent_id": "a" * 300}, "agent_id of search"),
        ("get_all", {"page_size": 3, "top_k": 4}, "different numbers"),
        ("get_all", {"page": 0}, "page of get_all"),
        ("get_all", {"page": "2"}, "page of get_all"),
    ],
)
def test_no_argument_is_silently_ignored(memory: Memory, call: str, arguments: dict[str, Any], problem: str) -> None:
    first = () if call == "get_all" else ("tea",)
    with pytest.raises(InvalidInput, match=problem):
        getattr(memory, call)(*first, user_id="ada", **arguments)


def test_arguments_that_state_the_default_are_accepted(memory: Memory) -> None:
    memory.add("I like tea.", user_id="ada", infer=False, async_mode=False, output_format="v1.1", version="v2")
    found = memory.search("tea", user_id="ada", rerank=False, explain=False, show_expired=False, reference_date=None)
    assert texts_of(found) == ["I like tea."]


def test_an_update_without_a_text_is_refused(memory: Memory) -> None:
    memory_id = raw_id(memory, "I like tea.")
    everything: list[dict[str, Any]] = [{}, {"metadata": {"topic": "food"}}]
    for arguments in everything:
        with pytest.raises(InvalidInput, match="takes a text"):
            memory.update(memory_id, **arguments)


@pytest.mark.parametrize("make", [Memory, Memory.from_config])
def test_settings_without_effect_give_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[dict[str, Any]], Memory]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"llm": {"provider": "openai"}, "vector_store": {"provider": "qdrant"}, "version": "v1.1"}
    with pytest.warns(UserWarning, match="mem0 settings have no effect: llm, vector_store") as warned:
        memory = make(config)
    memory.close()
    assert [warning.filename for warning in warned] == [__file__]
    assert (tmp_path / "memory.db").exists()


def test_a_setting_that_mem0_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="config has the unknown key 'vectorstore': use vector_store="):
        Memory.from_config({"vectorstore": {"provider": "elytron"}})


@pytest.mark.anyio
async def test_leaving_a_with_block_closes_the_memory() -> None:
    with Memory(CONFIG) as memory:
        raw_id(memory, "I like tea.")
    with pytest.raises(StoreClosed):
        memory.get_all(user_id="ada")
    async with AsyncMemory(CONFIG) as awaited:
        await awaited.add("I like tea.", user_id="ada", infer=False)
    with pytest.raises(StoreClosed):
        await awaited.get_all(user_id="ada")


def test_a_call_of_mem0_without_a_counterpart_names_the_way_out(memory: Memory) -> None:
    for name in ("feedback", "batch_delete", "chat", "project", "vector_store", "get_webhooks"):
        with pytest.raises(Unsupported, match=f"mem0's '{name}' has no counterpart here: "):
            getattr(memory, name)
        assert not hasattr(memory, name)
        assert not hasattr(memory.runtime, name)
    with pytest.raises(AttributeError, match="a memory has no attribute 'remembrance'"):
        _ = cast("Any", memory).remembrance


def test_users_are_listed_and_deleted(memory: Memory) -> None:
    for user in ("grace", "ada"):
        raw_id(memory, "I like tea.", user_id=user)
    raw_id(memory, "Answer in metric units.", agent_id="cook")
    assert memory.users() == {"results": [{"name": name, "type": "user"} for name in ("ada", "grace")]}
    memory.delete_users(user_id="ada")
    assert memory.users() == {"results": [{"name": "grace", "type": "user"}]}


def test_memories_are_read_in_pages(memory: Memory) -> None:
    for number in range(3):
        raw_id(memory, f"Tea number {number}.")
    pages = [memory.get_all(user_id="ada", page=page, page_size=2) for page in (1, 2, 3)]
    assert [texts_of(page) for page in pages] == [["Tea number 0.", "Tea number 1."], ["Tea number 2."], []]
    assert [(page["next"], page["previous"]) for page in pages] == [(2, None), (None, 1), (None, 2)]


@pytest.mark.anyio
async def test_memories_that_were_imported_from_mem0_have_their_ids_and_metadata(tmp_path: Path) -> None:
    rows = [
        {"id": "m1", "memory": "Ada lives in Lisbon", "user_id": "ada", "metadata": {"category": "home"}},
        {"id": "m2", "memory": "Ada likes tea", "user_id": "ada", "run_id": "trip", "role": "user"},
    ]
    path = tmp_path / "memory.db"
    (tmp_path / "mem0.json").write_text(json.dumps(rows))
    async with elytron.open(path, space="ada") as store:
        await elytron.import_transcript(store, tmp_path / "mem0.json")
    async with AsyncMemory({"vector_store": {"provider": "elytron", "config": {"path": str(path)}}}) as memory:
        await memory.add("Ada works in Porto", user_id="ada", metadata={"category": "work"}, infer=False)

        async def found_texts(**filters: Any) -> list[str]:
            return texts_of(await memory.get_all(user_id="ada", filters=filters))

        assert await found_texts(category="home") == ["Ada lives in Lisbon"]
        assert await found_texts(category={"in": ["home", "work"]}) == ["Ada lives in Lisbon", "Ada works in Porto"]
        assert await found_texts(category={"ne": "home"}) == ["Ada likes tea", "Ada works in Porto"]
        assert await found_texts(NOT=[{"category": "work"}]) == ["Ada lives in Lisbon", "Ada likes tea"]
        first, second, _ = (await memory.get_all(user_id="ada"))["results"]
        names = ("user_id", "run_id", "actor_id", "role", "metadata")
        assert {name: first[name] for name in names if name in first} == {
            "user_id": "ada",
            "metadata": {"category": "home"},
        }
        assert {name: second[name] for name in names if name in second} == {
            "user_id": "ada",
            "run_id": "trip",
            "role": "user",
            "metadata": None,
        }
        assert [(row["actor_id"], row["role"]) for row in await memory.history(second["id"])] == [(None, "user")]
        assert await memory.get("m1") is None
        with pytest.raises(NotFound, match="ids come from add, search and get_all"):
            await memory.delete("m1")
