"""Inspection of a sealed store: the inner store's findings, what cannot be opened, and repair of the keyring.

Lost keys cannot be recovered, but must not stop the store: the name of such a space becomes free, its ciphertext stays
under a mark, and an erasure of the name removes it.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from elytron_core import limits
from elytron_core.errors import Conflict, KeyDestroyed, KeyMissing, SealBroken, SealError, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import (
    ERASURE_REF,
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    Store,
)
from elytron_core.ports.store_checks import CheckReport, CheckTally, DamageKind, StoreLoss, StoreProblem
from elytron_store.sealed.keyring import StoreKeyring, keyring_batch
from elytron_store.sealed.records import (
    GUARD,
    INNER,
    KEYRING,
    NAMES,
    QUARANTINE,
    RECORDS,
    SLOT_WHAT,
    SPACE_SLOTS,
    KeyLife,
    SpaceSlot,
    document_slot,
    read_record,
    space_slot_ref,
    tag_of,
)

_PAGE = 100
ASIDE = DocumentRef(QUARANTINE, "0")
"""In a quarantined inner space: its body is the record of its keys, if one was left."""


@dataclass(frozen=True, slots=True)
class KeyringFault:
    """A slot or record of one space that is lost or damaged; without an openable `record` its keys are lost."""

    slot: Document | None
    record: Document | None
    name: SpaceId | None
    is_open: bool

    def problem(self, *, quarantined: bool) -> StoreProblem:
        """Return the fault for a report."""
        description = "the keys of this space cannot be opened"
        return StoreProblem(DamageKind.ENGINE, self.name, description, quarantined=quarantined)


async def keyring_faults(keyring: StoreKeyring) -> list[KeyringFault]:
    """Return each slot without an openable record, and each record without its slot."""
    slots_by_tag = {slot.ref.key: slot async for slot in readable_documents(keyring.inner, KEYRING, SPACE_SLOTS)}
    faults: list[KeyringFault] = []
    seated_inners = set[str]()
    async for record in readable_documents(keyring.inner, KEYRING, RECORDS):
        if record.ref == NAMES:
            continue
        document = slots_by_tag.get(tag_of(record.ref.key))
        slot = document_slot(document)
        if slot is not None and slot.inner != record.ref.key:
            continue  # of an earlier incarnation
        seated_inners.add(tag_of(record.ref.key))
        name, can_open = await _open_record(keyring, record)
        if slot is None or not can_open:
            faults.append(KeyringFault(document, record, name, can_open))
    for tag, document in sorted(slots_by_tag.items()):
        slot = document_slot(document)
        if tag not in seated_inners and (slot is None or slot.life is KeyLife.LIVE):
            faults.append(KeyringFault(document, None, None, is_open=False))
    return faults


async def mend_fault(keyring: StoreKeyring, fault: KeyringFault, /) -> bool:
    """Recreate the slot, or free the name of a space whose keys are lost; return whether it was done."""
    revision = 0 if fault.slot is None else fault.slot.revision
    if fault.record is not None and fault.is_open:
        slot = SpaceSlot(inner=fault.record.ref.key, life=KeyLife.LIVE)
        change = PutChange(space_slot_ref(tag_of(slot.inner)), slot.to_bytes(), revision)
        return await _commit_batch(keyring, keyring_batch(keyring.clock, change))
    # Copied first: if interrupted here, the record is still in the keyring.
    if fault.record is not None and not await put_aside(keyring, SpaceId(fault.record.ref.key), fault.record.body):
        return False
    lost_documents = [document for document in (fault.slot, fault.record) if document is not None]
    changes = [DeleteChange(document.ref, document.revision) for document in lost_documents]
    return await _commit_batch(keyring, keyring_batch(keyring.clock, *changes))


async def put_aside(keyring: StoreKeyring, inner_space: SpaceId, record: bytes = b"", /) -> bool:
    """Mark an inner space whose keys are lost; return whether it is marked."""
    if not INNER.fullmatch(inner_space) or await was_put_aside(keyring, inner_space):
        return bool(INNER.fullmatch(inner_space))
    mark_batch = Batch(
        space=inner_space,
        at=keyring.clock.now(),
        entries=(EntryDraft(JournalAction.MAINTENANCE, ASIDE),),
        puts=(PutChange(ASIDE, record, 0),),
        sealed=True,
    )
    return await _commit_batch(keyring, mark_batch)


async def was_put_aside(keyring: StoreKeyring, inner_space: SpaceId, /) -> bool:
    """Return whether an inner space was quarantined."""
    with suppress(StoreCorrupt):
        return await keyring.inner.get(inner_space, [ASIDE]) != [None]
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
        await keyring.unlock(record, slot=b"")
    except SealBroken:
        return name, False
    except StoreCorrupt:  # its guard, which is no part of the keyring
        return name, True
    return name, True


async def readable_documents(inner_store: Store, space: SpaceId, collection: str, /) -> AsyncIterator[Document]:
    """Yield the readable documents of a collection: page by page up to damage, from there on by the journal's keys."""
    after_key = ""
    with suppress(StoreCorrupt):  # the inner store reports it
        async for document in store.scan_documents(inner_store, space, collection, page=_PAGE):
            yield document
            after_key = document.ref.key
        return
    entries = readable_entries(inner_store, space)
    keys = {entry.ref.key async for entry in entries if entry.ref.collection == collection}
    for key in sorted(key for key in keys if key > after_key):
        with suppress(StoreCorrupt):
            (stored_document,) = await inner_store.get(space, [DocumentRef(collection, key)])
            if stored_document is not None:
                yield stored_document


