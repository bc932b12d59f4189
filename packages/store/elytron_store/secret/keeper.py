"""A user's secret over its space: create, unlock, lock, change. No call returns, logs or stores the secret itself."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from elytron_core.clock import Instant
from elytron_core.errors import (
    Conflict,
    NotFound,
    SealBroken,
    SealError,
    SecretRefused,
)
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import (
    ErasureTarget,
    PutChange,
    Store,
    scan_documents,
    scan_entries,
)
from elytron_core.text.recovery_words import entropy_of
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import KeyWrapping
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.spaces import SealedSpaces
from elytron_store.secret.attempts import AttemptCounting
from elytron_store.secret.derivation.user_key import (
    derive_key,
    require_passphrase,
    terms_of_passphrase,
    terms_of_words,
)
from elytron_store.secret.holds import HoldRenewal, erase_hold, fresh_until
from elytron_store.secret.inspection import erase_redrawn
from elytron_store.secret.records import (
    RECORD,
    SECRET_SLOT,
    USER_KEY,
    DerivationTerms,
    SecretKind,
    SecretRenewal,
    SecretSlot,
    SecretSlotState,
    fresh_inner,
    secret_batch,
)
from elytron_store.secret.sessions import SecretSession, incomplete_space
from elytron_store.secret.space_keys import FixedKeyring
from elytron_store.secret.store import SecretStore

SpaceCopier = Callable[[Store, Store, SpaceId], Awaitable[object]]
"""Copies a plain space of a store, completely and verified, into the sealed spaces."""
_TRIES: Final = 32


@dataclass(frozen=True, slots=True)
class UserSecret:
    """A user's words or passphrase as given. Shows neither."""

    kind: SecretKind
    text: str = field(repr=False)

    def require_form(self, *, is_new: bool) -> None:
        """Raise WordsInvalid or InvalidInput for what cannot be a secret; neither repeats it."""
        if self.kind is SecretKind.WORDS:
            entropy_of(self.text)
        elif is_new:
            require_passphrase(self.text)

    def fresh_terms(self) -> DerivationTerms:
        """Return new terms for deriving a key from it."""
        return terms_of_words() if self.kind is SecretKind.WORDS else terms_of_passphrase()


@dataclass(frozen=True, slots=True)
class UserKey:
    """The key derived from a user's secret, and the terms of the derivation: one for all spaces of the user."""

    terms: DerivationTerms
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PlainContents:
    """Names under which a plain space may have contents, because its journal need not name all."""

    collections: tuple[str, ...]
    blobs: tuple[str, ...]
    with_blobs: frozenset[str]
    """Collections whose documents have a blob of the same key."""
    redrawn: tuple[str, ...] = ()
    """Collections with a key of their own, which are recreated when one is missing."""


