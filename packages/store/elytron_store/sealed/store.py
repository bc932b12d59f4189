"""The sealed store: a Store over a Store that sees ciphertext, keyed tags and ids, and nothing else."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Self, TypeVar

from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict, IdempotencyConflict, KeyDestroyed, NotFound
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import (
    Batch,
    CheckReport,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    KeyProvider,
    Store,
    require_space,
    validate_batch,
)
from elytron_core.profiles import ErasureLayer, ErasureState, StoreCapabilities
from elytron_store import engine
from elytron_store.sealed import cipher, inspection, rotation
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import SpaceVault, StoreKeyring
from elytron_store.sealed.records import KEYRING, KeyringCoverage
from elytron_store.sealed.vaults import VaultCache

_Found = TypeVar("_Found")


class SealedStore:
    """Everything the inner store promises, over bytes that only holders of the key-encryption key can read.

    Open keys are cached per space. One that is out of date is noticed where it matters: a commit demands the space's
    guard, so it conflicts and is made again under the newer key; a read that finds nothing looks at the keyring before
    it says so, and the ciphertext of an erased space is gone. So a read that finds something costs one call of the
    inner store, and one that does not costs two. What the inner store can tell is in the package's docstring.

    The collections `elytron_seal` and `elytron_quarantine` of a space are this store's own.
    """

    def __init__(self, inner: Store, keyring: StoreKeyring, /, *, clock: Clock) -> None:
        self._inner = inner
        self._keyring = keyring
        self._clock = clock
        self._vaults = VaultCache(keyring)

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
    def inner(self) -> Store:
        """Return the store beneath."""
        return self._inner

    @property
    def capabilities(self) -> StoreCapabilities:
        """Capabilities of the inner store, sealed."""
        return self._inner.capabilities.model_copy(update={"sealed": True})

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Apply `batch` as the port says; raises KeyDestroyed, KeyMissing and SealBroken too.

        Once the space's key is open nothing waits before the inner commit, so commits keep the order of their calls. An
        import may come later: it is sealed in another thread.
        """
        await engine.off_loop(validate_batch, batch)
        while True:
            vault = self._vaults.ready(batch.space) or await self._vaults.open_in_turn(batch.space)
            guard = vault.guard
            arrived = False
            try:
                committed = await self._inner.commit(await engine.off_loop(vault.seal, batch))
                arrived = True
            except IdempotencyConflict:
                raise
            except Conflict:
                # The caller is at fault only if the guard is unchanged: else it is tried again.
                if await self._vaults.stands(batch.space, vault, guard=guard):
                    raise
                continue
            finally:
                if not (arrived or guard):
                    self._vaults.drop(batch.space, vault)  # it counts on a guard that did not come
            if not vault.is_proven and not await self._vaults.prove(batch.space, vault):
                # It was opened before an erasure that knew of no guard: its writes are in a dead inner space.
                await self._inner.erase(ErasureTarget(space=vault.inner, at=batch.at, whole_space=True))
                continue
            if committed.replayed and not vault.knows([committed.answer]):
                vault = await self._vaults.newer(batch.space, vault)
            return vault.open_answer(committed, batch.idempotency)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents at `refs` as the port says; raises KeyDestroyed, KeyMissing and SealBroken too."""
        vault, found = await self._look(space, lambda inner: self._inner.get(inner, refs))
        plain = iter(await self._open(space, vault, [document for document in found if document is not None]))
        return [None if document is None else next(plain) for document in found]

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        """Return a page of `collection` as the port says; raises KeyDestroyed, KeyMissing and SealBroken too."""

        def look(inner: SpaceId) -> Awaitable[Sequence[Document]]:
            return self._inner.scan(inner, collection, prefix=prefix, after=after, limit=limit, descending=descending)

        vault, found = await self._look(space, look)
        return await self._open(space, vault, found)

    async def count(self, space: SpaceId, collection: str, /) -> int:
        """Return the number of documents as the port says; nothing is opened for it. Raises KeyDestroyed too."""
        engine.require_scan(space, collection, limit=1)
        while True:
            vault = await self._vaults.find(space)
            number = 0 if vault is None else await self._inner.count(vault.inner, collection)
            if vault is None or number or await self._vaults.lives(space, vault):
                return number

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        """Return a page of the journal as the port says; raises KeyDestroyed too."""
        _, found = await self._look(space, lambda inner: self._inner.journal(inner, after=after, limit=limit))
        return found

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        """Compact the journal as the port says; raises KeyDestroyed too."""
        engine.require_runs(space, runs)
        vault = await self._vaults.find(space)
        return await self._inner.compact(SpaceId(self._keyring.tag(space)) if vault is None else vault.inner, runs)

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

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Replace the blob `key` as the port says; raises KeyDestroyed where the space was erased meanwhile."""
        engine.require_blob(space, key)
        vault = await self._vaults.fresh(space)
        sealing = cipher.SealingStream(vault.newest, vault.blob_place(key), chunks)
        async with cipher.closed_stream(sealing.chunks()) as sealed:
            await self._inner.write_blob(vault.inner, key, sealed)
        if not await self._vaults.lives(space, vault):
            await self._sweep(vault.inner)
            raise KeyDestroyed
        return sealing.size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        """Yield the blob's bytes, each chunk once it is proven. Raises NotFound, KeyDestroyed, SealBroken."""
        engine.require_blob(space, key)
        while True:
            vault = await self._vaults.find(space)
            try:
                async with cipher.closed_stream(self._chunks(space, vault, key)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except NotFound:
                if vault is None or await self._vaults.lives(space, vault):
                    raise
                continue
            return

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Erase as the port says. A whole space loses its keys first, then its ciphertext, and frees its name last."""
        engine.require_erasure(erasure)
        if erasure.whole_space:
            inner = await self._bury(erasure.space)
            erased = ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
            if inner is not None:
                erased = await self._erase_inner(inner, at=erasure.at)
            async for remains in self._keyring.remains(erasure.space):
                await self._erase_inner(remains, at=erasure.at)
            if inner is None:
                return erased
            await self._keyring.free(erasure.space, inner)
        else:
            erased = await self._erase_named(erasure)
        return replace(erased, layers=tuple(_sealed_layer(layer) for layer in erased.layers))

    async def _erase_named(self, erasure: ErasureTarget) -> ErasureReceipt:
        while True:
            vault = await self._vaults.fresh(erasure.space)
            named = ErasureTarget(space=vault.inner, at=erasure.at, refs=erasure.refs, blobs=erasure.blobs)
            erased = await self._inner.erase(named)
            if await self._vaults.lives(erasure.space, vault):
                return erased
            await self._sweep(vault.inner)

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

    async def _look(
        self, space: SpaceId, look: Callable[[SpaceId], Awaitable[Sequence[_Found]]]
    ) -> tuple[SpaceVault | None, Sequence[_Found]]:
        require_space(space)
        while True:
            vault = await self._vaults.find(space)
            found = await look(SpaceId(self._keyring.tag(space)) if vault is None else vault.inner)
            if vault is None or any(item is not None for item in found) or await self._vaults.lives(space, vault):
                return vault, found

    async def _open(self, space: SpaceId, vault: SpaceVault | None, found: Sequence[Document]) -> Sequence[Document]:
        if vault is None:
            return []
        if not vault.knows(document.body for document in found):
            vault = await self._vaults.newer(space, vault)
        return [vault.open(document) for document in found]

    def _chunks(self, space: SpaceId, vault: SpaceVault | None, key: str) -> AsyncIterator[bytes]:
        if vault is None:
            return self._inner.read_blob(SpaceId(self._keyring.tag(space)), key)

        async def find_key(number: int) -> DataKey | None:
            return vault.key(number) or (await self._vaults.newer(space, vault)).key(number)

        stream = self._inner.read_blob(vault.inner, key)
        return cipher.unseal_stream(stream, find_key=find_key, where=vault.blob_place(key), what=f"blob {key}")

    async def _bury(self, space: SpaceId) -> SpaceId | None:
        self._vaults.drop(space)
        inner = await self._keyring.bury(space)
        self._vaults.drop(space)  # a running call may have opened it again before the mark was stored
        return inner

    async def _erase_inner(self, inner: SpaceId, *, at: Instant) -> ErasureReceipt:
        ours = int(await self._keyring.guard(inner) > 0)
        erased = await self._inner.erase(ErasureTarget(space=inner, at=at, whole_space=True))
        return ErasureReceipt(
            documents=max(erased.documents - ours, 0),
            blobs=erased.blobs,
            entries_scrubbed=erased.entries_scrubbed,
            sequence=erased.sequence,
            layers=erased.layers,
        )

    async def _sweep(self, inner: SpaceId) -> None:
        # Left-overs of a call that did not know of the erasure; the guard would say that more is there.
        if not await self._keyring.guard(inner):
            await self._inner.erase(ErasureTarget(space=inner, at=self._clock.now(), whole_space=True))


def _sealed_layer(layer: ErasureLayer) -> ErasureLayer:
    """Return `layer` of an inner store with what sealing changes: bytes that are not gone are ciphertext."""
    if layer.state is ErasureState.GONE:
        return layer
    reason = f"{layer.reason}; it is sealed, and opens only with a key-encryption key of its time"
    return layer.model_copy(update={"reason": reason})
