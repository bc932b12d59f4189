"""Runs with a strategy whose process ends: the next one resumes from the same state, and reports the end once."""

import httpx
import pytest
from tests.agent.chat_script import ScriptedChat, calls, heard, text, words
from tests.agent.places import AT, Ended, KeptStore
from tests.agent.strategies.host import Road

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    BlockRepository,
    CallKey,
    CuratedStrategy,
    GatewayStrategy,
    MemoryStrategy,
    RuntimeStrategy,
    Tool,
    stored_events,
)
from elytron_core.clock import FrozenClock
from elytron_core.ports.chat import ChatRole

pytestmark = pytest.mark.anyio


async def die(_given: object, _key: CallKey, /) -> str:
    raise Ended


DYING = Tool("pause", "Pause.", {"type": "object"}, die)


def agent_of(memory: MemoryFace, model: ScriptedChat, strategy: MemoryStrategy) -> Agent:
    clock = FrozenClock(AT, step_ms=1)
    return Agent(memory, model, (DYING,), strategy=strategy, settings=AgentSettings(enabled=True), clock=clock)


ADD = {"action": "add", "target": "user", "content": "Her name is Ada."}


async def test_b23_a_resumed_run_keeps_its_initial_snapshot() -> None:
    store = KeptStore()
    first = ScriptedChat(calls(("memory", ADD)), calls(("pause", {})))
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await agent_of(memory, first, CuratedStrategy(memory)).say("My name is Ada.")
    began = words(first.last, ChatRole.SYSTEM)
    assert "Her name is Ada." not in began
    async with elytron.open(store, space="ada") as memory:
        second = ScriptedChat(text("I keep it in mind."), text("You are Ada."))
        agent = agent_of(memory, second, CuratedStrategy(memory))
        await heard(agent.resume())
        assert words(second.last, ChatRole.SYSTEM) == began
        await agent.say("Who am I?")
        assert "Her name is Ada." in words(second.last, ChatRole.SYSTEM)


async def test_an_erased_snapshot_is_recreated() -> None:
    store = KeptStore()
    async with elytron.open(store, space="ada") as memory:
        kept = await memory.add("A word of another day.", conversation="old")
    first = ScriptedChat(calls(("memory", ADD)), calls(("pause", {})))
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await agent_of(memory, first, CuratedStrategy(memory)).say("My name is Ada.")
    async with elytron.open(store, space="ada") as memory:
        erased = kept.decisions[0].id
        assert erased is not None
        await memory.erase(erased)
        second = ScriptedChat(text("I keep it in mind."))
        await heard(agent_of(memory, second, CuratedStrategy(memory)).resume())
        assert "Her name is Ada." in words(second.last, ChatRole.SYSTEM)


async def test_a_resumed_run_keeps_its_initial_blocks() -> None:
    store = KeptStore()
    first = ScriptedChat(calls(("memory_append", {"block": "human", "content": "Likes tea."})), calls(("pause", {})))
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await agent_of(memory, first, RuntimeStrategy(memory)).say("I like tea.")
    async with elytron.open(store, space="ada") as memory:
        assert (await BlockRepository(memory).read("human")).value == "Likes tea."
        second = ScriptedChat(text("Noted."))
        await heard(agent_of(memory, second, RuntimeStrategy(memory)).resume())
        assert blocks_in(words(second.last, ChatRole.USER)) == blocks_in(words(first.last, ChatRole.USER))


def blocks_in(said: str) -> str:
    return said.partition("<memory_blocks>")[2].partition("</memory_blocks>")[0]


@pytest.mark.parametrize("path", ["/memories/add", "/memories/flush"])
async def test_an_add_with_an_unknown_outcome_is_repeated_under_its_key(road: Road, path: str) -> None:
    def ends(_request: httpx.Request) -> httpx.Response:
        raise Ended

    def strategy_of(memory: MemoryFace) -> GatewayStrategy:
        return GatewayStrategy(road.place, tell=stored_events(memory))

    store = KeptStore()
    road.broken = {path: ends}
    model = ScriptedChat(text("I keep it in mind."))
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await agent_of(memory, model, strategy_of(memory)).say("The boiler code is 4417.")
    road.broken = {}
    async with elytron.open(store, space="ada") as memory:
        model = ScriptedChat(text("It is 4417."))
        agent = agent_of(memory, model, strategy_of(memory))
        (*_, ended) = await heard(agent.resume())
        assert ended.kind == "run_ended"
        assert (await agent.head()).open is None
        sent = [body for at, body in road.sent if at == "/memories/add"]
        assert len(sent) == 2
        assert sent[0] == sent[1]
        assert [at for at, _ in road.sent].count("/memories/flush") == (1 if path == "/memories/add" else 2)
        await agent.say("What is the boiler code?")
    found = words(model.last, ChatRole.USER)
    assert found.count("The boiler code is 4417.") == 2  # in the history, and once as a reference
