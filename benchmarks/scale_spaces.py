"""Measure what many spaces cost while nothing is due: an idle server and its database, closing, and `doctor`.

    python -m benchmarks.scale --spaces 20000 [--engine sqlite] [--idle-s 130]

Each space has five turns and no job. `server` and `database` are the shares of one core that `elytron serve --work` and
all processes of the database server take in a period with two sweeps. `ready` is the processor time of the start,
`close` the seconds for closing a runtime that has answered in `touched` spaces, and `doctor` those of the command.
"""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.store.postgres_server import ABSENT, shared_server

import elytron
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

TOGETHER = 32
TOUCHED = 1_700
TURNS = 5
COLUMNS = ("spaces", "made s", "ready s", "server %", "database %", "touched", "close s", "doctor s")
_PROGRAM = str(Path(sys.executable).with_name("elytron"))
_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def main(spaces: int, engine: str, idle_s: float) -> None:
    """Print the table for a store of `engine`."""
    print("".join(f"{name:>12}" for name in COLUMNS))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-"))
        url, postmaster = f"{engine}:{folder}/store", None
        if engine == "postgres":
            server = stack.enter_context(shared_server())
            if server is None or server.files is None:
                raise SystemExit(ABSENT)
            url = f"{server.make_database()}?sealed=no"
            postmaster = int((server.files / "postmaster.pid").read_text().split()[0])
        row: dict[str, float] = {"spaces": spaces, "touched": min(TOUCHED, spaces)}
        row["made s"] = _seconds(lambda: asyncio.run(filled(url, spaces)))
        row |= idle_shares(url, postmaster, idle_s)
        row["close s"] = asyncio.run(closed(url, spaces))
        command = [_PROGRAM, "doctor", "--json", "--store", url]
        row["doctor s"] = _seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    print("".join(f"{row[name]:>12.2f}" for name in COLUMNS), flush=True)


async def filled(url: str, spaces: int, /) -> None:
    """Write five turns to each space."""
    turns = tuple(
        elytron.TurnDraft(messages=(elytron.Message(text=f"Crate {number} stands behind the red door."),))
        for number in range(TURNS)
    )
    write = elytron.TranscriptWrite(turns=turns)
    async with elytron.open(url) as memory:
        numbers = iter(range(spaces))

        async def fill() -> None:
            for number in numbers:
                scope = Scope(space=SpaceId(f"s{number}"))
                await memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))

        await asyncio.gather(*(fill() for _ in range(TOGETHER)))


def idle_shares(url: str, postmaster: int | None, idle_s: float, /) -> dict[str, float]:
    """Return the shares of a core that an idle server with a worker and its database take."""
    with _serving(url) as server:
        ready = _spent(server)
        time.sleep(5)  # the first sweep belongs to the start
        processes = server, postmaster
        before = [_spent(one) for one in processes]
        began = time.monotonic()
        time.sleep(idle_s)
        passed = time.monotonic() - began
        shares = [100 * (_spent(one) - spent) / passed for one, spent in zip(processes, before, strict=True)]
    return {"ready s": ready, "server %": shares[0], "database %": shares[1]}


async def closed(url: str, spaces: int, /) -> float:
    """Return the seconds for closing a runtime that answered in many spaces."""
    memory = await elytron.open(url, space="s0")
    for number in random.Random(1).sample(range(spaces), min(TOUCHED, spaces)):
        assert (await memory.recall("red door", user_id=f"s{number}")).hits
    began = time.monotonic()
    await memory.close()
    return time.monotonic() - began


@contextmanager
def _serving(url: str) -> Generator[int]:
    """Run a server with a worker and yield its process."""
    command = [_PROGRAM, "serve", "--work", "--development", "--json", "--port", "0"]
    server = subprocess.Popen([*command, "--store", url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout is not None
        while b'"address"' not in server.stdout.readline():
            assert server.poll() is None, "the server did not start"
        yield server.pid
    finally:
        server.terminate()
        server.wait()


def _spent(process: int | None) -> float:
    """Return the processor seconds of a process and of its children, including ended ones."""
    if process is None:
        return 0.0
    spent = 0.0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(entry.name) == process:
            spent += sum(map(int, fields[11:15])) * _TICKS_S
        elif int(fields[1]) == process:
            spent += sum(map(int, fields[11:13])) * _TICKS_S
    return spent


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
