"""File damage: found, reported, never served, quarantined by a repair."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, look, remains

from elytron_conformance.examples import ADA, AT, BOB, batch, blob, documents, fact, journal, one, put, write_blob
from elytron_core.errors import StoreCorrupt
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, ErasureTarget, PutChange
from elytron_core.ports.store_checks import CheckReport, DamageKind, StoreLoss, StoreProblem
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import sqlite_library
from elytron_store.sqlite.schema import PAGE_BYTES

pytestmark = pytest.mark.anyio

BODY = b"a body that is found in the file by its bytes"
ONCE = batch(PutChange(fact(3), b"three", 0), idempotency=BatchKey(key="k", digest="d", answer=b"answer"))


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A closed store with three documents, an answered request and a blob."""
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await put(store, fact(1), BODY)
    await put(store, fact(2), b"two")
    await store.commit(ONCE)
    await write_blob(store, "aa", b"the bytes of a blob" * 1000)
    await store.close()
    return tmp_path / "m.db"


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=CLOCK)
    yield store
    await store.close()


def flip(path: Path, needle: bytes) -> None:
    """Flip one bit in the only place where the file contains `needle`."""
    whole = bytearray(path.read_bytes())
    assert whole.count(needle) == 1
    whole[whole.index(needle) + 3] ^= 0x10
    path.write_bytes(whole)


def change(path: Path, statement: str) -> None:
    """Alter rows directly in the file."""
    with closing(sqlite_library().connect(str(path), wait_s=5.0)) as raw:
        raw.execute(statement)


async def test_a_flipped_bit_in_a_body_is_found_and_quarantined(path: Path) -> None:
    flip(path, BODY)
    store = await SqliteStore.open(path, clock=CLOCK)
    with pytest.raises(StoreCorrupt, match="document facts/0001"):
        await one(store, fact(1))
    with pytest.raises(StoreCorrupt):
        await documents(store)
    assert await one(store, fact(2)) == Document(fact(2), 1, b"two")
    problem = StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0001")
    assert await store.check() == CheckReport(spaces=1, documents=3, entries=3, blobs=1, problems=(problem,))
    aside = StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0001", quarantined=True)
    loss = StoreLoss(ADA, documents=1, entries=0, blobs=0, at=CLOCK.now(), what="rows that were damaged")
    wanted = CheckReport(spaces=1, documents=3, entries=3, blobs=1, problems=(aside,), losses=(loss,))
    assert await store.repair() == wanted
    assert (await store.losses(), await store.losses(ADA), await store.losses(BOB)) == ([loss], [loss], [])
    assert await store.check() == CheckReport(spaces=1, documents=2, entries=3, blobs=1)
    assert await documents(store) == [Document(fact(2), 1, b"two"), Document(fact(3), 1, b"three")]
    ((kept,),) = look(path, "SELECT body FROM quarantine WHERE number > 0")
    assert len(kept) == len(BODY)
    assert kept != BODY
    assert await put(store, fact(1), b"anew") == CommitReceipt(4, 4)
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert look(path, "SELECT count(*) FROM quarantine WHERE number > 0") == [(0,)]
    assert remains(path.parent, kept) == set()
    await store.close()


async def test_a_flipped_bit_in_a_blob_is_found_and_quarantined(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"the bytes of a blob") + 3] ^= 0x10
    path.write_bytes(whole)
    store = await SqliteStore.open(path, clock=CLOCK)
    with pytest.raises(StoreCorrupt, match="blob aa"):
        await blob(store, "aa")
    assert [problem.damage for problem in (await store.check()).problems] == [DamageKind.BLOB]
    assert [problem.quarantined for problem in (await store.repair()).problems] == [True]
    assert await store.check() == CheckReport(spaces=1, documents=3, entries=3, blobs=0)
    assert look(path, "SELECT count(*) FROM chunks") == [(1,)]
    await write_blob(store, "aa", b"new")
    assert await blob(store, "aa") == b"new"
    await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))
    assert look(path, "SELECT count(*) FROM chunks") == [(0,)]
    await store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET revision = 7 WHERE key = '0001'",
        "UPDATE documents SET key = '0009' WHERE key = '0001'",
        "UPDATE documents SET space = 'bob' WHERE key = '0001'",
        "UPDATE documents SET \"check\" = x'0000000000000000' WHERE key = '0001'",
    ],
)
async def test_an_altered_or_moved_row_is_not_served(opened: SqliteStore, path: Path, statement: str) -> None:
    change(path, statement)
    assert [problem.damage for problem in (await opened.check()).problems] == [DamageKind.DOCUMENT]
    assert [problem.quarantined for problem in (await opened.repair()).problems] == [True]
    assert len(await documents(opened)) == 2


