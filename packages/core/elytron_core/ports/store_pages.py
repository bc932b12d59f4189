"""Reads of a store from end to end, one page after another."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, JournalEntry, Store

ItemT = TypeVar("ItemT")
PlaceT = TypeVar("PlaceT", str, int)


async def _pages(
    read: Callable[[PlaceT], Awaitable[Sequence[ItemT]]], place: Callable[[ItemT], PlaceT], after: PlaceT
) -> AsyncIterator[ItemT]:
    """Yield what `read` returns behind `after`, until a page is empty: a wrapper may leave items of a page out."""
    while page := await read(after):
        for item in page:
            yield item
        after = place(page[-1])


def documents(
    store: Store, space: SpaceId, collection: str, /, *, prefix: str = "", after: str = "", page: int = limits.SCAN_MAX
) -> AsyncIterator[Document]:
    """Yield the documents of `collection` behind the key `after`, in key order."""

    def read(behind: str) -> Awaitable[Sequence[Document]]:
        return store.scan(space, collection, prefix=prefix, after=behind, limit=page)

    return _pages(read, lambda document: document.ref.key, after)


def entries(
    store: Store, space: SpaceId, /, *, after: int = 0, page: int = limits.JOURNAL_MAX
) -> AsyncIterator[JournalEntry]:
    """Yield the journal of `space` behind the sequence `after`, in order."""

    def read(behind: int) -> Awaitable[Sequence[JournalEntry]]:
        return store.journal(space, after=behind, limit=page)

    return _pages(read, lambda entry: entry.sequence, after)


def spaces(store: Store, /) -> AsyncIterator[SpaceId]:
    """Yield every space, in the order of the store."""

    def read(behind: str) -> Awaitable[Sequence[SpaceId]]:
        return store.spaces(after=behind, limit=limits.SCAN_MAX)

    return _pages(read, str, "")
