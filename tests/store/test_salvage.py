"""Saving the rows of a damaged SQLite file: damage to a page loses only its rows, and they are counted."""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK

from elytron_conformance.examples import ADA, AT, BOB, batch, blob, documents, fact, journal, put, write_blob
from elytron_core.clock import Instant, SystemClock
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    COMPACTION_REF,
    CompactedRun,
    DeleteChange,
    Document,
    DocumentRef,
    JournalAction,
    JournalEntry,
    PutChange,
)
from elytron_core.ports.store_checks import CheckReport, DamageKind
from elytron_store import rescue_store
from elytron_store.engine import LOST_REF, row_checksum
from elytron_store.sqlite import SqliteStore, schema
from elytron_store.sqlite.pages import open_pages
from elytron_store.sqlite.schema import PAGE_BYTES

pytestmark = pytest.mark.anyio
NUMBER = 60


def body_of(number: int) -> bytes:
    """Return a unique body; one in five is longer than a page."""
    return f"document {number} ".encode() * (700 if number % 5 == 0 else 20)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A closed store with documents of two spaces."""
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    for number in range(NUMBER):
        await put(store, fact(number), body_of(number))
    await put(store, fact(1), b"bob's", space=BOB)
    await store.close()
    return tmp_path / "m.db"


async def rescued(path: Path, *, repair: bool = True) -> CheckReport:
    return await rescue_store(f"sqlite:{path}", clock=SystemClock(), repair=repair)


async def left_in(path: Path) -> Sequence[Document]:
    store = await SqliteStore.open(path, clock=CLOCK)
    assert (await store.check()).ok
    found = await documents(store)
    await store.close()
    assert all(document.body == body_of(int(document.ref.key, 16)) for document in found)
    return found


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        for statement in statements:
            raw.execute(statement)
        raw.commit()


def rows_of(path: Path, statement: str) -> Sequence[tuple[int, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(statement).fetchall()


async def test_each_wiped_page_loses_only_its_content_and_all_losses_are_counted(path: Path) -> None:
    whole = path.read_bytes()
    lost = 0
    for start in range(PAGE_BYTES, len(whole), PAGE_BYTES):
        path.write_bytes(whole[:start] + bytes(PAGE_BYTES) + whole[start + PAGE_BYTES :])
        report = await rescued(path, repair=False)
        missing = NUMBER + 1 - report.documents
        told = sum(loss.documents + loss.entries for loss in report.losses)
        assert missing <= told, start
        assert missing <= NUMBER // 2
        lost += missing
    assert lost >= NUMBER


async def test_a_sound_file_loses_nothing_and_reports_no_loss(path: Path) -> None:
    report = await rescued(path)
    assert (report.spaces, report.documents, report.entries, report.losses) == (2, NUMBER + 1, NUMBER + 1, ())
    assert [problem.what for problem in report.problems] == ["the sqlite file"]
    assert len(await left_in(path)) == NUMBER


@pytest.mark.parametrize("size", [1, 64, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 64])
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
async def test_pages_and_long_rows_moved_by_inserted_bytes_are_found(path: Path, size: int, part: float) -> None:
    whole = path.read_bytes()
    at = int(len(whole) * part)
    path.write_bytes(whole[:at] + os.urandom(size) + whole[at:])
    await rescued(path)
    assert len(await left_in(path)) >= NUMBER - 3


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
async def test_moved_pages_are_found_in_a_file_that_was_cut_to_whole_pages(path: Path, part: float) -> None:
    whole = path.read_bytes()
    at = int(len(whole) * part)
    path.write_bytes((whole[:at] + bytes(64) + whole[at:])[: len(whole)])
    report = await rescued(path)
    assert len(await left_in(path)) >= NUMBER - 4
    assert None in {loss.space for loss in report.losses}


async def test_pages_of_another_size_are_read(path: Path) -> None:
    for size in (1_024, 65_536):
        change(path, f"PRAGMA page_size = {size}", "PRAGMA journal_mode = DELETE", "VACUUM")
        whole = path.read_bytes()
        assert int.from_bytes(whole[16:18], "big") in {size, 1}
        path.write_bytes(whole[: -size // 2])
        report = await rescued(path, repair=False)
        assert report.documents >= NUMBER // 3
        path.write_bytes(whole)
        assert (await rescued(path, repair=False)).losses == ()


async def test_unreadable_pages_are_counted(path: Path) -> None:
    ((root,),) = rows_of(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'heads'")
    whole = path.read_bytes()
    start = (root - 1) * PAGE_BYTES
    path.write_bytes(whole[:start] + b"\xff" * PAGE_BYTES + whole[start + PAGE_BYTES :])
    report = await rescued(path)
    assert [(loss.space, loss.what) for loss in report.losses] == [
        (ADA, "rows, perhaps the last of its journal too"),
        (BOB, "rows, perhaps the last of its journal too"),
        (None, "unreadable pages of the sqlite file: 1"),
    ]
    path.write_bytes(whole[: -2 * PAGE_BYTES])
    report = await rescued(path)
    assert report.losses[-1].what == "unreadable pages of the sqlite file: 2"


async def test_a_truncated_page_yields_its_complete_rows(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    report = await rescued(path)
    assert len(await left_in(path)) >= NUMBER - 1
    assert "perhaps" not in "".join(loss.what for loss in report.losses)


async def test_rows_of_every_length_are_read(path: Path) -> None:
    sizes = range(PAGE_BYTES - 200, 2 * PAGE_BYTES)
    rows = [
        (
            "bob",
            "sizes",
            f"{size:04x}",
            1,
            bytes(size),
            row_checksum("bob", "sizes", f"{size:04x}", 1, body=bytes(size)),
        )
        for size in sizes
    ]
    with closing(sqlite3.connect(path)) as raw:
        raw.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", rows)
        raw.commit()
    assert (await rescued(path, repair=False)).documents == NUMBER + 1 + len(sizes)


async def test_pages_of_an_earlier_wal_cycle_are_not_used(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "as-it-was/m.db"
    place.parent.mkdir()

    def put_bobs(raw: sqlite3.Connection, revision: int) -> None:
        body = b"revision %d" % revision
        check = row_checksum("bob", "facts", "0001", revision, body=body)
        raw.execute(
            "UPDATE documents SET revision = ?, body = ?, \"check\" = ? WHERE space = 'bob'", (revision, body, check)
        )
        raw.commit()

    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        for revision in range(2, 6):
            put_bobs(raw, revision)
        assert raw.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
        put_bobs(raw, 6)  # the first of a cycle, which starts at the front of the WAL
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{place}{ending}")
    place.write_bytes(bytes(100) + place.read_bytes()[100:])
    with open_pages(place) as pages:
        assert {row[3] for row, _ in pages.rows() if row[:2] == ("bob", "facts") and len(row) == 6} == {6}
    report = await rescued(place)
    assert (report.documents, report.losses) == (NUMBER + 1, ())
    store = await SqliteStore.open(place, clock=CLOCK)
    assert [(each.revision, each.body) for each in await documents(store, space=BOB)] == [(6, b"revision 6")]
    await store.close()


async def test_a_lost_head_means_that_the_end_of_a_journal_may_be_lost(path: Path) -> None:
    change(path, "DELETE FROM heads WHERE space = 'bob'")
    report = await rescued(path)
    assert [(loss.space, loss.what) for loss in report.losses] == [(BOB, "rows, perhaps the last of its journal too")]
    assert len(await left_in(path)) == NUMBER


async def test_a_space_with_only_documents_gets_a_journal_of_them(path: Path) -> None:
    change(path, "DELETE FROM heads", "DELETE FROM journal")
    report = await rescued(path)
    assert [(loss.space, loss.documents, loss.entries) for loss in report.losses] == [(ADA, 0, 0), (BOB, 0, 0)]
    assert (report.documents, report.entries) == (NUMBER + 1, NUMBER + 1)
    assert len(await left_in(path)) == NUMBER


async def test_lost_entries_get_placeholders_and_their_documents_new_entries(path: Path) -> None:
    change(path, "DELETE FROM journal WHERE sequence IN (3, 4, 60)")
    report = await rescued(path)
    assert [(loss.space, loss.documents, loss.entries) for loss in report.losses] == [(ADA, 0, 3)]
    assert [(problem.damage, problem.what) for problem in report.problems[1:]] == [
        (DamageKind.JOURNAL_GAP, "3 journal entries")
    ]
    store = await SqliteStore.open(path, clock=CLOCK)
    entries = await journal(store)
    assert [entry.sequence for entry in entries] == list(range(1, NUMBER + 4))
    assert [entry.sequence for entry in entries if entry.ref == LOST_REF] == [3, 4, 60]
    named = [(entry.action, entry.ref, entry.digest) for entry in entries[NUMBER:]]
    assert named == [(JournalAction.MAINTENANCE, fact(number), "") for number in (2, 3, 59)]
    await store.close()
    assert (await rescued(path)).losses == ()


async def test_a_missing_document_is_reported_and_counted_once(path: Path) -> None:
    change(path, "DELETE FROM documents WHERE key IN ('0007', '0008')")
    report = await rescued(path)
    assert [(loss.space, loss.documents, loss.entries) for loss in report.losses] == [(ADA, 2, 0)]
    assert [problem.what for problem in report.problems[1:]] == ["document facts/0007", "document facts/0008"]
    change(path, "DELETE FROM documents WHERE key = '0009'")
    assert [(loss.space, loss.documents) for loss in (await rescued(path)).losses] == [(ADA, 1)]


async def test_a_deleted_document_is_not_missing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await put(store, fact(1))
    await store.commit(batch(DeleteChange(fact(1), 1), at=AT))
    await store.close()
    assert (await rescued(tmp_path / "m.db")).losses == ()


async def test_a_compacted_run_and_remains_of_its_entries_are_not_both_restored(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=CLOCK)
    for number in range(1, 5):
        await store.commit(batch(PutChange(fact(number), b"one", 0), at=AT))
    await store.close()
    remains = (
        schema.entry_row("ada", JournalEntry(number, AT, JournalAction.DELETE, fact(9), "")) for number in (2, 3)
    )
    run = schema.entry_row("ada", JournalEntry(3, AT, JournalAction.ERASE, COMPACTION_REF, "sum", covers=2))
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DELETE FROM journal WHERE sequence IN (2, 3)")
        raw.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", run)
        first, _ = remains
        raw.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", first)
        raw.commit()
    assert (await rescued(path)).losses == ()
    store = await SqliteStore.open(path, clock=CLOCK)
    assert [(entry.first, entry.sequence) for entry in await journal(store)] == [(1, 1), (2, 3), (4, 4)]
    assert await store.compact(ADA, [CompactedRun(2, 3, "sum")]) == 0
    await store.close()


async def test_older_states_of_documents_and_heads_are_not_used(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TABLE uploads")  # a table of another name, as in an older state of the file
        raw.execute("CREATE TABLE stale (a TEXT, b TEXT, c TEXT, d INTEGER, e BLOB, f BLOB) STRICT")
        for revision, body in ((1, b"the older"), (3, b"the newest"), (2, b"the one between")):
            check = row_checksum("bob", "facts", "0001", revision, body=body)
            raw.execute("INSERT INTO stale VALUES ('bob', 'facts', '0001', ?, ?, ?)", (revision, body, check))
        raw.execute("CREATE TABLE stale_heads (a TEXT, b INTEGER, c BLOB) STRICT")
        raw.execute("INSERT INTO stale_heads VALUES ('ada', 2, ?)", (row_checksum("ada", 2),))
        raw.commit()
    report = await rescued(path)
    assert (report.entries, report.losses) == (NUMBER + 1, ())
    store = await SqliteStore.open(path, clock=CLOCK)
    assert [(each.revision, each.body) for each in await documents(store, space=BOB)] == [(3, b"the newest")]
    await store.close()


async def test_chunks_of_a_blob_without_its_row_are_counted_and_removed(path: Path) -> None:
    store = await SqliteStore.open(path, clock=CLOCK)
    await write_blob(store, "aa", b"aa" * 300_000)
    await write_blob(store, "bb", b"bb" * 300_000)
    await store.close()
    change(path, "DELETE FROM blobs WHERE key = 'aa'")
    report = await rescued(path)
    assert [(loss.space, loss.documents, loss.blobs) for loss in report.losses] == [(ADA, 0, 1)]
    store = await SqliteStore.open(path, clock=CLOCK)
    assert await blob(store, "bb") == b"bb" * 300_000
    await store.close()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(DISTINCT upload) FROM chunks").fetchone() == (1,)


async def test_an_aborted_upload_is_not_a_lost_blob(path: Path) -> None:
    change(
        path,
        "INSERT INTO uploads VALUES ('ada', 7, 'aa', 1)",
        "INSERT INTO chunks VALUES ('ada', 7, 0, x'00', x'', x'00')",
    )
    assert (await rescued(path)).losses == ()


async def test_a_space_with_only_a_damaged_blob_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = await SqliteStore.open(path, clock=CLOCK)
    await write_blob(store, "aa", b"aa" * 300_000)
    await store.close()
    change(path, "DELETE FROM chunks WHERE part = 1", "DELETE FROM heads", "DELETE FROM journal")
    report = await rescued(path)
    assert [(loss.space, loss.documents, loss.entries, loss.blobs) for loss in report.losses] == [(ADA, 0, 0, 1)]
    assert [problem.what for problem in report.problems[1:]] == ["blob aa"]


async def test_quarantined_data_stays_quarantined(path: Path) -> None:
    change(path, "UPDATE documents SET revision = 9 WHERE key = '0007'")
    store = await SqliteStore.open(path, clock=CLOCK)
    losses = (await store.repair()).losses
    await store.close()
    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    assert (await rescued(path)).losses == ()
    store = await SqliteStore.open(path, clock=CLOCK)
    assert await store.losses() == list(losses)
    await store.close()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT key FROM quarantine WHERE number = 1").fetchall() == [("0007",)]


async def test_losses_are_acknowledged_per_space_or_all_at_once(path: Path) -> None:
    change(path, "DELETE FROM documents WHERE key IN ('0001', '0002')")
    await rescued(path)
    store = await SqliteStore.open(path, clock=CLOCK)
    losses = await store.losses()
    assert [(loss.space, loss.documents) for loss in losses] == [(ADA, 2), (BOB, 1)]
    assert await store.acknowledge_losses(SpaceId("eve"), at=losses[0].at) == 0
    assert await store.acknowledge_losses(None, at=Instant(losses[0].at - 1)) == 0
    assert await store.acknowledge_losses(BOB, at=losses[0].at) == 1
    assert await store.losses() == losses[:1]
    assert await store.acknowledge_losses(None, at=losses[0].at) == 1
    assert await store.losses() == []
    await store.close()


def test_no_document_can_have_the_key_of_a_loss_record() -> None:
    assert DocumentRef("lost", "0") == LOST_REF


def varint(number: int) -> bytes:
    """Return an integer as SQLite writes it."""
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.insert(0, number & 0x7F | 0x80)
    return bytes(groups)


def forged_page(*rows: tuple[str | bytes | int, ...]) -> bytes:
    """Return the beginning of a table's leaf page with `rows`."""
    cells: list[bytes] = []
    for number, row in enumerate(rows, 1):
        values = [value.encode() if isinstance(value, str) else value for value in row]
        kinds = b"".join(
            varint(6) if isinstance(value, int) else varint((13 if isinstance(own, str) else 12) + 2 * len(value))
            for value, own in zip(values, row, strict=True)
        )
        body = b"".join(value.to_bytes(8, "big") if isinstance(value, int) else value for value in values)
        payload = varint(len(kinds) + 1) + kinds + body
        cells.append(varint(len(payload)) + varint(number) + payload)
    head = 8 + 2 * len(cells)
    places = [head + sum(map(len, cells[:number])) for number in range(len(cells))]
    numbers = b"".join(place.to_bytes(2, "big") for place in places)
    return (
        bytes([13, 0, 0]) + len(cells).to_bytes(2, "big") + head.to_bytes(2, "big") + b"\0" + numbers + b"".join(cells)
    )


