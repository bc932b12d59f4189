"""The lease of a thread: two processes never run it at once, and a dead one's run is resumed."""

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.agent.chat_script import ScriptedChat, calls, heard, text
from tests.agent.jumping_loop import JUMPING, LoopClock
from tests.agent.places import Ended, KeptStore

import elytron
from elytron.api import MemoryFace
from elytron_agent import Agent, AgentSettings, CallKey, RunEnded, RunStarted, StopReason, ThreadAwaited, Tool, limits
from elytron_agent.runs.process import own_process
from elytron_agent.runs.thread import holds_thread
from elytron_core.clock import Clock, FrozenClock, Instant, SystemClock
from elytron_core.errors import Conflict, IdempotencyConflict, Overloaded, ThreadBusy
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore
from elytron_turn.context import ThreadLease

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object"}


def agent_of(memory: MemoryFace, model: ScriptedChat, *tools: Tool, clock: Clock | None = None, **more: Any) -> Agent:
    settings = AgentSettings.model_validate({"enabled": True, "recall_deadline_s": 0, "wait_seconds": 0} | more)
    return Agent(memory, model, tools, settings=settings, clock=clock or FrozenClock(step_ms=1))


def later(seconds: float) -> FrozenClock:
    clock = FrozenClock(step_ms=1)
    clock.advance(round(seconds * 1000))
    return clock


class DeadStore(PassingStore):
    """A store whose process dies after `left` commits: nothing more arrives."""

    def __init__(self, store: MemoryStore, left: int) -> None:
        super().__init__(store)
        self.left = left

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self.left == 0:
            raise Ended
        self.left -= 1
        return await self._inner.commit(batch)

    async def close(self) -> None:
        pass


async def test_a_second_runtime_on_one_file_is_busy_during_a_run(tmp_path: Path) -> None:
    url = str(tmp_path / "m.db")
    begun, free = asyncio.Event(), asyncio.Event()

    async def work(_given: object, _key: CallKey, /) -> str:
        begun.set()
        await free.wait()
        return "done"

    async with elytron.open(url, space="ada") as one, elytron.open(url, space="ada") as two:
        first = agent_of(one, ScriptedChat(calls(("work", {})), text("First.")), Tool("work", "Work.", SCHEMA, work))
        second = agent_of(two, ScriptedChat(text("Second.")))
        run = asyncio.ensure_future(first.say("Work."))
        await begun.wait()
        for attempt in (
            second.say("And?"),
            heard(second.resume()),
            second.cancel(),
            second.compact(),
            second.welcome(),
        ):
            with pytest.raises(ThreadBusy):
                await attempt
        free.set()
        assert (await run).text == "First."
        assert (await second.say("And?")).text == "Second."
        assert len((await first.head()).window) == 2
        assert (await first.head()).lease is None


async def test_the_run_of_a_dead_process_continues_after_its_lease() -> None:
    store = KeptStore()
    with pytest.raises((Ended, BaseExceptionGroup)):
        async with elytron.open(DeadStore(store, 3), space="ada") as memory:
            await agent_of(memory, ScriptedChat(calls(("conversation_search", {"query": "x"})))).say("Who answers?")
    async with elytron.open(store, space="ada") as memory:
        with pytest.raises(ThreadBusy):
            await agent_of(memory, ScriptedChat(text("I do."))).say("And now?")
        agent = agent_of(memory, ScriptedChat(text("I do.")), clock=later(limits.LEASE_SECONDS + 1))
        events = await heard(agent.resume())
        assert isinstance(events[0], RunStarted)
        assert events[0].input == "Who answers?"
        assert isinstance(events[-1], RunEnded)


def test_no_turn_waits_for_the_lease_of_a_killed_local_process() -> None:
    if not own_process():
        return  # a process has an identity only on systems with /proc
    script = "from elytron_agent.runs.process import own_process; print(own_process(), flush=True); input()"
    command = (sys.executable, "-c", script)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lease = ThreadLease(holder="other", until=Instant(2_000), process=process.stdout.readline().strip())
        assert holds_thread(lease, Instant(1_000))
        process.kill()
        process.wait()
        assert not holds_thread(lease, Instant(1_000))
    elsewhere = lease.model_copy(update={"process": f"another-machine.{os.getpid()}.1"})
    assert holds_thread(elsewhere, Instant(1_000))
    assert not holds_thread(elsewhere, Instant(2_000))


