"""Parts of stores: engines, whose calls are checked here and done there, and stores that pass calls on to a store."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, TypeVar

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import (
    Conflict,
    ElytronError,
    InvalidInput,
    LimitExceeded,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    COMPACTION_REF,
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    Store,
    acknowledge_losses,
    find_losses,
    queued_spaces,
    read_pages,
    require_refs,
    require_space,
    validate_batch,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import StoreCapabilities
from elytron_core.strict_json import frame_checksum

P = TypeVar("P")
T = TypeVar("T")


async def off_loop(work: Callable[[Batch], T], batch: Batch, /) -> T:
    """Return `work(batch)`: immediately, except for an import, which may be large and runs in another thread."""
    return await asyncio.to_thread(work, batch) if batch.is_import else work(batch)


def document_checksum(ref: DocumentRef, revision: int, body: bytes, /) -> bytes:
    """Return eight bytes that change if the body is altered or moved to another place or revision."""
    return frame_checksum(ref.collection.encode(), ref.key.encode(), revision.to_bytes(8, "big"), body)


_NO_BODY = b"\0no body"


def row_checksum(*place: str | int, body: object = b"") -> bytes:
    """Return the checksum of a row at `place`. A damaged row's `body` may not be bytes; then no checksum matches."""
    # Names contain no control characters, so a line break separates them unambiguously.
    return frame_checksum("\n".join(map(str, place)).encode(), body) if isinstance(body, bytes) else _NO_BODY


def row_document(space: str, row: tuple[str, str, int, bytes, bytes], /) -> Document:
    """Return the document in a row. Raises StoreCorrupt if its checksum does not match."""
    collection, key, revision, body, checksum = row
    if row_checksum(space, collection, key, revision, body=body) != checksum:
        raise StoreCorrupt(what=f"document {collection}/{key}")
    return Document(DocumentRef(collection, key), revision, body)


def require_limit(limit: int, /, *, most: int) -> None:
    """Raise InvalidInput below 1 and LimitExceeded above `most`."""
    if limit < 1:
        raise InvalidInput(field="limit", problem="must be at least 1")
    if limit > most:
        raise LimitExceeded(what="limit", limit=most, found=limit)


def require_get(space: SpaceId, refs: Sequence[DocumentRef], /) -> None:
    """Raise InvalidInput for an invalid space or ref, LimitExceeded for more refs than one read allows."""
    require_space(space)
    if len(refs) > limits.SCAN_MAX:
        raise LimitExceeded(what="documents in one read", limit=limits.SCAN_MAX, found=len(refs))
    require_refs(refs)


def require_scan(space: SpaceId, collection: str, /, *, limit: int) -> None:
    """Raise InvalidInput for an invalid space or collection; for the limit see `require_limit`."""
    require_space(space)
    require_refs((DocumentRef(collection, "0"),))
    require_limit(limit, most=limits.SCAN_MAX)


def require_journal(space: SpaceId, /, *, after: int, limit: int) -> None:
    """Raise InvalidInput for an invalid space or a negative sequence; for the limit see `require_limit`."""
    require_space(space)
    if after < 0:
        raise InvalidInput(field="after", problem="must not be negative")
    require_limit(limit, most=limits.JOURNAL_MAX)


def require_blob(space: SpaceId, key: str, /) -> None:
    """Raise InvalidInput unless `space` is valid and `key` has the form of a document key."""
    require_space(space)
    require_refs((DocumentRef("blob", key),))


def require_erasure(erasure: ErasureTarget, /) -> None:
    """Raise InvalidInput for an invalid space, ref or blob key, and for a name that is not among the erased refs."""
    require_space(erasure.space)
    require_refs(erasure.refs)
    if erasure.named and not set(erasure.named).issubset(erasure.refs):
        raise InvalidInput(field="named", problem="has a document that is not among those to be erased")
    for key in erasure.blobs:
        require_blob(erasure.space, key)


def require_runs(space: SpaceId, runs: Sequence[CompactedRun], /) -> None:
    """Raise InvalidInput unless `runs` are ordered and have two sequences or more each, LimitExceeded for too many."""
    require_space(space)
    if len(runs) > limits.COMPACTION_RUNS:
        raise LimitExceeded(what="runs in a compaction", limit=limits.COMPACTION_RUNS, found=len(runs))
    last_sequence = 0
    for run in runs:
        if not last_sequence < run.first < run.last:
            raise InvalidInput(field="runs", problem="are not in order, or one has only a single entry")
        last_sequence = run.last


def stand_in(run: CompactedRun, entries: Sequence[JournalEntry], /) -> JournalEntry:
    """Return the entry that replaces `entries`, those of `run`. Raises Conflict unless it may cover them."""
    matches_run = bool(entries) and (entries[0].first, entries[-1].sequence) == (run.first, run.last)
    if not matches_run or any(entry.digest and entry.covers == 1 for entry in entries):
        raise missing_run(run)
    replacement = JournalEntry(
        run.last, entries[-1].at, JournalAction.ERASE, COMPACTION_REF, run.digest, covers=run.last - run.first + 1
    )
    if len(entries) == 1 and entries[0] != replacement:
        raise missing_run(run)
    return replacement