@pytest.mark.parametrize("inserted", [0, 64])
async def test_blob_bytes_that_look_like_a_page_affect_no_other_space(path: Path, inserted: int) -> None:
    check = row_checksum(BOB, "facts", "0001", 99, body=b"bob owes mallory")
    other = row_checksum(BOB, "facts", "00ff", 1, body=b"never written")
    page = forged_page(
        (BOB, "facts", "0001", 99, b"bob owes mallory", check), (BOB, "facts", "00ff", 1, b"never written", other)
    )
    store = await SqliteStore.open(path, clock=CLOCK)
    # Repeated at a distance that eventually matches any position on a page.
    await write_blob(store, "ab", page.ljust(PAGE_BYTES - 4, b".") * 256, space=ADA)
    await store.close()
    data = bytearray(path.read_bytes())
    places = [
        place for place in range(0, len(data), PAGE_BYTES) if b"never written" in data[place : place + PAGE_BYTES]
    ]
    wiped = places[len(places) // 2 - 30]  # in the middle of a chunk
    data[wiped : wiped + PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(data[:wiped] + bytes(inserted) + data[wiped:])
    await rescued(path)
    store = await SqliteStore.open(path, clock=CLOCK)
    assert [(each.revision, each.body) for each in await documents(store, space=BOB)] == [(1, b"bob's")]
    await store.close()


def test_a_self_referencing_page_is_not_followed(tmp_path: Path) -> None:
    cell = varint(2_000_000) + varint(1) + bytes(4_000)
    page = bytes([13, 0, 0, 0, 20]) + bytes(3) + (48).to_bytes(2, "big") * 20 + cell
    around = (2).to_bytes(4, "big") + bytes(PAGE_BYTES - 4)
    (tmp_path / "m.db").write_bytes(around + around + page[:PAGE_BYTES].ljust(PAGE_BYTES, b"\0") * 500)
    with open_pages(tmp_path / "m.db") as pages:
        assert list(pages.rows()) == []
