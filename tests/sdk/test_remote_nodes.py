"""A client of several nodes: each space has its own node, and a call goes past one that does not answer."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
from tests.transports.serving import served

import elytron
from elytron.remote.nodes import rank_nodes
from elytron_cli.server.extras import WantedSurfaces
from elytron_core import limits
from elytron_core.errors import InvalidInput, Unreachable

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
    """Run two servers, each with a store of its own that says which one it is."""
    async with AsyncExitStack() as stack:
        found: list[str] = []
        for number in range(2):
            server = await stack.enter_async_context(served(WantedSurfaces(), development=True))
            await server.memory.put_record(NAMESPACE, "who", {"number": number})
            found.append(server.url)
        yield found


def own_of(urls: Sequence[str]) -> str:
    return rank_nodes("ada", urls)[0]


async def who(memory: elytron.RemoteMemory) -> object:
    record = (await memory.get_record(NAMESPACE, "who")).record.value
    return record["number"] if isinstance(record, dict) else None


async def test_a_space_is_asked_of_its_own_node(nodes: Sequence[str]) -> None:
    for urls in (nodes, nodes[::-1]):
        async with elytron.connect(",".join(urls), space="ada") as memory:
            assert {await who(memory) for _ in range(3)} == {nodes.index(own_of(nodes))}


@contextlib.asynccontextmanager
async def absent_node(others: Sequence[str], *, is_silent: bool) -> AsyncGenerator[str]:
    """Yield the address of a node that is the own one of the space: silent, or not there."""
    async with AsyncExitStack() as stack:
        while True:
            listening = stack.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            if own_of([*others, url]) == url:
                break
        if is_silent:
            listening.listen()  # the system takes connections, and no process answers
        yield url


async def test_a_call_goes_past_a_node_that_takes_no_connection(nodes: Sequence[str]) -> None:
    async with (
        absent_node(nodes, is_silent=False) as absent,
        elytron.connect(f"{absent},{nodes[0]}", space="ada") as memory,
    ):
        await memory.put_record(NAMESPACE, "note", {"is": "tea"})
        assert await who(memory) == 0
        assert (await memory.get_record(NAMESPACE, "note")).record.version == 1


async def test_a_read_goes_past_a_silent_node_and_later_ones_do_not_wait_for_it(
    nodes: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMOTE_PASS_S", 0.02)
    async with (
        absent_node(nodes, is_silent=True) as silent,
        elytron.connect(f"{silent},{nodes[0]}", space="ada") as memory,
    ):
        assert await who(memory) == 0
        monkeypatch.setattr(limits, "REMOTE_PASS_S", 1_000.0)
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


@pytest.mark.parametrize("urls", ["http://a:1,", "ws://a:1,ws://b:1", "http://a:1,b:1"])
def test_a_wrong_list_of_nodes_is_refused(urls: str) -> None:
    with pytest.raises(InvalidInput):
        elytron.connect(urls)
