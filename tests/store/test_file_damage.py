"""How a file store handles torn tails, flipped bits, and lost stretches: nothing wrong is served, the rest is kept."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    batch,
    blob,
    documents,
    fact,
    journal,
    one,
    put,
    spaces,
    write_blob,
)
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import NotFound, StoreCorrupt
from elytron_core.ports.store import (
    BatchKey,
    CommitReceipt,
    Document,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
)
from elytron_core.ports.store_checks import DamageKind, StoreProblem
from elytron_store.engine import LOST_REF, DocumentPage
from elytron_store.file import FileStore, repair
from elytron_store.file.blobs import WINDOW_CHUNKS, BlobReader
from elytron_store.file.disk import StorePaths, folder_name
from elytron_store.file.frame import ACKNOWLEDGED_AT, HEADER_BYTES
from elytron_store.file.log import GenerationLog, LogHole
from elytron_store.file.store import FileSpace

pytestmark = pytest.mark.anyio
NAME = folder_name(ADA)
LATE = Instant(AT * 2)
ONCE = BatchKey(key="k", digest="d", answer=b"the kept answer")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FileStore]:
    store = await FileStore.open(root, clock=FrozenClock())
    yield store
    await store.close()


@pytest.fixture
def log(root: Path) -> Path:
    return StorePaths(root).log_of(NAME)


def handle(root: Path) -> FileSpace:
    """Return the space as a fresh process sees it."""
    return FileSpace(StorePaths(root), ADA, busy_wait_s=1.0)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def flip_all(path: Path, *needles: bytes) -> None:
    """Damage the first byte after each `needle`, wherever it occurs."""
    data = bytearray(path.read_bytes())
    for needle in needles:
        at = data.find(needle)
        assert at >= 0
        while at >= 0:
            data[at] ^= 0x10
            at = data.find(needle, at + 1)
    path.write_bytes(data)


async def test_a_torn_append_is_cut_off_at_any_byte(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1), b"acknowledged")
    before = log.read_bytes()
    await store.commit(batch(PutChange(fact(1), b"torn", 1), PutChange(fact(2), b"torn too", 0)))
    after = log.read_bytes()
    space = handle(root)
    for end in range(len(before), len(after)):
        for filler in (b"", bytes(16))[: 1 + (end % 8 == 0)]:
            log.write_bytes(before[:HEADER_BYTES] + after[HEADER_BYTES:end] + filler)
            space = handle(root)
            assert space.get([fact(1), fact(2)]) == [Document(fact(1), 1, b"acknowledged"), None]
            assert log.stat().st_size == len(before)
    assert space.commit([batch(PutChange(fact(3), b"next", 0))]) == [CommitReceipt(2, 2)]
    assert (await store.check()).ok


async def test_a_complete_unacknowledged_append_is_kept(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1), b"acknowledged")
    before = log.read_bytes()
    await store.commit(batch(PutChange(fact(1), b"newer", 1), PutChange(fact(2), b"two", 0)))
    after = log.read_bytes()
    # As after a power cut: the frame is on the device, but not its acknowledgement.
    log.write_bytes(before[:HEADER_BYTES] + after[HEADER_BYTES:])
    space = handle(root)
    assert space.get([fact(1), fact(2)]) == [Document(fact(1), 2, b"newer"), Document(fact(2), 1, b"two")]
    assert log.read_bytes() == after


async def test_a_writer_settles_a_torn_append_before_its_own(store: FileStore, log: Path) -> None:
    await put(store, fact(1))
    with log.open("ab") as file:
        file.write(b"what a killed process left")
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    assert (await store.check()).ok


async def test_readers_do_not_see_unacknowledged_data(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1), b"old")
    space = handle(root)
    assert space.get([fact(1)]) == [Document(fact(1), 1, b"old")]
    before = log.read_bytes()
    await put(store, fact(1), b"new", expects=1)
    after = log.read_bytes()
    log.write_bytes(before[:HEADER_BYTES] + after[HEADER_BYTES:])
    assert space.get([fact(1)]) == [Document(fact(1), 1, b"old")]
    log.write_bytes(after)
    assert space.get([fact(1)]) == [Document(fact(1), 2, b"new")]


async def test_no_flipped_bit_is_served_and_each_is_found_and_repaired(store: FileStore, root: Path, log: Path) -> None:
    await store.commit(
        batch(PutChange(fact(1), b"first body", 0), PutChange(fact(2), b"second body", 0), idempotency=ONCE)
    )
    await put(store, fact(1), b"third body", expects=1)
    await put(store, fact(3), b"fourth body")
    whole = log.read_bytes()
    bodies = await documents(store)
    entries = await journal(store)
    superseded = range(whole.find(b"first body") - 8, whole.find(b"first body") + len(b"first body"))
    for at in [*range(0, HEADER_BYTES, 23), *range(HEADER_BYTES, len(whole), 5)]:
        if at in superseded:
            continue  # nobody can read these bytes any more
        log.write_bytes(whole)
        flip(log, at)
        space = handle(root)
        for document in bodies:
            with suppress(StoreCorrupt):
                assert space.get([document.ref]) == [document]
        assert space.journal(after=0, limit=100) == entries
        found = repair.examine_space(StorePaths(root), NAME)
        assert found is not None
        assert len(found.troubles) == 1, at
        if at % 3 == 0:
            repair.repair_space(StorePaths(root), NAME, at=AT, busy_wait_s=1.0)
            found = repair.examine_space(StorePaths(root), NAME)
            assert found is not None
            assert found.troubles == []
            assert handle(root).journal(after=0, limit=100) == entries


async def test_a_damaged_body_affects_only_its_own_document(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1), b"damaged body")
    await put(store, fact(2), b"other body")
    flip_all(log, b"damaged body")
    with pytest.raises(StoreCorrupt):
        await one(store, fact(1))
    with pytest.raises(StoreCorrupt):
        await documents(store)
    assert await one(store, fact(2)) == Document(fact(2), 1, b"other body")
    wanted = StoreProblem(damage=DamageKind.DOCUMENT, space=ADA, what="document facts/0001")
    report = await store.check()
    assert (report.problems, report.documents) == ((wanted,), 2)
    repaired = await store.repair()
    assert repaired.problems == (StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0001", quarantined=True),)
    assert (repaired.documents, repaired.entries) == (1, 2)
    assert (await store.check()).ok
    assert await one(store, fact(1)) is None
    assert b"amaged body" in (root / "quarantine" / NAME / "document.facts.0001.1").read_bytes()
    assert len(await journal(store)) == 2


async def test_a_damaged_document_can_be_replaced(store: FileStore, log: Path) -> None:
    await put(store, fact(1), b"damaged body")
    flip_all(log, b"damaged body")
    await put(store, fact(1), b"sound body", expects=1)
    assert await one(store, fact(1)) == Document(fact(1), 2, b"sound body")
    assert (await store.check()).ok


async def test_a_damaged_answer_is_not_returned(store: FileStore, log: Path) -> None:
    once = batch(PutChange(fact(1), b"body", 0), idempotency=ONCE)
    await store.commit(once)
    flip_all(log, ONCE.answer)
    with pytest.raises(StoreCorrupt):
        await store.commit(once)
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    assert [problem.damage for problem in (await store.repair()).problems] == [DamageKind.ENGINE]
    assert (await store.check()).ok


async def lose_the_second(store: FileStore, log: Path) -> None:
    """Commit four documents, one of them twice, and destroy both copies of the second commit's record."""
    await put(store, fact(1), b"one")
    start = log.stat().st_size
    await put(store, fact(2), b"two")
    end = log.stat().st_size
    await put(store, fact(3), b"three")
    await put(store, fact(4), b"four")
    data = bytearray(log.read_bytes())
    data[start : end - 11] = bytes(end - 11 - start)
    log.write_bytes(data)


