"""What a move, a folder sync, and a store copy write to the device before they return."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK

from elytron_conformance.examples import ADA, AT, fact, put, write_blob
from elytron_core.errors import StoreForeign
from elytron_core.ports.store import ErasureTarget
from elytron_store.file import FileStore, disk
from elytron_store.file.disk import StorePaths, folder_name
from elytron_store.private_files import sync_path
from elytron_store.sqlite.driver import sqlite_library
from elytron_store.sqlite.setup import copy_database
from elytron_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the device and inode of each file or folder that was synced, in order."""
    found: list[tuple[int, int]] = []

    def recording(sync: Callable[[int], None]) -> Callable[[int], None]:
        def record(handle: int, /) -> None:
            status = os.fstat(handle)
            found.append((status.st_dev, status.st_ino))
            sync(handle)

        return record

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, recording(getattr(os, name)))
    return found


def identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file or folder."""
    status = path.stat()
    return status.st_dev, status.st_ino


def test_a_move_syncs_both_folders_once_each(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    (source / "a").write_bytes(b"new")
    (target / "a").write_bytes(b"old")
    disk.move_durably(source / "a", target / "a")
    assert (target / "a").read_bytes() == b"new"
    assert synced == [identity(target), identity(source)]
    synced.clear()
    disk.move_durably(target / "a", target / "b")
    assert synced == [identity(target)]


def test_moving_a_missing_file_fails_immediately(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.move_durably(tmp_path / "a", tmp_path / "b")


def test_a_sync_leaves_no_handle_open(tmp_path: Path) -> None:
    free = os.dup(0)
    os.close(free)  # the lowest free number, which the next handle gets
    sync_path(tmp_path)
    again = os.dup(0)
    os.close(again)
    assert again == free


async def test_a_copy_is_synced_and_readable_only_by_its_owner(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await store.close()
    synced.clear()
    copy_database(tmp_path / "m.db", tmp_path / "copy.db")
    assert synced[-1] == identity(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


async def test_a_copy_replaces_no_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await store.close()
    (tmp_path / "copy.db").write_bytes(b"")
    with pytest.raises(FileExistsError):
        copy_database(tmp_path / "m.db", tmp_path / "copy.db")


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_file_without_a_store_or_without_its_manifest_is_not_copied(tmp_path: Path, is_made: bool) -> None:
    place = tmp_path / "m.db"
    if is_made:
        store = await SqliteStore.open(place, clock=CLOCK)
        await store.close()
        with closing(sqlite_library().connect(str(place), wait_s=0.0)) as raw:
            raw.execute("DELETE FROM manifest")
    else:
        place.write_bytes(b"")
    with pytest.raises(StoreForeign, match="manifest" if is_made else "no store yet"):
        copy_database(place, tmp_path / "copy.db")


async def test_a_blob_and_its_name_are_synced_before_it_is_acknowledged(
    tmp_path: Path, synced: list[tuple[int, int]]
) -> None:
    store = await FileStore.open(tmp_path / "m", clock=CLOCK)
    await put(store, fact(1))
    synced.clear()
    await write_blob(store, "aa", b"blob")
    paths = StorePaths(tmp_path / "m")
    blob = paths.blob_of(folder_name(ADA), "aa")
    assert synced.index(identity(blob)) < synced.index(identity(blob.parent))
    await store.close()


async def test_a_space_is_recorded_and_synced_before_its_first_commit_is_acknowledged(
    tmp_path: Path, synced: list[tuple[int, int]]
) -> None:
    store = await FileStore.open(tmp_path / "m", clock=CLOCK)
    synced.clear()
    await put(store, fact(1))
    paths = StorePaths(tmp_path / "m")
    log, record = paths.log_of(folder_name(ADA)), paths.record_of(folder_name(ADA))
    order = [identity(log), identity(log.parent), identity(record.parent)]
    assert sorted(order, key=lambda place: len(synced) - 1 - synced[::-1].index(place)) == order
    synced.clear()
    await put(store, fact(2))
    assert synced == [identity(log)]
    await store.close()


async def test_space_records_are_written_and_removed_durably(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    paths = StorePaths(tmp_path / "m")
    store = await FileStore.open(tmp_path / "m", clock=CLOCK)
    await put(store, fact(1))
    await store.close()
    paths.record_of(folder_name(ADA)).unlink()
    synced.clear()
    store = await FileStore.open(tmp_path / "m", clock=CLOCK)
    assert identity(paths.records) in synced
    synced.clear()
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert synced.index(identity(paths.records)) < synced.index(identity(paths.spaces))
    await store.close()
