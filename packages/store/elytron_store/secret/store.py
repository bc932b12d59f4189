"""A store whose spaces may be under their users' secrets. All other spaces pass through unchanged."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict, ElytronError, IdempotencyConflict, NotFound, SpaceLocked
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.lru_cache import LruCache
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    DeleteChange,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
    closed_stream,
    queued_spaces,
    scan_documents,
    validate_batch,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_store.engine import PassingStore, named_spaces
from elytron_store.secret.holds import erase_hold, held_until
from elytron_store.secret.records import (
    ATTEMPTS,
    GRANT,
    INNER_PREFIX,
    RECORD,
    SECRET_SLOT,
    SecretSlot,
    SecretSlotState,
    read_secret_slot,
    secret_batch,
)
from elytron_store.secret.sessions import SecretSession, SecretSessions, SecretSlots, guard_revision

if TYPE_CHECKING:
    from elytron_store.sealed.spaces import SealedSpaces

_PLAIN_KEPT: Final = 65_536
_NO_SECRET_SLOT: Final = RequireRevision(SECRET_SLOT, 0)
Listener = Callable[[SpaceId], None]
"""Called with a space whose keys were dropped, so that caches of it are cleared too."""
Sweeper = Callable[[SpaceId], Awaitable[None]]
"""Erases the plain bytes that a sealing or a change of the secret left."""


Adopter = Callable[[SpaceId, SecretSlot], Awaitable[None]]
"""Opens a space for the caller of the task, if another process of the same server has it open for that caller."""


class SecretStore(PassingStore):
    """Passes the calls of plain spaces on, and seals those of spaces under a secret.

    A space without a slot is plain, which is cached. A batch of a plain space requires that there is still no slot, and
    a read that finds nothing checks it again, so no process writes plain text into a space under a secret. Each call of
    a space under a secret reads its slot first, so that a lock in another process takes effect here immediately.
    """

    def __init__(self, inner_store: Store, /, *, clock: Clock) -> None:
        super().__init__(inner_store)
        self.clock = clock
        self.sessions = SecretSessions(clock)
        self.slots = SecretSlots(inner_store, self.sessions)
        self.listeners: list[Listener] = []
        self.sweeper: Sweeper | None = None
        self.adopter: Adopter | None = None
        self.redrawn: tuple[str, ...] = ()
        self._sealed: SealedSpaces | None = None
        self._plain: LruCache[SpaceId, None] = LruCache(_PLAIN_KEPT)

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Apply `batch` as the port says; also raises SpaceLocked."""
        if await self._way(batch.space) is self._inner:
            try:
                return await self._inner.commit(_guarded_batch(batch))
            except IdempotencyConflict:
                raise
            except Conflict:
                if not await self._has_turned(batch.space):
                    raise
        return await (await self._way(batch.space)).commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        store = await self._way(space)
        documents = await store.get(space, refs)
        if store is not self._inner or any(item is not None for item in documents) or not await self._has_turned(space):
            return documents
        return await (await self._way(space)).get(space, refs)

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
        store = await self._way(space)
        documents = await store.scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)
        if documents or store is not self._inner or not await self._has_turned(space):
            return documents
        store = await self._way(space)
        return await store.scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)

    async def count(self, space: SpaceId, collection: str, /) -> int:
        store = await self._way(space)
        document_count = await store.count(space, collection)
        if document_count or store is not self._inner or not await self._has_turned(space):
            return document_count
        return await (await self._way(space)).count(space, collection)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        store = await self._way(space)
        entries = await store.journal(space, after=after, limit=limit)
        # An entry that names the record may be of a slot.
        if store is self._inner and (not entries or any(entry.ref == RECORD for entry in entries)):
            if not await self._has_turned(space):
                return entries
            return await (await self._way(space)).journal(space, after=after, limit=limit)
        return entries

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        return await (await self._way(space)).compact(space, runs)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        """Return a page of the spaces by their own names; inner spaces are left out."""

        async def own_names(page: Sequence[SpaceId]) -> Sequence[SpaceId]:
            return [name for name in page if not name.startswith(INNER_PREFIX)]

        return await named_spaces(self._inner, own_names, after=after, limit=limit)

    def queued_spaces(self, /) -> AsyncIterator[SpaceId]:
        """Yield the spaces by their own names; an inner space by that of the space whose slot names it."""
        return self.slots.owners(queued_spaces(self._inner))

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Replace the blob `key` as the port says; if the space was sealed meanwhile, it is removed again."""
        store = await self._way(space)
        size = await store.write_blob(space, key, chunks)
        if store is self._inner and await self._has_turned(space):
            await self._inner.erase(ErasureTarget(space=space, at=self.clock.now(), blobs=(key,)))
            raise SpaceLocked(space=space)
        return size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        store = await self._way(space)
        try:
            async with closed_stream(store.read_blob(space, key)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        except NotFound:
            if store is not self._inner or not await self._has_turned(space):
                raise
        async with closed_stream((await self._way(space)).read_blob(space, key)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Erase as the port says. A whole space needs no secret: its wrapped keys go first, its name is freed last."""
        if erasure.whole_space and (slot_document := await self.slots.document(erasure.space)) is not None:
            return await self._erase_secret(erasure, slot_document)
        store = await self._way(erasure.space)
        erasure_receipt = await store.erase(erasure)
        if store is not self._inner or not await self._has_turned(erasure.space):
            return erasure_receipt
        return await (await self._way(erasure.space)).erase(erasure)

    async def check(self) -> CheckReport:
        """Check the store beneath; a locked space is no damage, and is not opened."""
        return await _inspection_module().report_secrets(self._inner, await self._inner.check())

    async def repair(self) -> CheckReport:
        """Repair the store beneath. Derived data is erased, so that no part of it is missing afterwards."""
        report = await self._inner.repair()
        await _inspection_module().redraw_spaces(self._inner, self.redrawn, at=self.clock.now())
        return await _inspection_module().report_secrets(self._inner, report)

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        return await _inspection_module().find_secret_losses(self._inner, space)

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        return await _inspection_module().acknowledge_secret_losses(self._inner, space, at=at)

    async def close(self) -> None:
        """Drop all keys and close the store beneath."""
        self.sessions.clear()
        await self._inner.close()

    async def is_sealed(self, space: SpaceId, /) -> bool:
        """Return whether `space` is under a secret, open or locked; one known to be plain is not read."""
        return space not in self._plain and await self.slots.document(space) is not None

    def is_plain(self, space: SpaceId, /) -> bool:
        """Return whether `space` is known to be under no secret."""
        return space in self._plain

    def forget(self, space: SpaceId, /) -> None:
        """Drop the keys of `space`, and clear all caches of it."""
        self.sessions.end(space)
        self.forget_content(space)

    def forget_content(self, space: SpaceId, /) -> None:
        """Clear what was derived from the keys of `space`, and caches of its content."""
        self._plain.pop(space, None)
        if self._sealed is not None:
            self._sealed.forget(space)
        for listener in self.listeners:
            listener(space)

    @contextmanager
    def lend(self, space: SpaceId, session: SecretSession, /) -> Generator[None]:
        """Open `space` for this task until the block ends; nothing of it is cached afterwards, unless its user has it
        open."""
        try:
            with self.sessions.lend_session(space, session):
                yield
        finally:
            if not self.sessions.is_open(space):
                self.forget_content(space)

    async def require_readable(self, space: SpaceId, /) -> None:
        """Raise SpaceLocked, SpaceIncomplete, KeyDestroyed if nothing of `space` can be read here now."""
        if await self._way(space) is self._inner and await self._has_turned(space):
            await self._way(space)

    async def _way(self, space: SpaceId) -> Store:
        """Return the store that serves `space`. Raises SpaceLocked, SpaceIncomplete, KeyDestroyed."""
        if space in self._plain:
            return self._inner
        if is_reserved(space):
            self._plain[space] = None
            return self._inner
        entry = await self.settle_slot(space)
        if entry is not None:
            slot = entry[0]
            try:
                self.slots.require(space, slot)
            except SpaceLocked:
                # Another caller may still have it open, whose keys stay.
                if self.sessions.end_stale(space, slot):
                    self.forget_content(space)
                if not slot.is_swept and self.sweeper is not None:
                    # Its sealing was interrupted after the commit: the plain remains are erased now. The next call
                    # tries again.
                    with suppress(ElytronError):
                        await self.sweeper(space)
                raise
            return self._sealed_spaces()
        self._plain[space] = None
        return self._inner

    def _sealed_spaces(self) -> "SealedSpaces":
        # Imported late: a process that meets no secret needs no cipher library.
        if self._sealed is None:
            from elytron_store.sealed.spaces import SealedSpaces
            from elytron_store.secret.space_keys import SecretKeyring

            self._sealed = SealedSpaces(self._inner, SecretKeyring(self.slots), clock=self.clock)
        return self._sealed

    async def _has_turned(self, space: SpaceId) -> bool:
        """Return whether `space`, which was plain, has a slot now."""
        if is_reserved(space) or await self.slots.document(space) is None:
            return False
        self.forget_content(space)
        return True

    async def settle_slot(self, space: SpaceId, /) -> tuple[SecretSlot, int] | None:
        """Return the slot of `space` and its revision, None if it is plain.

        A sealing whose process is taken for dead is undone first. Raises SealBroken.
        """
        while (entry := await self.slots.read(space)) is not None and entry[0].filled:
            if self.clock.now() < await held_until(self._inner, entry[0]):
                break
            await self.abandon(space, *entry)
        if entry is not None and entry[0].state is SecretSlotState.SEALED and self.adopter is not None:
            session = self.sessions.of(space)
            if session is None or not session.fits(entry[0], Instant(0)):
                await self.adopter(space, entry[0])
        return entry

    async def erase_openings(self, space: SpaceId, /, *more: DocumentRef) -> None:
        """Erase what opens `space` without its user's secret: its grant and the shared sessions; and `more`."""
        space_refs = [document.ref async for document in scan_documents(self._inner, space, SECRET_SLOT.collection)]
        refs = {GRANT, *more, *(ref for ref in space_refs if ref not in {SECRET_SLOT, ATTEMPTS})}
        await self._inner.erase(ErasureTarget(space=space, at=self.clock.now(), refs=tuple(refs)))

    async def abandon(self, space: SpaceId, slot: SecretSlot, revision: int, /) -> None:
        """Undo an unfinished sealing or renewal: everything is as before. A later step of it conflicts."""
        change: DeleteChange | PutChange = DeleteChange(SECRET_SLOT, revision)
        if slot.state is SecretSlotState.RENEWING:
            change = PutChange(SECRET_SLOT, slot.without_renewal().to_bytes(), revision)
        try:
            await self._inner.commit(secret_batch(space, self.clock, change))
        except Conflict:
            return  # it finished, or another process undid it
        await self.erase_inner(SpaceId(slot.filled))
        await self._inner.erase(ErasureTarget(space=space, at=self.clock.now()))

    async def erase_inner(self, inner_space: SpaceId, /) -> ErasureReceipt:
        """Erase the inner space `inner_space`, and the hold of the process that filled it."""
        at = self.clock.now()
        erasure_receipt = await self._inner.erase(ErasureTarget(space=inner_space, at=at, whole_space=True))
        await erase_hold(self._inner, inner_space, at=at)
        return erasure_receipt

    async def _erase_secret(self, erasure: ErasureTarget, slot_document: Document) -> ErasureReceipt:
        space, at = erasure.space, erasure.at
        was_making = read_secret_slot(slot_document).state is SecretSlotState.MAKING
        self.forget(space)
        slot = await self._destroy_slot(space, slot_document)
        if slot is None:
            return await self.erase(erasure)
        # The wrapped keys are removed with the remains of the old slot.
        await self.erase_openings(space, ATTEMPTS)
        inner_space = SpaceId(slot.inner)
        guard_documents = int(await guard_revision(self._inner, inner_space) > 0)
        erasure_receipt = await self.erase_inner(inner_space)
        for other_inner in slot.inners[1:]:
            await self.erase_inner(other_inner)
        plain_receipt = await self._inner.erase(ErasureTarget(space=space, at=at, whole_space=True))
        self.forget(space)
        if was_making:  # its contents were still in the plain space, next to the slot
            erasure_receipt, guard_documents = plain_receipt, 1
        return replace(erasure_receipt, documents=max(erasure_receipt.documents - guard_documents, 0))

    async def _destroy_slot(self, space: SpaceId, slot_document: Document) -> SecretSlot | None:
        """Return the slot of `space`, stored without keys; None if there is none any more."""
        document: Document | None = slot_document
        while document is not None:
            slot = read_secret_slot(document)
            if slot.state is SecretSlotState.DESTROYED:
                return slot
            renewal = None if slot.renewal is None else slot.renewal.model_copy(update={"keys": ()})
            state = SecretSlotState.DESTROYED
            destroyed_slot = slot.model_copy(update={"state": state, "terms": None, "keys": (), "renewal": renewal})
            change = PutChange(SECRET_SLOT, destroyed_slot.to_bytes(), document.revision)
            try:
                await self._inner.commit(secret_batch(space, self.clock, change, takes_back=True))
            except Conflict:
                document = await self.slots.document(space)
                continue
            return destroyed_slot
        return None


def _inspection_module():
    """Return the module of checks, which is imported only when needed."""
    from elytron_store.secret import inspection

    return inspection


def _guarded_batch(batch: Batch) -> Batch:
    """Return a batch of a plain space that fails once the space is under a secret."""
    if is_reserved(batch.space):
        return batch
    change_count = len(batch.puts) + len(batch.deletes) + len(batch.requires) + len(batch.entries)
    change_limit = limits.IMPORT_CHANGES if batch.is_import else limits.BATCH_CHANGES
    if change_count < change_limit or batch.sealed:
        return replace(batch, requires=(*batch.requires, _NO_SECRET_SLOT))
    validate_batch(batch)
    return replace(batch, requires=(*batch.requires, _NO_SECRET_SLOT), sealed=True)
