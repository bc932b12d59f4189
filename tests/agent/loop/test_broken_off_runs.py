"""Runs whose process ends at any commit: another process continues, and nothing is lost or repeated."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.agent.chat_script import ScriptedChat, calls, heard, results, text
from tests.agent.places import Ended, KeptStore

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    BlockRepository,
    CallKey,
    RunEnded,
    RunStarted,
    StopReason,
    Tool,
    ToolAnswered,
)
from elytron_core.clock import FrozenClock
from elytron_core.contracts.transcript import MemoryTranscriptReplayRequest
from elytron_core.ports.chat import ModelEvent, ModelReply, ModelRequest
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_core.scope import Scope
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class EndingStore(PassingStore):
    """A store whose process ends at the commit number `at`, before or after it."""

    def __init__(self, store: MemoryStore, /, *, at: int, after: bool) -> None:
        super().__init__(store)
        self.commits = 0
        self._at, self._after = at, after

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self.commits += 1
        if self.commits == self._at and not self._after:
            raise Ended
        committed = await self._inner.commit(batch)
        if self.commits >= self._at:
            raise Ended
        return committed

    async def close(self) -> None:
        """Hand the store to the next process."""


@dataclass
class World:
    """Effects of tools. `note` has one effect per key, `pay` one per call."""

    notes: set[CallKey] = field(default_factory=set[CallKey])
    paid: list[CallKey] = field(default_factory=list[CallKey])

    def tools(self) -> tuple[Tool, Tool, Tool]:
        async def look(given: object, key: CallKey, /) -> str:
            return "a boat"

        async def note(given: object, key: CallKey, /) -> str:
            self.notes.add(key)
            return "noted"

        async def pay(given: object, key: CallKey, /) -> str:
            self.paid.append(key)
            return "paid"

        schema = {"type": "object"}
        note_tool = Tool("note", "Note.", schema, note, may_repeat=True)
        return note_tool, Tool("pay", "Pay.", schema, pay), Tool("look", "Look.", schema, look, read_only=True)


STEPS = (
    calls(("note", {}), said="First."),
    calls(("pay", {})),
    calls(("look", {})),
    calls(("look", {}), ("note", {}), ("pay", {})),
    calls(("memory_append", {"block": "human", "content": "Likes the sea."})),
    calls(("archival_insert", {"content": "The boat is called Marimba."})),
    text("All done."),
)


def by_step(request: ModelRequest) -> list[ModelEvent]:
    """Answer by the number of replies in the request, so that a resumed run gets the same answers."""
    return list(STEPS[sum(isinstance(message, ModelReply) for message in request.messages)])


@asynccontextmanager
async def process(
    store: PassingStore | MemoryStore, world: World, *, late_s: int = 0
) -> AsyncGenerator[tuple[MemoryFace, Agent]]:
    """Open a memory and an agent; `late_s` is after the lease of a dead process."""
    clock = FrozenClock(step_ms=1)
    clock.advance(late_s * 1000)
    async with elytron.open(store, space="ada", clock=FrozenClock(step_ms=1)) as memory:
        settings = AgentSettings(enabled=True, recall_deadline_s=30)
        agent = Agent(memory, ScriptedChat(by_step), world.tools(), settings=settings, clock=clock)
        yield memory, agent
        await agent.close()


async def ended_at(store: MemoryStore, world: World, at: int, *, after: bool) -> bool:
    """Run until the commit number `at`; return whether the process ended there."""
    dying = EndingStore(store, at=at, after=after)
    try:
        async with process(dying, world) as (_, agent):
            await agent.say("Do it all.", run_id="run")
    except (Ended, BaseExceptionGroup):
        return True
    return False


@pytest.mark.parametrize("after", [False, True])
async def test_a_process_killed_at_any_commit_loses_and_duplicates_nothing(*, after: bool) -> None:
    at, unknown = 0, 0
    while True:
        at += 1
        store, world = KeptStore(), World()
        if not await ended_at(store, world, at, after=after):
            break
        async with process(store, world, late_s=60) as (memory, agent):
            events = await heard(agent.run("Do it all.", run_id="run"))
            end = events[-1]
            assert isinstance(end, RunEnded), at
            assert (end.reason, end.usage.steps) == (StopReason.ANSWERED, 7), at
            assert (await agent.head()).open is None
            unknown += sum(event.is_unknown for event in events if isinstance(event, ToolAnswered))
            assert len(world.notes) == 2, at
            assert max(Counter(world.paid).values(), default=0) <= 1, at
            scope = Scope(space="ada", conversation="main")
            told = await memory.replay_transcript(MemoryTranscriptReplayRequest(scope=scope))
            assert [turn.host_turn_id for turn in told.slice.turns] == ["run"], at
            assert (await BlockRepository(memory).read("human")).value == "Likes the sea.", at
            found = await memory.recall("what is the boat called?", filters={"run_id": "archival"})
            assert [hit.text for hit in found.hits].count("The boat is called Marimba.") == 1, at
    assert at > 15
    # Only the two calls of `pay`, where the process ended between a reply or earlier result and its own result.
    assert unknown == 2


@pytest.mark.parametrize(("reads", "commits"), [(True, 3), (False, 4)])
async def test_a_turn_with_one_tool_has_few_commits(*, reads: bool, commits: int) -> None:
    async def act(given: object, key: CallKey, /) -> str:
        return "seen"

    tool = Tool("act", "Act.", {"type": "object"}, act, read_only=reads)
    store = EndingStore(KeptStore(), at=1000, after=False)
    async with elytron.open(store, space="ada") as memory:
        agent = Agent(memory, ScriptedChat(text("Hello."), calls(("act", {})), text("A boat.")), (tool,))
        await agent.say("Good morning.")
        before = store.commits
        end = await agent.say("What is in the harbour?")
    assert (end.usage.steps, store.commits - before) == (2, commits)


async def test_a_non_repeatable_call_is_reported_as_unknown_and_not_repeated() -> None:
    store, world = KeptStore(), World()

    async def die(given: object, key: CallKey, /) -> str:
        world.paid.append(key)
        raise Ended

    broken = Tool("pay", "Pay.", {"type": "object"}, die)
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await Agent(memory, ScriptedChat(calls(("pay", {}))), (broken,)).say("Pay.")
    async with elytron.open(store, space="ada") as memory:
        model = ScriptedChat(text("I do not know whether it was paid."))
        agent = Agent(memory, model, (broken,))
        events = await heard(agent.resume())
    assert isinstance(events[0], RunStarted)
    assert events[0].is_resumed
    assert len(world.paid) == 1
    assert "Outcome unknown" in results(model.last)[0]


async def test_an_interrupted_run_can_be_cancelled_and_its_question_stays() -> None:
    store = KeptStore()
    async with elytron.open(store, space="ada") as memory:
        agent = Agent(memory, ScriptedChat(text("One "), text("Two.")))
        async with aclosing(agent.run("Tell me of the harbour.")) as events:
            async for event in events:
                if event.kind == "text_said":
                    break
        end = await agent.cancel()
        assert end is not None
        assert (end.reason, end.text) == (StopReason.CANCELLED, "")
        assert await agent.cancel() is None
        found = await memory.recall("harbour")
        assert [hit.text for hit in found.hits] == ["Tell me of the harbour."]
