# ruff: noqa: A005 - a benchmark is run, and named for what it measures
"""Measure what the server adds: recall over HTTP against a plain Starlette echo; many connections; overload.

    python -m benchmarks.http [--short]

Both servers are separate processes on this machine and alternate; the load comes from a third process. The echo returns
as many bytes as the recall. A ratio is the median over the rounds.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

TURNS = 1_000
CONNECTIONS = 16
MANY = 500
MEMORY_MIB = 512
RECOVERY_S = 10.0
GOAL = 0.6
CLI = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")

_ECHO = """
import asyncio, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
size = int(sys.argv[1])
async def echo(request):
    await request.body()
    return Response(b"x" * size, media_type="application/json")
config = uvicorn.Config(Starlette(routes=[Route("/v1/recall", echo, methods=["POST"])]), port=0, log_level="warning",
                        access_log=False, loop="none")
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)
import uvloop
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(Server(config).serve())
"""


@dataclass(slots=True)
class Load:
    """Responses by status, their times in seconds, and how many shed ones said when to retry."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    times: list[float] = field(default_factory=list[float])
    hints: int = 0
    broken: int = 0

    def rate(self, seconds: float) -> float:
        return self.statuses[200] / seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


def request(path: str, body: bytes, *, key: str | None = None) -> bytes:
    """Return the bytes of one request."""
    credential = f"Authorization: Bearer {key}\r\n" if key is not None else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{credential}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Return the status, the head and the body of one response."""
    head = await reader.readuntil(b"\r\n\r\n")
    lowered = head.lower()
    at = lowered.index(b"content-length:") + 15
    size = int(lowered[at : lowered.index(b"\r\n", at)])
    return int(head[9:12]), lowered, await reader.readexactly(size)


async def load(port: int, sent: bytes, *, connections: int, seconds: float) -> Load:
    """Send `sent` repeatedly over `connections`, each waiting for its response."""
    found = Load()
    until = time.perf_counter() + seconds

    async def one() -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while (began := time.perf_counter()) < until:
                writer.write(sent)
                status, head, _ = await answer(reader)
                found.times.append(time.perf_counter() - began)
                found.statuses[status] += 1
                found.hints += status in {429, 503} and b"retry-after:" in head
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            found.broken += 1

    await asyncio.gather(*(one() for _ in range(connections)))
    return found


def resident_mib(pid: int) -> float:
    """Return the memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


@asynccontextmanager
async def process(*command: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """Run a server and yield the first thing that it prints: a line, or a JSON object."""
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    told = ""
    while True:
        told += (await started.stdout.readline()).decode()
        if not told.startswith("{") or told.rstrip().endswith("}"):
            break
    try:
        yield started, told
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have finished already
            started.terminate()
        await started.wait()


@asynccontextmanager
async def elytron_server(folder: Path, *options: str) -> AsyncGenerator[tuple[int, int]]:
    """Run a server with a store in `folder`, and yield its port and process."""
    command = (*CLI, "serve", "--port", "0", "--json", "--log-level", "warning")
    async with process(*command, "--store", str(folder / "m.db"), "--space", "ada", *options) as (started, told):
        report = json.loads(told)
        yield int(report["address"].rpartition(":")[2]), started.pid


async def fill(port: int, turns: int) -> bytes:
    """Write a space of `turns` turns and return the response to one recall."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for first in range(0, turns, 100):
        said = [
            {"messages": [{"text": f"Day {day}: Ada moved box {day % 97} to shelf {day % 31} near the harbour."}]}
            for day in range(first, first + 100)
        ]
        body = json.dumps({"write": {"kind": "transcript", "turns": said}}).encode()
        writer.write(request("/v1/write", body))
        status, _, told = await answer(reader)
        assert status == 200, told
    writer.write(RECALL)
    status, _, told = await answer(reader)
    assert status == 200, told
    writer.close()
    return told


RECALL = request("/v1/recall", b'{"query": "where is box 41?", "limit": 8}')


async def ratios(folder: Path, *, rounds: int, seconds: float) -> float:
    """Print recall over HTTP relative to the echo, and return the median ratio."""
    async with elytron_server(folder, "--development") as (port, _):
        size = len(await fill(port, TURNS))
        async with process(sys.executable, "-c", _ECHO, str(size)) as (_, told):
            echo, found = int(told), list[tuple[float, float, float]]()
            last = Load()
            for _ in range(rounds):
                ours = await load(port, RECALL, connections=CONNECTIONS, seconds=seconds)
                bare = await load(echo, RECALL, connections=CONNECTIONS, seconds=seconds)
                found.append((ours.rate(seconds), bare.rate(seconds), ours.rate(seconds) / bare.rate(seconds)))
                last = ours
    ours_rate, bare_rate, ratio = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"recall over HTTP, {TURNS} turns, {CONNECTIONS} connections, answers of {size} bytes")
    print(f"  elytron            {ours_rate:9.0f} requests/s   p50 {last.percentile(0.5):6.2f} ms", end="")
    print(f"   p99 {last.percentile(0.99):6.2f} ms")
    print(f"  starlette echo     {bare_rate:9.0f} requests/s")
    print(f"  ratio              {ratio:9.2f}   (goal {GOAL})")
    return ratio


async def many(folder: Path, *, seconds: float) -> None:
    """Print how 500 connections fare, and the effect of five times the admitted number of calls."""
    async with elytron_server(folder, "--development") as (port, pid):
        await fill(port, TURNS)
        found = await load(port, RECALL, connections=MANY, seconds=seconds)
        print(f"{MANY} connections: {found.rate(seconds):.0f} requests/s,", end=" ")
        print(f"p99 {found.percentile(0.99):.0f} ms,", end=" ")
        print(f"statuses {dict(found.statuses)}, broken {found.broken}, {resident_mib(pid):.0f} MiB")
        assert not found.broken
        began = time.perf_counter()
        after = await load(port, RECALL, connections=1, seconds=0.2)
        assert after.statuses[200]
        assert time.perf_counter() - began < RECOVERY_S
        assert resident_mib(pid) < MEMORY_MIB


async def overload(folder: Path, *, seconds: float) -> None:
    """Print the effect of five times the number of calls that one user may make."""
    async with elytron_server(folder, "--operator-key", "--calls-per-minute", "600") as (port, pid):
        key = await made(folder)
        sent = request("/v1/recall", b'{"query": "where is box 41?"}', key=key)
        found = await load(port, sent, connections=MANY, seconds=seconds)
        shed = found.statuses[429] + found.statuses[503]
        print(f"overload: {found.statuses[200]} answered, {shed} shed, {found.hints} with Retry-After,", end=" ")
        print(f"{resident_mib(pid):.0f} MiB")
        assert shed
        assert found.hints == shed
        assert not found.broken
        assert not found.statuses[500]
        assert resident_mib(pid) < MEMORY_MIB


async def made(folder: Path) -> str:
    """Return a user's key for the store in `folder`."""
    command = ("access", "add", "--kind", "user", "--label", "load", "--json", "--space", "ada")
    async with process(*CLI, *command, "--store", str(folder / "m.db")) as (_, told):
        key = json.loads(told)["key"]
    assert isinstance(key, str)
    return key


async def main() -> int:
    """Run all parts, and return an exit code that says whether the goal was met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="fewer and shorter rounds")
    short = parser.parse_args().short
    rounds, seconds = (3, 1.0) if short else (7, 3.0)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        ratio = await ratios(Path(one), rounds=rounds, seconds=seconds)
        await many(Path(one) / "", seconds=seconds)
        await overload(Path(two), seconds=seconds)
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main()))
