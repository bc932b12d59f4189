"""Checking a sealed store: what the inner store found, in the caller's words, and what does not open."""

import contextlib
import dataclasses
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from elytron_core import limits
from elytron_core.errors import Conflict, KeyDestroyed, KeyMissing, SealBroken, SealError, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    CheckReport,
    DamageKind,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
    StoreProblem,
)
from elytron_store.engine import ERASURE_REF
from elytron_store.sealed.keyring import StoreKeyring
from elytron_store.sealed.keyring_repair import (
    keyring_faults,
    mend_fault,
    put_aside,
    readable_documents,
    readable_entries,
    was_put_aside,
)
from elytron_store.sealed.records import (
    GUARD,
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
_NOT_OURS = {QUARANTINE, ERASURE_REF.collection}
Settle = Callable[[StoreKeyring, SpaceId, Document | None], Awaitable[bool]]
"""Deals with a document of an inner space that does not open, or (None) with the remains of a destroyed space.

Returns whether it is out of the way now.
"""


async def _leave_unsettled(_keyring: StoreKeyring, _inner: SpaceId, _document: Document | None, /) -> bool:
    """Change nothing."""
    return False


async def _set_aside(keyring: StoreKeyring, inner: SpaceId, document: Document | None, /) -> bool:
    """Move `document` to the quarantine of its inner space, as it is; finish the destruction of a space.

    Two MAINTENANCE entries have the document and its key in the quarantine.
    """
    at = keyring.clock.now()
    if document is None:
        await keyring.inner.erase(ErasureTarget(space=inner, at=at, whole_space=True))
        return True
    aside = DocumentRef(QUARANTINE, os.urandom(16).hex())
    moved = Batch(
        space=inner,
        at=at,
        entries=(EntryDraft(JournalAction.MAINTENANCE, document.ref), EntryDraft(JournalAction.MAINTENANCE, aside)),
        puts=(PutChange(aside, document.body, 0),),
        deletes=(DeleteChange(document.ref, document.revision),),
        sealed=True,
    )
    try:
        await keyring.inner.commit(moved)
    except Conflict:
        return False  # it was written again meanwhile
    return True


async def inspect_sealed(keyring: StoreKeyring, inner: CheckReport, /, *, repair: bool) -> CheckReport:
    """Return the inner store's report in the caller's words, with each record and document that does not open.

    With `repair` these are moved aside, lost seats are made again, and destructions that were cut short are finished.
    """
    settle = _set_aside if repair else _leave_unsettled
    seen = _WalkFindings()
    await _inspect_keys(keyring, seen, repair=repair)
    async for record in readable_documents(keyring.inner, KEYRING, RECORDS):
        seen.ours += 1
        if record.ref != NAMES:
            await _inspect_space(keyring, record, seen, settle=settle)
    async for _ in readable_documents(keyring.inner, KEYRING, SEATS):
        seen.ours += 1
    await _inspect_remains(keyring, seen, settle=settle)
    entries = [entry async for entry in readable_entries(keyring.inner, KEYRING)]
    told = [_in_the_callers_words(problem, seen) for problem in inner.problems]
    problems = (*told, *seen.problems)
    return CheckReport(
        spaces=max(inner.spaces - 1, 0),
        documents=max(inner.documents - seen.ours, 0),
        entries=max(inner.entries - len(entries), 0),
        blobs=inner.blobs,
        problems=problems[: limits.PROBLEMS_MAX],
        clipped=inner.clipped or len(problems) > limits.PROBLEMS_MAX,
    )


@dataclass
class _WalkFindings:
    """Findings of a walk: real names by inner space, documents of the wrapper itself, problems."""

    names: dict[SpaceId, SpaceId | None] = field(default_factory=dict[SpaceId, SpaceId | None])
    ours: int = 0
    told: set[SpaceId] = field(default_factory=set[SpaceId])
    """Inner spaces whose keys are reported already."""
    problems: list[StoreProblem] = field(default_factory=list[StoreProblem])


async def _inspect_keys(keyring: StoreKeyring, seen: _WalkFindings, *, repair: bool) -> None:
    with contextlib.suppress(KeyMissing):  # each record below says it
        for fault in await keyring_faults(keyring):
            gone = repair and await mend_fault(keyring, fault)
            seen.problems.append(fault.problem(quarantined=gone))
            if fault.record is not None and not gone:
                seen.told.add(SpaceId(fault.record.ref.key))


async def _inspect_space(keyring: StoreKeyring, record: Document, seen: _WalkFindings, *, settle: Settle) -> None:
    inner = SpaceId(record.ref.key)
    seen.names[inner] = None
    try:
        name = seen.names[inner] = keyring.name(record)
        vault = await keyring.find(name)
    except KeyDestroyed:
        del seen.names[inner]  # its destruction was cut short: see to the remains
        return
    except StoreCorrupt:
        return  # its guard; the inner store has reported it
    except SealError:
        if inner in seen.told:
            return
        seen.problems.append(
            StoreProblem(DamageKind.ENGINE, seen.names[inner], "the keys of this space cannot be opened")
        )
        return
    if vault is None or vault.inner != inner:
        del seen.names[inner]
        return
    named = {entry.ref.collection async for entry in readable_entries(keyring.inner, inner)}
    for collection in sorted((named | {GUARD.collection}) - _NOT_OURS):
        async for document in readable_documents(keyring.inner, inner, collection):
            seen.ours += document.ref == GUARD
            try:
                vault.open(document)
            except SealBroken as broken:
                gone = await settle(keyring, inner, document)
                seen.problems.append(StoreProblem(DamageKind.DOCUMENT, name, broken.what, quarantined=gone))
    async for _ in readable_documents(keyring.inner, inner, QUARANTINE):
        seen.ours += 1


async def _inspect_remains(keyring: StoreKeyring, seen: _WalkFindings, *, settle: Settle) -> None:
    async for inner in store.scan_spaces(keyring.inner):
        if inner != KEYRING and inner not in seen.names:
            if await was_put_aside(keyring, inner):
                seen.ours += 1
            else:
                seen.problems.append(await _remains_problem(keyring, inner, settle=settle))


async def _remains_problem(keyring: StoreKeyring, inner: SpaceId, *, settle: Settle) -> StoreProblem:
    with contextlib.suppress(SealBroken, StoreCorrupt):
        seat = await keyring.one(seat_ref(tag_of(inner)))
        if seat is not None and read_record(SpaceSeat, seat.body, what=SEAT_WHAT) == SpaceSeat(
            inner=inner, life=KeyLife.DESTROYED
        ):
            gone = await settle(keyring, inner, None)
            told = "a destroyed space's ciphertext was still there"
            return StoreProblem(DamageKind.ENGINE, None, told, quarantined=gone)
    gone = settle is _set_aside and await put_aside(keyring, inner)
    return StoreProblem(DamageKind.ENGINE, None, "a sealed space has no keys in the keyring", quarantined=gone)


def _in_the_callers_words(problem: StoreProblem, seen: _WalkFindings) -> StoreProblem:
    return problem if problem.space is None else dataclasses.replace(problem, space=seen.names.get(problem.space))