async def readable_entries(inner_store: Store, space: SpaceId, /) -> AsyncIterator[JournalEntry]:
    """Yield the entries of a journal up to its first damage."""
    with suppress(StoreCorrupt):  # the inner store reports it
        async for entry in store.scan_entries(inner_store, space, page=limits.PAGE_MAX):
            yield entry


_ProblemT = TypeVar("_ProblemT", StoreProblem, StoreLoss)
_NOT_OURS = {QUARANTINE, ERASURE_REF.collection}
Settle = Callable[[StoreKeyring, SpaceId, Document | None], Awaitable[bool]]
"""Handles a document of an inner space that does not open, or (None) the remains of a destroyed space.

Returns whether it is resolved now.
"""


async def _leave_unsettled(_keyring: StoreKeyring, _inner: SpaceId, _document: Document | None, /) -> bool:
    """Change nothing."""
    return False


async def _set_aside(keyring: StoreKeyring, inner_space: SpaceId, document: Document | None, /) -> bool:
    """Move `document` to the quarantine of its inner space unchanged, or finish the destruction of a space."""
    quarantined_at = keyring.clock.now()
    if document is None:
        await keyring.inner.erase(ErasureTarget(space=inner_space, at=quarantined_at, whole_space=True))
        return True
    quarantine_ref = DocumentRef(QUARANTINE, os.urandom(16).hex())
    move_batch = Batch(
        space=inner_space,
        at=quarantined_at,
        entries=(
            EntryDraft(JournalAction.MAINTENANCE, document.ref),
            EntryDraft(JournalAction.MAINTENANCE, quarantine_ref),
        ),
        puts=(PutChange(quarantine_ref, document.body, 0),),
        deletes=(DeleteChange(document.ref, document.revision),),
        sealed=True,
    )
    return await _commit_batch(keyring, move_batch)


async def inspect_sealed(keyring: StoreKeyring, inner: CheckReport, /, *, repair: bool) -> CheckReport:
    """Return the inner store's report in the caller's terms, with each record and document that does not open.

    With `repair` these are moved aside, lost slots are made again, and destructions that were cut short are finished.
    """
    settle_document = _set_aside if repair else _leave_unsettled
    findings = _WalkFindings()
    await _inspect_keys(keyring, findings, repair=repair)
    async for record in readable_documents(keyring.inner, KEYRING, RECORDS):
        findings.ours += 1
        if record.ref != NAMES:
            await _inspect_space(keyring, record, findings, settle=settle_document)
    async for _ in readable_documents(keyring.inner, KEYRING, SPACE_SLOTS):
        findings.ours += 1
    await _inspect_remains(keyring, findings, settle=settle_document)
    entries = [entry async for entry in readable_entries(keyring.inner, KEYRING)]
    inner_problems = [_in_the_callers_words(problem, findings) for problem in inner.problems]
    problems = (*inner_problems, *findings.problems)
    tally = CheckTally(
        # The keyring is a space of the inner store and not one of the caller's.
        spaces=max(inner.spaces - 1, 0),
        documents=max(inner.documents - findings.ours, 0),
        entries=max(inner.entries - len(entries), 0),
        blobs=inner.blobs,
    )
    losses = [_in_the_callers_words(inner_loss, findings) for inner_loss in inner.losses]
    return tally.report(problems, clipped=inner.clipped, losses=losses)


