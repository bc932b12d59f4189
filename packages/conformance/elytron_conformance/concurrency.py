"""Claims about concurrent callers and about cancelled calls."""

import asyncio

from elytron_conformance.examples import (
    ADA,
    Claims,
    batch,
    blob,
    documents,
    fact,
    journal,
    one,
    put,
    sequences,
    spaces,
    write_blob,
)
from elytron_core.errors import Conflict, StoreClosed
from elytron_core.ids import SpaceId
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, DocumentRef, PutChange, Store


class ConcurrencyClaims(Claims):
    """Claims about overlapping commits in one event loop."""

    async def test_many_commits_in_one_space_are_gapless_and_all_there(self, store: Store) -> None:
        batches = [
            batch(PutChange(fact(number), b"%d" % number, 0), PutChange(fact(number + 64), b"", 0))
            for number in range(64)
        ]
        receipts = await asyncio.gather(*(store.commit(each) for each in batches))
        assert sorted(committed.first for committed in receipts) == list(range(1, 129, 2))
        assert all(committed.last == committed.first + 1 for committed in receipts)
        assert await sequences(store) == list(range(1, 129))
        assert await documents(store) == [
            *(Document(fact(number), 1, b"%d" % number) for number in range(64)),
            *(Document(fact(number), 1, b"") for number in range(64, 128)),
        ]
        by_sequence = {journal_entry.sequence: journal_entry.ref for journal_entry in await journal(store)}
        assert [by_sequence[committed.first] for committed in receipts] == [fact(number) for number in range(64)]

    async def test_many_commits_over_many_spaces_are_gapless_in_each(self, store: Store) -> None:
        names = [SpaceId(f"space {number}") for number in range(8)]
        await asyncio.gather(*(put(store, fact(turn), space=name) for turn in range(8) for name in names))
        for name in names:
            assert await sequences(store, space=name) == list(range(1, 9))
            assert len(await documents(store, space=name)) == 8
        assert await spaces(store) == set(names)

    async def test_of_many_writers_of_one_document_one_wins(self, store: Store) -> None:
        outcomes = await asyncio.gather(
            *(put(store, fact(1), b"%d" % number) for number in range(16)), return_exceptions=True
        )
        winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, CommitReceipt)]
        conflicts = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert (len(winners), len(conflicts)) == (1, 15)
        assert {(conflict.expected, conflict.found) for conflict in conflicts} == {(0, 1)}
        assert await one(store, fact(1)) == Document(fact(1), 1, b"%d" % winners[0])

    async def test_a_counter_raised_by_many_loses_no_step(self, store: Store) -> None:
        async def raise_by_one() -> None:
            while True:
                document = await one(store, fact(1))
                revision, count = (document.revision, int(document.body)) if document else (0, 0)
                try:
                    await put(store, fact(1), b"%d" % (count + 1), expects=revision)
                except Conflict:
                    continue
                return

        await asyncio.gather(*(raise_by_one() for _ in range(12)))
        assert await one(store, fact(1)) == Document(fact(1), 12, b"12")

    async def test_one_request_sent_many_times_at_once_is_applied_once(self, store: Store) -> None:
        once = batch(PutChange(fact(1), b"", 0), idempotency=BatchKey(key="k", digest="d", answer=b"answer"))
        receipts = await asyncio.gather(*(store.commit(once) for _ in range(16)))
        assert sorted(receipts, key=lambda committed: committed.replayed) == [
            CommitReceipt(1, 1, answer=b"answer"),
            *[CommitReceipt(1, 1, replayed=True, answer=b"answer")] * 15,
        ]
        assert await sequences(store) == [1]

    async def test_one_request_that_each_caller_plans_anew_is_applied_once(self, store: Store) -> None:
        once = BatchKey(key="k", digest="d", answer=b"answer")
        receipts = await asyncio.gather(
            *(store.commit(batch(PutChange(fact(number), b"", 0), idempotency=once)) for number in range(4))
        )
        assert sorted(receipts, key=lambda committed: committed.replayed) == [
            CommitReceipt(1, 1, answer=b"answer"),
            *[CommitReceipt(1, 1, replayed=True, answer=b"answer")] * 3,
        ]
        assert len(await documents(store)) == 1
        assert await put(store, fact(9)) == CommitReceipt(2, 2)

    async def test_a_reader_among_writers_sees_whole_batches_in_order(self, store: Store) -> None:
        left, right = fact(1), DocumentRef("turns", "0001")
        await store.commit(batch(PutChange(left, b"0", 0), PutChange(right, b"0", 0)))

        async def write() -> None:
            for number in range(1, 12):
                body = b"%d" % number
                await store.commit(batch(PutChange(left, body, number), PutChange(right, body, number)))

        async def read() -> None:
            last = 0
            while last < 11:
                one_read, other = await store.get(ADA, [left, right])
                assert one_read is not None
                assert other is not None
                assert one_read.body == other.body
                assert int(one_read.body) >= last
                last = int(one_read.body)
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

    async def test_a_cancelled_commit_is_there_whole_or_not_at_all(self, store: Store) -> None:
        for turns in range(8):
            space = SpaceId(f"space {turns}")
            await put(store, fact(0), space=space)
            two = batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), space=space)
            task = asyncio.create_task(store.commit(two))
            others = [asyncio.create_task(put(store, fact(number), space=space)) for number in range(3, 6)]
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.gather(*others)
            await put(store, fact(6), space=space)
            there = {document.ref for document in await documents(store, space=space)}
            assert there & {fact(1), fact(2)} in (set(), {fact(1), fact(2)})
            assert there >= {fact(0), fact(3), fact(4), fact(5), fact(6)}
            entries = await journal(store, space=space)
            assert [journal_entry.sequence for journal_entry in entries] == list(range(1, len(entries) + 1))
            assert {journal_entry.ref for journal_entry in entries} == there
        assert (await store.check()).ok

    async def test_a_cancelled_blob_leaves_the_old_one_or_the_new_one(self, store: Store) -> None:
        await write_blob(store, "aa", b"old")
        for turns in range(8):
            task = asyncio.create_task(write_blob(store, "aa", b"new", b"%d" % turns))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await write_blob(store, "ab", b"next")
            assert await blob(store, "aa") in {b"old", *(b"new%d" % turn for turn in range(8))}
        assert (await store.check()).blobs == 2

    async def test_closing_answers_each_commit_under_way(self, store: Store) -> None:
        tasks = [asyncio.create_task(put(store, fact(number))) for number in range(8)]
        await asyncio.sleep(0)
        await store.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, (CommitReceipt, StoreClosed)) for outcome in outcomes)
