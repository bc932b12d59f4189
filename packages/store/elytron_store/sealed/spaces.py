"""Calls of sealed spaces under open keys: the port's calls of one space, over ciphertext."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict, IdempotencyConflict, KeyDestroyed, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    Store,
    require_space,
    validate_batch,
)
from elytron_core.profiles import ErasureLayer, ErasureState
from elytron_store import engine
from elytron_store.sealed import cipher
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import SpaceVault
from elytron_store.sealed.vaults import SpaceKeyring, VaultCache
from elytron_store.wrappers.wrapper import PassingStore

_Found = TypeVar("_Found")


class SealedSpaces(PassingStore):
    """Everything the inner store promises of a space, over bytes that only holders of its key can read.

    Open keys are cached per space. One that is out of date is noticed where it matters: a commit demands the space's
    guard, so it conflicts and is made again under the newer key; a read that finds nothing looks at the keyring before
    it says so, and the ciphertext of an erased space is gone. So a read that finds something costs one call of the
    inner store, and one that does not costs two.

    The collections `elytron_seal` and `elytron_quarantine` of a space are the sealing's own.
    """

    def __init__(self, inner: Store, keyring: SpaceKeyring, /, *, clock: Clock) -> None:
        super().__init__(inner)
        self._keys = keyring
        self._clock = clock
        self._vaults = VaultCache(keyring)

    def forget(self, space: SpaceId, /) -> None:
        """Let go of the open keys of `space`."""
        self._vaults.drop(space)

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
        return await self._inner.compact(SpaceId(self._keys.tag(space)) if vault is None else vault.inner, runs)

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
            async for remains in self._keys.remains(erasure.space):
                await self._erase_inner(remains, at=erasure.at)
            if inner is None:
                return erased
            await self._keys.free(erasure.space, inner)
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

    async def _look(
        self, space: SpaceId, look: Callable[[SpaceId], Awaitable[Sequence[_Found]]]
    ) -> tuple[SpaceVault | None, Sequence[_Found]]:
        require_space(space)
        while True:
            vault = await self._vaults.find(space)
            found = await look(SpaceId(self._keys.tag(space)) if vault is None else vault.inner)
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
            return self._inner.read_blob(SpaceId(self._keys.tag(space)), key)

        async def find_key(number: int) -> DataKey | None:
            return vault.key(number) or (await self._vaults.newer(space, vault)).key(number)

        stream = self._inner.read_blob(vault.inner, key)
        return cipher.unseal_stream(stream, find_key=find_key, where=vault.blob_place(key), what=f"blob {key}")

    async def _bury(self, space: SpaceId) -> SpaceId | None:
        self._vaults.drop(space)
        inner = await self._keys.bury(space)
        self._vaults.drop(space)  # a running call may have opened it again before the mark was stored
        return inner

    async def _erase_inner(self, inner: SpaceId, *, at: Instant) -> ErasureReceipt:
        ours = int(await self._keys.guard(inner) > 0)
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
        if not await self._keys.guard(inner):
            await self._inner.erase(ErasureTarget(space=inner, at=self._clock.now(), whole_space=True))


def _sealed_layer(layer: ErasureLayer) -> ErasureLayer:
    """Return `layer` of an inner store with what sealing changes: bytes that are not gone are ciphertext."""
    if layer.state is ErasureState.GONE:
        return layer
    reason = f"{layer.reason}; it is sealed, and opens only with a key-encryption key of its time"
    return layer.model_copy(update={"reason": reason})
