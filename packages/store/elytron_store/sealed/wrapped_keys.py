"""Data keys on their way to the store and back: wrapped, and bound to the store, their owner and number."""

from elytron_core.clock import Clock
from elytron_core.ids import Ids
from elytron_core.ports.keys import KeyProvider
from elytron_store.sealed.cipher import KEY_BYTES, DataKey, place
from elytron_store.sealed.records import WrappedKey


class Wrapping:
    """Makes, opens and re-wraps data keys. Secrets come from the `Ids` port, as all secrets do."""

    def __init__(self, keys: KeyProvider, /, *, identity: str, ids: Ids, clock: Clock) -> None:
        self._keys = keys
        self.identity = identity
        self._ids = ids
        self._clock = clock

    async def fresh(self, owner: str, number: int, /) -> WrappedKey:
        """Return a new data key, wrapped under the current key-encryption key. Raises KeyMissing."""
        return await self._wrap(self._ids.secret(KEY_BYTES), owner=owner, number=number)

    async def open(self, owner: str, key: WrappedKey, /) -> DataKey:
        """Return the data key in `key`. Raises KeyMissing for an unknown key-encryption key, SealBroken."""
        return DataKey(key.number, await self._unwrap(owner, key))

    async def renew(self, owner: str, key: WrappedKey, /) -> WrappedKey:
        """Return `key` under the current key-encryption key; the same value if it is already."""
        if key.key_id == self._keys.current():
            return key
        renewed = await self._wrap(await self._unwrap(owner, key), owner=owner, number=key.number)
        return renewed.model_copy(update={"created_at": key.created_at})

    async def _wrap(self, secret: bytes, *, owner: str, number: int) -> WrappedKey:
        key_id = self._keys.current()
        wrapped = await self._keys.wrap(secret, key_id=key_id, context=self._context(owner, number))
        return WrappedKey(number=number, key_id=key_id, wrapped=wrapped, created_at=self._clock.now())

    async def _unwrap(self, owner: str, key: WrappedKey) -> bytes:
        return await self._keys.unwrap(key.wrapped, key_id=key.key_id, context=self._context(owner, key.number))

    def _context(self, owner: str, number: int) -> bytes:
        return place("data key", self.identity, owner, str(number))
