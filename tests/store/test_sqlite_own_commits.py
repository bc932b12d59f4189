"""A handle that is a file's only writer knows the end of a journal, and checks where it may not be."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.store.sqlite_rig import AT, REF, SPACE, batch, opened

from elytron_core.ports.store import Document, DocumentRef, ErasureTarget, JournalEntry
from elytron_store.sqlite import SqliteStore, reads, writes

pytestmark = pytest.mark.anyio


async def look(store: SqliteStore) -> None:
    """Read the end of the journal, like a follower."""
    entries = await store.journal(SPACE, after=0, limit=100)
    if entries:
        assert await store.journal(SPACE, after=entries[-1].sequence - 1, limit=100) == entries[-1:]


class Looks:
    """Counts reads of a journal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = reads.journal_page

        def counted(*args: Any) -> Sequence[JournalEntry]:
            self.count += 1
            return read(*args)

        monkeypatch.setattr(reads, "journal_page", counted)


async def sequences(store: SqliteStore, after: int) -> list[int]:
    return [entry.sequence for entry in await store.journal(SPACE, after=after, limit=9)]


async def test_a_sole_writer_knows_the_end_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, others = await opened(tmp_path), await opened(tmp_path)
    await mine.commit(batch(b"0", 0))
    await look(mine)
    looks = Looks(monkeypatch)
    for revision in (1, 2):
        await mine.commit(batch(b"%d" % revision, revision))
        assert await sequences(mine, revision) == [revision + 1]
        assert await sequences(mine, revision + 1) == []
        assert await mine.get(SPACE, (REF,)) == [Document(REF, revision + 1, b"%d" % revision)]
    assert looks.count == 0
    await others.commit(batch(b"3", 3))
    assert await sequences(mine, 2) == [3, 4]
    assert looks.count == 1
    await mine.close()
    await others.close()


async def test_writes_other_than_commits_make_a_handle_check_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)
    looks = Looks(monkeypatch)

    async def chunks() -> AsyncIterator[bytes]:
        yield b"a checkpoint"

    await store.write_blob(SPACE, "c0", chunks())
    assert await sequences(store, 0) == [1]
    assert looks.count == 1
    await store.erase(ErasureTarget(space=SPACE, at=AT, refs=(REF,)))
    assert await sequences(store, 0) == [1, 2]
    await store.close()


async def test_the_first_answered_caller_of_a_group_sees_the_whole_group(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)

    async def commit(key: str) -> list[int]:
        await store.commit(batch(b"x", 0, DocumentRef("turns", key)))
        return await sequences(store, 1)

    assert await asyncio.gather(commit("bb"), commit("cc")) == [[2, 3], [2, 3]]
    await store.close()


class Held:
    """Blocks a module's work in the writer's thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        self._begun, self._go_on, self._act = threading.Event(), threading.Event(), getattr(module, name)
        monkeypatch.setattr(module, name, self._held)

    def _held(self, *args: Any) -> Any:
        self._begun.set()
        assert self._go_on.wait(60)
        return self._act(*args)

    async def left(self, call: Coroutine[Any, Any, object]) -> None:
        """Start `call`, and cancel it while the thread is working."""
        going = asyncio.create_task(call)
        assert await asyncio.to_thread(self._begun.wait, 60)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    async def finished(self, store: SqliteStore) -> None:
        """Let the thread continue, and wait until it is done."""
        self._go_on.set()
        while not store._writer.is_resting:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)


async def test_a_commit_of_a_cancelled_caller_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)
    held = Held(monkeypatch, writes, "apply_group")
    await held.left(store.commit(batch(b"1", 1)))
    assert await sequences(store, 0) == [1]
    await held.finished(store)
    assert await sequences(store, 0) == [1, 2]
    assert await store.get(SPACE, (REF,)) == [Document(REF, 2, b"1")]
    await store.close()


async def test_an_erasure_of_a_cancelled_caller_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)
    await store.commit(batch(b"0", 0))
    await look(store)
    await store.commit(batch(b"0", 0, DocumentRef("turns", "bb")))
    held = Held(monkeypatch, writes, "erase_rows")
    await held.left(store.erase(ErasureTarget(space=SPACE, at=AT, refs=(REF,))))
    assert await sequences(store, 1) == [2]
    assert await store.get(SPACE, (REF,)) == [Document(REF, 1, b"0")]
    await held.finished(store)
    assert await sequences(store, 1) == [2, 3]
    assert await store.get(SPACE, (REF,)) == [None]
    await store.close()
