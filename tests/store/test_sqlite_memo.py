"""What an SQLite handle remembers of its reads is never older than the last commit of anybody."""

from pathlib import Path

import pytest

from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Action, Batch, Delete, Document, Entry, Erasure, Put, Ref
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")
REF = Ref("turns", "aa")
AT = Instant(1)


async def opened(path: Path) -> SqliteStore:
    return await SqliteStore.open(path / "m.db", clock=FrozenClock(step_ms=1))


def batch(body: bytes, expects: int, ref: Ref = REF) -> Batch:
    return Batch(space=SPACE, at=AT, entries=(Entry(Action.WRITE, ref),), puts=(Put(ref, body, expects),))


async def test_a_commit_of_any_handle_is_read_at_once(tmp_path: Path) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    for revision, (writer, reader) in enumerate([(mine, mine), (others, mine), (mine, others), (others, mine)]):
        await writer.commit(batch(b"%d" % revision, revision))
        for _ in range(2):
            assert await reader.get(SPACE, (REF,)) == [Document(REF, revision + 1, b"%d" % revision)]
            assert [entry.sequence for entry in await reader.journal(SPACE, after=revision, limit=9)] == [revision + 1]
    await others.commit(Batch(space=SPACE, at=AT, entries=(Entry(Action.DELETE, REF),), deletes=(Delete(REF, 4),)))
    assert await mine.get(SPACE, (REF,)) == [None]
    await mine.close()
    await others.close()


async def test_what_is_erased_is_forgotten(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"canary", 0))
    await store.get(SPACE, (REF,))
    await store.erase(Erasure(space=SPACE, at=AT, refs=(REF,)))
    assert await store.get(SPACE, (REF,)) == [None]
    await store.close()


async def test_it_remembers_small_documents_within_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORE_MEMO_DOCUMENTS", 2)
    monkeypatch.setattr(limits, "STORE_MEMO_LOOKS", 1)
    store = await opened(tmp_path)
    refs = [Ref("turns", f"{place:02x}") for place in range(4)]
    for ref in refs:
        await store.commit(batch(b"x" * (9_000 if ref == refs[3] else 1), 0, ref))
    for _ in range(2):
        assert [document.ref for document in await store.get(SPACE, refs) if document is not None] == refs
        assert len(await store.journal(SPACE, after=3, limit=2)) == 1
        assert len(await store.journal(SPACE, after=2, limit=1)) == 1
        assert len(await store.journal(SPACE, after=0, limit=9)) == 4
    memo = store._memo  # pyright: ignore[reportPrivateUsage]
    assert memo is not None
    assert len(memo._documents) <= 2  # pyright: ignore[reportPrivateUsage]
    assert len(memo._looks) == 1  # pyright: ignore[reportPrivateUsage]
    memo._watch.close()  # pyright: ignore[reportPrivateUsage]
    assert memo.version() == 0
    assert [document.ref for document in await store.get(SPACE, refs) if document is not None] == refs
    await store.close()
