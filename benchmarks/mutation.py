"""Measure the share of small faults that the tests detect.

    python -m benchmarks.mutation [--seconds 900] [--seed 1] [--modules elytron_store/sqlite ...]
    python -m benchmarks.mutation --direct --faults 60 --each 1 --seed 2 --modules elytron_core elytron ...

Copies the checkout to a temporary folder and inserts one fault after the other into modules there, drawn by the seed.
For each fault, only the tests that reach its line run, the fastest first. Which these are is learned from a run with
coverage of the tests that import the module or something that imports it. A fault is detected if a test fails or does
not end. It survives if the tests that reach it pass. A fault that no test reaches is counted separately, because the
time may not have been enough to run every relevant test. Some faults change nothing observable, so the share is a lower
bound. Each undetected fault is printed. The run ends when its time is over, and an unfinished fault does not count.

All times are processor time of the tests, so the load on the machine changes nothing. `--direct` learns nothing: the
test files related to a module, the most closely related first, run for at most `--wide` seconds. Faults they do not
detect count as survived, whether they are reached or not.
"""

import argparse
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from benchmarks.mutation_faults import Place, places_of, with_fault
from benchmarks.mutation_imports import Imports, modules_below

ROOT = Path(__file__).parents[1]
MODULES = (
    "elytron_store/sqlite",
    "elytron_store/file",
    "elytron_store/sealed",
    "elytron_store/wrappers/capacity.py",
    "elytron/erasure/removal.py",
    "elytron/transfer/archive.py",
    "elytron/transfer/bootstrap.py",
    "elytron/transfer/restore.py",
    "elytron_core/policy/admission/rules.py",
    "elytron_core/policy/transcript.py",
    "elytron_core/policy/projection/builder.py",
    "elytron_core/policy/projection/sections.py",
    "elytron_core/policy/projection/sections.py",
    "elytron_core/policy/projection/sections.py",
    "elytron_core/policy/ranking/weights.py",
    "elytron_core/policy/ranking/facts.py",
    "elytron_adapter",
    "elytron_gateway/users.py",
    "elytron_index/structures/visibility.py",
)
"""Modules that carry promises: commits, erasure, encryption, admission, the fence, keys, filters, archives."""
FILES = 40
"""Maximum number of test files for a module."""
LEARN_S = 60.0
FILE_S = 90.0
"""Time limit for a module's test files, and for a single file."""
TESTS = 200
TESTS_S = 15.0
"""Limits on the number of tests for one fault, and on their total previous duration."""
RUN_S = 90.0
"""Time after which a run counts as not ending."""
STUCK = 10
"""Multiple of the time limit in wall-clock time after which an idle run also counts as not ending."""
STUCK_S = 120.0
"""Minimum wall-clock time for that."""
_TOOK = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+(.+)$")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$")


class Fate(StrEnum):
    """The fate of a fault."""

    SEEN = "seen"
    SURVIVED = "survived"
    UNREACHED = "reached by no test"


class Verdict(NamedTuple):
    """The fate of a fault, and the reason."""

    fate: Fate
    why: str


class OutOfTime(Exception):
    """The time of the whole run is over."""


