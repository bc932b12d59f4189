"""Verification of a space against its journal, and of its journal against a head that was kept elsewhere."""

import hashlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from elytron.journal.compaction import MODULUS, EntrySums
from elytron.state.space_records import REF
from elytron_core.contracts.inspection import HeadStanding, JournalAccount
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import BESIDE, COLLECTIONS, SpaceRecord
from elytron_core.policy.integrity import DIGEST_BYTES, JournalHead, standing_of
from elytron_core.ports import store as ports_store
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry, Store
from elytron_core.strict_json import UnorderedDigest


async def space_documents(
    store: Store, space: SpaceId, /, *, collections: Iterable[str] = COLLECTIONS
) -> AsyncIterator[Document]:
    """Yield every document of a space, collection by collection, in key order."""
    for collection in collections:
        async for document in ports_store.scan_documents(store, space, collection):
            yield document


class StateFingerprint:
    """The digest of a space's documents: the place and body of each, not its revision; their order does not count."""

    def __init__(self) -> None:
        self._told = UnorderedDigest()

    @property
    def count(self) -> int:
        """Number of added documents."""
        return self._told.count

    def add(self, document: Document, /) -> None:
        self._told.add(b"\0".join((document.ref.collection.encode(), document.ref.key.encode(), document.body)))

    def hexdigest(self) -> str:
        return self._told.hexdigest()


