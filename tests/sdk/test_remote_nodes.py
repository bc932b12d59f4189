"""A client of several nodes: each space has its own node, and a call skips one that does not answer."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from tests.store.postgres_server import free_port
from tests.transports.serving import served

import elytron
from elytron.remote.memory import rank_nodes
from elytron_adapter.http.store import leases_of, node_host, node_surfaces
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.errors import InvalidInput, Unreachable, Unsupported
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
URLS = tuple(f"http://node{number}:8010" for number in range(4))
SPACES = tuple(f"space {number}" for number in range(400))
NAMESPACE = ("rig",)


def test_each_space_has_its_own_node_in_every_list_of_them() -> None:
    owners = {space: rank_nodes(space, URLS)[0] for space in SPACES}
    assert {space: rank_nodes(space, URLS[::-1])[0] for space in SPACES} == owners
    counts = [sum(owner == url for owner in owners.values()) for url in URLS]
    assert min(counts) > 60
    left = [url for url in URLS if url != URLS[2]]
    moved = {space for space in SPACES if rank_nodes(space, left)[0] != owners[space]}
    assert moved == {space for space, owner in owners.items() if owner == URLS[2]}


@pytest.fixture
async def nodes() -> AsyncIterator[Sequence[str]]:
    """Run two servers, each with its own store that identifies it."""
    async with AsyncExitStack() as stack:
        found: list[str] = []
        for number in range(2):
            server = await stack.enter_async_context(served(SurfaceOptions(), development=True))
            await server.memory.put_record(NAMESPACE, "who", {"number": number})
            found.append(server.url)
        yield found


def own_of(urls: Sequence[str]) -> str:
    return rank_nodes("ada", urls)[0]


async def who(memory: elytron.RemoteMemory) -> object:
    record = (await memory.get_record(NAMESPACE, "who")).record.value
    return record["number"] if isinstance(record, dict) else None


async def test_a_space_is_requested_from_its_own_node(nodes: Sequence[str]) -> None:
    for urls in (nodes, nodes[::-1]):
        async with elytron.connect(",".join(urls), space="ada") as memory:
            assert {await who(memory) for _ in range(3)} == {nodes.index(own_of(nodes))}


@contextlib.asynccontextmanager
async def absent_node(others: Sequence[str], *, is_silent: bool) -> AsyncGenerator[str]:
    """Yield the address of a node that is the space's own: silent, or missing."""
    async with AsyncExitStack() as stack:
        while True:
            listening = stack.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            if own_of([*others, url]) == url:
                break
        if is_silent:
            listening.listen()  # the system accepts connections, but no process answers
        yield url


async def test_a_call_skips_a_node_that_accepts_no_connection(nodes: Sequence[str]) -> None:
    async with (
        absent_node(nodes, is_silent=False) as absent,
        elytron.connect(f"{absent},{nodes[0]}", space="ada") as memory,
    ):
        await memory.put_record(NAMESPACE, "note", {"is": "tea"})
        assert await who(memory) == 0
        assert (await memory.get_record(NAMESPACE, "note")).record.version == 1


