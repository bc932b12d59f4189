"""Opening an SQLite store: which files are accepted, which are left alone, and how older ones are migrated."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, OLD, driver_error, failing, look

from elytron_conformance.examples import documents, fact, one, put
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreNewer,
    StoreUnavailable,
    Unsupported,
)
from elytron_core.ports.store import CommitReceipt, Document
from elytron_store.engine import WriteDurability
from elytron_store.manifest import StoreManifest, read_manifest
from elytron_store.sqlite import DriverReport, SqliteStore, driver, driver_report
from elytron_store.sqlite.driver import Raw, SqliteLibrary, sqlite_library
from elytron_store.sqlite.schema import APPLICATION_ID, STEPS

pytestmark = pytest.mark.anyio


async def make(path: Path) -> None:
    """Leave a closed store with one document at `path`."""
    store = await SqliteStore.open(path, clock=CLOCK)
    await put(store, fact(1), b"kept")
    await store.close()


def stamp(raw: Raw) -> None:
    """A step that a later schema might add."""
    raw.execute("CREATE TABLE stamps (space TEXT NOT NULL PRIMARY KEY) STRICT")
    raw.execute("INSERT INTO stamps SELECT space FROM heads")


async def test_a_new_file_is_marked_and_owner_only(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await put(store, fact(1))
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    assert look(tmp_path / "m.db", "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert look(tmp_path / "m.db", "PRAGMA user_version") == [(len(STEPS),)]
    await store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["m.db"]


async def test_the_manifest_keeps_its_creation_time_and_records_each_opening(tmp_path: Path) -> None:
    clock = FrozenClock()
    born = clock.now()
    await (await SqliteStore.open(tmp_path / "m.db", clock=clock, profile="embedded", sealed=True)).close()
    clock.advance(1000)
    await (await SqliteStore.open(tmp_path / "m.db", clock=clock, profile="embedded", sealed=True)).close()
    ((kept,),) = look(tmp_path / "m.db", "SELECT body FROM manifest")
    assert read_manifest(kept) == StoreManifest(
        engine="sqlite", profile="embedded", sealed=True, created_at=born, opened_at=clock.now()
    )


async def test_a_missing_folder_and_a_folder_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist: create it"):
        await SqliteStore.open(tmp_path / "absent" / "m.db", clock=CLOCK)
    with pytest.raises(StoreUnavailable, match="is a folder"):
        await SqliteStore.open(tmp_path, clock=CLOCK)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        await SqliteStore.open(tmp_path / "file" / "m.db", clock=CLOCK)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def connections() -> set[threading.Thread]:
    """Return the threads that serve a connection; the pool has threads of its own."""
    return {thread for thread in threading.enumerate() if "connection" in thread.name}


async def test_a_file_that_cannot_be_opened_is_reported_and_leaves_no_thread(tmp_path: Path) -> None:
    before = connections()
    (tmp_path / "m.db").symlink_to(tmp_path / "absent" / "m.db")
    with pytest.raises(StoreUnavailable, match="check the permissions of the file and its folder"):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    assert connections() <= before


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE notes (text)")


def other_id(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA application_id = 7")


def other_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 1")


def our_id_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA user_version = 1")


def plain_text(path: Path) -> None:
    path.write_text("dear diary\n" * 100)


@pytest.mark.parametrize("spoil", [other_program, other_id, other_version, our_id_alone, plain_text])
async def test_a_foreign_file_is_refused_and_left_unchanged(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / "m.db")
    before = (tmp_path / "m.db").read_bytes()
    with pytest.raises(StoreForeign):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    assert (tmp_path / "m.db").read_bytes() == before


async def test_a_store_without_its_manifest_is_refused(tmp_path: Path) -> None:
    await make(tmp_path / "m.db")
    look(tmp_path / "m.db", "DELETE FROM manifest RETURNING 1")
    with pytest.raises(StoreForeign, match="lost its manifest"):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)


async def test_a_newer_store_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, steps=(*STEPS, stamp))
    await store.close()
    before = (tmp_path / "m.db").read_bytes()
    with pytest.raises(StoreNewer) as refused:
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    assert refused.value.found == len(STEPS) + 1
    assert (tmp_path / "m.db").read_bytes() == before


@pytest.mark.parametrize("kept", [0.5, 0.9])
async def test_a_truncated_file_is_refused(tmp_path: Path, kept: float) -> None:
    await make(tmp_path / "m.db")
    size = (tmp_path / "m.db").stat().st_size
    os.truncate(tmp_path / "m.db", int(size * kept))
    with pytest.raises(StoreCorrupt):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)


async def test_an_older_store_is_migrated_and_its_original_kept(tmp_path: Path) -> None:
    await make(tmp_path / "m.db")
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, steps=(*STEPS, stamp))
    assert await one(store, fact(1)) == Document(fact(1), 1, b"kept")
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    await store.close()
    assert look(tmp_path / "m.db", "SELECT space FROM stamps") == [("ada",)]
    kept = tmp_path / f"m.db.schema-{len(STEPS)}.bak"
    assert kept.stat().st_mode & 0o777 == 0o600
    before = await SqliteStore.open(kept, clock=CLOCK)
    assert await documents(before) == [Document(fact(1), 1, b"kept")]
    await before.close()


async def test_a_failed_migration_changes_nothing_and_can_be_retried(tmp_path: Path) -> None:
    def fail(raw: Raw) -> None:
        stamp(raw)
        raise driver_error(13)

    await make(tmp_path / "m.db")
    for _ in range(2):
        with pytest.raises(StoreError):
            await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, steps=(*STEPS, fail))
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    assert await documents(store) == [Document(fact(1), 1, b"kept")]
    await store.close()


OPEN = """
import asyncio, sys
from pathlib import Path
from elytron_core.clock import FrozenClock
from elytron_conformance.examples import fact, put
from elytron_store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), clock=FrozenClock())
    await put(store, fact(int(sys.argv[2])))
    await store.close()

