"""Compare the index with SQLite's own full-text search (FTS5, in memory), in one process and one run.

    python benchmarks/index.py [units ...]        default: 1000 10000 100000

Texts are 10 to 35 words of a Zipf vocabulary without stop words, and queries are 3 to 5 words of a stored text joined
by OR, which is hard for every engine. Rounds alternate between the two engines. Figures are medians, and their ratio is
what counts. The index computes all of its signals (three fields, neighbours, windows, sessions), FTS5 only its rank.
"""

import gc
import itertools
import random
import re
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, IndexQuery, SearchUnit
from elytron_index.space_index import SpaceIndex

VOCABULARY = 30_000
QUERIES = 60
ROUNDS = 5
BATCH = 100
LIMIT = 10


def main(sizes: Sequence[int]) -> None:
    """Print one block per size."""
    analyser = TextAnalyser()
    analyser.terms("warm up")
    print(f"SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}")
    for size in sizes:
        measure(size, analyser)


def measure(size: int, analyser: TextAnalyser) -> None:
    """Print throughput, latency and memory of both engines with `size` units."""
    texts = list(corpus(size))
    chance = random.Random(2)
    queries = [chance.sample(chance.choice(texts).split(), chance.randint(3, 5)) for _ in range(QUERIES)]
    units = list(changes(texts))

    gc.collect()
    before = resident_bytes()
    index = SpaceIndex(analyser)
    batches = [units[start : start + BATCH] for start in range(0, size, BATCH)]
    pauses = [timed(lambda batch=batch: index.apply(batch, watermark=0)) for batch in batches]
    gc.collect()
    taken = resident_bytes() - before
    one = sqlite3.connect(":memory:")
    one.execute("create virtual table t using fts5(body, tokenize='porter unicode61')")
    rows = [(text,) for text in texts]
    filled = timed(lambda: one.executemany("insert into t (body) values (?)", rows))

    print(f"\n{size} units")
    print(f"  fill    index {size / sum(pauses):9.0f}/s   fts5 {size / filled:9.0f}/s   x {filled / sum(pauses):.2f}")
    print(f"  pause   longest batch of {BATCH}: {max(pauses) * 1e3:.1f} ms")
    print(f"  memory  {taken / 1e6:.1f} MB by the system, {index.size_bytes / 1e6:.1f} MB by its own count")
    compare("search", [lambda query=query: index.search(IndexQuery(" ".join(query), limit=LIMIT)) for query in queries],
            [lambda query=query: fts5(one, query) for query in queries])  # fmt: skip
    data = index.to_bytes()
    saved, loaded = timed(index.to_bytes), timed(lambda: SpaceIndex.from_bytes(data, analyser))
    print(f"  checkpoint {len(data) / 1e6:.1f} MB, written in {saved * 1e3:.0f} ms, read in {loaded * 1e3:.0f} ms")


def compare(name: str, ours: Sequence[Callable[[], object]], theirs: Sequence[Callable[[], object]]) -> None:
    """Print the median time of a call for each side over alternating rounds."""
    for call in (*ours, *theirs):
        call()
    mine: list[float] = []
    other: list[float] = []
    for _ in range(ROUNDS):
        mine += map(timed, ours)
        other += map(timed, theirs)
    p50, p95 = statistics.median(mine), statistics.quantiles(mine, n=20)[-1]
    rival = statistics.median(other)
    figures = f"index {p50 * 1e3:.3f} ms (p95 {p95 * 1e3:.3f})"
    print(f"  {name}  {figures}   fts5 {rival * 1e3:.3f} ms   x {rival / p50:.1f} faster")


def fts5(connection: sqlite3.Connection, words: Sequence[str]) -> list[tuple[int]]:
    """Return the best rows by FTS5's own rank."""
    asked = " OR ".join(f'"{word}"' for word in words)
    return connection.execute(
        "select rowid from t where t match ? order by rank limit ?", (asked, LIMIT)
    ).fetchall()  # fmt: skip


def corpus(size: int) -> Iterator[str]:
    """Yield texts by Zipf's law from words that are not English stop words."""
    chance = random.Random(1)
    words = ["".join(chance.choices("bdfgklmnprstvz", k=2)) + "".join(chance.choices("aeiou", k=2)) + f"{number:x}"
             for number in range(VOCABULARY)]  # fmt: skip
    weights = list(itertools.accumulate(1 / rank**1.05 for rank in range(1, VOCABULARY + 1)))
    for _ in range(size):
        yield " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(10, 35)))


def changes(texts: Sequence[str]) -> Iterator[DocumentChange]:
    """Yield the texts as turns in conversations of 30."""
    for place, text in enumerate(texts):
        ref = DocumentRef("turn", f"{place:032x}")
        unit = SearchUnit(
            ref, 0, "transcript", text, speaker=("Ada", "Ben")[place % 2], role=("user", "assistant")[place % 2],
            thread=f"{place // 30:032x}", order=place % 30, at=1_700_000_000_000 + place * 60_000,
            scope=(("agent", "a"), ("conversation", f"c{place // 30}")),
        )  # fmt: skip
        yield DocumentChange(ref, (unit,))


def timed(call: Callable[[], object]) -> float:
    """Return the duration of `call` in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 where the system does not report it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000])
