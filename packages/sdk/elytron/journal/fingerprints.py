"""Fingerprints of a space: equal for equal content on every store."""

import hashlib
from collections.abc import AsyncIterator, Iterable

from elytron_core.canonical import Fingerprint
from elytron_core.ids import SpaceId
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports import store_pages
from elytron_core.ports.store import Document, JournalEntry, Store


async def documents(
    store: Store, space: SpaceId, /, *, collections: Iterable[str] = COLLECTIONS
) -> AsyncIterator[Document]:
    """Yield every document of a space, collection by collection, in key order."""
    for collection in collections:
        async for document in store_pages.documents(store, space, collection):
            yield document


class StateFingerprint:
    """The digest of a space's documents: the place and body of each, not its revision; their order does not count."""

    def __init__(self) -> None:
        self._told = Fingerprint()

    @property
    def count(self) -> int:
        """Number of added documents."""
        return self._told.count

    def add(self, document: Document, /) -> None:
        self._told.add(b"\0".join((document.ref.collection.encode(), document.ref.key.encode(), document.body)))

    def hexdigest(self) -> str:
        return self._told.hexdigest()


class EventFingerprint:
    """The digest of a journal: every entry, in order."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self.count = 0
        self.sequence = 0
        """Of the last entry."""

    def add(self, entry: JournalEntry, /) -> None:
        line = f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}|{entry.digest}"
        covered = f"|{entry.covers}" if entry.covers > 1 else ""
        self._state.update(f"{line}{covered}\n".encode())
        self.count += 1
        self.sequence = entry.sequence

    def hexdigest(self) -> str:
        return self._state.hexdigest()
