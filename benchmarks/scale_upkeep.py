"""How long upkeep of a large space keeps others waiting, verb by verb; printed by `benchmarks.scale`.

`hold ms` is the longest time for which the event loop took up nothing else, in processor time of its thread, so that
the figure stands on a busy machine; what other threads delay is in `p95`, which compares recalls in small spaces while
the verb runs again and again with the same recalls without it, in one run.
"""

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import elytron
from elytron.erasure.removal import erase_many
from elytron.journal.upkeep import compact_space
from elytron_core.ids import SpaceId
from elytron_core.planes.transcript import TURNS
from elytron_core.ports.store import scan_documents
from elytron_core.scope import Scope

OTHERS = 20
"""Number of small spaces that are asked meanwhile."""
SMALL = 50
"""Number of turns in each."""
RECALLS = 2_000
TICK_S = 0.001
COLUMNS = ("cpu s", "hold ms", "p95 ms", "p95 ratio")

Verb = Callable[[], Awaitable[object]]


async def print_upkeep(url: str, space: SpaceId, questions: Sequence[str], /) -> None:
    """Print a line for each verb over the filled `space`, of which some is erased."""
    print("".join(f"{name:>14}" for name in ("upkeep", *COLUMNS)))
    async with elytron.open(url, space=space) as memory:
        others = [SpaceId(f"other{number}") for number in range(OTHERS)]
        for other in others:
            await fill_small(memory, other, questions)
        asking = OtherRecalls(memory, others, questions)
        ids = [turn.ref.key async for turn in scan_documents(memory.context.store, space, TURNS)]
        await memory.recall(questions[0])
        await memory.context.folds.checkpoint()
        await asking.ask(RECALLS // 4)
        gc.collect()
        # A full collection takes as long as the program is large, whatever the space holds.
        gc.freeze()
        alone = percentile(await asking.ask(RECALLS))
        print(f"{'none':>14}{'':>28}{alone:>14.2f}", flush=True)
        with tempfile.TemporaryDirectory(prefix="upkeep-") as folder:
            for name, verb in upkeep_verbs(memory, space, ids, Path(folder)).items():
                row = await measured_verb(verb, asking)
                row["p95 ratio"] = row["p95 ms"] / alone
                print(f"{name:>14}" + "".join(f"{row[column]:>14.2f}" for column in COLUMNS), flush=True)


def upkeep_verbs(memory: elytron.MemoryRuntime, space: SpaceId, ids: Sequence[str], folder: Path) -> dict[str, Verb]:
    """Return what is measured, by its name, in the order in which it runs."""
    ctx, left = memory.context, iter(ids)
    many = len(ids) // 100

    async def written() -> None:
        await memory.add("A ferry leaves at six.")
        await memory.recall("ferry")
        await ctx.folds.checkpoint()

    return {
        "erase": lambda: memory.erase(elytron.MemoryEraseRequest(ids=(next(left),))),
        "erase many": lambda: erase_many(ctx, Scope(space=space), list(islice(left, many))),
        "compact": lambda: compact_space(ctx.store, space),
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
    """Recalls in small spaces, one after the other, each in its turn."""

    def __init__(self, memory: elytron.MemoryRuntime, spaces: Sequence[SpaceId], questions: Sequence[str], /) -> None:
        self._memory = memory
        self._spaces = spaces
        self._questions = questions
        self._number = 0

    async def ask(self, count: int, /) -> list[float]:
        """Return the seconds of each of `count` recalls."""
        times: list[float] = []
        while len(times) < count:
            self._number += 1
            scope = elytron.Scope(space=self._spaces[self._number % len(self._spaces)])
            request = elytron.MemoryRecallRequest(scope=scope, query=self._questions[self._number % SMALL])
            began = time.perf_counter()
            # A caller comes through the loop, which may be busy.
            await asyncio.sleep(0)
            await self._memory.recall(request)
            times.append(time.perf_counter() - began)
        return times


async def measured_verb(verb: Verb, asking: OtherRecalls, /) -> dict[str, float]:
    """Return the hold of `verb` by itself, and the recalls of others while it runs again and again."""
    gaps: list[float] = []
    ticking = asyncio.create_task(note_gaps(gaps))
    began = time.process_time()
    await verb()
    row = {"cpu s": time.process_time() - began}
    await asyncio.sleep(2 * TICK_S)
    await ended(ticking)

    async def repeat() -> None:
        while True:
            await verb()
            await asyncio.sleep(TICK_S)

    repeating = asyncio.create_task(repeat())
    times = await asking.ask(RECALLS)
    await ended(repeating)
    return row | {"hold ms": 1e3 * max(gaps), "p95 ms": percentile(times)}


async def note_gaps(gaps: list[float], /) -> None:
    """Add the processor seconds of this thread between ticks to `gaps` until cancelled."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(TICK_S)
        gaps.append(time.thread_time() - before)


async def ended(task: asyncio.Task[None], /) -> None:
    """Cancel `task` and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def percentile(times: Sequence[float], /) -> float:
    """Return the 95th percentile in milliseconds."""
    return 1e3 * statistics.quantiles(times, n=20)[-1]
