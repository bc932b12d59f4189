"""Documents of the system space that all servers of a store share: keys, usage, sessions, transport switches."""

from collections.abc import AsyncIterator, Iterable

from elytron.context import OperationContext
from elytron.state.change_lines import retry_lost_races
from elytron.state.space_records import REF, opening_changes
from elytron_core.errors import Conflict
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
)


@retry_lost_races
async def record_of(ctx: OperationContext, space: SpaceId, /, *, takes_back: bool = False) -> SpaceRecord:
    """Return the record of `space`, whose secret keys tags and digests; the first call stores it."""
    record, is_new = await ctx.spaces.found_or_new(space)
    if is_new:
        puts, requires, entries = opening_changes(record, is_new=True)
        at = ctx.clock.now()
        await _commit_batch(ctx, Batch(space, at, entries, puts=puts, requires=requires, takes_back=takes_back))
    return record


async def commit_documents(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    /,
    *changes: PutChange | DeleteChange,
    action: JournalAction = JournalAction.WRITE,
    once: BatchKey | None = None,
    takes_back: bool = False,
) -> None:
    """Apply the changes atomically under the record that keyed their tags and digests; with `once`, one time.

    With `takes_back`, a store that is full takes them too. Raises Conflict if a revision is no longer current, or the
    space was erased meanwhile; they have to be planned again, with the record.
    """
    puts = tuple(change for change in changes if isinstance(change, PutChange))
    deletes = tuple(change for change in changes if isinstance(change, DeleteChange))
    batch = Batch(
        space=space,
        at=ctx.clock.now(),
        entries=(
            *(EntryDraft(action, change.ref, record.digest(change.body)) for change in puts),
            *(EntryDraft(JournalAction.DELETE, delete.ref) for delete in deletes),
        ),
        puts=puts,
        deletes=deletes,
        # After an erasure the keys would be tags under a secret that is gone.
        requires=(RequireRevision(REF, 1),),
        idempotency=once,
        takes_back=takes_back,
    )
    await _commit_batch(ctx, batch)


async def _commit_batch(ctx: OperationContext, batch: Batch) -> None:
    try:
        await ctx.store.commit(batch)
    except Conflict:
        # Another process may have created or erased the space: its record is then read again.
        ctx.spaces.forget(batch.space)
        raise


class SystemDocuments:
    """Documents of one collection of the system space."""

    def __init__(self, context: OperationContext, collection: str, /) -> None:
        self._context = context
        self._collection = collection

    def ref(self, key: str, /) -> DocumentRef:
        """Return the ref of the document `key`."""
        return DocumentRef(self._collection, key)

    async def record(self) -> SpaceRecord:
        """Return the record of the system space; the first call stores it, even in a full store, for a sign-in."""
        return await record_of(self._context, SYSTEM_SPACE, takes_back=True)

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
        """Apply the changes atomically, under the record that keyed their tags and digests.

        Raises Conflict if a revision is no longer current; they have to be planned again, with the record.
        """
        await commit_documents(
            self._context,
            SYSTEM_SPACE,
            record,
            *(*puts, *deletes),
            action=JournalAction.OPERATOR,
            takes_back=takes_back,
        )