async def test_a_question_and_its_thread_are_stored_atomically() -> None:
    left = 0
    while True:
        store = KeptStore()
        try:
            async with elytron.open(DeadStore(store, left), space="ada") as memory:
                await agent_of(memory, ScriptedChat(text("Yes."))).say("Is the harbour open?")
            break
        except (Ended, BaseExceptionGroup):
            left += 1
        async with elytron.open(store, space="ada") as memory:
            agent = agent_of(memory, ScriptedChat(text("Yes.")), clock=later(60))
            resumed = [event for event in await heard(agent.resume()) if isinstance(event, RunEnded)]
            is_stored = any("harbour" in str(document) for document in await bodies(store))
            assert is_stored is bool(resumed or (await memory.recall("harbour")).hits), left
    assert left > 4


async def bodies(store: MemoryStore) -> list[bytes]:
    return [
        document.body
        for collection in ("runtime_records", "turns")
        for document in await store.scan(SpaceId("ada"), collection, limit=1_000)
    ]


async def test_a_process_without_its_lease_stores_nothing_more() -> None:
    store = KeptStore()
    async with elytron.open(store, space="ada") as memory:
        first = agent_of(memory, ScriptedChat(text("First.")))
        second = agent_of(memory, ScriptedChat(text("Second.")), clock=later(60))
        async with aclosing(first.run("Who answers?")) as events:
            async for event in events:
                if event.kind == "text_said":
                    break
            assert (await heard(second.resume()))[-1].kind == "run_ended"
            with pytest.raises(Conflict):
                await heard(events)
        assert [hit.text for hit in (await memory.recall("who answers?")).hits].count("First.") == 0


async def test_an_abandoned_run_frees_its_thread(tmp_path: Path) -> None:
    async with elytron.open(str(tmp_path / "m.db"), space="ada") as memory:
        first = agent_of(memory, ScriptedChat(text("First.")))
        async with aclosing(first.run("Who answers?")) as events:
            async for event in events:
                if event.kind == "text_said":
                    break
        assert (await heard(agent_of(memory, ScriptedChat(text("Second."))).resume()))[-1].kind == "run_ended"


async def test_run_ids_are_per_agent_and_conflict_with_other_input(memory: MemoryFace) -> None:
    main, helper = ScriptedChat(text("Noted.")), ScriptedChat(text("Hello."))
    agent = agent_of(memory, main)
    other = Agent(memory, helper, name="helper")
    first = await agent.say("My secret is X1.", run_id="req-1")
    assert (await other.say("Hello?", run_id="req-1")).text == "Hello."
    assert await agent.say("My secret is X1.", run_id="req-1") == first
    unstored = heard(agent.run("My secret is X1.", run_id="req-1", store=False))
    for attempt in (agent.say("Another question.", run_id="req-1"), unstored):
        with pytest.raises(IdempotencyConflict):
            await attempt
    assert first.turn is not None
    await memory.erase(first.turn)
    assert (await other.say("Hello?", run_id="req-1")).text == "Hello."
    assert len(helper.asked) == 1


async def test_the_number_of_runs_waiting_for_a_thread_is_limited(memory: MemoryFace) -> None:
    agent = agent_of(memory, ScriptedChat(text("Yes.")))
    asked = [agent.say(f"{number}?") for number in range(limits.QUEUED_RUNS + 3)]
    ends = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(end, Overloaded) for end in ends) == 2
    assert sum(isinstance(end, RunEnded) for end in ends) == limits.QUEUED_RUNS + 1


