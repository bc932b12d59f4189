"""Measure what governing a space costs as it grows: processor time of an erasure and its consequences, in recalls.

    python -m benchmarks.scale [--turns 1000 10000] [--engine sqlite] [--pairs 200]
    python -m benchmarks.scale --spaces 20000 [--engine sqlite]          see benchmarks.scale_spaces

The store is one space of texts by Zipf's law without vectors. All figures are processor seconds of one process, so that
they hold on a busy machine. `recall` is the median of ordinary recalls, `erase` the median of five erasures of one
memory, and `after` that of the recalls following them, in ordinary recalls. `pairs` is the total of many erasures, each
followed by a recall, in as many recalls. `purge` is the part of an erasure that takes place in the index. `open` is a
fresh process's first answer from the checkpoint that was stored after an erasure, `fold` the same without a checkpoint.
`many` erases a tenth of the space at once, in one compaction of the journal. The exponent is that of `erase` between
two lines. Further columns are those of `benchmarks.scale_reads`. How long upkeep of the space makes others wait is
printed below (`benchmarks.scale_upkeep`).
"""

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence

import elytron
from benchmarks import scale_spaces
from benchmarks.corpora import corpus
from benchmarks.scale_reads import READING, read_figures
from benchmarks.scale_upkeep import print_upkeep
from elytron.erasure.removal import erase_many
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.journal.compaction import compact_space
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import ErasureTarget
from elytron_core.scope import Scope

SPACE = SpaceId("ada")
CONVERSATION = 30
BATCH = 100
ORDINARY = 40
OTHER_TEXTS = 1_000
FEW = 5
COLUMNS = (
    "turns",
    "recall ms",
    "erase s",
    "exponent",
    "purge ms",
    "after",
    "pairs",
    "open s",
    "fold s",
    "many",
    *READING,
)


async def main(sizes: Sequence[int], engine: str, pairs: int) -> None:
    """Print the table."""
    print("".join(f"{name:>11}" for name in COLUMNS))
    before: tuple[int, float] | None = None
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            url = {"memory": "memory:", "file": f"file://{folder}/files"}.get(engine, f"sqlite://{folder}/store.db")
            row = await measured(url, size, pairs)
            erase = row["erase s"]
            row["exponent"] = math.log(erase / before[1]) / math.log(size / before[0]) if before else math.nan
            print(f"{size:>11}" + "".join(f"{row.get(name, math.nan):>11.3f}" for name in COLUMNS[1:]), flush=True)
            before = size, erase
            if not url.startswith("memory:"):
                await print_upkeep(url, SPACE, corpus(OTHER_TEXTS).questions)


async def measured(url: str, size: int, pairs: int, /) -> dict[str, float]:
    """Return the figures of one size."""
    data = corpus(size)
    questions = [question for question in data.questions if question]
    row: dict[str, float] = {}
    async with elytron.open(url, space=SPACE) as memory:
        ids = await filled(memory, data.texts)
        await recalled(memory, questions[:ORDINARY])
        ordinary = statistics.median([await spent(lambda q=q: memory.recall(q)) for q in questions[:ORDINARY]])
        row["recall ms"] = 1e3 * ordinary
        erases: list[float] = []
        afters: list[float] = []
        for number in range(FEW):
            erases.append(await spent(lambda: erased(memory, ids.pop())))
            afters.append(await spent(lambda q=questions[number]: memory.recall(q)))
        row["erase s"], row["after"] = statistics.median(erases), statistics.median(afters) / ordinary
        index = await memory.context.folds.current(SPACE)
        row["purge ms"] = 1e3 * statistics.median([await spent(lambda: _done(index.purge)) for _ in range(FEW)])
        asked = [questions[number % len(questions)] for number in range(min(pairs, size // 2))]
        alone = await spent(lambda: recalled(memory, asked))

        async def erased_and_recalled() -> None:
            for question in asked:
                await erased(memory, ids.pop())
                await memory.recall(question)

        row["pairs"] = await spent(erased_and_recalled) / alone
    if not url.startswith("memory:"):
        row["open s"] = await opened(url, questions[0])
        row["fold s"] = await opened(url, questions[0], is_folded=True)
        row |= read_figures(url, SPACE)
    async with elytron.open(url, space=SPACE) as memory:
        if url.startswith("memory:"):
            ids = await filled(memory, data.texts)
        await memory.recall(questions[0])
        many = await spent(lambda: erase_many(memory.context, Scope(space=SPACE), ids[: size // 10]))
        row["many"] = many / await spent(lambda: compact_space(memory.context.store, SPACE))
    return row


async def filled(memory: elytron.MemoryRuntime, texts: Sequence[str], /) -> list[str]:
    """Write `texts` in conversations, and return the ids of their turns."""
    ids: list[str] = []
    for start in range(0, len(texts), BATCH):
        drafts = tuple(
            elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in texts[start : start + BATCH]
        )
        write = elytron.TranscriptWrite(turns=drafts)
        scope = elytron.Scope(space=SPACE, conversation=f"c{start // (BATCH * CONVERSATION)}")
        ids += (await memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))).ids
    return ids


async def erased(memory: elytron.MemoryRuntime, memory_id: str, /) -> None:
    """Erase one memory."""
    assert (await memory.erase(elytron.MemoryEraseRequest(ids=(memory_id,)))).changed


async def recalled(memory: elytron.MemoryRuntime, questions: Sequence[str], /) -> None:
    """Ask all of `questions`."""
    for question in questions:
        await memory.recall(question)


async def opened(url: str, question: str, /, *, is_folded: bool = False) -> float:
    """Return the processor seconds for opening the store and its first answer, without a checkpoint if `is_folded`."""
    async with elytron.open(url, space=SPACE) as memory:
        if is_folded:
            at = memory.context.clock.now()
            await memory.context.store.erase(ErasureTarget(space=SPACE, at=at, blobs=(CHECKPOINT,)))
        else:
            assert await has_checkpoint(memory)
        return await spent(lambda: memory.recall(question))


async def has_checkpoint(memory: elytron.MemoryRuntime, /) -> bool:
    """Return whether the space has a checkpoint."""
    try:
        return bool([chunk async for chunk in memory.context.store.read_blob(SPACE, CHECKPOINT)])
    except NotFound:
        return False


async def spent(work: Callable[[], Awaitable[object]], /) -> float:
    """Return the processor seconds of `work` in all threads."""
    began = time.process_time()
    await work()
    return time.process_time() - began


async def _done(work: Callable[[], None]) -> None:
    work()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print what erasures cost in spaces of several sizes.")
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000], help="sizes of the space")
    parser.add_argument("--engine", choices=["memory", "file", "sqlite", "postgres"], default="sqlite", help="store")
    parser.add_argument("--spaces", type=int, help="measure this many spaces instead: see benchmarks.scale_spaces")
    parser.add_argument("--idle-s", type=float, default=130, help="seconds for which a server with them is idle")
    parser.add_argument("--pairs", type=int, default=200, help="erasures that are each followed by a recall")
    given = parser.parse_args()
    if given.spaces:
        scale_spaces.main(given.spaces, given.engine, given.idle_s)
    else:
        asyncio.run(main(given.turns, given.engine, given.pairs))
