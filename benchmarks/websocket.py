"""Compare a round trip over the WebSocket with a plain `websockets` echo and the recall itself, in one run.

    python -m benchmarks.websocket [calls]

The store is one space of 1,000 turns in memory. Calls alternate, and each figure is a median. Every socket is on
loopback, with one call at a time and no compression. The goal: a recall over the socket takes at most 1.3 times the sum
of an echo of the same size and a recall in process.
"""

import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

import elytron
from elytron import MemoryRecallRequest
from elytron.registry import by_name
from elytron_adapter import envelope
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_http_shell import create_app

CALLS = 1_000
TURNS = 1_000
GOAL = 1.3
QUERY = {"query": "when does the ferry number 500 leave?", "limit": 8}

Call = Callable[[], Awaitable[object]]


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[elytron.MemoryRuntime, int]]:
    """Serve a space of `TURNS` turns and yield its runtime and port."""
    async with elytron.open("memory:", space="benchmark") as memory:
        await memory.add([f"The ferry number {number} leaves at {number % 24} o'clock." for number in range(TURNS)])
        await memory.recall("ferry")
        app = create_app(memory, authenticator=DevelopmentCallers())
        config = uvicorn.Config(app, log_level="critical", ws_per_message_deflate=False, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        # Declared as TCP, so that asyncio sends responses immediately.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield memory, listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def echo(connection: ServerConnection) -> None:
    """Answer a number with that many bytes, as a recall answers a question with its report."""
    async for message in connection:
        await connection.send("x" * int(str(message)[:8]))


async def measured(calls: dict[str, Call], count: int) -> dict[str, float]:
    """Return the median microseconds of a call by name. Calls alternate one by one."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(count):
        for name, call in calls.items():
            began = time.perf_counter()
            await call()
            times[name].append((time.perf_counter() - began) * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


async def main(count: int) -> float:
    """Measure and print, and return the ratio."""
    request = envelope.decode_request(by_name("recall"), json.dumps(QUERY).encode())
    assert isinstance(request, MemoryRecallRequest)
    frame = json.dumps({"type": "command.recall", "id": "1", "payload": QUERY})
    async with served() as (memory, port), serve(echo, "127.0.0.1", 0, compression=None) as bare:
        bare_port = next(iter(bare.sockets)).getsockname()[1]
        size = len(envelope.encode_value(await memory.recall(request)))
        asked = f"{size:08d}".ljust(len(frame))
        async with (
            connect(f"ws://127.0.0.1:{bare_port}", compression=None, proxy=None) as echoing,
            connect(f"ws://127.0.0.1:{port}/v1/ws", compression=None, proxy=None) as ours,
            elytron.connect(f"ws://127.0.0.1:{port}") as client,
        ):
            await ours.recv()

            async def echoed() -> None:
                await echoing.send(asked)
                await echoing.recv()

            async def framed() -> None:
                await ours.send(frame)
                await ours.recv()

            found = await measured(
                {
                    "echo": echoed,
                    "recall": lambda: memory.operate(request),
                    "socket": framed,
                    "client": lambda: client.operate(request),
                },
                count,
            )
    floor = found["echo"] + found["recall"]
    rows = {
        f"bare echo of {size} bytes": found["echo"],
        "recall in process": found["recall"],
        "echo + recall": floor,
        "recall over the socket": found["socket"],
        "recall by the Python client": found["client"],
    }
    print(f"{'':<30}{'us/call':>10}{'ratio':>8}")
    for name, value in rows.items():
        print(f"{name:<30}{value:>10.1f}{value / floor:>8.2f}")
    ratio = found["socket"] / floor
    print(f"\ngoal: at most {GOAL} of echo + recall; {'met' if ratio <= GOAL else 'missed'}")
    return ratio


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS))
