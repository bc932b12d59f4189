"""Erasure in the file itself: no byte of erased content remains, whatever SQLite did with the rows before."""

import random
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, OLD, look, remains

from elytron_conformance.examples import ADA, AT, BOB, batch, delete, fact, journal, put, spaces, write_blob
from elytron_core.errors import StoreBusy
from elytron_core.ids import SpaceId
from elytron_core.ports.store import BatchKey, DocumentRef, ErasureReceipt, ErasureTarget, PutChange
from elytron_store.sqlite import SqliteStore, setup, writes
from elytron_store.sqlite.driver import FileAccess, Raw, sqlite_library

pytestmark = pytest.mark.anyio

ROUNDS = 8


@pytest.fixture(params=[1 << 40, 0], ids=["in memory", "in the file"])
def rebuilding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_store.sqlite.writes.VACUUM_BYTES", request.param)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, busy_wait_s=0.1)
    yield store
    await store.close()


def canary(number: int, size: int = 1) -> bytes:
    """Return a body made only of copies of its own mark, so that any fragment of it is found."""
    return b"<canary %06d>" % number * size


async def crowd(store: SqliteStore, *, seed: int) -> dict[DocumentRef, int]:
    """Put, replace, and delete documents of many sizes, until SQLite has moved rows; return the live ones."""
    choose = random.Random(seed)
    living: dict[DocumentRef, tuple[int, int]] = {}
    count = 0
    for _ in range(ROUNDS):
        puts: list[PutChange] = []
        for _ in range(40):
            count += 1
            ref = DocumentRef("facts", f"{choose.getrandbits(64):016x}")
            puts.append(PutChange(ref, canary(count, choose.randint(5, 160)), 0))
            living[ref] = (count, 1)
        await store.commit(batch(*puts))
        for ref in choose.sample(sorted(living), 12):
            count += 1
            await put(store, ref, canary(count, choose.randint(5, 160)), expects=living[ref][1])
            living[ref] = (count, living[ref][1] + 1)
        for ref in choose.sample(sorted(living), 12):
            await delete(store, ref, expects=living.pop(ref)[1])
    return {ref: number for ref, (number, _) in living.items()}


async def test_an_erasure_larger_than_one_lookup_removes_every_digest(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "_REFS_AT_ONCE", 2)
    named = [fact(number) for number in range(5)]
    await store.commit(batch(*(PutChange(ref, b"", 0) for ref in named)))
    assert (await store.erase(ErasureTarget(space=ADA, at=AT, refs=tuple(named)))).entries_scrubbed == 5
    assert [kept.digest for kept in await journal(store)] == [""] * 6


@pytest.mark.usefixtures("rebuilding")
async def test_erased_documents_leave_no_byte_and_the_rest_stays(store: SqliteStore, tmp_path: Path) -> None:
    living = await crowd(store, seed=7)
    gone = sorted(living)[::2]
    erased = await store.erase(ErasureTarget(space=ADA, at=AT, refs=tuple(gone)))
    assert erased.documents == len(gone)
    left = {number for ref, number in living.items() if ref not in set(gone)}
    total = ROUNDS * 52 + 1
    assert remains(tmp_path, *(canary(number) for number in range(1, total))) == {canary(number) for number in left}
    assert (await store.check()).ok


async def test_an_erasure_also_removes_replaced_and_deleted_bodies(store: SqliteStore, tmp_path: Path) -> None:
    await put(store, fact(1), canary(1))
    await put(store, fact(1), canary(2), expects=1)
    await put(store, fact(2), canary(3))
    await delete(store, fact(2), expects=1)
    await store.erase(ErasureTarget(space=ADA, at=AT))
    assert remains(tmp_path, canary(1), canary(2), canary(3)) == {canary(2)}


@pytest.mark.usefixtures("rebuilding")
@pytest.mark.parametrize("size", [1, 100, 40_000])
async def test_an_erased_or_replaced_blob_leaves_no_byte(store: SqliteStore, tmp_path: Path, size: int) -> None:
    for number in range(4):
        await write_blob(store, f"{number}", canary(number, size))
    await write_blob(store, "1", canary(9, size))
    await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("0", "2")))
    told = remains(tmp_path, *(canary(number) for number in range(10)))
    assert told == {canary(3), canary(9)}


@pytest.mark.usefixtures("rebuilding")
async def test_an_erased_space_does_not_even_leave_its_name(store: SqliteStore, tmp_path: Path) -> None:
    space = SpaceId("a name that is nobody's business")
    once = BatchKey(key="a telling key", digest="d", answer=canary(2))
    await store.commit(batch(PutChange(fact(1), canary(1), 0), space=space, idempotency=once))
    await write_blob(store, "aa", canary(3, 30_000), space=space)
    await put(store, fact(1), canary(4), space=BOB)
    erased = await store.erase(ErasureTarget(space=space, at=AT, whole_space=True))
    assert erased == ErasureReceipt(documents=1, blobs=1, entries_scrubbed=1, sequence=0)
    needles = (space.encode(), b"a telling key", canary(1), canary(2), canary(3), canary(4))
    assert remains(tmp_path, *needles) == {canary(4)}
    assert await spaces(store) == {BOB}


