"""Documents whose keys begin in one of many ways, in as few scans as they lie side by side."""

from bisect import bisect_right
from collections.abc import Iterable
from os.path import commonprefix

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, Store

_AT_ONCE = 500
"""So many documents are read at a time where others may lie between those that are asked for."""


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
        # The key before all that begin so: what lies between is passed over.
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
