"""What was read lately, as long as nobody has committed anything: asking that is much cheaper than reading again.

What was read or written a moment ago still lies in memory, the system's or SQLite's own. When somebody has committed
since, small reads of that kind are done again where they are asked for: waiting for a thread would take several times
as long. All other reads are a thread's, so that no disk is waited for here.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar, TypeVarTuple

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, JournalEntry, Put, Ref
from elytron_store.sqlite import reading
from elytron_store.sqlite.driver import ERRORS, Raw
from elytron_store.sqlite.reading import Page

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
KeyT = TypeVar("KeyT", bound=Hashable)

Place = tuple[SpaceId, Ref]
Look = tuple[SpaceId, int, int]
"""A space, behind which sequence was looked, for how many entries."""
Scan = tuple[SpaceId, Page]


class _Recent(Generic[KeyT]):
    """The keys that were noted last, up to a bound."""

    def __init__(self, most: int, /) -> None:
        self._most = most
        self._keys: OrderedDict[KeyT, None] = OrderedDict()

    def __contains__(self, key: KeyT, /) -> bool:
        return key in self._keys

    def note(self, key: KeyT, /) -> None:
        """Add `key`; the oldest one makes room."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > self._most:
            self._keys.popitem(last=False)

    def drop(self, key: KeyT, /) -> None:
        """Leave `key` out."""
        self._keys.pop(key, None)

    def forget(self) -> None:
        self._keys.clear()


class Memo:
    """Answers of reads at one version of the file; None where a thread must be asked.

    `watch` is a connection of its own that never waits for others. SQLite tells it by a number whether others have
    changed the file since: that reads shared memory, no disk. Every other handle and process is seen that way.
    """

    def __init__(self, watch: Raw, /) -> None:
        self._watch = watch
        self._asking = watch.cursor()
        self._version = 0
        self._looks: OrderedDict[Look, Sequence[JournalEntry]] = OrderedDict()
        self._documents: OrderedDict[Place, Document | None] = OrderedDict()
        self._scans: OrderedDict[Scan, Sequence[Document]] = OrderedDict()
        # These hold ids and keyed digests, never content, and so may outlive a version.
        self._looked: _Recent[SpaceId] = _Recent(limits.STORE_MEMO_LOOKS)
        self._read: _Recent[Place] = _Recent(2 * limits.STORE_MEMO_DOCUMENTS)
        self._scanned: _Recent[Scan] = _Recent(limits.STORE_MEMO_LOOKS)

    def version(self) -> int:
        """Return what stays the same until somebody commits; 0 where that cannot be told now."""
        try:
            version: int = self._asking.execute("PRAGMA data_version").fetchone()[0]
        except ERRORS:
            version = 0
        if version != self._version or not version:
            self._forget_answers()
            self._version = version
        return version

    def journal(self, version: int, look: Look, /) -> Sequence[JournalEntry] | None:
        """Return what a look at a journal shows at `version`, told just now."""
        entries = self._looks.get(look)
        if entries is not None or not version or look[0] not in self._looked:
            return entries
        space, after, limit = look
        few = min(limit, limits.STORE_MEMO_AT_ONCE)
        entries = self._here(reading.journal, space, after, few)
        if entries is None or len(entries) == few < limit:
            return None
        self.keep_journal(version, look, entries)
        return entries

    def documents(self, version: int, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None] | None:
        """Return what stands at `refs` at `version`, told just now; None also for none, or too many, refs."""
        known = self._documents
        if not 0 < len(refs) <= limits.SCAN_MAX:
            return None
        try:
            return [known[space, ref] for ref in refs]
        except KeyError:
            missing = [ref for ref in refs if (space, ref) not in known]
        if not version or len(missing) > limits.STORE_MEMO_AT_ONCE:
            return None
        if any((space, ref) not in self._read for ref in missing):
            return None
        read = self._here(reading.get, space, missing)
        # All that is returned must have stood at one moment.
        if read is None or self.version() != version:
            return None
        fresh = dict(zip(missing, read, strict=True))
        found = [fresh[ref] if ref in fresh else known[space, ref] for ref in refs]
        self.keep_documents(version, space, missing, read)
        return found

    def scan(self, version: int, scan: Scan, /) -> Sequence[Document] | None:
        """Return a page of a scan at `version`, told just now."""
        documents = self._scans.get(scan)
        if documents is not None or not version or scan not in self._scanned:
            return documents
        space, page = scan
        few = min(page.limit, limits.STORE_MEMO_AT_ONCE)
        documents = self._here(reading.scan, space, page._replace(limit=few))
        if documents is None or len(documents) == few < page.limit:
            return None
        self.keep_scan(version, scan, documents)
        return documents

    def keep_journal(self, version: int, look: Look, entries: Sequence[JournalEntry], /) -> None:
        """Keep a look that was begun at `version`; long ones are not asked twice."""
        self._looked.note(look[0])
        if version and version == self._version and len(entries) <= 1:
            _put(self._looks, look, entries, most=limits.STORE_MEMO_LOOKS)

    def keep_documents(
        self, version: int, space: SpaceId, refs: Sequence[Ref], documents: Sequence[Document | None], /
    ) -> None:
        """Keep the small ones of what stood at `refs`, whose reading was begun at `version`."""
        is_told = version and version == self._version
        for ref, document in zip(refs, documents, strict=True):
            place = (space, ref)
            if document is not None and len(document.body) > limits.STORE_MEMO_DOCUMENT_BYTES:
                self._read.drop(place)
                continue
            self._read.note(place)
            if is_told:
                _put(self._documents, place, document, most=limits.STORE_MEMO_DOCUMENTS)

    def keep_scan(self, version: int, scan: Scan, documents: Sequence[Document], /) -> None:
        """Keep a page that was begun at `version`, where it is one of few documents, all small."""
        if len(documents) > limits.STORE_MEMO_SCANNED or any(
            len(document.body) > limits.STORE_MEMO_DOCUMENT_BYTES for document in documents
        ):
            return
        self._scanned.note(scan)
        if version and version == self._version:
            _put(self._scans, scan, documents, most=limits.STORE_MEMO_LOOKS)

    def written(self, space: SpaceId, puts: Iterable[Put], /) -> None:
        """Take note of what was just written, the small ones: it is likely to be read soon."""
        self._looked.note(space)
        for put in puts:
            if len(put.body) <= limits.STORE_MEMO_DOCUMENT_BYTES:
                self._read.note((space, put.ref))

    def forget(self) -> None:
        """Keep nothing."""
        self._forget_answers()
        for recent in (self._looked, self._read, self._scanned):
            recent.forget()

    def close(self) -> None:
        """Let go of the connection."""
        self.forget()
        self._watch.close()

    def _forget_answers(self) -> None:
        self._looks.clear()
        self._documents.clear()
        self._scans.clear()

    def _here(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T | None:
        """Return what `function` reads, or None where others are in the way."""
        try:
            return function(self._watch, *args)
        except ERRORS:
            return None


def _put(kept: OrderedDict[KeyT, T], key: KeyT, value: T, /, *, most: int) -> None:
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