async def test_nothing_uncertain_is_served_after_a_lost_commit(store: FileStore, root: Path, log: Path) -> None:
    await lose_the_second(store, log)
    space = handle(root)
    assert space.get([fact(3), fact(4)]) == [Document(fact(3), 1, b"three"), Document(fact(4), 1, b"four")]
    for uncertain in (fact(1), fact(2), fact(9)):
        with pytest.raises(StoreCorrupt):
            space.get([uncertain])
    with pytest.raises(StoreCorrupt):
        space.scan(DocumentPage("facts", "", "", 10, descending=False))
    assert [entry.sequence for entry in space.journal(after=0, limit=1)] == [1]
    assert [entry.sequence for entry in space.journal(after=2, limit=10)] == [3, 4]
    with pytest.raises(StoreCorrupt):
        space.journal(after=0, limit=10)
    with pytest.raises(StoreCorrupt):
        space.commit([batch(PutChange(fact(9), b"", 0))])
    with pytest.raises(StoreCorrupt):
        space.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(3),)))


async def test_repair_quarantines_a_lost_commit_and_keeps_the_rest(store: FileStore, root: Path, log: Path) -> None:
    await lose_the_second(store, log)
    report = await store.check()
    assert [problem.damage for problem in report.problems] == [DamageKind.ENGINE, DamageKind.JOURNAL_GAP]
    assert [problem.quarantined for problem in (await store.repair()).problems] == [True, False]
    assert (await store.check()).ok
    assert await documents(store) == [
        Document(fact(1), 1, b"one"),
        Document(fact(3), 1, b"three"),
        Document(fact(4), 1, b"four"),
    ]
    assert await journal(store) == [
        JournalEntry(1, AT, JournalAction.WRITE, fact(1), "5eed"),
        JournalEntry(2, AT, JournalAction.MAINTENANCE, LOST_REF, ""),
        JournalEntry(3, AT, JournalAction.WRITE, fact(3), "5eed"),
        JournalEntry(4, AT, JournalAction.WRITE, fact(4), "5eed"),
    ]
    assert await put(store, fact(2)) == CommitReceipt(5, 5)
    assert len(list((root / "quarantine" / NAME).iterdir())) == 1
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(2),)))
    assert list((root / "quarantine" / NAME).iterdir()) == []


