"""Send a server far more than it can handle, over thousands of connections, some of which never read their responses.

    python -m benchmarks.rigs.load [--seconds N] [--short]

First 16 connections send requests without a pause, then 500, then five times as many, and up to twenty times if the
machine is fast enough to answer those. Meanwhile 64 more read their responses one byte at a time or not at all: large
pipelined recalls, and event streams. Nobody respects `Retry-After`. Requests that are not answered must be shed (429 or
503) with a time to retry, memory must stay below 512 MiB, and within ten seconds after the end a call must be answered
within one second. Exits 1 if any of this fails.
"""

import argparse
import asyncio
import contextlib
import resource
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.http import Load, answer, elytron_server, fill, load, request, resident_mib

CONNECTIONS = 500
SLOW = 64
TIMES = 5
MEMORY_MIB = 512
RECOVERY_S = 10.0
TURNS = 1_000
_LOOK_S = 0.1
_PIPELINED = 5
CALL = request("/v1/project", b'{"query": "where is box 41?", "max_chars": 1000}')
"""A call that costs the server more than its caller."""
_LARGE = request("/v1/recall", b'{"query": "where is box 41?", "limit": 200}')
_EVENTS = b"GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(slots=True)
class Memory:
    """The peak memory of a process, sampled ten times a second."""

    pid: int
    most_mib: float = 0.0

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            self.most_mib = max(self.most_mib, resident_mib(self.pid))
            await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def slow_readers(port: int) -> AsyncGenerator[None]:
    """Hold connections that requested much: every other one reads a byte now and then, the rest nothing."""
    loop = asyncio.get_running_loop()
    held: list[socket.socket] = []

    async def sip(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while await loop.sock_recv(sock, 1):
                await asyncio.sleep(_LOOK_S)

    sips: list[asyncio.Task[None]] = []
    for number in range(SLOW):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        with contextlib.suppress(BlockingIOError):
            sock.send(_EVENTS if number % 4 == 0 else _LARGE * _PIPELINED)
        held.append(sock)
        if number % 2:
            sips.append(asyncio.create_task(sip(sock)))
    try:
        yield
    finally:
        for task in sips:
            task.cancel()
        await asyncio.gather(*sips, return_exceptions=True)
        for sock in held:
            sock.close()


async def recovered(port: int) -> float | None:
    """Return the seconds until a call is answered within a second again, or None if that takes too long."""
    began = time.perf_counter()
    while time.perf_counter() - began < RECOVERY_S:
        asked = time.perf_counter()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(RECOVERY_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.closing(writer):
                    writer.write(CALL)
                    status, _, _ = await answer(reader)
            if status == 200 and time.perf_counter() - asked < 1.0:
                return time.perf_counter() - began
        await asyncio.sleep(_LOOK_S)
    return None


def open_files() -> int:
    """Raise the limit of open files for this process and its server to the maximum, and return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


async def run(folder: Path, /, *, seconds: float) -> list[str]:
    """Return the problems, and print the measurements."""
    wrong: list[str] = []
    files = open_files()
    # Behind a trusted proxy, because one client address may open only 256 connections before their first calls, and
    # this rig opens more.
    async with elytron_server(folder, "--development", "--trusted-proxy", "127.0.0.1") as (port, pid):
        await fill(port, TURNS)
        memory = Memory(pid)
        watching = asyncio.create_task(memory.watch())
        for connections in (16, CONNECTIONS):
            told(connections, seconds, await load(port, CALL, connections=connections, seconds=seconds), wrong)
        async with slow_readers(port):
            shed = 0
            for times in (TIMES, TIMES * 2, TIMES * 4):
                if times > TIMES and times * CONNECTIONS > files // 2:
                    break
                seen = await load(port, CALL, connections=times * CONNECTIONS, seconds=seconds)
                told(times * CONNECTIONS, seconds, seen, wrong)
                shed = seen.statuses[503] + seen.statuses[429]
                if shed:
                    break
            after_s = await recovered(port)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        print(f"answers as before after {after_s if after_s is None else round(after_s, 1)} s,", end=" ")
        print(f"at most {memory.most_mib:.0f} MiB")
        if not shed:
            wrong.append("all were answered, so the server was not overloaded: nothing was shown")
        if after_s is None:
            wrong.append(f"{RECOVERY_S:.0f} s behind the load calls are still slow")
        if memory.most_mib >= MEMORY_MIB:
            wrong.append(f"it took {memory.most_mib:.0f} MiB")
    return wrong


def told(connections: int, seconds: float, seen: Load, wrong: list[str], /) -> None:
    """Print the responses, and add unexpected ones to `wrong`."""
    print(f"{connections:5} connections: {seen.rate(seconds):5.0f} calls/s,", end=" ")
    print(f"p99 {seen.percentile(0.99):6.0f} ms, statuses {dict(seen.statuses)}, broken {seen.broken}")
    if seen.broken or set(seen.statuses) - {200, 429, 503}:
        wrong.append(f"{connections} connections: calls were neither answered nor shed")
    if seen.hints != seen.statuses[429] + seen.statuses[503]:
        wrong.append(f"{connections} connections: calls were shed without saying when to come again")


def _runner() -> asyncio.Runner:
    import uvloop

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=None, help="of each part; the last takes three times as long")
    parser.add_argument("--short", action="store_true", help="3 seconds")
    options = parser.parse_args(argv)
    seconds = options.seconds or (3.0 if options.short else 20.0)
    with tempfile.TemporaryDirectory(prefix="elytron-load-") as folder, _runner() as runner:
        wrong = runner.run(run(Path(folder), seconds=seconds))
    for problem in wrong:
        print(problem)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