async def test_a_read_skips_a_silent_node_and_later_reads_do_not_wait_for_it(
    nodes: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron.remote.memory.REMOTE_PASS_S", 0.02)
    async with (
        absent_node(nodes, is_silent=True) as silent,
        elytron.connect(f"{silent},{nodes[0]}", space="ada") as memory,
    ):
        assert await who(memory) == 0
        monkeypatch.setattr("elytron.remote.memory.REMOTE_PASS_S", 1_000.0)
        async with asyncio.timeout(60):
            assert await who(memory) == 0


async def test_a_write_without_a_key_is_not_sent_to_a_second_node(nodes: Sequence[str]) -> None:
    async with (
        absent_node(nodes, is_silent=True) as silent,
        elytron.connect(f"{silent},{nodes[0]}", space="ada", timeout_s=0.1) as memory,
    ):
        with pytest.raises(Unreachable):
            await memory.add("tea")
    async with elytron.connect(nodes[0], space="ada") as memory:
        assert [hit.text for hit in (await memory.list()).items if hit.text == "tea"] == []


async def test_each_address_of_a_name_is_a_node(nodes: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(nodes[0].rpartition(":")[2])
    asked: list[str] = []

    def addresses(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        found = ["127.0.0.1", "::1"] if host == "localhost" else [host]
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in each], socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    monkeypatch.setattr("elytron.remote.memory.REMOTE_FIND_S", 0.0)
    async with elytron.connect(f"http://localhost:{port}", space="ada", nodes="dns") as memory:
        # The second address accepts no connection.
        assert {await who(memory) for _ in range(3)} == {0}
    assert asked.count("localhost") > 1


async def test_a_name_without_an_address_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with elytron.connect("http://nodes.example:8010", nodes="dns") as memory:
        with pytest.raises(Unreachable, match=r"nodes\.example"):
            await memory.recall("tea")
    monkeypatch.undo()
    async with elytron.connect(f"http://{64 * 'n'}.example:8010", nodes="dns") as memory:
        with pytest.raises(Unreachable, match=r"n\.example"):
            await memory.recall("tea")


@dataclass
class ListOfNodes:
    """A list as a database stores it."""

    urls: list[str]

    async def note_node(self, url: str, /, *, lease_ms: int) -> None:
        assert lease_ms > 0
        if url not in self.urls:
            self.urls.append(url)

    async def drop_node(self, url: str, /) -> None:
        self.urls.remove(url)

    async def list_nodes(self) -> Sequence[str]:
        return sorted(self.urls)


async def listing(leases: ListOfNodes, stack: AsyncExitStack, number: int) -> str:
    """Run a server that registers itself in the list; return its address."""
    url = f"http://127.0.0.1:{free_port()}"
    server = await stack.enter_async_context(
        served(
            SurfaceOptions(), development=True, port=int(url.rpartition(":")[2]), further=(node_surfaces(leases, url),)
        )
    )
    await server.memory.put_record(NAMESPACE, "who", {"number": number})
    return url


async def test_servers_list_their_nodes_and_new_ones_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron.remote.memory.REMOTE_FIND_S", 0.0)
    leases = ListOfNodes([])
    async with AsyncExitStack() as stack:
        urls = [await listing(leases, stack, 0)]
        absent = await stack.enter_async_context(absent_node(urls, is_silent=False))
        async with elytron.connect(f"{absent},{urls[0]}", space="ada", nodes="leased") as memory:
            assert await who(memory) == 0
            while own_of(urls) == urls[0]:
                urls.append(await listing(leases, stack, len(urls)))
            while await who(memory) == 0:
                pass
            assert await who(memory) == urls.index(own_of(urls))
    assert leases.urls == []


async def test_a_server_without_a_node_list_gives_a_hint(nodes: Sequence[str]) -> None:
    async with elytron.connect(nodes[0], nodes="leased") as memory:
        with pytest.raises(Unsupported, match="--node-url"):
            await memory.recall("tea")


@pytest.mark.parametrize(
    ("url", "source"),
    [("http://a:1", "found"), ("ws://a:1", "leased"), ("https://a:1", "dns"), ("http://a:1,http://b:1", "dns")],
)
def test_invalid_ways_of_finding_nodes_are_rejected(url: str, source: Any) -> None:
    with pytest.raises(InvalidInput):
        elytron.connect(url, nodes=source)


@pytest.mark.parametrize(
    "url", ["a:8010", "ftp://a", "http://", "http://a:0", "http://a/path", "http://ada@a", "http://a?b", "http://[a"]
)
def test_an_unusable_node_address_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput):
        node_host(url)


def test_node_hosts_are_parsed_from_addresses() -> None:
    assert [node_host(url) for url in ("http://node1:8010", "https://[::1]:8010/")] == ["node1", "[::1]"]
    with pytest.raises(Unsupported):
        leases_of(MemoryStore())


@pytest.mark.parametrize("urls", ["http://a:1,", "ws://a:1,ws://b:1", "http://a:1,b:1"])
def test_an_invalid_node_list_is_rejected(urls: str) -> None:
    with pytest.raises(InvalidInput):
        elytron.connect(urls)
