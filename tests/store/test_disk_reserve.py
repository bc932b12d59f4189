"""A small device: what fits on it, and what can still be forgotten and erased when it is full."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import pytest
from tests.store.sqlite_rig import CLOCK, look
from tests.store.test_full_device import WITH_WAL, files_up_to

import elytron
from elytron.runtime import MemoryRuntime
from elytron_conformance.examples import ADA, AT, fact, one, put, write_blob
from elytron_core.errors import StoreBusy, StoreFull, StoreUrlInvalid
from elytron_core.ports.store import Document, ErasureTarget
from elytron_store.disk_reserve import DeviceBounds, DeviceReserve, free_bytes
from elytron_store.sqlite import SqliteStore
from elytron_store.store_urls import parse_url

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
STORES = {"sqlite": "sqlite://{}/m.db", "file": "file://{}/store"}


@contextmanager
def device(folder: Path, mib: int) -> Generator[Path]:
    """Mount an in-memory device of `mib` MiB, where permitted; otherwise skip the test."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no device can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Generator[Path]:
    """A device of 4 MiB."""
    with device(tmp_path / "device", 4) as folder:
        yield folder


async def filled(memory: MemoryRuntime, *, first: int = 0) -> list[str]:
    """Add turns of 2,000 characters until the device is full; return the ids of their messages.

    Each contains the word `canary` with its number, and the first one contains `first`.
    """
    chance = random.Random(52 + first)
    ids: list[str] = []
    try:
        while True:
            text = " ".join([f"canary{first + len(ids)}y", *(f"w{chance.randrange(4_000)}x" for _ in range(340))])
            ids += (await memory.add(text[:2_000], speaker="Ada", conversation="c")).ids
    except StoreFull:
        return ids


class FullStore(NamedTuple):
    """A copy of the files of a store that filled its device, and the ids of its messages."""

    folder: Path
    ids: list[str]

    @asynccontextmanager
    async def opened_on(self, device: Path, url: str, /) -> AsyncGenerator[tuple[MemoryRuntime, list[str]]]:
        """Open a store with these files on another device, and fill it up; yield the ids of all messages."""
        shutil.copytree(self.folder, device, dirs_exist_ok=True)
        async with elytron.open(url.format(device), space="ada") as memory:
            yield memory, [*self.ids, *await filled(memory, first=len(self.ids))]


@pytest.fixture(scope="module")
def full_stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FullStore]:
    """Fill a device of 4 MiB with a store of each engine, turn by turn, which takes most of a test's time."""
    folder = tmp_path_factory.mktemp("full")

    async def fill(url: str) -> list[str]:
        async with elytron.open(url, space="ada") as memory:
            return await filled(memory)

    stores: dict[str, FullStore] = {}
    for engine, url in STORES.items():
        with device(folder / f"{engine}-device", 4) as small:
            ids = asyncio.run(fill(url.format(small)))
            shutil.copytree(small, folder / engine)
        stores[engine] = FullStore(folder / engine, ids)
    return stores


async def put_until_full(store: SqliteStore, count: int) -> None:
    """Put `count` documents of 8,000 bytes, as long as there is room."""
    for number in range(1, count + 1):
        await put(store, fact(number), os.urandom(8_000))


