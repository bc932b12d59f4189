"""Let several processes use one store at once, kill one of them, and check that no acknowledged item is lost.

    python -m benchmarks.rigs.contend [--engine file sqlite rollback sealed all] [--rounds N] [--processes N] [--seed S]

In each round, the processes add, read, forget and erase in the same conversations, and send the same turns under the
same host ids. One is killed at a random moment. The others must finish without an error, because a locked store must
never become visible. Exits 1 if anything is lost, wrong or refused.
"""

import asyncio
import random
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

_OPENING_S = 60.0
_CALLS = 15
_TASKS = 2


@dataclass(slots=True)
class Outcome:
    """The results of one engine's rounds."""

    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    found: Findings = field(default_factory=Findings)


def run(engine: Engine, folder: Path, /, *, rounds: int, processes: int, chance: random.Random) -> Outcome:
    """Let `processes` children compete for the store of `engine`, `rounds` times, with a new store each time."""
    outcome = Outcome()
    for number in range(rounds):
        home = folder / f"store{number}"
        home.mkdir()
        book = Book()
        began = time.monotonic()
        _contend(engine, home, book, processes=processes, chance=chance)
        outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - began)
        outcome.rounds += 1
        outcome.acknowledged += book.acknowledged
        outcome.refused += len(book.errors)
        outcome.found.add(asyncio.run(_look(engine, home, book, chance)))
        if not outcome.found.ok:
            break
    return outcome


def _contend(engine: Engine, home: Path, book: Book, /, *, processes: int, chance: random.Random) -> None:
    children: list[Child] = []
    for number in range(processes):
        plan = Plan(
            name=f"p{number}",
            seed=chance.randrange(2**32),
            spaces=("alpha",),
            conversations=2,
            tasks=_TASKS,
            calls=_CALLS,
            shared="all",
        )
        children.append(Child(work, engine, home, plan, Weakness.NONE))
    for child in children:
        child.listen(_OPENING_S, until=READY)
    victim = children.pop(chance.randrange(processes))
    victim.listen(chance.uniform(0.005, 0.300))
    book.read(victim.kill())
    for child in children:
        book.read(child.wait())
        if child.exit_code != 0:
            book.errors.append(f"a process ended with {child.exit_code}")


async def _look(engine: Engine, home: Path, book: Book, chance: random.Random) -> Findings:
    memory = await open_memory(engine, home)
    try:
        return await verify(memory, book, chance=chance)
    finally:
        await memory.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = tables.arguments("let processes contend for one store and kill one; nothing may be lost or refused")
    parser.add_argument("--rounds", type=int, default=20, help="per engine")
    parser.add_argument("--processes", type=int, default=6)
    options = parser.parse_args(argv)
    seed = tables.seed_of(options.seed)
    rows: list[dict[str, str]] = []
    is_sound = True
    for engine in tables.engines_of(options.engine):
        with tempfile.TemporaryDirectory(prefix="elytron-contend-", dir=tables.memory_folder()) as folder:
            chance = random.Random(f"{seed} {engine}")
            outcome = run(engine, Path(folder), rounds=options.rounds, processes=options.processes, chance=chance)
        tables.tell(engine, outcome.found)
        is_sound = is_sound and outcome.found.ok
        rows.append(
            {
                "engine": engine,
                "rounds": str(outcome.rounds),
                "processes": str(options.processes),
                "killed": str(outcome.rounds),
                "acknowledged": str(outcome.acknowledged),
                "refused": str(outcome.refused),
                "lost": str(len(outcome.found.lost)),
                "wrong": str(len(outcome.found.wrong)),
                "slowest round": f"{outcome.slowest_s:.1f} s",
            }
        )
    tables.show(rows)
    return 0 if is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
