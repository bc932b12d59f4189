"""A bounded store keeps the port's guarantees, and accepts nothing beyond its limits."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from elytron_conformance import StoreSuite
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Conflict, IdempotencyConflict, StoreBudgetExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    DeleteChange,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
    Store,
)
from elytron_core.profiles import StoreCapacity
from elytron_store.memory import MemoryStore
from elytron_store.sqlite import SqliteStore
from elytron_store.wrappers.capacity import CapacityStore

ROOMY = StoreCapacity(records=100_000, events=100_000, blob_bytes=1 << 30, snapshot_bytes=1 << 30)
SMALL = StoreCapacity(records=3, events=6, blob_bytes=10, snapshot_bytes=100)
SPACE = SpaceId("s")
AT = Instant(1)
NAMES = ("things",)


class TestQuotaOverMemory(StoreSuite):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = await CapacityStore.open(MemoryStore(), ROOMY, collections=NAMES)
        yield store
        await store.close()


pytestmark = pytest.mark.anyio


def ref(key: int) -> DocumentRef:
    return DocumentRef("things", f"{key:x}")


def batch(*puts: PutChange, deletes: Sequence[DeleteChange] = (), space: SpaceId = SPACE) -> Batch:
    changed = (*puts, *deletes)
    entries = tuple(EntryDraft(JournalAction.WRITE, change.ref, "d") for change in changed)
    return Batch(space=space, at=AT, entries=entries, puts=puts, deletes=tuple(deletes))


async def small(inner: Store | None = None) -> CapacityStore:
    return await CapacityStore.open(inner or MemoryStore(), SMALL, collections=NAMES, blobs=("c0",))


async def one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_an_oversized_batch_is_refused_completely() -> None:
    store = await small()
    await store.commit(batch(PutChange(ref(1), b"x", 0), PutChange(ref(2), b"x", 0)))
    with pytest.raises(StoreBudgetExceeded) as refused:
        await store.commit(batch(PutChange(ref(3), b"x", 0), PutChange(ref(4), b"x", 0)))
    assert refused.value.details() == {"what": "records", "limit": 3}
    assert list(await store.get(SPACE, (ref(3), ref(4)))) == [None, None]
    assert store.usage == StoreCapacity(records=2, events=2, blob_bytes=0, snapshot_bytes=2)
    assert store.capacity == SMALL


async def test_each_limit_is_reported_by_name() -> None:
    store = await small()
    with pytest.raises(StoreBudgetExceeded, match="100 snapshot bytes"):
        await store.commit(batch(PutChange(ref(1), b"x" * 101, 0)))
    for revision in range(6):
        await store.commit(batch(PutChange(ref(1), b"x", revision)))
    with pytest.raises(StoreBudgetExceeded, match="6 events"):
        await store.commit(batch(PutChange(ref(1), b"x", 6)))
    with pytest.raises(StoreBudgetExceeded, match="10 blob bytes"):
        await store.write_blob(SPACE, "c0", one(b"x" * 11))
    assert await store.write_blob(SPACE, "c0", one(b"x" * 10)) == 10
    assert await store.write_blob(SPACE, "c0", one(b"y" * 10)) == 10


async def test_a_full_store_is_read_and_erased_from() -> None:
    store = await small()
    for key in range(3):
        await store.commit(batch(PutChange(ref(key), b"x", 0)))
    await store.write_blob(SPACE, "c0", one(b"x" * 10))
    assert len(await store.scan(SPACE, "things", limit=10)) == 3
    await store.erase(ErasureTarget(space=SPACE, at=AT, refs=(ref(0), ref(9)), blobs=("c0", "c9")))
    assert store.usage == StoreCapacity(records=2, events=2, blob_bytes=0, snapshot_bytes=2)
    await store.commit(batch(PutChange(ref(5), b"x", 0), deletes=(DeleteChange(ref(1), 1),)))
    assert store.usage.records == 2
    await store.erase(ErasureTarget(space=SPACE, at=AT, whole_space=True))
    assert store.usage == StoreCapacity(records=0, events=0, blob_bytes=0, snapshot_bytes=0)


async def test_a_full_store_accepts_retractions() -> None:
    store = await small()
    for revision in range(6):
        await store.commit(batch(PutChange(ref(1), b"x", revision)))
    hidden = batch(PutChange(ref(1), b"hidden", 6))
    with pytest.raises(StoreBudgetExceeded):
        await store.commit(hidden)
    await store.commit(replace(hidden, takes_back=True))
    assert store.usage.events == 7


async def test_erased_entries_are_not_events_now_or_after_reopening() -> None:
    inner = MemoryStore()
    store = await small(inner)
    for _ in range(20):
        await store.commit(batch(PutChange(ref(1), b"x", 0)))
        await store.erase(ErasureTarget(space=SPACE, at=AT, refs=(ref(1),)))
    assert (
        store.usage == (await small(inner)).usage == StoreCapacity(records=0, events=0, blob_bytes=0, snapshot_bytes=0)
    )


async def test_a_refused_or_repeated_batch_uses_no_room() -> None:
    store = await small()
    keyed = replace(batch(PutChange(ref(1), b"x", 0)), idempotency=BatchKey("k", "digest", b"answer"))
    await store.commit(keyed)
    assert (await store.commit(keyed)).replayed
    with pytest.raises(Conflict):
        await store.commit(batch(PutChange(ref(1), b"x", 5)))
    assert store.usage == StoreCapacity(records=1, events=1, blob_bytes=0, snapshot_bytes=1)


async def test_a_full_store_answers_a_repeat_too() -> None:
    store = await small()
    keyed = replace(batch(PutChange(ref(1), b"x", 0)), idempotency=BatchKey("k", "digest", b"answer"))
    await store.commit(keyed)
    for key in (2, 3):
        await store.commit(batch(PutChange(ref(key), b"x", 0)))
    # The same request, planned again on the current state.
    again = replace(keyed, puts=(PutChange(ref(4), b"x", 0),))
    assert (await store.commit(again)).answer == b"answer"
    with pytest.raises(IdempotencyConflict):
        await store.commit(replace(again, idempotency=BatchKey("k", "other", b"")))
    with pytest.raises(StoreBudgetExceeded):
        await store.commit(replace(again, idempotency=BatchKey("new", "digest", b"")))


async def test_usage_is_counted_at_opening_and_after_a_repair() -> None:
    inner = MemoryStore()
    first = await small(inner)
    await first.commit(batch(PutChange(ref(1), b"xx", 0)))
    await first.commit(batch(PutChange(ref(1), b"x", 0), space=SpaceId("t")))
    await first.write_blob(SPACE, "c0", one(b"xyz"))
    again = await small(inner)
    assert again.usage == first.usage == StoreCapacity(records=2, events=2, blob_bytes=3, snapshot_bytes=3)
    await again.repair()
    assert again.usage == first.usage
    assert (await again.check()).ok
    assert list(await again.spaces(limit=5)) == list(await inner.spaces(limit=5))
    assert [entry.sequence for entry in await again.journal(SPACE, after=0, limit=5)] == [1]
    assert b"".join([chunk async for chunk in again.read_blob(SPACE, "c0")]) == b"xyz"


async def test_quarantined_data_frees_its_room(tmp_path: Path) -> None:
    inner = await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock())
    store = await small(inner)
    await store.commit(batch(PutChange(ref(1), b"whole", 0), PutChange(ref(2), b"damaged", 0)))
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as raw:
        raw.execute("UPDATE documents SET body = ? WHERE body = ?", (b"DAMAGED", b"damaged"))
    assert not (await store.repair()).ok
    assert store.usage == StoreCapacity(records=1, events=2, blob_bytes=0, snapshot_bytes=5)
    await store.close()
