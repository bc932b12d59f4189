"""Repair of a keyring: a lost seat is made again from its record, and a space whose keys are lost is put aside.

Keys that are lost cannot be had again, but they must not stop the store: the name of such a space is free again, its
ciphertext is kept under a mark, and the erasure of the name takes it along.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from elytron_core import limits
from elytron_core.errors import Conflict, SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    DamageKind,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    JournalEntry,
    PutChange,
    Store,
    StoreProblem,
)
from elytron_store.sealed.keyring import StoreKeyring, keyring_batch
from elytron_store.sealed.records import (
    INNER,
    KEYRING,
    NAMES,
    QUARANTINE,
    RECORDS,
    SEAT_WHAT,
    SEATS,
    KeyLife,
    SpaceSeat,
    read_record,
    seat_ref,
    tag_of,
)

_PAGE = 100
ASIDE = DocumentRef(QUARANTINE, "0")
"""In an inner space that was put aside: its body is the record of its keys, if one was left."""


@dataclass(frozen=True, slots=True)
class KeyringFault:
    """A seat or a record of one space that is lost or damaged; without a `record` that opens its keys are lost."""

    seat: Document | None
    record: Document | None
    name: SpaceId | None
    is_open: bool

    def problem(self, *, quarantined: bool) -> StoreProblem:
        """Return the fault for a report."""
        what = "the keys of this space cannot be opened"
        return StoreProblem(DamageKind.ENGINE, self.name, what, quarantined=quarantined)


async def keyring_faults(keyring: StoreKeyring) -> list[KeyringFault]:
    """Return each seat without a record that opens, and each record without its seat."""
    seats = {seat.ref.key: seat async for seat in readable_documents(keyring.inner, KEYRING, SEATS)}
    faults: list[KeyringFault] = []
    seated = set[str]()
    async for record in readable_documents(keyring.inner, KEYRING, RECORDS):
        if record.ref == NAMES:
            continue
        kept = seats.get(tag_of(record.ref.key))
        seat = _seat_of(kept)
        if seat is not None and seat.inner != record.ref.key:
            continue  # of an earlier incarnation
        seated.add(tag_of(record.ref.key))
        name, is_open = await _open_record(keyring, record)
        if seat is None or not is_open:
            faults.append(KeyringFault(kept, record, name, is_open))
    for tag, kept in sorted(seats.items()):
        seat = _seat_of(kept)
        if tag not in seated and (seat is None or seat.life is KeyLife.LIVE):
            faults.append(KeyringFault(kept, None, None, is_open=False))
    return faults


async def mend_fault(keyring: StoreKeyring, fault: KeyringFault, /) -> bool:
    """Make the seat again, or free the name of a space whose keys are lost; return whether it was done."""
    revision = 0 if fault.seat is None else fault.seat.revision
    if fault.record is not None and fault.is_open:
        seat = SpaceSeat(inner=fault.record.ref.key, life=KeyLife.LIVE)
        put = PutChange(seat_ref(tag_of(seat.inner)), seat.to_bytes(), revision)
        return await _commit_batch(keyring, keyring_batch(keyring.clock, put))
    if fault.record is not None and not await put_aside(keyring, SpaceId(fault.record.ref.key), fault.record.body):
        return False
    lost = [document for document in (fault.seat, fault.record) if document is not None]
    changes = [DeleteChange(document.ref, document.revision) for document in lost]
    return await _commit_batch(keyring, keyring_batch(keyring.clock, *changes))


async def put_aside(keyring: StoreKeyring, inner: SpaceId, record: bytes = b"", /) -> bool:
    """Mark an inner space whose keys are lost; return whether it is marked."""
    if not INNER.fullmatch(inner) or await was_put_aside(keyring, inner):
        return bool(INNER.fullmatch(inner))
    marked = Batch(
        space=inner,
        at=keyring.clock.now(),
        entries=(EntryDraft(JournalAction.MAINTENANCE, ASIDE),),
        puts=(PutChange(ASIDE, record, 0),),
        sealed=True,
    )
    return await _commit_batch(keyring, marked)


async def was_put_aside(keyring: StoreKeyring, inner: SpaceId, /) -> bool:
    """Return whether an inner space was put aside."""
    with suppress(StoreCorrupt):
        return await keyring.inner.get(inner, [ASIDE]) != [None]
    return True


async def _commit_batch(keyring: StoreKeyring, batch: Batch) -> bool:
    try:
        await keyring.inner.commit(batch)
    except Conflict:
        return False  # it was changed meanwhile
    return True


async def _open_record(keyring: StoreKeyring, record: Document) -> tuple[SpaceId | None, bool]:
    """Return the name in `record`, and whether its keys open. Raises KeyMissing."""
    name = None
    try:
        name = keyring.name(record)
        await keyring.unlock(record, seat=b"")
    except SealBroken:
        return name, False
    except StoreCorrupt:  # its guard, which is no part of the keyring
        return name, True
    return name, True


def _seat_of(kept: Document | None) -> SpaceSeat | None:
    """Return the seat in a document; None if there is none, or it is another space's."""
    if kept is None:
        return None
    with suppress(SealBroken):
        seat = read_record(SpaceSeat, kept.body, what=SEAT_WHAT)
        return seat if tag_of(seat.inner) == kept.ref.key else None
    return None


async def readable_documents(inner: Store, space: SpaceId, collection: str, /) -> AsyncIterator[Document]:
    """Yield what can be read of a collection: page by page up to damage, from there on by the journal's keys."""
    after = ""
    with suppress(StoreCorrupt):  # the inner store reports it
        async for document in store.scan_documents(inner, space, collection, page=_PAGE):
            yield document
            after = document.ref.key
        return
    entries = readable_entries(inner, space)
    keys = {entry.ref.key async for entry in entries if entry.ref.collection == collection}
    for key in sorted(key for key in keys if key > after):
        with suppress(StoreCorrupt):
            (found,) = await inner.get(space, [DocumentRef(collection, key)])
            if found is not None:
                yield found


async def readable_entries(inner: Store, space: SpaceId, /) -> AsyncIterator[JournalEntry]:
    """Yield the entries of a journal up to its first damage."""
    with suppress(StoreCorrupt):  # the inner store reports it
        async for entry in store.scan_entries(inner, space, page=limits.PAGE_MAX):
            yield entry
