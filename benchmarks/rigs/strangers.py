"""Send many large bodies without a key at once, and measure how the server answers others meanwhile.

    python -m benchmarks.rigs.strangers [--strangers N] [--megabytes N]

A server receives N bodies at once, each with different bytes: lists of invalid values, and forms with a file. Meanwhile
`/livez` is called repeatedly. Prints the slowest response in milliseconds, what was sent, and the server's memory
before, at its peak and afterwards. Exits 1 if a body was accepted, a response of `/livez` took more than a tenth of a
second, or the memory did not return to within 32 MB of its initial size.
"""

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rigs import tables
from benchmarks.rigs.children import READY, Child, Voice
from benchmarks.rigs.uploads import Server

_SLOWEST_MS = 100.0
_GROWTH_BYTES = 32 * 1024 * 1024
_PAUSE_S = 0.005
_WAIT_S = 60.0
_PIECE = 64 * 1024
_FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n'
_KINDS = (
    ("/memories/search", "application/json", b'{"scope":[' + b"1," * _PIECE),
    ("/memories/add", "application/json", b'{"messages":[' + b"{}," * _PIECE),
    ("/memories/add/multipart", "multipart/form-data; boundary=x", _FORM + b"x" * _PIECE),
    ("/resources", "multipart/form-data; boundary=x; charset=punycode", _FORM + b"x" * _PIECE),
)


async def send(port: int, number: int, size: int) -> tuple[int, int]:
    """Send one body as far as the server reads it. Return its status, 0 for a cut connection, and the bytes sent."""
    path, kind, piece = _KINDS[number % len(_KINDS)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    told, sent = b"", 0
    with contextlib.suppress(OSError):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
        writer.write(head.encode())
        while sent < size:
            writer.write(piece[: size - sent])
            sent += len(piece[: size - sent])
            await writer.drain()
        told = await reader.readline()
    writer.close()
    return int(told.split()[1]) if told else 0, sent


def strange(voice: Voice, port: int, strangers: int, size: int) -> None:
    """Send all bodies at once and report the result of each; the body of a child process."""

    async def work() -> list[tuple[int, int]]:
        return await asyncio.gather(*(send(port, number, size) for number in range(strangers)))

    voice.say(READY)
    for status, sent in asyncio.run(work()):
        voice.say(f"{status} {sent}")


def ask(port: int) -> float:
    """Return the milliseconds that `/livez` takes."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while link.recv(_PIECE):
            pass
    return (time.perf_counter() - began) * 1000


def measure(server: Server, port: int, strangers: int, size: int) -> tuple[list[tuple[int, int]], list[float], int]:
    """Return the result of each body, the times of `/livez` meanwhile, and the server's peak memory."""
    child = Child(strange, port, strangers, size)
    assert child.listen(_WAIT_S, until=READY), "the senders did not start"
    times: list[float] = []
    most = 0
    while child.listen(_PAUSE_S):
        times.append(ask(port))
        most = max(most, server.memory_bytes())
    return [(int(status), int(sent)) for status, sent in map(str.split, child.wait())], times, most


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rig, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description="Send large bodies without a key.")
    parser.add_argument("--strangers", type=int, default=50, help="so many bodies at once")
    parser.add_argument("--megabytes", type=int, default=16, help="the size of each")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="elytron-rig-") as folder:
        server = Server(Path(folder))
        try:
            port = server.http.base_url.port
            assert port is not None
            before = server.memory_bytes()
            bodies, times, most = measure(server, port, given.strangers, given.megabytes * 1024 * 1024)
            after = server.memory_bytes()
        finally:
            server.end()
    times.sort()
    tables.show(
        [
            {
                "bodies": str(len(bodies)),
                "sent MB": f"{sum(sent for _, sent in bodies) / 2**20:.0f}",
                "livez median ms": f"{times[len(times) // 2]:.1f}",
                "slowest": f"{times[-1]:.1f}",
                "memory MB before": f"{before / 2**20:.0f}",
                "most": f"{most / 2**20:.0f}",
                "after": f"{after / 2**20:.0f}",
            }
        ]
    )
    was_taken = any(200 <= status < 300 for status, _ in bodies)
    return int(was_taken or times[-1] > _SLOWEST_MS or after - before > _GROWTH_BYTES)


if __name__ == "__main__":
    sys.exit(main())
