"""The sealed store: a Store over a Store that sees ciphertext, keyed tags and ids, and nothing else."""

from collections.abc import Sequence
from typing import Self

from elytron_core.clock import Clock
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import CheckReport, KeyProvider, Store, require_space
from elytron_core.profiles import StoreCapabilities
from elytron_store.sealed import inspection, rotation
from elytron_store.sealed.keyring import StoreKeyring
from elytron_store.sealed.records import KEYRING, KeyringCoverage
from elytron_store.sealed.spaces import SealedSpaces


class SealedStore(SealedSpaces):
    """A store that is sealed as a whole, under key-encryption keys that are outside of it.

    What the inner store can tell is in the package's docstring.
    """

    def __init__(self, inner: Store, keyring: StoreKeyring, /, *, clock: Clock) -> None:
        super().__init__(inner, keyring, clock=clock)
        self._keyring = keyring

    @classmethod
    async def open(
        cls,
        inner: Store,
        /,
        *,
        keys: KeyProvider,
        ids: IdSource,
        clock: Clock,
        covers: KeyringCoverage = KeyringCoverage.SPACES,
    ) -> Self:
        """Return the sealed view of `inner`, which it owns from now on and closes with itself.

        An empty `inner` gets a keyring, which says what it `covers`. Raises KeyMissing where `keys` are not those it
        was sealed with, StoreForeign where it holds anything but no keyring; `inner` is then unchanged and still the
        caller's.
        """
        return cls(inner, await StoreKeyring.open(inner, keys=keys, ids=ids, clock=clock, covers=covers), clock=clock)

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
        mark = await self._keyring.mark(after) if after else ""
        names: list[SpaceId] = []
        while True:
            page = await self._inner.spaces(after=mark, limit=limit)
            told = await self._keyring.names([inner for inner in page if inner != KEYRING])
            names += [name for name in told if name is not None]
            if len(page) < limit or len(names) >= limit:
                return names[:limit]
            mark = page[-1]

    async def check(self) -> CheckReport:
        """Have the inner store checked, then open every record of the keyring and every document.

        Documents are found by the collections that the journals name. The port cannot list blobs: the inner store
        checks their bytes, and reading proves each chunk.
        """
        return await inspection.inspect_sealed(self._keyring, await self._inner.check(), repair=False)

    async def repair(self) -> CheckReport:
        """Have the inner store repaired, then the keyring; move aside what does not open, finish cut destructions."""
        report = await inspection.inspect_sealed(self._keyring, await self._inner.repair(), repair=True)
        self._vaults.clear()
        return report

    async def probe(self) -> None:
        await self._inner.probe()

    async def close(self) -> None:
        """Forget the open keys and close the inner store."""
        self._vaults.clear()
        await self._inner.close()

    async def rotate_key_encryption(self) -> int:
        """Put every data key under the provider's current key; return how many were under another.

        One small batch for each space, no document is touched; cut short, repeat it. Afterwards an older
        key-encryption key opens nothing here, in no byte of the store, but still the copies that were made before.
        Raises KeyMissing, SealBroken.
        """
        return await rotation.rewrap_keyring(self._keyring)

    async def rotate_data_key(self, space: SpaceId, /) -> None:
        """Give `space` a new data key: later writes of all handles are sealed under it.

        Older keys stay for what they sealed; a document changes over when it is next put. The space's journal has
        one MAINTENANCE entry of it. A space that has no keys is no error. Raises KeyDestroyed, KeyMissing, SealBroken.
        """
        require_space(space)
        await rotation.renew_data_key(self._keyring, space)
        self._vaults.drop(space)

    async def destroy_key(self, space: SpaceId, /) -> None:
        """Make `space` unreadable for ever: its wrapped keys are physically erased, and after them its ciphertext.

        A mark that reveals nothing stays: every handle raises KeyDestroyed for the space, until an erasure of the whole
        space frees its name for a life under new keys. A space that has no keys is no error.
        """
        require_space(space)
        inner = await self._bury(space)
        if inner is not None:
            await self._erase_inner(inner, at=self._clock.now())
