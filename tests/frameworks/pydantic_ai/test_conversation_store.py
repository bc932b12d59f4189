"""Stored conversations: like the framework's in-memory store, but durable and isolated by space."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

import elytron
from elytron.api import MemoryFace
from elytron.runtime_records import records_of
from elytron_core.errors import ScopeMissing, Unsupported
from elytron_integrations.pydantic_ai import ElytronConversationStore
from elytron_integrations.user_memory import user_memory

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture(params=["elytron", "framework"])
def store(request: pytest.FixtureRequest, memory: MemoryFace) -> ConversationStore:
    """Return the adapter and the framework's own store, to which the same claims apply."""
    return ElytronConversationStore(memory) if request.param == "elytron" else InMemoryConversationStore()


@pytest.fixture
def own_store(memory: MemoryFace) -> ElytronConversationStore:
    return ElytronConversationStore(memory)


def said(text: str, run_id: str | None = None) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(content=text)], run_id=run_id, conversation_id="trip")


def answered(text: str, run_id: str | None = None) -> ModelMessage:
    return ModelResponse(parts=[TextPart(content=text)], run_id=run_id, conversation_id="trip")


async def saved(store: ConversationStore, *texts: str, scope: str | None = None, name: str = "trip") -> Conversation:
    conversation = Conversation(conversation_id=name, messages=[said(text) for text in texts])
    await store.save(conversation, scope=scope)
    return conversation


async def texts_of(store: ConversationStore, name: str = "trip", *, limit: int | None = None) -> list[str]:
    loaded = await store.load(name, limit=limit)
    assert loaded is not None
    parts = [part for message in loaded.messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart | TextPart)]


async def test_a_conversation_is_loaded_unchanged(store: ConversationStore) -> None:
    messages = [
        ModelRequest(parts=[UserPromptPart(content=["see", BinaryContent(b"\x00" * 300_000, media_type="audio/wav")])]),
        answered("A boat."),
    ]
    conversation = Conversation(conversation_id="trip", messages=messages)
    conversation.usage.input_tokens = 7
    await store.save(conversation)
    loaded = await store.load("trip")
    assert loaded is not None
    assert (loaded.messages, loaded.usage.input_tokens) == (messages, 7)
    assert await store.load("other") is None


async def test_a_save_appends_new_entries(store: ConversationStore) -> None:
    conversation = await saved(store, "one", "two")
    conversation.messages.append(said("three"))
    entries = await store.save(conversation)
    assert [entry.message for entry in entries] == [conversation.messages[2]]
    assert await texts_of(store) == ["one", "two", "three"]
    assert await texts_of(store, limit=2) == ["two", "three"]


async def test_a_stale_revision_is_a_conflict_and_stores_nothing(store: ConversationStore) -> None:
    await saved(store, "one")
    first, second = await store.load("trip"), await store.load("trip")
    assert first is not None
    assert second is not None
    first.messages.append(said("two"))
    second.messages.append(said("lost"))
    await store.save(first)
    with pytest.raises(ConversationConflict):
        await store.save(second)
    assert await texts_of(store) == ["one", "two"]


async def test_a_new_conversation_of_a_stored_name_is_a_conflict(store: ConversationStore) -> None:
    await saved(store, "one")
    with pytest.raises(ConversationConflict):
        await saved(store, "other")


async def test_a_branch_leaves_the_old_history_stored(store: ConversationStore) -> None:
    conversation = await saved(store, "one", "two")
    entries = await store.load_entries("trip")
    assert entries is not None
    branched = await store.branch("trip", at=1, expected_revision=conversation.revision)
    branched.messages.append(said("instead"))
    await store.save(branched)
    assert await texts_of(store) == ["one", "instead"]
    (record,) = await store.list_conversations()
    assert record.branches == [entries[1].id]


async def test_a_fork_shares_its_entries_and_survives_the_original(store: ConversationStore) -> None:
    await saved(store, "one", "two")
    fork = await store.fork("trip", at=1, new_conversation_id="copy")
    fork.messages.append(said("apart"))
    await store.save(fork)
    await store.delete("trip")
    assert await store.load("trip") is None
    assert await texts_of(store, "copy") == ["one", "apart"]


