"""Compare the SQLite engine with plain SQLite, as ratios; interleaved rounds, one library, one disk.

The raw side runs the same statements on the same tables with the same indexes, including checksums, in one blocking
loop. That is the best that a program without a port, a queue, preconditions and an event loop could reach. Above 1
means faster than raw. The ratio depends on the device: the engine's hop to its writer thread and back is a small part
of a 4 ms flush and a large part of a 0.2 ms flush. So the hop is also measured, on its own and as a share of a raw
commit.

    python -m benchmarks.store_write [rounds]
"""

import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from elytron_core.clock import Instant, SystemClock
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, JournalEntry, PutChange
from elytron_store.engine import WriteDurability, row_checksum
from elytron_store.sqlite import SqliteStore, driver_report, schema, setup
from elytron_store.sqlite.driver import Raw, sqlite_library

AT = Instant(1_767_225_600_000)
BODY = os.urandom(600)
DIGEST = "d" * 32
NUMBERS = itertools.count()
WRITERS = 64

INSERT = "INSERT INTO documents VALUES (?, ?, ?, 1, ?, ?)"
HEAD = (
    "INSERT INTO heads VALUES (?, ?, ?) "
    'ON CONFLICT (space) DO UPDATE SET sequence = excluded.sequence, "check" = excluded."check"'
)


@cache
def append_statement(columns: int) -> str:
    """Return the statement that appends a journal entry with `columns` columns."""
    return f"INSERT INTO journal VALUES ({','.join('?' * columns)})"


def fresh_key() -> str:
    """Return a key in the form of a UUIDv7, ascending over time."""
    number = next(NUMBERS)
    return f"019b{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-{number * 2654435761 % 2**48:012x}"


class RawWriter:
    """Only the statements of a commit."""

    def __init__(self, path: Path, durability: WriteDurability) -> None:
        setup.create_file(path)
        self.raw: Raw = setup.connect_writer(sqlite_library(), path)
        wanted = setup.SqliteOptions(path, AT, None, sealed=False, durability=durability, library=sqlite_library())
        setup.prepare_file(self.raw, wanted)
        self.heads: dict[str, int] = {}

    def write(self, changes: Sequence[tuple[str, str]]) -> None:
        cursor = self.raw.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        for space, key in changes:
            sequence = self.heads[space] = self.heads.get(space, 0) + 1
            cursor.execute(INSERT, (space, "turns", key, BODY, row_checksum(space, "turns", key, 1, body=BODY)))
            # Use the engine's own row, so that the columns match the table.
            ref = DocumentRef("turns", key)
            row = schema.entry_row(space, JournalEntry(sequence, AT, JournalAction.WRITE, ref, DIGEST))
            cursor.execute(append_statement(len(row)), row)
        for space in {space for space, _ in changes}:
            cursor.execute(HEAD, (space, self.heads[space], row_checksum(space, self.heads[space])))
        cursor.execute("COMMIT")


def batch(space: str) -> Batch:
    ref = DocumentRef("turns", fresh_key())
    entry = EntryDraft(action=JournalAction.WRITE, ref=ref, digest=DIGEST)
    return Batch(space=SpaceId(space), at=AT, entries=(entry,), puts=(PutChange(ref, BODY, 0),))


Work = Callable[[], Awaitable[None]]


def store_work(store: SqliteStore, spaces: Sequence[str], each: int) -> Work:
    """Return `each` consecutive commits for each of `spaces`, all spaces concurrently.

    Batches are created in advance.
    """
    rounds = [[batch(space) for space in spaces] for _ in range(each)]  # keys ascend as in the raw side's groups

    async def write(own: Sequence[Batch]) -> None:
        for one in own:
            await store.commit(one)

    async def work() -> None:
        await asyncio.gather(*(write(own) for own in zip(*rounds, strict=True)))

    return work


def raw_work(raw: RawWriter, spaces: Sequence[str], each: int) -> Work:
    """Return `each` transactions with a write for every one of `spaces`."""
    groups = [[(space, fresh_key()) for space in spaces] for _ in range(each)]

    async def work() -> None:
        for group in groups:
            raw.write(group)

    return work


async def compare(folder: Path, durability: WriteDurability, rounds: int) -> None:
    raw = RawWriter(folder / f"raw-{durability}.db", durability)
    store = await SqliteStore.open(folder / f"store-{durability}.db", clock=SystemClock(), durability=durability)
    many = [f"space {number % 8}" for number in range(WRITERS)]
    sides: dict[str, tuple[Callable[[], Work], int]] = {
        "raw one": (lambda: raw_work(raw, ["one"], 300), 300),
        "store one": (lambda: store_work(store, ["one"], 300), 300),
        "raw many": (lambda: raw_work(raw, many, 60), 60 * WRITERS),
        "store many": (lambda: store_work(store, many, 60), 60 * WRITERS),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in sorted(sides, reverse=bool(number % 2)):
            make, count = sides[name]
            work = make()
            start = time.perf_counter()
            await work()
            if number:  # the first round warms up
                rates[name].append(count / (time.perf_counter() - start))

    def ratio(over: str, under: str) -> str:
        found = sorted(a / b for a, b in zip(rates[over], rates[under], strict=True))
        return f"{found[0]:.2f} / {statistics.median(found):.2f} / {found[-1]:.2f}"

    print(f"{durability}: ratios, min / median / max of {rounds} rounds")
    print(f"  1 writer, store to raw commits             {ratio('store one', 'raw one')}")
    print(f"  {WRITERS} writers, store to raw batches of {WRITERS}      {ratio('store many', 'raw many')}")
    print(f"  {WRITERS} writers, store to one commit per write  {ratio('store many', 'raw one')}")
    hopped = await hop() * statistics.median(rates["raw one"])
    print(f"  a hop to a thread and back, as a share of a raw commit  {hopped:.2f}")
    print(f"  a look at a journal with nothing new, to a point read of raw  {await idle_look(store, raw.raw):.0f}")
    await store.close()
    raw.raw.close()


async def hop(*, hops: int = 2_000) -> float:
    """Return the seconds from the event loop to a waiting thread and back, without any work there."""
    loop = asyncio.get_running_loop()
    queue: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()

    def answer() -> None:
        while (asked := queue.get()) is not None:
            loop.call_soon_threadsafe(asked.set_result, None)

    thread = Thread(target=answer)
    thread.start()
    spent: list[float] = []
    for _ in range(hops):
        asked: asyncio.Future[None] = loop.create_future()
        start = time.perf_counter()
        queue.put(asked)
        await asked
        spent.append(time.perf_counter() - start)
    queue.put(None)
    thread.join()
    return statistics.median(spent)


async def idle_look(store: SqliteStore, raw: Raw, *, looks: int = 2_000) -> float:
    """Return the cost of checking an unchanged journal, in point reads of the raw library."""
    space, after = SpaceId("one"), 1_000_000
    start = time.perf_counter()
    for _ in range(looks):
        await store.journal(space, after=after, limit=100)
    looked = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(looks):
        raw.execute("SELECT sequence FROM heads WHERE space = ?", (space,)).fetchall()
    return looked / (time.perf_counter() - start)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    report = driver_report()
    print(f"{report.library} {report.version}, {report.journal_mode}")
    with tempfile.TemporaryDirectory() as folder:
        for durability in WriteDurability:
            asyncio.run(compare(Path(folder), durability, rounds))


if __name__ == "__main__":
    main()