asyncio.run(main())
"""


async def test_processes_may_create_one_store_concurrently(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    makers = [
        subprocess.Popen([sys.executable, "-c", OPEN, str(path), str(own)], stderr=subprocess.PIPE) for own in range(2)
    ]
    told = [await asyncio.to_thread(maker.communicate, timeout=100) for maker in makers]
    assert [errors for _, errors in told] == [b""] * 2
    store = await SqliteStore.open(path, clock=CLOCK)
    assert len(await documents(store)) == 2
    await store.close()


async def test_handles_may_create_one_store_concurrently(tmp_path: Path) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(tmp_path / "m.db", clock=CLOCK) for _ in range(4)))
    await asyncio.gather(*(put(store, fact(number)) for number, store in enumerate(stores)))
    assert len(await documents(stores[0])) == 4
    for store in stores:
        await store.close()


async def test_an_opening_waits_for_others_only_for_the_given_time(tmp_path: Path) -> None:
    await make(tmp_path / "m.db")
    with closing(sqlite_library().connect(str(tmp_path / "m.db"), wait_s=0.0)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, busy_wait_s=0.05)
        other.execute("ROLLBACK")


def test_the_report_names_library_journal_and_reason() -> None:
    assert driver_report(SqliteLibrary(module=sqlite3, version=(3, 40, 1))) == DriverReport(
        library="sqlite3",
        version="3.40.1",
        journal_mode="delete",
        reason="SQLite 3.7.0 to 3.51.2 can corrupt a shared WAL; "
        "for the faster journal install pysqlite3 3.51.3 or newer",
    )
    assert driver_report(replace(OLD, version=(3, 51, 3))).journal_mode == "wal"
    assert driver_report().library in {"pysqlite3", "sqlite3"}


def test_a_library_without_strict_tables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    monkeypatch.setitem(sys.modules, "pysqlite3.dbapi2", None)
    sqlite_library.cache_clear()
    with pytest.raises(Unsupported, match=r"3\.37"):
        sqlite_library()
    sqlite_library.cache_clear()


async def test_an_old_library_uses_a_rollback_journal(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=OLD)
    await put(store, fact(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.db"]
    assert look(tmp_path / "m.db", "PRAGMA journal_mode") == [("delete",)]
    await store.close()


@pytest.mark.parametrize(("first", "then"), [(OLD, None), (None, OLD)], ids=["to a WAL", "to a rollback journal"])
async def test_a_store_moves_between_libraries(
    tmp_path: Path, first: SqliteLibrary | None, then: SqliteLibrary | None
) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=first, durability=WriteDurability.NORMAL)
    await put(store, fact(1), b"kept")
    await store.close()
    again = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=then)
    assert await one(again, fact(1)) == Document(fact(1), 1, b"kept")
    await again.close()


async def test_an_old_library_shares_no_wal(tmp_path: Path) -> None:
    new = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await put(new, fact(1))
    with pytest.raises(StoreUnavailable, match="newer SQLite"):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=OLD, busy_wait_s=0.05)
    await new.close()


async def test_an_old_library_stops_writing_when_another_enables_a_wal(tmp_path: Path) -> None:
    old = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=OLD)
    await put(old, fact(1))
    new = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    with pytest.raises(StoreUnavailable, match="WAL"):
        await put(old, fact(2))
    assert await put(new, fact(2)) == CommitReceipt(2, 2)
    await old.close()
    await new.close()


@pytest.mark.parametrize(
    ("code", "key"),
    [
        (5, "store_busy"),
        (6, "store_busy"),
        (10, "store_failed"),
        (11, "store_corrupt"),
        (13, "store_full"),
        (8, "store_unavailable"),
        (26, "store_foreign"),
        (0, "store_corrupt"),
        (1, "store_failed"),
    ],
)
def test_each_driver_error_has_one_meaning(code: int, key: str) -> None:
    assert driver.translate_error(driver_error(code), doing="reading").key == key


async def test_a_device_failure_during_opening_leaves_no_thread(tmp_path: Path) -> None:
    device = failing()
    device.trouble.at["COMMIT"] = driver_error(13)
    with pytest.raises(StoreError):
        await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    device.trouble.at.clear()
    await (await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)).close()
