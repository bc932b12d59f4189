"""Reads of the read connections, each one hop that sees one state; and a cache of recent ones, valid until a change.

A space's entries of the cache are valid while no handle has committed anything, and while its journal has the same end:
every change of a document leaves an entry. If this handle alone has committed to the space, what it did not write is
valid too; and if no other handle has committed to the file at all, it knows the end of the journal without a read.

Pages read or written a moment ago are still in memory, the system's or SQLite's own. When another handle has committed
since, small reads of that kind are done again at once: waiting for a thread would take several times as long. Most of
the rest is there too, so that a few small documents, some entries and short scans are read here as well, while it takes
next to no time; after a wait for a disk, threads read them for a while. All other reads are a thread's.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Final, TypeVar, TypeVarTuple

from elytron_core import limits
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.ports.store import QUEUE, Batch, CommitReceipt, Document, DocumentRef, JournalEntry, number_entries
from elytron_store import engine
from elytron_store.engine import DocumentPage, row_document
from elytron_store.sqlite import schema
from elytron_store.sqlite.driver import ERRORS, Raw, read_snapshot
from elytron_store.sqlite.schema import Row

MEMO_LOOKS: Final = 1_024
MEMO_DOCUMENTS: Final = 2_048
MEMO_DOCUMENT_BYTES: Final = 8_192
MEMO_SCANNED: Final = 8
"""Bounds of an SQLite handle's cache of reads: looks and scans, documents, the largest of these, and how many of
them a scan may hold."""
MEMO_AT_ONCE: Final = 64
"""Number of rows in memory that are read without waiting for a thread."""
MEMO_HELD_S: Final = 0.002
MEMO_HELD_SHARE: Final = 0.01
"""So long, and while a row is read, documents that may lie on a disk hold the event loop before a thread reads them;
once a disk was waited for so long, no more than this share of the time."""


_DOCUMENT = 'SELECT collection, key, revision, body, "check" FROM documents WHERE space = ? AND '
# Only the length of a body is read before it is known to be small.
_SMALL = _DOCUMENT.replace("body", "CASE WHEN length(body) <= ? THEN body END")
_ONE = _DOCUMENT + "collection = ? AND key = ?"
_UP = "collection = ? AND key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"
_DOWN = "collection = ? AND key >= ? AND key < ? AND key < ? ORDER BY key DESC LIMIT ?"
_EXACT = 16
"""Up to this many documents have a separate statement for each number of them."""
_BEHIND_ALL = "\U0010ffff"
_COUNT = "SELECT count(*) FROM documents WHERE space = ? AND collection = ?"
_JOURNAL = (
    'SELECT sequence, at, action, collection, key, digest, covers, "check" FROM journal '
    "WHERE space = ? AND sequence > ? ORDER BY sequence LIMIT ?"
)
_HEAD = "SELECT sequence FROM heads WHERE space = ?"
_SPACES = "SELECT space FROM heads WHERE space > ? ORDER BY space LIMIT ?"
_QUEUED = (
    f"SELECT DISTINCT space FROM documents INDEXED BY queued WHERE collection = '{QUEUE}' "  # noqa: S608 - our own names
    "AND space > ? ORDER BY space LIMIT ?"
)


def get_documents(raw: Raw, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
    """Return the documents at `refs`, in their order."""
    if len(refs) == 1:
        row = raw.execute(_ONE, (space, *refs[0])).fetchone()
        return [None if row is None else row_document(space, row)]
    return _place_documents(space, refs, _find_rows(raw, _DOCUMENT, (space,), refs))


def get_small(raw: Raw, space: SpaceId, refs: Sequence[DocumentRef], most: int, /) -> Sequence[Document | None] | None:
    """Return the same if no body has more than `most` bytes; else None, and the long one is not read."""
    rows = _find_rows(raw, _SMALL, (most, space), refs)
    return _place_documents(space, refs, rows) if _is_whole(rows) else None


def _find_rows(raw: Raw, select: str, within: tuple[str | int, ...], refs: Sequence[DocumentRef]) -> Sequence[Any]:
    unique_refs = list(dict.fromkeys(refs))
    if not unique_refs:
        return []
    size = len(unique_refs)
    if size > _EXACT:
        # Padded to a power of two, so that few statements serve all lengths and stay prepared.
        size = 1 << (size - 1).bit_length()
        unique_refs += [unique_refs[-1]] * (size - len(unique_refs))
    return raw.execute(_several_refs(select, size), (*within, *chain.from_iterable(unique_refs))).fetchall()


@cache
def _several_refs(select: str, size: int) -> str:
    placeholders = ",".join(["(?,?)"] * size)
    return f"{select}(collection, key) IN (VALUES {placeholders})"


def _place_documents(space: SpaceId, refs: Sequence[DocumentRef], rows: Sequence[Row]) -> Sequence[Document | None]:
    documents = {document.ref: document for document in (row_document(space, row) for row in rows)}
    return [documents.get(ref) for ref in refs]


def scan_documents(raw: Raw, space: SpaceId, page: DocumentPage, /) -> Sequence[Document]:
    """Return a page of documents, as `Store.scan` does."""
    return [row_document(space, row) for row in _scan_rows(raw, _DOCUMENT, (space,), page)]


def scan_small(raw: Raw, space: SpaceId, page: DocumentPage, most: int, /) -> Sequence[Document] | None:
    """Return the same if no body has more than `most` bytes; else None, and the long one is not read."""
    rows = _scan_rows(raw, _SMALL, (most, space), page)
    return [row_document(space, row) for row in rows] if _is_whole(rows) else None


def _is_whole(rows: Sequence[Any]) -> bool:
    """Return whether every body was read."""
    return all(body is not None for _, _, _, body, _ in rows)


def _scan_rows(raw: Raw, select: str, within: tuple[str | int, ...], page: DocumentPage) -> Sequence[Any]:
    # Keys are ASCII, so other texts sort after them all; a lone surrogate could not even be queried.
    prefix = page.prefix if page.prefix.isascii() else _BEHIND_ALL
    after_key = page.after if page.after.isascii() else _BEHIND_ALL
    order, start_key = (_DOWN, after_key or _BEHIND_ALL) if page.descending else (_UP, after_key)
    parameters = (page.collection, prefix, prefix + _BEHIND_ALL, start_key, page.limit)
    return raw.execute(select + order, (*within, *parameters)).fetchall()


def count_documents(raw: Raw, space: SpaceId, collection: str, /) -> int:
    """Return the number of documents in a collection by walking only the keys."""
    (document_count,) = raw.execute(_COUNT, (space, collection)).fetchone()
    return document_count


def journal_page(raw: Raw, space: SpaceId, after: int, limit: int, /) -> Sequence[JournalEntry]:
    """Return a page of the journal, as `Store.journal` does."""
    rows = raw.execute(_JOURNAL, (space, after, limit)).fetchall()
    entries = schema.journal_row_entries(space, rows, after=after)
    # Rows lost at the end leave no gap: only the head shows that they existed.
    if len(rows) < limit:
        _require_end(raw, space, entries[-1].sequence if entries else after)
    return entries


def _require_end(raw: Raw, space: SpaceId, end: int) -> None:
    """Raise StoreCorrupt if the head says that the journal continues after `end`, but nothing is found there."""
    if not _is_cut(raw, space, end):
        return
    # Another process may have written, or erased the space, between two reads: both must be of one state.
    with read_snapshot(raw):
        if _is_cut(raw, space, end) and not raw.execute(_JOURNAL, (space, end, 1)).fetchall():
            raise StoreCorrupt(what=f"journal entry {end + 1}")


def _is_cut(raw: Raw, space: SpaceId, end: int) -> bool:
    head_row = raw.execute(_HEAD, (space,)).fetchone()
    if head_row is not None and not isinstance(head_row[0], int):
        raise StoreCorrupt(what="the head of the journal")
    return head_row is not None and head_row[0] > end


def spaces_page(raw: Raw, after: str, limit: int, /) -> Sequence[SpaceId]:
    """Return a page of the spaces, in the order of their names' UTF-8."""
    return _names_page(raw, _SPACES, after, limit)


