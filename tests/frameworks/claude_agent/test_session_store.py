"""The session store meets the SDK's 14 contracts; its text is recalled, and no space reads another's sessions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore, SessionKey, SessionStore
from claude_agent_sdk.testing import run_session_store_conformance

import elytron
from elytron.api import MemoryFace
from elytron.runtime_records import records_of
from elytron_core.errors import ScopeMissing
from elytron_integrations.claude_agent import ElytronSessionStore

pytestmark = pytest.mark.anyio
KEY: SessionKey = {"project_key": "-boat", "session_id": "s1"}
SUBAGENT: SessionKey = {**KEY, "subpath": "subagents/agent-1"}


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def store(memory: MemoryFace) -> ElytronSessionStore:
    return ElytronSessionStore(memory)


def entry_of(text: Any, kind: str = "user", **fields: Any) -> Any:
    return {"type": kind, "message": {"role": kind, "content": text}, **fields}


async def recalled(memory: MemoryFace) -> list[tuple[str, str]]:
    return [(str(item.role), item.text) for item in (await memory.list()).items if item.text]


async def test_the_store_meets_every_contract_of_the_sdk() -> None:
    async with AsyncExitStack() as stack:

        async def make_store() -> SessionStore:
            return ElytronSessionStore(await stack.enter_async_context(elytron.open("memory:", space="ada")))

        await run_session_store_conformance(make_store)


@pytest.mark.parametrize("method", ["list_sessions", "list_session_summaries", "delete", "list_subkeys"])
def test_every_optional_method_is_implemented(method: str) -> None:
    assert getattr(ElytronSessionStore, method) is not getattr(SessionStore, method)


async def test_summaries_match_the_sdks_own_store(store: ElytronSessionStore) -> None:
    reference = InMemorySessionStore()
    entries: list[Any] = [
        entry_of("Where is the key?", timestamp="2026-01-01T00:00:00Z"),
        {"type": "x", "customTitle": "Key"},
    ]
    branch: list[Any] = [{"type": "x", "gitBranch": "main"}]
    for each in (store, reference):
        await each.append(KEY, entries)
        await each.append(KEY, branch)
    (summary,) = await store.list_session_summaries(KEY["project_key"])
    (expected,) = await reference.list_session_summaries(KEY["project_key"])
    assert summary["data"] == expected["data"]


async def test_a_repeated_entry_is_stored_once(store: ElytronSessionStore) -> None:
    entries = [entry_of("One.", uuid="u1"), entry_of("Two.", uuid="u2")]
    await store.append(KEY, entries)
    await store.append(KEY, [*entries, entry_of("Changed.", uuid="u1"), entry_of("Three.", uuid="u3")])
    await store.append(KEY, [{"type": "mode"}])
    await store.append(KEY, [{"type": "mode"}])
    loaded = await store.load(KEY)
    assert loaded == [*entries, entry_of("Three.", uuid="u3"), {"type": "mode"}, {"type": "mode"}]


async def test_large_and_unknown_entries_are_returned_completely(store: ElytronSessionStore) -> None:
    entries: Any = [
        {"type": "x", "image": "A" * 300_000, "ü": [None, 1.5, {"deep": {}}]},
        {"type": "y", "uuid": "a\nb"},
    ]
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries


async def test_parallel_appends_keep_the_order_of_their_calls(store: ElytronSessionStore) -> None:
    await asyncio.gather(*(store.append(KEY, [{"type": "x", "uuid": str(number)}]) for number in range(12)))
    assert [entry["uuid"] for entry in await store.load(KEY) or ()] == [str(number) for number in range(12)]  # pyright: ignore[reportTypedDictNotRequiredAccess]


async def test_only_messages_of_people_and_the_assistant_are_recalled(
    store: ElytronSessionStore, memory: MemoryFace
) -> None:
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "output"}, {"type": "text", "text": "beside"}]
    reply = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Under the oar."}, {"type": "tool_use"}]
    entries: list[Any] = [
        entry_of("Where is the key?"),
        entry_of(reply, "assistant"),
        entry_of(result),
        entry_of("Caveat of a program.", isMeta=True),
        entry_of("<system-reminder>Be brief.</system-reminder>"),
        {"type": "summary", "summary": "The key."},
        {"type": "user"},
    ]
    await store.append(KEY, entries)
    await store.append(SUBAGENT, [entry_of("A task for a subagent.")])
    assert await recalled(memory) == [("user", "Where is the key?"), ("assistant", "Under the oar.")]
    assert (await memory.recall("where is the key?"))[0].conversation == "s1"


async def test_an_entry_with_half_a_surrogate_pair_is_returned_unchanged(
    store: ElytronSessionStore, memory: MemoryFace
) -> None:
    await store.append(KEY, [entry_of("Under the oar \ud83d")])
    assert await store.load(KEY) == [entry_of("Under the oar \ud83d")]
    assert await recalled(memory) == [("user", "Under the oar \ufffd")]
    (summary,) = await store.list_session_summaries(KEY["project_key"])
    assert summary["data"]["first_prompt"] == "Under the oar \ufffd"


async def test_a_message_erased_from_memory_has_no_entry(store: ElytronSessionStore, memory: MemoryFace) -> None:
    await store.append(KEY, [entry_of("The key is under the oar."), entry_of("Tea?")])
    await memory.erase((await memory.recall("where is the key?"))[0].id)
    assert await store.load(KEY) == [entry_of("Tea?")]


async def test_a_deleted_session_leaves_nothing(store: ElytronSessionStore, memory: MemoryFace) -> None:
    entries: list[Any] = [entry_of("Hello."), {"type": "x", "image": "A" * 300_000}]
    await store.append(KEY, entries)
    await store.append(SUBAGENT, [{"type": "x"}])
    await store.delete(KEY)
    assert (await memory.list()).items == ()
    assert [record async for record in records_of(memory).below()] == []


async def test_another_space_reads_and_deletes_nothing(store: ElytronSessionStore, memory: MemoryFace) -> None:
    await store.append(KEY, [entry_of("Hello.", uuid="u1")])
    await store.append(SUBAGENT, [{"type": "x"}])
    grace = ElytronSessionStore(memory, space="grace")
    assert (await grace.load(KEY), await grace.load(SUBAGENT)) == (None, None)
    assert (await grace.list_sessions(KEY["project_key"]), await grace.list_subkeys(KEY)) == ([], [])
    assert await grace.list_session_summaries(KEY["project_key"]) == []
    await grace.delete(KEY)
    await grace.append(KEY, [entry_of("Mine.", uuid="u1")])
    assert await store.load(KEY) == [entry_of("Hello.", uuid="u1")]


async def test_a_store_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="the session store"):
            ElytronSessionStore(memory)
