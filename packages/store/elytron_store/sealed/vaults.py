"""The vaults a handle has open, and how it notices that one is out of date."""

from collections.abc import AsyncIterator
from typing import Protocol

import anyio

from elytron_core.errors import KeyDestroyed
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.ports.store import Document
from elytron_store import limits as store_limits
from elytron_store.sealed.keyring import SpaceVault


class SpaceKeyring(Protocol):
    """The keys of sealed spaces: those of a whole store, or those that users hold."""

    def tag(self, space: str, /) -> str:
        """Return the name of an inner space that is empty, in place of one that `space` does not have."""
        ...

    async def seat(self, space: str, /) -> Document | None:
        """Return the document that names the inner space of `space`."""
        ...

    async def guard(self, inner: SpaceId, /) -> int:
        """Return the revision of the guard of an inner space, 0 if it has none."""
        ...

    async def find(self, space: str, /) -> SpaceVault | None:
        """Return the open keys of `space`, None if it has none."""
        ...

    async def ensure(self, space: str, /) -> SpaceVault:
        """Return the open keys of `space`, made now if it has none."""
        ...

    async def bury(self, space: SpaceId, /) -> SpaceId | None:
        """Erase the wrapped keys of `space` and return its inner space, None without keys."""
        ...

    def remains(self, space: SpaceId, /) -> AsyncIterator[SpaceId]:
        """Yield the inner spaces that are left of `space`, whose keys are lost."""
        ...

    async def free(self, space: SpaceId, inner: SpaceId, /) -> None:
        """Let the name `space` live again, whose inner space is gone."""
        ...


class VaultCache:
    """Open vaults by space, the `store_limits.SEALED_SPACES_OPEN` last used. Shows no key material."""

    def __init__(self, keyring: SpaceKeyring, /) -> None:
        self._keyring = keyring
        self._open: LruCache[SpaceId, SpaceVault] = LruCache(store_limits.SEALED_SPACES_OPEN)
        self._turns: dict[SpaceId, anyio.Lock] = {}

    def ready(self, space: SpaceId, /) -> SpaceVault | None:
        """Return the open vault of `space` at once, None where callers must queue in `open_in_turn`."""
        return None if space in self._turns else self._cached(space)

    async def open_in_turn(self, space: SpaceId, /) -> SpaceVault:
        """Return the vault of `space`, its keys made if it has none; callers get it in the order they came.

        Raises KeyDestroyed, KeyMissing, SealBroken.
        """
        turn = self._turns.setdefault(space, anyio.Lock())
        try:
            async with turn:
                return self._cached(space) or self._keep(space, await self._keyring.ensure(space))
        finally:
            if not turn.locked() and self._turns.get(space) is turn:
                del self._turns[space]

    async def find(self, space: SpaceId, /) -> SpaceVault | None:
        """Return the vault of `space`, None if it has no keys. Raises KeyDestroyed, KeyMissing, SealBroken."""
        vault = self._cached(space)
        if vault is not None:
            return vault
        found = await self._keyring.find(space)
        # A vault that another call opened meanwhile stays: it may know of a later guard.
        return self._cached(space) or (None if found is None else self._keep(space, found))

    async def fresh(self, space: SpaceId, /) -> SpaceVault:
        """Return the vault of `space` as the keyring has it now, its keys made if it has none."""
        vault = self._cached(space)
        if vault is not None and await self.lives(space, vault):
            return vault
        return await self.open_in_turn(space)

    async def newer(self, space: SpaceId, vault: SpaceVault, /) -> SpaceVault:
        """Return the vault of `space` opened again, for a key that `vault` lacks. Raises KeyDestroyed."""
        self.drop(space, vault)
        found = await self._keyring.find(space)
        if found is None or found.inner != vault.inner:
            raise KeyDestroyed
        return self._keep(space, found)

    async def lives(self, space: SpaceId, vault: SpaceVault, /) -> bool:
        """Return whether the incarnation of `space` that `vault` opens is current; else forget the vault."""
        seat = await self._keyring.seat(space)
        if seat is not None and seat.body == vault.seat:
            return True
        self.drop(space, vault)
        return False

    async def prove(self, space: SpaceId, vault: SpaceVault, /) -> bool:
        """Return whether the incarnation of `space` is current after the first batch of `vault`; else forget it."""
        vault.is_proven = await self.lives(space, vault)
        return vault.is_proven

    async def stands(self, space: SpaceId, vault: SpaceVault, /, *, guard: int) -> bool:
        """Return whether that incarnation is current and its guard is at revision `guard`; else forget the vault."""
        if not await self.lives(space, vault):
            return False
        if await self._keyring.guard(vault.inner) == guard:
            return True
        self.drop(space, vault)
        return False

    def drop(self, space: SpaceId, vault: SpaceVault | None = None, /) -> None:
        """Forget the vault of `space`, if one is given only that one."""
        if vault is None or self._open.get(space) is vault:
            self._open.pop(space, None)

    def clear(self) -> None:
        """Forget all vaults."""
        self._open.clear()

    def _cached(self, space: SpaceId) -> SpaceVault | None:
        return self._open.use(space)

    def _keep(self, space: SpaceId, vault: SpaceVault) -> SpaceVault:
        self._open[space] = vault
        return vault
