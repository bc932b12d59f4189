"""The sealed store: wraps a Store that sees only ciphertext, keyed tags and ids; and re-encrypts live spaces."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Self

from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    Document,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    KeyProvider,
    PutChange,
    Store,
    require_space,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import StoreCapabilities
from elytron_store import engine
from elytron_store.sealed import inspection
from elytron_store.sealed.keyring import NAMES_OWNER, StoreKeyring, keyring_batch
from elytron_store.sealed.records import (
    GUARD,
    INNER,
    KEYRING,
    NAMES,
    RECORD_WHAT,
    RECORDS,
    KeyringCoverage,
    NamesRecord,
    SealedSpaceRecord,
    read_record,
    record_ref,
)
from elytron_store.sealed.spaces import SealedSpaces


async def renew_data_key(keyring: StoreKeyring, space: SpaceId, /) -> None:
    """Give `space` a new data key, then raise its guard, so that no handle writes under an older one any more.

    If interrupted between the two, other handles continue with the older key until they next check; repeating it is
    safe. A space without keys gets its first one with its first write. Raises KeyDestroyed, KeyMissing, SealBroken.
    """
    while (space_keys := await keyring.find(space)) is not None:
        document = await keyring.one(record_ref(space_keys.inner))
        if document is None:
            continue  # erased since
        record = read_record(SealedSpaceRecord, document.body, what=RECORD_WHAT)
        fresh_key = await keyring.wrapping.fresh(space_keys.inner, record.keys[-1].number + 1)
        renewed_record = record.model_copy(update={"keys": (*record.keys, fresh_key)})
        try:
            await keyring.inner.commit(
                keyring_batch(keyring.clock, PutChange(document.ref, renewed_record.to_bytes(), document.revision))
            )
        except Conflict:
            continue
        await _raise_guard(keyring, space)
        return


async def rewrap_keyring(keyring: StoreKeyring, /) -> int:
    """Re-wrap every data key under the current key-encryption key; return how many were under another.

    One small batch per space; if interrupted, repeating it continues there. Afterwards no byte of the previous wrapping
    is left in a log, a write-ahead log or an older generation. Raises KeyMissing, SealBroken, and StoreBusy while a
    reader holds an older state: repeat it.
    """
    count = 0
    async for document in store.scan_documents(keyring.inner, KEYRING, RECORDS, page=limits.PAGE_MAX):
        count += await _rewrap_document(keyring, document)
    # An erasure also removes what was replaced before, including by an interrupted rotation.
    await keyring.inner.erase(ErasureTarget(space=KEYRING, at=keyring.clock.now()))
    return count


async def _raise_guard(keyring: StoreKeyring, space: SpaceId) -> None:
    while (space_keys := await keyring.find(space)) is not None:
        entry = EntryDraft(JournalAction.MAINTENANCE, GUARD)
        guard_batch = Batch(
            space=space_keys.inner,
            at=keyring.clock.now(),
            entries=(entry,),
            puts=(space_keys.guard_put(),),
            sealed=True,
        )
        try:
            await keyring.inner.commit(guard_batch)
        except Conflict:
            continue
        return


async def _rewrap_document(keyring: StoreKeyring, document: Document) -> int:
    current_document: Document | None = document
    while current_document is not None:
        renewed_document, changed_count = await _renewed_record(keyring, current_document)
        if not changed_count:
            return 0
        try:
            await keyring.inner.commit(
                keyring_batch(
                    keyring.clock, PutChange(current_document.ref, renewed_document, current_document.revision)
                )
            )
        except Conflict:
            current_document = await keyring.one(current_document.ref)
            continue
        return changed_count
    return 0


async def _renewed_record(keyring: StoreKeyring, document: Document) -> tuple[bytes, int]:
    if document.ref == NAMES:
        names = read_record(NamesRecord, document.body, what="the keyring's key of names")
        key = await keyring.wrapping.renew(NAMES_OWNER, names.key)
        return names.model_copy(update={"key": key}).to_bytes(), int(key is not names.key)
    record = read_record(SealedSpaceRecord, document.body, what=RECORD_WHAT)
    keys = tuple([await keyring.wrapping.renew(document.ref.key, key) for key in record.keys])
    changed_count = sum(new_key is not old_key for new_key, old_key in zip(keys, record.keys, strict=True))
    return record.model_copy(update={"keys": keys}).to_bytes(), changed_count


class SealedStore(SealedSpaces):
    """A store that is sealed as a whole, under key-encryption keys stored outside it.

    The package's docstring says what the inner store can reveal.
    """

    def __init__(self, inner_store: Store, keyring: StoreKeyring, /, *, clock: Clock) -> None:
        super().__init__(inner_store, keyring, clock=clock)
        self._keyring = keyring

    @classmethod
    async def open(
        cls,
        inner_store: Store,
        /,
        *,
        keys: KeyProvider,
        ids: IdSource,
        clock: Clock,
        covers: KeyringCoverage = KeyringCoverage.SPACES,
    ) -> Self:
        """Return the sealed view of `inner_store`, which it owns from now on and closes with itself.

        An empty `inner_store` gets a keyring, which says what it `covers`. Raises KeyMissing where `keys` are not those
        it was sealed with, StoreForeign where it holds anything but no keyring; `inner_store` is then unchanged and
        still the caller's.
        """
        return cls(
            inner_store,
            await StoreKeyring.open(inner_store, keys=keys, ids=ids, clock=clock, covers=covers),
            clock=clock,
        )

    @property
    def identity(self) -> str:
        """Return the random identity of the store, which is bound into each of its wrapped keys."""
        return self._keyring.wrapping.identity

    @property
    def capabilities(self) -> StoreCapabilities:
        """Capabilities of the inner store, sealed."""
        return self._inner.capabilities.model_copy(update={"sealed": True})

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        """Return a page of the spaces by their real names, in the inner store's order of their tags.

        Destroyed spaces are left out.
        """
        after_mark = await self._keyring.mark(after) if after else ""

        async def real_names(page: Sequence[SpaceId]) -> Sequence[SpaceId | None]:
            return await self._keyring.names([inner_space for inner_space in page if inner_space != KEYRING])

        return await engine.named_spaces(self._inner, real_names, after=after_mark, limit=limit)

    async def queued_spaces(self, /) -> AsyncIterator[SpaceId]:
        """Yield the spaces by their real names; destroyed spaces are left out."""
        async for inner_space in store.queued_spaces(self._inner):
            for name in await self._keyring.names([inner_space] if inner_space != KEYRING else []):
                if name is not None:
                    yield name

    async def check(self) -> CheckReport:
        """Check the inner store, then open every record of the keyring and every document.

        Documents are found by the collections that the journals name. The port cannot list blobs: the inner store
        checks their bytes, and reading proves each chunk.
        """
        return await inspection.inspect_sealed(self._keyring, await self._inner.check(), repair=False)

    async def repair(self) -> CheckReport:
        """Repair the inner store, then the keyring; quarantine what does not open, finish interrupted destructions."""
        report = await inspection.inspect_sealed(self._keyring, await self._inner.repair(), repair=True)
        self._key_cache.clear()
        return report

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        """Return the inner store's losses under the real names of their spaces; one without keys has no name."""
        inner_name = None if space is None else await self._keyring.mark(space)
        losses = await store.find_losses(self._inner, inner_name)
        return [replace(loss, space=space or await self._real_name(loss.space)) for loss in losses]

    async def _real_name(self, inner_space: SpaceId | None) -> SpaceId | None:
        if inner_space is None or not INNER.fullmatch(inner_space):
            return None
        return (await self._keyring.names([inner_space]))[0]

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        inner_name = None if space is None else await self._keyring.mark(space)
        return await store.acknowledge_losses(self._inner, inner_name, at=at)

    async def close(self) -> None:
        """Drop the open keys and close the inner store."""
        self._key_cache.clear()
        await self._inner.close()

    async def rotate_key_encryption(self) -> int:
        """Re-wrap every data key under the provider's current key; return how many were under another.

        One small batch per space, no document is changed; if interrupted, repeat it. Afterwards an older key-encryption
        key opens no byte of the store, but it still opens copies made before. Raises KeyMissing, SealBroken.
        """
        return await rewrap_keyring(self._keyring)

    async def rotate_data_key(self, space: SpaceId, /) -> None:
        """Give `space` a new data key: later writes of all handles are sealed under it.

        Older keys stay for what they sealed; a document is re-sealed when it is next put. The space's journal gets one
        MAINTENANCE entry. A space without keys is no error. Raises KeyDestroyed, KeyMissing, SealBroken.
        """
        require_space(space)
        await renew_data_key(self._keyring, space)
        self._key_cache.drop(space)

    async def destroy_key(self, space: SpaceId, /) -> None:
        """Make `space` permanently unreadable: physically erase its wrapped keys, then its ciphertext.

        A mark that reveals nothing stays: every handle raises KeyDestroyed for the space, until an erasure of the whole
        space frees its name for reuse under new keys. A space without keys is no error.
        """
        require_space(space)
        inner_space = await self._destroy_keys(space)
        if inner_space is not None:
            await self._erase_inner(inner_space, at=self._clock.now())
