"""The SQLite engine: the shared suite in both journal modes, grouped commits, several processes, failing devices."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.store.handles import Handles, Opener
from tests.store.sqlite_rig import CLOCK, OLD, driver_error, failing, look, watched

from elytron_conformance import ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_conformance.examples import (
    ADA,
    AT,
    batch,
    documents,
    fact,
    journal,
    one,
    put,
    sequences,
    write_blob,
)
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import (
    Conflict,
    ElytronError,
    IdempotencyConflict,
    InvalidInput,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreUnavailable,
)
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, ErasureTarget, PutChange, RequireRevision
from elytron_store import limits as store_limits
from elytron_store.disk_reserve import DeviceBounds
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import WAL_SAFE_FROM, SqliteLibrary, sqlite_library

pytestmark = pytest.mark.anyio
WITH_WAL = SqliteLibrary(module=sqlite_library().module, version=WAL_SAFE_FROM)
"""The usual library, treated as one that may share a WAL."""


class TestSqliteStore(Handles, StoreSuite, ReopenSuite, SecondHandleSuite):
    """Every claim of the suite, on a WAL."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return partial(SqliteStore.open, tmp_path / "m.db", clock=CLOCK)


class TestRollbackJournal(Handles, SecondHandleSuite):
    """Two handles on a library that must not share a WAL."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return partial(SqliteStore.open, tmp_path / "m.db", clock=CLOCK, library=OLD)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    yield store
    await store.close()


async def test_commits_that_wait_together_share_a_flush(tmp_path: Path) -> None:
    seen = watched()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=seen)
    before = seen.commits
    await asyncio.gather(*(put(store, fact(number)) for number in range(64)))
    assert seen.commits - before == 1
    await store.close()


async def test_a_group_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_limits, "GROUP_BYTES", 2_000)
    monkeypatch.setattr("elytron_store.commit_queue.GROUP_BATCHES", 8)
    seen = watched()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=seen)
    before = seen.commits
    await asyncio.gather(*(put(store, fact(number), bytes(1_000)) for number in range(3)))
    await asyncio.gather(*(put(store, fact(number)) for number in range(3, 12)))
    assert seen.commits - before == 4
    await store.close()


async def test_the_wal_is_checkpointed_before_it_grows_long(tmp_path: Path) -> None:
    bounds = DeviceBounds(wal_bytes=64 * 1024)
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=WITH_WAL, bounds=bounds)
    for number in range(40):
        await put(store, fact(number), bytes(20_000))
    assert (tmp_path / "m.db-wal").stat().st_size < 300_000
    await store.close()


async def test_a_body_longer_than_a_quarter_page_needs_no_separate_page(tmp_path: Path) -> None:
    count, body = 600, bytes(1_200)
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await store.commit(batch(*(PutChange(fact(number), body, 0) for number in range(count))))
    await store.close()
    assert (tmp_path / "m.db").stat().st_size < 2 * count * len(body)


async def test_each_batch_of_a_group_succeeds_or_fails_independently(store: SqliteStore) -> None:
    first = BatchKey(key="k", digest="d", answer=b"answer")
    other = BatchKey(key="k", digest="e", answer=b"")
    told = await asyncio.gather(
        store.commit(batch(PutChange(fact(1), b"one", 0), idempotency=first)),
        store.commit(batch(PutChange(fact(2), b"two", 0), PutChange(fact(1), b"", 0))),
        store.commit(batch(PutChange(fact(3), b"three", 0), idempotency=other)),
        store.commit(batch(PutChange(fact(1), b"uno", 1))),
        store.commit(batch(PutChange(fact(1), b"one", 0), idempotency=first)),
        store.commit(batch(PutChange(fact(4), b"four", 0))),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in told] == [
        CommitReceipt,
        Conflict,
        IdempotencyConflict,
        CommitReceipt,
        CommitReceipt,
        CommitReceipt,
    ]
    assert told[4] == CommitReceipt(1, 1, replayed=True, answer=b"answer")
    assert await documents(store) == [Document(fact(1), 2, b"uno"), Document(fact(4), 1, b"four")]
    assert await sequences(store) == [1, 2, 3]


async def test_a_batch_of_a_group_sees_what_the_one_before_it_changed(store: SqliteStore) -> None:
    await put(store, fact(1))
    told = await asyncio.gather(
        put(store, fact(1), b"later", expects=1),
        store.commit(batch(PutChange(fact(2), b"", 0), RequireRevision(fact(1), 1))),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in told] == [CommitReceipt, Conflict]
    assert [document.ref for document in await documents(store)] == [fact(1)]


async def test_commits_keep_the_order_of_their_calls(store: SqliteStore) -> None:
    told = await asyncio.gather(*(put(store, fact(1), b"%d" % number, expects=number) for number in range(20)))
    assert list(told) == [CommitReceipt(number, number) for number in range(1, 21)]


async def test_an_unstorable_value_affects_no_neighbour(store: SqliteStore) -> None:
    told = await asyncio.gather(
        put(store, fact(1)),
        store.commit(batch(PutChange(fact(2), b"", 0), at=Instant(2**70))),
        store.commit(batch(PutChange(fact(3), b"", 0), idempotency=BatchKey(key="k", digest="\udc80", answer=b""))),
        put(store, fact(4)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in told] == [CommitReceipt, InvalidInput, InvalidInput, CommitReceipt]
    assert [kept.ref for kept in await journal(store)] == [fact(1), fact(4)]


async def test_all_callers_are_served_even_beyond_the_queue(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store_limits, "QUEUE_BATCHES", 8)
    small = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    told = await asyncio.gather(*(put(small, fact(number)) for number in range(50)))
    assert [committed.first for committed in told] == list(range(1, 51))
    await small.close()


APPEND = """
import asyncio, sys
from pathlib import Path
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict
from elytron_conformance.examples import fact, one, put
from elytron_store.sqlite import SqliteStore

