"""The Strands memory store: searched and written by its manager, once per message, for one user only."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext, MemoryStore

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_integrations.strands import ElytronMemoryStore

pytestmark = pytest.mark.anyio
KEY = "The boat key is under the oar."


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def store(memory: MemoryFace) -> ElytronMemoryStore:
    return ElytronMemoryStore(memory)


def said(*blocks: Any, role: str = "user") -> Any:
    return {"role": role, "content": [{"text": block} if isinstance(block, str) else block for block in blocks]}


async def texts_of(memory: MemoryFace) -> list[str]:
    return [item.text for item in (await memory.list()).items]


async def test_a_search_returns_memories_with_their_origin(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    await memory.add(KEY, speaker="Ada", at="2026-05-04", metadata={"topic": "boat"})
    (entry,) = await store.search("where is the boat key?")
    assert entry.content == KEY
    assert entry.metadata is not None
    named = {name: entry.metadata[name] for name in ("speaker", "topic", "at", "trust")}
    assert named == {"speaker": "Ada", "topic": "boat", "at": "2026-05-04T00:00:00+00:00", "trust": "vouched"}


async def test_a_search_without_an_answer_returns_nothing(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    assert await store.search("where is the boat key?") == []
    await memory.add(KEY)
    assert await store.search("how do volcanoes form?") == []


async def test_a_search_returns_the_requested_number(memory: MemoryFace) -> None:
    for number in range(4):
        await memory.add(f"The boat key number {number} is under the oar.")
    store = ElytronMemoryStore(memory, max_search_results=3)
    assert len(await store.search("where is the boat key?")) == 3
    assert len(await store.search("where is the boat key?", {"max_search_results": 1})) == 1


async def test_a_text_is_added_with_its_metadata(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    memory_id = await store.add(KEY, {"topic": "boat"})
    hit = await memory.get(memory_id)
    assert (hit.text, hit.metadata["topic"], hit.role) == (KEY, "boat", "assistant")
    with pytest.raises(InvalidInput, match="no words"):
        await store.add(" ")


async def test_repeated_messages_are_stored_once(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    use: Any = {"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}
    messages = [said(KEY), said("Noted.", use, role="assistant"), said(use)]
    for _ in range(2):
        assert await store.add_messages(messages, AddMessagesContext(sequence_numbers=[0, 1, 5])) == 3
    assert await texts_of(memory) == [KEY, "Noted."]
    await store.add_messages([said(KEY)])
    await store.initialize()
    await store.add_messages([said("Another run.")], AddMessagesContext(sequence_numbers=[0]))
    assert await texts_of(memory) == [KEY, "Noted.", KEY, "Another run."]


async def test_the_manager_finds_both_ways_of_writing(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    manager = MemoryManager(stores=[store], add_tool_config=True)
    await manager.add(KEY)
    (entry,) = await manager.search("where is the boat key?")
    assert (entry.content, entry.store_name) == (KEY, "elytron")
    for method in ("add", "add_messages", "initialize", "search"):
        assert getattr(ElytronMemoryStore, method) is not getattr(MemoryStore, method)


async def test_another_space_finds_nothing(store: ElytronMemoryStore, memory: MemoryFace) -> None:
    await store.add(KEY)
    grace = ElytronMemoryStore(memory, space="grace", name="grace")
    assert await grace.search("where is the boat key?") == []
    await grace.add_messages([said("I have no boat.")])
    assert await texts_of(memory) == [KEY]


async def test_a_store_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="the memory store"):
            ElytronMemoryStore(memory)