class EventFingerprint:
    """The digest of a journal: every entry, in order."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self.count = 0
        self.sequence = 0
        """Of the last entry."""

    def add(self, entry: JournalEntry, /) -> None:
        line = f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}|{entry.digest}"
        covered = f"|{entry.covers}" if entry.covers > 1 else ""
        self._state.update(f"{line}{covered}\n".encode())
        self.count += 1
        self.sequence = entry.sequence

    def hexdigest(self) -> str:
        return self._state.hexdigest()


class HeadChain:
    """The head of a journal whose entries are added in order, and what it was where a `kept` head ends."""

    def __init__(self, record: SpaceRecord, kept: JournalHead | None = None, /) -> None:
        self._record = record
        self._sums = EntrySums(record)
        self._order = self._content = 0
        self._kept = kept
        self._then: JournalHead | None = None
        self._is_compacted = False
        self._sequence = 0
        self._stand()

    def add(self, entry: JournalEntry, /) -> None:
        """Go on by one entry."""
        self._order = (self._order + self._sums.order_of(entry)) % MODULUS
        self._content = (self._content + self._sums.content_of(entry)) % MODULUS
        self._sequence = entry.sequence
        if self._kept is not None and entry.first <= self._kept.sequence < entry.sequence:
            self._is_compacted = self._sums.run_sum(entry) is not None
        self._stand()

    @property
    def head(self) -> JournalHead:
        """Return the head of what was added."""
        return JournalHead(
            self._sequence, self._told(b"journal head", self._order), self._told(b"journal told", self._content)
        )

    @property
    def standing(self) -> HeadStanding | None:
        """Return the relation of the added entries to the kept head; None if no head was kept."""
        if self._kept is None:
            return None
        return standing_of(self._kept, self.head, self._then, is_compacted=self._is_compacted)

    def _told(self, purpose: bytes, total: int) -> str:
        # A shown head must not disclose the sums: with them a run could be forged.
        chain = self._record.chain(purpose, size=DIGEST_BYTES)
        chain.update(f"{self._sequence}|{total}".encode())
        return chain.hexdigest()

    def _stand(self) -> None:
        if self._kept is not None and self._sequence == self._kept.sequence:
            self._then = self.head


@dataclass(slots=True)
class DigestAccount:
    """The last digest that a journal has for each document, removed as documents are met.

    Documents that only list or look up others may change without an entry, and are not judged.
    """

    record: SpaceRecord
    _told: dict[DocumentRef, str] = field(default_factory=dict[DocumentRef, str])
    _altered: set[DocumentRef] = field(default_factory=set[DocumentRef])
    _rescued: set[DocumentRef] = field(default_factory=set[DocumentRef])
    """Documents that a repair put into the journal again, as the entries with their digests were lost."""
    _met: int = 0
    _compacted: int = 0
    _unproven: int = 0

    def tell(self, entry: JournalEntry, /) -> None:
        if entry.covers > 1:
            self._compacted += entry.covers - 1
            self._unproven += EntrySums(self.record).run_sum(entry) is None
            return
        # The space's record is made once: any other entry for it is an event that changed no document.
        is_event = entry.ref == REF and entry.action is not JournalAction.LIFECYCLE
        if entry.ref.collection not in BESIDE and not is_event:
            self._told[entry.ref] = entry.digest
            is_rescued = entry.action is JournalAction.MAINTENANCE and not entry.digest
            (self._rescued.add if is_rescued else self._rescued.discard)(entry.ref)

    def meet(self, document: Document, /) -> None:
        digest = self._told.pop(document.ref, None)
        if digest is None:
            return
        self._met += 1
        if document.ref not in self._rescued and digest != self.record.digest(document.body):
            self._altered.add(document.ref)

    def retell(self, entry: JournalEntry, /) -> None:
        """Take in an entry that was committed while documents were met: its document is not judged."""
        self._altered.discard(entry.ref)
        self._told.pop(entry.ref, None)

    def report(self, walked: Collection[str], /) -> JournalAccount:
        """Return what became of the documents in the collections that were `walked`."""
        missing = sum(1 for ref, digest in self._told.items() if digest and ref.collection in walked)
        return JournalAccount(
            told=self._met,
            altered=len(self._altered),
            missing=missing,
            compacted=self._compacted,
            unproven=self._unproven,
        )


class VerifiedSpace(Value):
    """One space beside the head that was kept of it."""

    space: str
    head: str
    """Its head now; empty if the space is absent."""
    standing: HeadStanding | None = None
    """None if no head was kept."""
    account: JournalAccount

    @property
    def is_sound(self) -> bool:
        return self.account.ok and (self.standing is None or self.standing.is_sound)


async def verify_store(store: Store, kept: Mapping[SpaceId, str], /) -> tuple[VerifiedSpace, ...]:
    """Return the state of every space of `store`, and of every space with a `kept` head; nothing is changed.

    Raises StoreCorrupt or SealBroken for damage that is met, InvalidInput for a text that is no head.
    """
    heads = {space: JournalHead.parse(text) for space, text in kept.items()}
    names = [space async for space in ports_store.scan_spaces(store)]
    absent = sorted(set(heads).difference(names))
    found = [await _verify_space(store, space, heads.get(space)) for space in names]
    gone = [
        VerifiedSpace(space=space, head="", standing=HeadStanding.ABSENT, account=JournalAccount(told=0))
        for space in absent
    ]
    return *found, *gone


async def _verify_space(store: Store, space: SpaceId, kept: JournalHead | None) -> VerifiedSpace:
    (document,) = await store.get(space, (REF,))
    if document is None:
        # A space without a record was never written or lost it: the rest of it has no head.
        standing = HeadStanding.ABSENT if kept is not None else None
        return VerifiedSpace(space=space, head="", standing=standing, account=JournalAccount(told=0))
    record = SpaceRecord.from_bytes(document.body)
    chain, account = HeadChain(record, kept), DigestAccount(record)
    collections: dict[str, None] = dict.fromkeys(COLLECTIONS)
    async for entry in ports_store.scan_entries(store, space):
        chain.add(entry)
        account.tell(entry)
        if entry.digest:
            collections[entry.ref.collection] = None  # the server's own space keeps keys and users
    async for document in space_documents(store, space, collections=collections):
        account.meet(document)
    async for entry in ports_store.scan_entries(store, space, after=chain.head.sequence):
        account.retell(entry)
    return VerifiedSpace(
        space=space, head=str(chain.head), standing=chain.standing, account=account.report(collections)
    )
