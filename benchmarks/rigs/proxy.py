"""Write through a network that cuts, repeats, delays and fragments; each write must take effect exactly once.

    python -m benchmarks.rigs.proxy [--writes N] [--seed S] [--short] [--faults PERCENT]

A proxy stands between the Python client and a server on SQLite. It passes most requests on. The others it drops before,
during or after the request or during the response, sends twice at the same time, delays, or passes on in fragments.
Every write has an idempotency key and is repeated under that key until it is acknowledged. Exits 1 if the number of
turns in the store then differs from the number of writes, or an acknowledgement names a turn that does not exist.
"""

import argparse
import asyncio
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import uvicorn

import elytron
from benchmarks.rigs import tables
from elytron import MemoryListRequest, RemoteMemory
from elytron.remote.memory import WAITED_FOR
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_core.errors import ElytronError
from elytron_http_shell import create_app

_WRITES = 10_000
_SHORT = 200
_TASKS = 16
_HEAD_BYTES = 64 * 1024
_PAUSE_S = 0.002
_CRUMB_BYTES = 40


class Fault(StrEnum):
    """What the proxy does to a request."""

    NONE = "passed on"
    CUT_BEFORE = "cut before the request"
    CUT_IN_REQUEST = "cut in the request"
    CUT_BEFORE_ANSWER = "cut before the answer"
    CUT_IN_ANSWER = "cut in the answer"
    TWICE = "sent twice"
    DELAYED = "delayed"
    TRICKLED = "trickled"


@dataclass(slots=True)
class Outcome:
    """The results of the writes."""

    writes: int = 0
    turns: int = 0
    distinct: int = 0
    missing: int = 0
    called_again: int = 0
    faults: Counter[Fault] = field(default_factory=Counter[Fault])
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.writes == self.turns == self.distinct and self.missing == 0


class _Cut(Exception):
    """The connection must end here."""


