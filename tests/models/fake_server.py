"""A fake model server over real sockets: it returns given answers, and may die in the middle."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from anyio.from_thread import start_blocking_portal

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Sent:
    """An answer: its bytes, with each chunk written separately."""

    chunks: tuple[bytes, ...]
    status: int = 200
    media_type: str = EVENTS
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    dies: bool = False
    """Whether the connection ends without the end of the body."""
    hangs: bool = False
    """Whether nothing follows the chunks while the connection stays open."""
    waits: bool = False
    """Whether everything after the first chunk waits until the server is told to continue."""
    raw: bytes = b""
    """Raw bytes to write, including the head, before the connection ends."""


def refusal(status: int, error: object, **headers: str) -> Sent:
    """Return an answer with an error object."""
    body = json.dumps({"error": error}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Sent((body,), status=status, media_type="application/json", headers=named)


@dataclass(frozen=True)
class Asked:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes = b""


@dataclass
class FakeServer:
    """Returns its answers in turn, then repeats the last one. None: the connection ends without an answer."""

    answers: list[Sent | None] = field(default_factory=list[Sent | None])
    asked: list[Asked] = field(default_factory=list[Asked])
    url: str = ""
    connections: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event | None = None
    """All requests wait for it, if set."""
    reply: Callable[[Asked], Sent | None] | None = None
    """Creates the answer to a request, instead of `answers`."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                if self.gate is not None:
                    await self.gate.wait()
                answer = (
                    self.reply(asked)
                    if self.reply is not None
                    else self.answers[min(len(self.asked), len(self.answers)) - 1]
                )
                if answer is None or not await _write(writer, answer, self.go_on):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(first.split(" ")[1], headers, _object(body), body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


async def _write(writer: asyncio.StreamWriter, answer: Sent, go_on: asyncio.Event) -> bool:
    """Write `answer` and return whether the connection continues."""
    if answer.raw:
        writer.write(answer.raw)
        await writer.drain()
        writer.write_eof()
        return False
    headers = {"content-type": answer.media_type, "transfer-encoding": "chunked", **answer.headers}
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} Told\r\n{told}\r\n".encode())
    for chunk in answer.chunks:
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
        if answer.waits:
            await go_on.wait()
    if answer.hangs:
        await asyncio.Event().wait()
    if answer.dies:
        # Written data arrives; a reset would discard it.
        writer.write_eof()
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


@asynccontextmanager
async def serving(*answers: Sent | None) -> AsyncGenerator[FakeServer]:
    """Yield a local server that returns `answers`."""
    fake = FakeServer(list(answers))
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(fake.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def serving_apart(*answers: Sent | None) -> Generator[FakeServer]:
    """Yield a server in a thread, for callers that block."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(*answers)) as fake:
        yield fake
