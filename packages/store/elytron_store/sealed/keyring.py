"""The keyring: the wrapped keys of a sealed store, in a reserved space of the inner store."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Self

from elytron_core import limits, strict_json
from elytron_core.clock import Clock
from elytron_core.errors import Conflict, KeyDestroyed, KeyMissing, SealBroken, StoreForeign
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    KeyProvider,
    PutChange,
    RequireRevision,
    Store,
)
from elytron_store.sealed.cipher import KEY_BYTES, DataKey, bound_place, key_number
from elytron_store.sealed.records import (
    GUARD,
    KEYRING,
    NAMES,
    RECORD_WHAT,
    RECORDS,
    SHARED,
    SHARED_MARK,
    SLOT_WHAT,
    KeyLife,
    KeyringCoverage,
    NamesRecord,
    SealedSpaceRecord,
    SpaceSlot,
    WrappedKey,
    document_slot,
    read_record,
    record_ref,
    shows_seal,
    space_slot_ref,
    tag_of,
)


class KeyWrapping:
    """Creates, opens and re-wraps data keys. Secrets come from the `IdSource` port, as all secrets do."""

    def __init__(self, keys: KeyProvider, /, *, identity: str, ids: IdSource, clock: Clock) -> None:
        self._keys = keys
        self.identity = identity
        self._ids = ids
        self._clock = clock

    async def fresh(self, owner: str, number: int, /) -> WrappedKey:
        """Return a new data key, wrapped under the current key-encryption key. Raises KeyMissing."""
        return await self._wrap(self._ids.secret(KEY_BYTES), owner=owner, number=number)

    async def open(self, owner: str, key: WrappedKey, /) -> DataKey:
        """Return the data key in `key`. Raises KeyMissing for an unknown key-encryption key, SealBroken."""
        return DataKey(key.number, await self.unwrap(owner, key))

    async def renew(self, owner: str, key: WrappedKey, /) -> WrappedKey:
        """Return `key` under the current key-encryption key; the same value if it is already."""
        return key if key.key_id == self._keys.current() else await self.take_over(owner, key, self)

    async def take_over(self, owner: str, key: WrappedKey, former: "KeyWrapping", /) -> WrappedKey:
        """Return `key`, which `former` wrapped, under the current key-encryption key. Raises KeyMissing, SealBroken."""
        rewrapped_key = await self._wrap(await former.unwrap(owner, key), owner=owner, number=key.number)
        return rewrapped_key.model_copy(update={"created_at": key.created_at})

    async def _wrap(self, secret: bytes, *, owner: str, number: int) -> WrappedKey:
        key_id = self._keys.current()
        wrapped_key = await self._keys.wrap(secret, key_id=key_id, context=self._context(owner, number))
        return WrappedKey(number=number, key_id=key_id, wrapped=wrapped_key, created_at=self._clock.now())

    async def unwrap(self, owner: str, key: WrappedKey, /) -> bytes:
        """Return the bytes of the data key in `key`. Raises KeyMissing, SealBroken."""
        return await self._keys.unwrap(key.wrapped, key_id=key.key_id, context=self._context(owner, key.number))

    def _context(self, owner: str, key_number: int) -> bytes:
        return bound_place("data key", self.identity, owner, str(key_number))


class SpaceKeys:
    """A space's unwrapped data keys, with the last seen state of its slot and guard.

    `guard` is the guard's revision, 0 before the space's first batch. No call waits. Shows no key material.
    """

    def __init__(
        self,
        inner_space: SpaceId,
        /,
        *,
        slot: bytes,
        guard: int,
        keys: Mapping[int, DataKey],
        guard_ref: DocumentRef = GUARD,
    ) -> None:
        self.inner = inner_space
        self._guard_ref = guard_ref
        self.slot = slot
        self.guard = guard
        self.is_proven = guard > 0
        """True if the space was seen with its guard, so that an erasure cannot go unnoticed."""
        self._keys = keys
        self._newest = keys[max(keys)]
        # The oldest key lives as long as the space, so requests are recognised across rotations.
        self._requests = keys[min(keys)].derive(b"requests")
        self._documents = bound_place("document", inner_space)

    def __repr__(self) -> str:
        return f"Vault({self.inner!r}, data keys {sorted(self._keys)})"

    @property
    def newest(self) -> DataKey:
        """Return the data key that seals."""
        return self._newest

    def key(self, number: int, /) -> DataKey | None:
        """Return the data key `number`."""
        return self._keys.get(number)

    def knows(self, sealed: Iterable[bytes], /) -> bool:
        """Return whether the key of each of `sealed` is available."""
        return all(key_number(body) in self._keys for body in sealed)

    def seal(self, batch: Batch, /) -> Batch:
        """Return `batch` as the inner store may see it, protected by the space's guard.

        The first batch of a space brings the guard; later ones, made without waiting for it, demand it.
        """
        sealed_puts = [
            PutChange(change.ref, self._seal(change.ref, change.expects + 1, change.body), change.expects)
            for change in batch.puts
        ]
        required_revisions = batch.requires
        if self.guard:
            required_revisions = (*required_revisions, RequireRevision(self._guard_ref, self.guard))
        else:
            sealed_puts.append(self.guard_put())
            self.guard = 1
        return Batch(
            space=self.inner,
            at=batch.at,
            entries=batch.entries,
            puts=tuple(sealed_puts),
            deletes=batch.deletes,
            requires=required_revisions,
            idempotency=None if batch.idempotency is None else self._seal_request(batch.idempotency),
            sealed=True,
            takes_back=batch.takes_back,
            is_import=batch.is_import,
        )

    def guard_put(self) -> PutChange:
        """Return the put that creates the guard or raises it."""
        return PutChange(self._guard_ref, self._seal(self._guard_ref, self.guard + 1, b""), self.guard)

    def open(self, document: Document, /) -> Document:
        """Return `document` with its body opened. Raises SealBroken."""
        ref, revision, sealed_body = document.ref, document.revision, document.body
        description = f"document {ref.collection}/{ref.key}"
        plain_body = self._key_of(sealed_body, description).open(
            sealed_body, self._document_place(ref, revision), what=description
        )
        return Document(ref, revision, plain_body)

    def open_answer(self, receipt: CommitReceipt, request: BatchKey | None, /) -> CommitReceipt:
        """Return `receipt` with the answer stored for `request`. Raises SealBroken."""
        if request is None:
            return receipt
        answer = request.answer
        if receipt.replayed:
            description = "the answer to a repeated request"
            answer_place = self._answer_place(self._request_tag(request))
            answer = self._key_of(receipt.answer, description).open(receipt.answer, answer_place, what=description)
        return CommitReceipt(receipt.first, receipt.last, replayed=receipt.replayed, answer=answer)

    def blob_place(self, key: str, /) -> bytes:
        """Return what binds the blob `key` to its place."""
        return bound_place("blob", self.inner, key)

    def _seal(self, ref: DocumentRef, revision: int, body: bytes) -> bytes:
        return self._newest.seal(body, self._document_place(ref, revision))

    def _document_place(self, ref: DocumentRef, revision: int) -> bytes:
        # Neither collections nor keys contain a slash or an at sign.
        return self._documents + f"{ref.collection}/{ref.key}@{revision}".encode()

    def _key_of(self, sealed_bytes: bytes, what: str) -> DataKey:
        key = self._keys.get(key_number(sealed_bytes))
        if key is None:
            raise SealBroken(what=what)
        return key

    def _seal_request(self, request: BatchKey) -> BatchKey:
        tag = self._request_tag(request)
        digest = strict_json.keyed_tag(self._requests, "digest", request.key, request.digest, size=64)
        return BatchKey(tag, digest, self._newest.seal(request.answer, self._answer_place(tag)))

    def _request_tag(self, request: BatchKey) -> str:
        return strict_json.keyed_tag(self._requests, "key", request.key, size=64)

    def _answer_place(self, tag: str) -> bytes:
        return bound_place("answer", self.inner, tag)


NAMES_OWNER = "names"
_LOOKS = 4
"""Number of retries of a lookup that meets an unfinished creation or erasure."""


class StoreKeyring:
    """The keys of a sealed store. Several handles and processes may share one; each change is one atomic batch."""

    def __init__(self, inner_store: Store, /, *, wrapping: KeyWrapping, clock: Clock, names: DataKey) -> None:
        self.inner = inner_store
        self.wrapping = wrapping
        self.clock = clock
        self._names = names
        self._tags = names.derive(b"tags")

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
        """Return the keyring of `inner_store`, made now if `inner_store` is empty.

        Raises KeyMissing if `keys` do not have the key-encryption key it was made with; StoreForeign if `inner_store`
        has something but no keyring: nothing is sealed again over unreadable content.
        """
        while True:
            record = await _names_record(inner_store)
            # From the system and not from the Ids port: an identity may never repeat, and fixture ids do.
            identity = record.identity if record is not None else os.urandom(16).hex()
            key_wrapping = KeyWrapping(keys, identity=identity, ids=ids, clock=clock)
            if record is not None:
                names = await _open_names(key_wrapping, record)
                return cls(inner_store, wrapping=key_wrapping, clock=clock, names=names)
            new_record = NamesRecord(identity=identity, key=await key_wrapping.fresh(NAMES_OWNER, 1), covers=covers)
            try:
                await inner_store.commit(keyring_batch(clock, PutChange(NAMES, new_record.to_bytes(), 0)))
            except Conflict:
                continue  # another process created it first

    def tag(self, space: str, /) -> str:
        """Return the keyed tag of `space`, which also names its empty space in the inner store."""
        return strict_json.keyed_tag(self._tags, "space", space)

    async def one(self, ref: DocumentRef, /) -> Document | None:
        """Return a document of the keyring."""
        (document,) = await self.inner.get(KEYRING, [ref])
        return document

    async def slot(self, space: str, /) -> Document | None:
        """Return the stored slot of `space`."""
        return await self.one(space_slot_ref(self.tag(space)))

    async def guard(self, inner_space: SpaceId, /) -> int:
        """Return the revision of the guard of an inner space, 0 if it has none."""
        (guard_document,) = await self.inner.get(inner_space, [GUARD])
        return 0 if guard_document is None else guard_document.revision

    async def find(self, space: str, /) -> SpaceKeys | None:
        """Return the open keys of `space`, None if it has none.

        Raises KeyDestroyed; KeyMissing and SealBroken as the key provider does, SealBroken also if half of the
        keyring's entry is missing: a space whose slot was lost is not taken for a new one.
        """
        tag = self.tag(space)
        broken_item = SLOT_WHAT
        for _ in range(_LOOKS):
            document = await self.one(space_slot_ref(tag))
            if document is None:
                if not await self.inner.scan(KEYRING, RECORDS, prefix=f"{tag}.", limit=1):
                    return None
                broken_item = SLOT_WHAT
                continue
            slot = read_record(SpaceSlot, document.body, what=SLOT_WHAT)
            if tag_of(slot.inner) != tag:
                raise SealBroken(what=SLOT_WHAT)  # a slot moved here would open another space
            if slot.life is KeyLife.DESTROYED:
                raise KeyDestroyed
            record = await self.one(record_ref(slot.inner))
            if record is not None:
                return await self.unlock(record, slot=document.body)
            broken_item = RECORD_WHAT
        raise SealBroken(what=broken_item)

    async def ensure(self, space: str, /) -> SpaceKeys:
        """Return the open keys of `space`, created if it has none. Raises as `find` does."""
        while True:
            space_keys = await self.find(space)
            if space_keys is not None:
                return space_keys
            tag = self.tag(space)
            # From the system and not from the Ids port: an incarnation may never repeat, and fixture ids do.
            inner_name = f"{tag}.{os.urandom(16).hex()}"
            name = self._names.seal(space.encode("utf-8"), bound_place("name", inner_name))
            record = SealedSpaceRecord(name=name, keys=(await self.wrapping.fresh(inner_name, 1),))
            slot = SpaceSlot(inner=inner_name, life=KeyLife.LIVE)
            puts = (
                PutChange(space_slot_ref(tag), slot.to_bytes(), 0),
                PutChange(record_ref(inner_name), record.to_bytes(), 0),
            )
            try:
                await self.inner.commit(keyring_batch(self.clock, *puts))
            except Conflict:
                continue  # another process created it first

    async def unlock(self, record: Document, /, *, slot: bytes) -> SpaceKeys:
        """Return the open keys in `record`. Raises KeyMissing, SealBroken."""
        inner_space = SpaceId(record.ref.key)
        space_record = read_record(SealedSpaceRecord, record.body, what=RECORD_WHAT)
        keys = {key.number: await self.wrapping.open(inner_space, key) for key in space_record.keys}
        return SpaceKeys(inner_space, slot=slot, guard=await self.guard(inner_space), keys=keys)

    async def destroy_keys(self, space: SpaceId, /) -> SpaceId | None:
        """Mark `space` as destroyed and physically erase its wrapped keys; return its inner space, None without keys.

        The mark comes first, and `free` takes it away last, so what is cut short can be repeated.
        """
        while (document := await self.slot(space)) is not None:
            slot = document_slot(document)
            if slot is None:
                break
            if slot.life is KeyLife.LIVE:
                destroyed_slot = SpaceSlot(inner=slot.inner, life=KeyLife.DESTROYED)
                try:
                    await self.inner.commit(
                        keyring_batch(self.clock, PutChange(document.ref, destroyed_slot.to_bytes(), document.revision))
                    )
                except Conflict:
                    continue
            await self.inner.erase(ErasureTarget(space=KEYRING, at=self.clock.now(), refs=(record_ref(slot.inner),)))
            return SpaceId(slot.inner)
        await self._erase_damaged_slot(space, document)
        return None

    async def _erase_damaged_slot(self, space: SpaceId, document: Document | None) -> None:
        """Physically erase an unreadable slot, and the records that no slot names."""
        tag = self.tag(space)
        records = await self.inner.scan(KEYRING, RECORDS, prefix=f"{tag}.", limit=limits.SCAN_MAX)
        refs = [record.ref for record in records] + ([] if document is None else [document.ref])
        if refs:
            await self.inner.erase(ErasureTarget(space=KEYRING, at=self.clock.now(), refs=tuple(refs)))

    async def remains(self, space: SpaceId, /) -> AsyncIterator[SpaceId]:
        """Yield the inner spaces left of `space`: ciphertext whose keys were lost."""
        after_name = f"{self.tag(space)}."
        inner_spaces = await self.inner.spaces(after=after_name, limit=limits.SCAN_MAX)
        for inner_space in inner_spaces:
            if inner_space.startswith(after_name):
                yield inner_space

    async def free(self, space: SpaceId, inner_space: SpaceId, /) -> None:
        """Remove the mark of the destroyed `inner_space`, so that the name `space` can be reused."""
        document = await self.slot(space)
        if document is None or read_record(SpaceSlot, document.body, what=SLOT_WHAT) != SpaceSlot(
            inner=inner_space, life=KeyLife.DESTROYED
        ):
            return
        with suppress(Conflict):  # another call finished the same erasure
            await self.inner.commit(keyring_batch(self.clock, DeleteChange(document.ref, document.revision)))

    async def mark(self, space: str, /) -> SpaceId:
        """Return the position of `space` in the order of inner spaces, with or without keys."""
        slot = await self.slot(space)
        return SpaceId(self.tag(space) if slot is None else read_record(SpaceSlot, slot.body, what=SLOT_WHAT).inner)

    async def names(self, inners: Sequence[SpaceId], /) -> Sequence[SpaceId | None]:
        """Return the real names of inner spaces, None for the remains of erased ones. Raises SealBroken."""
        records = await self.inner.get(KEYRING, [record_ref(inner_space) for inner_space in inners])
        return [None if record is None else self.name(record) for record in records]

    def name(self, record: Document, /) -> SpaceId:
        """Return the real name in `record`. Raises SealBroken."""
        sealed_name = read_record(SealedSpaceRecord, record.body, what=RECORD_WHAT).name
        return SpaceId(
            self._names.open(sealed_name, bound_place("name", record.ref.key), what=RECORD_WHAT).decode("utf-8")
        )


def keyring_batch(clock: Clock, /, *changes: PutChange | DeleteChange) -> Batch:
    """Return a batch of changes to the keyring."""
    return Batch(
        space=KEYRING,
        at=clock.now(),
        entries=tuple(EntryDraft(JournalAction.LIFECYCLE, change.ref) for change in changes),
        puts=tuple(change for change in changes if isinstance(change, PutChange)),
        deletes=tuple(change for change in changes if isinstance(change, DeleteChange)),
    )


async def _names_record(inner_store: Store) -> NamesRecord | None:
    names: Sequence[SpaceId] = ()
    for _ in range(2):
        (document,) = await inner_store.get(KEYRING, [NAMES])
        if document is not None:
            return read_record(NamesRecord, document.body, what="the keyring's key for names")
        names = await inner_store.spaces(limit=2)
        if set(names) <= {SHARED}:
            return None
        # Another process may have created it between the two checks.
    if shows_seal(names):
        raise StoreForeign("the keyring of this store is lost, and with it all of its keys: restore it from a backup")
    raise StoreForeign(
        "this store contains spaces but no keyring: if it was never sealed, open it without a key;"
        " if it was, or its manifest was altered to say so, restore it from a backup"
    )


async def mark_shared(inner: Store, clock: Clock) -> None:
    """Write the plain mark of a shared store if it is missing: despite sealed spaces, it still opens without keys."""
    change = PutChange(SHARED_MARK, b"", 0)
    with suppress(Conflict):
        await inner.commit(
            Batch(
                space=SHARED,
                at=clock.now(),
                entries=(EntryDraft(JournalAction.LIFECYCLE, SHARED_MARK),),
                puts=(change,),
            )
        )


async def _open_names(key_wrapping: KeyWrapping, record: NamesRecord) -> DataKey:
    try:
        return await key_wrapping.open(NAMES_OWNER, record.key)
    except SealBroken:
        raise KeyMissing(
            f"the key-encryption key {record.key.key_id!r} that was provided is not the one this store was sealed with,"
            " or its keyring was altered: provide the right key (--key-file, ELYTRON_KEY_FILE or keys=),"
            " or restore the store from a backup"
        ) from None