@pytest.mark.parametrize("anyio_backend", [JUMPING])
async def test_a_lease_is_renewed_during_a_run_and_others_wait() -> None:
    store = KeptStore()

    async def work(_given: object, _key: CallKey, /) -> str:
        await asyncio.sleep(100)
        return "done"

    async with elytron.open(store, space="ada") as one, elytron.open(store, space="ada") as two:
        tool = Tool("work", "Work.", SCHEMA, work)
        first = agent_of(one, ScriptedChat(calls(("work", {})), text("First.")), tool, clock=LoopClock())
        run = asyncio.ensure_future(first.say("Work."))
        await asyncio.sleep(60)
        with pytest.raises(ThreadBusy):
            await agent_of(two, ScriptedChat(text("Second.")), clock=LoopClock(), wait_seconds=25).say("And?")
        patient = agent_of(two, ScriptedChat(text("Second.")), clock=LoopClock(), wait_seconds=25)
        first_event, *_, end = await heard(patient.run("And?"))
        assert first_event == ThreadAwaited(thread="main", wait_s=25)
        assert isinstance(end, RunEnded)
        assert (end.reason, end.text, run.done()) == (StopReason.ANSWERED, "Second.", True)


@pytest.mark.parametrize("store", [True, False])
async def test_an_unstored_run_leaves_nothing_on_disk_or_for_later_runs(tmp_path: Path, *, store: bool) -> None:
    canaries = ("sesame1", "poppy2", "cumin3", "nigella4")

    async def look(_given: object, _key: CallKey, /) -> str:
        return "The page says cumin3."

    wanted = calls(("look", {"at": "nigella4"}), ("memory_append", {"block": "human", "content": "sesame1"}))
    model = ScriptedChat(wanted, text("I see poppy2."), text("Hello."))
    async with elytron.open(str(tmp_path / "m.db"), space="ada") as memory:
        agent = agent_of(memory, model, Tool("look", "Look.", SCHEMA, look))
        await heard(agent.run("My word is sesame1.", store=store))
        offered = {tool.name for tool in model.asked[0].tools}
        assert ("memory_append" in offered, "look" in offered) == (store, True)
        await agent.say("Hello?")
        assert ("sesame1" in model.last.model_dump_json()) is store
        assert (await agent.head()).runs == 1 + store
        on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert [word.encode() in on_disk for word in canaries] == [store] * 4
    on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [word.encode() in on_disk for word in canaries] == [store] * 4


CHILD = """
import asyncio, sys, elytron
from elytron_agent import Agent, Tool
from elytron_core.ports.chat import FinishReason, ModelInfo, ReplyFinished, ToolCall

class Calls:
    info = ModelInfo(name="calls")
    async def stream(self, request, /):
        yield ToolCall(id="c", name="work", arguments="{}")
        yield ReplyFinished(reason=FinishReason.TOOLS)

async def work(given, key, /):
    print("live", flush=True)
    await asyncio.Event().wait()

async def main():
    async with elytron.open(sys.argv[1], space="ada") as memory:
        await Agent(memory, Calls(), [Tool("work", "Work.", {"type": "object"}, work)]).say("Work.", run_id="r")

asyncio.run(main())
"""


class Ahead(SystemClock):
    """The machine's clock after the lease of a dead process."""

    def now(self, /) -> Instant:
        return Instant(super().now() + round(limits.LEASE_SECONDS * 1000) + 1)


async def test_the_second_process_continues_a_run_after_the_first_is_killed(tmp_path: Path) -> None:
    url = str(tmp_path / "m.db")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", CHILD, url], stdout=subprocess.PIPE, env=environment)
    try:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"live\n"
        async with elytron.open(url, space="ada") as memory:
            with pytest.raises(ThreadBusy):
                await agent_of(memory, ScriptedChat(text("Mine.")), clock=SystemClock()).say("And?")
            child.kill()
            await asyncio.to_thread(child.wait)
            agent = agent_of(memory, ScriptedChat(text("Unknown.")), clock=Ahead())
            ends = [event for event in await heard(agent.resume()) if isinstance(event, RunEnded)]
            assert [(end.run, end.text) for end in ends] == [("r", "Unknown.")]
    finally:
        child.kill()
        child.communicate()
