"""A rehearsal of several commits: they are merged into one batch, and nothing is stored."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    PutChange,
    RequireRevision,
    Store,
    count_scanned,
)
from elytron_store.wrappers.wrapper import PassingStore

_BEYOND = 1 << 62
"""A sequence that no journal has: rehearsed entries never join those of the store."""
_WAY_OUT = "restore it in full into an empty space, or export less of it; nothing was stored"


class RehearsalStore(PassingStore):
    """A store that merges the commits to one space, and reads its documents as these commits would leave them.

    The journal, blobs and other spaces are read from the store.
    """

    def __init__(self, store: Store, space: SpaceId, /) -> None:
        super().__init__(store)
        self._space = space
        self._left: dict[str, dict[str, Document | None]] = {}
        self._expects: dict[DocumentRef, int] = {}
        self._requires: dict[DocumentRef, RequireRevision] = {}
        self._entries: list[EntryDraft] = []
        self._bytes = 0

    @property
    def changed(self) -> Collection[DocumentRef]:
        """The documents that were committed."""
        return self._expects.keys()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Take `batch` in. Raises LimitExceeded if all together is more than one import may be."""
        # Others have their turn between the parts of a long import.
        await asyncio.sleep(0)
        for require in batch.requires:
            if require.ref not in self._expects:
                self._requires.setdefault(require.ref, require)
        for put in batch.puts:
            self._expects.setdefault(put.ref, put.expects)
            self._leave(put.ref, Document(put.ref, put.expects + 1, put.body))
        for delete in batch.deletes:
            self._expects.setdefault(delete.ref, delete.expects)
            self._leave(delete.ref, None)
        for entry in batch.entries:
            at = batch.at if entry.at is None else entry.at
            self._entries.append(EntryDraft(entry.action, entry.ref, entry.digest, at, entry.covers))
        self._require_bounds()
        return CommitReceipt(_BEYOND, _BEYOND + len(batch.entries) - 1)

    def merged(self, *, at: Instant) -> Batch | None:
        """Return all that was committed as one batch; None if nothing was."""
        if not self._entries:
            return None
        return self._merged(at)

    def _merged(self, at: Instant) -> Batch:
        puts: list[PutChange] = []
        deletes: list[DeleteChange] = []
        requires = list(self._requires.values())
        for ref, expects in self._expects.items():
            document = self._left[ref.collection][ref.key]
            if document is not None:
                puts.append(PutChange(ref, document.body, expects))
            elif expects:
                deletes.append(DeleteChange(ref, expects))
            elif ref not in self._requires:
                requires.append(RequireRevision(ref, 0))
        return Batch(
            space=self._space,
            at=at,
            entries=tuple(self._entries),
            puts=tuple(puts),
            deletes=tuple(deletes),
            requires=tuple(requires),
            is_import=True,
        )

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents as what was committed would leave them."""
        found = await self._inner.get(space, refs)
        if space != self._space:
            return found
        return [
            self._left.get(ref.collection, {}).get(ref.key, document) for ref, document in zip(refs, found, strict=True)
        ]

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        """Return the documents of a collection as what was committed would leave them."""
        left = self._left.get(collection) if space == self._space else None
        if not left:
            return await super().scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)
        found: list[Document] = []
        while len(found) < limit:
            page = await self._inner.scan(
                space, collection, prefix=prefix, after=after, limit=limit, descending=descending
            )
            window = _KeyWindow(prefix, after, page[-1].ref.key if page else "", descending)
            ours = [document for key, document in left.items() if document is not None and window.has(key)]
            ours += [document for document in page if document.ref.key not in left]
            found += sorted(ours, key=lambda document: document.ref.key, reverse=descending)
            if not page:
                break
            after = window.last
        return found[:limit]

    async def count(self, space: SpaceId, collection: str, /) -> int:
        """Return the number of documents as what was committed would leave them."""
        if space != self._space or not self._left.get(collection):
            return await super().count(space, collection)
        return await count_scanned(self, space, collection)

    def _leave(self, ref: DocumentRef, document: Document | None) -> None:
        collection = self._left.setdefault(ref.collection, {})
        before = collection.get(ref.key)
        self._bytes += _document_size(document) - _document_size(before)
        collection[ref.key] = document

    def _require_bounds(self) -> None:
        changes = len(self._expects) + len(self._requires) + len(self._entries)
        for what, most, found in (
            ("changes in one import", limits.IMPORT_CHANGES, changes),
            ("bytes in one import", limits.IMPORT_BYTES, self._bytes),
        ):
            if found > most:
                raise LimitExceeded(what=what, limit=most, way_out=_WAY_OUT)


class _KeyWindow(NamedTuple):
    """The keys with a prefix behind `after` and up to `last`; without end if `last` is empty."""

    prefix: str
    after: str
    last: str
    descending: bool

    def has(self, key: str, /) -> bool:
        """Return whether `key` is one of them."""
        return (
            key.startswith(self.prefix)
            and self._behind(key, self.after)
            and not (self.last and self._behind(key, self.last))
        )

    def _behind(self, key: str, place: str) -> bool:
        return not place or (key < place if self.descending else key > place)


def _document_size(document: Document | None) -> int:
    return 0 if document is None else len(document.body)
