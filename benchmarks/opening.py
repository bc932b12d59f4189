"""Measure opening a store until the first answer, each time in a fresh process.

    python -m benchmarks.opening [units] [--rounds 7] [--plain] [--engine sqlite|file]

The store is one space of texts with vectors of 384 numbers (`--plain`: without). The process that writes them stores no
index and ends as in a crash. The next one builds the index from the journal and reports its progress; it leaves a
checkpoint, from which all others open. `first` and `second` are the first two answers. The clock starts with
`elytron.open`, after the imports that it needs, whose time is reported separately.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import elytron
from benchmarks.corpora import DIMENSIONS, Looked, corpus
from benchmarks.recall import filled
from elytron.indexing import checkpoints
from elytron_core.ports.models import EmbedderInfo

ASKED = 2
Figures = dict[str, float]


class Prepared:
    """An embedder with the vectors of some questions in a file, so that a process need not create the corpus."""

    info = EmbedderInfo("looked-up", DIMENSIONS)

    def __init__(self, path: Path, /) -> None:
        self._vectors = np.load(path)
        self.questions: list[str] = json.loads(path.with_suffix(".json").read_text())

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        raise AssertionError(f"nothing is left to embed, and {len(texts)} texts are")

    async def embed_query(self, text: str, /) -> Sequence[float]:
        return self._vectors[self.questions.index(text)].tolist()


def written(store: str, size: int, prepared: Path, /, *, plain: bool) -> None:
    """Fill the store, and end without closing it and without a checkpoint of the index."""
    checkpoints.ASIDE_LEAST = sys.maxsize
    data = corpus(size)
    np.save(prepared, data.asked[:ASKED])
    prepared.with_suffix(".json").write_text(json.dumps(data.questions[:ASKED]))
    asyncio.run(filled(store, data, None if plain else Looked(data)))
    os._exit(0)


async def answered(store: str, prepared: Path, /, *, plain: bool) -> Figures:
    """Return the times for opening the store and the first answers. The second answer uses an index in memory."""
    embedder = Prepared(prepared)
    told: list[tuple[int, int]] = []
    opening, imported = elytron.open, time.process_time()
    clock, cpu = [time.perf_counter()], [time.process_time()]
    async with opening(
        store,
        space="bench",
        embedder=None if plain else embedder,
        index_bytes=1 << 31,
        progress=lambda done, total: told.append((done, total)),
    ) as memory:
        for question in (None, *embedder.questions):
            if question is not None:
                assert len((await memory.recall(question, limit=10)).hits) == 10
            clock.append(time.perf_counter())
            cpu.append(time.process_time())
    assert not told or told[-1][0] == told[-1][1]
    spent = np.diff(clock), np.diff(cpu)
    return {
        "import": imported,
        "open": spent[0][0],
        "first": spent[0][1],
        "cpu": spent[1][0] + spent[1][1],
        "second": spent[0][2],
        "told": len(told),
    }


def in_a_process(*words: str) -> Figures:
    """Run this module in a separate process with `words`, and return what it prints."""
    told = subprocess.run([sys.executable, "-m", "benchmarks.opening", *words], check=True, capture_output=True)
    return json.loads(told.stdout) if told.stdout else {}


def show(name: str, rounds: list[Figures], /) -> None:
    """Print a line of medians, and the minimum time for opening and the first answer."""
    middle = {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}
    whole = [figures["open"] + figures["first"] for figures in rounds]
    print(f"{name:<28}{statistics.median(whole) * 1e3:>9.0f}{min(whole) * 1e3:>9.0f}{middle['cpu'] * 1e3:>8.0f}"
          f"{middle['open'] * 1e3:>8.0f}{middle['first'] * 1e3:>8.0f}{middle['second'] * 1e3:>8.1f}"
          f"{middle['import'] * 1e3:>9.0f}{middle['told']:>7.0f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--engine", choices=["sqlite", "file"], default="sqlite")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    plain = ["--plain"] * told.plain
    if told.part is not None:
        part, folder = told.part
        store, prepared = f"{told.engine}://{folder}/store", Path(folder) / "asked.npy"
        if part == "write":
            written(store, told.size, prepared, plain=told.plain)
        print(json.dumps(asyncio.run(answered(store, prepared, plain=told.plain))))
        return
    with tempfile.TemporaryDirectory() as folder:
        same = [str(told.size), "--engine", told.engine, *plain]
        in_a_process(*same, "--part", "write", folder)
        print(f"{told.size} texts, {told.engine}{', without vectors' * told.plain}; ms")
        print(
            f"{'':<28}{'median':>9}{'least':>9}{'cpu':>8}{'open':>8}{'first':>8}{'second':>8}{'import':>9}{'told':>7}"
        )
        show("from the journal alone", [in_a_process(*same, "--part", "answer", folder)])
        show("from its checkpoint", [in_a_process(*same, "--part", "answer", folder) for _ in range(told.rounds)])


if __name__ == "__main__":
    main()
