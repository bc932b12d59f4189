"""Measure how long upkeep of a large space makes others wait, verb by verb; printed by `benchmarks.scale`.

`hold ms` is the longest time for which the event loop was blocked, in processor time of its thread, so that the figure
holds on a busy machine. Delays by other threads show in `p95`, that of recalls in small spaces, made one after the
other while the verb runs. It is also measured without the verb, before and after, in the same run.
"""

import asyncio
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import elytron
from elytron.erasure.removal import erase_many
from elytron_core.ids import SpaceId
from elytron_core.planes.transcript import TURNS
from elytron_core.ports.store import scan_documents
from elytron_core.scope import Scope

OTHERS = 20
"""Number of small spaces with recalls meanwhile."""
SMALL = 50
"""Number of turns in each of them."""
RECALLS = 2_000
TICK_S = 0.001
COLUMNS = ("cpu s", "hold ms", "recalls", "p95 ms", "p95 ratio")

Verb = Callable[[], Awaitable[object]]


async def print_upkeep(url: str, space: SpaceId, questions: Sequence[str], /) -> None:
    """Print a line for each verb on the filled `space`, part of which is erased."""
    print("".join(f"{name:>14}" for name in ("upkeep", *COLUMNS)))
    async with elytron.open(url, space=space) as memory:
        others = [SpaceId(f"other{number}") for number in range(OTHERS)]
        for other in others:
            await fill_small(memory, other, questions)
        asking = OtherRecalls(memory, others, questions)
        ids = [turn.ref.key async for turn in scan_documents(memory.context.store, space, TURNS)]
        await memory.recall(questions[0])
        await memory.erase([ids.pop()])
        await asking.ask(RECALLS // 4)
        keep_collector()
        alone = await asking.ask(RECALLS)
        beside: list[float] = []
        with tempfile.TemporaryDirectory(prefix="upkeep-") as folder:
            for name, verb in upkeep_verbs(memory, space, ids, Path(folder)).items():
                holds, times = await measured_verb(verb, asking)
                beside += times
                print_row(name, holds, times, percentile(alone))
        # Measure again, because other load on the machine may have changed.
        alone += await asking.ask(RECALLS)
        print_row("all of them", (math.nan, math.nan), beside, percentile(alone))
        print_row("none", (math.nan, math.nan), alone, percentile(alone))


def print_row(name: str, holds: tuple[float, float], times: Sequence[float], alone: float, /) -> None:
    """Print the figures of a verb. `alone` is the percentile without it."""
    row = (*holds, float(len(times)), percentile(times), percentile(times) / alone)
    print(f"{name:>14}" + "".join(f"{figure:>14.2f}" for figure in row), flush=True)


def keep_collector() -> None:
    """Configure the garbage collector like `elytron serve` does; otherwise it sometimes traverses the whole program."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def upkeep_verbs(memory: elytron.MemoryRuntime, space: SpaceId, ids: Sequence[str], folder: Path) -> dict[str, Verb]:
    """Return the measured verbs by name, in the order in which they run."""
    ctx, left = memory.context, iter(ids)
    many = len(ids) // 100

    async def written() -> None:
        await memory.add("A ferry leaves at six.")
        await memory.recall("ferry")
        await ctx.folds.checkpoint()

    return {
        "erase": lambda: memory.erase(elytron.MemoryEraseRequest(ids=(next(left),))),
        "erase many": lambda: erase_many(ctx, Scope(space=space), list(islice(left, many))),
        "compact": memory.compact_journal,
        "fold": lambda: ctx.folds.rebuild(space),
        "checkpoint": written,
        "inspect": memory.inspect,
        "check": lambda: memory.inspect(check=True),
        "export": lambda: memory.export(folder / "space.zip", overwrite=True),
        "recover": memory.recover,
    }


async def fill_small(memory: elytron.MemoryRuntime, space: SpaceId, texts: Sequence[str], /) -> None:
    """Write `SMALL` turns into `space`."""
    drafts = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in texts[:SMALL])
    scope = elytron.Scope(space=space, conversation="c")
    await memory.write(elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=drafts)))


class OtherRecalls:
    """Recalls in small spaces, one after the other in turn."""

    def __init__(self, memory: elytron.MemoryRuntime, spaces: Sequence[SpaceId], questions: Sequence[str], /) -> None:
        self._memory = memory
        self._spaces = spaces
        self._questions = questions
        self._number = 0

    async def ask(self, most: int, /, *, until: asyncio.Task[object] | None = None) -> list[float]:
        """Return the seconds of each of `most` recalls, or of fewer if `until` ends before."""
        times: list[float] = []
        while len(times) < most and (until is None or not until.done()):
            self._number += 1
            scope = elytron.Scope(space=self._spaces[self._number % len(self._spaces)])
            request = elytron.MemoryRecallRequest(scope=scope, query=self._questions[self._number % SMALL])
            began = time.perf_counter()
            # A caller arrives through the event loop, which may be busy.
            await asyncio.sleep(0)
            await self._memory.recall(request)
            times.append(time.perf_counter() - began)
        return times


async def measured_verb(verb: Verb, asking: OtherRecalls, /) -> tuple[tuple[float, float], list[float]]:
    """Return processor seconds and longest hold of `verb`, and the times of the recalls made meanwhile."""
    gaps: list[float] = []
    ticking = asyncio.create_task(note_gaps(gaps))
    began = time.process_time()
    running = asyncio.create_task(_awaited(verb))
    times = await asking.ask(RECALLS, until=running)
    await running
    spent = time.process_time() - began
    await asyncio.sleep(2 * TICK_S)
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    return (spent, 1e3 * max(gaps)), times


async def note_gaps(gaps: list[float], /) -> None:
    """Append the processor seconds of this thread between ticks to `gaps` until cancelled."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(TICK_S)
        gaps.append(time.thread_time() - before)


def percentile(times: Sequence[float], /) -> float:
    """Return the 95th percentile in milliseconds."""
    return 1e3 * statistics.quantiles(times, n=20)[-1] if len(times) > 1 else math.nan


async def _awaited(verb: Verb) -> object:
    return await verb()
