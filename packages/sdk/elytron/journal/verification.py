"""Verification of a space's journal, of the space, and of a head that was stored elsewhere."""

import hashlib
import struct
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final

from elytron.journal.compaction import MODULUS, EntrySums
from elytron.journal.sorted_records import SortedRecords
from elytron.state.space_records import REF
from elytron_core.contracts.inspection import HeadStanding, JournalAccount
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import BESIDE, COLLECTIONS, SpaceRecord
from elytron_core.policy.integrity import DIGEST_BYTES, JournalHead, standing_of
from elytron_core.ports import store as ports_store
from elytron_core.ports.store import (
    Document,
    DocumentRef,
    JournalAction,
    JournalEntry,
    Store,
)


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
        hash_state = hashlib.sha256()
        for record in self._records:
            hash_state.update(record)
        return hash_state.hexdigest()


class EventFingerprint:
    """The digest of a journal: every entry, in order."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self.count = 0
        self.sequence = 0
        """Sequence of the last entry."""

    def add(self, entry: JournalEntry, /) -> None:
        line = f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}|{entry.digest}"
        covered_text = f"|{entry.covers}" if entry.covers > 1 else ""
        self._state.update(f"{line}{covered_text}\n".encode())
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
        digest_chain = self._record.chain(purpose, size=DIGEST_BYTES)
        digest_chain.update(f"{self._sequence}|{total}".encode())
        return digest_chain.hexdigest()

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
        place_digest = _short_digest(f"{ref.collection}/{ref.key}")
        self._records.add(_ACCOUNT.pack(place_digest, sequence, kind, collection, is_rescued, _short_digest(digest)))

    def report(self, walked_collections: Collection[str], /) -> JournalAccount:
        """Return the result for documents in `walked_collections`; with many it takes a while."""
        collection_numbers = {
            collection_number for name, collection_number in self._collections.items() if name in walked_collections
        }
        document_count = altered_count = missing_count = 0
        for _, records in groupby(map(_ACCOUNT.unpack, self._records), key=itemgetter(0)):
            last_entry = document = None
            is_written_later = False
            for record in records:
                if record[2] == _ENTRY:
                    last_entry = record
                elif record[2] == _DOCUMENT:
                    document = record
                else:
                    is_written_later = True
            if last_entry is None:
                continue
            _, _, _, collection, is_rescued, digest = last_entry
            if document is not None:
                document_count += 1
                altered_count += not (is_written_later or is_rescued or document[-1] == digest)
            elif not is_written_later:
                missing_count += digest != _NO_DIGEST and collection in collection_numbers
        return JournalAccount(
            told=document_count,
            altered=altered_count,
            missing=missing_count,
            compacted=self._compacted,
            unproven=self._unproven,
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
    absent_spaces = sorted(set(heads).difference(names))
    reports = [await _verify_space(store, space, heads.get(space)) for space in names]
    absence_reports = [
        VerifiedSpace(space=space, head="", standing=HeadStanding.ABSENT, account=JournalAccount(told=0))
        for space in absent_spaces
    ]
    return *reports, *absence_reports


async def _verify_space(store: Store, space: SpaceId, expected_head: JournalHead | None) -> VerifiedSpace:
    (document,) = await store.get(space, (REF,))
    if document is None:
        # A space without a record was never written or lost it: the rest of it has no head.
        head_standing = HeadStanding.ABSENT if expected_head is not None else None
        return VerifiedSpace(space=space, head="", standing=head_standing, account=JournalAccount(told=0))
    record = SpaceRecord.from_bytes(document.body)
    head_chain, digest_account = HeadChain(record, expected_head), DigestAccount(record)
    collections: dict[str, None] = dict.fromkeys(COLLECTIONS)
    async for entry in ports_store.scan_entries(store, space):
        head_chain.add(entry)
        digest_account.tell(entry)
        if entry.digest:
            collections[entry.ref.collection] = None  # the server's own space contains keys and users
    async for document in space_documents(store, space, collections=collections):
        digest_account.meet(document)
    async for entry in ports_store.scan_entries(store, space, after=head_chain.head.sequence):
        digest_account.retell(entry)
    return VerifiedSpace(
        space=space, head=str(head_chain.head), standing=head_chain.standing, account=digest_account.report(collections)
    )
