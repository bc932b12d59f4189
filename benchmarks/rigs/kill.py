"""Kill a writer at a random moment, reopen its store, and check that no acknowledged item is lost.

    python -m benchmarks.rigs.kill [--engine file sqlite rollback sealed all] [--kills N] [--seed S] [--short]
                                   [--folder PATH]

One store is used across many kills until it has grown. Most kills come 1 to 60 ms after traffic began, some while the
store is being opened, and some follow each other without a check in between. Stores are in memory where the system has
a folder for this: it makes no difference to a killed process, which gets further before it dies. Exits 1 if anything is
lost or wrong.
"""

import asyncio
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rigs import tables
from benchmarks.rigs.book import Book
from benchmarks.rigs.children import READY, Child, work
from benchmarks.rigs.engines import Engine, Weakness, open_memory
from benchmarks.rigs.traffic import Plan
from benchmarks.rigs.verify import Findings, verify

_STORE_ITEMS = 2_000
"""A store with more items is replaced by a new one, so that checking all of it stays cheap."""
_OPENING_S = 60.0
_SHORT_KILLS = 100


@dataclass(slots=True)
class Outcome:
    """The results of one engine's kills."""

    kills: int = 0
    stores: int = 0
    acknowledged: int = 0
    interrupted: int = 0
    reopen_s: list[float] = field(default_factory=list[float])
    found: Findings = field(default_factory=Findings)


def run(engine: Engine, folder: Path, /, *, kills: int, chance: random.Random) -> Outcome:
    """Kill `kills` children that use the store of `engine`, and check it after most of them."""
    outcome = Outcome()
    book = Book()
    home = _fresh(folder, outcome)
    while outcome.kills < kills:
        restless = chance.random() < 0.25
        plan = Plan(
            name=f"k{outcome.kills}",
            seed=chance.randrange(2**32),
            tasks=chance.randint(1, 8),
            calls=chance.randint(1, 4) if restless else 1_000_000,
            rounds=1_000_000 if restless else 1,
        )
        child = Child(work, engine, home, plan, Weakness.NONE)
        while_opening = chance.random() < 0.1
        if not while_opening:
            child.listen(_OPENING_S, until=READY)
        child.listen(chance.uniform(0.001, 0.060))
        book.read(child.kill())
        if child.exit_code != -signal.SIGKILL:
            book.errors.append(f"a child ended by itself with {child.exit_code}")
        outcome.kills += 1
        if chance.random() < 0.25 and outcome.kills < kills:
            continue
        outcome.interrupted += sum(item.fate in {"tried", "forgetting", "erasing"} for item in book.items.values())
        outcome.found.add(asyncio.run(_look(engine, home, book, chance, outcome)))
        if len(book.items) > _STORE_ITEMS or not outcome.found.ok:
            outcome.acknowledged += book.acknowledged
            if not outcome.found.ok:
                break
            book = Book()
            shutil.rmtree(home)
            home = _fresh(folder, outcome)
    else:
        outcome.acknowledged += book.acknowledged
    return outcome


def _fresh(folder: Path, outcome: Outcome) -> Path:
    home = folder / f"store{outcome.stores}"
    home.mkdir(parents=True)
    outcome.stores += 1
    return home


async def _look(engine: Engine, home: Path, book: Book, chance: random.Random, outcome: Outcome) -> Findings:
    began = time.perf_counter()
    memory = await open_memory(engine, home)
    outcome.reopen_s.append(time.perf_counter() - began)
    try:
        return await verify(memory, book, chance=chance)
    finally:
        await memory.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = tables.arguments("kill a writer at random instants; nothing acknowledged may be lost")
    parser.add_argument("--kills", type=int, default=1_000, help="per engine")
    parser.add_argument("--folder", type=Path, default=tables.memory_folder(), help="where stores lie")
    parser.add_argument("--short", action="store_true", help=f"{_SHORT_KILLS} kills per engine")
    options = parser.parse_args(argv)
    seed = tables.seed_of(options.seed)
    rows: list[dict[str, str]] = []
    is_sound = True
    for engine in tables.engines_of(options.engine):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="elytron-kill-", dir=options.folder) as folder:
            chance = random.Random(f"{seed} {engine}")
            outcome = run(engine, Path(folder), kills=_SHORT_KILLS if options.short else options.kills, chance=chance)
        minutes = (time.monotonic() - began) / 60
        tables.tell(engine, outcome.found)
        is_sound = is_sound and outcome.found.ok
        rows.append(
            {
                "engine": engine,
                "kills": str(outcome.kills),
                "looked at": str(len(outcome.reopen_s)),
                "stores": str(outcome.stores),
                "acknowledged": str(outcome.acknowledged),
                "cut off in the act": str(outcome.interrupted),
                "lost": str(len(outcome.found.lost)),
                "wrong": str(len(outcome.found.wrong)),
                "reopened in (worst)": f"{max(outcome.reopen_s) * 1000:.0f} ms",
                "kills/min": f"{outcome.kills / minutes:.0f}",
            }
        )
    tables.show(rows)
    return 0 if is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
