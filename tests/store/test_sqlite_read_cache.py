"""An SQLite handle's read cache is never older than anyone's last commit."""

import random
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
from tests.store.sqlite_rig import AT, REF, SPACE, batch, opened

from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
)
from elytron_store.sqlite import SqliteStore, reads
from elytron_store.sqlite.driver import Raw
from elytron_store.sqlite.reads import get_documents

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no read be too slow for the loop, however busy the machine is."""
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_HELD_S", 600.0)


async def test_a_commit_of_any_handle_is_visible_immediately(tmp_path: Path) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    for revision, (writer, reader) in enumerate([(mine, mine), (others, mine), (mine, others), (others, mine)]):
        await writer.commit(batch(b"%d" % revision, revision))
        for _ in range(2):
            assert await reader.get(SPACE, (REF,)) == [Document(REF, revision + 1, b"%d" % revision)]
            assert [entry.sequence for entry in await reader.journal(SPACE, after=revision, limit=9)] == [revision + 1]
    await others.commit(
        Batch(space=SPACE, at=AT, entries=(EntryDraft(JournalAction.DELETE, REF),), deletes=(DeleteChange(REF, 4),))
    )
    assert await mine.get(SPACE, (REF,)) == [None]
    await mine.close()
    await others.close()


async def test_erased_documents_are_dropped_from_the_cache(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"canary", 0))
    await store.get(SPACE, (REF,))
    await store.erase(ErasureTarget(space=SPACE, at=AT, refs=(REF,)))
    assert await store.get(SPACE, (REF,)) == [None]
    await store.close()


async def test_the_cache_keeps_small_documents_within_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_DOCUMENTS", 2)
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_LOOKS", 1)
    store = await opened(tmp_path)
    refs = [DocumentRef("turns", f"{place:02x}") for place in range(4)]
    for ref in refs:
        await store.commit(batch(b"x" * (9_000 if ref == refs[3] else 1), 0, ref))
    for _ in range(2):
        assert [document.ref for document in await store.get(SPACE, refs) if document is not None] == refs
        assert len(await store.journal(SPACE, after=3, limit=2)) == 1
        assert len(await store.journal(SPACE, after=2, limit=1)) == 1
        assert len(await store.journal(SPACE, after=0, limit=9)) == 4
    kept = store._memo  # pyright: ignore[reportPrivateUsage]
    assert kept is not None
    assert sum(map(len, kept._stands.values())) <= 2  # pyright: ignore[reportPrivateUsage]
    assert len(kept._looks) == 1  # pyright: ignore[reportPrivateUsage]
    kept._watch.close()  # pyright: ignore[reportPrivateUsage]
    assert kept.version() == 0
    assert [document.ref for document in await store.get(SPACE, refs) if document is not None] == refs
    await store.close()


class Hops:
    """Counts a store's reads that waited for a thread."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = store._read  # pyright: ignore[reportPrivateUsage]

        async def counted(*args: Any) -> Any:
            self.count += 1
            return await read(*args)

        monkeypatch.setattr(store, "_read", counted)


async def everything(store: SqliteStore, refs: Sequence[DocumentRef]) -> list[Sequence[object]]:
    return [
        await store.get(SPACE, refs),
        await store.journal(SPACE, after=0, limit=1),
        await store.scan(SPACE, "tools", limit=9),
    ]


async def test_small_reads_need_no_thread_even_after_foreign_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    hops, tool, absent = Hops(mine, monkeypatch), DocumentRef("tools", "aa"), DocumentRef("turns", "ff")
    await others.commit(batch(b"0", 0))
    first = await everything(mine, (REF, absent))
    assert first[0] == [Document(REF, 1, b"0"), None]
    assert await everything(mine, (REF, absent)) == first
    await others.commit(batch(b"1", 1))
    await others.commit(batch(b"2", 0, absent))
    await others.commit(batch(b"3", 0, tool))
    documents, entries, tools = await everything(mine, (REF, absent))
    assert documents == [Document(REF, 2, b"1"), Document(absent, 1, b"2")]
    assert (entries, tools) == (first[1], [Document(tool, 1, b"3")])
    await mine.commit(batch(b"4", 0, DocumentRef("turns", "cc")))
    assert await mine.get(SPACE, (DocumentRef("turns", "cc"), REF)) == [
        Document(DocumentRef("turns", "cc"), 1, b"4"),
        Document(REF, 2, b"1"),
    ]
    assert hops.count == 0
    await mine.close()
    await others.close()