LOST_REF = DocumentRef("lost", "0")
"""Subject of entries that take the place of lost ones."""


def lost_entry(sequence: int, at: Instant, /) -> JournalEntry:
    """Return the entry that takes the place of one lost to damage."""
    return JournalEntry(sequence, at, JournalAction.MAINTENANCE, LOST_REF, "")


def named_journal(entries: Iterable[JournalEntry], /, *, refs: Collection[DocumentRef]) -> Iterator[JournalEntry]:
    """Yield a journal with lost entries, then an entry for each of `refs` whose own entry may be lost."""
    unnamed_refs, end, last_at = set(refs), 0, Instant(0)
    for entry in entries:
        yield entry
        end, last_at = entry.sequence, entry.at
        # It was written, or rescued before.
        if entry.action is JournalAction.WRITE or (entry.action is JournalAction.MAINTENANCE and not entry.digest):
            unnamed_refs.discard(entry.ref)
    for sequence, ref in enumerate(sorted(unnamed_refs), end + 1):
        yield JournalEntry(sequence, last_at, JournalAction.MAINTENANCE, ref, "")


def compacted_journal(entries: Iterable[JournalEntry], runs: Sequence[CompactedRun], /) -> Iterator[JournalEntry]:
    """Yield a whole journal with one entry in place of each of `runs`. Raises Conflict if it lacks such a run."""
    remaining_runs = iter(runs)
    run = next(remaining_runs, None)
    run_entries: list[JournalEntry] = []
    for entry in entries:
        if run is None or entry.sequence < run.first:
            yield entry
            continue
        run_entries.append(entry)
        if entry.sequence >= run.last:
            yield stand_in(run, run_entries)
            run_entries.clear()
            run = next(remaining_runs, None)
    if run is not None:
        raise missing_run(run)


def missing_run(run: CompactedRun, /) -> Conflict:
    """Return the error for a run that the journal does not have."""
    return Conflict(what=f"the run of journal entries {run.first} to {run.last}", expected=1, found=0)


class DocumentPage(NamedTuple):
    """Documents of a collection that a scan selects."""

    collection: str
    prefix: str
    after: str
    limit: int
    descending: bool


class Engine(ABC):
    """Public calls of a store. Each fails if the store is closed or the request breaks the port's rules.

    An engine does what is behind them. A generator checks when it begins, so an engine's `read_blob` does that itself.
    """

    capabilities: StoreCapabilities

    def __init__(self, *, in_process: str = "") -> None:
        """Create an engine. With `in_process`, its name, a forked child may not use what its parent opened."""
        self._closed = False
        self._in_process = in_process
        self._process = os.getpid()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        await off_loop(validate_batch, batch)
        # Checked after the switch to a thread, because the store may have been closed meanwhile.
        self._require_open()
        return await self._commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self._require_open()
        require_get(space, refs)
        return await self._get(space, refs)

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
        require_scan(space, collection, limit=limit)
        return await self._scan(space, DocumentPage(collection, prefix, after, limit, descending))

    async def count(self, space: SpaceId, collection: str, /) -> int:
        self._require_open()
        require_scan(space, collection, limit=1)
        return await self._count(space, collection)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        self._require_open()
        require_journal(space, after=after, limit=limit)
        return await self._journal(space, after, limit)

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        self._require_open()
        require_runs(space, runs)
        return await self._compact(space, runs)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        self._require_open()
        require_limit(limit, most=limits.SCAN_MAX)
        return await self._spaces(after, limit)

    def queued_spaces(self, /) -> AsyncIterator[SpaceId]:
        async def read(behind: str) -> Sequence[SpaceId]:
            self._require_open()
            return await self._queued_spaces(behind, limits.SCAN_MAX)

        return read_pages(read, str, "")

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        self._require_blob(space, key)
        return await self._write_blob(space, key, chunks)

    @abstractmethod
    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]: ...

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self._require_open()
        require_erasure(erasure)
        try:
            return await self._erase(erasure)
        except StoreFull as full:
            raise StoreFull(engine=full.engine, erasing=True) from full

    async def check(self) -> CheckReport:
        self._require_open()
        return await self._check()

    async def repair(self) -> CheckReport:
        self._require_open()
        return await self._repair()

    async def probe(self) -> None:
        self._require_open()
        await self._probe()

    async def _probe(self) -> None:
        await self._spaces("", 1)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed
        if self._in_process and os.getpid() != self._process:
            problem = f"this {self._in_process} store was opened before the process forked: reopen it in the child"
            raise StoreUnavailable(problem)

    def _require_blob(self, space: SpaceId, key: str) -> None:
        self._require_open()
        require_blob(space, key)

    @abstractmethod
    async def _commit(self, batch: Batch) -> CommitReceipt: ...

    @abstractmethod
    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]: ...

    @abstractmethod
    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]: ...

    async def _count(self, space: SpaceId, collection: str) -> int:
        """Return the number of documents by reading them; engines that can do better override this."""
        document_count, last_key = 0, ""
        while page := await self._scan(
            space, DocumentPage(collection, "", last_key, limits.SCAN_MAX, descending=False)
        ):
            document_count, last_key = document_count + len(page), page[-1].ref.key
        return document_count

    @abstractmethod
    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]: ...

    @abstractmethod
    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int: ...

    @abstractmethod
    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]: ...

    async def _queued_spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        """Return a page of `queued_spaces`: all spaces, unless an engine with the capability overrides this."""
        return await self._spaces(after, limit)

    @abstractmethod
    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int: ...

    @abstractmethod
    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt: ...

    @abstractmethod
    async def _check(self) -> CheckReport: ...

    @abstractmethod
    async def _repair(self) -> CheckReport: ...