class SecretKeeper:
    """The secrets of the spaces of a store."""

    def __init__(self, store: SecretStore, /, *, ids: IdSource, contents: PlainContents) -> None:
        self.store = store
        self._inner = store.inner
        self._ids = ids
        self._clock = store.clock
        self._contents = contents
        self._attempts = AttemptCounting(self._inner, self._clock)
        # A derivation takes much memory: one at a time.
        self._deriving = asyncio.Lock()

    async def slot(self, space: SpaceId, /) -> SecretSlot | None:
        """Return the slot of `space`, None if it is under no secret."""
        entry = await self.store.settle_slot(space)
        return None if entry is None or entry[0].state is SecretSlotState.DESTROYED else entry[0]

    async def fresh_key(self, secret: UserSecret, /) -> UserKey:
        """Return a new key derived from `secret`. Raises WordsInvalid, InvalidInput."""
        secret.require_form(is_new=True)
        return await self.key_of(secret, secret.fresh_terms())

    async def proven_key(self, space: SpaceId, secret: UserSecret, /) -> UserKey:
        """Return the key derived from `secret`, which opens `space`.

        Raises NotFound if it is under no secret, SecretRefused, WordsInvalid, RateLimited after several wrong ones.
        """
        secret.require_form(is_new=False)
        slot = await self.require_slot(space)
        await self._attempts.count(space, slot)
        assert slot.terms is not None
        if slot.kind is not secret.kind:
            raise SecretRefused
        key = await self.key_of(secret, slot.terms)
        await self._data_keys(space, slot, key)
        await self._attempts.forgive(space, slot)
        return key

    async def key_of(self, secret: UserSecret, terms: DerivationTerms, /) -> UserKey:
        """Return the key that `secret` gives under `terms`, whether or not it opens anything."""
        # One at a time: each takes much memory.
        async with self._deriving:
            return UserKey(terms, await asyncio.to_thread(derive_key, secret.text, terms))

    async def seal(self, space: SpaceId, key: UserKey, /, *, until: Instant, copy: SpaceCopier) -> SecretSession:
        """Put `space` with all its contents under `key`, and return its open session.

        Its plain bytes are gone when this returns. If interrupted, the space is either still plain or sealed; repeating
        it continues. Raises Conflict if it is under a secret, SpaceInUse.
        """
        while (entry := await self.store.slots.read(space)) is not None:
            slot, revision = entry
            if slot.state is not SecretSlotState.MAKING:
                raise Conflict(what=f"the secret of space {space!r}", expected=0, found=revision)
            await self.store.abandon(space, slot, revision)
        inner_space = fresh_inner()
        key_wrapping = self._wrapping(space, key)
        wrapped_key = await key_wrapping.fresh(inner_space, 1)
        slot = SecretSlot(
            state=SecretSlotState.MAKING,
            inner=inner_space,
            terms=key.terms,
            keys=(wrapped_key,),
            made_at=self._clock.now(),
            until=fresh_until(self._clock),
            is_swept=False,
        )
        await self._inner.commit(secret_batch(space, self._clock, PutChange(SECRET_SLOT, slot.to_bytes(), 0)))
        keys = {1: await key_wrapping.open(inner_space, wrapped_key)}
        try:
            async with HoldRenewal(self._inner, inner_space, clock=self._clock).renewed():
                await self._fill(self._inner, space, inner_space, keys, copy)
            slot = slot.model_copy(update={"state": SecretSlotState.SEALED, "until": Instant(0)})
            await self._inner.commit(secret_batch(space, self._clock, PutChange(SECRET_SLOT, slot.to_bytes(), 1)))
        except BaseException:
            await asyncio.shield(self._undo(space, inner_space))
            raise
        self.store.forget(space)
        await self.sweep(space)
        session = SecretSession(inner_space, slot.generation, self._clock.now(), until, keys, key.key)
        self.store.sessions.begin(space, session)
        return session

    async def unlock(self, space: SpaceId, key: UserKey, /, *, until: Instant) -> SecretSession:
        """Open `space` for the caller of this task in this process until a given time. Raises NotFound,
        SecretRefused."""
        session = await self.begin(space, await self.require_slot(space), key, until=until)
        await self.sweep(space)
        return session

    async def begin(self, space: SpaceId, slot: SecretSlot, key: UserKey, /, *, until: Instant) -> SecretSession:
        """Open the space of `slot` for the caller of this task in this process. Raises SecretRefused."""
        keys = await self._data_keys(space, slot, key)
        session = SecretSession(SpaceId(slot.inner), slot.generation, self._clock.now(), until, keys, key.key)
        self.store.sessions.begin(space, session)
        return session

    async def lock(self, space: SpaceId, /) -> None:
        """Close `space` in every process, and end its grant. Raises NotFound if it is under no secret."""
        self.store.forget(space)
        entry = await self.store.settle_slot(space)
        if entry is not None and entry[0].state is SecretSlotState.RENEWING:
            await self.store.abandon(space, *entry)
        await self._update_slot(space, lambda slot: slot.model_copy(update={"generation": slot.generation + 1}))
        await self.store.erase_openings(space)
        self.store.forget(space)
        await self.sweep(space)

    async def change(self, space: SpaceId, key: UserKey, new_key: UserKey, /) -> None:
        """Put the data keys of `space` under another key; nothing else is re-sealed.

        Earlier sessions and grants end; only the caller's session in this process continues. The data keys under the
        former key are physically gone when this returns. Raises as `unlock`.
        """
        await self._data_keys(space, await self.require_slot(space), key)
        key_wrapping, old_wrapping = self._wrapping(space, new_key), self._wrapping(space, key)
        entry = await self.store.slots.read(space)
        if entry is None:
            raise NotFound(what="sealed space", name=space, way_out="seal it first")
        slot, revision = entry
        renewed_keys = tuple([await key_wrapping.take_over(slot.inner, key, old_wrapping) for key in slot.keys])
        moved_slot = slot.model_copy(
            update={"terms": new_key.terms, "keys": renewed_keys, "generation": slot.generation + 1, "is_swept": False}
        )
        await self._inner.commit(
            secret_batch(space, self._clock, PutChange(SECRET_SLOT, moved_slot.to_bytes(), revision))
        )
        session = self.store.sessions.of(space)
        self.store.sessions.end(space)
        if session is not None:
            self.store.sessions.begin(space, replace(session, generation=moved_slot.generation, user_key=new_key.key))
        await self.store.erase_openings(space)
        await self.sweep(space)

    async def rotate(self, space: SpaceId, key: UserKey, /, *, copy: SpaceCopier) -> None:
        """Re-seal all of `space` under a new data key; erase the older ones, what they sealed, and the grant.

        Calls are rejected meanwhile. If interrupted, the space is as before, or renewed. Raises as `unlock`,
        SpaceInUse.
        """
        await self.require_slot(space)
        await self.sweep(space)
        slot = await self.require_slot(space)
        keys = await self._data_keys(space, slot, key)
        inner_space, key_wrapping = fresh_inner(), self._wrapping(space, key)
        secret_renewal = SecretRenewal(inner=inner_space, keys=(await key_wrapping.fresh(inner_space, 1),))
        changes = {"state": SecretSlotState.RENEWING, "renewal": secret_renewal, "until": fresh_until(self._clock)}
        revision = await self._revision_of(space, slot)
        slot = slot.model_copy(update=changes)
        await self._inner.commit(secret_batch(space, self._clock, PutChange(SECRET_SLOT, slot.to_bytes(), revision)))
        new_keys = {1: await key_wrapping.open(inner_space, secret_renewal.keys[0])}
        source = FixedKeyring(self._inner, SpaceId(slot.inner), keys)
        try:
            async with HoldRenewal(self._inner, inner_space, clock=self._clock).renewed():
                await source.raise_guard(self._clock)
                await self._fill(
                    SealedSpaces(self._inner, source, clock=self._clock), space, inner_space, new_keys, copy
                )
            slot = slot.renewed()
            await self._inner.commit(
                secret_batch(space, self._clock, PutChange(SECRET_SLOT, slot.to_bytes(), revision + 1))
            )
        except BaseException:
            await asyncio.shield(self._undo(space, inner_space))
            raise
        session = self.store.sessions.of(space)
        self.store.forget(space)
        if session is not None:
            renewed_session = replace(session, inner=inner_space, generation=slot.generation, keys=new_keys)
            self.store.sessions.begin(space, renewed_session)
        await self.store.erase_openings(space)
        await self.sweep(space)

    async def sweep(self, space: SpaceId, /) -> None:
        """Erase the plain bytes that a sealing or a change left in `space`, if it was interrupted."""
        slot_entry = await self.store.slots.read(space)
        if slot_entry is None or slot_entry[0].state is not SecretSlotState.SEALED or slot_entry[0].is_swept:
            return
        refs = [RECORD]
        collections = dict.fromkeys(self._contents.collections)
        async for entry in scan_entries(self._inner, space):
            collections[entry.ref.collection] = None
        for collection in collections:
            if collection != SECRET_SLOT.collection:
                refs += [document.ref async for document in scan_documents(self._inner, space, collection)]
        blobs = [ref.key for ref in refs if ref.collection in self._contents.with_blobs]
        erasure_receipt = ErasureTarget(
            space=space, at=self._clock.now(), refs=tuple(refs), blobs=(*self._contents.blobs, *blobs)
        )
        await self._inner.erase(erasure_receipt)
        await erase_hold(self._inner, SpaceId(slot_entry[0].inner), at=self._clock.now())
        if former_inner := slot_entry[0].former:
            await self.store.erase_inner(SpaceId(former_inner))
        with suppress(NotFound):
            await self._update_slot(space, lambda slot: slot.model_copy(update={"is_swept": True, "former": ""}))

    async def look(self) -> list[SpaceId]:
        """Close the spaces that have expired or that another process locked, and return them."""
        spaces: list[SpaceId] = []
        for space in self.store.sessions:
            with suppress(SealError):
                entry = await self.store.slots.read(space)
                # A space that is being re-sealed keeps its sessions.
                if entry is not None and (entry[0].filled or not self.store.sessions.end_stale(space, entry[0])):
                    continue
            self.store.forget(space)
            spaces.append(space)
        return spaces

    async def _fill(
        self, source: Store, space: SpaceId, inner_space: SpaceId, keys: dict[int, DataKey], copy_space: SpaceCopier
    ) -> None:
        (record,) = await source.get(space, (RECORD,))
        if record is None:
            return  # it never had contents
        keyring = FixedKeyring(self._inner, inner_space, keys)
        await copy_space(source, SealedSpaces(self._inner, keyring, clock=self._clock), space)
        # Their own key may have been seen, in the plain space or under the former data key.
        await erase_redrawn(self._inner, inner_space, self._contents.redrawn, at=self._clock.now())

    async def _undo(self, space: SpaceId, inner_space: SpaceId) -> None:
        entry = await self.store.slots.read(space)
        if entry is not None and entry[0].filled == inner_space:
            await self.store.abandon(space, entry[0], entry[1])
        elif entry is None or entry[0].inner != inner_space:
            await self.store.erase_inner(inner_space)

    async def _data_keys(self, space: SpaceId, slot: SecretSlot, key: UserKey) -> dict[int, DataKey]:
        """Return the data keys of `space`, which `key` opens. Raises SecretRefused."""
        key_wrapping = self._wrapping(space, key)
        try:
            return {each.number: await key_wrapping.open(slot.inner, each) for each in slot.keys}
        except SealBroken:
            raise SecretRefused from None

    async def require_slot(self, space: SpaceId, /) -> SecretSlot:
        """Return the slot of `space`. Raises NotFound, SpaceIncomplete while it is sealed for the first time."""
        slot = await self.slot(space)
        if slot is None:
            raise NotFound(what="sealed space", name=space, way_out="seal it first")
        if slot.filled:
            raise incomplete_space(space)
        return slot

    async def _revision_of(self, space: SpaceId, slot: SecretSlot) -> int:
        entry = await self.store.slots.read(space)
        if entry is None or entry[0] != slot:
            raise Conflict(what=f"the secret of space {space!r}", expected=0, found=1)
        return entry[1]

    async def _update_slot(self, space: SpaceId, change: Callable[[SecretSlot], SecretSlot]) -> SecretSlot:
        for _ in range(_TRIES):
            await self.require_slot(space)
            entry = await self.store.slots.read(space)
            if entry is None:
                continue
            changed_slot = change(entry[0])
            slot_change = PutChange(SECRET_SLOT, changed_slot.to_bytes(), entry[1])
            with suppress(Conflict):
                await self._inner.commit(secret_batch(space, self._clock, slot_change, takes_back=True))
                return changed_slot
        raise Conflict(what=f"the secret of space {space!r}", expected=0, found=1)

    def _wrapping(self, space: SpaceId, key: UserKey) -> KeyWrapping:
        keys = LocalKeys({USER_KEY: key.key}, current=USER_KEY)
        return KeyWrapping(keys, identity=f"secret of {space}", ids=self._ids, clock=self._clock)
