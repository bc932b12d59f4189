"""Make writes, syncs and renames fail at every place where they occur, and fill devices: no answer may be false.

    python -m benchmarks.rigs.faults [--engine file sqlite rollback sealed all] [--seed S] [--every N]

A child does one piece of work: it opens a store, writes, forgets, erases, recalls and closes it. Each sweep repeats
this with the fault one call (or some bytes) later, until the work finishes before the fault occurs. Then the same
process continues without the fault on a new handle. Asserted of every run:

- what was acknowledged is present, nothing is partial, and the store is sound;
- a failed sync of a file, and with the file engine of a folder, is reported to the caller;
- refusals are StoreFull, StoreFailed or StoreUnavailable, and what StoreFull refused is absent;
- after StoreFailed, that handle acknowledges nothing; after StoreFull, it does as soon as there is room;
- a new handle works.

System calls are made to fail by strace. Where it is not installed, Python's own sync calls are, for the file engine.
Devices are filled where this process may mount. `--every N` tests only every N-th place. Exits 1 if a claim fails.
"""

import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rigs import images, tables
from benchmarks.rigs.book import Book
from benchmarks.rigs.children import READY, Child
from benchmarks.rigs.engines import Engine, open_memory
from benchmarks.rigs.faulting import CLOSING, HEALED, REST, Fault, Injection, Means, endure, has_strace
from benchmarks.rigs.traffic import Plan, Verb
from benchmarks.rigs.verify import Findings, verify
from elytron_core.errors import StoreFailed, StoreFull, StoreUnavailable

_HONEST = frozenset({StoreFull.key, StoreFailed.key, StoreUnavailable.key})
_WORK = tuple(map(Verb, ["add", "turns", "fact", "plain", "forget", "add", "erase", "add", "recall", "add"]))
_WRITES = "write,pwrite64,writev,pwritev"
_SYNCS = "fsync,fdatasync"
_RENAMES = "rename,renameat,renameat2"
_STUCK_S = 120.0
_PLACES = 2_000
"""A sweep that has not finished by then is itself faulty."""
_MISSES = 2
"""Calls are distributed over threads by chance, so a single missed place need not be the end."""
_DEVICE = "4m"


@dataclass(frozen=True, slots=True)
class Sweep:
    """One fault, moved from place to place."""

    name: str
    means: Means
    calls: str = ""
    error: str = ""
    is_lasting: bool = False
    first: int = 1
    step: int = 1

    def at(self, place: int, /) -> Fault:
        amount = self.first + place * self.step
        return Fault(self.means, amount, self.calls, self.error, self.is_lasting)


SWEEPS = (
    Sweep("a sync fails", Means.SYSCALL, _SYNCS, "EIO"),
    Sweep("every sync fails from there", Means.SYSCALL, _SYNCS, "EIO", is_lasting=True),
    Sweep("a sync finds no room", Means.SYSCALL, _SYNCS, "ENOSPC"),
    Sweep("a write fails", Means.SYSCALL, _WRITES, "EIO"),
    Sweep("a write finds no room", Means.SYSCALL, _WRITES, "ENOSPC"),
    Sweep("no write finds room from there", Means.SYSCALL, _WRITES, "ENOSPC", is_lasting=True),
    Sweep("a rename fails", Means.SYSCALL, _RENAMES, "EIO"),
    Sweep("a truncation fails", Means.SYSCALL, "ftruncate", "EIO"),
    Sweep("a removal fails", Means.SYSCALL, "unlink,unlinkat,rmdir", "EIO"),
    Sweep("a sync fails", Means.PYTHON, error="EIO"),
    Sweep("every sync fails from there", Means.PYTHON, error="EIO", is_lasting=True),
    Sweep("a file meets its size limit", Means.LIMIT, first=509, step=1021),
    Sweep("the device is full", Means.DEVICE, first=0, step=4096),
)


@dataclass(slots=True)
class Outcome:
    """The results of one sweep."""

    places: int = 0
    refused: int = 0
    acknowledged: int = 0
    found: Findings = field(default_factory=Findings)


def run(engine: Engine, sweep: Sweep, folder: Path, /, *, every: int, chance: random.Random) -> Outcome:
    """Repeat the work with the fault at one place after the other, until it comes too late."""
    outcome = Outcome()
    misses = 0
    for place in range(0, _PLACES, every):
        fault = sweep.at(place)
        with _home(folder, fault) as home:
            has_struck = _try(engine, home, fault, outcome, chance)
        outcome.places += has_struck
        misses = 0 if has_struck else misses + 1
        if misses > _MISSES:
            return outcome
    outcome.found.wrong.append("the sweep does not end")
    return outcome


@contextmanager
def _home(folder: Path, fault: Fault) -> Generator[Path]:
    """Yield a new folder, on its own small device if the fault fills it."""
    home = Path(tempfile.mkdtemp(dir=folder))
    if fault.means is not Means.DEVICE:
        yield home
        shutil.rmtree(home)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DEVICE}", "elytron-rig", str(home)], check=True)
    try:
        yield home
    finally:
        subprocess.run(["umount", str(home)], check=True)