async def test_blocked_and_large_reads_use_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_AT_ONCE", 2)
    store = await opened(tmp_path)
    refs = [DocumentRef("tools", f"{place:02x}") for place in range(3)]
    for ref in refs:
        await store.commit(batch(b"x", 0, ref))
    await store.scan(SPACE, "tools", limit=9)
    assert len(await store.scan(SPACE, "tools", limit=1)) == 1
    assert len(await store.journal(SPACE, after=0, limit=9)) == 3
    hops = Hops(store, monkeypatch)
    await store.commit(batch(b"y" * 9_000, 1, refs[0]))
    for wanted, read in (
        (3, store.get(SPACE, refs)),
        (3, store.scan(SPACE, "tools", limit=9)),
        (4, store.journal(SPACE, after=0, limit=9)),
        (1, store.get(SPACE, refs[:1])),
        (1, store.scan(SPACE, "tools", prefix="00", limit=2)),
    ):
        assert len(await read) == wanted
    assert hops.count == 5
    assert len(await store.get(SPACE, refs[1:])) == 2
    assert hops.count == 5
    await store.close()


@pytest.mark.parametrize(
    ("waits", "steps", "hops"),
    [(count(), 1 << 30, 1), (repeat(None), 1 << 30, 1), (repeat(7), 1 << 30, 0), (repeat(7), 1, 2)],
    ids=["a disk", "who knows", "no disk", "broken off"],
)
async def test_slow_reads_are_aborted_and_threads_read_for_a_while_after_disk_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: Iterator[int | None], steps: int, hops: int
) -> None:
    monkeypatch.setattr(reads, "_STEPS", steps)
    mine, others = await opened(tmp_path), await opened(tmp_path)
    refs = (REF, DocumentRef("turns", "bb"))
    for ref in refs:
        await others.commit(batch(b"x", 0, ref))
    monkeypatch.setattr(reads, "_disk_waits", lambda: next(waits))
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_HELD_S", 0.0)
    counted = Hops(mine, monkeypatch)
    for ref in refs:
        assert await mine.get(SPACE, (ref,)) == [Document(ref, 1, b"x")]
    assert counted.count == hops
    await mine.close()
    await others.close()


async def test_cached_reads_validate_references_as_strictly(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    with pytest.raises(InvalidInput):
        await store.get(SPACE, (DocumentRef("turns", "a\nb"),))
    await store.close()


async def test_documents_read_together_are_from_one_point_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    await mine.commit(batch(b"0", 0))
    await mine.get(SPACE, (REF,))
    await others.commit(batch(b"1", 1))
    kept = mine._memo  # pyright: ignore[reportPrivateUsage]
    assert kept is not None
    version = kept.version()
    await others.commit(batch(b"2", 2))
    assert kept.documents(version, SPACE, (REF,)) is None
    assert await mine.get(SPACE, (REF,)) == [Document(REF, 3, b"2")]
    await mine.close()
    await others.close()


async def look(store: SqliteStore) -> None:
    """Read the end of the journal, like a follower."""
    entries = await store.journal(SPACE, after=0, limit=100)
    if entries:
        assert await store.journal(SPACE, after=entries[-1].sequence - 1, limit=100) == entries[-1:]


async def test_documents_unaffected_by_a_commit_are_not_reread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)
    other, tool = DocumentRef("turns", "bb"), DocumentRef("tools", "aa")
    for ref in (REF, other, tool):
        await store.commit(batch(b"0", 0, ref))
    await look(store)
    first = await store.get(SPACE, (REF, other)), await store.scan(SPACE, "tools", limit=9)
    read: list[Sequence[DocumentRef]] = []
    monkeypatch.setattr(reads, "scan_documents", None)

    def counted(raw: Raw, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        read.append(refs)
        return get_documents(raw, space, refs)

    monkeypatch.setattr(reads, "get_documents", counted)
    await store.commit(batch(b"1", 1))
    assert await store.get(SPACE, (other,)) == first[0][1:]
    await look(store)
    assert await store.scan(SPACE, "tools", limit=9) == first[1]
    assert await store.get(SPACE, (REF, other)) == [Document(REF, 2, b"1"), first[0][1]]
    assert read == [[REF]]
    await store.close()


async def test_documents_written_during_a_read_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_store.sqlite.reads.MEMO_AT_ONCE", 0)
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)
    read = store._read  # pyright: ignore[reportPrivateUsage]

    async def slow(*args: Any) -> Any:
        found = await read(*args)
        await store.commit(batch(b"1", 1))
        return found

    refs = (REF, DocumentRef("turns", "bb"))
    monkeypatch.setattr(store, "_read", slow)
    assert await store.get(SPACE, refs) == [Document(REF, 1, b"0"), None]
    monkeypatch.setattr(store, "_read", read)
    await look(store)
    assert await store.get(SPACE, refs) == [Document(REF, 2, b"1"), None]
    await store.close()


