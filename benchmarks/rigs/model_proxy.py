"""Kill `elytron proxy` while it answers: with `--durable`, no turn whose end a client saw may be missing or doubled.

    python -m benchmarks.rigs.model_proxy [--kills N] [--seed S] [--short]

A local model server streams answers through a proxy on SQLite to several clients, each in its own conversation. The
proxy is killed (SIGKILL) at a random moment and restarted on the same file. Half of the kills hit a proxy without
`--durable`, whose losses are printed and permitted. Exits 1 if a durable answer was lost, or any turn is doubled.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import elytron
from benchmarks.rigs import tables
from elytron import MemoryListRequest

_CLIENTS = 8
_KILLS, _SHORT = 100, 10
_LATEST_S = 0.25
_RUN = "from elytron_cli.main import run_command_line; run_command_line()"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_END = b"data: [DONE]"


@dataclass(slots=True)
class Answers:
    """What clients said, and which answers they received completely."""

    ended: set[str] = field(default_factory=set[str])
    begun: int = 0


async def answer_chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a chat completion in pieces, as the model server."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        at = head.index(b"content-length:") + 15
        await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
        writer.write(_HEAD)
        for delta, reason in (
            ({"role": "assistant", "content": "I see"}, None),
            ({"content": "."}, None),
            ({}, "stop"),
        ):
            chunk = {
                "id": "c",
                "object": "chat.completion.chunk",
                "choices": [{"delta": delta, "finish_reason": reason}],
            }
            writer.write(b"data: %b\n\n" % json.dumps(chunk).encode())
            await writer.drain()
        writer.write(_END + b"\n\n")
        await writer.drain()
    writer.close()


async def start_proxy(store: Path, upstream: str, *options: str) -> tuple[asyncio.subprocess.Process, int]:
    """Start a proxy on `store`, and return it with its port once it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUN, "proxy", "--port", "0", "--json", "--log-level", "error", "--upstream", upstream,
        "--store", str(store), "--space", "rig", *options, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        line = (await process.stdout.readline()).decode()
        assert line, "the proxy ended before it listened"
        told += line
    return process, int(json.loads(told)["address"].rpartition(":")[2])


async def converse(port: int, answers: Answers, name: str) -> None:
    """Send one message after the other until the proxy is gone."""
    number = 0
    while True:
        text = f"note {name}-{number} "
        number += 1
        body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}).encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"X-Elytron-Conversation: %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                % (name.encode(), len(body))
                + body
            )
            answers.begun += 1
            seen = b""
            while chunk := await reader.read(65_536):
                seen += chunk
                # A program acts on the end marker when it sees it, not when the connection closes.
                if _END in seen:
                    answers.ended.add(text.strip())
                    break
            writer.close()
            if not seen:
                return
        except OSError:
            return


async def stored_texts(store: Path) -> Counter[str]:
    """Return how often each message is in the store."""
    texts: Counter[str] = Counter()
    async with elytron.open(store, space="rig") as memory:
        cursor: str | None = None
        while True:
            page = await memory.list(MemoryListRequest(limit=1_000, cursor=cursor))
            texts.update(item.text.strip() for item in page.items if item.text.startswith("note "))
            cursor = page.next_cursor
            if not page.has_more:
                return texts


async def run_kills(folder: Path, /, *, kills: int, is_durable: bool, chance: random.Random) -> dict[str, str]:
    """Kill a proxy `kills` times, and return the losses."""
    model = await asyncio.start_server(answer_chat, "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{model.sockets[0].getsockname()[1]}"
    store, answers = folder / f"durable-{is_durable}.db", Answers()
    for kill in range(kills):
        process, port = await start_proxy(store, upstream, *(["--durable"] if is_durable else []))
        clients = [asyncio.create_task(converse(port, answers, f"{kill}-{number}")) for number in range(_CLIENTS)]
        before = len(answers.ended)
        while len(answers.ended) == before:
            await asyncio.sleep(0.001)
        await asyncio.sleep(chance.random() * _LATEST_S)
        process.kill()
        await process.wait()
        await asyncio.gather(*clients)
    model.close()
    texts = await stored_texts(store)
    return {
        "proxy": "--durable" if is_durable else "default",
        "kills": str(kills),
        "answers begun": str(answers.begun),
        "ended": str(len(answers.ended)),
        "lost": str(len(answers.ended - texts.keys())),
        "twice": str(sum(count > 1 for count in texts.values())),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=_KILLS)
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--short", action="store_true", help=f"{_SHORT} kills")
    options = parser.parse_args(argv)
    chance = random.Random(tables.seed_of(options.seed))
    kills = _SHORT if options.short else options.kills
    with tempfile.TemporaryDirectory(prefix="elytron-model-proxy-", dir=tables.memory_folder()) as folder:
        rows = [
            asyncio.run(run_kills(Path(folder), kills=kills // 2, is_durable=is_durable, chance=chance))
            for is_durable in (False, True)
        ]
    tables.show(rows)
    return 1 if rows[1]["lost"] != "0" or any(row["twice"] != "0" for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