async def test_a_deleted_conversation_can_be_started_again(store: ConversationStore) -> None:
    await saved(store, "one")
    record = await store.read_record("trip")
    assert record is not None
    await store.delete("trip")
    with pytest.raises(ConversationConflict):
        await store.delete_record("trip", expected_revision=record.revision)
    await saved(store, "again")
    assert await texts_of(store) == ["again"]


async def test_conversations_are_listed_by_scope_latest_first(store: ConversationStore) -> None:
    for name, scope in (("a", "work"), ("b", "home"), ("c", "work")):
        await saved(store, name, scope=scope, name=name)
    assert [record.conversation_id for record in await store.list_conversations()] == ["c", "b", "a"]
    assert [record.conversation_id for record in await store.list_conversations(scope="work", limit=1)] == ["c"]
    assert await store.load("a", scope="home") is None


async def test_a_record_that_points_at_no_entry_is_a_conflict(store: ConversationStore) -> None:
    with pytest.raises(ConversationConflict):
        await store.write_record(ConversationRecord(conversation_id="trip", head_id="none"), expected_revision=None)
    with pytest.raises(LookupError):
        await store.read_entry("none")


async def test_one_of_parallel_saves_of_a_conversation_succeeds(own_store: ElytronConversationStore) -> None:
    await saved(own_store, "one")
    record = await own_store.read_record("trip")
    assert record is not None
    entries = [ConversationEntry(parent_id=record.head_id, message=said(text)) for text in ("left", "right")]
    writes = [
        own_store.write_record(
            replace(record, head_id=entry.id, revision=entry.id), new_entries=[entry], expected_revision=record.revision
        )
        for entry in entries
    ]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["ConversationConflict", "NoneType"]
    assert len(await texts_of(own_store)) == 2


async def test_conversations_survive_the_process(tmp_path: Path) -> None:
    for is_first in (True, False):
        async with elytron.open(tmp_path / "memory.db", space="ada") as memory:
            store = ElytronConversationStore(memory)
            if is_first:
                await saved(store, "one")
            assert await texts_of(store) == ["one"]


async def test_deleting_leaves_no_record(own_store: ElytronConversationStore, memory: MemoryFace) -> None:
    await saved(own_store, "one", "two")
    await own_store.delete("trip")
    assert [record async for record in records_of(memory).below()] == []


async def test_a_turn_erased_from_memory_removes_its_messages(
    own_store: ElytronConversationStore, memory: MemoryFace
) -> None:
    messages = [said("My secret name.", "run-1"), answered("Noted.", "run-1"), said("Tea?", "run-2")]
    await own_store.save(Conversation(conversation_id="trip", messages=messages))
    entries = await own_store.load_entries("trip")
    assert entries is not None
    draft = elytron.TurnDraft(messages=(elytron.Message(text="My secret name."),), host_id="run-1")
    scope = elytron.Scope(space="ada", channel="pydantic-ai", conversation="trip")
    write = elytron.TranscriptWrite(turns=(draft,))
    report = await memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))
    await memory.erase(report.ids)
    assert await texts_of(own_store) == ["Tea?"]
    with pytest.raises(LookupError, match="was erased"):
        await own_store.read_entry(entries[0].id)


async def test_another_space_reads_nothing_with_the_same_ids(
    own_store: ElytronConversationStore, memory: MemoryFace
) -> None:
    await saved(own_store, "one")
    entries = await own_store.load_entries("trip")
    record = await own_store.read_record("trip")
    assert entries
    assert record is not None
    grace = ElytronConversationStore(memory, space="grace")
    assert (await grace.load("trip"), await grace.list_conversations()) == (None, [])
    with pytest.raises(LookupError):
        await grace.read_entry(entries[0].id)
    with pytest.raises(ConversationConflict):
        await grace.delete_record("trip", expected_revision=record.revision)
    with pytest.raises(ConversationConflict):
        await grace.write_record(replace(record, conversation_id="mine"), expected_revision=None)
    await grace.delete("trip")
    assert await texts_of(own_store) == ["one"]


async def test_a_store_needs_a_space_and_a_memory_of_this_process(memory: MemoryFace) -> None:
    async with elytron.open("memory:", space=None) as everyone:
        with pytest.raises(ScopeMissing, match="the conversation store"):
            ElytronConversationStore(everyone)
    with pytest.raises(Unsupported, match="opened in this process"):
        ElytronConversationStore(user_memory(memory, operation="a test"))
