"""Upkeep of a space's journal: compaction, and verification of the space and of an externally stored head.

Compaction replaces each run of spent entries by one entry. An entry is spent if it has no digest (an erasure removed
it, or it never had one), no other entry has a digest for the same document, and that document is gone. The remaining
journal is bounded by the contents of the space, however much was erased.
"""

import hashlib
import hmac
import struct
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from elytron.journal.sorted_records import SortedRecords
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.contracts.inspection import HeadStanding, JournalAccount
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.planes.space import BESIDE, COLLECTIONS, SpaceRecord
from elytron_core.policy.integrity import DIGEST_BYTES, JournalHead, standing_of
from elytron_core.ports import store as ports_store
from elytron_core.ports.store import (
    CompactedRun,
    Document,
    DocumentRef,
    JournalAction,
    JournalEntry,
    Store,
    scan_entries,
)

_SUM_BYTES: Final = 32
_CODE_BYTES: Final = 16
MODULUS: Final = 1 << 8 * _SUM_BYTES


class EntrySums:
    """The numbers that the entries of one space add to its head."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._order = record.chain(b"journal order", size=_SUM_BYTES)
        self._content = record.chain(b"journal content", size=_SUM_BYTES)

    def order_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the position of `entry`; for the entry of a run, the sum of the run."""
        run = self.run_sum(entry)
        if run is not None:
            return run
        line = self._order.copy()
        line.update(_entry_place(entry))
        return int.from_bytes(line.digest(), "big")

    def content_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the content of `entry`: 0 if it no longer has a digest."""
        if not entry.digest or entry.covers > 1:
            return 0
        line = self._content.copy()
        line.update(_entry_place(entry) + entry.digest.encode())
        return int.from_bytes(line.digest(), "big")

    def run_sum(self, entry: JournalEntry, /) -> int | None:
        """Return the sum of its run stored in `entry`; None for any other entry, or one made without the secret."""
        if entry.covers == 1:
            return None
        text, code = entry.digest[: 2 * _SUM_BYTES], entry.digest[2 * _SUM_BYTES :]
        expected = self._code(entry.first, entry.sequence, text)
        return int(text, 16) if hmac.compare_digest(expected.encode(), code.encode()) else None

    def run_of(self, entries: Sequence[JournalEntry], /) -> CompactedRun:
        """Return `entries`, which are consecutive, as the run that one entry will replace."""
        first, last = entries[0].first, entries[-1].sequence
        text = f"{sum(map(self.order_of, entries)) % MODULUS:0{2 * _SUM_BYTES}x}"
        return CompactedRun(first, last, text + self._code(first, last, text))

    def _code(self, first: int, last: int, text: str) -> str:
        code = self._record.chain(b"journal run", size=_CODE_BYTES)
        code.update(f"{first}|{last}|{text}".encode())
        return code.hexdigest()


def _entry_place(entry: JournalEntry) -> bytes:
    return f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}\n".encode()


async def compact_space(store: Store, space: SpaceId, /) -> int:
    """Compact all spent runs in the journal of `space`; return the number of removed entries.

    The last entry stays, because readers use it as their position. The journals of the product's own spaces stay whole:
    they are the permanent record of ended keys. If killed, the same call continues. Raises Conflict if another process
    compacted it meanwhile.
    """
    (document,) = await store.get(space, (REF,))
    if document is None or is_reserved(space):
        return 0
    sums = EntrySums(SpaceRecord.from_bytes(document.body))
    runs = [run async for run in _spent_runs(store, space, sums)]
    count = 0
    for start in range(0, len(runs), limits.COMPACTION_RUNS):
        count += await store.compact(space, runs[start : start + limits.COMPACTION_RUNS])
    return count


async def _spent_runs(store: Store, space: SpaceId, sums: EntrySums) -> AsyncIterator[CompactedRun]:
    spent = await _spent_refs(store, space)
    entries: list[JournalEntry] = []
    async for entry in _but_the_last(store, space):
        if entry.covers > 1 or (not entry.digest and (entry.ref in spent or _changed_nothing(entry))):
            entries.append(entry)
            continue
        # Replacing one entry by one saves nothing.
        if len(entries) > 1:
            yield sums.run_of(entries)
        entries.clear()
    if len(entries) > 1:
        yield sums.run_of(entries)


async def _but_the_last(store: Store, space: SpaceId) -> AsyncIterator[JournalEntry]:
    before: JournalEntry | None = None
    async for entry in scan_entries(store, space):
        if before is not None:
            yield before
        before = entry


async def _spent_refs(store: Store, space: SpaceId) -> set[DocumentRef]:
    """Return the refs that are named only by entries without a digest, and contain no document."""
    digested: set[DocumentRef] = set()
    refs: dict[DocumentRef, None] = {}
    async for entry in scan_entries(store, space):
        if entry.covers == 1:
            if entry.digest:
                digested.add(entry.ref)
            elif not _changed_nothing(entry):
                refs[entry.ref] = None
    candidates = [ref for ref in refs if ref not in digested]
    spent: set[DocumentRef] = set()
    for start in range(0, len(candidates), limits.SCAN_MAX):
        page = candidates[start : start + limits.SCAN_MAX]
        documents = await store.get(space, page)
        spent.update(ref for ref, document in zip(page, documents, strict=True) if document is None)
    return spent


def _changed_nothing(entry: JournalEntry) -> bool:
    """Return whether an entry changed no document that a journal covers: an event, or a lookup document."""
    is_event = entry.ref == REF and entry.action is not JournalAction.LIFECYCLE
    return is_event or entry.ref.collection in BESIDE


async def space_documents(
    store: Store, space: SpaceId, /, *, collections: Iterable[str] = COLLECTIONS
) -> AsyncIterator[Document]:
    """Yield every document of a space, collection by collection, in key order."""
    for collection in collections:
        async for document in ports_store.scan_documents(store, space, collection):
            yield document


class StateFingerprint:
    """The digest of a space's documents: the place and body of each, not its revision; independent of order."""

    def __init__(self) -> None:
        self._records = SortedRecords(hashlib.sha256().digest_size)

    @property
    def count(self) -> int:
        """Number of added documents."""
        return len(self._records)

    def add(self, document: Document, /) -> None:
        line = b"\0".join((document.ref.collection.encode(), document.ref.key.encode(), document.body))
        self._records.add(hashlib.sha256(line).digest())

    def hexdigest(self) -> str:
        """Return the digest; with many documents it takes a while."""
        state = hashlib.sha256()
        for record in self._records:
            state.update(record)
        return state.hexdigest()


