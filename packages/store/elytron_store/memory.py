"""The memory engine: everything the port promises but durability. For tests, evaluation and throw-away sessions."""

from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import replace

from elytron_core import limits
from elytron_core.errors import LimitExceeded, NotFound, StoreClosed
from elytron_core.ids import SpaceId
from elytron_core.planes.knowledge.profiles import ErasurePromise, StoreCapabilities
from elytron_core.ports.store import (
    Action,
    Batch,
    CheckReport,
    Committed,
    Document,
    Erased,
    Erasure,
    JournalEntry,
    Ref,
    Run,
    numbered,
    validate,
)
from elytron_store import document_checks
from elytron_store.journal import compaction
from elytron_store.ledger import Answered, Held, Ledger, Stage


class _Space:
    """One space: its documents and records, its journal, its blobs."""

    def __init__(self) -> None:
        self.ledger = Ledger[bytes]()
        self.journal: list[JournalEntry] = []
        self.blobs: dict[str, bytes] = {}

    def apply(self, batch: Batch, /) -> Committed:
        stage = Stage(self.ledger)
        repeated = stage.find_repeated(batch)
        if repeated is not None:
            return Committed(repeated.first, repeated.last, replayed=True, answer=repeated.answer)
        stage.require_expected(batch)
        self.ledger.forget_before(batch.at)
        committed = stage.lay(batch)
        self.journal.extend(numbered(batch, after=self.ledger.last))
        self.ledger.last = committed.last
        for put in batch.puts:
            self.ledger.put(put.ref, Held(put.expects + 1, bytes(put.body)))
        for delete in batch.deletes:
            self.ledger.remove(delete.ref)
        if batch.idempotency is not None:
            once = batch.idempotency
            record = Answered(once.key, once.digest, once.answer, committed.first, committed.last, batch.at)
            self.ledger.remember(record)
        return committed

    def erase(self, erasure: Erasure, /) -> Erased:
        refs = set(erasure.refs)
        documents = sum(self.ledger.remove(ref) is not None for ref in refs)
        blobs = sum(self.blobs.pop(key, None) is not None for key in set(erasure.blobs))
        named = [place for place, entry in enumerate(self.journal) if entry.ref in refs and entry.digest]
        for place in named:
            self.journal[place] = replace(self.journal[place], digest="")
        self.ledger.last += 1
        self.journal.append(JournalEntry(self.ledger.last, erasure.at, Action.ERASE, document_checks.ERASURE_REF, ""))
        return Erased(documents=documents, blobs=blobs, entries_scrubbed=len(named), sequence=self.ledger.last)

    def behind(self, sequence: int, limit: int, /) -> list[JournalEntry]:
        start = bisect_right(self.journal, sequence, key=lambda entry: entry.sequence)
        return self.journal[start : start + limit]


CAPABILITIES = StoreCapabilities(durable=False, single_writer=True, erasure=ErasurePromise.NO_BYTE, ttl=True)


class MemoryStore:
    """A store that lives and dies with this object. No call waits, so each is one step of the event loop."""

    def __init__(self) -> None:
        self._spaces: dict[SpaceId, _Space] = {}
        self._closed = False

    @property
    def capabilities(self) -> StoreCapabilities:
        return CAPABILITIES

    async def commit(self, batch: Batch, /) -> Committed:
        self._require_open()
        validate(batch)
        space = self._spaces.get(batch.space) or _Space()
        committed = space.apply(batch)
        self._spaces[batch.space] = space
        return committed

    async def get(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None]:
        self._require_open()
        document_checks.require_get(space, refs)
        known = self._spaces.get(space)
        return [None if known is None else _document(known, ref) for ref in refs]

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
        self._require_open()
        document_checks.require_scan(space, collection, limit=limit)
        known = self._spaces.get(space)
        if known is None:
            return []
        refs = known.ledger.window(collection, prefix=prefix, after=after, limit=limit, descending=descending)
        return [document for ref in refs if (document := _document(known, ref)) is not None]

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        self._require_open()
        document_checks.require_journal(space, after=after, limit=limit)
        known = self._spaces.get(space)
        return [] if known is None else known.behind(after, limit)

    async def compact(self, space: SpaceId, runs: Sequence[Run], /) -> int:
        self._require_open()
        compaction.require_runs(space, runs)
        known = self._spaces.get(space) or _Space()
        kept = list(compaction.compacted(known.journal, runs))
        gone = len(known.journal) - len(kept)
        known.journal = kept
        return gone

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        self._require_open()
        document_checks.require_limit(limit, most=limits.SCAN_MAX)
        return sorted(space for space in self._spaces if space > after)[:limit]

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        self._require_open()
        document_checks.require_blob(space, key)
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > limits.BLOB_BYTES:
                raise LimitExceeded(what="bytes in a blob", limit=limits.BLOB_BYTES)
        self._require_open()
        self._spaces.setdefault(space, _Space()).blobs[key] = bytes(body)
        return len(body)

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_open()
        document_checks.require_blob(space, key)
        known = self._spaces.get(space)
        body = None if known is None else known.blobs.get(key)
        if body is None:
            raise NotFound(what="blob", name=key)
        for start in range(0, len(body), limits.BLOB_CHUNK_BYTES):
            yield body[start : start + limits.BLOB_CHUNK_BYTES]

    async def erase(self, erasure: Erasure, /) -> Erased:
        self._require_open()
        document_checks.require_erasure(erasure)
        if not erasure.whole_space:
            return self._spaces.setdefault(erasure.space, _Space()).erase(erasure)
        gone = self._spaces.pop(erasure.space, None) or _Space()
        return Erased(documents=len(gone.ledger), blobs=len(gone.blobs), entries_scrubbed=len(gone.journal), sequence=0)

    async def check(self) -> CheckReport:
        self._require_open()
        held = self._spaces.values()
        return CheckReport(
            spaces=len(held),
            documents=sum(len(space.ledger) for space in held),
            entries=sum(len(space.journal) for space in held),
            blobs=sum(len(space.blobs) for space in held),
        )

    async def repair(self) -> CheckReport:
        return await self.check()

    async def close(self) -> None:
        self._closed = True
        self._spaces.clear()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed


def _document(space: _Space, ref: Ref) -> Document | None:
    held = space.ledger.find(ref)
    return None if held is None else Document(ref, held.revision, held.body)
