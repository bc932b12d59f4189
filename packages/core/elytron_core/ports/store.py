"""The store port: bytes below, planes above. Every engine and wrapper proves it through `elytron_conformance`.

Rules that hold for every store:

- A batch is applied whole or not at all, and is durable when `commit` returns (the memory engine: visible).
- Journal sequences of a space start at 1 and are given inside the commit; order comes from them. Each is one entry's,
  or is in the run that one entry covers since a compaction (`JournalEntry.covers`): so every gap is recorded.
- A document's revision is 1 when it appears and grows by one with each put. Each put and delete names the revision
  that it replaces (0: the document must be absent), so no writer overwrites a revision that it has not read.
- Several handles and processes may share one store; each reads what was acknowledged anywhere.
- Keys are ids or keyed digests made by the runtime, never words: engines and journals may show them.
- What comes back is what was put: damaged bytes raise StoreCorrupt (SealBroken if sealed) and are never served.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId, require_name
from elytron_core.planes import jobs
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import ErasureLayer, StoreCapabilities

SCAN_PAGE: Final = 250
"""Documents or entries that a walk over a space reads at once: a thread that reads many delays all others."""
WORK_STEP_S: Final = 0.001
"""Upkeep that takes longer lets other tasks run: a recall passes through the event loop several times."""


_COLLECTION = re.compile(r"[a-z][a-z_]{0,31}")
_KEY = re.compile(r"[0-9a-f][0-9a-f.-]{0,95}")


QUEUE: Final = jobs.QUEUE
"""Collection with a document in each space that has unfinished jobs; an index of such spaces covers this collection."""


class DocumentRef(NamedTuple):
    """Address of a document: a collection and a key in it."""

    collection: str
    key: str


class JournalAction(StrEnum):
    """Kind of a journal entry (the spec's event kinds)."""

    WRITE = "write"
    MERGE = "merge"
    DELETE = "delete"
    ERASE = "erase"
    MAINTENANCE = "maintenance"
    PROJECTION = "projection"
    LIFECYCLE = "lifecycle"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Document:
    """A stored body with its address and revision."""

    ref: DocumentRef
    revision: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PutChange:
    """Write `body` at `ref`, which must now be at revision `expects` (0: absent)."""

    ref: DocumentRef
    body: bytes
    expects: int


@dataclass(frozen=True, slots=True)
class DeleteChange:
    """Remove the document at `ref`, which must now be at revision `expects` (at least 1)."""

    ref: DocumentRef
    expects: int


@dataclass(frozen=True, slots=True)
class RequireRevision:
    """Change nothing at `ref`, but require it to be at `revision` (0: absent) when the batch is applied."""

    ref: DocumentRef
    revision: int


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """A journal entry of one change, before its commit. `digest` is keyed by the space's secret; it never contains
    content.

    `at` is the batch's, unless the entry names its own: a restored journal keeps its times. It also keeps its places:
    `covers` is above 1 for an entry in place of a compacted run.
    """

    action: JournalAction
    ref: DocumentRef
    digest: str = ""
    at: Instant | None = None
    covers: int = 1


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry as kept: its place in the space's order and when it was committed.

    `covers` is its number of sequences, its own the last of them: 1, or more if a compaction left one
    entry for a run of them.
    """

    sequence: int
    at: Instant
    action: JournalAction
    ref: DocumentRef
    digest: str
    covers: int = 1

    @property
    def first(self) -> int:
        """Return the first sequence that it covers."""
        return self.sequence - self.covers + 1


@dataclass(frozen=True, slots=True)
class CompactedRun:
    """The entries from sequence `first` to `last`, which no longer carry information.

    The entry that replaces them has `digest`; it is an ERASE of `COMPACTION_REF` at the time of the last one.
    """

    first: int
    last: int
    digest: str = ""


COMPACTION_REF = DocumentRef("compaction", "0")
"""Subject of a compacted run's entry: it says that there were entries, not their contents."""


@dataclass(frozen=True, slots=True)
class BatchKey:
    """A key under which a batch is applied once.

    `digest` identifies the request's body, `answer` is the answer to a repeat. Both are stored for at least
    `limits.IDEMPOTENCY_KEEP_MS` after the batch's `at`.
    """

    key: str
    digest: str
    answer: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one space that are applied together or not at all. Every batch leaves at least one journal entry.

    `sealed` marks the output of sealing wrappers (at most two) for a batch within the limits: each body may be
    `limits.SEAL_BYTES` longer, and there may be two more changes. `takes_back` says that the batch only hides, empties
    or ends stored content and adds nothing: even a full store accepts it. `is_import` marks everything that one import
    brings: it may have `limits.IMPORT_CHANGES`.
    """

    space: SpaceId
    at: Instant
    entries: tuple[EntryDraft, ...]
    puts: tuple[PutChange, ...] = ()
    deletes: tuple[DeleteChange, ...] = ()
    requires: tuple[RequireRevision, ...] = ()
    idempotency: BatchKey | None = None
    sealed: bool = False
    takes_back: bool = False
    is_import: bool = False


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """The sequences of a batch, `first` to `last`, and the answer stored for its idempotency key.

    `replayed` says that the batch had been applied before under that key and nothing was changed now.
    """

    first: int
    last: int
    replayed: bool = False
    answer: bytes = b""


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """Target of an erasure: documents, blobs, or the whole space with its journal and keys.

    Each of `named`, some of `refs`, is named by a DELETE entry ahead of the ERASE entry, for those who follow the
    journal. None leaves it to the runtime to say which; an engine then names none.
    """

    space: SpaceId
    at: Instant
    refs: tuple[DocumentRef, ...] = ()
    blobs: tuple[str, ...] = ()
    whole_space: bool = False
    named: tuple[DocumentRef, ...] | None = None


ERASURE_REF = DocumentRef("erasure", "0")
"""Subject of an erasure's journal entry: it says that something was removed, not what."""


def erasure_entries(erasure: ErasureTarget, /, *, after: int) -> list[JournalEntry]:
    """Return the entries that `erasure` leaves in a journal that ends at sequence `after`."""
    actions_and_refs = [(JournalAction.DELETE, ref) for ref in dict.fromkeys(erasure.named or ())] + [
        (JournalAction.ERASE, ERASURE_REF)
    ]
    return [
        JournalEntry(sequence, erasure.at, action, ref, "")
        for sequence, (action, ref) in enumerate(actions_and_refs, after + 1)
    ]


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Result of an erasure. `sequence` is its content-free journal entry (0 if the whole space is gone).

    A store on a database server says in `layers` where bytes may still be.
    """

    documents: int
    blobs: int
    entries_scrubbed: int
    sequence: int
    layers: tuple[ErasureLayer, ...] = field(default=(), compare=False)


class Store(Protocol):
    """Documents in key order, a journal and blobs, per memory space."""

    @property
    def capabilities(self) -> StoreCapabilities:
        """Guarantees of the store; constant while it is open."""
        ...

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Apply `batch` as a whole or not at all; it is durable when this returns.

        Raises Conflict if a put's or delete's expected revision does not match, IdempotencyConflict if the key was used
        with another digest, StoreFull, StoreBusy, StoreFailed.
        """
        ...

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents at `refs`, in that order, None for missing ones. At most `limits.SCAN_MAX`."""
        ...

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
        """Return the first `limit` documents of `collection` whose key starts with `prefix`, in key order.

        They form a consistent snapshot; fewer than `limit` means that there are no more. `after` continues behind that
        key (before it, when `descending`). `limit` is 1 to `limits.SCAN_MAX`.
        """
        ...

    async def count(self, space: SpaceId, collection: str, /) -> int:
        """Return the number of documents in `collection`, without reading bodies if the engine can."""
        ...

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        """Return up to `limit` entries after sequence `after`, in order; empty for an unknown space."""
        ...

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        """Replace each of `runs` by one entry, all or none; return the number of removed entries.

        No document, blob or other entry changes, and no entry is added. Each run has whole entries without a digest, or
        of entries of compacted runs; runs come in order. A run that is compacted already in this way is no error.
        Raises Conflict if the journal differs.
        """
        ...

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        """Return up to `limit` non-empty spaces, each once, in a stable order; `after` continues."""
        ...

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Replace the blob `key` by the bytes of `chunks`, whole and durable, or leave the old one; return its size."""
        ...

    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        """Yield the blob's bytes in chunks. Raises NotFound; StoreCorrupt before or at the first damaged chunk."""
        ...

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names so that no byte of it remains in the store, and append one ERASE entry.

        Remains of replaced revisions and deleted documents of the space go too, even if `refs` is empty. Journal
        entries that named an erased document keep their position and lose their digest. Missing targets are no error.
        With `whole_space`, journal, idempotency records and blobs go too.
        """
        ...

    async def check(self) -> CheckReport:
        """Read everything and report damage; change nothing."""
        ...

    async def repair(self) -> CheckReport:
        """Quarantine damaged documents and blobs (they are preserved but never served) and report each."""
        ...

    async def probe(self) -> None:
        """Raise the error that a call would raise now, as soon as it is known; change nothing.

        That is StoreUnavailable, StoreClosed, and StoreReadOnly or StoreFull of a store on a server that takes no
        commits now.
        """
        ...

    async def close(self) -> None:
        """Finish accepted work and release files and threads. A second close does nothing."""
        ...


@runtime_checkable
class QueueIndex(Protocol):
    """Additional method of a store with the capability `queue_index`."""

    def queued_spaces(self, /) -> AsyncIterator[SpaceId]:
        """Yield every space that has a document in the collection `QUEUE`, without reading the other spaces.

        It may yield a space that has none, and never omits one whose commit returned before the first step.
        """
        ...


@runtime_checkable
class LossRecord(Protocol):
    """Capability of a store whose repairs record what they could not save, until an operator acknowledges it.

    The record is part of the store: it outlives handles and later repairs, and goes with the erasure of its space.
    """

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        """Return the unacknowledged losses, one per space, or only that of `space`."""
        ...

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        """Remove the recorded loss of `space`, or of the whole store for None; return how many were removed.

        A loss that was recorded or grew after `at`, when it was listed, stays.
        """
        ...


async def find_losses(store: Store, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
    """Return the losses that `store` records, or only those of `space`; none if it keeps no such record."""
    return await store.losses(space) if isinstance(store, LossRecord) else ()


async def acknowledge_losses(store: Store, space: SpaceId | None, /, *, at: Instant) -> int:
    """Acknowledge the losses of `space`, or all, as `LossRecord` does; 0 if `store` keeps no such record."""
    return await store.acknowledge_losses(space, at=at) if isinstance(store, LossRecord) else 0


def validate_batch(batch: Batch, /) -> None:
    """Raise InvalidInput or LimitExceeded unless `batch` follows the port's rules; every engine calls this first."""
    require_space(batch.space)
    _require_entries(batch.entries)
    change_count = len(batch.puts) + len(batch.deletes) + len(batch.requires) + len(batch.entries)
    change_limit = limits.IMPORT_CHANGES if batch.is_import else limits.BATCH_CHANGES
    if change_count > change_limit + 2 * batch.sealed:
        raise LimitExceeded(what="changes in a batch", limit=change_limit, found=change_count)
    refs: set[DocumentRef] = set()
    max_document_bytes = limits.DOCUMENT_BYTES + (limits.SEAL_BYTES if batch.sealed else 0)
    for put_change in batch.puts:
        if len(put_change.body) > max_document_bytes:
            raise LimitExceeded(what="bytes in a document", limit=max_document_bytes, found=len(put_change.body))
        if put_change.expects < 0:
            raise InvalidInput(field="expects", problem="is below 0")
        refs.add(put_change.ref)
    for delete in batch.deletes:
        if delete.expects < 1:
            raise InvalidInput(field="expects", problem="is below 1 for a delete")
        refs.add(delete.ref)
    # The order of two changes of one document is undefined within a batch.
    if len(refs) != len(batch.puts) + len(batch.deletes):
        raise InvalidInput(field="batch", problem="changes the same document twice")
    # An entry usually names what is changed.
    refs.update([require.ref for require in batch.requires], [entry.ref for entry in batch.entries])
    require_refs(refs)
    if batch.idempotency is not None:
        require_name(batch.idempotency.key, field="idempotency key", limit=limits.IDEMPOTENCY_KEY_CHARS)


def _require_entries(entries: Sequence[EntryDraft]) -> None:
    if not entries:
        raise InvalidInput(field="entries", problem="are missing: every batch needs a journal entry")
    if any(entry.covers < 1 for entry in entries):
        raise InvalidInput(field="covers", problem="is below 1")


def number_entries(batch: Batch, /, *, after: int) -> list[JournalEntry]:
    """Return the numbered entries of `batch` for a journal that ends at sequence `after`."""
    entries: list[JournalEntry] = []
    for entry in batch.entries:
        after += entry.covers
        entry_time = batch.at if entry.at is None else entry.at
        entries.append(JournalEntry(after, entry_time, entry.action, entry.ref, entry.digest, entry.covers))
    return entries


def require_ref(ref: DocumentRef, /) -> None:
    """Raise InvalidInput unless `ref` is a lower-case collection and a key of hex digits, dots and dashes."""
    require_refs((ref,))


def require_refs(refs: Iterable[DocumentRef], /) -> None:
    """Raise InvalidInput unless each of `refs` is a lower-case collection and a key of hex digits, dots and dashes."""
    for collection, key in refs:
        if not _COLLECTION.fullmatch(collection):
            raise InvalidInput(field="collection", problem="must be up to 32 lower-case letters and underscores")
        if not _KEY.fullmatch(key):
            raise InvalidInput(field="key", problem="must be up to 96 hex digits, dots and dashes")


require_space: Callable[[str], None] = partial(require_name, field="space", limit=limits.SPACE_CHARS)
"""Raise InvalidInput unless a space has a usable name: see `require_name`."""


ItemT = TypeVar("ItemT")
PlaceT = TypeVar("PlaceT", str, int)


class WorkSteps:
    """Long work on the event loop, in steps of `WORK_STEP_S`, between which other tasks have their turn."""

    def __init__(self) -> None:
        self._ends_at = perf_counter() + WORK_STEP_S

    async def step(self) -> None:
        """Let other tasks run if the current step has used up its time."""
        if perf_counter() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = perf_counter() + WORK_STEP_S


async def read_pages(
    read: Callable[[PlaceT], Awaitable[Sequence[ItemT]]], place: Callable[[ItemT], PlaceT], after: PlaceT
) -> AsyncIterator[ItemT]:
    """Yield the results of `read` after `after`, until a page is empty: a wrapper may omit items of a page.

    The consumer's work on the items is done in steps.
    """
    steps = WorkSteps()
    while page := await read(after):
        for item in page:
            yield item
            await steps.step()
        after = place(page[-1])


async def scan_documents(
    store: Store, space: SpaceId, collection: str, /, *, prefix: str = "", after: str = "", page: int = SCAN_PAGE
) -> AsyncIterator[Document]:
    """Yield the documents of `collection` after the key `after`, in key order; each page is a consistent snapshot.

    The consumer's work on them is done in steps.
    """
    steps = WorkSteps()
    while True:
        documents = await store.scan(space, collection, prefix=prefix, after=after, limit=page)
        for document in documents:
            yield document
            await steps.step()
        if len(documents) < page:
            return
        after = documents[-1].ref.key


async def count_scanned(store: Store, space: SpaceId, collection: str, /) -> int:
    """Return the number of documents in `collection` by reading them."""
    document_count = 0
    async for _ in scan_documents(store, space, collection):
        document_count += 1
    return document_count


def scan_entries(
    store: Store, space: SpaceId, /, *, after: int = 0, page: int = SCAN_PAGE
) -> AsyncIterator[JournalEntry]:
    """Yield the journal of `space` after the sequence `after`, in order."""

    def read(behind: int) -> Awaitable[Sequence[JournalEntry]]:
        return store.journal(space, after=behind, limit=page)

    return read_pages(read, lambda entry: entry.sequence, after)


def scan_spaces(store: Store, /) -> AsyncIterator[SpaceId]:
    """Yield every space, in the order of the store."""

    def read(behind: str) -> Awaitable[Sequence[SpaceId]]:
        return store.spaces(after=behind, limit=limits.SCAN_MAX)

    return read_pages(read, str, "")


def queued_spaces(store: Store, /) -> AsyncIterator[SpaceId]:
    """Yield the spaces that may have a document in the collection `QUEUE`: all, if the store has no index of them."""
    if store.capabilities.queue_index and isinstance(store, QueueIndex):
        return store.queued_spaces()
    return scan_spaces(store)


class KeyProvider(Protocol):
    """Wraps and unwraps data keys under key-encryption keys that it holds (file, environment, a key service)."""

    def current(self, /) -> str:
        """Return the id of the key that new data keys are wrapped under; ids are not secret."""
        ...

    async def wrap(self, data_key: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return `data_key` sealed under `key_id` and bound to `context`. Raises KeyMissing."""
        ...

    async def unwrap(self, wrapped: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return the data key in `wrapped`. Raises KeyMissing for an unknown id, SealBroken for altered bytes."""
        ...


@asynccontextmanager
async def closed_stream(stream: AsyncIterator[bytes], /) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Close `stream` at the end of the block, even if it was not read to its end."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
