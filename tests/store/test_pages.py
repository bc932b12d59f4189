"""Every reader of a complete store uses these."""

import pytest

from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    scan_documents,
    scan_entries,
    scan_spaces,
)
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
SPACE = SpaceId("ada")
REFS = [DocumentRef("facts", f"{key:x}") for key in range(5)]


async def filled() -> MemoryStore:
    """Return a store with five documents of one space, each with a journal entry."""
    store = MemoryStore()
    for ref in REFS:
        batch = Batch(SPACE, Instant(1), (EntryDraft(JournalAction.WRITE, ref),), (PutChange(ref, b"x", 0),))
        await store.commit(batch)
    return store


async def test_documents_are_in_order_across_pages() -> None:
    found = scan_documents(await filled(), SPACE, "facts", page=2)
    assert [document.ref async for document in found] == REFS


async def test_documents_start_after_a_key_and_with_a_prefix() -> None:
    store = await filled()
    assert [one.ref async for one in scan_documents(store, SPACE, "facts", after="2")] == REFS[3:]
    assert [one.ref async for one in scan_documents(store, SPACE, "facts", prefix="4")] == REFS[4:]


async def test_a_page_excludes_commits_made_while_it_is_read() -> None:
    store, late = await filled(), DocumentRef("facts", "9")
    batch = Batch(SPACE, Instant(1), (EntryDraft(JournalAction.WRITE, late),), (PutChange(late, b"x", 0),))
    found: list[DocumentRef] = []
    async for document in scan_documents(store, SPACE, "facts"):
        if not found:
            await store.commit(batch)
        found.append(document.ref)
    assert found == REFS


async def test_entries_are_in_order_across_pages() -> None:
    found = scan_entries(await filled(), SPACE, after=1, page=3)
    assert [entry.sequence async for entry in found] == [2, 3, 4, 5]


async def test_every_space_is_listed_once() -> None:
    assert [space async for space in scan_spaces(await filled())] == [SPACE]
