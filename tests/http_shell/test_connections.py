"""Unauthenticated connections: how long each may wait, how many may exist, and which are evicted."""

import asyncio
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.admission_control import ConnectionBounds
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.events import STREAMS_PER_PRINCIPAL
from elytron_http_shell.server import ServingSettings, served_http

pytestmark = pytest.mark.anyio
LONG_S = 1_000.0
STRANGERS = 1_200
RESET_STREAMS = 256
CLOSED = (EOFError, ConnectionError)
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Peer:
    """A server's address and an operator's key."""

    def __init__(self, address: str, key: str) -> None:
        self.port = int(address.rpartition(":")[2])
        self.key = key
        self._writers: list[asyncio.StreamWriter] = []

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def connect(self, data: bytes = b"") -> Stream:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        writer.write(data)
        return reader, writer

    def request(self, *, key: str | None = None) -> bytes:
        credential = f"Authorization: Bearer {key}\r\n" if key is not None else ""
        return f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{credential}\r\n".encode()


@asynccontextmanager
async def server_with(bounds: ConnectionBounds) -> AsyncGenerator[Peer]:
    async with elytron.open("memory:", space="ada") as memory, asyncio.timeout(100):
        key = await AccessKeys(memory.context).add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="operator"))
        async with served_http(memory, ServingSettings(port=0, connections=bounds)) as started:
            peer = Peer(started.address, key.key)
            yield peer
            peer.close()


async def status_of(stream: Stream) -> int:
    """Read one answer and return its status."""
    head = await stream[0].readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await stream[0].readexactly(length)
    return int(head.split(b" ")[1])


async def test_a_silent_connection_is_closed() -> None:
    async with server_with(ConnectionBounds(silent_s=0.1, head_s=LONG_S)) as peer:
        reader, _ = await peer.connect()
        assert await reader.read() == b""


@pytest.mark.parametrize("head", [b"G", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n"])
async def test_an_endless_head_is_answered_with_408_and_closed(head: bytes) -> None:
    async with server_with(ConnectionBounds(silent_s=LONG_S, head_s=0.1)) as peer:
        reader, _ = await peer.connect(head)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_second_head_on_a_connection_has_the_same_deadline() -> None:
    async with server_with(ConnectionBounds(silent_s=LONG_S, head_s=0.1)) as peer:
        for key, status in ((None, 401), (peer.key, 200)):
            stream = await peer.connect(peer.request(key=key))
            assert await status_of(stream) == status
            stream[1].write(b"GET /")
            assert (await stream[0].read()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_after_its_refusal_has_the_deadline_of_a_head() -> None:
    async with server_with(ConnectionBounds(silent_s=LONG_S, head_s=0.1)) as peer:
        head = (
            b"POST /v1/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        )
        stream = await peer.connect(head)
        assert await status_of(stream) == 401
        stream[1].write(b"{")
        assert (await stream[0].read()).startswith(b"HTTP/1.1 408 ")


async def test_the_oldest_unauthenticated_connections_of_an_address_make_room() -> None:
    async with server_with(ConnectionBounds(silent_s=LONG_S, head_s=LONG_S, each=3)) as peer:
        streams = [await peer.connect(b"G") for _ in range(6)]
        for reader, _ in streams[:3]:
            with pytest.raises(CLOSED):
                await reader.readexactly(1)
        newest = streams[-1]
        newest[1].write(peer.request()[1:])
        assert await status_of(newest) == 401


async def test_unfinished_bodies_of_strangers_do_not_lock_out_callers_with_a_key() -> None:
    head = b"POST /v1/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    async with server_with(ConnectionBounds(each=4)) as peer:
        for _ in range(8):
            await peer.connect(head)
        assert await status_of(await peer.connect(peer.request(key=peer.key))) == 200


@pytest.mark.parametrize("bounds", [{"most": 5, "each": 1_000}, {"each": 5}])
async def test_an_authenticated_connection_is_not_closed_for_a_stranger(bounds: dict[str, int]) -> None:
    async with server_with(ConnectionBounds(silent_s=LONG_S, head_s=LONG_S, **bounds)) as peer:
        own = await peer.connect(peer.request(key=peer.key))
        assert await status_of(own) == 200
        strangers = [await peer.connect(b"G") for _ in range(20)]
        own[1].write(peer.request(key=peer.key))
        assert await status_of(own) == 200
        new = await peer.connect(peer.request(key=peer.key))
        assert await status_of(new) == 200
        with pytest.raises(CLOSED):
            await strangers[0][0].readexactly(1)


SERVER = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (192, 192))
import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.admission_control import ConnectionBounds
from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http

async def main():
    async with elytron.open(sys.argv[1], space="ada") as memory:
        key = await AccessKeys(memory.context).add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="operator"))
        bounds = ConnectionBounds(silent_s=1_000, head_s=1_000, each=1_000_000)
        async with served_http(memory, ServingSettings(port=0, connections=bounds)) as started:
            print(started.address, key.key, flush=True)
            await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def many_descriptors(count: int) -> Generator[None]:
    """Let this process have `count` connections, if its hard limit allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, count + 200)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_too_many_idle_connections_do_not_lock_out_authenticated_clients(tmp_path: Path) -> None:
    process = subprocess.Popen(
        (sys.executable, "-c", SERVER, str(tmp_path / "m.db")), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address, key = (await asyncio.to_thread(process.stdout.readline)).split()
        peer = Peer(address, key)
        with many_descriptors(STRANGERS):
            async with asyncio.timeout(200):
                own = await peer.connect(peer.request(key=key))
                assert await status_of(own) == 200
                for place in range(STRANGERS):
                    await peer.connect(b"G" if place % 2 else b"")
                    if place % 100 == 0:
                        own[1].write(peer.request(key=key))
                        assert await status_of(own) == 200
                new = await peer.connect(peer.request(key=key))
                assert await status_of(new) == 200
                peer.close()
    finally:
        process.communicate(timeout=100)
    assert process.returncode == 0


async def opened_stream(port: int, key: str, memory: elytron.MemoryRuntime) -> socket.socket:
    """Open an event stream with a second request after it, over a connection that is reset on closing."""
    events = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    while True:
        stream = socket.socket()
        stream.setblocking(False)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_connect(stream, ("127.0.0.1", port))
        await loop.sock_sendall(stream, events)
        if (await loop.sock_recv(stream, 65_536)).startswith(b"HTTP/1.1 200 "):
            await loop.sock_sendall(stream, events)
            return stream
        stream.close()
        # The earlier streams have not ended yet: the server notices when it writes to them.
        await memory.add("One more event.")


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_many_simultaneous_stream_resets_cause_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    async with elytron.open("memory:", space="ada") as memory, asyncio.timeout(100):
        keys = AccessKeys(memory.context)
        user = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="user")
        shown = [(await keys.add(user)).key for _ in range(RESET_STREAMS // STREAMS_PER_PRINCIPAL)]
        async with served_http(memory, ServingSettings(port=0)) as started:
            port = Peer(started.address, "").port
            for _ in range(2):
                streams = [await opened_stream(port, key, memory) for key in shown * STREAMS_PER_PRINCIPAL]
                await memory.add("All streams are told of this.")
                for stream in streams:
                    stream.close()
            # A stream that was not released would take another's slot.
            (await opened_stream(port, shown[0], memory)).close()
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]
