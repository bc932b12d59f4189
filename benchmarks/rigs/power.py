"""Cut the power of a disk during writes, mount what was on it, and check that no acknowledged item is lost.

    python -m benchmarks.rigs.power [--engine file sqlite rollback sealed all] [--cuts N] [--seed S]
                                    [--weaken normal off]

A killed process loses nothing that the system still holds in memory, so kills cannot reveal a missing sync; this rig
can. The disk is an ext4 image in memory. At a cut, the writer is killed and the image is copied at once: the copy is
what the device had. Each cut continues from the copy of the previous one. Where no image can be mounted, the rig says
so and exits 0.

`--weaken off` makes every sync do nothing, and `--weaken normal` uses SQLite's weaker option. With `off`, the rig must
report losses; otherwise it is blind and exits 1. With `normal`, losses are counted, and only partial items are errors.
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

from benchmarks.rigs import images, tables
from benchmarks.rigs.book import Book, Fate
from benchmarks.rigs.children import READY, Child, work
from benchmarks.rigs.engines import Engine, Weakness, open_memory
from benchmarks.rigs.images import Disk, Disks
from benchmarks.rigs.traffic import Plan
from benchmarks.rigs.verify import Findings, verify
from elytron_core.errors import ElytronError

_STORE_ITEMS = 1_500
_OPENING_S = 60.0
_HELD = {Fate.KEPT, Fate.FORGOTTEN}


@dataclass(frozen=True, slots=True)
class Trial:
    """A combination of engine and weakness to try."""

    engine: Engine
    weakness: Weakness
    chance: random.Random


@dataclass(slots=True)
class Outcome:
    """The results of one engine's power cuts."""

    cuts: int = 0
    acknowledged: int = 0
    cuts_with_loss: int = 0
    unusable: int = 0
    found: Findings = field(default_factory=Findings)


def run(trial: Trial, disks: Disks, /, *, cuts: int) -> Outcome:
    """Cut the power `cuts` times during writes."""
    outcome = Outcome()
    book, disk = Book(), disks.new()
    try:
        while outcome.cuts < cuts:
            disk = _cut(trial, disk, book, name=f"c{outcome.cuts}")
            outcome.cuts += 1
            found = _look(trial, disk, book, outcome)
            outcome.found.add(found)
            outcome.cuts_with_loss += bool(found.lost)
            if not found.ok or len(book.items) > _STORE_ITEMS:
                outcome.acknowledged += book.acknowledged
                book = Book()
                disk.close()
                disk = disks.new()
        outcome.acknowledged += book.acknowledged
    finally:
        disk.close()
    return outcome


def _cut(trial: Trial, disk: Disk, book: Book, /, *, name: str) -> Disk:
    """Let a child write for a moment, cut the power, and return what was on the disk."""
    plan = Plan(name=name, seed=trial.chance.randrange(2**32), tasks=trial.chance.randint(1, 8))
    child = Child(work, trial.engine, disk.place, plan, trial.weakness)
    child.listen(_OPENING_S, until=READY)
    child.listen(trial.chance.uniform(0.002, 0.250))
    said = child.kill()
    after = disk.after_power_cut()
    book.read(said)
    if child.exit_code != -signal.SIGKILL:
        book.errors.append(f"a child ended by itself with {child.exit_code}")
    disk.close()
    return after


def _look(trial: Trial, disk: Disk, book: Book, outcome: Outcome) -> Findings:
    async def look() -> Findings:
        memory = await open_memory(trial.engine, disk.place)
        try:
            return await verify(memory, book, chance=trial.chance)
        finally:
            await memory.close()

    try:
        return asyncio.run(look())
    except ElytronError as error:
        outcome.unusable += 1
        lost = [f"{item.verb} {item.token}" for item in book.items.values() if item.fate in _HELD]
        return Findings(lost=lost, wrong=[f"the store cannot be used: {error.key}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = tables.arguments("cut the power of the disk under a writer; nothing acknowledged may be lost")
    parser.add_argument("--cuts", type=int, default=60, help="per engine")
    parser.add_argument("--weaken", type=Weakness, choices=[Weakness.NORMAL, Weakness.OFF], default=Weakness.NONE)
    options = parser.parse_args(argv)
    reason = images.why_not()
    if reason is not None:
        print(f"power: not run: {reason}")
        return 0
    images.enter_own_mounts()
    seed = tables.seed_of(options.seed)
    weakness: Weakness = options.weaken
    rows: list[dict[str, str]] = []
    is_as_promised = True
    folder = Path(tempfile.mkdtemp(prefix="elytron-power-"))
    try:
        try:
            disks = Disks(folder)
            disks.new().close()
        except OSError as error:
            print(f"power: not run: {error}")
            return 0
        for engine in tables.engines_of(options.engine):
            began = time.monotonic()
            trial = Trial(engine, weakness, random.Random(f"{seed} {engine}"))
            outcome = run(trial, disks, cuts=options.cuts)
            if weakness is Weakness.NONE:
                tables.tell(engine, outcome.found)
            is_as_promised = is_as_promised and _is_as_promised(outcome, weakness)
            rows.append(_row(engine, weakness, outcome, time.monotonic() - began))
        disks.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tables.show(rows)
    return 0 if is_as_promised else 1


def _is_as_promised(outcome: Outcome, weakness: Weakness) -> bool:
    match weakness:
        case Weakness.NONE:
            return outcome.found.ok
        case Weakness.NORMAL:
            return not outcome.found.wrong
        case Weakness.OFF:
            return bool(outcome.found.lost)


def _row(engine: Engine, weakness: Weakness, outcome: Outcome, seconds: float) -> dict[str, str]:
    return {
        "engine": engine,
        "weakened": weakness,
        "cuts": str(outcome.cuts),
        "acknowledged": str(outcome.acknowledged),
        "lost": str(len(outcome.found.lost)),
        "cuts with loss": str(outcome.cuts_with_loss),
        "unusable after": str(outcome.unusable),
        "wrong": str(len(outcome.found.wrong)),
        "s/cut": f"{seconds / outcome.cuts:.2f}",
    }


if __name__ == "__main__":
    raise SystemExit(main())
