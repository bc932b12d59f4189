"""Shards of a store on an MCP file server: long ones, damaged ones, erased ones."""

from pathlib import Path

import pytest
from tests.store.mcp_file_server import Fault, FileServer
from tests.store.mcp_rig import opened, served, shards

from elytron_conformance.examples import (
    ADA,
    AT,
    batch,
    blob,
    documents,
    fact,
    journal,
    put,
    sequences,
    spaces,
    write_blob,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    StoreCorrupt,
    StoreUnavailable,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CommitReceipt, ErasureTarget, JournalAction, PutChange
from elytron_core.ports.store_checks import DamageKind
from elytron_store import limits as store_limits

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


async def test_a_long_log_is_split_into_shards(
    files: FileServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "MCP_SHARD_CHARS", 20_000)
    monkeypatch.setattr("elytron_store.mcp.shards.MCP_SHARDS", 3)
    async with served(files, clock) as store:
        for number in range(12):
            await put(store, fact(number), bytes([number]) * 4_500)
        assert len(shards(files)) == 5
        assert all(shard.stat().st_size <= 20_000 for shard in shards(files))
        await store.close()
        again = await opened(files, clock)
        assert [found.body for found in await documents(again)] == [bytes([number]) * 4_500 for number in range(12)]
        await again.close()


async def test_a_log_of_many_short_shards_is_rewritten(
    files: FileServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_store.mcp.shards.MCP_SHARDS", 4)
    for number in range(5):
        store = await opened(files, clock)
        await put(store, fact(number))
        assert await sequences(store) == list(range(1, number + 2))
        await store.close()
    assert len(shards(files)) == 2
    again = await opened(files, clock)
    assert len(await documents(again)) == 5
    await again.close()


async def test_a_body_larger_than_the_file_limit_is_stored(files: FileServer, clock: FrozenClock) -> None:
    body = bytes(range(256)) * (7 * 1024 * 4)
    async with served(files, clock) as store:
        await put(store, fact(1), body)
        await put(store, fact(2), b"two")
        assert all(shard.stat().st_size <= store_limits.MCP_SHARD_CHARS for shard in shards(files))
        await store.close()
        again = await opened(files, clock)
        assert [found.body for found in await documents(again)] == [body, b"two"]
        await again.close()


async def test_damage_at_rest_is_found_reported_and_quarantined(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await store.commit(batch(*(PutChange(fact(number), b"%d" % number * 99, 0) for number in range(4))))
        await write_blob(store, "aa", b"whole")
        await write_blob(store, "ab", b"damaged")
        await store.close()
        (shard,) = shards(files)
        text = shard.read_text()
        spoilt = text[:-200] + ("x" if text[-200] != "x" else "y") + text[-199:]
        shard.write_text(spoilt)
        for part in files.root.rglob("000000"):
            if "/ab/" in str(part):
                part.write_text("!" + part.read_text()[1:])
        again = await opened(files, clock)
        report = await again.check()
        assert {problem.damage for problem in report.problems} == {DamageKind.DOCUMENT, DamageKind.BLOB}
        with pytest.raises(StoreCorrupt):
            await documents(again)
        with pytest.raises(StoreCorrupt):
            await blob(again, "ab")
        repaired = await again.repair()
        assert all(problem.quarantined for problem in repaired.problems)
        assert (await again.check()).ok
        assert len(await documents(again)) == 3
        assert await blob(again, "aa") == b"whole"
        assert len([path for path in files.root.rglob("quarantine/*/*/*") if path.is_file()]) == 2
        await again.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert not [path for path in files.root.rglob("*") if path.is_file() and "quarantine" in str(path)]
        await again.close()


async def test_a_space_with_a_lost_header_is_quarantined(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1))
        await put(store, fact(1), space=SpaceId("bob"))
        await store.close()
        shard = next(path for path in shards(files))
        shard.write_text("A" * len(shard.read_text()) + "\n")
        again = await opened(files, clock)
        assert len(await spaces(again)) == 1
        assert [problem.damage for problem in (await again.check()).problems] == [DamageKind.ENGINE]
        repaired = await again.repair()
        assert [problem.quarantined for problem in repaired.problems] == [True]
        assert (await again.check()).ok
        assert len(await spaces(again)) == 1
        await again.close()


async def test_a_lost_shard_is_a_detected_hole(
    files: FileServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "MCP_SHARD_CHARS", 20_000)
    async with served(files, clock) as store:
        for number in range(5):
            await put(store, fact(number), bytes(9_000))
        await store.close()
        shards(files)[1].unlink()
        again = await opened(files, clock)
        with pytest.raises(StoreCorrupt):
            await put(again, fact(9))
        assert not (await again.check()).ok
        await again.repair()
        assert (await again.check()).ok
        assert {entry.action for entry in await journal(again)} == {JournalAction.WRITE, JournalAction.MAINTENANCE}
        await again.close()


async def test_an_interrupted_erasure_leaves_the_space_unchanged_or_gone(files: FileServer, clock: FrozenClock) -> None:
    async with served(files, clock) as store:
        await put(store, fact(1))
        await put(store, fact(2))
        files.faults = [Fault("file_write", "INTERNAL_ERROR", path_part="/ready")]
        with pytest.raises(StoreUnavailable):
            await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert len(await documents(store)) == 2
        files.faults = [Fault("file_delete", "INTERNAL_ERROR", path_part="/spaces/")]
        with pytest.raises(StoreUnavailable):
            await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert [found.ref for found in await documents(store)] == [fact(2)]
        files.faults = [Fault("file_delete", "INTERNAL_ERROR", path_part="/spaces/")]
        with pytest.raises(StoreUnavailable):
            await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert await spaces(store) == set()
        assert await put(store, fact(3)) == CommitReceipt(1, 1)
        assert len({shard.parent for shard in shards(files)}) == 1
