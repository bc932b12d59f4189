"""Documents whose keys begin in one of many ways, in as few scans as they lie side by side."""

from bisect import bisect_right
from collections.abc import Iterable
from os.path import commonprefix
from typing import NamedTuple

from elytron_core import limits
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, Store

_AT_ONCE = 500
"""Page size if other documents may be between the requested ones."""


async def documents_under(store: Store, space: SpaceId, collection: str, prefixes: Iterable[str], /) -> list[Document]:
    """Return every document of `collection` whose key begins with one of `prefixes`, in their order.

    None of the prefixes may be the beginning of another.
    """
    wanted = sorted(set(prefixes))
    shared = commonprefix(wanted)  # noqa: RUF071 - no paths
    limit = limits.SCAN_MAX if len(wanted) == 1 else _AT_ONCE
    found: list[Document] = []
    after, place = "", 0
    while place < len(wanted):
        # The key before all with this prefix: keys between are skipped.
        after = max(after, wanted[place][:-1])
        page = await store.scan(space, collection, prefix=shared, after=after, limit=limit)
        for document in page:
            nearest = bisect_right(wanted, document.ref.key) - 1
            if nearest >= 0 and document.ref.key.startswith(wanted[nearest]):
                found.append(document)
        if len(page) < limit:
            break
        after = page[-1].ref.key
        place = bisect_right(wanted, after)
        if place and after.startswith(wanted[place - 1]):
            place -= 1  # more of these may follow
    return found


class Sound(NamedTuple):
    """The documents of a prefix that can be read, and the keys of those that cannot."""

    documents: list[Document]
    damaged: list[str]


async def sound_documents(store: Store, space: SpaceId, collection: str, prefix: str, /) -> Sound:
    """Return every document of `collection` under `prefix`, in their order, past those that the store does not serve.

    Raises StoreCorrupt and SealBroken for damage that is no document's.
    """
    found = Sound([], [])
    after, limit = "", limits.SCAN_MAX
    while True:
        try:
            page = await store.scan(space, collection, prefix=prefix, after=after, limit=limit)
        except (StoreCorrupt, SealBroken) as error:
            place = f"document {collection}/"
            if not error.what.startswith(place):
                raise
            if limit > 1:  # documents before the damaged one are read in smaller pages
                limit //= 2
                continue
            after = error.what.removeprefix(place)
            found.damaged.append(after)
            limit = limits.SCAN_MAX
            continue
        found.documents.extend(page)
        if len(page) < limit:
            return found
        after = page[-1].ref.key
