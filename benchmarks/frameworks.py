"""Compare the speed of framework adapters with the same frameworks' SQLite stores, in alternation.

    python -m benchmarks.frameworks [--short] [--check]

Both write files on the same disk, and every write is synchronised with it (`synchronous=FULL`). Ratios are ratios of
medians. With `--check`, exits 1 if a ratio exceeds its goal. Requires the dependency group `frameworks`.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from agents import SQLiteSession
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import elytron
from elytron_integrations.langgraph import ElytronSaver
from elytron_integrations.openai_agents import ElytronSession

CALLS = 200
WARM_UP = 10
MESSAGES = 20
"""Number of messages in the state of a thread, each of 100 characters."""
GOAL = 2.0

Step = Callable[[int], Awaitable[object]]


async def alternate(theirs: Step, ours: Step, calls: int, /) -> tuple[float, float]:
    """Return the median milliseconds of both steps, which alternate, and alternate in being first.

    A disk may need longer to synchronise right after another write.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + calls):
        pairs = list(zip((theirs, ours), times, strict=True))
        for step, taken in pairs if number % 2 else reversed(pairs):
            began = time.perf_counter()
            await step(number)
            taken.append((time.perf_counter() - began) * 1000)
    return median(times[0][WARM_UP:]), median(times[1][WARM_UP:])


class Thread:
    """A LangGraph thread on a saver."""

    def __init__(self, saver: Any, /) -> None:
        self._saver = saver
        self._place: Any = {"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}

    async def put(self, number: int) -> None:
        """Store the next checkpoint of the thread."""
        state = {"messages": [f"{number} {place} ".ljust(100, "x") for place in range(MESSAGES)]}
        checkpoint: Any = {
            **empty_checkpoint(),
            "id": f"{number:08}",
            "channel_values": state,
            "channel_versions": {"messages": number},
        }
        metadata: Any = {"source": "loop", "step": number, "parents": {}}
        self._place = await self._saver.aput(self._place, checkpoint, metadata, {"messages": number})

    async def put_writes(self, number: int) -> None:
        """Store a task's writes."""
        await self._saver.aput_writes(self._place, [("messages", f"word {number}")], f"task-{number}")

    async def get(self, _: int) -> None:
        """Read the newest checkpoint of the thread."""
        assert await self._saver.aget_tuple({"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}) is not None


async def measure(folder: Path, calls: int, /) -> Mapping[str, tuple[float, float]]:
    """Return the milliseconds of each call for the framework's own store and for the adapter."""
    async with (
        AsyncSqliteSaver.from_conn_string(str(folder / "saver.db")) as saver,
        elytron.open(folder / "memory.db", space="ada") as memory,
    ):
        await saver.setup()
        await saver.conn.execute("PRAGMA synchronous=FULL")
        theirs, ours = Thread(saver), Thread(ElytronSaver(memory))
        results = {
            "LangGraph put": await alternate(theirs.put, ours.put, calls),
            "LangGraph get": await alternate(theirs.get, ours.get, calls),
            "LangGraph put_writes": await alternate(theirs.put_writes, ours.put_writes, calls),
        }
        session = SQLiteSession("thread-1", folder / "session.db")
        elytron_session = ElytronSession("thread-1", memory)

        def add_to(session: Any) -> Step:
            def add(number: int) -> Awaitable[object]:
                question = {"role": "user", "content": f"Where is the key of boat {number}?"}
                answer = {"role": "assistant", "content": f"The key of boat {number} is under the oar."}
                return session.add_items([question, answer])

            return add

        results["Agents add_items"] = await alternate(add_to(session), add_to(elytron_session), calls)
        session.close()
    return results


def main() -> int:
    """Measure, print one table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a quarter of the calls")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 if a ratio is above {GOAL}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = asyncio.run(measure(Path(folder), CALLS // 4 if arguments.short else CALLS))
    print("call | SQLite of the framework, ms | Elytron, ms | ratio")
    for name, (theirs, ours) in results.items():
        print(f"{name} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f}")
    return int(arguments.check and any(ours / theirs > GOAL for theirs, ours in results.values()))


if __name__ == "__main__":
    sys.exit(main())
