"""Strategies in the agent's own loop (B6, B7, B9, B10, B15, B16, B17, B20, B23): one loop with any memory."""

import json

import httpx
import pytest
from tests.agent.chat_script import ScriptedChat, calls, failure, results, text, words
from tests.agent.places import AT, EVERYWHERE, journal_beside
from tests.agent.strategies.host import Road

from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    CuratedStrategy,
    GatewayStrategy,
    MemoryStrategy,
    RunBudget,
    RunEnded,
    RuntimeStrategy,
    StopReason,
    session_search,
    stored_events,
)
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.strategies.gateway import RULE
from elytron_core.clock import FrozenClock
from elytron_core.ports.chat import ChatRole, FailureReason, ModelRequest

pytestmark = pytest.mark.anyio


def gateway_of(road: Road, memory: MemoryFace) -> GatewayStrategy:
    return GatewayStrategy(road.place, tell=stored_events(memory), tools=(session_search(AgentMemoryView.of(memory)),))


def agent_of(memory: MemoryFace, model: ScriptedChat, strategy: MemoryStrategy, *, name: str = "main") -> Agent:
    settings = AgentSettings(enabled=True, budget=RunBudget(steps=3))
    return Agent(
        memory,
        model,
        strategy=strategy,
        journal=journal_beside(memory),
        name=name,
        settings=settings,
        clock=FrozenClock(AT, step_ms=1),
    )


def tools_of(request: ModelRequest) -> set[str]:
    return {tool.name for tool in request.tools}


async def test_a_search_precedes_the_model_and_one_add_and_one_flush_follow_the_answer(
    memory: MemoryFace, road: Road
) -> None:
    strategy = gateway_of(road, memory)
    model = ScriptedChat(lambda _request: text(f"Seen {len(road.sent)}."))
    async with agent_of(memory, model, strategy) as agent:
        ended = await agent.say("The boiler code is 4417.")
        assert ended.text == "Seen 1."
        await agent.say("What is the boiler code?")
    await strategy.close()
    assert [path for path, _ in road.sent] == ["/memories/search", "/memories/add", "/memories/flush"] * 2
    last = model.last
    assert RULE in words(last, ChatRole.SYSTEM)
    assert "4417" not in words(last, ChatRole.SYSTEM)
    said = words(last, ChatRole.USER)
    places = [said.index("Recalled memory:"), said.rindex("The boiler code is 4417."), said.index("What is the boiler")]
    assert places == sorted(places)
    assert road.sent[4][1]["session_id"] == "chat:main"


async def test_only_the_prompt_and_the_final_answer_reach_the_gateway(memory: MemoryFace, road: Road) -> None:
    strategy = gateway_of(road, memory)
    await memory.add("An earlier secret word is marmalade.", conversation="old")
    model = ScriptedChat(calls(("session_search", {"query": "marmalade"}), said="Let me look."), text("It is there."))
    async with agent_of(memory, model, strategy) as agent:
        await agent.say("Look for it.")
    await strategy.close()
    assert "marmalade" in results(model.last)[0]
    added = next(body for path, body in road.sent if path == "/memories/add")
    assert [(message["role"], message["sender_id"]) for message in added["messages"]] == [
        ("user", "ada"),
        ("assistant", "beaver"),
    ]
    assert added["messages"][0]["content"] == "Look for it."
    assert "It is there." in added["messages"][1]["content"]
    sent = json.dumps(added)
    for other in ("marmalade", "session_search", RULE, "Recalled memory"):
        assert other not in sent