@pytest.mark.parametrize(
    ("statement", "damage"),
    [
        ("UPDATE journal SET digest = 'other' WHERE sequence = 2", DamageKind.JOURNAL_ENTRY),
        ("UPDATE journal SET at = at + 1 WHERE sequence = 2", DamageKind.JOURNAL_ENTRY),
        ("DELETE FROM journal WHERE sequence = 2", DamageKind.JOURNAL_GAP),
    ],
)
async def test_a_damaged_journal_is_neither_served_nor_repaired(
    opened: SqliteStore, path: Path, statement: str, damage: DamageKind
) -> None:
    change(path, statement)
    with pytest.raises(StoreCorrupt, match="journal entry 2"):
        await journal(opened)
    assert [kept.sequence for kept in await opened.journal(ADA, after=2, limit=9)] == [3]
    for report in (await opened.check(), await opened.repair(), await opened.check()):
        assert [(problem.damage, problem.quarantined) for problem in report.problems] == [(damage, False)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE heads SET sequence = 2",
        "UPDATE heads SET \"check\" = x'00'",
        "DELETE FROM journal WHERE sequence = 3",
    ],
)
async def test_a_head_that_contradicts_its_journal_is_reported(opened: SqliteStore, path: Path, statement: str) -> None:
    change(path, statement)
    assert [problem.damage for problem in (await opened.check()).problems] == [DamageKind.JOURNAL_GAP]


async def test_a_journal_without_a_head_is_reported(opened: SqliteStore, path: Path) -> None:
    change(path, "DELETE FROM heads")
    assert [problem.damage for problem in (await opened.check()).problems] == [DamageKind.JOURNAL_GAP]


async def test_commits_refuse_to_build_on_damage(opened: SqliteStore, path: Path) -> None:
    change(path, "UPDATE idempotency SET answer = x'00'")
    with pytest.raises(StoreCorrupt, match="idempotency record"):
        await opened.commit(ONCE)
    change(path, "UPDATE heads SET sequence = 9")
    with pytest.raises(StoreCorrupt, match="head of a journal"):
        await put(opened, fact(4))
    with pytest.raises(StoreCorrupt):
        await opened.erase(ErasureTarget(space=ADA, at=AT))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blobs SET size = 1",
        "UPDATE blobs SET parts = 2",
        "DELETE FROM chunks",
        "UPDATE chunks SET part = 1",
        "UPDATE chunks SET bytes = x''",
    ],
)
async def test_an_incomplete_blob_is_not_served(opened: SqliteStore, path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(StoreCorrupt, match="blob aa"):
        await blob(opened, "aa")
    assert [problem.damage for problem in (await opened.check()).problems] == [DamageKind.BLOB]


async def test_a_broken_page_is_reported_and_the_rest_is_read(path: Path) -> None:
    ((page,),) = look(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'documents'")
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * PAGE_BYTES : (page - 1) * PAGE_BYTES + 8] = b"\xff" * 8
    path.write_bytes(whole)
    store = await SqliteStore.open(path, clock=CLOCK)
    with pytest.raises(StoreCorrupt):
        await one(store, fact(1))
    told = await asyncio.gather(put(store, fact(4)), put(store, fact(5)), return_exceptions=True)
    assert [type(outcome) for outcome in told] == [StoreCorrupt, StoreCorrupt]
    report = await store.check()
    assert {problem.damage for problem in report.problems} == {DamageKind.ENGINE}
    assert (report.entries, report.blobs) == (3, 1)
    await store.close()


async def test_a_non_utf8_text_is_damage_and_its_bytes_are_not_shown(opened: SqliteStore, path: Path) -> None:
    change(path, "UPDATE journal SET digest = CAST(x'73656372657480' AS TEXT) WHERE sequence = 2")
    with pytest.raises(StoreCorrupt) as refused:
        await journal(opened)
    assert "secret" not in f"{refused.value!r} {refused.value.__cause__!r}"
    assert [problem.damage for problem in (await opened.check()).problems] == [DamageKind.ENGINE]


async def test_a_damaged_document_fails_no_other_commit_of_the_group(path: Path) -> None:
    change(path, "UPDATE heads SET sequence = 9")
    store = await SqliteStore.open(path, clock=CLOCK)
    told = await asyncio.gather(put(store, fact(4)), put(store, fact(4), space=BOB), return_exceptions=True)
    assert [type(outcome) for outcome in told] == [StoreCorrupt, CommitReceipt]
    await store.close()


async def test_no_flipped_bit_of_the_schema_passes_for_anything_but_damage(path: Path) -> None:
    whole = path.read_bytes()
    start = whole.index(b"CREATE TABLE")
    harmless: list[int] = []
    for at in range(start - 40, PAGE_BYTES, 7):
        for bit in (0, 7):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                store = await SqliteStore.open(path, clock=CLOCK)
            except StoreCorrupt:
                continue
            try:
                assert len(await documents(store)) == 3
                harmless.append(at)
            except StoreCorrupt:
                continue  # the page of a table or index, where the schema says that it begins
            finally:
                await store.close()
    # The rest are bytes of the page that no table's definition uses.
    assert len(harmless) < 150


async def test_a_truncated_journal_is_reported(path: Path) -> None:
    change(path, "DELETE FROM journal WHERE sequence > 1")
    store = await SqliteStore.open(path, clock=CLOCK)
    with pytest.raises(StoreCorrupt, match="journal entry 2"):
        await journal(store)
    await store.close()
