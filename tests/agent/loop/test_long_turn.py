"""A turn of many calls in a small window: no request exceeds it, and the store grows with the results."""

import json
from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, calls, results, text
from tests.agent.places import Ended

import elytron
from elytron.api import MemoryFace
from elytron_agent import Agent, AgentSettings, CallKey, RunBudget, RunEnded, StopReason, Tool, ToolAnswer
from elytron_core.clock import FrozenClock
from elytron_core.ports.chat import ModelRequest, ToolResult
from elytron_turn.sizes import bytes_of

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object"}
WINDOW, CHARS = 20_000, 5_000


def page_of(number: int, size: int = CHARS) -> str:
    """Return a text that contains its number once, in the middle."""
    filler = "The tide table of the harbour has many lines and says little else. " * (size // 50)
    return f"{filler[: size // 2]} The berth {number * 7919} is free. {filler}"[:size]


def agent_of(memory: MemoryFace, model: ScriptedChat, *, size: int = CHARS, **settings: object) -> Agent:
    async def fetch(given: object, key: CallKey, /) -> ToolAnswer:
        return ToolAnswer(text=page_of(key.step, size), is_outside=True)

    budget = RunBudget(steps=100, calls=1_000, tokens=None)
    values = {"enabled": True, "recall_deadline_s": 0, "budget": budget, "max_context_tokens": WINDOW} | settings
    tool = Tool("fetch", "Fetch a page.", SCHEMA, fetch, read_only=True)
    made = AgentSettings.model_validate(values)
    return Agent(memory, model, (tool,), settings=made, clock=FrozenClock(step_ms=1))


def tokens_of(request: ModelRequest) -> float:
    return bytes_of(request.messages, request.tools) / 4


def stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def talk(folder: Path, steps: int) -> tuple[ScriptedChat, RunEnded, int]:
    folder.mkdir()
    model = ScriptedChat(
        *[calls(("fetch", {"page": number}), said=f"Page {number}.") for number in range(steps - 1)], text("Read.")
    )
    async with elytron.open(str(folder / "m.db"), space="ada") as memory:
        end = await agent_of(memory, model).say("Read all pages.")
    return model, end, stored_bytes(folder)


async def test_a_turn_of_100_calls_fits_its_window_and_grows_with_its_results(tmp_path: Path) -> None:
    model, end, whole = await talk(tmp_path / "whole", 100)
    assert (end.reason, end.usage.steps, end.usage.calls) == (StopReason.ANSWERED, 100, 99)
    assert max(map(tokens_of, model.asked)) <= WINDOW
    # A step sees the results of the previous one.
    for number, request in enumerate(model.asked[1:], 1):
        assert f"The berth {number * 7919} is free." in results(request)[-1]
    _, _, half = await talk(tmp_path / "half", 51)
    assert whole <= 3 * 99 * CHARS
    assert whole <= 2.3 * half


async def test_most_steps_of_a_long_turn_keep_the_prefix_of_the_one_before(memory: MemoryFace) -> None:
    model = ScriptedChat(*[calls(("fetch", {"page": number})) for number in range(59)], text("Read."))
    await agent_of(memory, model).say("Read all pages.")
    pairs = zip(model.asked, model.asked[1:], strict=False)
    kept = [later.messages[: len(earlier.messages)] == earlier.messages for earlier, later in pairs]
    assert sum(kept) >= 0.75 * len(kept)


async def test_results_set_aside_become_a_line_that_the_model_can_read_again(memory: MemoryFace) -> None:
    asked = calls(
        ("read_result", {"id": "2.0"}), ("read_result", {"query": f"berth {3 * 7919} free"}), ("read_result", {})
    )
    model = ScriptedChat(*[calls(("fetch", {"page": number})) for number in range(12)], asked, text("Found."))
    await agent_of(memory, model).say("Read all pages.")
    line = "[`fetch`: 5,000 characters, archived; `read_result` reads them, id 2.0]"
    assert line in results(model.last)
    whole, found, listed = results(model.last)[-3:]
    assert f"The berth {2 * 7919} is free." in whole
    assert "characters 0 to 4,000 of 5,000" in whole
    assert "3.0 (`fetch`), from character" in found
    assert f"The berth {3 * 7919} is free." in found
    assert "id 12.0" in listed
    # Outside text stays in its fence wherever it is read.
    assert all(each.startswith("<memory-") for each in (whole, found))
    assert "read_result" in {tool.name for tool in model.last.tools}
    assert "read_result" not in {tool.name for tool in model.asked[0].tools}
    said = [hit.text for hit in (await memory.recall("berth", limit=50)).hits]
    assert not [each for each in said if "characters 0 to" in each]


async def test_results_of_one_step_that_do_not_fit_are_set_aside_too(memory: MemoryFace) -> None:
    model = ScriptedChat(calls(*[("fetch", {"page": number}) for number in range(20)]), text("Read."))
    await agent_of(memory, model).say("Read all pages at once.")
    assert max(map(tokens_of, model.asked)) <= WINDOW
    assert any("archived" not in each for each in results(model.last))


async def test_steps_whose_calls_fill_the_window_are_omitted(memory: MemoryFace) -> None:
    long = json.dumps({"words": "tide " * 1_500})
    model = ScriptedChat(*[calls(("fetch", long), said="A page. " * 300) for _ in range(30)], text("Read."))
    await agent_of(memory, model, size=100).say("Read all pages.")
    assert max(map(tokens_of, model.asked)) <= WINDOW
    assert any("are no longer shown" in message.model_dump_json() for message in model.last.messages)


async def test_a_later_run_is_shown_a_long_turn_within_its_window(memory: MemoryFace) -> None:
    model = ScriptedChat(*[calls(("fetch", {"page": number})) for number in range(60)], text("Read."), text("Yes."))
    agent = agent_of(memory, model)
    await agent.say("Read all pages.")
    await agent.say("Did you?")
    assert tokens_of(model.last) <= WINDOW
    shown = [message for message in model.last.messages if isinstance(message, ToolResult)]
    assert sum(len(message.text) for message in shown if "no longer shown" not in message.text) <= 8_000


async def test_an_interrupted_long_turn_continues_within_its_window(tmp_path: Path) -> None:
    url = str(tmp_path / "m.db")

    def end(_request: ModelRequest) -> list[object]:
        raise Ended

    async def run(model: ScriptedChat) -> RunEnded:
        async with elytron.open(url, space="ada") as memory:
            return await agent_of(memory, model).say("Read all pages.", run_id="r")

    steps = [calls(("fetch", {"page": number})) for number in range(30)]
    with pytest.raises((Ended, BaseExceptionGroup)):
        await run(ScriptedChat(*steps, end))  # pyright: ignore[reportArgumentType]
    model = ScriptedChat(text("Read."))
    assert (await run(model)).text == "Read."
    assert tokens_of(model.last) <= WINDOW
