"""A read-only file: its content is read, writes report it, and nothing is left next to it."""

import errno
import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.store.sqlite_rig import CLOCK

import elytron
from elytron_conformance.examples import ADA, documents, fact, put
from elytron_core.errors import StoreForeign, StoreReadOnly, StoreUnavailable
from elytron_core.ports.store import ErasureTarget
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import sqlite_library
from elytron_store.sqlite.schema import STEPS
from elytron_store.sqlite.setup import copy_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a location for a store."""
    return tmp_path / "m.db"


def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the system report that this user cannot write files, as administrators always can."""

    def access(_path: Path, mode: int, /, **_kind: bool) -> bool:
        return mode != os.W_OK

    monkeypatch.setattr(os, "access", access)


def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the system report read-only media."""

    def statvfs(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(f_flag=os.ST_RDONLY)

    unwritable(monkeypatch)
    monkeypatch.setattr(os, "statvfs", statvfs)


async def make(path: Path) -> None:
    store = await SqliteStore.open(path, clock=CLOCK)
    await put(store, fact(1))
    await store.close()


async def test_a_store_on_a_read_only_medium_is_read_and_not_changed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(place)
    still(monkeypatch)
    store = await SqliteStore.open(place, clock=CLOCK)
    assert [document.ref for document in await documents(store)] == [fact(1)]
    assert (await store.check()).ok
    for change in (
        lambda: put(store, fact(2)),
        lambda: store.erase(ErasureTarget(space=ADA, at=CLOCK.now())),
        store.repair,
    ):
        with pytest.raises(StoreReadOnly, match="read-only here"):
            await change()
    await store.close()
    assert [file.name for file in place.parent.iterdir()] == ["m.db"]


async def test_a_read_only_store_can_be_copied_to_a_writable_place(
    place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(place)
    target = tmp_path_factory.mktemp("copy") / "m.db"
    with monkeypatch.context() as here:
        still(here)
        copy_database(place, target)
    store = await SqliteStore.open(target, clock=CLOCK)
    assert [document.ref for document in await documents(store)] == [fact(1)]
    await store.close()


async def test_a_runtime_recalls_from_a_read_only_store_and_closes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with elytron.open(place, space="ada") as memory:
        await memory.add("Ada likes tea.")
    still(monkeypatch)
    async with elytron.open(place, space="ada") as memory:
        assert [hit.text for hit in (await memory.recall("tea")).hits] == ["Ada likes tea."]
        with pytest.raises(StoreReadOnly):
            await memory.add("Ada likes milk.")


async def test_a_reader_without_write_access_sees_the_owners_writes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await SqliteStore.open(place, clock=CLOCK)
    with monkeypatch.context() as meanwhile:
        unwritable(meanwhile)
        reader = await SqliteStore.open(place, clock=CLOCK)
        await put(owner, fact(1))
        assert [document.ref for document in await documents(reader)] == [fact(1)]
        await reader.close()
    await owner.close()


async def test_a_file_whose_writers_are_invisible_is_refused_and_left_unchanged(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(place)
    unwritable(monkeypatch)
    with pytest.raises(StoreUnavailable, match="copy it, or have its owner open it"):
        await SqliteStore.open(place, clock=CLOCK)
    assert [file.name for file in place.parent.iterdir()] == ["m.db"]


async def test_a_mismatching_store_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(place)
    still(monkeypatch)
    with pytest.raises(StoreUnavailable, match="older"):
        await SqliteStore.open(place, clock=CLOCK, steps=(*STEPS, lambda _raw: None))
    with pytest.raises(StoreForeign, match="not sealed"):
        await SqliteStore.open(place, clock=CLOCK, sealed=True)
    place.rename(place.with_name("elsewhere"))
    with closing(sqlite_library().connect(str(place.with_name("elsewhere")), wait_s=0.0)) as raw:
        raw.execute("DELETE FROM manifest")
    place.with_name("elsewhere").rename(place)
    with pytest.raises(StoreForeign, match="manifest"):
        await SqliteStore.open(place, clock=CLOCK)


@pytest.mark.parametrize(("content", "error"), [(b"", StoreReadOnly), (b"x" * 4_096, StoreForeign)])
async def test_a_file_that_is_not_a_store_is_rejected(
    place: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, error: type[Exception]
) -> None:
    place.write_bytes(content)
    still(monkeypatch)
    with pytest.raises(error):
        await SqliteStore.open(place, clock=CLOCK)


async def test_without_media_information_no_medium_counts_as_read_only(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(place)
    unwritable(monkeypatch)
    monkeypatch.delattr(os, "statvfs")
    with pytest.raises(StoreUnavailable, match="copy it"):
        await SqliteStore.open(place, clock=CLOCK)


async def test_an_unreadable_file_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(place)
    unwritable(monkeypatch)

    def refuse(_path: Path, _mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StoreUnavailable, match="cannot be read: Permission denied"):
        await SqliteStore.open(place, clock=CLOCK)
