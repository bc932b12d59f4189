"""Claims about commits: atomic, conditional on expected revisions, gaplessly sequenced and bounded in size."""

from dataclasses import replace
from functools import partial

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    Claims,
    batch,
    delete,
    documents,
    entry,
    fact,
    journal,
    one,
    put,
    refusals,
)
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
)

AGAINST_THE_RULES = {
    "no entries": Batch(space=ADA, at=AT, entries=()),
    "two puts": batch(PutChange(fact(1), b"a", 0), PutChange(fact(1), b"b", 0)),
    "put and delete": batch(PutChange(fact(1), b"a", 1), DeleteChange(fact(1), 1)),
    "below 0": batch(PutChange(fact(1), b"a", -1)),
    "delete of 0": batch(DeleteChange(fact(1), 0)),
    "upper case": batch(PutChange(DocumentRef("Facts", "aa"), b"a", 0)),
    "words": batch(PutChange(DocumentRef("facts", "not hex"), b"a", 0)),
    "path": batch(PutChange(DocumentRef("facts", "../aa"), b"a", 0)),
    "line break": batch(PutChange(DocumentRef("facts", "aa\n"), b"a", 0)),
    "no space": batch(PutChange(fact(1), b"a", 0), space=SpaceId("")),
}


class CommitClaims(Claims):
    """Claims about `commit`."""

    async def test_a_batch_is_stored_whole_with_its_entries(self, store: Store) -> None:
        drafts = (
            EntryDraft(JournalAction.WRITE, fact(1), digest="aa"),
            EntryDraft(JournalAction.MERGE, fact(2)),
            EntryDraft(JournalAction.LIFECYCLE, DocumentRef("turns", "00-ff.1"), digest="bb"),
        )
        committed = await store.commit(
            batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), entries=drafts)
        )
        assert committed == CommitReceipt(first=1, last=3)
        assert await documents(store) == [Document(fact(1), 1, b"one"), Document(fact(2), 1, b"two")]
        assert await journal(store) == [
            JournalEntry(1, AT, JournalAction.WRITE, fact(1), "aa"),
            JournalEntry(2, AT, JournalAction.MERGE, fact(2), ""),
            JournalEntry(3, AT, JournalAction.LIFECYCLE, DocumentRef("turns", "00-ff.1"), "bb"),
        ]

    async def test_a_batch_that_conflicts_anywhere_changes_nothing(self, store: Store) -> None:
        await put(store, fact(1), b"old")
        before = await documents(store), await journal(store)
        with pytest.raises(Conflict):
            await store.commit(
                batch(PutChange(fact(2), b"new", 0), DeleteChange(fact(1), 1), PutChange(fact(3), b"late", 7))
            )
        assert (await documents(store), await journal(store)) == before

    async def test_puts_and_deletes_of_one_batch_are_applied_together(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        await store.commit(
            batch(PutChange(fact(1), b"uno", 1), DeleteChange(fact(2), 1), PutChange(fact(3), b"tre", 0))
        )
        assert await documents(store) == [Document(fact(1), 2, b"uno"), Document(fact(3), 1, b"tre")]

    async def test_a_batch_of_entries_alone_is_journaled(self, store: Store) -> None:
        assert await store.commit(batch(entries=(entry(fact(1)),))) == CommitReceipt(first=1, last=1)
        assert await documents(store) == []

    async def test_every_action_comes_back_as_it_was_told(self, store: Store) -> None:
        await store.commit(batch(entries=tuple(entry(fact(1), action=action) for action in JournalAction)))
        assert [journal_entry.action for journal_entry in await journal(store)] == list(JournalAction)

    async def test_an_entry_keeps_the_instant_of_its_batch(self, store: Store) -> None:
        instants = [limits.EARLIEST_MS, -1, 0, limits.LATEST_MS]
        for number, at in enumerate(instants):
            await store.commit(batch(PutChange(fact(number), b"one", 0), at=Instant(at)))
        assert [journal_entry.at for journal_entry in await journal(store)] == instants

    async def test_an_entry_with_an_instant_of_its_own_keeps_that(self, store: Store) -> None:
        own = Instant(AT - 1_000)
        own_or_not = (own, None, Instant(0))
        drafts = tuple(EntryDraft(JournalAction.WRITE, fact(1), at=at) for at in own_or_not)
        await store.commit(batch(entries=drafts))
        assert [journal_entry.at for journal_entry in await journal(store)] == [own, AT, 0]

    async def test_order_is_that_of_commits_and_not_of_the_clock(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), at=Instant(AT + 10)))
        await store.commit(batch(PutChange(fact(2), b"two", 0), at=AT))
        assert [(journal_entry.sequence, journal_entry.at) for journal_entry in await journal(store)] == [
            (1, AT + 10),
            (2, AT),
        ]

    async def test_sequences_are_gapless_across_refused_batches(self, store: Store) -> None:
        assert await put(store, fact(1)) == CommitReceipt(1, 1)
        with pytest.raises(Conflict):
            await put(store, fact(1))
        assert await store.commit(batch(PutChange(fact(2), b"", 0), PutChange(fact(3), b"", 0))) == CommitReceipt(2, 3)
        assert await put(store, fact(4)) == CommitReceipt(4, 4)

    async def test_a_put_that_expects_absence_conflicts_with_a_document(self, store: Store) -> None:
        await put(store, fact(1), b"first")
        with pytest.raises(Conflict) as refused:
            await put(store, fact(1), b"second")
        assert (refused.value.expected, refused.value.found) == (0, 1)
        assert await one(store, fact(1)) == Document(fact(1), 1, b"first")

    async def test_a_put_that_expects_another_revision_conflicts(self, store: Store) -> None:
        await put(store, fact(1), b"first")
        await put(store, fact(1), b"second", expects=1)
        with pytest.raises(Conflict) as refused:
            await put(store, fact(1), b"third", expects=1)
        assert (refused.value.expected, refused.value.found) == (1, 2)

    async def test_a_put_that_expects_a_document_conflicts_with_absence(self, store: Store) -> None:
        with pytest.raises(Conflict) as refused:
            await put(store, fact(1), expects=1)
        assert (refused.value.expected, refused.value.found) == (1, 0)

    async def test_a_delete_conflicts_with_absence_and_with_another_revision(self, store: Store) -> None:
        with pytest.raises(Conflict) as absent:
            await delete(store, fact(1), expects=1)
        await put(store, fact(1), b"first")
        with pytest.raises(Conflict) as other:
            await delete(store, fact(1), expects=2)
        assert (absent.value.expected, absent.value.found) == (1, 0)
        assert (other.value.expected, other.value.found) == (2, 1)

    async def test_a_demand_that_does_not_hold_conflicts(self, store: Store) -> None:
        await put(store, fact(1), b"first")
        for demand, revision in (
            (RequireRevision(fact(1), 0), 1),
            (RequireRevision(fact(1), 2), 1),
            (RequireRevision(fact(2), 1), 0),
        ):
            with pytest.raises(Conflict) as refused:
                await store.commit(batch(PutChange(fact(3), b"third", 0), demand))
            assert (refused.value.expected, refused.value.found) == (demand.revision, revision)
        assert await documents(store) == [Document(fact(1), 1, b"first")]

    async def test_a_demand_that_holds_changes_nothing(self, store: Store) -> None:
        await put(store, fact(1), b"first")
        committed = await store.commit(
            batch(PutChange(fact(3), b"third", 0), RequireRevision(fact(1), 1), RequireRevision(fact(2), 0))
        )
        assert committed == CommitReceipt(2, 2)
        assert await documents(store) == [Document(fact(1), 1, b"first"), Document(fact(3), 1, b"third")]

    async def test_a_demand_looks_at_what_stood_before_its_own_batch(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"first", 0), RequireRevision(fact(1), 0)))
        await store.commit(batch(DeleteChange(fact(1), 1), RequireRevision(fact(1), 1)))
        assert await documents(store) == []

    async def test_each_put_raises_the_revision_by_one(self, store: Store) -> None:
        for revision in range(5):
            await put(store, fact(1), b"%d" % revision, expects=revision)
        assert await one(store, fact(1)) == Document(fact(1), 5, b"4")

    async def test_a_document_put_after_its_delete_starts_at_revision_one(self, store: Store) -> None:
        await put(store, fact(1), b"first")
        await put(store, fact(1), b"second", expects=1)
        await delete(store, fact(1), expects=2)
        assert await one(store, fact(1)) is None
        await put(store, fact(1), b"third")
        assert await one(store, fact(1)) == Document(fact(1), 1, b"third")

    async def test_one_key_in_two_collections_is_two_documents(self, store: Store) -> None:
        await store.commit(
            batch(PutChange(DocumentRef("facts", "aa"), b"fact", 0), PutChange(DocumentRef("turns", "aa"), b"turn", 0))
        )
        await delete(store, DocumentRef("turns", "aa"), expects=1)
        assert await one(store, DocumentRef("facts", "aa")) == Document(DocumentRef("facts", "aa"), 1, b"fact")

    async def test_a_body_of_any_allowed_size_comes_back(self, store: Store) -> None:
        sizes = (0, 1, 1024 * 1024, limits.DOCUMENT_BYTES)
        bodies = [(bytes(range(256)) * (size // 256 + 1))[:size] for size in sizes]
        for number, body in enumerate(bodies):
            await put(store, fact(number), body)
        assert [document.body == body for document, body in zip(await documents(store), bodies, strict=True)] == [
            True
        ] * 4

    async def test_a_body_may_hold_any_bytes(self, store: Store) -> None:
        body = b"\x00\xff\r\n\n'\";--\xc3\x28" + bytes(range(256))
        await put(store, fact(1), body)
        assert await one(store, fact(1)) == Document(fact(1), 1, body)

    async def test_a_body_above_the_bound_is_refused(self, store: Store) -> None:
        with pytest.raises(LimitExceeded):
            await put(store, fact(1), bytes(limits.DOCUMENT_BYTES + 1))
        assert await journal(store) == []

    async def test_a_batch_of_the_most_allowed_changes_is_stored(self, store: Store) -> None:
        half = limits.BATCH_CHANGES // 2
        committed = await store.commit(batch(*(PutChange(fact(number), b"x", 0) for number in range(half))))
        assert committed == CommitReceipt(1, half)
        with pytest.raises(LimitExceeded):
            await store.commit(batch(*(PutChange(fact(number), b"x", 1) for number in range(half + 1))))

    async def test_an_import_may_have_more_changes(self, store: Store) -> None:
        more = limits.BATCH_CHANGES // 2 + 1
        large = batch(*(PutChange(fact(number), b"x", 0) for number in range(more)))
        assert await store.commit(replace(large, is_import=True)) == CommitReceipt(1, more)

    async def test_a_batch_against_the_rules_is_refused(self, store: Store) -> None:
        calls = {case: partial(store.commit, refused) for case, refused in AGAINST_THE_RULES.items()}
        assert await refusals(calls) == dict.fromkeys(calls, InvalidInput)
        assert await journal(store) == []
