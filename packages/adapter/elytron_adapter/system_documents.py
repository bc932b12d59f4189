"""Documents of the system space that all servers of a store share: keys, usage, sessions, transport switches."""

from collections.abc import AsyncIterator, Iterable

from elytron.context import OperationContext
from elytron.state.spaces import REF, opening_changes, retry_lost_races
from elytron_core.errors import Conflict
from elytron_core.ids import SYSTEM_SPACE
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
)


class SystemDocuments:
    """Documents of one collection of the system space."""

    def __init__(self, context: OperationContext, collection: str, /) -> None:
        self._context = context
        self._collection = collection

    def ref(self, key: str, /) -> DocumentRef:
        """Return the place of the document `key`."""
        return DocumentRef(self._collection, key)

    @retry_lost_races
    async def record(self) -> SpaceRecord:
        """Return the record of the system space, whose secret keys tags and digests; the first call stores it."""
        context = self._context
        record, is_new = await context.spaces.found_or_new(SYSTEM_SPACE)
        if not is_new:
            return record
        puts, requires, entries = opening_changes(record, is_new=True)
        batch = Batch(
            space=SYSTEM_SPACE,
            at=context.clock.now(),
            puts=puts,
            requires=requires,
            entries=entries,
            takes_back=True,  # who makes room in a full store signs in first
        )
        try:
            await context.store.commit(batch)
        except Conflict:
            # Another process made it first: tags are made under the secret that is stored.
            context.spaces.forget(SYSTEM_SPACE)
            raise
        return record

    async def find_record(self) -> SpaceRecord | None:
        """Return the record of the system space; None if nothing is stored there."""
        return await self._context.spaces.find(SYSTEM_SPACE)

    async def read(self, key: str, /) -> Document | None:
        """Return the document `key`."""
        (document,) = await self._context.store.get(SYSTEM_SPACE, (self.ref(key),))
        return document

    def scan(self) -> AsyncIterator[Document]:
        """Yield every document of the collection, by key."""
        return store.scan_documents(self._context.store, SYSTEM_SPACE, self._collection)

    async def commit(
        self, record: SpaceRecord, /, *puts: PutChange, deletes: Iterable[DeleteChange] = (), takes_back: bool = False
    ) -> None:
        """Apply the changes as a whole, under the record that their tags and digests were made with.

        Raises Conflict if a revision is no longer current; they have to be planned again, with the record.
        """
        context, removed = self._context, tuple(deletes)
        write_entries = (EntryDraft(JournalAction.OPERATOR, change.ref, record.digest(change.body)) for change in puts)
        batch = Batch(
            space=SYSTEM_SPACE,
            at=context.clock.now(),
            puts=puts,
            deletes=removed,
            requires=(RequireRevision(REF, 1),),
            entries=(*write_entries, *(EntryDraft(JournalAction.DELETE, delete.ref) for delete in removed)),
            takes_back=takes_back,
        )
        try:
            await context.store.commit(batch)
        except Conflict:
            # The conflict may be about the record of the space, which is then read again.
            context.spaces.forget(SYSTEM_SPACE)
            raise
