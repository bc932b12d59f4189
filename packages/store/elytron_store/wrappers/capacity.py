"""A bounded store: a write beyond its capacity is refused whole, before any of it is stored.

It wraps any store. Usage is counted at opening and tracked by this handle, so only one process at a time writes to a
bounded store. Reading and erasing are never refused, and neither is taking back (forgetting, ending keys). A journal
entry counts as an event while its documents exist. Entries emptied by an erasure do not count and are compacted as they
accumulate, so a device that erases what it has read can run forever.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from elytron_core.errors import Conflict, ElytronError, IdempotencyConflict, NotFound, StoreBudgetExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    RequireRevision,
    Store,
    validate_batch,
)
from elytron_core.ports.store_checks import CheckReport
from elytron_core.profiles import StoreCapacity
from elytron_store.engine import PassingStore

IDLE_SHARE: Final = 4
IDLE_LEAST: Final = 64
"""A bounded store has journals compacted when its empty entries reach this part of the events that it may hold, and
this number at least."""


_NEVER = 1 << 40
"""A revision that no document has."""
Compactor = Callable[[Store, SpaceId], Awaitable[int]]
"""Compacts the journal of a space in a store; returns the number of removed entries."""


@dataclass(slots=True)
class CapacityUsage:
    """Contents of a store, including running writes."""

    records: int = 0
    events: int = 0
    document_bytes: int = 0
    blob_bytes: int = 0
    sizes: dict[SpaceId, dict[DocumentRef, int]] = field(default_factory=dict[SpaceId, dict[DocumentRef, int]])
    journals: dict[SpaceId, int] = field(default_factory=dict[SpaceId, int])
    idle: dict[SpaceId, int] = field(default_factory=dict[SpaceId, int])
    """Entries without information, since the last compaction."""
    blobs: dict[tuple[SpaceId, str], int] = field(default_factory=dict[tuple[SpaceId, str], int])


@dataclass(frozen=True, slots=True)
class _BatchGrowth:
    """How much a batch enlarges a store."""

    records: int
    events: int
    document_bytes: int


class CapacityStore(PassingStore):
    """A Store with a capacity over another Store."""

    def __init__(
        self,
        inner_store: Store,
        capacity: StoreCapacity,
        /,
        *,
        collections: Sequence[str],
        blobs: Sequence[str],
        compactor: Compactor | None = None,
    ) -> None:
        super().__init__(inner_store)
        self._compactor = compactor
        self._most_idle = max(capacity.events // IDLE_SHARE, IDLE_LEAST)
        self._capacity = capacity
        self._collections = collections
        self._blobs = blobs
        self._usage = CapacityUsage()

    @classmethod
    async def open(
        cls,
        inner_store: Store,
        capacity: StoreCapacity,
        /,
        *,
        collections: Sequence[str],
        blobs: Sequence[str] = (),
        compactor: Compactor | None = None,
    ) -> "CapacityStore":
        """Return `inner_store` bounded by `capacity`.

        `collections` and `blobs` are the names under which content may exist. A store that already exceeds it can be
        read and erased from, but takes no more. `compactor` is called for the space with most entries without
        information, if there are many.
        """
        store = cls(inner_store, capacity, collections=collections, blobs=blobs, compactor=compactor)
        await store._count()
        return store

    @property
    def capacity(self) -> StoreCapacity:
        return self._capacity

    @property
    def usage(self) -> StoreCapacity:
        """Return how much of the capacity is used."""
        usage = self._usage
        return StoreCapacity(
            records=usage.records,
            events=usage.events,
            blob_bytes=usage.blob_bytes,
            snapshot_bytes=usage.document_bytes,
        )

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Apply `batch` if it fits, else raise StoreBudgetExceeded; a repeat is answered in any case."""
        validate_batch(batch)
        growth = self._growth(batch)
        capacity_error = None if batch.takes_back else self._beyond(growth)
        if capacity_error is not None:
            if batch.idempotency is not None and (repeated_receipt := await self._answered(batch)) is not None:
                return repeated_receipt
            raise capacity_error
        # Counted before the wait: two concurrent batches cannot both take the last room.
        self._grow(growth, 1)
        try:
            receipt = await self._inner.commit(batch)
        except BaseException:
            self._grow(growth, -1)
            raise
        if receipt.replayed:
            self._grow(growth, -1)
            return receipt
        self._keep(batch, growth.events)
        await self._tidy()
        return receipt

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        """Compact the journal as the port says; this removes no event."""
        removal_count = await self._inner.compact(space, runs)
        self._usage.idle.pop(space, None)
        return removal_count

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Replace a blob if the new one fits. Raises StoreBudgetExceeded, and the old one stays."""
        old_bytes = self._usage.blobs.get((space, key), 0)
        room_bytes = self._capacity.blob_bytes - self._usage.blob_bytes + old_bytes
        size = await self._inner.write_blob(space, key, self._bounded(chunks, room_bytes))
        # The size is looked up again: another call may have replaced the blob during the wait.
        self._usage.blob_bytes += size - self._usage.blobs.get((space, key), 0)
        self._usage.blobs[space, key] = size
        return size

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, even from a full store."""
        erasure_receipt = await self._inner.erase(erasure)
        usage = self._usage
        sizes = usage.sizes.get(erasure.space, {})
        refs = list(sizes) if erasure.whole_space else [ref for ref in dict.fromkeys(erasure.refs) if ref in sizes]
        for ref in refs:
            usage.document_bytes -= sizes.pop(ref)
        usage.records -= len(refs)
        blob_keys = [key for space, key in usage.blobs if space == erasure.space]
        for key in blob_keys if erasure.whole_space else set(blob_keys).intersection(erasure.blobs):
            usage.blob_bytes -= usage.blobs.pop((erasure.space, key))
        scrubbed_count = (
            usage.journals.get(erasure.space, 0) if erasure.whole_space else erasure_receipt.entries_scrubbed
        )
        usage.events -= scrubbed_count
        usage.journals[erasure.space] = usage.journals.get(erasure.space, 0) - scrubbed_count
        if erasure.whole_space:
            usage.idle.pop(erasure.space, None)
        else:
            # The erasure's own entry is the additional one.
            usage.idle[erasure.space] = usage.idle.get(erasure.space, 0) + scrubbed_count + 1
            await self._tidy()
        return erasure_receipt

    async def repair(self) -> CheckReport:
        """Repair the inner store and count the rest again."""
        report = await self._inner.repair()
        await self._count()
        return report

    async def _count(self) -> None:
        usage = CapacityUsage()
        async for space in store.scan_spaces(self._inner):
            await self._count_space(space, usage)
        self._usage = usage

    async def _count_space(self, space: SpaceId, usage: CapacityUsage) -> None:
        sizes = usage.sizes.setdefault(space, {})
        for collection in self._collections:
            async for document in store.scan_documents(self._inner, space, collection):
                sizes[document.ref] = len(document.body)
        events = idle_entries = 0
        async for entry in store.scan_entries(self._inner, space):
            events += _counts_event(entry)
            idle_entries += not entry.digest
        usage.journals[space] = events
        usage.idle[space] = idle_entries
        for key in self._blobs:
            space_bytes = 0
            try:
                async for chunk in self._inner.read_blob(space, key):
                    space_bytes += len(chunk)
            except NotFound:
                continue
            usage.blobs[space, key] = space_bytes
            usage.blob_bytes += space_bytes
        usage.records += len(sizes)
        usage.events += events
        usage.document_bytes += sum(sizes.values())

    def _growth(self, batch: Batch) -> _BatchGrowth:
        sizes = self._usage.sizes.get(batch.space, {})
        return _BatchGrowth(
            records=sum(1 for change in batch.puts if change.ref not in sizes)
            - sum(1 for delete in batch.deletes if delete.ref in sizes),
            events=sum(map(_counts_event, batch.entries)),
            document_bytes=sum(len(change.body) - sizes.get(change.ref, 0) for change in batch.puts)
            - sum(sizes.get(delete.ref, 0) for delete in batch.deletes),
        )

    def _beyond(self, growth: _BatchGrowth) -> StoreBudgetExceeded | None:
        """Return the error for a batch without room. A batch without growth always fits."""
        usage, capacity = self._usage, self._capacity
        for quantity_name, added_amount, current_amount, max_amount in (
            ("records", growth.records, usage.records, capacity.records),
            ("events", growth.events, usage.events, capacity.events),
            ("snapshot bytes", growth.document_bytes, usage.document_bytes, capacity.snapshot_bytes),
        ):
            if added_amount > 0 and current_amount + added_amount > max_amount:
                return StoreBudgetExceeded(what=quantity_name, limit=max_amount)
        return None

    def _grow(self, growth: _BatchGrowth, sign: int) -> None:
        self._usage.records += sign * growth.records
        self._usage.events += sign * growth.events
        self._usage.document_bytes += sign * growth.document_bytes

    def _keep(self, batch: Batch, events: int) -> None:
        """Record the current state; the sums were increased before."""
        sizes = self._usage.sizes.setdefault(batch.space, {})
        for change in batch.puts:
            sizes[change.ref] = len(change.body)
        for delete in batch.deletes:
            sizes.pop(delete.ref, None)
        usage = self._usage
        usage.journals[batch.space] = usage.journals.get(batch.space, 0) + events
        idle_entries = sum(not entry.digest for entry in batch.entries)
        if idle_entries:
            usage.idle[batch.space] = usage.idle.get(batch.space, 0) + idle_entries

    async def _tidy(self) -> None:
        """Compact the journal with most entries without information, if there are many in total."""
        idle_entries = self._usage.idle
        if self._compactor is None or sum(idle_entries.values()) < self._most_idle:
            return
        space = max(idle_entries, key=idle_entries.__getitem__)
        del idle_entries[space]
        with suppress(ElytronError):  # the requested work is done; the next compaction tries again
            await self._compactor(self._inner, space)

    async def _answered(self, batch: Batch) -> CommitReceipt | None:
        """Return the first answer of a batch that was applied before; None if it was not."""
        # The requirement can never be met: the batch is answered from its record or rejected, but not applied.
        probe_batch = Batch(
            space=batch.space,
            at=batch.at,
            entries=batch.entries,
            requires=(RequireRevision(batch.entries[0].ref, _NEVER),),
            idempotency=batch.idempotency,
        )
        try:
            return await self._inner.commit(probe_batch)
        except IdempotencyConflict:
            raise
        except Conflict:
            return None

    async def _bounded(self, chunks: AsyncIterable[bytes], room: int) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            room -= len(chunk)
            if room < 0:
                raise StoreBudgetExceeded(what="blob bytes", limit=self._capacity.blob_bytes)
            yield chunk


def _counts_event(entry: EntryDraft | JournalEntry) -> bool:
    """Return whether an entry is an event: its documents exist, and it covers no compacted run."""
    return bool(entry.digest) and entry.covers == 1
