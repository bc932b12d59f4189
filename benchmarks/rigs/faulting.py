"""Ways to make the system fail a process: a call that fails at its n-th use, a maximum file size, or a full device."""

import asyncio
import errno
import itertools
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.rigs import traffic
from benchmarks.rigs.children import READY, Voice
from benchmarks.rigs.engines import Engine, open_memory
from benchmarks.rigs.traffic import Plan
from elytron_core.errors import ElytronError

CLOSING = "closing"
REST = "rest"
HEALED = "healed"
_BALLAST = "ballast"
_CHUNK = 4096
_ATTACHING_S = 60.0
_PATH = re.compile(r"\(\d+<([^>]*)>")


class Means(StrEnum):
    """How a fault is produced."""

    SYSCALL = "strace"
    """strace answers instead of the kernel. Calls are counted per thread."""
    PYTHON = "python"
    """The sync calls of Python's `os` are replaced, which affects only the file engine."""
    LIMIT = "size limit"
    """No file may grow beyond the amount. The limit is lifted at the first refusal."""
    DEVICE = "full device"
    """The device has the amount left, and more after the first refusal."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the `amount`-th call, or that number of bytes."""

    means: Means
    amount: int
    calls: str = ""
    error: str = ""
    is_lasting: bool = False

    @property
    def is_relieved(self) -> bool:
        """Return whether it ends at the first refusal, so that the same handle must continue."""
        return self.means in {Means.LIMIT, Means.DEVICE}


def endure(voice: Voice, engine: Engine, folder: Path, plan: Plan, fault: Fault) -> None:
    """Carry out `plan` under `fault`, then once more without it on a new handle; the body of a child process."""
    relieve: Callable[[], None] = lambda: None  # noqa: E731 - what there is to do before a fault is armed

    def say(line: str) -> None:
        voice.say(line)
        if line.startswith("err") and fault.is_relieved:
            relieve()

    async def use(round_: int) -> None:
        try:
            memory = await open_memory(engine, folder)
        except ElytronError as error:
            say(f"err open - {error.key}")
            return
        await traffic.run(memory, plan, say, round_=round_)
        if round_ == 0:
            voice.rest(CLOSING)
        try:
            await memory.close()
        except ElytronError as error:
            say(f"err close - {error.key}")

    voice.rest(READY)
    relieve = _arm(fault, folder)
    asyncio.run(use(0))
    voice.rest(REST)
    relieve()
    voice.say(HEALED)
    asyncio.run(use(1))


def _arm(fault: Fault, folder: Path) -> Callable[[], None]:
    """Activate a fault that this process causes itself, and return the function that ends it."""
    match fault.means:
        case Means.SYSCALL:
            return lambda: None
        case Means.PYTHON:
            return _break_syncs(fault)
        case Means.LIMIT:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.amount, hard))  # Python ignores the signal, so writes fail
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        case Means.DEVICE:
            ballast = folder / _BALLAST
            _fill(ballast, leave=fault.amount)
            return lambda: ballast.unlink(missing_ok=True)


def _break_syncs(fault: Fault) -> Callable[[], None]:
    count = itertools.count(1)
    sound = os.fsync, os.fdatasync

    def broken(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(handle: int) -> None:
            number = next(count)
            if number == fault.amount or (fault.is_lasting and number > fault.amount):
                raise OSError(getattr(errno, fault.error), "made to fail")
            call(handle)

        return sync

    def relieve() -> None:
        os.fsync, os.fdatasync = sound

    os.fsync, os.fdatasync = broken(sound[0]), broken(sound[1])
    return relieve


def _fill(ballast: Path, *, leave: int) -> None:
    """Write `ballast` until its device has `leave` bytes left."""
    size = 0
    with ballast.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                size += file.write(b"\0" * _CHUNK)
        file.truncate(max(0, size - leave))


class Injection:
    """strace attached to one process until it is stopped."""

    def __init__(self, pid: int, fault: Fault, /) -> None:
        handle, name = tempfile.mkstemp(prefix="elytron-strace-")
        os.close(handle)
        self._log = Path(name)
        when = f"{fault.amount}+" if fault.is_lasting else str(fault.amount)
        what = ["-e", f"trace={fault.calls}", "-e", f"inject={fault.calls}:error={fault.error}:when={when}"]
        command = ["strace", "-f", "-y", "-qq", "-o", name, *what, "-p", str(pid)]
        self._strace = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _ATTACHING_S
        status = Path(f"/proc/{pid}/status")
        while "TracerPid:\t0\n" in status.read_text():
            if self._strace.poll() is not None or time.monotonic() > deadline:
                raise OSError("strace could not be put beside a process")
            time.sleep(0.001)

    def struck(self) -> list[str]:
        """Return the targets of the calls that failed so far: paths, where strace knows them."""
        lines = self._log.read_text(errors="replace").splitlines()
        return ["".join(_PATH.findall(line)[:1]) for line in lines if "(INJECTED)" in line]

    def stop(self) -> None:
        """Detach from the process."""
        self._strace.terminate()
        self._strace.wait()

    def forget(self) -> None:
        """Remove the log of failed calls."""
        self._log.unlink()


def has_strace() -> bool:
    """Return whether system calls can be made to fail here."""
    return shutil.which("strace") is not None
