"""A store on an MCP file server where the server, a call, or an address fails."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.mcp_file_server import Fault, FileServer, serving
from tests.store.mcp_rig import connected, opened, served, shards

from elytron_conformance.examples import (
    documents,
    fact,
    one,
    put,
    sequences,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    PayloadTooLarge,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreUnavailable,
    StoreUrlInvalid,
    Unauthorized,
    Unreachable,
)
from elytron_core.ports.store import CommitReceipt, Document
from elytron_store import WhenMissing, open_store, parse_url
from elytron_store.mcp.shards import join_shards
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("mcp_file_server.py")
KEYS = LocalKeys({"k": bytes(32)}, current="k")


@pytest.fixture
def files(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


async def serving_port(process: "subprocess.Popen[str]") -> int:
    """Return the port that a server process reports."""
    assert process.stdout is not None
    return int(await asyncio.to_thread(process.stdout.readline))


async def test_a_server_dying_during_an_append_loses_no_answered_commit(tmp_path: Path, clock: FrozenClock) -> None:
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(tmp_path), "0"], stdout=subprocess.PIPE, text=True
    ) as first:
        port = await serving_port(first)
        store = await connected(f"http://127.0.0.1:{port}/mcp", clock, timeout_s=10)
        await put(store, fact(1), b"one")
        (tmp_path / "die").write_text("40")
        with pytest.raises(Unreachable):
            await put(store, fact(2), b"two")
        assert first.wait(timeout=60) == 9
    with pytest.raises(Unreachable):
        await one(store, fact(1))
    async with serving(FileServer(tmp_path), port=port):
        assert await documents(store) == [Document(fact(1), 1, b"one")]
        assert await put(store, fact(2), b"two") == CommitReceipt(2, 2)
        await store.close()
        again = await connected(f"http://127.0.0.1:{port}/mcp", clock)
        assert await documents(again) == [Document(fact(1), 1, b"one"), Document(fact(2), 1, b"two")]
        assert (await again.check()).ok
        await again.close()


@pytest.mark.parametrize("torn_at", [0, 1, 50, 10_000])
async def test_a_torn_append_is_cut_off(files: FileServer, clock: FrozenClock, torn_at: int) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1), b"one")
        files.faults = [Fault("file_write", "INTERNAL_ERROR", path_part="/spaces/", torn_at=torn_at)]
        with pytest.raises(StoreUnavailable):
            await put(store, fact(2), b"two")
        is_whole = torn_at == 10_000
        assert [found.ref for found in await documents(store)] == [fact(1), fact(2)][: 1 + is_whole]
        last = 2 + is_whole
        assert await put(store, fact(3)) == CommitReceipt(last, last)
        await store.close()
        again = await opened(files, clock)
        assert await sequences(again) == list(range(1, last + 1))
        assert (await again.check()).ok
        await again.close()


async def test_late_writes_change_nothing(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1), b"one")
        (shard,) = shards(files)
        before = shard.read_text()
        files.faults = [Fault("file_write", "INTERNAL_ERROR", path_part="/spaces/", after=True)]
        with pytest.raises(StoreUnavailable):
            await put(store, fact(2), b"late")
        late = shard.read_text().removeprefix(before)
        shard.write_text(before)
        assert await documents(store) == [Document(fact(1), 1, b"one")]
        shard.write_text(before + late)
        assert await put(store, fact(3), b"three") == CommitReceipt(2, 2)
        await store.close()
        again = await opened(files, clock)
        assert [found.body for found in await documents(again)] == [b"one", b"three"]
        await again.close()


@pytest.mark.parametrize(("code", "kind"), [("PAYLOAD_TOO_LARGE", PayloadTooLarge), ("QUOTA_EXCEEDED", StoreFull)])
async def test_data_the_server_has_no_room_for_is_reported_and_not_stored(
    files: FileServer, clock: FrozenClock, code: str, kind: type[Exception]
) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1))
        files.faults = [Fault("file_write", code, path_part="/spaces/")]
        with pytest.raises(kind):
            await put(store, fact(2))
        assert await put(store, fact(2)) == CommitReceipt(2, 2)


async def test_a_wrong_key_is_refused_and_not_disclosed(files: FileServer, clock: FrozenClock) -> None:
    async with serving(files, keys={"right": "ada"}) as server:
        with pytest.raises(Unauthorized) as refused:
            await open_store(f"mcp+{server.url}", clock=clock, api_key="top-secret-key")
        assert "top-secret-key" not in repr(refused.value)
        store = await open_store(f"mcp+{server.url}", clock=clock, api_key="right")
        await put(store, fact(1))
        await store.close()


async def test_an_existing_store_is_opened_by_its_url(files: FileServer, clock: FrozenClock) -> None:
    async with serving(files) as server:
        url = f"mcp+{server.url}?project=memory"
        with pytest.raises(StoreMissing):
            await open_store(url, clock=clock, when_missing=WhenMissing.REFUSE)
        pretended = await open_store(url, clock=clock, when_missing=WhenMissing.PRETEND)
        await put(pretended, fact(1))
        await pretended.close()
        assert not [path for path in files.root.rglob("*") if path.is_file()]
        store = await open_store(url, clock=clock)
        await put(store, fact(1), b"one")
        await store.close()
        again = await open_store(url, clock=clock)
        assert await one(again, fact(1)) == Document(fact(1), 1, b"one")
        await again.close()
        with pytest.raises(StoreForeign):
            await open_store(url, clock=clock, keys=KEYS)


async def test_sealed_content_is_not_visible_to_the_server(files: FileServer, clock: FrozenClock) -> None:
    async with serving(files) as server:
        url = f"mcp+{server.url}"
        store = await open_store(url, clock=clock, keys=KEYS)
        await put(store, fact(1), b"The boiler code is 4417.")
        assert await one(store, fact(1)) == Document(fact(1), 1, b"The boiler code is 4417.")
        await store.close()
        kept = [join_shards([(0, shard.read_text())]) for shard in shards(files)]
        assert [b"boiler" in log for log in kept] == [False, False]
        with pytest.raises(StoreForeign):
            await open_store(url, clock=clock)


@pytest.mark.parametrize(
    "url",
    [
        "mcp+http://files.example/mcp",
        "mcp+https://",
        "mcp+https://key@files.example/mcp",
        "mcp+https://files.example/mcp?project=a&project=b",
        "mcp+https://files.example/mcp?key=secret",
        "mcp+https://files.example/mcp?project",
        "mcp+https://files.example/mcp#part",
        "mcp+https://[files/mcp",
    ],
)
def test_an_address_that_leaks_or_contains_too_much_is_rejected(url: str) -> None:
    with pytest.raises(StoreUrlInvalid) as refused:
        parse_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:9"])
def test_without_encryption_only_a_local_server_is_allowed(host: str) -> None:
    assert parse_url(f"mcp+http://{host}/mcp").url == f"http://{host}/mcp"