async def test_a_log_shorter_than_acknowledged_is_damage_not_a_torn_tail(
    store: FileStore, root: Path, log: Path
) -> None:
    await put(store, fact(1), b"one")
    end = log.stat().st_size
    await put(store, fact(2), b"two")
    log.write_bytes(log.read_bytes()[: end + 5])
    space = handle(root)
    with pytest.raises(StoreCorrupt):
        space.get([fact(2)])
    with pytest.raises(StoreCorrupt):
        space.journal(after=0, limit=10)
    assert not (await store.check()).ok
    await store.repair()
    assert await documents(store) == [Document(fact(1), 1, b"one")]
    assert (await store.check()).ok


async def test_a_body_cut_off_at_the_end_is_damage_of_its_document(store: FileStore, log: Path) -> None:
    await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
    log.write_bytes(log.read_bytes()[:-1])
    assert [problem.what for problem in (await store.check()).problems] == ["document facts/0002"]
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert [problem.what for problem in (await store.check()).problems] == ["document facts/0002"]


async def test_without_its_marks_a_whole_log_counts_as_acknowledged(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1), b"one")
    flip(log, ACKNOWLEDGED_AT)
    flip(log, ACKNOWLEDGED_AT + 16)
    assert handle(root).get([fact(1)]) == [Document(fact(1), 1, b"one")]
    assert not (await store.check()).ok
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    assert (await store.check()).ok


async def test_a_space_with_a_lost_header_is_not_served_and_is_quarantined(
    store: FileStore, root: Path, log: Path
) -> None:
    await put(store, fact(1), b"one")
    await put(store, fact(1), b"bob's", space=BOB)
    await write_blob(store, "aa", b"blob")
    log.write_bytes(bytes(HEADER_BYTES) + log.read_bytes()[HEADER_BYTES:])
    with pytest.raises(StoreCorrupt):
        handle(root).get([fact(1)])
    with pytest.raises(StoreCorrupt):
        await put(store, fact(2))
    assert await spaces(store) == {BOB}
    assert [problem.space for problem in (await store.check()).problems] == [ADA]
    assert [problem.quarantined for problem in (await store.repair()).problems] == [True]
    assert (await store.check()).ok
    assert (await documents(store), await blob(store, "aa")) == ([], b"blob")
    (aside,) = (root / "quarantine" / NAME).iterdir()
    assert len(aside.read_bytes()) > HEADER_BYTES
    (loss,) = await store.losses(ADA)
    assert loss.what == f"the header of space folder {NAME[:16]!r}"
    assert await spaces(store) == {ADA, BOB}


async def test_a_space_with_a_lost_header_can_be_erased(store: FileStore, log: Path) -> None:
    await put(store, fact(1), b"one")
    log.write_bytes(b"nothing that could be read")
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert await documents(store) == []
    assert await store.check() == await store.repair()


async def test_no_flipped_bit_of_a_blob_is_served(store: FileStore, root: Path) -> None:
    path = StorePaths(root).blob_of(NAME, "aa")
    await write_blob(store, "aa", b"one chunk and ")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole)
        flip(path, at)
        with pytest.raises(StoreCorrupt):
            await blob(store, "aa")
    for damaged in (whole[:-1], whole + b"\0", whole[:8], b""):
        path.write_bytes(damaged)
        with pytest.raises(StoreCorrupt):
            await blob(store, "aa")


