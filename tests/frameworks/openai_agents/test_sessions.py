"""An Agents SDK session: unchanged items in order, resumed after a restart, with messages in memory."""

# Types of the framework are in part unknown, or unions that a test knows better.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, RunContextWrapper, Runner, SessionSettings
from agents.memory import OpenAIResponsesCompactionSession, Session
from examples.frameworks.scripted_model import scripted_model
from openai import AsyncOpenAI

import elytron
from elytron_core.errors import InvalidInput, ScopeMissing, Unsupported
from elytron_integrations.openai_agents import ElytronSession

pytestmark = pytest.mark.anyio
HELLO: Any = {"role": "user", "content": "The boat key is under the oar."}
REPLY: Any = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I noted the boat key.", "annotations": []}],
}
CALL: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"key": "AKIAIOSFODNN7EXAMPLE"}'}
OUTPUT: Any = {"type": "function_call_output", "call_id": "c1", "output": "boat"}
NOTE: Any = {"role": "system", "content": "Answer in French."}


def completion(text: str) -> dict[str, Any]:
    """Return the answer of a chat completions API."""
    return {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}]}


async def said(memory: Any) -> list[tuple[str, str, str]]:
    """Return the evidence in the memory: conversation, role, and text."""
    return [(hit.conversation, hit.role, hit.text) for hit in await memory.list()]


async def test_items_are_returned_unchanged_and_in_order() -> None:
    large: Any = {"role": "user", "content": [{"type": "input_image", "image_url": "data:," + "A" * 400_000}]}
    items = [HELLO, CALL, OUTPUT, REPLY, NOTE, large, {"role": "user", "content": "ö\ud800", "own": {"x": None}}]
    async with elytron.open("memory:", space="ada") as memory:
        session = ElytronSession("one", memory)
        assert isinstance(session, Session)
        assert await session.get_items() == []
        await session.add_items(items[:3])
        await session.add_items([])
        await session.add_items(items[3:])
        assert await session.get_items() == items


async def test_a_limit_returns_the_latest_items() -> None:
    items: list[Any] = [{"role": "user", "content": f"word {number}"} for number in range(40)]
    async with elytron.open("memory:", space="ada") as memory:
        session = ElytronSession("one", memory, session_settings=SessionSettings(limit=3))
        await session.add_items(items)
        assert await session.get_items() == items[-3:]
        assert await session.get_items(limit=2) == items[-2:]
        assert await session.get_items(limit=100) == await session.get_items(limit=-1) == items
        assert await session.get_items(limit=0) == []


async def test_popping_removes_the_latest_item() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        session = ElytronSession("one", memory)
        assert await session.pop_item() is None
        await session.add_items([HELLO, REPLY])
        assert await session.pop_item() == REPLY
        await session.add_items([OUTPUT])
        assert await session.get_items() == [HELLO, OUTPUT]
        assert [await session.pop_item() for _ in range(3)] == [OUTPUT, HELLO, None]


async def test_clearing_a_session_keeps_its_messages_in_memory() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        session, other = ElytronSession("one", memory), ElytronSession("two", memory)
        await session.add_items([HELLO])
        await other.add_items([REPLY])
        await session.clear_session()
        assert (await session.get_items(), await other.get_items()) == ([], [REPLY])
        assert len(await said(memory)) == 2


async def test_only_messages_of_user_and_assistant_are_evidence() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await ElytronSession("one", memory).add_items([NOTE, HELLO, CALL, OUTPUT, REPLY])
        await ElytronSession("quiet", memory, remembers=False).add_items([HELLO, REPLY])
        assert sorted(await said(memory)) == [
            ("one", "assistant", "I noted the boat key."),
            ("one", "user", "The boat key is under the oar."),
        ]


async def test_erasing_a_message_erases_the_items_of_its_session() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        session, other = ElytronSession("one", memory), ElytronSession("two", memory)
        await session.add_items([HELLO, CALL])
        await other.add_items([REPLY])
        (hit,) = (await memory.recall("boat key", filters={"conversations": ["one"]})).hits
        assert (await memory.erase(hit.id)).changed
        assert (await session.get_items(), await other.get_items()) == ([], [REPLY])
        await session.add_items([OUTPUT])
        assert await session.get_items() == [OUTPUT]


async def test_concurrent_writers_of_a_session_lose_and_duplicate_no_item() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        sessions = [ElytronSession("one", memory) for _ in range(8)]
        items: list[Any] = [{"role": "user", "content": f"word {number}"} for number in range(8)]
        await asyncio.gather(*(each.add_items([item]) for each, item in zip(sessions, items, strict=True)))
        stored: list[Any] = await sessions[0].get_items()
        assert sorted(stored, key=lambda item: item["content"]) == items
        popped = await asyncio.gather(*(each.pop_item() for each in sessions))
        assert sorted(json.dumps(item) for item in popped) == sorted(json.dumps(item) for item in items)