class EventFingerprint:
    """The digest of a journal: every entry, in order."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self.count = 0
        self.sequence = 0
        """Sequence of the last entry."""

    def add(self, entry: JournalEntry, /) -> None:
        line = f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}|{entry.digest}"
        covered = f"|{entry.covers}" if entry.covers > 1 else ""
        self._state.update(f"{line}{covered}\n".encode())
        self.count += 1
        self.sequence = entry.sequence

    def hexdigest(self) -> str:
        return self._state.hexdigest()


class HeadChain:
    """Head of a journal whose entries are added in order, and its state at the end of the expected head."""

    def __init__(self, record: SpaceRecord, expected_head: JournalHead | None = None, /) -> None:
        self._record = record
        self._sums = EntrySums(record)
        self._order = self._content = 0
        self._expected = expected_head
        self._then: JournalHead | None = None
        self._is_compacted = False
        self._sequence = 0
        self._stand()

    def add(self, entry: JournalEntry, /) -> None:
        """Add one entry."""
        self._order = (self._order + self._sums.order_of(entry)) % MODULUS
        self._content = (self._content + self._sums.content_of(entry)) % MODULUS
        self._sequence = entry.sequence
        if self._expected is not None and entry.first <= self._expected.sequence < entry.sequence:
            self._is_compacted = self._sums.run_sum(entry) is not None
        self._stand()

    @property
    def head(self) -> JournalHead:
        """Return the head of the added entries."""
        return JournalHead(
            self._sequence,
            self._public_digest(b"journal head", self._order),
            self._public_digest(b"journal told", self._content),
        )

    @property
    def standing(self) -> HeadStanding | None:
        """Return how the added entries relate to the recorded head; None if there is none."""
        if self._expected is None:
            return None
        return standing_of(self._expected, self.head, self._then, is_compacted=self._is_compacted)

    def _public_digest(self, purpose: bytes, total: int) -> str:
        # A published head must not disclose the sums: with them a run could be forged.
        chain = self._record.chain(purpose, size=DIGEST_BYTES)
        chain.update(f"{self._sequence}|{total}".encode())
        return chain.hexdigest()

    def _stand(self) -> None:
        if self._expected is not None and self._sequence == self._expected.sequence:
            self._then = self.head


_ACCOUNT: Final = struct.Struct(">16sQBH?16s")
"""A record of an account: document, sequence, kind, number of the collection, whether it was rescued, digest.

