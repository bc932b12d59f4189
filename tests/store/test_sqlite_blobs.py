"""Blobs of the SQLite engine: staged in chunks, read individually, rolled back if unfinished."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, look

from elytron_conformance.examples import ADA, AT, blob, source, write_blob
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import ElytronError, NotFound, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import ErasureTarget
from elytron_store import limits as store_limits
from elytron_store.engine import WriteDurability
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.blobs import WINDOW_PARTS, WINDOWS_AHEAD

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    yield store
    await store.close()


@pytest.mark.parametrize("durability", WriteDurability)
async def test_a_blob_of_many_chunks_is_staged_and_then_published(tmp_path: Path, durability: WriteDurability) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, durability=durability)
    body = os.urandom(1024) * (limits.BLOB_CHUNK_BYTES * (WINDOW_PARTS * (1 + WINDOWS_AHEAD) + 2) // 1024) + b"end"
    assert await write_blob(store, "aa", body) == len(body)
    assert await blob(store, "aa") == body
    with pytest.raises(NotFound):
        await blob(store, "ab")
    reading = store.read_blob(ADA, "aa")
    assert await anext(reading) == body[: limits.BLOB_CHUNK_BYTES]
    await write_blob(store, "aa", b"new")
    with pytest.raises(StoreUnavailable, match="replaced"):
        _ = [chunk async for chunk in reading]
    assert look(tmp_path / "m.db", "SELECT (SELECT count(*) FROM uploads), count(*) FROM chunks") == [(0, 1)]
    await store.close()


def bytes_read() -> int:
    """Return how much this process has read from files; 0 where the system does not report it."""
    return int(Path("/proc/self/io").read_text().split()[1]) if sys.platform == "linux" else 0


async def test_a_blob_is_read_without_those_of_other_spaces(tmp_path: Path) -> None:
    spaces, size = 32, limits.BLOB_CHUNK_BYTES
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    for number in range(spaces):
        await write_blob(store, "aa", os.urandom(size), space=SpaceId(f"s{number}"))
    await store.close()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    before = bytes_read()
    assert len(await blob(store, "aa", space=SpaceId("s7"))) == size
    assert bytes_read() - before < 2 * size
    await store.close()


async def test_an_upload_that_fails_late_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield bytes(limits.BLOB_CHUNK_BYTES * (WINDOW_PARTS + 1))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        await store.write_blob(ADA, "aa", breaking())
    assert look(tmp_path / "m.db", "SELECT (SELECT count(*) FROM uploads), count(*) FROM chunks") == [(0, 0)]


async def test_an_erasure_removes_an_upload_in_progress(store: SqliteStore) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield bytes(limits.BLOB_CHUNK_BYTES * WINDOW_PARTS)
        await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))
        yield b"end"

    with pytest.raises(StoreUnavailable, match="was erased"):
        await store.write_blob(ADA, "aa", slow())
    with pytest.raises(NotFound):
        await blob(store, "aa")


async def test_an_abandoned_upload_is_removed_at_a_later_opening(tmp_path: Path) -> None:
    clock = FrozenClock()
    store = await SqliteStore.open(tmp_path / "m.db", clock=clock)
    await write_blob(store, "aa", b"kept")
    look(tmp_path / "m.db", "INSERT INTO uploads VALUES ('ada', 7, 'ab', ?) RETURNING 1", clock.now())
    look(tmp_path / "m.db", "INSERT INTO chunks VALUES ('ada', 7, 0, x'', x'', x'') RETURNING 1")
    await store.close()
    for waited, left in ((store_limits.UPLOAD_KEEP_MS, 1), (1, 0)):
        clock.advance(waited)
        again = await SqliteStore.open(tmp_path / "m.db", clock=clock)
        assert await blob(again, "aa") == b"kept"
        await again.close()
        assert look(tmp_path / "m.db", "SELECT count(*) FROM uploads") == [(left,)]
    assert look(tmp_path / "m.db", "SELECT count(*) FROM chunks") == [(1,)]


async def test_an_oversized_blob_is_refused(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOB_BYTES", 10)
    with pytest.raises(ElytronError, match="bytes in a blob"):
        await store.write_blob(ADA, "aa", source([b"12345", b"123456"]))