async def test_a_writer_to_a_cleared_session_replaces_no_item() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        old, new = ElytronSession("one", memory), ElytronSession("one", memory)
        await old.add_items([HELLO])
        await new.clear_session()
        await new.add_items([REPLY, CALL])
        await old.add_items([OUTPUT])
        assert await new.get_items() == [REPLY, CALL, OUTPUT]
        await new.clear_session()
        await old.add_items([HELLO])
        assert await new.get_items() == [HELLO]


async def test_an_item_added_during_a_pop_is_popped_first() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        one, two = ElytronSession("one", memory), ElytronSession("one", memory)
        await one.add_items([HELLO, REPLY])
        popped, _ = await asyncio.gather(one.pop_item(), two.add_items([CALL]))
        rest: list[Any] = await one.get_items()
        assert popped in ([*rest, popped][-1], REPLY, CALL)
        assert sorted(map(json.dumps, [popped, *rest])) == sorted(map(json.dumps, [HELLO, REPLY, CALL]))


async def test_another_space_sees_no_item_even_by_the_id_of_the_session() -> None:
    async with elytron.open("memory:", space=None) as memory:
        ada, noor = (ElytronSession("one", memory, space=space) for space in ("ada", "noor"))
        await ada.add_items([HELLO])
        assert await noor.get_items() == []
        assert await noor.pop_item() is None
        await noor.clear_session()
        assert await ada.get_items() == [HELLO]
        with pytest.raises(ScopeMissing, match="pass space="):
            ElytronSession("one", memory)


async def test_items_that_cannot_be_stored_are_rejected_and_nothing_is_stored() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        session = ElytronSession("one", memory)
        wrong: Any = {"role": "user", "content": object()}
        with pytest.raises(InvalidInput, match="JSON cannot represent"):
            await session.add_items([HELLO, wrong])
        assert await session.get_items() == []
        with pytest.raises(InvalidInput):
            ElytronSession("", memory)


async def test_a_run_continues_with_the_items_of_an_earlier_process(tmp_path: Path) -> None:
    with scripted_model(completion("Noted."), completion("Under the oar.")) as (url, requests):
        for words in ("The boat key is under the oar.", "Where is it?"):
            async with elytron.open(tmp_path / "memory.db", space="ada") as memory:
                model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none"))
                settings = RunConfig(tracing_disabled=True)
                session = ElytronSession("one", memory)
                await Runner.run(Agent("Helper", model=model), words, session=session, run_config=settings)
    assert [message["content"] for message in json.loads(requests[1])["messages"]] == [
        "The boat key is under the oar.",
        "Noted.",
        "Where is it?",
    ]


def test_a_blocking_run_uses_a_blocking_memory(tmp_path: Path) -> None:
    with scripted_model(completion("Noted.")) as (url, _), elytron.open(tmp_path / "m.db", space="ada") as memory:
        model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none"))
        session = ElytronSession("one", memory)
        with asyncio.Runner() as runner:
            run = Runner.run(
                Agent("Helper", model=model), "Hello.", session=session, run_config=RunConfig(tracing_disabled=True)
            )
            assert runner.run(run).final_output == "Noted."
        assert sorted(hit.text for hit in memory.list()) == ["Hello.", "Noted."]


async def test_a_run_context_is_accepted() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        session, wrapper = ElytronSession("one", memory), RunContextWrapper(None)
        await session.add_items([HELLO], wrapper=wrapper)
        assert await session.get_items(wrapper=wrapper) == [HELLO]
        assert await session.pop_item(wrapper=wrapper) == HELLO
        await session.clear_session(wrapper=wrapper)


async def test_compaction_replaces_the_items_without_repetition() -> None:
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "secret"}
    compacted = {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 1,
        "output": [{"type": "message", **HELLO}, compaction],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    async with elytron.open("memory:", space="ada") as memory:
        session = ElytronSession("one", memory)
        with scripted_model(compacted) as (url, _):
            client = AsyncOpenAI(base_url=url, api_key="none")
            wrapped = OpenAIResponsesCompactionSession("one", session, client=client, compaction_mode="input")
            await wrapped.add_items([HELLO, REPLY])
            await wrapped.run_compaction({"force": True})
        items: list[Any] = await session.get_items()
        assert [item.get("type") for item in items] == ["message", "compaction"]
        assert len(await said(memory)) == 2


async def test_a_memory_on_a_server_is_refused() -> None:
    remote: Any = elytron.connect("http://127.0.0.1:1", space="ada")
    with pytest.raises((Unsupported, InvalidInput)):
        ElytronSession("one", remote)