class Proxy:
    """Forward HTTP requests to a port, and treat some of them as networks do."""

    def __init__(self, port: int, /, *, chance: random.Random, percent: int) -> None:
        self._port = port
        self._chance = chance
        self._fate = random.Random(chance.random())  # so that a seed's faults do not depend on the order of requests
        self._percent = percent
        self.faults: Counter[Fault] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the requests of one connection until either end closes it or a fault cuts it."""
        upstream: list[asyncio.StreamWriter] = []
        with suppress(_Cut, ConnectionError, asyncio.IncompleteReadError):
            there, out = await self._connect(upstream)
            while True:
                request = await _message(reader)
                fault = self._fault()
                self.faults[fault] += 1
                await self._ask(out, request, fault, upstream)
                await self._answer(writer, await _message(there), fault)
        for open_one in (writer, *upstream):
            open_one.transport.abort()

    def _fault(self) -> Fault:
        if self._fate.randrange(100) >= self._percent:
            return Fault.NONE
        return self._fate.choice([fault for fault in Fault if fault is not Fault.NONE])

    async def _connect(self, upstream: list[asyncio.StreamWriter]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        upstream.append(writer)
        return reader, writer

    async def _ask(
        self, out: asyncio.StreamWriter, request: bytes, fault: Fault, upstream: list[asyncio.StreamWriter]
    ) -> None:
        match fault:
            case Fault.CUT_BEFORE:
                raise _Cut
            case Fault.CUT_IN_REQUEST:
                out.write(request[: self._chance.randrange(1, len(request))])
                await out.drain()
                raise _Cut
            case Fault.TWICE:
                # Use a separate connection, so that both requests run concurrently. Its response is discarded.
                _, other = await self._connect(upstream)
                other.write(request)
                out.write(request)
            case Fault.TRICKLED:
                await _crumbs(out, request)
            case _:
                out.write(request)
        await out.drain()

    async def _answer(self, writer: asyncio.StreamWriter, answer: bytes, fault: Fault) -> None:
        match fault:
            case Fault.CUT_BEFORE_ANSWER:
                raise _Cut
            case Fault.CUT_IN_ANSWER:
                writer.write(answer[: self._chance.randrange(1, len(answer))])
                await writer.drain()
                raise _Cut
            case Fault.DELAYED:
                await asyncio.sleep(_PAUSE_S * 10)
                writer.write(answer)
            case Fault.TRICKLED:
                await _crumbs(writer, answer)
            case _:
                writer.write(answer)
        await writer.drain()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return the next request or response: its head, and the body that the head announces."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return head + await reader.readexactly(size)


async def _crumbs(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), _CRUMB_BYTES):
        writer.write(data[start : start + _CRUMB_BYTES])
        await writer.drain()
        await asyncio.sleep(0)


@asynccontextmanager
async def _served(folder: Path) -> AsyncGenerator[int]:
    """Serve a store in `folder` and yield the port."""
    async with elytron.open(folder / "memory.db", space="rig") as memory:
        app = create_app(memory, authenticator=DevelopmentCallers())
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=5))
        # Declared as TCP, so that asyncio sends responses immediately.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def run(folder: Path, /, *, writes: int, chance: random.Random, percent: int) -> Outcome:
    """Do `writes` writes through the proxy and count the stored turns."""
    outcome = Outcome(writes=writes)
    began = time.perf_counter()
    acknowledged: list[str] = []
    async with _served(folder) as port:
        proxy = Proxy(port, chance=chance, percent=percent)
        listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        numbers = iter(range(writes))
        async with elytron.connect(address, space="rig", timeout_s=10.0) as memory:
            await asyncio.gather(*(_write(memory, numbers, acknowledged, outcome) for _ in range(_TASKS)))
        listening.close()
        async with elytron.connect(f"http://127.0.0.1:{port}", space="rig") as memory:
            outcome.turns = (await memory.inspect()).documents["turns"]
            stored = await _stored(memory)
    outcome.distinct = len(set(acknowledged))
    outcome.missing = len(set(acknowledged) - stored)
    outcome.faults = proxy.faults
    outcome.seconds = time.perf_counter() - began
    return outcome


async def _write(memory: RemoteMemory, numbers: Iterator[int], ids: list[str], outcome: Outcome) -> None:
    for number in numbers:
        while True:
            try:
                report = await memory.add(
                    f"Turn {number} of the rig.", conversation=f"c{number % _TASKS}", idempotency_key=f"key {number}"
                )
            except ElytronError as error:
                if error.key not in WAITED_FOR:
                    raise
                outcome.called_again += 1
                continue
            ids.extend(report.ids)
            break


async def _stored(memory: RemoteMemory) -> set[str]:
    found: set[str] = set()
    cursor: str | None = None
    while True:
        page = await memory.list(MemoryListRequest(limit=1_000, cursor=cursor))
        found |= {item.id for item in page.items}
        cursor = page.next_cursor
        if not page.has_more:
            return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="write through a network that fails; each write stands exactly once")
    parser.add_argument("--writes", type=int, default=_WRITES)
    parser.add_argument("--faults", type=int, default=40, help="per cent of the requests that meet one")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--short", action="store_true", help=f"{_SHORT} writes")
    options = parser.parse_args(argv)
    chance = random.Random(tables.seed_of(options.seed))
    with tempfile.TemporaryDirectory(prefix="elytron-proxy-", dir=tables.memory_folder()) as folder:
        outcome = asyncio.run(
            run(
                Path(folder),
                writes=_SHORT if options.short else options.writes,
                chance=chance,
                percent=options.faults,
            )
        )
    tables.show([{"request": fault, "times": str(outcome.faults[fault])} for fault in Fault])
    print()
    tables.show(
        [
            {
                "writes": str(outcome.writes),
                "turns": str(outcome.turns),
                "acknowledged ids": str(outcome.distinct),
                "missing": str(outcome.missing),
                "called again": str(outcome.called_again),
                "seconds": f"{outcome.seconds:.0f}",
            }
        ]
    )
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