async def main(path, own):
    store = await SqliteStore.open(Path(path), clock=FrozenClock())
    for start in range(0, 60, 6):
        await asyncio.gather(*(put(store, fact(1000 * own + start + number)) for number in range(6)))
        while True:
            found = await one(store, fact(0))
            revision, count = (found.revision, int(found.body)) if found else (0, 0)
            try:
                await put(store, fact(0), b"%d" % (count + 1), expects=revision)
            except Conflict:
                continue
            break
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_processes_that_contend_lose_nothing(store: SqliteStore, tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(tmp_path / "m.db"), str(own)], stderr=subprocess.PIPE)
        for own in (1, 2)
    ]
    told = [await asyncio.to_thread(writer.communicate, timeout=100) for writer in writers]
    assert [errors for _, errors in told] == [b"", b""]
    assert await one(store, fact(0)) == Document(fact(0), 20, b"20")
    assert len(await documents(store)) == 121
    assert await sequences(store) == list(range(1, 141))
    assert (await store.check()).ok


async def test_a_lock_held_too_long_is_reported_and_then_forgotten(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, busy_wait_s=0.05)
    with closing(sqlite_library().connect(str(tmp_path / "m.db"), wait_s=0.0)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await put(store, fact(1))
        assert await documents(store) == []
        other.execute("ROLLBACK")
    assert await put(store, fact(1)) == CommitReceipt(1, 1)
    await store.close()


async def test_a_full_device_refuses_and_a_later_write_succeeds(tmp_path: Path) -> None:
    device = failing()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    device.trouble.at["COMMIT"] = driver_error(13)
    told = await asyncio.gather(*(put(store, fact(number)) for number in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in told] == [StoreFull] * 3
    with pytest.raises(StoreFull):
        await write_blob(store, "aa", b"x")
    device.trouble.at.clear()
    assert await put(store, fact(1)) == CommitReceipt(1, 1)
    await store.close()


@pytest.mark.parametrize("error", [driver_error(10), RuntimeError("a broken driver")], ids=["input or output", "other"])
async def test_after_a_failed_commit_the_handle_accepts_no_writes(tmp_path: Path, error: Exception) -> None:
    device = failing()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    await put(store, fact(1))
    device.trouble.at["COMMIT"] = error
    with pytest.raises(StoreFailed):
        await put(store, fact(2))
    device.trouble.at.clear()
    for refused in (put(store, fact(3)), write_blob(store, "aa", b"x"), store.erase(ErasureTarget(space=ADA, at=AT))):
        with pytest.raises(StoreFailed):
            await refused
    assert await documents(store) == [Document(fact(1), 1, b"body")]
    await store.close()
    again = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    assert await put(again, fact(2)) == CommitReceipt(2, 2)
    await again.close()


async def test_a_failed_write_outside_the_queue_ends_the_handle_too(tmp_path: Path) -> None:
    device = failing()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    device.trouble.at["COMMIT"] = driver_error(10)
    with pytest.raises(StoreFailed):
        await write_blob(store, "aa", b"x")
    device.trouble.at.clear()
    with pytest.raises(StoreFailed):
        await put(store, fact(1))
    await store.close()


async def test_after_a_failed_erasure_the_handle_accepts_no_writes(tmp_path: Path) -> None:
    device = failing()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    await put(store, fact(1), b"body")
    device.trouble.at["DELETE"] = driver_error(10)
    with pytest.raises(StoreFailed):
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    device.trouble.at.clear()
    with pytest.raises(StoreFailed):
        await put(store, fact(2))
    await store.close()


@pytest.mark.parametrize(("code", "error"), [(14, StoreUnavailable), (5, StoreBusy), (10, StoreFailed)])
async def test_a_failed_read_is_reported_and_ends_nothing(tmp_path: Path, code: int, error: type[ElytronError]) -> None:
    device = failing()
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK, library=device)
    device.trouble.at["SELECT"] = driver_error(code)
    with pytest.raises(error):
        await one(store, fact(1))
    device.trouble.at.clear()
    assert await put(store, fact(1)) == CommitReceipt(1, 1)
    await store.close()


async def test_a_forked_child_is_told_to_open_its_own(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreUnavailable, match="forked"):
            await put(store, fact(1))
    assert await put(store, fact(1)) == CommitReceipt(1, 1)


@pytest.mark.parametrize("every", [1, 100], ids=["now and then", "when the store is closed"])
async def test_expired_answers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    monkeypatch.setattr(store_limits, "FORGET_EVERY", every)
    clock = FrozenClock(AT)
    store = await SqliteStore.open(tmp_path / "m.db", clock=clock)
    await store.commit(batch(PutChange(fact(1), b"", 0), idempotency=BatchKey(key="old", digest="", answer=b"")))
    clock.advance(1)
    last = BatchKey(key="last moment", digest="", answer=b"")
    await store.commit(batch(PutChange(fact(3), b"", 0), at=clock.now(), idempotency=last))
    clock.advance(limits.IDEMPOTENCY_KEEP_MS)
    later = clock.now()
    young = BatchKey(key="young", digest="", answer=b"")
    await store.commit(batch(PutChange(fact(2), b"", 0), at=later, idempotency=young))
    await store.close()
    assert look(tmp_path / "m.db", "SELECT key FROM idempotency ORDER BY key") == [("last moment",), ("young",)]


@pytest.mark.parametrize("becomes", ["nothing", "another"])
async def test_writes_to_a_removed_file_are_not_acknowledged(tmp_path: Path, becomes: str) -> None:
    store = await SqliteStore.open(tmp_path / "m.db", clock=CLOCK)
    await put(store, fact(1))
    await asyncio.to_thread(os.rename, tmp_path / "m.db", tmp_path / "moved.db")
    if becomes == "another":
        other = await SqliteStore.open(tmp_path / "other.db", clock=CLOCK)
        await other.close()
        await asyncio.to_thread(os.rename, tmp_path / "other.db", tmp_path / "m.db")
    for number in (2, 3):
        with pytest.raises(StoreFailed, match=r"its file 'm.db' was moved or replaced"):
            await put(store, fact(number))
    await store.close()


async def test_a_store_opened_by_a_relative_name_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await SqliteStore.open(Path("m.db"), clock=CLOCK)
    monkeypatch.chdir("/")
    await put(store, fact(1))
    await store.close()
