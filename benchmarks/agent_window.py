"""Check that content of a long conversation is recalled as well after it leaves the agent's window as before.

    python -m benchmarks.agent_window [--turns N] [--window TOKENS] [--calls N]

An agent with a scripted model has `--turns` turns (500) in a window of `--window` tokens (32,000). Each turn mentions a
boat and its pier. Each is queried right after its turn and again at the end, with a memory in this process and with a
SQLite file. Then one turn makes `--calls` calls (99) of 5,000 characters in a window of 20,000 tokens; the largest
request and the size of the store are printed. Exits 1 if the evidence of a turn ranked first before and does not
afterwards, if a request exceeds the window, or if the store is larger than three times the text of the results.
"""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import elytron
from elytron.api import MemoryFace
from elytron_agent import Agent, AgentSettings, CallKey, RunBudget, Tool, TurnsCompacted
from elytron_core.contracts.recall import RecallPlane
from elytron_core.ports.chat import (
    FinishReason,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ToolCall,
)
from elytron_turn.sizes import bytes_of

ANSWER = "I made a note of the boat and of the pier, and will tell you as soon as somebody asks me about either. " * 6
PAGE_CHARS, TURN_WINDOW = 5_000, 20_000
PIERS = ("north", "south", "east", "west", "old", "new", "stone", "iron")


class Scripted:
    """A model that gives the same answer in every turn."""

    info = ModelInfo(name="scripted")

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:  # noqa: ARG002  (the port's signature)
        yield TextDelta(text=ANSWER)
        yield ReplyFinished(reason=FinishReason.STOP)


class Reader:
    """A model that reads a page in each step, and records the largest request."""

    info = ModelInfo(name="reader")

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self.largest_chars = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        self.largest_chars = max(self.largest_chars, bytes_of(request.messages, request.tools))
        if self._calls == 0:
            yield TextDelta(text="Read.")
            yield ReplyFinished(reason=FinishReason.STOP)
            return
        self._calls -= 1
        yield ToolCall(id="c", name="fetch", arguments="{}")
        yield ReplyFinished(reason=FinishReason.TOOLS)


async def _page(_: object, key: CallKey, /) -> str:
    return f"Page {key.step}. {ANSWER * 50}"[:PAGE_CHARS]


async def read(folder: Path, calls: int) -> tuple[int, int]:
    """Return the size of the largest request in one turn with many calls, and the size of its store."""
    model = Reader(calls)
    budget = RunBudget(steps=100, calls=calls, tokens=None)
    settings = AgentSettings(enabled=True, max_context_tokens=TURN_WINDOW, budget=budget)
    async with elytron.open(str(folder / "turn.db"), space="ada") as memory:
        tool = Tool("fetch", "Fetch a page.", {"type": "object"}, _page, read_only=True)
        await Agent(memory, model, (tool,), settings=settings).say("Read all pages.")
    return model.largest_chars, sum(path.stat().st_size for path in folder.iterdir() if path.name.startswith("turn.db"))


async def talk(memory: MemoryFace, turns: int, window: int) -> tuple[int, int, int]:
    """Return the number of compactions, and for how many turns the evidence ranked first before and after."""
    settings = AgentSettings(enabled=True, max_context_tokens=window)
    compactions = 0
    before: set[int] = set()
    async with Agent(memory, Scripted(), settings=settings) as agent:
        for number in range(turns):
            async with aclosing(agent.run(_told(number))) as events:
                async for event in events:
                    compactions += isinstance(event, TurnsCompacted)
            if await _is_found(memory, number):
                before.add(number)
    after = {number for number in range(turns) if await _is_found(memory, number)}
    return compactions, len(before), len(before & after)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="recall of what left an agent's window")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--calls", type=int, default=99)
    options = parser.parse_args(argv)
    lost = 0
    with tempfile.TemporaryDirectory(prefix="elytron-window-") as folder:
        for store in ("memory:", str(Path(folder, "m.db"))):
            compactions, before, after = asyncio.run(_run(store, options.turns, options.window))
            lost += before - after
            name = "memory" if store == "memory:" else "sqlite"
            found = f"evidence found first: {before} before, {after} after"
            print(f"{name}: {options.turns} turns, {compactions} compactions, {found}")
        chars, size = asyncio.run(read(Path(folder), options.calls))
    ratio = size / (options.calls * PAGE_CHARS)
    print(f"one turn of {options.calls} calls of {PAGE_CHARS:,} characters in a window of {TURN_WINDOW:,} tokens:")
    print(
        f"largest request {chars:,} bytes ({chars // 4:,} tokens); store {size:,} bytes, {ratio:.2f} times the results"
    )
    return 1 if lost or chars > 4 * TURN_WINDOW or ratio > 3 else 0


async def _run(store: str, turns: int, window: int) -> tuple[int, int, int]:
    async with elytron.open(store, space="ada") as memory:
        return await talk(memory, turns, window)


def _boat(number: int) -> str:
    return f"Marimba{number * 7919}x"


def _told(number: int) -> str:
    return f"The boat {_boat(number)} lies at the {PIERS[number % len(PIERS)]} pier since day {number}."


async def _is_found(memory: MemoryFace, number: int) -> bool:
    hits = (await memory.recall(f"At which pier lies {_boat(number)}?", limit=4)).hits
    said = [hit.text for hit in hits if hit.plane is RecallPlane.TRANSCRIPT]
    return bool(said) and said[0] == _told(number)


if __name__ == "__main__":
    raise SystemExit(main())