async def test_a_space_recreated_by_others_is_reread(tmp_path: Path) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    await mine.commit(batch(b"canary", 0))
    await look(mine)
    await mine.get(SPACE, (REF,))
    await others.erase(ErasureTarget(space=SPACE, at=AT, whole_space=True))
    anew = Batch(
        space=SPACE, at=Instant(2), entries=(EntryDraft(JournalAction.WRITE, REF),), puts=(PutChange(REF, b"anew", 0),)
    )
    await others.commit(anew)
    assert await mine.get(SPACE, (REF,)) == [Document(REF, 1, b"anew")]
    await mine.close()
    await others.close()


async def test_a_damaged_journal_does_not_prevent_document_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)
    await store.get(SPACE, (REF,))
    await store.commit(batch(b"1", 0, DocumentRef("turns", "bb")))

    def damaged(*_: object) -> Sequence[JournalEntry]:
        raise StoreCorrupt(what="journal entry 2")

    monkeypatch.setattr(reads, "journal_page", damaged)
    assert await store.get(SPACE, (REF,)) == [Document(REF, 1, b"0")]
    await store.close()


@pytest.mark.parametrize("seed", range(6))
async def test_reads_are_current_for_any_order_of_writes_and_erasures(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    handles = [await opened(tmp_path), await opened(tmp_path)]
    refs = [DocumentRef(collection, f"{place:02x}") for collection in ("turns", "tools") for place in range(4)]
    stands: dict[DocumentRef, Document] = {}
    for step in range(150):
        store, ref = dice.choice(handles), dice.choice(refs)
        revision = stands[ref].revision if ref in stands else 0
        match dice.randrange(8):
            case 0 | 1 | 2:
                body = b"%d" % step
                at = Instant(step)
                put = PutChange(ref, body, revision)
                await store.commit(
                    Batch(space=SPACE, at=at, entries=(EntryDraft(JournalAction.WRITE, ref),), puts=(put,))
                )
                stands[ref] = Document(ref, revision + 1, body)
            case 3 if revision:
                entries = (EntryDraft(JournalAction.DELETE, ref),)
                delete = DeleteChange(ref, revision)
                await store.commit(Batch(space=SPACE, at=Instant(step), entries=entries, deletes=(delete,)))
                del stands[ref]
            case 4 if step % 5 == 0:
                await store.erase(ErasureTarget(space=SPACE, at=Instant(step), refs=(ref,)))
                stands.pop(ref, None)
            case 5 if step % 9 == 0:
                await store.erase(ErasureTarget(space=SPACE, at=Instant(step), whole_space=True))
                stands.clear()
            case _:
                await look(store)
        reader = dice.choice(handles)
        if dice.random() < 0.5:
            await look(reader)
        some = dice.sample(refs, dice.randint(1, 5))
        assert await reader.get(SPACE, some) == [stands.get(each) for each in some]
        tools = [stands[each] for each in refs if each.collection == "tools" and each in stands]
        assert await reader.scan(SPACE, "tools", limit=9) == tools
    for store in handles:
        await store.close()
