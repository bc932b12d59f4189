"""Claims about journal compaction: each run without live content becomes one entry, and everything else stays."""

from functools import partial

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    NOWHERE,
    Claims,
    batch,
    documents,
    fact,
    journal,
    put,
    refusals,
    sequences,
    spaces,
)
from elytron_core.errors import Conflict, InvalidInput
from elytron_core.ports.store import (
    COMPACTION_REF,
    ERASURE_REF,
    CommitReceipt,
    CompactedRun,
    Document,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    Store,
)


async def erased(store: Store, *numbers: int) -> ErasureReceipt:
    return await store.erase(ErasureTarget(space=ADA, at=AT, refs=tuple(map(fact, numbers))))


def stand_in(run: CompactedRun) -> JournalEntry:
    """Return the entry that replaces a compacted run."""
    return JournalEntry(run.last, AT, JournalAction.ERASE, COMPACTION_REF, run.digest, covers=run.last - run.first + 1)


class CompactionClaims(Claims):
    """Claims about `compact`."""

    async def test_a_run_that_tells_of_nothing_becomes_one_entry_and_all_else_stays(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"%d" % number, 0) for number in range(5))))
        await put(store, fact(1), b"bob's", space=BOB)
        await erased(store, 1, 2, 3)
        before = await journal(store)
        run = CompactedRun(2, 4, "sum")
        assert await store.compact(ADA, [run]) == 2
        assert await journal(store) == [before[0], stand_in(run), *before[4:]]
        assert await documents(store) == [Document(fact(0), 1, b"0"), Document(fact(4), 1, b"4")]
        assert len(await journal(store, space=BOB)) == 1
        assert (await store.check()).ok
        assert await put(store, fact(9)) == CommitReceipt(7, 7)

    async def test_a_reader_within_a_run_is_given_what_stands_for_it(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(6))))
        await erased(store, 1, 2, 3)
        run = CompactedRun(2, 4)
        await store.compact(ADA, [run])
        for after in (1, 2, 3):
            assert (await store.journal(ADA, after=after, limit=2))[0] == stand_in(run)
        assert [journal_entry.sequence for journal_entry in await store.journal(ADA, after=4, limit=2)] == [5, 6]
        assert [journal_entry.sequence for journal_entry in await store.journal(ADA, after=0, limit=2)] == [1, 4]
        assert list(await store.journal(ADA, after=7, limit=2)) == []

    async def test_runs_join_and_grow(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(6))))
        await erased(store, 0, 1, 3, 4)
        assert await store.compact(ADA, [CompactedRun(1, 2, "a"), CompactedRun(4, 5, "b")]) == 2
        await erased(store, 2)
        assert await store.compact(ADA, [CompactedRun(1, 5, "c")]) == 2
        assert await sequences(store) == [5, 6, 7, 8]
        assert (await journal(store))[0] == stand_in(CompactedRun(1, 5, "c"))
        assert (await store.check()).ok

    async def test_a_compaction_that_is_repeated_changes_nothing(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(3))))
        await erased(store, 0, 1, 2)
        run = CompactedRun(1, 3, "sum")
        await store.compact(ADA, [run])
        before = await journal(store)
        assert await store.compact(ADA, [run]) == 0
        assert await journal(store) == before

    async def test_what_tells_of_something_is_not_compacted_nor_any_run_beside_it(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(4))))
        await erased(store, 0, 1)
        await erased(store)
        before = await journal(store)
        runs = [
            (CompactedRun(1, 3),),
            (CompactedRun(2, 4),),
            *((CompactedRun(1, 2), run) for run in (CompactedRun(3, 5), CompactedRun(5, 9), CompactedRun(8, 9))),
        ]
        calls = {each: partial(store.compact, ADA, each) for each in runs}
        assert await refusals(calls) == dict.fromkeys(runs, Conflict)
        assert await journal(store) == before

    async def test_half_of_a_compacted_run_is_none(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(5))))
        await erased(store, 0, 1, 2, 3)
        await store.compact(ADA, [CompactedRun(1, 3, "sum")])
        calls = {
            run: partial(store.compact, ADA, [run])
            for run in (CompactedRun(2, 4), CompactedRun(1, 2), CompactedRun(1, 3, "other"))
        }
        assert await refusals(calls) == dict.fromkeys(calls, Conflict)

    async def test_runs_out_of_order_or_of_one_entry_are_refused(self, store: Store) -> None:
        wrong = (
            (CompactedRun(1, 1),),
            (CompactedRun(0, 2),),
            (CompactedRun(4, 5), CompactedRun(1, 2)),
            (CompactedRun(1, 3), CompactedRun(3, 4)),
        )
        calls = {runs: partial(store.compact, ADA, runs) for runs in wrong}
        assert await refusals(calls) == dict.fromkeys(wrong, InvalidInput)

    async def test_a_space_that_is_not_there_has_no_runs(self, store: Store) -> None:
        assert await store.compact(NOWHERE, []) == 0
        with pytest.raises(Conflict):
            await store.compact(NOWHERE, [CompactedRun(1, 2)])
        assert await spaces(store) == set()

    async def test_an_erasure_takes_nothing_from_what_stands_for_a_run(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(3))))
        await erased(store, 0, 1)
        await store.compact(ADA, [CompactedRun(1, 2, "sum")])
        assert await erased(store, 0, 1, 2) == ErasureReceipt(documents=1, blobs=0, entries_scrubbed=1, sequence=5)
        assert (await journal(store))[0] == stand_in(CompactedRun(1, 2, "sum"))
        everything = await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert everything == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=4, sequence=0)

    async def test_a_restored_journal_keeps_the_places_of_its_runs(self, store: Store) -> None:
        drafts = (
            EntryDraft(JournalAction.ERASE, COMPACTION_REF, "sum", covers=41),
            EntryDraft(JournalAction.WRITE, fact(1), "5eed"),
            EntryDraft(JournalAction.ERASE, ERASURE_REF),
        )
        assert await store.commit(batch(PutChange(fact(1), b"", 0), entries=drafts)) == CommitReceipt(1, 43)
        assert [(journal_entry.first, journal_entry.sequence) for journal_entry in await journal(store)] == [
            (1, 41),
            (42, 42),
            (43, 43),
        ]
        assert await put(store, fact(2)) == CommitReceipt(44, 44)
        assert (await store.check()).ok
        with pytest.raises(InvalidInput):
            await store.commit(
                batch(PutChange(fact(3), b"", 0), entries=(EntryDraft(JournalAction.WRITE, fact(3), covers=0),))
            )