class Workshop:
    """A copy of the checkout, and what is known about its tests."""

    def __init__(self, folder: Path, /, *, seconds: float, wide_s: float, is_direct: bool = False) -> None:
        self.folder = folder
        self._wide_s = wide_s
        self._is_direct = is_direct
        self.until = used_s() + seconds
        """End of the run, in processor time of its tests."""
        self._known: set[str] = set()
        self._took: Counter[str] = Counter()
        self._reach: dict[Path, dict[int, set[str]]] = {}
        self._failing: set[str] = set()
        self._changed = 0
        paths = [str(path) for path in sorted((folder / "packages").iterdir())]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(folder)])}

    @property
    def left(self) -> float:
        """Return the remaining seconds."""
        return self.until - used_s()

    def learn(self, files: Iterable[str], /) -> bool:
        """Run unknown test files, at least one and more for `LEARN_S`. Return whether there was any."""
        until = used_s() + min(LEARN_S, self.left)
        new = [file for file in files if file not in self._known]
        for file in new:
            if used_s() > until:
                break
            self._known.add(file)
            self._learn(file)
        return bool(new)

    def _learn(self, file: str) -> None:
        data = self.folder / ".coverage.mutation"
        data.unlink(missing_ok=True)
        self._environment["COVERAGE_FILE"] = str(data)
        measured = ["--cov=packages", "--cov-context=test", "--cov-report=", "--durations=0", "-vv", "-n0"]
        told = self._pytest([file, *measured], wait_s=min(FILE_S, self.left))
        if told is None or not data.exists():
            return
        self._note_output(told.stdout)
        self._note_data(data)

    def _note_output(self, output: str) -> None:
        for line in output.splitlines():
            if took := _TOOK.match(line):
                self._took[took[2]] += int(1_000 * float(took[1]))
            elif failed := _FAILED.match(line):
                self._failing.add(failed[1])

    def _note_data(self, data: Path) -> None:
        read = CoverageData(str(data))
        read.read()
        for name in read.measured_files():
            # The suite may have run in another checkout.
            lines = self._reach.setdefault(self.folder / "packages" / name.rpartition("/packages/")[2], {})
            for line, contexts in read.contexts_by_lineno(name).items():
                tests = {context.rpartition("|")[0] for context in contexts if context}
                lines.setdefault(line, set()).update(tests - self._failing)

    def judge(self, module: Path, place: Place, files: Sequence[str], /) -> tuple[Verdict, str]:
        """Insert a fault into `module`, run the tests that reach it, and remove it.

        Return its fate and its description.

        If these tests detect nothing, more of `files` are learned for as long as the first ones; then the rest runs for
        a while.
        """
        path = self.folder / module
        changed, told = with_fault(path.read_text(encoding="utf-8"), place)
        tried: set[str] = set()
        for is_again in (False, True):
            if is_again and (self._is_direct or not self.learn(files)):
                break
            tests = self._tests(path, place.line, tried)
            tried.update(tests)
            if tests and (seen := self._run(path, changed, tests)) is not None:
                return seen, told
        further = [file for file in files if file not in self._known]
        if self._wide_s and further and (seen := self._run(path, changed, further, wait_s=self._wide_s)) is not None:
            return seen, told
        if self._is_direct:
            return Verdict(Fate.SURVIVED, f"{Fate.SURVIVED}, as {len(further)} files have it"), told
        fate = Fate.SURVIVED if tried else Fate.UNREACHED
        return Verdict(fate, f"{fate}, {len(tried)} tests reach it" if tried else fate.value), told

    def _run(self, path: Path, changed: str, tests: Sequence[str], *, wait_s: float = RUN_S) -> Verdict | None:
        """Run `tests` with `changed` at `path`, and return None if they detect nothing. Raises OutOfTime."""
        if self.left < 0:
            raise OutOfTime
        source, times = path.read_text(encoding="utf-8"), path.stat()
        self._changed += 1
        path.write_text(changed, encoding="utf-8")
        # Compiled code is identified by its source's time in whole seconds, so each fault gets a different time.
        os.utime(path, (self._changed, self._changed))
        try:
            ended = self._pytest(["-x", "-n0", *tests], wait_s=min(wait_s, self.left))
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))
        if ended is None and self.left < 0:
            raise OutOfTime
        if ended is None:
            return Verdict(Fate.SEEN, "no end") if wait_s == RUN_S else None
        if ended.returncode > 1 and not self._are_there(tests):
            return None
        return Verdict(Fate.SEEN, "a test failed") if ended.returncode else None

    def _are_there(self, tests: Sequence[str]) -> bool:
        """Return whether `tests` are found without a fault, so that not finding them says something about a fault."""
        found = self._pytest(["--collect-only", "-n0", *tests], wait_s=RUN_S)
        return found is not None and found.returncode == 0

    def _tests(self, path: Path, line: int, without: Collection[str]) -> Sequence[str]:
        """Return the tests that reach a line, fastest first.

        For a line that runs at import, return those that reach any line.
        """
        lines = self._reach.get(path, {})
        found = lines.get(line) or set[str]()
        if not found and line in lines:
            found = set[str]().union(*lines.values())
        quickest = sorted(found.difference(without), key=lambda test: (self._took[test], test))[:TESTS]
        ends = accumulate(self._took[test] for test in quickest)
        return [test for test, end in zip(quickest, ends, strict=True) if end <= 1_000 * TESTS_S] or quickest[:1]

    def _pytest(self, arguments: Sequence[str], *, wait_s: float) -> subprocess.CompletedProcess[str] | None:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", *arguments]
        seconds = max(int(wait_s), 1)

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=limited,  # noqa: PLW1509 - no thread runs here
        )
        try:
            output, _ = process.communicate(timeout=max(STUCK * wait_s, STUCK_S))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # including all processes that the tests started
            process.communicate()
            return None
        if process.returncode in {-signal.SIGXCPU, -signal.SIGKILL}:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None
        return subprocess.CompletedProcess(command, process.returncode, output, "")