@dataclass
class _WalkFindings:
    """Findings of a walk: real names by inner space, documents of the wrapper itself, problems."""

    names: dict[SpaceId, SpaceId | None] = field(default_factory=dict[SpaceId, SpaceId | None])
    ours: int = 0
    reported: set[SpaceId] = field(default_factory=set[SpaceId])
    """Inner spaces whose keys are reported already."""
    problems: list[StoreProblem] = field(default_factory=list[StoreProblem])


async def _inspect_keys(keyring: StoreKeyring, findings: _WalkFindings, *, repair: bool) -> None:
    with suppress(KeyMissing):  # each record below reports it
        for fault in await keyring_faults(keyring):
            is_mended = repair and await mend_fault(keyring, fault)
            findings.problems.append(fault.problem(quarantined=is_mended))
            if fault.record is not None and not is_mended:
                findings.reported.add(SpaceId(fault.record.ref.key))


async def _inspect_space(keyring: StoreKeyring, record: Document, findings: _WalkFindings, *, settle: Settle) -> None:
    inner_space = SpaceId(record.ref.key)
    findings.names[inner_space] = None
    try:
        name = findings.names[inner_space] = keyring.name(record)
        space_keys = await keyring.find(name)
    except KeyDestroyed:
        del findings.names[inner_space]  # its destruction was interrupted: handle the remains
        return
    except StoreCorrupt:
        return  # its guard; the inner store has reported it
    except SealError:
        if inner_space in findings.reported:
            return
        findings.problems.append(
            StoreProblem(DamageKind.ENGINE, findings.names[inner_space], "the keys of this space cannot be opened")
        )
        return
    if space_keys is None or space_keys.inner != inner_space:
        del findings.names[inner_space]
        return
    collections = {entry.ref.collection async for entry in readable_entries(keyring.inner, inner_space)}
    for collection in sorted((collections | {GUARD.collection}) - _NOT_OURS):
        async for document in readable_documents(keyring.inner, inner_space, collection):
            findings.ours += document.ref == GUARD
            try:
                space_keys.open(document)
            except SealBroken as seal_error:
                is_settled = await settle(keyring, inner_space, document)
                findings.problems.append(
                    StoreProblem(DamageKind.DOCUMENT, name, seal_error.what, quarantined=is_settled)
                )
    async for _ in readable_documents(keyring.inner, inner_space, QUARANTINE):
        findings.ours += 1


async def _inspect_remains(keyring: StoreKeyring, findings: _WalkFindings, *, settle: Settle) -> None:
    async for inner_space in store.scan_spaces(keyring.inner):
        if inner_space != KEYRING and inner_space not in findings.names:
            if await was_put_aside(keyring, inner_space):
                findings.ours += 1
            else:
                findings.problems.append(await _remains_problem(keyring, inner_space, settle=settle))


async def _remains_problem(keyring: StoreKeyring, inner_space: SpaceId, *, settle: Settle) -> StoreProblem:
    with suppress(SealBroken, StoreCorrupt):
        slot = await keyring.one(space_slot_ref(tag_of(inner_space)))
        if slot is not None and read_record(SpaceSlot, slot.body, what=SLOT_WHAT) == SpaceSlot(
            inner=inner_space, life=KeyLife.DESTROYED
        ):
            is_settled = await settle(keyring, inner_space, None)
            description = "a destroyed space's ciphertext was still there"
            return StoreProblem(DamageKind.ENGINE, None, description, quarantined=is_settled)
    is_settled = settle is _set_aside and await put_aside(keyring, inner_space)
    return StoreProblem(DamageKind.ENGINE, None, "a sealed space has no keys in the keyring", quarantined=is_settled)


def _in_the_callers_words(problem: _ProblemT, findings: _WalkFindings) -> _ProblemT:
    return problem if problem.space is None else replace(problem, space=findings.names.get(problem.space))
