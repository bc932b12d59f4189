"""Claims about erasure: only the named content is removed, and the journal keeps its sequence."""

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    NOWHERE,
    Claims,
    batch,
    blob,
    delete,
    documents,
    entry,
    fact,
    journal,
    one,
    put,
    spaces,
    write_blob,
)
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, NotFound
from elytron_core.ports.store import (
    ERASURE_REF,
    BatchKey,
    CommitReceipt,
    DeleteChange,
    Document,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    Store,
)

LATER = Instant(AT + 1)
ONCE = BatchKey(key="k", digest="d", answer=b"answer")


class ErasureClaims(Claims):
    """Claims about `erase`."""

    async def test_erased_documents_are_gone_and_their_entries_lose_the_digest(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        await put(store, fact(1), b"uno", expects=1)
        erased = await store.erase(ErasureTarget(space=ADA, at=LATER, refs=(fact(1),)))
        assert erased == ErasureReceipt(documents=1, blobs=0, entries_scrubbed=2, sequence=4)
        assert await documents(store) == [Document(fact(2), 1, b"two")]
        assert await journal(store) == [
            JournalEntry(1, AT, JournalAction.WRITE, fact(1), ""),
            JournalEntry(2, AT, JournalAction.WRITE, fact(2), "5eed"),
            JournalEntry(3, AT, JournalAction.WRITE, fact(1), ""),
            JournalEntry(4, LATER, JournalAction.ERASE, ERASURE_REF, ""),
        ]

    async def test_an_erasure_names_in_the_journal_what_it_is_to_name(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(3))))
        refs, journal_refs = (fact(0), fact(1), fact(2)), (fact(2), fact(0))
        erased = await store.erase(ErasureTarget(space=ADA, at=LATER, refs=refs, named=journal_refs))
        assert erased == ErasureReceipt(documents=3, blobs=0, entries_scrubbed=3, sequence=6)
        assert (await journal(store))[3:] == [
            JournalEntry(4, LATER, JournalAction.DELETE, fact(2), ""),
            JournalEntry(5, LATER, JournalAction.DELETE, fact(0), ""),
            JournalEntry(6, LATER, JournalAction.ERASE, ERASURE_REF, ""),
        ]
        with pytest.raises(InvalidInput):
            await store.erase(ErasureTarget(space=ADA, at=LATER, refs=(fact(0),), named=(fact(1),)))

    async def test_a_deleted_document_can_still_be_erased_from_the_journal(self, store: Store) -> None:
        await put(store, fact(1))
        await delete(store, fact(1), expects=1)
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert erased == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=2, sequence=3)
        assert [journal_entry.digest for journal_entry in await journal(store)] == ["", "", ""]

    async def test_entries_without_a_digest_are_not_counted_as_scrubbed(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"", 0), entries=(entry(fact(1), digest=""), entry(fact(1)))))
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert erased == ErasureReceipt(documents=1, blobs=0, entries_scrubbed=1, sequence=3)

    async def test_an_erased_document_can_be_written_anew(self, store: Store) -> None:
        await put(store, fact(1), b"old")
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        with pytest.raises(Conflict):
            await put(store, fact(1), b"new", expects=1)
        assert await put(store, fact(1), b"new") == CommitReceipt(3, 3)
        assert await one(store, fact(1)) == Document(fact(1), 1, b"new")

    async def test_erased_blobs_are_gone_and_others_stay(self, store: Store) -> None:
        await write_blob(store, "aa", b"one")
        await write_blob(store, "ab", b"two")
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))
        assert erased == ErasureReceipt(documents=0, blobs=1, entries_scrubbed=0, sequence=1)
        with pytest.raises(NotFound):
            await blob(store, "aa")
        assert await blob(store, "ab") == b"two"

    async def test_absent_things_are_no_error_and_still_leave_an_entry(self, store: Store) -> None:
        await put(store, fact(1))
        erased = await store.erase(ErasureTarget(space=ADA, at=LATER, refs=(fact(7), fact(7)), blobs=("aa", "aa")))
        assert erased == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=2)
        assert (await journal(store))[1:] == [JournalEntry(2, LATER, JournalAction.ERASE, ERASURE_REF, "")]

    async def test_a_ref_named_twice_is_counted_once(self, store: Store) -> None:
        await put(store, fact(1))
        await write_blob(store, "aa", b"x")
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1), fact(1)), blobs=("aa", "aa")))
        assert erased == ErasureReceipt(documents=1, blobs=1, entries_scrubbed=1, sequence=2)

    async def test_commits_go_on_behind_the_entry_of_an_erasure(self, store: Store) -> None:
        await put(store, fact(1))
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert await put(store, fact(2)) == CommitReceipt(3, 3)

    async def test_a_repeated_request_is_still_answered_after_an_erasure(self, store: Store) -> None:
        once = batch(PutChange(fact(1), b"", 0), idempotency=ONCE)
        await store.commit(once)
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert await store.commit(once) == CommitReceipt(1, 1, replayed=True, answer=ONCE.answer)
        assert await one(store, fact(1)) is None

    async def test_a_whole_space_goes_with_journal_blobs_and_keys(self, store: Store) -> None:
        once = batch(PutChange(fact(1), b"", 0), PutChange(fact(2), b"", 0), idempotency=ONCE)
        await store.commit(once)
        await write_blob(store, "aa", b"x")
        await put(store, fact(1), b"bob's", space=BOB)
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert erased == ErasureReceipt(documents=2, blobs=1, entries_scrubbed=2, sequence=0)
        assert await documents(store) == []
        assert await journal(store) == []
        with pytest.raises(NotFound):
            await blob(store, "aa")
        assert await spaces(store) == {BOB}

    async def test_a_space_can_live_again_after_it_was_erased(self, store: Store) -> None:
        once = batch(PutChange(fact(1), b"again", 0), idempotency=ONCE)
        await store.commit(once)
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert await store.commit(once) == CommitReceipt(1, 1, answer=ONCE.answer)
        assert await one(store, fact(1)) == Document(fact(1), 1, b"again")
        assert await spaces(store) == {ADA}

    async def test_erasing_a_space_that_is_not_there_does_nothing(self, store: Store) -> None:
        erased = await store.erase(ErasureTarget(space=NOWHERE, at=AT, whole_space=True))
        assert erased == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
        assert await spaces(store) == set()

    async def test_what_was_not_named_is_untouched(self, store: Store) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"%d" % number, 0) for number in range(50))))
        await store.commit(batch(DeleteChange(fact(49), 1)))
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=tuple(fact(number) for number in range(0, 50, 2))))
        assert await documents(store) == [Document(fact(number), 1, b"%d" % number) for number in range(1, 49, 2)]
