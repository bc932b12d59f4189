"""A client closes an unused connection long before a server would close it during a call."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
from tests.transports.live import Live

import elytron
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_gateway.client import MemoryGatewayClient, SyncMemoryGatewayClient
from elytron_gateway.upstream.everos import EverOsUpstream
from elytron_outbound.clients import REMOTE_IDLE_S
from elytron_store.remote_store import GatewayStore

pytestmark = pytest.mark.anyio

CALLS = 3
_ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
Call = Callable[[], Awaitable[object]]
Client = Callable[[str], AbstractAsyncContextManager[Call]]


@asynccontextmanager
async def remote(url: str) -> AsyncGenerator[Call]:
    async with elytron.connect(url, space="ada") as memory:
        yield memory.inspect


@asynccontextmanager
async def store(url: str) -> AsyncGenerator[Call]:
    handle = GatewayStore(url)
    yield lambda: handle.journal(SpaceId("ada"), after=0, limit=1)
    await handle.close()


@asynccontextmanager
async def gateway(url: str) -> AsyncGenerator[Call]:
    async with MemoryGatewayClient(url) as client:
        yield client.health


@asynccontextmanager
async def waiting_gateway(url: str) -> AsyncGenerator[Call]:
    with SyncMemoryGatewayClient(url) as client:
        yield lambda: asyncio.to_thread(client.health)


@asynccontextmanager
async def upstream(url: str) -> AsyncGenerator[Call]:
    behind = EverOsUpstream(url, clock=FrozenClock())
    yield behind.healthy
    await behind.close()


@asynccontextmanager
async def counted(seen: list[asyncio.StreamWriter]) -> AsyncGenerator[str]:
    """Serve one answer to everything, and record each connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer)
        with suppress(asyncio.IncompleteReadError, OSError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(size[0].partition(b":")[2]) if size else 0)
                writer.write(_ANSWER)
                await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in seen:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.mark.parametrize("client", [remote, store, gateway, waiting_gateway, upstream])
@pytest.mark.parametrize(("idle_s", "connections"), [(0.0, CALLS), (1_000.0, 1)])
async def test_a_client_keeps_an_idle_connection_until_its_limit(
    client: Client, idle_s: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_outbound.clients.REMOTE_IDLE_S", idle_s)
    seen: list[asyncio.StreamWriter] = []
    async with counted(seen) as url, client(url) as call:
        for _ in range(CALLS):
            with suppress(ElytronError):
                await call()
    assert len(seen) == connections


def test_clients_close_idle_connections_long_before_servers() -> None:
    assert REMOTE_IDLE_S * 10 <= limits.HTTP_IDLE_S


async def test_a_server_closes_an_idle_connection_at_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HTTP_IDLE_S", 0)
    with Live() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await reader.readline()
        await reader.read()  # to the end, which comes automatically
        writer.close()