async def test_a_blob_of_many_chunks_is_read_completely(store: FileStore) -> None:
    body = os.urandom(1_024) * (limits.BLOB_CHUNK_BYTES // 1_024 * (WINDOW_CHUNKS + 1)) + b"end"
    assert await write_blob(store, "aa", body) == len(body)
    assert await blob(store, "aa") == body


async def test_a_blob_is_not_served_in_place_of_another(store: FileStore, root: Path) -> None:
    await write_blob(store, "aa", b"mine")
    await write_blob(store, "ab", b"other")
    where = StorePaths(root)
    where.blob_of(NAME, "ab").write_bytes(where.blob_of(NAME, "aa").read_bytes())
    with pytest.raises(StoreCorrupt):
        await blob(store, "ab")


async def test_a_damaged_blob_is_quarantined(store: FileStore, root: Path) -> None:
    await write_blob(store, "aa", b"damaged")
    await write_blob(store, "ab", b"sound")
    flip_all(StorePaths(root).blob_of(NAME, "aa"), b"damaged")
    assert (await store.check()).problems == (StoreProblem(DamageKind.BLOB, ADA, "blob aa"),)
    assert (await store.repair()).problems == (StoreProblem(DamageKind.BLOB, ADA, "blob aa", quarantined=True),)
    assert (await store.check()).ok
    with pytest.raises(NotFound):
        await blob(store, "aa")
    assert await blob(store, "ab") == b"sound"
    assert (root / "quarantine" / NAME / "blob.aa").exists()
    await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))
    assert not (root / "quarantine" / NAME / "blob.aa").exists()


async def test_an_erasure_removes_quarantined_parts_of_the_document(store: FileStore, root: Path, log: Path) -> None:
    for number in (1, 2):
        await put(store, fact(number), b"damaged %d" % number)
    flip_all(log, b"damaged 1", b"damaged 2")
    await store.repair()
    aside = root / "quarantine" / NAME
    assert {path.name for path in aside.iterdir()} == {"document.facts.0001.1", "document.facts.0002.1"}
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert {path.name for path in aside.iterdir()} == {"document.facts.0002.1"}
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert not aside.exists()


def frame_starts(log: Path) -> list[int]:
    """Return the start positions of a log's frames."""
    opened = GenerationLog.open(log)
    assert opened is not None
    with opened:
        found = list(opened.frames(HEADER_BYTES, opened.acknowledged))
    return [block.offset for block in found if not isinstance(block, LogHole)]


def blind(log: Path, start: int) -> None:
    """Damage both copies of the block of the frame at `start`."""
    opened = GenerationLog.open(log)
    assert opened is not None
    with opened:
        block = opened.block_at(start)
    assert block is not None
    flip(log, start)
    flip(log, (start + block.bodies_at) // 2)


async def test_the_repair_of_a_sound_store_changes_no_byte(store: FileStore, root: Path, log: Path) -> None:
    await put(store, fact(1))
    await write_blob(store, "aa", b"blob")
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in root.rglob("*") if path.is_file()}
    assert (await store.repair()).ok
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in root.rglob("*") if path.is_file()} == before
    log.unlink()
    shutil.rmtree(root / "records")
    assert (await store.repair()).spaces == 0


async def test_a_closed_reader_opens_no_blob(store: FileStore, root: Path) -> None:
    await write_blob(store, "aa", b"blob")
    reader = BlobReader(StorePaths(root), NAME, "aa")
    assert reader.next() == (b"blob",)
    for begun in (reader, BlobReader(StorePaths(root), NAME, "aa")):
        begun.close()
        assert begun.next() == ()


async def test_a_duplicated_frame_is_read_once(store: FileStore, log: Path) -> None:
    for number in range(1, 6):
        await put(store, fact(number), b"body %d" % number)
    whole = log.read_bytes()
    _, second, third, *_ = frame_starts(log)
    log.write_bytes(whole[:third] + whole[second:third] + whole[third:])
    await store.repair()
    assert (await store.check()).ok
    assert [each.body for each in await documents(store)] == [b"body %d" % number for number in range(1, 6)]
    assert [entry.sequence for entry in await journal(store)] == [1, 2, 3, 4, 5]


async def test_frames_moved_far_are_found_by_the_length_of_the_log(store: FileStore, log: Path) -> None:
    for number in range(1, 6):
        await put(store, fact(number), b"body %d" % number)
    whole = log.read_bytes()
    at = frame_starts(log)[2] + 3
    log.write_bytes(whole[:at] + bytes(100_000) + whole[at:])
    report = await store.repair()
    assert report.losses == ()
    assert [each.body for each in await documents(store)] == [b"body %d" % number for number in range(1, 6)]
    assert [entry.ref for entry in await journal(store)] == [fact(number) for number in range(1, 6)]


