"""End a server under load, by SIGKILL and by SIGTERM, and miss nothing that it acknowledged, and find nothing twice.

    python -m benchmarks.rigs.serving [--ends N] [--seed S] [--short]

Each round starts `elytron serve` on the same SQLite file, lets several clients write with idempotency keys, ends it at
a random instant, starts it again, sends what was left without an answer once more under the same keys, and compares.
Exits 1 where an acknowledged text is missing, any text is there twice, or a server that was asked to end fails.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CLIENTS = 4
_PAGE = 500
_PAUSE_S = 0.1
_SERVE = "from elytron_cli.main import run; run()"


@dataclass(slots=True)
class Book:
    """What was sent, by idempotency key, and what of it was acknowledged."""

    sent: dict[str, str] = field(default_factory=dict[str, str])
    acknowledged: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])


async def start(store: Path) -> tuple[asyncio.subprocess.Process, int]:
    """Start a server over `store` and return it with its port, once it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVE, "serve", "--port", "0", "--development", "--json", "--log-level", "error",
        "--store", str(store), "--space", "rig", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        line = (await process.stdout.readline()).decode()
        assert line, "the server ended before it listened"
        told += line
    return process, int(json.loads(told)["address"].rpartition(":")[2])


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, operation: str, body: object, *, key: str = ""
) -> tuple[int, bytes]:
    """Send one request and return the status and body of its answer."""
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
    """Write turn after turn, until the server is gone."""
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


async def settle(port: int, book: Book) -> None:
    """Send what has no answer again, under its key, and compare what is there with what was sent."""
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
    wanted = set(book.sent.values())
    book.failures += [f"lost: {text}" for text in sorted(wanted - kept.keys())]
    book.failures += [f"twice: {text}" for text, count in sorted(kept.items()) if count > 1]
    book.failures += [f"never sent: {text}" for text in sorted(kept.keys() - wanted)]


async def run(store: Path, /, *, ends: int, chance: random.Random) -> Book:
    """End a server `ends` times under load, and look at what it kept after each."""
    book = Book()
    for number in range(ends):
        process, port = await start(store)
        clients = [asyncio.create_task(write(port, book, name=f"r{number}c{one}")) for one in range(_CLIENTS)]
        await asyncio.sleep(chance.uniform(0.02, 0.4))
        how = signal.SIGTERM if chance.random() < 0.5 else signal.SIGKILL
        process.send_signal(how)
        code = await process.wait()
        await asyncio.gather(*clients)
        if how == signal.SIGTERM and code != 0:
            book.failures.append(f"a server that was asked to end ended with {code}")
        process, port = await start(store)
        await settle(port, book)
        process.terminate()
        await process.wait()
        if book.failures:
            break
    return book


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description="end a server under load; nothing acknowledged is lost, nothing twice")
    parser.add_argument("--ends", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--short", action="store_true", help="4 ends")
    options = parser.parse_args(argv)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    ends = 4 if options.short else options.ends
    with tempfile.TemporaryDirectory(prefix="elytron-serving-") as folder:
        book = asyncio.run(run(Path(folder) / "m.db", ends=ends, chance=random.Random(seed)))
    for failure in book.failures[:20]:
        print(f"  {failure}")
    print(f"{ends} ends, {len(book.acknowledged)} writes acknowledged, {len(book.failures)} failures, seed {seed}")
    return 1 if book.failures else 0


if __name__ == "__main__":
    sys.exit(main())
