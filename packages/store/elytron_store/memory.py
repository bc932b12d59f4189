"""The memory engine: the whole port except durability. For tests, evaluation and throw-away sessions."""

from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import replace

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    QUEUE,
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    erasure_entries,
    number_entries,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store import engine
from elytron_store.engine import DocumentPage, Engine, blob_pieces
from elytron_store.ledger import AnsweredRequest, LedgerDocument, LedgerStage, SpaceLedger


class _MemorySpace:
    """One space: its documents and records, its journal, its blobs."""

    def __init__(self) -> None:
        self.ledger = SpaceLedger[bytes]()
        self.journal: list[JournalEntry] = []
        self.blobs: dict[str, bytes] = {}

    def apply(self, batch: Batch, /) -> CommitReceipt:
        stage = LedgerStage(self.ledger)
        repeated_receipt = stage.find_repeated(batch)
        if repeated_receipt is not None:
            return CommitReceipt(
                repeated_receipt.first, repeated_receipt.last, replayed=True, answer=repeated_receipt.answer
            )
        stage.require_expected(batch)
        self.ledger.forget_before(batch.at)
        receipt = stage.lay(batch)
        self.journal.extend(number_entries(batch, after=self.ledger.last))
        self.ledger.last = receipt.last
        for change in batch.puts:
            self.ledger.put(change.ref, LedgerDocument(change.expects + 1, bytes(change.body)))
        for delete in batch.deletes:
            self.ledger.remove(delete.ref)
        if batch.idempotency is not None:
            batch_key = batch.idempotency
            record = AnsweredRequest(
                batch_key.key, batch_key.digest, batch_key.answer, receipt.first, receipt.last, batch.at
            )
            self.ledger.remember(record)
        return receipt

    def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        refs = set(erasure.refs)
        documents = sum(self.ledger.remove(ref) is not None for ref in refs)
        blobs = sum(self.blobs.pop(key, None) is not None for key in set(erasure.blobs))
        entry_indexes = [
            entry_index for entry_index, entry in enumerate(self.journal) if entry.ref in refs and entry.digest
        ]
        for entry_index in entry_indexes:
            self.journal[entry_index] = replace(self.journal[entry_index], digest="")
        self.journal += erasure_entries(erasure, after=self.ledger.last)
        self.ledger.last = self.journal[-1].sequence
        return ErasureReceipt(
            documents=documents, blobs=blobs, entries_scrubbed=len(entry_indexes), sequence=self.ledger.last
        )

    def behind(self, sequence: int, limit: int, /) -> list[JournalEntry]:
        start_index = bisect_right(self.journal, sequence, key=lambda entry: entry.sequence)
        return self.journal[start_index : start_index + limit]


class MemoryStore(Engine):
    """A store that lives as long as this object. Except for the validation of an import, no call leaves the event
    loop."""

    capabilities = StoreCapabilities(
        durable=False, single_writer=True, erasure=ErasurePromise.NO_BYTE, ttl=True, queue_index=True
    )

    def __init__(self) -> None:
        super().__init__()
        self._memory_spaces: dict[SpaceId, _MemorySpace] = {}
        self._queued: set[SpaceId] = set()

    async def _commit(self, batch: Batch) -> CommitReceipt:
        space = self._memory_spaces.get(batch.space) or _MemorySpace()
        receipt = space.apply(batch)
        # Only now: a space whose first batch is rejected does not exist.
        self._memory_spaces[batch.space] = space
        self._list_queue(batch.space)
        return receipt

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        memory_space = self._memory_spaces.get(space)
        return [None] * len(refs) if memory_space is None else _documents_at(memory_space, refs)

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        memory_space = self._memory_spaces.get(space)
        if memory_space is None:
            return []
        refs = memory_space.ledger.window(page)
        return [document for document in _documents_at(memory_space, refs) if document is not None]

    async def _count(self, space: SpaceId, collection: str) -> int:
        memory_space = self._memory_spaces.get(space)
        return 0 if memory_space is None else memory_space.ledger.count(collection)

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        memory_space = self._memory_spaces.get(space)
        return [] if memory_space is None else memory_space.behind(after, limit)

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        memory_space = self._memory_spaces.get(space) or _MemorySpace()
        entries = list(engine.compacted_journal(memory_space.journal, runs))
        removal_count = len(memory_space.journal) - len(entries)
        memory_space.journal = entries
        return removal_count

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return sorted(space for space in self._memory_spaces if space > after)[:limit]

    async def _queued_spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return sorted(space for space in self._queued if space > after)[:limit]

    def _list_queue(self, space: SpaceId) -> None:
        """Add `space` to the queued ones if it has a queue now."""
        memory_space = self._memory_spaces.get(space)
        if memory_space is not None and memory_space.ledger.count(QUEUE):
            self._queued.add(space)
        else:
            self._queued.discard(space)

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        body = b"".join([piece async for piece in blob_pieces(chunks)])
        # Checked again: the source of a blob may take long, and the store be closed meanwhile.
        self._require_open()
        self._memory_spaces.setdefault(space, _MemorySpace()).blobs[key] = body
        return len(body)

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_blob(space, key)
        memory_space = self._memory_spaces.get(space)
        body = None if memory_space is None else memory_space.blobs.get(key)
        if body is None:
            raise NotFound(what="blob", name=key)
        for start in range(0, len(body), limits.BLOB_CHUNK_BYTES):
            yield body[start : start + limits.BLOB_CHUNK_BYTES]

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        if not erasure.whole_space:
            receipt = self._memory_spaces.setdefault(erasure.space, _MemorySpace()).erase(erasure)
            self._list_queue(erasure.space)
            return receipt
        memory_space = self._memory_spaces.pop(erasure.space, None) or _MemorySpace()
        self._list_queue(erasure.space)
        return ErasureReceipt(
            documents=len(memory_space.ledger),
            blobs=len(memory_space.blobs),
            entries_scrubbed=len(memory_space.journal),
            sequence=0,
        )

    async def _check(self) -> CheckReport:
        spaces = self._memory_spaces.values()
        return CheckReport(
            spaces=len(spaces),
            documents=sum(len(space.ledger) for space in spaces),
            entries=sum(len(space.journal) for space in spaces),
            blobs=sum(len(space.blobs) for space in spaces),
        )

    async def _repair(self) -> CheckReport:
        return await self._check()

    async def losses(self, _space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        """Return nothing: no damage reaches the memory of this process."""
        self._require_open()
        return ()

    async def acknowledge_losses(self, _space: SpaceId | None, /, *, at: Instant) -> int:  # noqa: ARG002 - none is ever recorded
        self._require_open()
        return 0

    async def close(self) -> None:
        self._closed = True
        self._memory_spaces.clear()


def _documents_at(space: _MemorySpace, refs: Sequence[DocumentRef]) -> list[Document | None]:
    pairs = zip(refs, map(space.ledger.find, refs), strict=True)
    return [None if document is None else Document(ref, document.revision, document.body) for ref, document in pairs]
