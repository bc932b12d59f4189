"""Measure a durable add while many texts are indexed, and the next recall, against peers in one run (SQLite at FULL).

    python -m benchmarks.adding [units] [--rounds 10] [--peers FOLDER]

`FOLDER` is that of `benchmarks.recall`. Texts are added one by one, in rounds that alternate between the sides. Each
side measures time with a clock of its own process. An Elytron add is acknowledged when it is durable. The very next
recall finds it by its words (`recall`), and by its vector once that is stored too (`vector`), which nobody waits for.
Adds of peers include the vector. `held` is the longest time for which the event loop was blocked meanwhile.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import elytron
from benchmarks.corpora import ADDED, Looked, corpus
from benchmarks.peers import peers_in
from benchmarks.recall import filled

AT_ONCE = 20
"""Number of adds in a side's turn."""

Add = Callable[[int], Awaitable[float]]


class Watch:
    """Record how long the event loop is blocked while the context is active."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _look(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.perf_counter() - began)
            await asyncio.sleep(0.000_5)


class Ours:
    """Add texts to a memory."""

    def __init__(self, memory: elytron.MemoryRuntime, texts: list[str], /) -> None:
        self._memory = memory
        self._texts = texts
        self.recalls: list[float] = []
        self.vectors: list[float] = []

    async def add(self, number: int, /) -> float:
        """Add a text and return the seconds until it was durable."""
        text = self._texts[number]
        began = time.perf_counter()
        await self._memory.add(text, conversation="added")
        added = time.perf_counter()
        hits = (await self._memory.recall(text, limit=1)).hits
        self.recalls.append(time.perf_counter() - added)
        assert [hit.text for hit in hits] == [text]
        while (await self._memory.embed()).remaining:
            pass
        self.vectors.append(time.perf_counter() - added)
        return added - began


async def compare(size: int, rounds: int, peers: Path | None, folder: Path, /) -> None:
    """Print the table."""
    data, more = corpus(size), corpus(ADDED, seed=1)
    memory = await filled(folder / "elytron.db", data, Looked(data, more))
    await memory.recall(data.questions[0])
    ours = Ours(memory, more.texts)
    sides: dict[str, Add] = {"elytron": ours.add}
    running = [peer for peer in peers_in(peers) if await peer.start(size, folder)]
    sides |= {peer.name: peer.add for peer in running}
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    held = 0.0
    for turn in range(min(rounds, ADDED // AT_ONCE)):
        for name in random.sample(list(sides), len(sides)):
            async with Watch() as watch:
                found[name].append([await sides[name](turn * AT_ONCE + place) for place in range(AT_ONCE)])
            held = max(held, watch.longest) if name == "elytron" else held
    for peer in running:
        await peer.stop()
    await memory.close()
    show(size, found)
    for peer in running:
        if peer.missed:
            print(f"{peer.name} did not find {peer.missed} of the texts right behind their adds")
    print(f"elytron, behind an add: recall {statistics.median(ours.recalls) * 1e3:.2f} ms (longest "
          f"{max(ours.recalls) * 1e3:.1f}), vector {statistics.median(ours.vectors) * 1e3:.2f} ms; "
          f"held {held * 1e3:.1f} ms")  # fmt: skip


def show(size: int, found: dict[str, list[list[float]]], /) -> None:
    """Print each side's add as the median of its rounds' medians."""
    middle = {name: statistics.median(map(statistics.median, rounds)) for name, rounds in found.items()}
    print(f"\nan add while {size} texts are indexed; {len(found['elytron'])} rounds of {AT_ONCE}")
    print(f"{'':<20}{'p50 ms':>9}{'least':>9}{'longest':>9}{'x elytron':>11}")
    for name, rounds in found.items():
        every = [spent for spents in rounds for spent in spents]
        print(f"{name:<20}{middle[name] * 1e3:>9.3f}{min(every) * 1e3:>9.3f}{max(every) * 1e3:>9.1f}"
              f"{middle[name] / middle['elytron']:>11.1f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers", type=Path)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(told.size, told.rounds, told.peers, Path(folder)))


if __name__ == "__main__":
    main()
