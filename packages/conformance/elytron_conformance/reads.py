"""Claims about reads: order, bounds, paging, missing documents, and the list of spaces with unfinished jobs."""

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product

import pytest

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    JOBS,
    NOWHERE,
    Claims,
    batch,
    delete,
    entry,
    fact,
    journal,
    put,
    refusals,
    sequences,
    spaces,
    spaces_with_jobs,
    write_blob,
)
from elytron_core import limits
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DeleteChange, Document, DocumentRef, ErasureTarget, JournalEntry, PutChange, Store

KEYS = ("0", "00", "00.1", "01", "0a", "1", "a", "a-1", "a.1", "a1", "ab", "b")
"""In code point order ('-' < '.' < digits < letters), including keys that are prefixes of others."""


async def fill(store: Store) -> None:
    """Store KEYS out of order, with neighbouring collections that sort before and after theirs."""
    shuffled = [*KEYS[::2], *KEYS[1::2]]
    await store.commit(batch(*(PutChange(DocumentRef("facts", key), key.encode(), 0) for key in shuffled)))
    await store.commit(
        batch(PutChange(DocumentRef("fact", "a"), b"", 0), PutChange(DocumentRef("facts_old", "a"), b"", 0))
    )


class ReadClaims(Claims):
    """Claims about `get`, `scan`, `journal` and `spaces`."""

    async def test_get_answers_in_the_order_asked_with_none_for_absence(self, store: Store) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        one, two = Document(fact(1), 1, b"one"), Document(fact(2), 1, b"two")
        page = await store.get(ADA, [fact(2), fact(3), fact(1), fact(2)])
        assert list(page) == [two, None, one, two]

    async def test_get_of_nothing_and_in_no_space_is_empty(self, store: Store) -> None:
        assert list(await store.get(ADA, [])) == []
        assert list(await store.get(NOWHERE, [fact(1)])) == [None]

    async def test_get_is_bounded(self, store: Store) -> None:
        refs = [fact(number) for number in range(limits.SCAN_MAX)]
        await store.commit(batch(PutChange(refs[-1], b"last", 0)))
        page = await store.get(ADA, refs)
        assert list(page) == [None] * (len(refs) - 1) + [Document(refs[-1], 1, b"last")]
        with pytest.raises(LimitExceeded):
            await store.get(ADA, [*refs, fact(0)])

    async def test_scan_is_in_key_order_within_one_collection(self, store: Store) -> None:
        await fill(store)
        page = await store.scan(ADA, "facts", limit=100)
        assert list(page) == [Document(DocumentRef("facts", key), 1, key.encode()) for key in sorted(KEYS)]

    async def test_scan_descends_in_the_opposite_order(self, store: Store) -> None:
        await fill(store)
        page = await store.scan(ADA, "facts", limit=100, descending=True)
        assert [document.ref.key for document in page] == sorted(KEYS, reverse=True)

    async def test_scan_takes_a_prefix_as_plain_text(self, store: Store) -> None:
        await fill(store)
        for prefix in ("0", "00", "a", "a-", "a.", "b", "c", "a_", "%", "*", "[a]", "A", "\U0010ffff"):
            expected_keys = sorted(key for key in KEYS if key.startswith(prefix))
            up = await store.scan(ADA, "facts", prefix=prefix, limit=100)
            down = await store.scan(ADA, "facts", prefix=prefix, limit=100, descending=True)
            assert (prefix, [document.ref.key for document in up]) == (prefix, expected_keys)
            assert (prefix, [document.ref.key for document in down]) == (prefix, expected_keys[::-1])

    async def test_scan_continues_behind_a_key_that_need_not_exist(self, store: Store) -> None:
        await fill(store)
        for after in ("0", "00", "02", "a", "a-", "ff"):
            up = await store.scan(ADA, "facts", after=after, limit=100)
            down = await store.scan(ADA, "facts", after=after, limit=100, descending=True)
            assert [document.ref.key for document in up] == sorted(key for key in KEYS if key > after)
            assert [document.ref.key for document in down] == sorted((key for key in KEYS if key < after), reverse=True)

    async def test_scan_joins_prefix_and_continuation(self, store: Store) -> None:
        await fill(store)
        up = await store.scan(ADA, "facts", prefix="a", after="a-1", limit=2)
        down = await store.scan(ADA, "facts", prefix="a", after="a1", limit=2, descending=True)
        outside = await store.scan(ADA, "facts", prefix="a", after="0", limit=1)
        assert [document.ref.key for document in up] == ["a.1", "a1"]
        assert [document.ref.key for document in down] == ["a.1", "a-1"]
        assert [document.ref.key for document in outside] == ["a"]

    async def test_pages_of_a_scan_join_to_the_whole(self, store: Store) -> None:
        await fill(store)
        for size, descending in product((1, 2, 5, 12), (False, True)):
            keys, sizes = [""], [size]
            while page := await store.scan(ADA, "facts", after=keys[-1], limit=size, descending=descending):
                assert sizes[-1] == size  # only the last page is shorter
                sizes.append(len(page))
                keys.extend(document.ref.key for document in page)
            assert max(sizes) == size
            assert keys[1:] == sorted(KEYS, reverse=descending)

    async def test_scan_does_not_show_what_was_deleted(self, store: Store) -> None:
        await fill(store)
        await delete(store, DocumentRef("facts", "a"), expects=1)
        page = await store.scan(ADA, "facts", prefix="a", limit=1)
        assert [document.ref.key for document in page] == ["a-1"]

    async def test_scan_of_an_unknown_space_or_collection_is_empty(self, store: Store) -> None:
        await fill(store)
        assert list(await store.scan(NOWHERE, "facts", limit=1)) == []
        assert list(await store.scan(ADA, "turns", limit=1)) == []

    async def test_a_count_is_of_the_documents_of_one_collection(self, store: Store) -> None:
        await fill(store)
        assert await store.count(ADA, "facts") == len(KEYS)
        await delete(store, DocumentRef("facts", "a"), expects=1)
        assert await store.count(ADA, "facts") == len(KEYS) - 1
        assert (await store.count(NOWHERE, "facts"), await store.count(ADA, "turns")) == (0, 0)
        with pytest.raises(InvalidInput):
            await store.count(ADA, "Facts!")

    async def test_the_journal_pages_behind_a_sequence(self, store: Store) -> None:
        for number in range(3):
            await store.commit(batch(entries=tuple(entry(fact(number)) for _ in range(4))))
        whole = await journal(store)
        pages: list[JournalEntry] = []
        while page := await store.journal(ADA, after=pages[-1].sequence if pages else 0, limit=5):
            assert len(page) <= 5
            pages.extend(page)
        assert pages == whole
        assert [journal_entry.sequence for journal_entry in pages] == list(range(1, 13))

    async def test_the_journal_has_nothing_behind_its_end_or_in_no_space(self, store: Store) -> None:
        await put(store, fact(1))
        assert list(await store.journal(ADA, after=1, limit=5)) == []
        assert list(await store.journal(ADA, after=99, limit=5)) == []
        assert list(await store.journal(NOWHERE, after=0, limit=5)) == []

    async def test_the_journal_remembers_deleted_documents(self, store: Store) -> None:
        await put(store, fact(1))
        await delete(store, fact(1), expects=1)
        assert await sequences(store) == [1, 2]

    async def test_spaces_are_listed_once_each_in_pages(self, store: Store) -> None:
        names = {SpaceId(f"space {number}") for number in range(7)}
        for name in sorted(names):
            await put(store, fact(1), space=name)
            await put(store, fact(2), space=name)
        listing: list[SpaceId] = []
        while page := await store.spaces(after=listing[-1] if listing else "", limit=3):
            assert len(page) <= 3
            listing.extend(page)
        assert set(listing) == names
        assert len(listing) == len(names)
        assert list(await store.spaces(limit=100)) == listing

    async def test_a_new_store_has_no_space(self, store: Store) -> None:
        assert await spaces(store) == set()

    async def test_reading_makes_no_space(self, store: Store) -> None:
        await store.get(NOWHERE, [fact(1)])
        await store.scan(NOWHERE, "facts", limit=1)
        await store.journal(NOWHERE, after=0, limit=1)
        assert await spaces(store) == set()

    async def test_a_space_that_holds_a_blob_alone_is_listed(self, store: Store) -> None:
        await write_blob(store, "aa", b"x")
        assert await spaces(store) == {ADA}

    async def test_the_limit_of_a_page_is_bounded(self, store: Store) -> None:
        pages: dict[str, tuple[Callable[..., Awaitable[object]], int]] = {
            "scan": (partial(store.scan, ADA, "facts"), limits.SCAN_MAX),
            "journal": (partial(store.journal, ADA, after=0), limits.JOURNAL_MAX),
            "spaces": (store.spaces, limits.SCAN_MAX),
        }
        for page, (read, most) in pages.items():
            calls = {limit: partial(read, limit=limit) for limit in (0, -1, most + 1)}
            expected_errors = {0: InvalidInput, -1: InvalidInput, most + 1: LimitExceeded}
            assert (page, await refusals(calls)) == (page, expected_errors)