@pytest.mark.parametrize("shift", [64, -64])
async def test_frames_after_two_shifts_are_found(store: FileStore, log: Path, shift: int) -> None:
    for number in range(1, 9):
        await put(store, fact(number), b"body %d" % number * 20)
    whole = log.read_bytes()
    starts = frame_starts(log)
    first, second = starts[2] + 5, starts[5] + 5
    middle = whole[first:second] if shift > 0 else whole[first + 64 : second]
    log.write_bytes(whole[:first] + bytes(max(shift, 0)) + middle + bytes(32) + whole[second:])
    await store.repair()
    numbers = [int(each.ref.key) for each in await documents(store)]
    assert {1, 2, 4, 5, 7, 8} <= set(numbers)


async def test_a_reader_leaves_moved_frames_to_the_repair(store: FileStore, root: Path, log: Path) -> None:
    for number in range(1, 6):
        await put(store, fact(number), b"body %d" % number)
    whole = log.read_bytes()
    at = frame_starts(log)[2] + 3
    log.write_bytes(whole[:at] + bytes(64) + whole[at:])
    with pytest.raises(StoreCorrupt):
        handle(root).scan(DocumentPage("facts", "", "", 10, descending=False))
    with pytest.raises(StoreCorrupt):
        handle(root).commit([batch(PutChange(fact(9), b"", 0))])
    assert log.stat().st_size == len(whole) + 64
    assert ADA in {problem.space for problem in (await store.check()).problems}
    await store.repair()
    assert len(await documents(store)) == 5


async def test_a_header_is_reconstructed_from_two_damaged_copies(store: FileStore, log: Path) -> None:
    await put(store, fact(1), b"one")
    flip(log, 9)  # the salt of the first copy
    flip(log, HEADER_BYTES - 9)  # the free room after the name in the second one
    with pytest.raises(StoreCorrupt):
        await documents(store)
    report = await store.repair()
    assert report.losses == ()
    assert [problem.what for problem in report.problems] == ["one copy of a log's header"]
    assert await documents(store) == [Document(fact(1), 1, b"one")]


async def test_a_header_that_was_moved_is_found(store: FileStore, log: Path) -> None:
    await put(store, fact(1), b"one")
    await put(store, fact(2), b"two")
    log.write_bytes(bytes(64) + log.read_bytes())
    report = await store.repair()
    assert report.losses == ()
    assert [each.body for each in await documents(store)] == [b"one", b"two"]


async def test_documents_of_a_rewritten_log_whose_frame_is_lost_are_counted_once(store: FileStore, log: Path) -> None:
    for number in range(1, 5):
        await put(store, fact(number))
    await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(4),)))
    _, bodies, *_ = frame_starts(log)
    blind(log, bodies)
    assert [(loss.documents, loss.entries) for loss in (await store.repair()).losses] == [(3, 0)]
    await put(store, fact(5), b"a body that is damaged")
    flip_all(log, b"a body that is damaged")
    assert [(loss.documents, loss.entries) for loss in (await store.repair()).losses] == [(1, 0)]
    assert [(loss.documents, loss.entries) for loss in await store.losses()] == [(4, 0)]
    assert await store.acknowledge_losses(ADA, at=LATE) == 1
    assert await store.losses() == []
    await put(store, fact(6))
    await put(store, fact(7))
    blind(log, frame_starts(log)[-2])
    assert [(loss.documents, loss.entries) for loss in (await store.repair()).losses] == [(0, 1)]


async def test_documents_whose_journal_is_lost_are_named_again(store: FileStore, log: Path) -> None:
    for number in range(1, 4):
        await put(store, fact(number))
    await store.erase(ErasureTarget(space=ADA, at=AT))
    entries, *_ = frame_starts(log)
    blind(log, entries)
    assert [(loss.documents, loss.entries) for loss in (await store.repair()).losses] == [(0, 3)]
    assert len(await documents(store)) == 3
    named = [(entry.sequence, entry.action, entry.ref) for entry in (await journal(store))[4:]]
    assert named == [(4 + number, JournalAction.MAINTENANCE, fact(number)) for number in range(1, 4)]
    assert (await store.check()).ok


async def test_a_damaged_answer_is_not_a_loss(store: FileStore, log: Path) -> None:
    await store.commit(batch(PutChange(fact(1), b"body", 0), idempotency=ONCE))
    flip_all(log, ONCE.answer)
    report = await store.repair()
    assert [problem.quarantined for problem in report.problems] == [True]
    assert (report.losses, await store.losses()) == ((), [])