Sorted, those of a document follow each other: its entries in order, itself, and the entries that came meanwhile.
"""
_ENTRY, _DOCUMENT, _LATER_ENTRY = range(3)
_LAST: Final = (1 << 64) - 1


def _short_digest(text: str, /) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


_NO_DIGEST: Final = _short_digest("")


class DigestAccount:
    """Compares the last digest of each document in the journal with the documents found.

    Documents that only list or look up others may change without an entry, and are not judged.
    """

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._records = SortedRecords(_ACCOUNT.size)
        self._collections: dict[str, int] = {}
        self._compacted = 0
        self._unproven = 0

    def tell(self, entry: JournalEntry, /) -> None:
        """Add an entry of the journal."""
        if entry.covers > 1:
            self._compacted += entry.covers - 1
            self._unproven += EntrySums(self._record).run_sum(entry) is None
            return
        # The space's record is created once: any other entry for it is an event that changed no document.
        is_event = entry.ref == REF and entry.action is not JournalAction.LIFECYCLE
        if entry.ref.collection not in BESIDE and not is_event:
            # A repair adds documents whose entries it lost to the journal again, without digests.
            is_rescued = entry.action is JournalAction.MAINTENANCE and not entry.digest
            self._add(entry.ref, entry.sequence, _ENTRY, entry.digest, is_rescued=is_rescued)

    def meet(self, document: Document, /) -> None:
        """Add a document."""
        self._add(document.ref, _LAST, _DOCUMENT, self._record.digest(document.body))

    def retell(self, entry: JournalEntry, /) -> None:
        """Add an entry committed while documents were read: its document is not judged."""
        self._add(entry.ref, _LAST, _LATER_ENTRY, entry.digest)

    def _add(self, ref: DocumentRef, sequence: int, kind: int, digest: str, *, is_rescued: bool = False) -> None:
        collection = self._collections.setdefault(ref.collection, len(self._collections))
        place = _short_digest(f"{ref.collection}/{ref.key}")
        self._records.add(_ACCOUNT.pack(place, sequence, kind, collection, is_rescued, _short_digest(digest)))

    def report(self, walked: Collection[str], /) -> JournalAccount:
        """Return the result for documents in the `walked` collections; with many it takes a while."""
        numbers = {number for name, number in self._collections.items() if name in walked}
        document_count = altered = missing = 0
        for _, records in groupby(map(_ACCOUNT.unpack, self._records), key=itemgetter(0)):
            last = document = None
            is_later = False
            for record in records:
                if record[2] == _ENTRY:
                    last = record
                elif record[2] == _DOCUMENT:
                    document = record
                else:
                    is_later = True
            if last is None:
                continue
            _, _, _, collection, is_rescued, digest = last
            if document is not None:
                document_count += 1
                altered += not (is_later or is_rescued or document[-1] == digest)
            elif not is_later:
                missing += digest != _NO_DIGEST and collection in numbers
        return JournalAccount(
            told=document_count, altered=altered, missing=missing, compacted=self._compacted, unproven=self._unproven
        )


class VerifiedSpace(Value):
    """One space with the head that was recorded of it."""

    space: str
    head: str
    """Its head now; empty if the space is absent."""
    standing: HeadStanding | None = None
    """None if no head was recorded."""
    account: JournalAccount

    @property
    def is_sound(self) -> bool:
        return self.account.ok and (self.standing is None or self.standing.is_sound)


async def verify_store(store: Store, expected_heads: Mapping[SpaceId, str], /) -> tuple[VerifiedSpace, ...]:
    """Return the state of each space of `store` or with a head in `expected_heads`; nothing is changed.

    Raises StoreCorrupt or SealBroken for damage that is met, InvalidInput for a text that is no head.
    """
    heads = {space: JournalHead.parse(text) for space, text in expected_heads.items()}
    names = [space async for space in ports_store.scan_spaces(store)]
    absent = sorted(set(heads).difference(names))
    reports = [await _verify_space(store, space, heads.get(space)) for space in names]
    absence_reports = [
        VerifiedSpace(space=space, head="", standing=HeadStanding.ABSENT, account=JournalAccount(told=0))
        for space in absent
    ]
    return *reports, *absence_reports


async def _verify_space(store: Store, space: SpaceId, expected_head: JournalHead | None) -> VerifiedSpace:
    (document,) = await store.get(space, (REF,))
    if document is None:
        # A space without a record was never written or lost it: the rest of it has no head.
        standing = HeadStanding.ABSENT if expected_head is not None else None
        return VerifiedSpace(space=space, head="", standing=standing, account=JournalAccount(told=0))
    record = SpaceRecord.from_bytes(document.body)
    chain, account = HeadChain(record, expected_head), DigestAccount(record)
    collections: dict[str, None] = dict.fromkeys(COLLECTIONS)
    async for entry in ports_store.scan_entries(store, space):
        chain.add(entry)
        account.tell(entry)
        if entry.digest:
            collections[entry.ref.collection] = None  # the server's own space contains keys and users
    async for document in space_documents(store, space, collections=collections):
        account.meet(document)
    async for entry in ports_store.scan_entries(store, space, after=chain.head.sequence):
        account.retell(entry)
    return VerifiedSpace(
        space=space, head=str(chain.head), standing=chain.standing, account=account.report(collections)
    )
