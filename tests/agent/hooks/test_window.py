"""Compaction and maintenance: nothing leaves the context without being summarized (rows G15, G16)."""

import pytest
from tests.agent.hooks.turns import asked, parts, reference, said, told
from tests.agent.places import EVERYWHERE

from elytron.api import MemoryFace
from elytron_agent import HookSettings, TurnHooks
from elytron_agent.hooks.messages import items_of
from elytron_agent.hooks.window import ItemGroup, extend_lines
from elytron_core.clock import FrozenClock
from elytron_core.contracts.continuity import ContinuityRequest
from elytron_models.chat_messages import Json

pytestmark = pytest.mark.anyio

LONG = "about the tides of the estuary and the boats that lie there, " * 4


async def talk(hooks: TurnHooks, turns: int, *, first: int = 0) -> None:
    for number in range(first, first + turns):
        await told(hooks, f"Question {number} {LONG}", f"Answer {number} {LONG}", turn_id=f"t{number}")


async def covered(memory: MemoryFace) -> int:
    summary = (await memory.read_continuity(ContinuityRequest())).summary
    return summary.through_sequence if summary is not None else 0


async def test_g15_below_four_fifths_nothing_is_summarized(hooks: TurnHooks, memory: MemoryFace) -> None:
    await talk(hooks, 4)
    whole = await asked(hooks, "And now?")
    report = await asked(hooks, "And now?", max_input_tokens=int(whole.context_tokens / 0.8) + 2)
    assert (report.compacted, report.recent_items, await covered(memory)) == (0, 8, 0)


@EVERYWHERE
async def test_g15_at_four_fifths_older_turns_become_a_summary(hooks: TurnHooks, memory: MemoryFace) -> None:
    await talk(hooks, 4)
    whole = await asked(hooks, "And now?")
    most = int(whole.context_tokens / 0.8)
    report = await asked(hooks, "And now?", max_input_tokens=most)
    assert report.compacted > 0
    assert report.context_tokens < most * 0.8
    assert report.compacted + report.recent_items == 8
    summary = reference(report)["summary"]
    kept = "\n".join(parts(report))
    assert all((f"user: Question {number}" in summary) != (f"Question {number}" in kept) for number in range(4))
    assert await covered(memory) == report.compacted // 2
    again = await asked(hooks, "And now?", max_input_tokens=most)
    assert (reference(again)["summary"], again.recent_items) == (summary, report.recent_items)


async def test_g15_a_summary_is_carried_forward(hooks: TurnHooks) -> None:
    await talk(hooks, 4)
    await asked(hooks, "And now?", max_input_tokens=700)
    await talk(hooks, 4, first=4)
    report = await asked(hooks, "And now?", max_input_tokens=1_200)
    told_of = reference(report)["summary"] + "\n".join(parts(report))
    assert all(f"Question {number}" in told_of for number in range(8))


async def test_g15_history_sent_by_the_host_is_summarized_too(hooks: TurnHooks, memory: MemoryFace) -> None:
    history: list[Json] = []
    for number in range(6):
        history.append(said("user", f"Question {number} {LONG}"))
        async with hooks.turn(history) as turn:
            turn.answered(f"Answer {number} {LONG}")
        history.append(said("assistant", f"Answer {number} {LONG}"))
    messages = [said("system", "Be kind."), *history, said("user", "And now?")]
    report = await asked(hooks, messages, max_input_tokens=900)
    assert report.compacted > 0
    assert (parts(report)[0], parts(report)[-1]) == ("Be kind.", "And now?")
    told_of = reference(report)["summary"] + "\n".join(parts(report))
    assert all(f"Question {number}" in told_of for number in range(6))
    assert await covered(memory) == report.compacted // 2


async def test_g15_summarized_content_can_still_be_found(hooks: TurnHooks) -> None:
    await told(hooks, "The spare key of the boat house hangs behind the blue barometer.")
    await talk(hooks, 6)
    await asked(hooks, "And now?", max_input_tokens=600)
    report = await asked(hooks, "Where does the spare key of the boat house hang?", max_input_tokens=600)
    assert "barometer" in str(reference(report)["chunks"])


@EVERYWHERE
async def test_g16_maintenance_summarizes_beyond_twice_the_recent_items(memory: MemoryFace, clock: FrozenClock) -> None:
    hooks = TurnHooks(memory, settings=HookSettings(recent_items=4), clock=clock)
    for number in range(3):
        await told(hooks, f"Question {number}", f"Answer {number}", turn_id=f"t{number}")
    await hooks.maintain()
    assert await covered(memory) == 0
    for number in range(3, 6):
        await told(hooks, f"Question {number}", f"Answer {number}", turn_id=f"t{number}")
    report = await hooks.maintain()
    assert report.refused is None
    assert await covered(memory) == 4
    context = await asked(hooks, "And now?")
    assert parts(context)[2:] == ["Question 4", "Answer 4", "Question 5", "Answer 5", "And now?"]
    assert "user: Question 0" in reference(context)["summary"]


async def test_g16_old_turns_are_summarized_automatically(memory: MemoryFace, clock: FrozenClock) -> None:
    hooks = TurnHooks(memory, settings=HookSettings(recent_items=4), clock=clock)
    for number in range(8):
        await told(hooks, f"Question {number}", f"Answer {number}", turn_id=f"t{number}")
    assert await covered(memory) == 6


def test_a_summary_keeps_its_newest_lines() -> None:
    groups = [ItemGroup(items=items_of(said("user", f"{number} {'x' * 300}"))) for number in range(60)]
    summary = extend_lines("user: the oldest line", groups)
    lines = summary.splitlines()
    assert len(summary) <= 8_000
    assert (lines[-1][:8], "user: the oldest line" in lines) == ("user: 59", False)
    assert extend_lines(summary, groups[-3:]) == summary