def _try(engine: Engine, home: Path, fault: Fault, outcome: Outcome, chance: random.Random) -> bool:
    """Do the work once and check it. Return whether the fault occurred."""
    plan = Plan(name="f", seed=1, spaces=("alpha",), conversations=1, tasks=1, script=_WORK)
    child = Child(endure, engine, home, plan, fault)
    child.listen(_STUCK_S, until=READY)
    injection = Injection(child.pid, fault) if fault.means is Means.SYSCALL else None
    child.go_on()
    struck: list[str] = []
    untold: list[str] = []
    sign = child.hear(_STUCK_S, REST, CLOSING)
    if sign == CLOSING:
        untold = injection.struck() if injection is not None else []
        child.go_on()
        sign = child.hear(_STUCK_S, REST)
    if injection is not None:
        injection.stop()
        struck = injection.struck()
        injection.forget()
    if sign is None:
        child.kill()
        outcome.found.wrong.append(f"{fault}: the work did not end")
        return True
    child.go_on()
    lines = child.wait()
    before = lines[: lines.index(HEALED)] if HEALED in lines else lines
    after = lines[len(before) + 1 :]
    refused = [line for line in before if line.startswith("err")]
    book = Book(tolerates=_HONEST)
    book.read(before + after)
    outcome.acknowledged += book.acknowledged
    outcome.refused += len(refused)
    found = Findings(wrong=list(false_answers(fault, before, after)))
    # SQLite syncs the folder of a new journal file without checking the result; the file engine does check.
    must_tell = [path for path in untold if engine is Engine.FILE or not Path(path).is_dir()]
    if fault.calls == _SYNCS and must_tell and not refused:
        found.wrong.append("a sync failed and nobody was told")
    if child.exit_code != 0:
        found.wrong.append(f"the process ended with {child.exit_code}")
    found.add(asyncio.run(_look(engine, home, book, chance)))
    outcome.found.lost += [f"{fault}: {line}" for line in found.lost]
    outcome.found.wrong += [f"{fault}: {line}" for line in found.wrong]
    return bool(struck or refused) or not found.ok


def false_answers(fault: Fault, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield broken promises that the answers themselves show."""
    has_failed = False
    for line in before:
        kind, verb, token, *rest = line.split(" ")
        if kind == "err":
            has_failed = has_failed or (rest == [StoreFailed.key] and verb != Verb.RECALL)
        elif kind == "did" and has_failed:
            yield f"{verb} {token} was acknowledged behind a failed write"
    if fault.is_relieved:
        refusals = [line for line in before if line.startswith("err") and not line.startswith("err open")]
        if len(refusals) > 1 and not has_failed:
            yield f"still refused when there was room again: {refusals[1]}"
    errors = [line for line in after if line.startswith("err")]
    if errors or not after:
        yield f"a new handle without the fault does not work: {errors[:1]}"


async def _look(engine: Engine, home: Path, book: Book, chance: random.Random) -> Findings:
    memory = await open_memory(engine, home)
    try:
        return await verify(memory, book, chance=chance)
    finally:
        await memory.close()


def why_not(engine: Engine, sweep: Sweep, /, *, may_mount: bool) -> str | None:
    """Return why `sweep` does not run on `engine` here, or None if it does."""
    match sweep.means:
        case Means.SYSCALL:
            return None if has_strace() else "strace is not installed"
        case Means.PYTHON:
            return None if engine is Engine.FILE and not has_strace() else "strace does it, or SQLite would not notice"
        case Means.DEVICE:
            return None if may_mount else "a small device needs a mount"
        case Means.LIMIT:
            return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = tables.arguments("let the system fail a store at every place; no answer may be false")
    parser.add_argument("--every", type=int, default=1, help="take every N-th place only")
    options = parser.parse_args(argv)
    may_mount = images.why_not() is None
    if may_mount:
        images.enter_own_mounts()
    seed = tables.seed_of(options.seed)
    rows: list[dict[str, str]] = []
    is_sound = True
    for engine in tables.engines_of(options.engine):
        chance = random.Random(f"{seed} {engine}")
        for sweep in SWEEPS:
            if why_not(engine, sweep, may_mount=may_mount) is not None:
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="elytron-faults-", dir=tables.memory_folder()) as folder:
                outcome = run(engine, sweep, Path(folder), every=options.every, chance=chance)
            tables.tell(f"{engine}, {sweep.name}", outcome.found)
            is_sound = is_sound and outcome.found.ok
            rows.append(
                {
                    "engine": engine,
                    "fault": sweep.name,
                    "by": sweep.means,
                    "places": str(outcome.places),
                    "acknowledged": str(outcome.acknowledged),
                    "refused": str(outcome.refused),
                    "lost": str(len(outcome.found.lost)),
                    "wrong": str(len(outcome.found.wrong)),
                    "seconds": f"{time.monotonic() - began:.0f}",
                }
            )
    tables.show(rows)
    return 0 if is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
