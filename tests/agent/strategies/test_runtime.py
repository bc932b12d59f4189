"""The strategy `runtime`: an Elytron store, with blocks before the history and recall behind it."""

from pathlib import Path

import pytest
from tests.agent.places import AT, EVERYWHERE

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    BlockRepository,
    CallKey,
    ReferencePlacement,
    RunEnding,
    RuntimeSettings,
    RuntimeStrategy,
    Tool,
    TurnExchange,
)
from elytron_agent.strategies.loader import RULE
from elytron_core.clock import Instant
from elytron_core.policy.projection.builder import POLICY

pytestmark = pytest.mark.anyio


def exchange(
    prompt: str, answer: str, *, ending: RunEnding = RunEnding.COMPLETED, turn: str | None = None
) -> TurnExchange:
    return TurnExchange(
        prompt=prompt, answer=answer, asked_at=AT, answered_at=Instant(AT - 5), ending=ending, turn=turn
    )


def tool_of(tools: tuple[Tool, ...], name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


@EVERYWHERE
async def test_a_run_starts_with_blocks_and_earlier_memories(memory: MemoryFace) -> None:
    strategy = RuntimeStrategy(memory)
    first = await strategy.before_run("monday", "The boiler code is 4417.")
    assert first.system == RULE
    assert '<block label="human"' in first.standing
    assert "I am a helpful AI assistant." in first.standing
    assert first.reference is None
    await strategy.after_run("monday", exchange("The boiler code is 4417.", "I keep it in mind."))
    second = await strategy.before_run("tuesday", "What is the boiler code?")
    assert second.placement is ReferencePlacement.TAIL
    assert second.reference is not None
    assert second.reference.startswith(POLICY)
    assert "The boiler code is 4417." in second.reference
    assert (second.system, second.standing) == (first.system, first.standing)


async def test_an_edit_of_a_block_shows_in_the_next_run(memory: MemoryFace) -> None:
    strategy = RuntimeStrategy(memory, settings=RuntimeSettings(agent="helper", shared_blocks=("human",)))
    await BlockRepository(memory).create_missing()
    run = await strategy.before_run("c", "Hello.")
    answer = await tool_of(run.tools, "memory_append").call(
        {"block": "human", "content": "Name: Ada"}, CallKey("r", 1, "c")
    )
    assert not answer.is_error
    assert "Name: Ada" not in run.standing
    assert "Name: Ada" in (await strategy.before_run("c", "Hello.")).standing
    assert (await BlockRepository(memory).read("human")).value == "Name: Ada"


async def test_a_turn_is_stored_once_unless_the_run_failed_or_the_host_stored_it(memory: MemoryFace) -> None:
    strategy = RuntimeStrategy(memory)
    for _ in range(2):
        await strategy.after_run("c", exchange("Hello.", "Hi.", turn="turn-1"))
    await strategy.after_run("c", exchange("This fails.", "", ending=RunEnding.FAILED))
    await strategy.after_run("c", exchange("Stored.", "Yes.").model_copy(update={"is_stored": True}))
    turns = (await memory.replay("c")).turns
    assert [[message.text for message in turn.messages] for turn in turns] == [["Hello.", "Hi."]]
    await strategy.close()


async def test_private_threads_are_not_recalled(memory: MemoryFace) -> None:
    await memory.add("The safe code is violet.", conversation="secret", metadata={"private": True})
    found = await RuntimeStrategy(memory).before_run("c", "What is the safe code?")
    assert found.reference is None


async def test_an_echoed_reference_is_not_stored(memory: MemoryFace) -> None:
    strategy = RuntimeStrategy(memory)
    await strategy.after_run("c", exchange("The boiler code is 4417.", "Noted."))
    reference = (await strategy.before_run("d", "boiler code")).reference
    assert reference is not None
    await strategy.after_run("d", exchange(f"{reference}\n\nWhat colour is it?", "Green."))
    (turn,) = (await memory.replay("d")).turns
    assert turn.messages[0].text == "What colour is it?"


async def test_a_failing_or_slow_memory_does_not_affect_the_run(tmp_path: Path) -> None:
    async with elytron.open(str(tmp_path / "m.db"), space="ada") as memory:
        slow = RuntimeStrategy(memory, settings=RuntimeSettings(timeout_seconds=1e-9))
        run = await slow.before_run("c", "Hello.")
        assert (run.system, run.standing, run.reference) == (RULE, "", None)
        strategy = RuntimeStrategy(memory)
    run = await strategy.before_run("c", "Hello.")
    assert (run.system, run.standing, run.reference) == (RULE, "", None)
    await strategy.after_run("c", exchange("Hello.", "Hi."))
    answer = await tool_of(run.tools, "session_search").call({"query": "hello"}, CallKey("r", 1, "c"))
    assert answer.is_error


async def test_sessions_are_searched_by_words(memory: MemoryFace) -> None:
    await memory.add("The ferry leaves at six.", conversation="s1")
    await memory.add("The bus leaves at seven.", conversation="s2")
    run = await RuntimeStrategy(memory).before_run("c", "Hello.")
    search = tool_of(run.tools, "session_search")
    found = (await search.call({"query": "ferry"}, CallKey("r", 1, "c"))).text
    assert "The ferry leaves at six." in found.splitlines()[0]
    assert "in s1]" in found.splitlines()[0]
    narrowed = (await search.call({"query": "leaves", "session_id": "s2"}, CallKey("r", 1, "c"))).text
    assert narrowed.splitlines()[0].count("bus") == 1
    assert "ferry" not in narrowed
