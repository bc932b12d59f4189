"""A store is built next to its target, and appears there completely or not at all."""

import errno
import os
from pathlib import Path

import pytest

from elytron_core.errors import InvalidInput, StoreFailed, StoreUnavailable
from elytron_store.backup import is_free, staged_store

pytestmark = pytest.mark.anyio

FILE, FOLDER = "m.db", "m"


def make(place: Path, name: str) -> None:
    """Write a stand-in for a store."""
    if name == FOLDER:
        place.mkdir()
        place /= "log"
    place.write_bytes(b"whole")


def content(place: Path) -> bytes:
    return (place / "log" if place.is_dir() else place).read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", [FILE, FOLDER])
async def test_the_target_appears_only_when_complete(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    async with staged_store(target) as stage:
        make(stage.path, name)
        assert not target.exists()
        await stage.place()
    assert (content(target), names(tmp_path)) == (b"whole", [name])


async def test_an_unpublished_copy_is_removed(tmp_path: Path) -> None:
    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
    assert names(tmp_path) == []


@pytest.mark.parametrize("left", [FILE, FOLDER])
async def test_remains_of_a_killed_process_are_removed(tmp_path: Path, left: str) -> None:
    beside = tmp_path / f".{FILE}.partial"
    beside.mkdir()
    make(beside / "store", left)
    (beside / "lock").touch()
    async with staged_store(tmp_path / FILE) as stage:
        assert not stage.path.exists()
        make(stage.path, FILE)
        await stage.place()
    assert names(tmp_path) == [FILE]


async def test_one_process_at_a_time_creates_a_store_for_a_target(tmp_path: Path) -> None:
    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
        with pytest.raises(StoreUnavailable, match="being created by another process"):
            async with staged_store(tmp_path / FILE):
                pass
        async with staged_store(tmp_path / FOLDER) as other:
            make(other.path, FOLDER)
            await other.place()
        await stage.place()
    assert names(tmp_path) == [FOLDER, FILE]


@pytest.mark.parametrize("name", [FILE, FOLDER])
async def test_a_target_created_concurrently_is_kept(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    async with staged_store(target) as stage:
        make(stage.path, name)
        make(target, name)
        (target / "log" if name == FOLDER else target).write_bytes(b"another's")
        with pytest.raises(InvalidInput, match="already exists"):
            await stage.place()
    assert (content(target), names(tmp_path)) == (b"another's", [name])


async def test_an_empty_folder_is_a_valid_target(tmp_path: Path) -> None:
    target = tmp_path / FOLDER
    target.mkdir()
    assert is_free(target)
    async with staged_store(target) as stage:
        make(stage.path, FOLDER)
        await stage.place()
    assert content(target) == b"whole"
    assert not is_free(target)


async def test_a_file_system_without_hard_links_is_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, _target: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
        await stage.place()
    assert (content(tmp_path / FILE), names(tmp_path)) == (b"whole", [FILE])


async def test_an_unwritable_target_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, "read-only")

    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(Path, "rename", refuse)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await stage.place()
    assert names(tmp_path) == []


def test_a_dangling_symlink_is_not_a_free_target(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert not is_free(tmp_path / FILE)


async def test_a_database_with_companion_files_is_not_complete(tmp_path: Path) -> None:
    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
        stage.path.with_name("store-wal").write_bytes(b"not in the database yet")
        with pytest.raises(StoreFailed):
            await stage.place()
    assert names(tmp_path) == []


async def test_an_inaccessible_database_is_not_considered_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "store-wal":
            raise OSError(errno.EACCES, "not for you")
        return looked(path, follow_symlinks=follow_symlinks)

    async with staged_store(tmp_path / FILE) as stage:
        make(stage.path, FILE)
        monkeypatch.setattr(Path, "stat", refuse)
        with pytest.raises(StoreUnavailable, match="not for you"):
            await stage.place()
        monkeypatch.undo()
    assert names(tmp_path) == []


async def test_an_impossible_target_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    for place in (tmp_path / "none" / FILE, tmp_path / FILE / "below"):
        with pytest.raises(StoreUnavailable, match="cannot write"):
            async with staged_store(place):
                pass


def test_an_inaccessible_target_is_reported(tmp_path: Path) -> None:
    (tmp_path / FOLDER).symlink_to(tmp_path / FOLDER)
    with pytest.raises(StoreUnavailable, match="cannot read"):
        is_free(tmp_path / FOLDER)
