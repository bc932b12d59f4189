"""Kill an agent at every commit of a run with tools, and resume it in another process without loss or duplicates.

    python -m benchmarks.rigs.agent [--short] [--folder PATH]

The run has six steps: notes (a tool that may be repeated), payments (one that may not), a block and the archive. Each
commit is reached by a separate process, which is killed immediately before or after it; the next process resumes. Exits
1 if a turn is lost or doubled, a tool had its effect twice, or a run did not finish.
"""

import argparse
import asyncio
import os
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import elytron
from benchmarks.rigs import tables
from elytron_agent import Agent, AgentSettings, BlockRepository, CallKey, RunEnded, StopReason, Tool
from elytron_core.clock import Instant, SystemClock
from elytron_core.contracts.transcript import MemoryTranscriptReplayRequest
from elytron_core.ports.chat import (
    FinishReason,
    ModelEvent,
    ModelInfo,
    ModelReply,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ToolCall,
)
from elytron_core.ports.store import Batch, CommitReceipt, Store
from elytron_core.scope import Scope
from elytron_store import open_store
from elytron_store.engine import PassingStore

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["elytron_agent.loop.agent", "benchmarks.rigs.warm"])
_SHORT_EVERY = 4
_WAIT_S = 60.0
_BLOCK = '{"block":"human","content":"Likes the sea."}'
_ARCHIVE = '{"content":"The boat is called Marimba."}'
_STEPS = (
    (("note", "{}"),),
    (("pay", "{}"),),
    (("note", "{}"), ("pay", "{}")),
    (("memory_append", _BLOCK),),
    (("archival_insert", _ARCHIVE),),
    (),
)


class Scripted:
    """Answers by the number of replies in the request, so that a resumed run gets the same answers."""

    info = ModelInfo(name="scripted")

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        step = sum(isinstance(message, ModelReply) for message in request.messages)
        yield TextDelta(text=f"Step {step}.")
        for place, (name, arguments) in enumerate(_STEPS[step]):
            yield ToolCall(id=f"c{place}", name=name, arguments=arguments)
        yield ReplyFinished(reason=FinishReason.TOOLS if _STEPS[step] else FinishReason.STOP)


class LaterClock(SystemClock):
    """The machine's clock at a time when the lease of a killed process has expired."""

    def now(self, /) -> Instant:
        return Instant(super().now() + 60_000)


class KillingStore(PassingStore):
    """A store that kills its process at commit number `at`, before or after it."""

    def __init__(self, store: Store, /, *, at: int, after: bool) -> None:
        super().__init__(store)
        self._left, self._after = at, after

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        committed = await self._inner.commit(batch)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return committed


def tools(folder: Path) -> tuple[Tool, Tool]:
    """Return a tool that stores its keys, so that a repeat has no effect, and one that ignores them."""
    effects = folder / "effects"

    def add(name: str, key: CallKey) -> None:
        with effects.open("a") as file:
            file.write(f"{name} {key}\n")
            file.flush()
            os.fsync(file.fileno())

    async def note(_: object, key: CallKey, /) -> str:
        if f"note {key}" not in (effects.read_text().splitlines() if effects.exists() else ()):
            add("note", key)
        return "noted"

    async def pay(_: object, key: CallKey, /) -> str:
        add("pay", key)
        return "paid"

    schema = {"type": "object"}
    return Tool("note", "Note.", schema, note, may_repeat=True), Tool("pay", "Pay.", schema, pay)


async def _run(folder: Path, at: int, *, after: bool) -> None:
    store = KillingStore(await open_store(str(folder / "memory.db"), clock=SystemClock()), at=at, after=after)
    async with elytron.open(store, space="ada") as memory:
        settings = AgentSettings(enabled=True, recall_deadline_s=30)
        clock = LaterClock() if at == 0 else SystemClock()
        async with Agent(memory, Scripted(), tools(folder), settings=settings, clock=clock) as agent:
            await agent.say("Do it all.", run_id="run")


def work(folder: Path, at: int, after: bool) -> None:
    """Run until commit number `at`; the body of a child process."""
    asyncio.run(_run(folder, at, after=after))


@dataclass(slots=True)
class Found:
    """What was wrong, and how many outcomes were reported as unknown."""

    wrong: list[str] = field(default_factory=list[str])
    unknown: int = 0


def _child(folder: Path, at: int, *, after: bool) -> int:
    process = _CONTEXT.Process(target=work, args=(folder, at, after))
    process.start()
    process.join(_WAIT_S)
    assert process.exitcode is not None
    return process.exitcode


async def _look(folder: Path, found: Found, where: str) -> None:
    """Compare what is stored, and what the tools did, with what was requested."""
    effects = Counter((folder / "effects").read_text().splitlines())
    if doubled := [line for line, count in effects.items() if count > 1]:
        found.wrong.append(f"{where}: done twice: {doubled}")
    async with elytron.open(folder / "memory.db", space="ada") as memory:
        agent = Agent(memory, Scripted())
        end = await agent.say("Do it all.", run_id="run")
        head = await agent.head()
        told = await memory.replay_transcript(
            MemoryTranscriptReplayRequest(scope=Scope(space="ada", conversation="main"))
        )
        archived = await memory.recall("what is the boat called?", filters={"run_id": "archival"})
        checks = {
            "the run did not end": _is_whole(end) and head.open is None,
            "turns": [turn.host_turn_id for turn in told.slice.turns] == ["run"],
            "the block": (await BlockRepository(memory).read("human")).value == "Likes the sea.",
            "the archive": [hit.text for hit in archived.hits].count("The boat is called Marimba.") == 1,
            "notes": sum(count for line, count in effects.items() if line.startswith("note")) == 2,
        }
    found.wrong += [f"{where}: {name}" for name, is_sound in checks.items() if not is_sound]
    found.unknown += 2 - sum(count for line, count in effects.items() if line.startswith("pay"))


def _is_whole(end: RunEnded) -> bool:
    return (end.reason, end.usage.steps) == (StopReason.ANSWERED, len(_STEPS))


def kill_at_each_commit(folder: Path, found: Found, *, after: bool, every: int) -> int:
    """Kill a run at one commit after the other until one is not reached, and return the number of commits."""
    at = 1
    while True:
        home = folder / f"{'after' if after else 'before'}{at}"
        home.mkdir()
        code = _child(home, at, after=after)
        if code == 0:
            return at - 1
        where = f"{'after' if after else 'before'} commit {at}"
        if code != -signal.SIGKILL:
            found.wrong.append(f"{where}: the process ended by itself with {code}")
            return at
        if (code := _child(home, 0, after=after)) != 0:
            found.wrong.append(f"{where}: the next process ended with {code}")
        else:
            asyncio.run(_look(home, found, where))
        at += every


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="kill an agent at every commit of a run")
    parser.add_argument("--folder", type=Path, default=tables.memory_folder(), help="where stores lie")
    parser.add_argument("--short", action="store_true", help=f"every {_SHORT_EVERY}th commit")
    options = parser.parse_args(argv)
    found, rows = Found(), list[dict[str, str]]()
    every = _SHORT_EVERY if options.short else 1
    for after in (False, True):
        with tempfile.TemporaryDirectory(prefix="elytron-agent-", dir=options.folder) as folder:
            commits = kill_at_each_commit(Path(folder), found, after=after, every=every)
        rows.append({"killed": "after" if after else "before", "commits": str(commits)})
    for line in found.wrong:
        print(line)
    tables.show(rows)
    print(f"wrong: {len(found.wrong)}; calls not made, or told as of unknown outcome: {found.unknown}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