def used_s() -> float:
    """Return the processor time of this process's tests."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copy_checkout(folder: Path, /) -> None:
    """Copy what tests need into `folder`."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", "node_modules")
    shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)


def drawn(
    modules: Sequence[Path], chance: random.Random, /, *, folder: Path, each: int
) -> Iterator[tuple[Path, list[Place]]]:
    """Yield modules with some of their faults, in rounds over all modules until none is left.

    The order of each round is random, weighted by the number of possible faults in a module.
    """
    left: dict[Path, list[Place]] = {}
    for module in modules:
        places = places_of((folder / module).read_text(encoding="utf-8"))
        chance.shuffle(places)
        if places:
            left[module] = places
    while left:
        weights = {module: chance.random() ** (1 / len(places)) for module, places in sorted(left.items())}
        order = sorted(left, key=lambda module: -weights[module])
        for module in order:
            yield module, [left[module].pop() for _ in range(min(each, len(left[module])))]
            if not left[module]:
                del left[module]


def report(found: Mapping[Path, Counter[Fate]], /) -> str:
    """Return the share of detected faults among those that tests reach, by module and in total."""
    lines = [_line(fates, str(module)) for module, fates in sorted(found.items())]
    total = sum(found.values(), start=Counter[Fate]())
    reached = total.total() - total[Fate.UNREACHED]
    if not total:
        return "no fault was tried: give more --seconds"
    share = f"seen: {100 * total[Fate.SEEN] / reached:.0f} %" if reached else "no test reaches any of them"
    return "\n".join([*lines, _line(total, share)])


def _line(fates: Counter[Fate], told: str) -> str:
    reached = fates.total() - fates[Fate.UNREACHED]
    apart = f", and {fates[Fate.UNREACHED]} that no test reaches" if fates[Fate.UNREACHED] else ""
    return f"{fates[Fate.SEEN]:4} of {reached:4}  {told}{apart}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Which share of small faults the tests see.")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=6, help="so many faults of a module before the next one's")
    parser.add_argument("--wide", type=float, default=60, help="seconds for further tests of a fault that is not seen")
    parser.add_argument("--faults", type=int, default=10**9, help="so many faults at most")
    parser.add_argument("--direct", action="store_true", help="run the nearest tests, and learn nothing")
    parser.add_argument("--modules", nargs="+", default=MODULES, help="files or folders below packages/*")
    asked = parser.parse_args()
    modules = modules_below(ROOT, asked.modules)
    found = dict[Path, Counter[Fate]]()
    with tempfile.TemporaryDirectory(prefix="elytron-mutation-") as name:
        folder = Path(name).resolve()
        copy_checkout(folder)
        workshop = Workshop(folder, seconds=asked.seconds, wide_s=asked.wide, is_direct=asked.direct)
        imports = Imports(folder)
        with suppress(OutOfTime):
            for module, places in drawn(modules, random.Random(asked.seed), folder=folder, each=asked.each):
                files = imports.tests_of(module)[:FILES]
                if not asked.direct:
                    workshop.learn(files)
                for place in places:
                    if sum(fates.total() for fates in found.values()) == asked.faults:
                        raise OutOfTime
                    verdict, told = workshop.judge(module, place, files)
                    found.setdefault(module, Counter())[verdict.fate] += 1
                    tried = sum(found.values(), start=Counter[Fate]())
                    print(f"{tried[Fate.SEEN]} of {tried.total()}", file=sys.stderr, flush=True)
                    if verdict.fate is not Fate.SEEN:
                        print(f"{module}:{place.line}: {told}  ({verdict.why})", flush=True)
    print(report(found))


if __name__ == "__main__":
    main()