async def blob_pieces(chunks: AsyncIterable[bytes], /, *, size: int = limits.BLOB_CHUNK_BYTES) -> AsyncIterator[bytes]:
    """Yield a blob's bytes in pieces of `size`; the last one is shorter, and none is empty.

    Raises LimitExceeded for more than `limits.BLOB_BYTES`.
    """
    piece = bytearray()
    total_bytes = 0
    async for chunk in chunks:
        total_bytes += len(chunk)
        if total_bytes > limits.BLOB_BYTES:
            raise LimitExceeded(what="bytes in a blob", limit=limits.BLOB_BYTES)
        piece += chunk
        while len(piece) >= size:
            yield bytes(piece[:size])
            del piece[:size]
    if piece:
        yield bytes(piece)


async def write_windows(
    chunks: AsyncIterable[bytes],
    /,
    *,
    parts: int,
    stage: Callable[[int, Sequence[bytes]], Awaitable[object]],
    publish: Callable[[int, Sequence[bytes], int], Awaitable[object]],
    discard: Callable[[], Awaitable[object]],
) -> int:
    """Write a blob in windows of `parts` pieces, the last of which publishes it; return its size.

    `stage` and `publish` receive the number of earlier pieces, and `publish` also the size. Staged pieces are discarded
    if anything fails, including when the caller is cancelled.
    """
    window: list[bytes] = []
    staged_count = size_bytes = 0
    try:
        async for chunk in blob_pieces(chunks):
            size_bytes += len(chunk)
            window.append(chunk)
            if len(window) == parts:
                await stage(staged_count, tuple(window))
                staged_count += len(window)
                window.clear()
        await publish(staged_count, tuple(window), size_bytes)
    except BaseException:
        if staged_count or len(window) == parts:
            with suppress(ElytronError):
                await asyncio.shield(asyncio.ensure_future(discard()))
        raise
    return size_bytes


class WriteDurability(StrEnum):
    """State of a write when its call returns.

    FULL: on the device, surviving a power cut. NORMAL: survives the end of the process, but a power cut may lose the
    last acknowledged writes; what remains is complete and in order.
    """

    FULL = "full"
    NORMAL = "normal"


async def named_spaces(
    store: Store,
    names: Callable[[Sequence[SpaceId]], Awaitable[Sequence[SpaceId | None]]],
    /,
    *,
    after: str,
    limit: int,
) -> Sequence[SpaceId]:
    """Return a page of the spaces of `store` with the names that `names` gives them; those without a name are left
    out."""
    spaces: list[SpaceId] = []
    while True:
        page = await store.spaces(after=after, limit=limit)
        spaces += [name for name in await names(page) if name is not None]
        if len(page) < limit or len(spaces) >= limit:
            return spaces[:limit]
        # A page may contain no named space without being the last one.
        after = page[-1]


def innermost_store(store: Store, /) -> object:
    """Return the engine beneath all wrappers of `store`."""
    engine: object = store
    while (inner_store := getattr(engine, "inner", None)) is not None:
        engine = inner_store
    return engine


class PassingStore:
    """Passes every call on to the store beneath."""

    def __init__(self, store: Store, /) -> None:
        self._inner = store

    @property
    def inner(self) -> Store:
        """Return the store beneath."""
        return self._inner

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._inner.capabilities

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        return await self._inner.commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        return await self._inner.get(space, refs)

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
        return await self._inner.scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)

    async def count(self, space: SpaceId, collection: str, /) -> int:
        return await self._inner.count(space, collection)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        return await self._inner.journal(space, after=after, limit=limit)

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        return await self._inner.compact(space, runs)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        return await self._inner.spaces(after=after, limit=limit)

    def queued_spaces(self, /) -> AsyncIterator[SpaceId]:
        return queued_spaces(self._inner)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        return await self._inner.write_blob(space, key, chunks)

    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        return self._inner.read_blob(space, key)

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        return await self._inner.erase(erasure)

    async def check(self) -> CheckReport:
        return await self._inner.check()

    async def repair(self) -> CheckReport:
        return await self._inner.repair()

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        return await find_losses(self._inner, space)

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        return await acknowledge_losses(self._inner, space, at=at)

    async def probe(self) -> None:
        await self._inner.probe()

    async def close(self) -> None:
        await self._inner.close()
