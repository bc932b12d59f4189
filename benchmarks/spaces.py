"""Measure many spaces on one runtime: the first answer in a space that is not in memory, later ones, and memory.

    python -m benchmarks.spaces [spaces] [--units 1000] [--index-mb 64] [--plain] [--changed] [--profile] [--keep DIR]

One space is filled through the API with texts and vectors of 384 numbers (`--plain`: without vectors), and its
documents, journal and checkpoint are copied to the others through the store. Then a runtime with the given index memory
is asked once in every space, in random order (`cold`), and many times in the last ones (`warm`). With `--changed`, a
turn is also written to each space, and all are asked again twice. Resident memory is given relative to a runtime that
has answered in one space. With `--keep`, the store stays in the folder, and an existing one is reused.
"""

import argparse
import asyncio
import cProfile
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import elytron
from benchmarks.corpora import Corpus, Looked, corpus
from benchmarks.growth import resident_bytes
from elytron.indexing.checkpoints import CHECKPOINT
from elytron_core import limits
from elytron_core.clock import SystemClock
from elytron_core.contracts.maintenance.embedding import EmbeddingOutcome
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Document, EntryDraft, JournalEntry, PutChange, Store
from elytron_store import open_store

CONVERSATION = 25
WARM = 300
FIRST = "s0"
TOGETHER = 16
"""Number of spaces that are filled concurrently, so that they share commits."""


async def filled(path: Path, data: Corpus, embedder: Looked | None, /) -> None:
    """Write the corpus to the first space."""
    async with elytron.open(path, space=FIRST, embedder=embedder) as memory:
        for start in range(0, len(data.texts), CONVERSATION):
            said = data.texts[start : start + CONVERSATION]
            turns = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in said)
            scope = elytron.Scope(space=SpaceId(FIRST), conversation=f"c{start}")
            await memory.write(elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=turns)))
        while embedder is not None and (await memory.embed()).outcome is EmbeddingOutcome.MORE:
            pass


async def multiplied(path: Path, spaces: int, /) -> None:
    """Copy the documents, journal and checkpoint of the first space to the others."""
    store = await open_store(str(path), clock=SystemClock())
    first = SpaceId(FIRST)
    documents, entries = await everything(store, first)
    checkpoint = [chunk async for chunk in store.read_blob(first, CHECKPOINT)]
    step = limits.BATCH_CHANGES // 4

    async def copied(space: SpaceId) -> None:
        for start in range(0, max(len(documents), len(entries)), step):
            puts = tuple(PutChange(item.ref, item.body, 0) for item in documents[start : start + step])
            told = tuple(
                EntryDraft(item.action, item.ref, item.digest, item.at) for item in entries[start : start + step]
            )
            await store.commit(Batch(space, entries[0].at, told, puts))
        await store.write_blob(space, CHECKPOINT, given(checkpoint))

    for number in range(1, spaces, TOGETHER):
        await asyncio.gather(*(copied(SpaceId(f"s{one}")) for one in range(number, min(number + TOGETHER, spaces))))
    await store.close()


async def everything(store: Store, space: SpaceId, /) -> tuple[list[Document], list[JournalEntry]]:
    """Return the documents and the journal of a space."""
    entries: list[JournalEntry] = []
    while page := await store.journal(space, after=len(entries), limit=limits.SCAN_MAX):
        entries += page
    refs = list(dict.fromkeys(entry.ref for entry in entries))
    found: list[Document] = []
    for start in range(0, len(refs), limits.SCAN_MAX):
        page = await store.get(space, refs[start : start + limits.SCAN_MAX])
        found += [document for document in page if document is not None]
    return found, entries


async def given(chunks: list[bytes], /) -> AsyncIterator[bytes]:
    """Yield `chunks`."""
    for chunk in chunks:
        yield chunk


async def asked(memory: elytron.MemoryRuntime, spaces: list[int], questions: list[str], /) -> list[float]:
    """Return the seconds of one question in each of `spaces`."""
    spent: list[float] = []
    for place, number in enumerate(spaces):
        began = time.perf_counter()
        report = await memory.recall(questions[place % len(questions)], user_id=f"s{number}", limit=10)
        spent.append(time.perf_counter() - began)
        assert report.hits
    return spent


def told(name: str, spent: list[float], cpu: float, /) -> None:
    """Print a line of figures."""
    high = statistics.quantiles(spent, n=20)[-1] if len(spent) > 1 else spent[0]
    print(f"{name:<34} p50 {statistics.median(spent) * 1e3:7.2f} ms   p95 {high * 1e3:7.2f}   "
          f"longest {max(spent) * 1e3:7.2f}   cpu {cpu / len(spent) * 1e3:7.2f}")  # fmt: skip


async def measured(path: Path, spaces: int, index_bytes: int, data: Corpus, embedder: Looked | None, /, *,
                   changed: bool, profiler: cProfile.Profile | None) -> None:  # fmt: skip
    """Print the figures of a runtime that keeps up to `index_bytes` of indexes."""
    order = list(range(1, spaces))
    random.Random(1).shuffle(order)
    async with elytron.open(path, space=FIRST, embedder=embedder, index_bytes=index_bytes) as memory:
        await asked(memory, [0], data.questions)
        before = resident_bytes()

        async def pass_over(name: str, numbers: list[int]) -> None:
            cpu = time.process_time()
            if profiler is not None:
                profiler.enable()
            spent = await asked(memory, numbers, data.questions)
            if profiler is not None:
                profiler.disable()
            told(name, spent, time.process_time() - cpu)

        await pass_over("cold, each space once", order)
        await pass_over("warm, the last spaces again", (order[-4:] * WARM)[:WARM])
        if changed:
            cpu, spent = time.process_time(), list[float]()
            for number in order:
                began = time.perf_counter()
                scope = elytron.Scope(space=SpaceId(f"s{number}"), conversation="later")
                turn = elytron.TurnDraft(messages=(elytron.Message(text=data.texts[number % len(data.texts)]),))
                await memory.write(
                    elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=(turn,)))
                )
                spent.append(time.perf_counter() - began)
            told("a turn written to each", spent, time.process_time() - cpu)
            await pass_over("cold, after the turn", order)
            await pass_over("cold again", order)
        held, size = memory.context.folds.memory_use
        grown = resident_bytes() - before
        print(f"{held} of {spaces} indexes held, {size / 1e6:.0f} MB by their own count within "
              f"{index_bytes / 1e6:.0f}; resident {grown / 1e6:+.0f} MB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="?", type=int, default=200)
    parser.add_argument("--units", type=int, default=1_000)
    parser.add_argument("--index-mb", type=int, default=64)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--keep", type=Path)
    told = parser.parse_args()
    data = corpus(told.units)
    embedder = None if told.plain else Looked(data)
    profiler = cProfile.Profile() if told.profile else None
    with tempfile.TemporaryDirectory() as folder:
        path = (told.keep or Path(folder)) / f"{told.spaces}-{told.units}{'-plain' * told.plain}.db"
        began = time.perf_counter()
        if not path.exists():
            asyncio.run(filled(path, data, embedder))
            asyncio.run(multiplied(path, told.spaces))
        print(f"{told.spaces} spaces of {told.units} units, {path.stat().st_size / 1e6:.0f} MB on disk, "
              f"there after {time.perf_counter() - began:.0f} s")  # fmt: skip
        asyncio.run(
            measured(path, told.spaces, told.index_mb << 20, data, embedder, changed=told.changed, profiler=profiler)
        )
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