def queued_page(raw: Raw, after: str, limit: int, /) -> Sequence[SpaceId]:
    """Return a page of the spaces that have a queue, in the same order."""
    return _names_page(raw, _QUEUED, after, limit)


def _names_page(raw: Raw, statement: str, after_name: str, limit: int) -> Sequence[SpaceId]:
    names = [space for (space,) in raw.execute(statement, (after_name, limit)).fetchall()]
    if not all(isinstance(name, str) for name in names):
        raise StoreCorrupt(what="the list of spaces")
    return names


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Place = tuple[SpaceId, DocumentRef]
Look = tuple[SpaceId, int, int]
"""A space, the sequence after which it was read, and the number of entries."""
Scan = tuple[SpaceId, DocumentPage]


Others = Callable[[], int | None]
"""Returns a number that changes when other handles have committed; None if it cannot tell now."""


@dataclass(slots=True)
class _JournalReads:
    """Reads of a space while its journal ended with `mark` (None: unknown).

    They are valid at `version` of the file; at another, if the journal still ends so. That is known while `others` is
    unchanged: this handle updates the mark itself.
    """

    mark: JournalEntry | None
    version: int
    others: int | None = None
    documents: OrderedDict[DocumentRef, Document | None] = field(
        default_factory=OrderedDict[DocumentRef, Document | None]
    )
    scans: dict[DocumentPage, Sequence[Document]] = field(default_factory=dict[DocumentPage, Sequence[Document]])

    def __len__(self) -> int:
        return len(self.documents) + len(self.scans)


