"""End a server under load with SIGKILL and SIGTERM: nothing acknowledged may be missing, and nothing doubled.

    python -m benchmarks.rigs.serving [--ends N] [--seed S] [--short]

Each round starts `elytron serve` on the same SQLite file, lets several clients write with idempotency keys, some
through MCP, ends it at a random moment, restarts it, repeats unanswered requests under the same keys, and compares. A
reader of its event stream always continues after the last entry that it saw. Exits 1 if an acknowledged text is
missing, any text is doubled, an entry is out of order, a server wrote a traceback, or a server that was asked to end
failed or took longer than documented.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from mcp import Client

from elytron_mcp_shell.server import ERROR

_CLIENTS = 3
_MODELS = 2
_END_S = 60.0
"""Much longer than an undisturbed shutdown: accepted requests have 20 s."""
_PAGE = 500
_PAUSE_S = 0.1
_SHED = frozenset({"overloaded", "store_busy"})
_SERVE = "from elytron_cli.main import run_command_line; run_command_line()"


@dataclass(slots=True)
class Book:
    """What was sent, by idempotency key, and which of it was acknowledged."""

    sent: dict[str, str] = field(default_factory=dict[str, str])
    acknowledged: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])
    place: str = "0"
    """The id of the last entry that the reader of events saw."""
    told: int = 0
    """Number of entries it saw, all in order."""


async def start(store: Path) -> tuple[asyncio.subprocess.Process, int]:
    """Start a server on `store`, and return it with its port once it listens."""
    with errors_of(store).open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SERVE, "serve", "--port", "0", "--development", "--json", "--log-level", "error",
            "--store", str(store), "--space", "rig", stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        line = (await process.stdout.readline()).decode()
        assert line, "the server ended before it listened"
        told += line
    return process, int(json.loads(told)["address"].rpartition(":")[2])


def errors_of(store: Path) -> Path:
    """Return where the servers of a store log errors."""
    return store.with_suffix(".errors")


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, operation: str, body: object, *, key: str = ""
) -> tuple[int, bytes]:
    """Send one request, and return the status and body of the response."""
    sent = json.dumps(body).encode()
    keyed = f"Idempotency-Key: {key}\r\n" if key else ""
    head = f"POST /v1/{operation} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{keyed}"
    writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
    told = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = told.index(b"content-length:") + 15
    return int(told[9:12]), await reader.readexactly(int(told[at : told.index(b"\r\n", at)]))


def turn(text: str) -> dict[str, object]:
    """Return the write of one turn."""
    return {"write": {"kind": "transcript", "turns": [{"messages": [{"text": text}]}]}}


async def write(port: int, book: Book, *, name: str) -> None:
    """Write turn after turn until the server is gone."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            number = 0
            while True:
                key = f"{name}-{number}"
                book.sent[key] = f"note {key}"
                status, told = await ask(reader, writer, "write", turn(book.sent[key]), key=key)
                if status == 200:
                    book.acknowledged.add(key)
                elif status != 503:
                    book.failures.append(f"a write was answered {status}: {told[:200]!r}")
                number += 1


async def tell(port: int, book: Book, *, name: str) -> None:
    """Write text after text like a model, through MCP's own client, until the server is gone."""
    # The client reports a server that disappears during a call in many different ways.
    with contextlib.suppress(Exception):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            for number in count():
                key = f"{name}-{number}"
                book.sent[key] = f"note {key}"
                result = await client.call_tool("memory_add", {"text": book.sent[key]}, meta={"idempotency_key": key})
                if not result.is_error:
                    book.acknowledged.add(key)
                elif (result.meta or {})[ERROR]["key"] not in _SHED:
                    book.failures.append(f"a tool answered {result.content!r}")


