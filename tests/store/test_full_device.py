"""A full device: stored content can be read, even by those who open the store then."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, driver_error, failing, look

from elytron_conformance.examples import fact, one, put
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import StoreBusy, StoreFailed, StoreForeign, StoreFull, StoreUnavailable
from elytron_core.ports.store import CommitReceipt, Document
from elytron_store.file import FileStore
from elytron_store.manifest import read_manifest
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import WAL_SAFE_FROM, SqliteLibrary, sqlite_library

pytestmark = pytest.mark.anyio

WITH_WAL = SqliteLibrary(module=sqlite_library().module, version=WAL_SAFE_FROM)
"""The usual library, treated as one that may share a WAL."""
LATER = FrozenClock(Instant(CLOCK.now() + 1_000))


@contextmanager
def files_up_to(size: int) -> Generator[None]:
    """Limit files to `size` bytes, as if the device ended there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_sqlite_store_is_read_and_written_where_its_index_cannot_be_shared(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
    await put(store, fact(1), b"kept")
    await store.close()
    with files_up_to(16_384):
        alone = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
        assert await one(alone, fact(1)) == Document(fact(1), 1, b"kept")
        with pytest.raises(StoreBusy):
            await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL, busy_wait_s=0.01)
    assert await put(alone, fact(2)) == CommitReceipt(2, 2)
    await alone.close()
    again = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
    assert await put(again, fact(3)) == CommitReceipt(3, 3)
    assert (await again.check()).ok
    await again.close()


async def test_a_sqlite_store_opens_where_its_opening_time_cannot_be_recorded(tmp_path: Path) -> None:
    path, device = tmp_path / "m.db", failing()
    store = await SqliteStore.open(path, clock=CLOCK, library=device)
    await put(store, fact(1), b"kept")
    await store.close()
    device.trouble.at["COMMIT"] = driver_error(13)
    store = await SqliteStore.open(path, clock=LATER, library=device)
    assert await one(store, fact(1)) == Document(fact(1), 1, b"kept")
    with pytest.raises(StoreFull):
        await put(store, fact(2))
    device.trouble.at.clear()
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    await store.close()
    assert read_manifest(look(path, "SELECT body FROM manifest")[0][0]).opened_at == CLOCK.now()


async def test_a_sqlite_store_on_a_failing_device_is_not_opened(tmp_path: Path) -> None:
    path, device = tmp_path / "m.db", failing()
    await (await SqliteStore.open(path, clock=CLOCK, library=device)).close()
    device.trouble.at["COMMIT"] = driver_error(10)
    with pytest.raises(StoreFailed):
        await SqliteStore.open(path, clock=LATER, library=device)


async def test_mismatches_are_reported_on_a_full_device_too(tmp_path: Path) -> None:
    path, device = tmp_path / "m.db", failing()
    await (await SqliteStore.open(path, clock=CLOCK, library=device)).close()
    device.trouble.at["COMMIT"] = driver_error(13)
    with pytest.raises(StoreForeign):
        await SqliteStore.open(path, clock=CLOCK, library=device, sealed=True)


@pytest.mark.parametrize(("code", "error"), [(13, StoreFull), (10, StoreFailed)])
async def test_creating_a_sqlite_store_needs_room(tmp_path: Path, code: int, error: type[Exception]) -> None:
    device = failing()
    device.trouble.at["COMMIT"] = driver_error(code)
    with pytest.raises(error):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)


async def test_a_file_store_opens_where_its_opening_time_cannot_be_recorded(tmp_path: Path) -> None:
    store = await FileStore.open(tmp_path / "store", clock=CLOCK)
    await put(store, fact(1), b"kept")
    await store.close()
    manifest = (tmp_path / "store" / "manifest.json").read_bytes()
    with files_up_to(16):
        store = await FileStore.open(tmp_path / "store", clock=LATER)
        assert await one(store, fact(1)) == Document(fact(1), 1, b"kept")
        with pytest.raises(StoreFull):
            await put(store, fact(2))
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    await store.close()
    assert (tmp_path / "store" / "manifest.json").read_bytes() == manifest


async def test_creating_a_file_store_needs_room(tmp_path: Path) -> None:
    with files_up_to(16), pytest.raises(StoreUnavailable):
        await FileStore.open(tmp_path / "store", clock=CLOCK)