_UNKNOWN = -1
"""Not a version of a file."""
_STEPS = 64
"""Number of SQLite's steps, each reading some rows, between two checks of the time."""


class ReadCache:
    """Cached reads at one version of the file; None if a thread must be asked.

    `watch` is a separate connection that never waits for others. SQLite reports through a number whether others have
    changed the file since: that reads shared memory, no disk. Every other handle and process is seen that way. `others`
    excludes what this handle has committed itself.
    """

    def __init__(self, watch: Raw, /, *, others: Others) -> None:
        self._watch = watch
        self._others = others
        self._asking = watch.cursor()
        watch.set_progress_handler(self._is_late, _STEPS)
        self._until = math.inf
        self._swift_from = 0.0
        self._version = 0
        self._looks: LruCache[Look, Sequence[JournalEntry]] = LruCache(MEMO_LOOKS)
        self._stands: OrderedDict[SpaceId, _JournalReads] = OrderedDict()
        self._count = 0
        # These contain ids and keyed digests, never content, and so may outlive a version.
        self._looked: LruCache[SpaceId, None] = LruCache(MEMO_LOOKS)
        self._read: LruCache[Place, None] = LruCache(2 * MEMO_DOCUMENTS)
        self._scanned: LruCache[Scan, None] = LruCache(MEMO_LOOKS)

    def version(self) -> int:
        """Return a number that stays the same until another handle commits; 0 if it is unknown now."""
        try:
            version: int = self._asking.execute("PRAGMA data_version").fetchone()[0]
        except ERRORS:
            version = 0
        if version != self._version or not version:
            self._looks.clear()
            self._version = version
        return version

    def journal(self, version: int, journal_query: Look, /) -> Sequence[JournalEntry] | None:
        """Return the cached look at a journal at `version`, just determined."""
        entries = self._looks.get(journal_query)
        if entries is not None or not version:
            return entries
        space, after, limit = journal_query
        space_reads = self._stands.get(space)
        last_entry = space_reads.mark if space_reads is not None else None
        if (
            space_reads is not None
            and last_entry is not None
            and after >= last_entry.sequence - 1
            and self._ends_so(space_reads, version)
        ):
            return [last_entry] if after < last_entry.sequence else []
        few_limit = min(limit, MEMO_AT_ONCE)
        run_read = self._here if space in self._looked else self._swiftly
        entries = run_read(journal_page, space, after, few_limit)
        # A full page of the small read may not be everything requested.
        if entries is None or len(entries) == few_limit < limit:
            return None
        self.keep_journal(version, journal_query, entries)
        return entries

    def documents(
        self, version: int, space: SpaceId, refs: Sequence[DocumentRef], /
    ) -> Sequence[Document | None] | None:
        """Return the documents at `refs` at `version`, just determined; None also for no, or too many, refs."""
        if not version or not 0 < len(refs) <= limits.SCAN_MAX:
            return None
        cached_documents = self._standing(version, space).documents
        try:
            return [cached_documents[ref] for ref in refs]
        except KeyError:
            missing_refs = [ref for ref in refs if ref not in cached_documents]
        if len(missing_refs) > MEMO_AT_ONCE:
            return None
        if any((space, ref) not in self._read for ref in missing_refs):
            # Never read here, so these refs have passed no check yet.
            engine.require_get(space, missing_refs)
            read_documents = self._swiftly(get_small, space, missing_refs, MEMO_DOCUMENT_BYTES)
        else:
            read_documents = self._here(get_documents, space, missing_refs)
        # Everything returned must be of one moment.
        if read_documents is None or self.version() != version:
            return None
        fresh_documents = dict(zip(missing_refs, read_documents, strict=True))
        documents = [fresh_documents[ref] if ref in fresh_documents else cached_documents[ref] for ref in refs]
        self.keep_documents(version, space, missing_refs, read_documents)
        return documents

    def scan(self, version: int, scan: Scan, /) -> Sequence[Document] | None:
        """Return a page of a scan at `version`, just determined."""
        if not version:
            return None
        space, page = scan
        documents = self._standing(version, space).scans.get(page)
        if documents is not None:
            return documents
        few_page = page._replace(limit=min(page.limit, MEMO_AT_ONCE))
        if scan in self._scanned:
            documents = self._here(scan_documents, space, few_page)
        else:
            documents = self._swiftly(scan_small, space, few_page, MEMO_DOCUMENT_BYTES)
        if documents is None or len(documents) == few_page.limit < page.limit:
            return None
        self.keep_scan(version, scan, documents)
        return documents

    def keep_journal(self, version: int, journal_query: Look, entries: Sequence[JournalEntry], /) -> None:
        """Cache a read that began at `version`; long ones are not repeated."""
        space, _, limit = journal_query
        self._looked[space] = None
        if not version or version != self._version or len(entries) > 1:
            return
        self._looks[journal_query] = entries
        # Read before the version: a commit in between makes it stale, and the next use reads the file again.
        other_commits = self._others()
        # Only without a commit since is this the end of the journal at that version.
        if len(entries) == 1 < limit and self.version() == version:
            (last_entry,), space_reads = entries, self._stands.get(space)
            if space_reads is None or not (
                space_reads.mark == last_entry or (space_reads.mark is None and space_reads.version == version)
            ):
                space_reads = self._begin(space, last_entry, version)
            space_reads.mark, space_reads.version, space_reads.others = last_entry, version, other_commits

    def keep_documents(
        self, version: int, space: SpaceId, refs: Sequence[DocumentRef], documents: Sequence[Document | None], /
    ) -> None:
        """Cache the small ones of the documents at `refs`, whose reading began at `version`."""
        space_reads = self._valid_reads(version, space)
        for ref, document in zip(refs, documents, strict=True):
            document_place = (space, ref)
            if document is not None and len(document.body) > MEMO_DOCUMENT_BYTES:
                self._read.pop(document_place, None)
                continue
            self._read[document_place] = None
            if space_reads is not None:
                self._count += ref not in space_reads.documents
                space_reads.documents[ref] = document
        self._make_room()

    def keep_scan(self, version: int, scan: Scan, documents: Sequence[Document], /) -> None:
        """Cache a page whose reading began at `version`, if it has few documents, all small."""
        if len(documents) > MEMO_SCANNED or any(len(document.body) > MEMO_DOCUMENT_BYTES for document in documents):
            return
        self._scanned[scan] = None
        space, page = scan
        space_reads = self._valid_reads(version, space)
        if space_reads is not None:
            self._count += page not in space_reads.scans
            space_reads.scans[page] = documents
            self._make_room()

    def note_commit(self, batch: Batch, receipt: CommitReceipt, /) -> None:
        """Cache the small documents just written, which are likely to be read soon; all others stay valid."""
        space = batch.space
        self._looked[space] = None
        for put_change in batch.puts:
            if len(put_change.body) <= MEMO_DOCUMENT_BYTES:
                self._read[space, put_change.ref] = None
        if receipt.replayed:
            return
        last_entry = number_entries(batch, after=receipt.first - 1)[-1]
        space_reads = self._stands.get(space)
        # Another handle has written in between, so cached reads may be outdated.
        if space_reads is None or space_reads.mark is None or space_reads.mark.sequence + 1 != receipt.first:
            self._begin(space, last_entry, _UNKNOWN)
            return
        # The watch reports this handle's own commit as a change; `others` shows that it was the only one.
        space_reads.mark, space_reads.version = last_entry, _UNKNOWN
        self._count -= len(space_reads)
        changed_refs = [change.ref for change in (*batch.puts, *batch.deletes)]
        for ref in changed_refs:
            space_reads.documents.pop(ref, None)
        if space_reads.scans:
            collections = {ref.collection for ref in changed_refs}
            space_reads.scans = {
                page: documents for page, documents in space_reads.scans.items() if page.collection not in collections
            }
        self._count += len(space_reads)

    def lose(self, space: SpaceId, /) -> None:
        """Record that a batch with an unknown outcome was passed to the writer."""
        self._drop(space)

    def doubt(self) -> None:
        """Record that a write other than a batch is running, of which nothing is reported here."""
        for space_reads in self._stands.values():
            space_reads.others = None

    def forget(self) -> None:
        """Clear the cache."""
        self._looks.clear()
        self._stands.clear()
        self._count = 0
        for recent_reads in (self._looked, self._read, self._scanned):
            recent_reads.clear()

    def close(self) -> None:
        """Close the connection."""
        self.forget()
        self._watch.close()

    def _standing(self, version: int, space: SpaceId) -> _JournalReads:
        """Return the valid entries of `space` at `version`, just determined."""
        space_reads = self._stands.get(space)
        if space_reads is None:
            return self._begin(space, None, version)
        if not self._ends_so(space_reads, version):
            # Without entries, reading the journal's end saves nothing.
            if not space_reads or space_reads.mark is None or not self._ends(space, space_reads.mark):
                return self._begin(space, None, version)
            other_commits = self._others()
            if self.version() != version:
                return self._begin(space, None, version)
            space_reads.version, space_reads.others = version, other_commits
        return space_reads

    def _ends_so(self, space_reads: _JournalReads, version: int) -> bool:
        """Return whether the journal is known to end with the mark at `version`: only this handle has committed."""
        if space_reads.version != version and space_reads.others is not None and self._others() == space_reads.others:
            space_reads.version = version
        return space_reads.version == version

    def _ends(self, space: SpaceId, mark: JournalEntry) -> bool:
        """Return whether the journal ends with `mark`."""
        try:
            return self._here(journal_page, space, mark.sequence - 1, 2) == [mark]
        except StoreCorrupt:  # a reader of the journal gets the error
            return False

    def _begin(self, space: SpaceId, mark: JournalEntry | None, version: int) -> _JournalReads:
        self._drop(space)
        if len(self._stands) >= MEMO_LOOKS:
            self._drop(next(iter(self._stands)))
        space_reads = self._stands[space] = _JournalReads(mark, version)
        return space_reads

    def _drop(self, space: SpaceId) -> None:
        space_reads = self._stands.pop(space, None)
        self._count -= len(space_reads) if space_reads is not None else 0

    def _valid_reads(self, version: int, space: SpaceId) -> _JournalReads | None:
        """Return the entries for reads of `space` since `version`; None if another handle may have changed it."""
        space_reads = self._stands.get(space)
        is_valid = version and version == self._version and space_reads is not None and space_reads.version == version
        return space_reads if is_valid else None

    def _make_room(self) -> None:
        """Drop the oldest cached reads until all limits are met: of other spaces first, then of the last one."""
        while self._count > MEMO_DOCUMENTS:
            space, space_reads = next(iter(self._stands.items()))
            if len(self._stands) > 1 or not space_reads.documents:
                self._drop(space)
            else:
                space_reads.documents.popitem(last=False)
                self._count -= 1

    def _swiftly(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T | None:
        """Return the result of `function`, which may read a disk; None if it takes too long."""
        started_s, disk_waits = time.perf_counter(), _disk_waits()
        if started_s < self._swift_from:
            return None
        self._until = started_s + MEMO_HELD_S
        read_result = self._here(function, *args)
        self._until, ended_s = math.inf, time.perf_counter()
        # A slow read that did not touch a disk only had to wait for the processor.
        if ended_s - started_s > MEMO_HELD_S and (disk_waits is None or disk_waits != _disk_waits()):
            self._swift_from = ended_s + (ended_s - started_s) / MEMO_HELD_SHARE
        return read_result

    def _is_late(self) -> bool:
        """Tell SQLite to abort its read."""
        return time.perf_counter() > self._until

    def _here(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T | None:
        """Return the result of `function`, or None if others hold the file."""
        try:
            return function(self._watch, *args)
        except ERRORS:
            return None


def _disk_waits() -> int | None:
    """Return a counter that grows when this thread reads a disk; None if the system does not report it."""
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
    except (ImportError, AttributeError):
        return None