async def test_a_rollback_journal_keeps_no_erased_bytes_either(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=OLD)
    await put(store, fact(1), canary(1))
    await put(store, fact(2), canary(2))
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert remains(tmp_path, canary(1), canary(2)) == {canary(2)}
    await store.close()


async def test_an_erasure_reports_readers_of_the_old_state(store: SqliteStore, tmp_path: Path) -> None:
    await put(store, fact(1), canary(1))
    with_reader = sqlite_library().connect(str(tmp_path / "m.db"), wait_s=0.0)
    with_reader.execute("BEGIN")
    with_reader.execute("SELECT count(*) FROM documents").fetchall()
    with pytest.raises(StoreBusy):
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    with_reader.close()
    again = await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert again == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=3)
    assert remains(tmp_path, canary(1)) == set()


@pytest.mark.usefixtures("rebuilding")
@pytest.mark.parametrize("whole_space", [False, True])
async def test_the_next_opening_removes_remains_of_an_interrupted_erasure(
    store: SqliteStore, tmp_path: Path, *, whole_space: bool
) -> None:
    living = await crowd(store, seed=5)
    gone = sorted(living) if whole_space else sorted(living)[::2]
    erasure = ErasureTarget(space=ADA, at=AT, refs=() if whole_space else tuple(gone), whole_space=whole_space)
    every = [canary(number) for number in range(1, ROUNDS * 52 + 1)]
    kept = {canary(number) for ref, number in living.items() if ref not in set(gone)}
    access = FileAccess("wal", busy_wait_s=1.0)
    with closing(setup.connect_writer(sqlite_library(), tmp_path / "m.db")) as dying:
        dying.execute("PRAGMA secure_delete = ON")
        writes.erase_rows(dying, access, erasure)
    assert remains(tmp_path, *every) > kept
    await (await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)).close()
    assert remains(tmp_path, *every) == kept
    assert look(tmp_path / "m.db", "SELECT name FROM manifest") == [("store",)]


async def test_a_purge_keeps_the_mark_of_a_later_erasure(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, fact(1), canary(1))
    access, path = FileAccess("wal", busy_wait_s=1.0), tmp_path / "m.db"
    with (
        closing(setup.connect_writer(sqlite_library(), path)) as ours,
        closing(setup.connect_writer(sqlite_library(), path)) as theirs,
    ):
        writes.erase_rows(ours, access, ErasureTarget(space=ADA, at=AT))
        sized = writes.page_bytes

        def meanwhile(raw: Raw) -> int:
            writes.erase_rows(theirs, access, ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
            return sized(raw)

        monkeypatch.setattr(writes, "page_bytes", meanwhile)
        writes.purge_file(ours, access)
    assert sorted(look(path, "SELECT name FROM manifest")) == [("remains",), ("store",)]


async def test_every_table_of_a_space_is_emptied_by_its_erasure(store: SqliteStore, tmp_path: Path) -> None:
    await put(store, fact(1))
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    tables = [name for (name,) in look(tmp_path / "m.db", "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    counted = {name: look(tmp_path / "m.db", f"SELECT count(*) FROM {name}")[0][0] for name in tables}
    assert {name for name, count in counted.items() if count} == {"manifest"}


async def test_a_purge_waits_for_a_concurrent_commit_before_reporting_busy(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await (await SqliteStore.open(path, clock=CLOCK, library=OLD)).close()
    with closing(setup.connect_writer(OLD, path)) as ours, closing(setup.connect_writer(OLD, path)) as theirs:
        theirs.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            writes.purge_file(ours, FileAccess("delete", busy_wait_s=0.0))


async def test_a_store_with_another_page_size_keeps_it_and_is_purged_correctly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    with monkeypatch.context() as then:
        then.setattr(setup, "PAGE_BYTES", 8_192)
        await (await SqliteStore.open(path, clock=CLOCK)).close()
    store = await SqliteStore.open(path, clock=CLOCK)
    await put(store, fact(1), b"canary")
    ((tables,),) = look(path, "SELECT count(*) FROM sqlite_schema")
    monkeypatch.setattr("elytron_store.sqlite.writes.VACUUM_BYTES", tables * 8_192 - 1)
    assert (await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))).documents == 1
    await store.close()
    assert look(path, "PRAGMA page_size") == [(8_192,)]
    assert b"canary" not in path.read_bytes()