async def follow(port: int, book: Book, *, until: int | None = None) -> None:
    """Read the entries after the last one seen, up to the sequence `until` or to the end of the server."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            place = f"Last-Event-ID: {book.place}\r\n"
            writer.write(f"GET /v1/events?space=rig HTTP/1.1\r\nHost: localhost\r\n{place}\r\n".encode())
            while (until is None or book.told < until) and (line := await reader.readline()):
                if line.startswith(b"event: gap"):
                    book.failures.append("the reader of events was told of a gap")
                if not line.startswith(b"data: "):
                    continue
                entry = json.loads(line.removeprefix(b"data: "))
                if entry["sequence"] != book.told + 1:
                    book.failures.append(f"entry {entry['sequence']} was told behind {book.told}")
                book.told, book.place = entry["sequence"], entry["id"]


async def settle(port: int, book: Book) -> None:
    """Repeat unanswered requests under their keys, and compare what exists with what was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        for key in sorted(book.sent.keys() - book.acknowledged):
            while True:
                status, told = await ask(reader, writer, "write", turn(book.sent[key]), key=key)
                if status != 503:
                    break
                await asyncio.sleep(_PAUSE_S)
            if status != 200:
                book.failures.append(f"a repeat was answered {status}: {told[:200]!r}")
            book.acknowledged.add(key)
        kept: Counter[str] = Counter()
        cursor: str | None = None
        while True:
            asked = {"limit": _PAGE} | ({"cursor": cursor} if cursor is not None else {})
            _, told = await ask(reader, writer, "list", asked)
            page = json.loads(told)
            kept.update(item["text"] for item in page["items"])
            cursor = page.get("next_cursor")
            if cursor is None:
                break
        _, told = await ask(reader, writer, "inspect", {})
    async with asyncio.timeout(_END_S):
        await follow(port, book, until=json.loads(told)["sequence"])
    wanted = set(book.sent.values())
    book.failures += [f"lost: {text}" for text in sorted(wanted - kept.keys())]
    book.failures += [f"twice: {text}" for text, count in sorted(kept.items()) if count > 1]
    book.failures += [f"never sent: {text}" for text in sorted(kept.keys() - wanted)]


async def run(store: Path, /, *, ends: int, chance: random.Random) -> Book:
    """End a server `ends` times under load, and check what it stored after each."""
    book = Book()
    for number in range(ends):
        process, port = await start(store)
        clients = [
            *(asyncio.create_task(write(port, book, name=f"r{number}c{one}")) for one in range(_CLIENTS)),
            *(asyncio.create_task(tell(port, book, name=f"r{number}m{one}")) for one in range(_MODELS)),
            asyncio.create_task(follow(port, book)),
        ]
        await asyncio.sleep(chance.uniform(0.02, 0.8))
        how = signal.SIGTERM if chance.random() < 0.5 else signal.SIGKILL
        process.send_signal(how)
        began = time.monotonic()
        code = await process.wait()
        took = time.monotonic() - began
        await asyncio.gather(*clients)
        if how == signal.SIGTERM and (code != 0 or took > _END_S):
            book.failures.append(f"a server that was asked to end ended with {code} after {took:.1f} s")
        process, port = await start(store)
        await settle(port, book)
        process.terminate()
        await process.wait()
        if b"Traceback" in errors_of(store).read_bytes():
            book.failures.append(f"a server wrote a traceback: {errors_of(store).read_text('utf-8')[-2_000:]}")
        if book.failures:
            break
    return book


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="end a server under load; nothing acknowledged is lost, nothing twice")
    parser.add_argument("--ends", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--short", action="store_true", help="4 ends")
    options = parser.parse_args(argv)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    ends = 4 if options.short else options.ends
    with tempfile.TemporaryDirectory(prefix="elytron-serving-") as folder:
        book = asyncio.run(run(Path(folder) / "m.db", ends=ends, chance=random.Random(seed)))
    if not book.acknowledged or not book.told:
        book.failures.append("the run shows nothing: no write was acknowledged, or no entry was followed")
    for failure in book.failures[:20]:
        print(f"  {failure}")
    print(
        f"{ends} ends, {len(book.acknowledged)} writes acknowledged, {book.told} entries followed, "
        f"{len(book.failures)} failures, seed {seed}"
    )
    return 1 if book.failures else 0


if __name__ == "__main__":
    sys.exit(main())