def contents(folder: Path) -> bytes:
    """Return the bytes of all files below `folder`."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize(("engine", "turns"), [("sqlite", 400), ("file", 650)])
async def test_a_memory_is_erased_without_a_byte_left_on_a_full_device(
    small: Path, full_stores: dict[str, FullStore], engine: str, turns: int
) -> None:
    url = STORES[engine].format(small)
    async with full_stores[engine].opened_on(small, url) as (memory, ids):
        assert len(full_stores[engine].ids) >= turns
        assert (await memory.erase([ids[3]])).changed
        assert b"canary3y" not in contents(small)
    async with elytron.open(url, space="ada") as memory:
        assert (await memory.erase([ids[5]])).changed
        assert b"canary5y" not in contents(small)
        assert b"canary7y" in contents(small)
        assert (await memory.recall("canary7y")).hits[0].id == ids[7]
        assert (await memory.store.check()).ok


@pytest.mark.parametrize("engine", STORES)
async def test_a_full_device_allows_repeated_erasures_while_being_refilled(
    small: Path, full_stores: dict[str, FullStore], engine: str
) -> None:
    async with full_stores[engine].opened_on(small, STORES[engine]) as (memory, first_ids):
        ids = first_ids
        for number in range(25):
            assert (await memory.erase([ids.pop(3)])).changed
            if number % 2:
                ids += await filled(memory)
        assert (await memory.store.check()).ok


async def test_an_erasure_that_lacked_room_succeeds_later(small: Path) -> None:
    path = small / "m.db"
    async with elytron.open(STORES["sqlite"].format(small), space="ada") as memory:
        ids = await filled(memory)
        reserve = path.with_name("m.db-reserve")
        reserve_bytes = reserve.stat().st_size
        # Another program uses all of the reserve but what removing the rows needs.
        reserve.unlink()
        other = small / "other"
        other.write_bytes(bytes(reserve_bytes - 256 * 1024))
        with pytest.raises(StoreFull, match="free space on the device and retry"):
            await memory.erase([ids[3]])
        # Rolled-back data does not fill the log, so it can be moved into the file.
        assert path.with_name("m.db-wal").stat().st_size == 0
    other.unlink()
    async with elytron.open(STORES["sqlite"].format(small), space="ada") as memory:
        assert b"canary3y" not in contents(small)
        assert (await memory.erase([ids[5]])).changed


async def test_a_whole_space_is_erased_with_less_room_than_its_pages(
    small: Path, full_stores: dict[str, FullStore]
) -> None:
    path = small / "m.db"
    async with full_stores["sqlite"].opened_on(small, STORES["sqlite"]) as (memory, _):
        reserve = path.with_name("m.db-reserve")
        reserve_bytes = reserve.stat().st_size
        # Another program uses most of the reserve.
        reserve.unlink()
        (small / "other").write_bytes(bytes(reserve_bytes - 256 * 1024))
        await memory.erase(whole_space="ada")
        assert b"canary" not in contents(small)
        assert path.stat().st_size < 256 * 1024


async def test_a_log_full_of_rolled_back_data_is_truncated_at_opening(
    small: Path, full_stores: dict[str, FullStore]
) -> None:
    path = small / "m.db"
    async with full_stores["sqlite"].opened_on(small, STORES["sqlite"]) as (_, ids):
        pass
    with closing(WITH_WAL.connect(str(path), wait_s=0.0)) as raw:
        raw.execute("INSERT OR REPLACE INTO manifest VALUES ('remains', x'00')")
        path.with_name("m.db-reserve").unlink()
        raw.execute("PRAGMA cache_size = 10")
        raw.execute("BEGIN")
        with pytest.raises(WITH_WAL.module.OperationalError):
            raw.execute("INSERT INTO manifest VALUES ('more', zeroblob(4000000))")
        wal = path.with_name("m.db-wal").read_bytes()
        assert free_bytes(small) == 0
        file = path.read_bytes()
    path.write_bytes(file)
    path.with_name("m.db-wal").write_bytes(wal)
    async with elytron.open(STORES["sqlite"].format(small), space="ada") as memory:
        assert path.with_name("m.db-wal").stat().st_size < MIB
        assert (await memory.erase([ids[5]])).changed


@pytest.mark.parametrize("engine", STORES)
async def test_a_full_device_accepts_a_forget_and_after_an_erasure_a_turn(
    small: Path, full_stores: dict[str, FullStore], engine: str
) -> None:
    async with full_stores[engine].opened_on(small, STORES[engine]) as (memory, ids):
        assert (await memory.forget([ids[1]])).changed
        with pytest.raises(StoreFull):
            await memory.add("One turn more. " * 9_000)
        for start in range(2, 80, 8):
            await memory.erase(ids[start : start + 8])
        assert (await memory.add("One short turn more.")).changed


@pytest.mark.parametrize("engine", STORES)
async def test_a_device_without_a_reserve_stores_more_but_cannot_erase_when_full(small: Path, engine: str) -> None:
    async with elytron.open(f"{STORES[engine].format(small)}?reserve_bytes=0", space="ada") as memory:
        ids = await filled(memory)
        assert len(ids) >= 700
        with pytest.raises(StoreFull):
            await memory.erase([ids[3]])


@pytest.mark.parametrize("engine", STORES)
async def test_the_reserve_of_an_enlarged_device_is_released(
    small: Path, full_stores: dict[str, FullStore], engine: str
) -> None:
    async with full_stores[engine].opened_on(small, STORES[engine]) as (memory, _):
        assert [path.name for path in small.rglob("*reserve")]
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        await memory.add("There is room again.")
        assert not [path.name for path in small.rglob("*reserve")]


async def test_ordinary_writes_of_other_handles_respect_the_reserve(
    small: Path, full_stores: dict[str, FullStore]
) -> None:
    url = STORES["file"].format(small)
    async with full_stores["file"].opened_on(small, url) as (_, ids):
        pass
    async with elytron.open(url, space="ben") as other:
        await filled(other)
    async with elytron.open(url, space="ada") as memory:
        assert (await memory.erase([ids[0]])).changed


async def test_a_log_grown_during_a_long_read_shrinks_afterwards(small: Path) -> None:
    path = small / "m.db"
    store = await SqliteStore.open(
        path, clock=CLOCK, library=WITH_WAL, bounds=DeviceBounds(wal_bytes=MIB), busy_wait_s=0.05
    )
    await put(store, fact(0), b"first")
    with closing(WITH_WAL.connect(str(path), wait_s=0.0)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM documents").fetchall()
        with pytest.raises(StoreFull):
            await put_until_full(store, 1_000)
        with pytest.raises(StoreBusy):
            await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(0),)))
    wal = path.with_name("m.db-wal")
    assert wal.stat().st_size > MIB
    # The first write moves the log's content into the file, and the second restarts the log.
    await put(store, fact(5_000), b"behind the reader")
    await put(store, fact(5_001), b"and another")
    assert wal.stat().st_size < MIB
    assert await one(store, fact(5_000)) == Document(fact(5_000), 1, b"behind the reader")
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    await store.close()


async def test_a_sqlite_file_at_the_file_size_limit_is_full_and_writable_after_raising_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
    with files_up_to(256 * 1024), pytest.raises(StoreFull):
        await put_until_full(store, 100)
    assert (await put(store, fact(500), b"behind the limit")).last
    assert (await store.check()).ok
    await store.close()
    assert not list(tmp_path.glob("*-trial"))


async def test_a_sqlite_store_at_the_file_size_limit_is_opened_and_read(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
    await put_until_full(store, 50)
    await store.close()
    with files_up_to(64 * 1024):
        store = await SqliteStore.open(path, clock=CLOCK, library=WITH_WAL)
        assert await one(store, fact(1)) is not None
        with pytest.raises(StoreFull):
            await put(store, fact(500), os.urandom(80_000))
        await store.close()


def test_a_device_with_ample_room_needs_no_reserve_file(tmp_path: Path) -> None:
    reserve = DeviceReserve(tmp_path / "reserve", most=4_096, engine="file")
    reserve.hold_largest(1_000_000)
    assert list(tmp_path.iterdir()) == []


def test_an_erasure_waits_for_readers_of_just_replaced_files(small: Path) -> None:
    replaced = (small / "replaced").open("wb", buffering=0)
    replaced.write(bytes(2 * MIB))
    (small / "replaced").unlink()
    attempts = 0
    is_tried = Event()

    def end_reading() -> None:
        is_tried.wait()
        replaced.close()

    def write() -> int:
        nonlocal attempts
        attempts += 1
        try:
            return (small / "fresh").write_bytes(bytes(3 * MIB))
        finally:
            (small / "fresh").unlink()
            if attempts == 2:
                is_tried.set()

    reader = Thread(target=end_reading)
    reader.start()
    # Data of the second attempt is off the device before the reader ends.
    assert DeviceReserve(small / "reserve", most=MIB, engine="file").use(write) == 3 * MIB
    reader.join()
    assert attempts == 3


def test_the_limit_of_a_log_follows_the_free_room_of_its_device() -> None:
    bounds = DeviceBounds()
    assert [bounds.wal_limit(size) // 1_024 for size in (MIB, 4 * MIB, 64 * MIB, 1_024 * MIB)] == [
        64,
        128,
        2_048,
        16_384,
    ]


def test_a_stores_url_limits_its_use_of_the_device() -> None:
    address = parse_url("sqlite:///m.db?reserve_bytes=0&wal_bytes=65536")
    assert address.bounds == DeviceBounds(wal_bytes=65_536, reserve_bytes=0)
    assert parse_url(address.url_at(Path("/other.db"))).bounds == address.bounds
    assert parse_url("file:///folder?reserve_bytes=7").bounds == DeviceBounds(reserve_bytes=7)


@pytest.mark.parametrize(
    "query", ["wal_bytes=1", "reserve_bytes=", "reserve_bytes=1&reserve_bytes=1", "reserve_bytes=-1", "mode=ro"]
)
def test_unknown_and_non_numeric_limits_are_rejected(query: str) -> None:
    with pytest.raises(StoreUrlInvalid):
        parse_url(f"file:///folder?{query}")


def test_a_stores_url_needs_a_scheme_for_options_and_room_for_a_log() -> None:
    with pytest.raises(StoreUrlInvalid, match=r"write sqlite: before it, as in sqlite:m\.db\?reserve_bytes=0"):
        parse_url("m.db?reserve_bytes=0")
    with pytest.raises(StoreUrlInvalid, match="at least 65536 bytes"):
        parse_url("sqlite:m.db?wal_bytes=10")


def test_the_free_room_of_a_missing_folder_is_unknown(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "none") is None


@pytest.mark.parametrize("engine", STORES)
async def test_on_a_full_device_a_group_is_refused_except_retractions(
    small: Path, full_stores: dict[str, FullStore], engine: str
) -> None:
    async with full_stores[engine].opened_on(small, STORES[engine]) as (memory, ids):
        added, forgotten = await asyncio.gather(
            memory.add("One turn more. " * 900), memory.forget([ids[1]]), return_exceptions=True
        )
        assert isinstance(added, StoreFull)
        assert not isinstance(forgotten, BaseException)
        assert forgotten.changed


async def test_a_staged_blob_is_removed_from_a_device_it_filled(small: Path) -> None:
    store = await SqliteStore.open(small / "m.db", clock=CLOCK, library=WITH_WAL)
    with pytest.raises(StoreFull):
        await write_blob(store, "aa", os.urandom(6 * MIB))
    assert look(small / "m.db", "SELECT (SELECT count(*) FROM uploads) + (SELECT count(*) FROM chunks)") == [(0,)]
    await store.close()
