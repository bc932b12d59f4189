"""Claims about two handles of one store, as two processes would have."""

import asyncio

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    JOBS,
    Claims,
    batch,
    blob,
    delete,
    documents,
    fact,
    journal,
    one,
    put,
    sequences,
    spaces,
    spaces_with_jobs,
    write_blob,
)
from elytron_core.errors import Conflict, IdempotencyConflict, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, ErasureReceipt, ErasureTarget, PutChange, Store


class SecondHandleSuite(Claims):
    """Claims for stores that allow several handles. Subclasses add the fixture `second`: another handle on `store`."""

    async def test_it_declares_many_writers_and_that_a_reader_sees_them(self, store: Store, second: Store) -> None:
        assert store.capabilities == second.capabilities
        assert (store.capabilities.single_writer, store.capabilities.following) == (False, True)

    async def test_each_sees_what_the_other_committed(self, store: Store, second: Store) -> None:
        for number in range(0, 6, 2):
            await put(store, fact(number), b"store")
            assert await one(second, fact(number)) == Document(fact(number), 1, b"store")
            await put(second, fact(number + 1), b"second")
            assert await one(store, fact(number + 1)) == Document(fact(number + 1), 1, b"second")
        assert await documents(store) == await documents(second)
        assert await journal(store) == await journal(second)
        assert await sequences(store) == list(range(1, 7))

    async def test_each_sees_what_the_other_deleted_and_replaced(self, store: Store, second: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        assert len(await documents(second)) == 2
        await put(second, fact(1), b"uno", expects=1)
        await delete(second, fact(2), expects=1)
        assert await documents(store) == [Document(fact(1), 2, b"uno")]

    async def test_preconditions_hold_between_handles(self, store: Store, second: Store) -> None:
        assert await one(second, fact(1)) is None
        await put(store, fact(1), b"first")
        with pytest.raises(Conflict) as refused:
            await put(second, fact(1), b"second")
        assert (refused.value.expected, refused.value.found) == (0, 1)

    async def test_idempotency_keys_hold_between_handles(self, store: Store, second: Store) -> None:
        once = batch(PutChange(fact(1), b"", 0), idempotency=BatchKey(key="k", digest="d", answer=b"answer"))
        await store.commit(once)
        assert await second.commit(once) == CommitReceipt(1, 1, replayed=True, answer=b"answer")
        with pytest.raises(IdempotencyConflict):
            await second.commit(
                batch(PutChange(fact(2), b"", 0), idempotency=BatchKey(key="k", digest="e", answer=b""))
            )

    async def test_new_spaces_are_seen_by_both(self, store: Store, second: Store) -> None:
        assert await spaces(second) == set()
        await put(store, fact(1), space=SpaceId("one"))
        await put(second, fact(1), space=SpaceId("two"))
        assert await spaces(store) == await spaces(second) == {SpaceId("one"), SpaceId("two")}

    async def test_each_lists_the_spaces_with_jobs_of_the_other(self, store: Store, second: Store) -> None:
        assert await spaces_with_jobs(second) == set()
        await put(store, JOBS, space=SpaceId("one"))
        await put(second, JOBS, space=SpaceId("two"))
        assert await spaces_with_jobs(store) == await spaces_with_jobs(second) == {SpaceId("one"), SpaceId("two")}
        await delete(second, JOBS, expects=1, space=SpaceId("one"))
        assert await spaces_with_jobs(store) == await spaces_with_jobs(second) >= {SpaceId("two")}

    async def test_blobs_are_seen_by_both(self, store: Store, second: Store) -> None:
        await write_blob(store, "aa", b"first")
        assert await blob(second, "aa") == b"first"
        await write_blob(second, "aa", b"second")
        assert await blob(store, "aa") == b"second"

    async def test_an_erasure_reaches_the_other_handle(self, store: Store, second: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        await write_blob(store, "aa", b"x")
        assert len(await documents(second)) == 2
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),), blobs=("aa",)))
        assert await documents(second) == [Document(fact(2), 1, b"two")]
        assert await journal(second) == await journal(store)
        with pytest.raises(NotFound):
            await blob(second, "aa")
        assert await put(second, fact(3)) == CommitReceipt(4, 4)
        assert await one(store, fact(3)) == Document(fact(3), 1, b"body")

    async def test_the_erasure_of_a_space_reaches_the_other_handle(self, store: Store, second: Store) -> None:
        await put(store, fact(1))
        await put(second, fact(2))
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert erased == ErasureReceipt(documents=2, blobs=0, entries_scrubbed=2, sequence=0)
        assert await documents(second) == []
        assert await journal(second) == []
        assert await put(second, fact(3)) == CommitReceipt(1, 1)
        assert await documents(store) == [Document(fact(3), 1, b"body")]
        await second.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert await put(store, fact(4)) == CommitReceipt(1, 1)
        assert await documents(second) == [Document(fact(4), 1, b"body")]

    async def test_both_may_commit_at_once_without_a_gap(self, store: Store, second: Store) -> None:
        handles = [store, second] * 16
        receipts = await asyncio.gather(*(put(handle, fact(number)) for number, handle in enumerate(handles)))
        assert sorted(committed.first for committed in receipts) == list(range(1, 33))
        assert await sequences(store) == await sequences(second) == list(range(1, 33))
        assert await documents(store) == await documents(second)

    async def test_closing_one_leaves_the_other_working(self, store: Store, second: Store) -> None:
        await put(second, fact(1))
        await second.close()
        await put(store, fact(2))
        assert len(await documents(store)) == 2
