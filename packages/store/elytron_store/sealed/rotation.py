"""New keys for what lives on: a new key-encryption key for all, a new data key for one space."""

from elytron_core import limits
from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import Batch, Document, EntryDraft, ErasureTarget, JournalAction, PutChange
from elytron_store.sealed.keyring import NAMES_OWNER, StoreKeyring, keyring_batch
from elytron_store.sealed.records import (
    GUARD,
    KEYRING,
    NAMES,
    RECORD_WHAT,
    RECORDS,
    NamesRecord,
    SealedSpaceRecord,
    read_record,
    record_ref,
)


async def renew_data_key(keyring: StoreKeyring, space: SpaceId, /) -> None:
    """Give `space` one more data key, then raise its guard, so that no handle writes under an older one any more.

    Cut short between the two, other handles go on with the older key until they next look; repeating it is safe.
    A space without keys gets its first one when it is first written. Raises KeyDestroyed, KeyMissing, SealBroken.
    """
    while (vault := await keyring.find(space)) is not None:
        kept = await keyring.one(record_ref(vault.inner))
        if kept is None:
            continue  # erased since
        record = read_record(SealedSpaceRecord, kept.body, what=RECORD_WHAT)
        fresh = await keyring.wrapping.fresh(vault.inner, record.keys[-1].number + 1)
        newer = record.model_copy(update={"keys": (*record.keys, fresh)})
        try:
            await keyring.inner.commit(
                keyring_batch(keyring.clock, PutChange(kept.ref, newer.to_bytes(), kept.revision))
            )
        except Conflict:
            continue
        await _raise_guard(keyring, space)
        return


async def rewrap_keyring(keyring: StoreKeyring, /) -> int:
    """Put every data key under the current key-encryption key; return how many were under another.

    One small batch for each space; cut short, it goes on from there when repeated. Then no byte is left of the
    keys as they were wrapped before: not in a log, a write-ahead log or an older generation. Raises KeyMissing,
    SealBroken, and StoreBusy while a reader holds an older state: repeat it.
    """
    count = 0
    async for document in store.scan_documents(keyring.inner, KEYRING, RECORDS, page=limits.PAGE_MAX):
        count += await _rewrap_document(keyring, document)
    # An erasure takes what was replaced before, also where an earlier rotation was cut short of it.
    await keyring.inner.erase(ErasureTarget(space=KEYRING, at=keyring.clock.now()))
    return count


async def _raise_guard(keyring: StoreKeyring, space: SpaceId) -> None:
    while (vault := await keyring.find(space)) is not None:
        told = EntryDraft(JournalAction.MAINTENANCE, GUARD)
        raised = Batch(
            space=vault.inner, at=keyring.clock.now(), entries=(told,), puts=(vault.guard_put(),), sealed=True
        )
        try:
            await keyring.inner.commit(raised)
        except Conflict:
            continue
        return


async def _rewrap_document(keyring: StoreKeyring, document: Document) -> int:
    kept: Document | None = document
    while kept is not None:
        newer, changed = await _renewed_record(keyring, kept)
        if not changed:
            return 0
        try:
            await keyring.inner.commit(keyring_batch(keyring.clock, PutChange(kept.ref, newer, kept.revision)))
        except Conflict:
            kept = await keyring.one(kept.ref)
            continue
        return changed
    return 0


async def _renewed_record(keyring: StoreKeyring, kept: Document) -> tuple[bytes, int]:
    if kept.ref == NAMES:
        names = read_record(NamesRecord, kept.body, what="the keyring's key of names")
        key = await keyring.wrapping.renew(NAMES_OWNER, names.key)
        return names.model_copy(update={"key": key}).to_bytes(), int(key is not names.key)
    record = read_record(SealedSpaceRecord, kept.body, what=RECORD_WHAT)
    keys = tuple([await keyring.wrapping.renew(kept.ref.key, key) for key in record.keys])
    changed = sum(new is not old for new, old in zip(keys, record.keys, strict=True))
    return record.model_copy(update={"keys": keys}).to_bytes(), changed
