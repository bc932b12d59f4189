"""One writer at a time uses a store on an MCP file server."""

import asyncio
from pathlib import Path

import pytest
from tests.store.mcp_file_server import FileServer
from tests.store.mcp_rig import LEASE, opened, served, shards

from elytron_conformance.examples import (
    documents,
    fact,
    put,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    StoreBusy,
    StoreFailed,
)
from elytron_core.ports.store import CommitReceipt
from elytron_store.mcp import McpStore
from elytron_store.mcp.lease import MCP_LEASE_MS

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


async def test_a_second_writer_is_refused_until_the_first_finishes(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1))
        with pytest.raises(StoreBusy):
            await opened(files, clock)
        await store.close()
        second = await opened(files, clock)
        assert await put(second, fact(2)) == CommitReceipt(2, 2)
        await second.close()


async def test_one_of_several_concurrent_writers_gets_the_lease(files: FileServer, clock: FrozenClock) -> None:
    told = await asyncio.gather(*(opened(files, clock) for _ in range(4)), return_exceptions=True)
    won = [each for each in told if isinstance(each, McpStore)]
    assert len(won) <= 1
    assert all(isinstance(each, StoreBusy) for each in told if not isinstance(each, McpStore))
    for store in won:
        await store.close()


async def test_a_long_idle_writer_lets_another_in(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1), b"one")
        clock.advance(LEASE - 1)
        with pytest.raises(StoreBusy):
            await opened(files, clock)
        clock.advance(1)
        second = await opened(files, clock)
        assert await put(second, fact(2), b"two") == CommitReceipt(2, 2)
        with pytest.raises(StoreFailed):
            await put(store, fact(3))
        await second.close()
        with pytest.raises(StoreFailed):
            await documents(store)
        assert (store.capabilities.single_writer, store.capabilities.following) == (True, False)


async def test_a_writer_renews_its_lease_and_acquires_it_again(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        for number in range(1, 9):
            await put(store, fact(number))
            clock.advance(MCP_LEASE_MS // 2 + 1)
        with pytest.raises(StoreBusy):
            await opened(files, clock)
        clock.advance(10 * LEASE)
        assert await put(store, fact(9)) == CommitReceipt(9, 9)
        assert len(list(files.root.rglob("lease/*"))) == 1


async def test_a_commit_of_a_writer_without_its_lease_is_not_answered(files: FileServer, clock: FrozenClock) -> None:
    store = await opened(files, clock)
    await put(store, fact(1), b"one")
    answer = files.answer

    def late(tool: str, arguments: dict[str, object]) -> dict[str, object]:
        found = answer(tool, arguments)
        if tool == "file_write" and "/spaces/" in str(arguments["path"]):
            files.answer = answer
            clock.advance(LEASE)
            lease = next(files.root.rglob("lease/*"))
            lease.with_name("00000002").write_text('\n{"holder": "another", "until": 9999999999999}\n')
        return found

    files.answer = late
    with pytest.raises(StoreFailed):
        await put(store, fact(2), b"two")
    await store.close()


@pytest.mark.parametrize("left", ["", "torn {", '\n{"holder": "x"}\n', "not JSON\n"])
async def test_remains_of_a_broken_claim_block_no_writer(files: FileServer, clock: FrozenClock, left: str) -> None:
    store = await opened(files, clock)
    await store.close()
    (lease,) = files.root.rglob("lease/*")
    lease.with_name("00000007").write_text(left)
    again = await opened(files, clock)
    await put(again, fact(1))
    await again.close()


async def test_a_dead_writers_last_request_cannot_take_effect_late(files: FileServer, clock: FrozenClock) -> None:
    dead = await opened(files, clock)
    await put(dead, fact(1), b"one")
    (shard,) = shards(files)
    before = shard.read_text()
    await put(dead, fact(2), b"late")
    late = shard.read_text()
    shard.write_text(before)
    clock.advance(LEASE)
    store = await opened(files, clock)
    assert [found.body for found in await documents(store)] == [b"one"]
    shard.write_text(late)
    await store.close()
    again = await opened(files, clock)
    assert [found.body for found in await documents(again)] == [b"one"]
    with pytest.raises(StoreFailed):
        await put(dead, fact(3))
    await dead.close()
    await again.close()
