"""Grants: they let background work open a space in its user's absence, for a limited time and until the next lock."""

import os
from typing import Final

from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, KeyMissing, SealBroken, SpaceLocked
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import Document, ErasureTarget, KeyProvider, PutChange
from elytron_store.sealed.cipher import KEY_BYTES, DataKey, bound_place
from elytron_store.sealed.keyring import KeyWrapping
from elytron_store.sealed.providers import LocalKeys
from elytron_store.secret.records import GRANT, GrantedKey, GrantRecord, SecretSlot, SecretSlotState, secret_batch
from elytron_store.secret.sessions import SecretSession
from elytron_store.secret.store import SecretStore

_WHAT: Final = "a grant"
_TRIES: Final = 16


class GrantService:
    """Creates, opens and ends grants, at most one per space.

    They are sealed under the key-encryption key of the store, so that every process of the server can use them. Without
    one, a key of this process is used: its grants are useless to other processes, and after it ends.
    """

    def __init__(self, store: SecretStore, /, *, ids: IdSource, keys: KeyProvider | None) -> None:
        self._store = store
        self._inner = store.inner
        self._clock = store.clock
        self._ids = ids
        process_name = f"process-{os.urandom(6).hex()}"
        self._keys: KeyProvider = keys or LocalKeys({process_name: os.urandom(KEY_BYTES)}, current=process_name)

    async def make(self, space: SpaceId, /, *, until: Instant) -> GrantRecord:
        """Let background work open `space` until a given time. Raises SpaceLocked unless its user has it open."""
        for _ in range(_TRIES):
            entry = await self._store.slots.read(space)
            if entry is None:
                raise SpaceLocked(space=space)
            session = self._store.slots.require(space, entry[0])
            record = await self._sealed(space, entry[0], session, until)
            (previous_grant,) = await self._inner.get(space, (GRANT,))
            change = PutChange(GRANT, record.to_bytes(), previous_grant.revision if previous_grant is not None else 0)
            try:
                await self._inner.commit(secret_batch(space, self._clock, change, requires=()))
            except Conflict:
                continue
            if await self.session(space) is None:  # it was locked meanwhile
                await self.end(space)
                raise SpaceLocked(space=space)
            return record
        raise Conflict(what="a grant", expected=0, found=1)

    async def session(self, space: SpaceId, /) -> SecretSession | None:
        """Return the session that the grant of `space` opens; None if it is missing, expired, altered or another's."""
        entry = await self._store.slots.read(space)
        record = await self.record(space)
        if entry is None or entry[0].state is not SecretSlotState.SEALED or record is None:
            return None
        secret_slot = entry[0]
        key_wrapping, grant_owner = self._wrapping(space), _grant_owner(secret_slot, record.id, record.until)
        try:
            key = await key_wrapping.open(grant_owner, record.key)
            keys = {each.number: _open_key(key, space, each) for each in record.keys}
        except (KeyMissing, SealBroken):
            return None
        inner_space = SpaceId(secret_slot.inner)
        return SecretSession(inner_space, secret_slot.generation, record.made_at, record.until, keys) if keys else None

    async def record(self, space: SpaceId, /) -> GrantRecord | None:
        """Return the grant of `space` as stored; an expired one is erased."""
        (document,) = await self._inner.get(space, (GRANT,))
        record = _read_grant(document)
        if document is not None and (record is None or self._clock.now() >= record.until):
            await self.end(space)
            return None
        return record

    async def end(self, space: SpaceId, /) -> None:
        """Erase the grant of `space`, if it has one."""
        await self._inner.erase(ErasureTarget(space=space, at=self._clock.now(), refs=(GRANT,)))

    async def _sealed(
        self, space: SpaceId, slot: SecretSlot, session: SecretSession, expires_at: Instant
    ) -> GrantRecord:
        id_ = os.urandom(16).hex()
        key_wrapping, grant_owner = self._wrapping(space), _grant_owner(slot, id_, expires_at)
        wrapped_key = await key_wrapping.fresh(grant_owner, 1)
        key = await key_wrapping.open(grant_owner, wrapped_key)
        keys = tuple(
            GrantedKey(number=number, sealed=each.sealed_under(key, _key_place(space, number)))
            for number, each in sorted(session.keys.items())
        )
        return GrantRecord(id=id_, made_at=self._clock.now(), until=expires_at, key=wrapped_key, keys=keys)

    def _wrapping(self, space: SpaceId) -> KeyWrapping:
        return KeyWrapping(self._keys, identity=f"grant of {space}", ids=self._ids, clock=self._clock)


def _grant_owner(slot: SecretSlot, id_: str, expires_at: Instant) -> str:
    """Return what binds a grant to the inner space, to the period since its last lock, and to its own end."""
    return f"{slot.inner}|{slot.generation}|{id_}|{expires_at}"


def _key_place(space: SpaceId, key_number: int) -> bytes:
    return bound_place("granted key", space, str(key_number))


def _open_key(key: DataKey, space: SpaceId, granted_key: GrantedKey) -> DataKey:
    return key.open_key(granted_key.number, granted_key.sealed, _key_place(space, granted_key.number), what=_WHAT)


def _read_grant(document: Document | None) -> GrantRecord | None:
    try:
        return None if document is None else GrantRecord.from_bytes(document.body)
    except InvalidInput:
        return None