@pytest.mark.parametrize("status", [401, 503])
async def test_a_failing_gateway_changes_no_answer(memory: MemoryFace, road: Road, status: int) -> None:
    ends: dict[str, RunEnded] = {}
    for name, broken in (("sound", ()), ("broken", ("/memories/search", "/memories/add"))):
        road.broken = {path: lambda _request: httpx.Response(status) for path in broken}
        strategy = gateway_of(road, memory)
        async with agent_of(memory, ScriptedChat(text("Hello.")), strategy, name=name) as agent:
            ends[name] = await agent.say("Hi.")
        await strategy.close()
    sound, other = (end.model_copy(update={"run": "", "turn": None}) for end in ends.values())
    assert sound == other
    told = await memory.recall("memory_gateway_recall_failed")
    assert "memory_gateway" not in str(told.hits)


async def test_a_failed_run_is_not_added_but_one_at_its_step_limit_is(memory: MemoryFace, road: Road) -> None:
    strategy = gateway_of(road, memory)
    async with agent_of(memory, ScriptedChat(failure(FailureReason.REFUSED)), strategy) as agent:
        assert not (await agent.say("This fails.")).text
    assert [path for path, _ in road.sent] == ["/memories/search"]
    look = calls(("session_search", {"query": "x"}), said="Still looking.")
    async with agent_of(memory, ScriptedChat(look), strategy, name="other") as agent:
        assert (await agent.say("Look.")).reason is StopReason.STEPS
    await strategy.close()
    assert [path for path, _ in road.sent][1:] == ["/memories/search", "/memories/add", "/memories/flush"]


async def test_an_unstored_run_reaches_no_memory(memory: MemoryFace, road: Road) -> None:
    strategy = gateway_of(road, memory)
    async with agent_of(memory, ScriptedChat(text("Hello.")), strategy) as agent:
        async for _ in agent.run("Between us.", store=False):
            pass
    await strategy.close()
    assert [path for path, _ in road.sent] == ["/memories/search"]
    assert (await memory.recall("Between us.")).hits == ()


async def test_curated_memory_is_frozen_for_a_run_and_its_tool_exists_only_in_that_mode(
    memory: MemoryFace, road: Road
) -> None:
    strategy = CuratedStrategy(memory)
    note = calls(("memory", {"action": "add", "target": "user", "content": "Likes rye bread."}))
    model = ScriptedChat(note, text("Noted."), text("Rye bread."))
    async with agent_of(memory, model, strategy) as agent:
        await agent.say("I like rye bread.")
        assert "USER PROFILE" not in words(model.asked[1], ChatRole.SYSTEM)
        assert '"success": true' in results(model.asked[1])[0]
        await agent.say("Which bread do I like?")
    assert "USER PROFILE (who the user is) [1%, 16/1,375 characters]\nLikes rye bread." in words(
        model.last, ChatRole.SYSTEM
    )
    assert road.sent == []
    assert {"memory", "session_search"} <= tools_of(model.last)
    for other in (gateway_of(road, memory), RuntimeStrategy(memory)):
        model = ScriptedChat(text("Hello."))
        async with agent_of(memory, model, other, name=type(other).__name__) as agent:
            await agent.say("Hi.")
        await other.close()
        assert "memory" not in tools_of(model.last)
        assert "session_search" in tools_of(model.last)


@EVERYWHERE
async def test_a_runtimes_turn_is_stored_once_and_recalled_at_the_tail(memory: MemoryFace) -> None:
    strategy = RuntimeStrategy(memory)
    model = ScriptedChat(text("I keep it in mind."))
    async with agent_of(memory, model, strategy, name="monday") as agent:
        await agent.say("The boiler code is 4417.")
    assert [len(turn.messages) for turn in (await memory.replay("monday")).turns] == [2]
    async with agent_of(memory, model, strategy, name="tuesday") as agent:
        await agent.say("What is the boiler code?")
    said = words(model.last, ChatRole.USER)
    assert said.index("The boiler code is 4417.") < said.index("What is the boiler code?")
    assert said.index("<memory_blocks>") < said.index("The boiler code is 4417.")
    for recalled in ("4417", "<memory_blocks>\n", "I am a helpful AI assistant."):
        assert recalled not in words(model.last, ChatRole.SYSTEM)