class QueueClaims(Claims):
    """Claims about the index of spaces with unfinished jobs. A store without that index lists every space."""

    async def test_every_space_with_a_queue_is_listed(self, store: Store) -> None:
        names = {SpaceId(f"space {number}") for number in range(9)}
        for name in names:
            await put(store, fact(1), space=name)
        assert not await spaces_with_jobs(store) or not store.capabilities.queue_index
        busy = {SpaceId("space 2"), SpaceId("space 7"), SpaceId("a new one")}
        for name in busy:
            await store.commit(batch(PutChange(JOBS, b"", 0), PutChange(fact(2), b"", 0), space=name))
        assert await spaces_with_jobs(store) == (busy if store.capabilities.queue_index else names | busy)

    async def test_a_space_whose_queue_was_replaced_is_listed_until_it_is_gone(self, store: Store) -> None:
        await put(store, JOBS, b"one")
        await put(store, JOBS, b"two", expects=1)
        assert await spaces_with_jobs(store) == {ADA}
        await delete(store, JOBS, expects=2)
        assert not await spaces_with_jobs(store) or not store.capabilities.queue_index
        await put(store, JOBS, b"three")
        assert await spaces_with_jobs(store) == {ADA}

    async def test_a_refused_batch_takes_no_space_off_the_list(self, store: Store) -> None:
        await put(store, JOBS)
        changes = DeleteChange(JOBS, 1), PutChange(fact(1), b"", 7)
        assert await refusals({"batch": lambda: store.commit(batch(*changes))}) == {"batch": Conflict}
        assert await spaces_with_jobs(store) == {ADA}

    async def test_an_erasure_takes_its_space_off_the_list_and_no_other(self, store: Store) -> None:
        for space in (ADA, BOB, NOWHERE):
            await put(store, fact(1), space=space)
            await put(store, JOBS, space=space)
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        await store.erase(ErasureTarget(space=BOB, at=AT, refs=(fact(1),)))
        assert await spaces_with_jobs(store) == {BOB, NOWHERE}
        await store.erase(ErasureTarget(space=BOB, at=AT, refs=(JOBS,)))
        await spaces_with_jobs(store)  # this call may finish what the erasure left behind
        assert await spaces_with_jobs(store) == ({NOWHERE} if store.capabilities.queue_index else {BOB, NOWHERE})
