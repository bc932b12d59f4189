"""Measure bulk ingestion through the public API including the index, and the memory of an idle runtime on the result.

    python -m benchmarks.ingest [--turns 100000]

Prints the turns per second for a SQLite store (committed durably, indexed, recalled once), and the ratio to plain
sqlite3 that stores the same texts in batches of the same size with an FTS5 index. Then, for a fresh process that opened
the store and recalled once, it prints the resident memory and the time to the first answer.
"""

import argparse
import asyncio
import itertools
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import elytron
from elytron_store.sqlite.driver import sqlite_library

BATCH = 500
WRITES_UNDER_WAY = 2
ROUNDS = 3


def texts(count: int) -> list[str]:
    """Return `count` texts of 10 to 35 words from a vocabulary with Zipf frequencies."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnoprstuvw", k=dice.randint(3, 9))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / (place + 1) for place in range(len(words))))
    return [" ".join(dice.choices(words, cum_weights=weights, k=dice.randint(10, 35))) for _ in range(count)]


def turn(number: int, text: str) -> elytron.TurnDraft:
    """Return a turn as a host would send it, with its own id."""
    message = elytron.Message.model_validate({"text": text, "speaker": ("Ada", "Bob")[number % 2]})
    return elytron.TurnDraft(messages=(message,), host_id=f"t{number}")


async def through_the_api(path: Path, said: list[str]) -> tuple[float, float]:
    """Return the seconds for storing, and for storing, indexing and the first recall."""
    async with elytron.open(path, space="bench") as memory:
        began = time.perf_counter()
        under_way: list[asyncio.Task[elytron.MemoryWriteReport]] = []
        for start in range(0, len(said), BATCH):
            turns = tuple(turn(start + place, text) for place, text in enumerate(said[start : start + BATCH]))
            request = elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=turns))
            under_way.append(asyncio.create_task(memory.write(request)))
            # Prepare one batch while another is being written to disk.
            if len(under_way) == WRITES_UNDER_WAY:
                await under_way.pop(0)
        await asyncio.gather(*under_way)
        stored = time.perf_counter() - began
        await memory.recall(said[-1][:40])
        return stored, time.perf_counter() - began


def raw(path: Path, said: list[str]) -> float:
    """Return the seconds that plain sqlite3 takes for rows and FTS5, in equal batches, each committed durably."""
    connection = sqlite_library().connect(str(path), wait_s=5.0)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("create table m(id integer primary key, b)")
    connection.execute("create virtual table f using fts5(b, content='m', content_rowid='id', tokenize='porter')")
    began = time.perf_counter()
    for start in range(0, len(said), BATCH):
        connection.execute("begin immediate")
        rows = list(enumerate(said[start : start + BATCH], start=start))
        connection.executemany("insert into m values(?, ?)", rows)
        connection.executemany("insert into f(rowid, b) values(?, ?)", rows)
        connection.execute("commit")
    spent = time.perf_counter() - began
    connection.close()
    return spent


IDLE = """
import sys, time
began = time.perf_counter()
import elytron
with elytron.open(sys.argv[1], space="bench") as memory:
    hits = memory.recall(sys.argv[2]).hits
    first = time.perf_counter() - began
    status = open("/proc/self/status", encoding="ascii").read()
    resident = int(status.split("VmRSS:")[1].split()[0]) / 1024
    print(f"{resident:.0f} {first * 1000:.0f} {len(hits)}")
"""


def idle(path: Path, query: str) -> tuple[str, str, str]:
    """Return resident MB, ms from start to the first answer, and hits, of a fresh process on the store."""
    done = subprocess.run([sys.executable, "-c", IDLE, str(path), query], capture_output=True, text=True, check=True)
    resident, first, hits = done.stdout.split()
    return resident, first, hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20_000)
    asked = parser.parse_args()
    said = texts(asked.turns)
    print(f"{asked.turns} turns in batches of {BATCH}, {ROUNDS} rounds")
    print("round | stored turns/s | stored and indexed turns/s | ratio to raw sqlite3 with FTS5")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "none.db"
        for number in range(ROUNDS):
            path = Path(folder) / f"{number}.db"
            stored, whole = asyncio.run(through_the_api(path, said))
            floor = raw(Path(folder) / f"raw{number}.db", said)
            print(f"{number + 1} | {len(said) / stored:.0f} | {len(said) / whole:.0f} | {floor / whole:.2f}")
        resident, first, hits = idle(path, said[0][:40])
        print(f"a fresh process over it: {resident} MB resident, {first} ms to the first answer, {hits} hits")


if __name__ == "__main__":
    main()
