"""Calls of sealed spaces under open keys: the cache of open keys, and the port's calls over ciphertext."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import anyio

from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict, IdempotencyConflict, KeyDestroyed, NotFound
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
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
    closed_stream,
    require_space,
    validate_batch,
)
from elytron_core.profiles import ErasureLayer, ErasureState
from elytron_store import engine
from elytron_store.engine import PassingStore
from elytron_store.sealed import cipher
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import SpaceKeys

SEALED_SPACES_OPEN: Final = 4_096
"""Spaces whose keys a handle holds in memory."""


class SpaceKeyring(Protocol):
    """The keys of sealed spaces: those of a whole store, or those that users hold."""

    def tag(self, space: str, /) -> str:
        """Return the name of an empty inner space, for a `space` that has none."""
        ...

    async def slot(self, space: str, /) -> Document | None:
        """Return the document that names the inner space of `space`."""
        ...

    async def guard(self, inner_space: SpaceId, /) -> int:
        """Return the revision of the guard of an inner space, 0 if it has none."""
        ...

    async def find(self, space: str, /) -> SpaceKeys | None:
        """Return the open keys of `space`, None if it has none."""
        ...

    async def ensure(self, space: str, /) -> SpaceKeys:
        """Return the open keys of `space`, created if it has none."""
        ...

    async def destroy_keys(self, space: SpaceId, /) -> SpaceId | None:
        """Erase the wrapped keys of `space` and return its inner space, None without keys."""
        ...

    def remains(self, space: SpaceId, /) -> AsyncIterator[SpaceId]:
        """Yield inner spaces of `space` whose keys are lost."""
        ...

    async def free(self, space: SpaceId, inner_space: SpaceId, /) -> None:
        """Release the name `space` after its inner space is gone."""
        ...


class SpaceKeyCache:
    """Open keys of the `SEALED_SPACES_OPEN` spaces used last. Shows no key material."""

    def __init__(self, keyring: SpaceKeyring, /) -> None:
        self._keyring = keyring
        self._open: LruCache[SpaceId, SpaceKeys] = LruCache(SEALED_SPACES_OPEN)
        self._turns: dict[SpaceId, anyio.Lock] = {}

    def ready(self, space: SpaceId, /) -> SpaceKeys | None:
        """Return the cached keys of `space`, or None if callers must queue in `open_in_turn`."""
        return None if space in self._turns else self._cached(space)

    async def open_in_turn(self, space: SpaceId, /) -> SpaceKeys:
        """Return the keys of `space`, created if it has none. Callers are served in order of arrival.

        Raises KeyDestroyed, KeyMissing, SealBroken.
        """
        turn = self._turns.setdefault(space, anyio.Lock())
        try:
            async with turn:
                # Looked up again in turn: the previous caller has usually opened them.
                return self._cached(space) or self._keep(space, await self._keyring.ensure(space))
        finally:
            # The last caller removes the lock, since a process may see any number of spaces.
            if not turn.locked() and self._turns.get(space) is turn:
                del self._turns[space]

    async def find(self, space: SpaceId, /) -> SpaceKeys | None:
        """Return the keys of `space`, None if it has none. Raises KeyDestroyed, KeyMissing, SealBroken."""
        space_keys = self._cached(space)
        if space_keys is not None:
            return space_keys
        new_keys = await self._keyring.find(space)
        # Keys that another call opened meanwhile stay: they may know a later guard.
        return self._cached(space) or (None if new_keys is None else self._keep(space, new_keys))

    async def fresh(self, space: SpaceId, /) -> SpaceKeys:
        """Return the current keys of `space` from the keyring, created if it has none."""
        space_keys = self._cached(space)
        if space_keys is not None and await self.lives(space, space_keys):
            return space_keys
        return await self.open_in_turn(space)

    async def newer(self, space: SpaceId, space_keys: SpaceKeys, /) -> SpaceKeys:
        """Reopen the keys of `space`, for a key that `space_keys` lacks. Raises KeyDestroyed."""
        self.drop(space, space_keys)
        newest_keys = await self._keyring.find(space)
        if newest_keys is None or newest_keys.inner != space_keys.inner:
            raise KeyDestroyed
        return self._keep(space, newest_keys)

    async def lives(self, space: SpaceId, space_keys: SpaceKeys, /) -> bool:
        """Return whether `space_keys` belong to the current incarnation of `space`; drop them if not."""
        slot = await self._keyring.slot(space)
        if slot is not None and slot.body == space_keys.slot:
            return True
        self.drop(space, space_keys)
        return False

    async def prove(self, space: SpaceId, space_keys: SpaceKeys, /) -> bool:
        """Return whether the keys are still current after their first batch; drop them if not."""
        space_keys.is_proven = await self.lives(space, space_keys)
        return space_keys.is_proven

    async def stands(self, space: SpaceId, space_keys: SpaceKeys, /, *, guard: int) -> bool:
        """Return whether the keys are current and the guard is at revision `guard`; drop them if not."""
        if not await self.lives(space, space_keys):
            return False
        if await self._keyring.guard(space_keys.inner) == guard:
            return True
        self.drop(space, space_keys)
        return False

    def drop(self, space: SpaceId, space_keys: SpaceKeys | None = None, /) -> None:
        """Drop the cached keys of `space`; if `space_keys` are given, only those."""
        if space_keys is None or self._open.get(space) is space_keys:
            self._open.pop(space, None)

    def clear(self) -> None:
        """Drop all cached keys."""
        self._open.clear()

    def _cached(self, space: SpaceId) -> SpaceKeys | None:
        return self._open.use(space)

    def _keep(self, space: SpaceId, space_keys: SpaceKeys) -> SpaceKeys:
        self._open[space] = space_keys
        return space_keys


_ItemT = TypeVar("_ItemT")


class SealedSpaces(PassingStore):
    """Everything the inner store guarantees of a space, with bytes that only holders of its key can read.

    Open keys are cached per space. An outdated one is noticed where it matters: a commit requires the space's guard, so
    it conflicts and is repeated under the newer key; a read that finds nothing checks the keyring first, and the
    ciphertext of an erased space is gone. So a read that finds something costs one call of the inner store, and one
    that does not costs two.

    The collections `elytron_seal` and `elytron_quarantine` of a space are reserved for sealing.
    """

    def __init__(self, inner_store: Store, keyring: SpaceKeyring, /, *, clock: Clock) -> None:
        super().__init__(inner_store)
        self._keyring = keyring
        self._clock = clock
        self._key_cache = SpaceKeyCache(keyring)

    def forget(self, space: SpaceId, /) -> None:
        """Drop the open keys of `space`."""
        self._key_cache.drop(space)

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Apply `batch` as the port says; also raises KeyDestroyed, KeyMissing and SealBroken.

        Once the space's key is open nothing waits before the inner commit, so commits keep the order of their calls. An
        import may come later: it is sealed in another thread.
        """
        await engine.off_loop(validate_batch, batch)
        while True:
            space_keys = self._key_cache.ready(batch.space) or await self._key_cache.open_in_turn(batch.space)
            guard_revision = space_keys.guard
            has_arrived = False
            try:
                receipt = await self._inner.commit(await engine.off_loop(space_keys.seal, batch))
                has_arrived = True
            except IdempotencyConflict:
                raise
            except Conflict:
                # The caller is at fault only if the guard is unchanged; otherwise the commit is repeated.
                if await self._key_cache.stands(batch.space, space_keys, guard=guard_revision):
                    raise
                continue
            finally:
                if not (has_arrived or guard_revision):
                    self._key_cache.drop(batch.space, space_keys)  # it relied on a guard that was not written
            if not space_keys.is_proven and not await self._key_cache.prove(batch.space, space_keys):
                # It was opened before an erasure that knew of no guard: its writes are in a dead inner space.
                await self._inner.erase(ErasureTarget(space=space_keys.inner, at=batch.at, whole_space=True))
                continue
            if receipt.replayed and not space_keys.knows([receipt.answer]):
                space_keys = await self._key_cache.newer(batch.space, space_keys)
            return space_keys.open_answer(receipt, batch.idempotency)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents at `refs` as the port says; also raises KeyDestroyed, KeyMissing and SealBroken."""
        space_keys, documents = await self._look(space, lambda inner: self._inner.get(inner, refs))
        plain_documents = iter(
            await self._open(space, space_keys, [document for document in documents if document is not None])
        )
        return [None if document is None else next(plain_documents) for document in documents]

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
        """Return a page of `collection` as the port says; also raises KeyDestroyed, KeyMissing and SealBroken."""

        def look(inner: SpaceId) -> Awaitable[Sequence[Document]]:
            return self._inner.scan(inner, collection, prefix=prefix, after=after, limit=limit, descending=descending)

        space_keys, documents = await self._look(space, look)
        return await self._open(space, space_keys, documents)

    async def count(self, space: SpaceId, collection: str, /) -> int:
        """Return the number of documents as the port says, without opening any. Also raises KeyDestroyed."""
        engine.require_scan(space, collection, limit=1)
        while True:
            space_keys = await self._key_cache.find(space)
            document_count = 0 if space_keys is None else await self._inner.count(space_keys.inner, collection)
            if space_keys is None or document_count or await self._key_cache.lives(space, space_keys):
                return document_count

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        """Return a page of the journal as the port says; also raises KeyDestroyed."""
        _, entries = await self._look(space, lambda inner: self._inner.journal(inner, after=after, limit=limit))
        return entries

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        """Compact the journal as the port says; also raises KeyDestroyed."""
        engine.require_runs(space, runs)
        space_keys = await self._key_cache.find(space)
        return await self._inner.compact(
            SpaceId(self._keyring.tag(space)) if space_keys is None else space_keys.inner, runs
        )

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Replace the blob `key` as the port says; raises KeyDestroyed if the space was erased meanwhile."""
        engine.require_blob(space, key)
        space_keys = await self._key_cache.fresh(space)
        sealing_stream = cipher.SealingStream(space_keys.newest, space_keys.blob_place(key), chunks)
        async with closed_stream(sealing_stream.chunks()) as sealed_chunks:
            await self._inner.write_blob(space_keys.inner, key, sealed_chunks)
        if not await self._key_cache.lives(space, space_keys):
            # Erased meanwhile: the ciphertext of a destroyed key is not left behind.
            await self._sweep(space_keys.inner)
            raise KeyDestroyed
        return sealing_stream.size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        """Yield the blob's bytes, each chunk once verified. Raises NotFound, KeyDestroyed, SealBroken."""
        engine.require_blob(space, key)
        while True:
            space_keys = await self._key_cache.find(space)
            try:
                async with closed_stream(self._chunks(space, space_keys, key)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except NotFound:
                if space_keys is None or await self._key_cache.lives(space, space_keys):
                    raise
                continue
            return

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Erase as the port says. A whole space loses its keys first, then its ciphertext, and finally frees its
        name."""
        engine.require_erasure(erasure)
        if erasure.whole_space:
            inner_space = await self._destroy_keys(erasure.space)
            erasure_receipt = ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
            if inner_space is not None:
                erasure_receipt = await self._erase_inner(inner_space, at=erasure.at)
            async for remaining_space in self._keyring.remains(erasure.space):
                await self._erase_inner(remaining_space, at=erasure.at)
            if inner_space is None:
                return erasure_receipt
            await self._keyring.free(erasure.space, inner_space)
        else:
            erasure_receipt = await self._erase_named(erasure)
        return replace(erasure_receipt, layers=tuple(_sealed_layer(layer) for layer in erasure_receipt.layers))

    async def _erase_named(self, erasure: ErasureTarget) -> ErasureReceipt:
        while True:
            space_keys = await self._key_cache.fresh(erasure.space)
            inner_erasure = replace(erasure, space=space_keys.inner)
            erasure_receipt = await self._inner.erase(inner_erasure)
            if await self._key_cache.lives(erasure.space, space_keys):
                return erasure_receipt
            await self._sweep(space_keys.inner)

    async def _look(
        self, space: SpaceId, look: Callable[[SpaceId], Awaitable[Sequence[_ItemT]]]
    ) -> tuple[SpaceKeys | None, Sequence[_ItemT]]:
        require_space(space)
        while True:
            space_keys = await self._key_cache.find(space)
            # A space without keys is addressed by an empty name, so the store's own errors apply.
            items = await look(SpaceId(self._keyring.tag(space)) if space_keys is None else space_keys.inner)
            if (
                space_keys is None
                or any(item is not None for item in items)
                or await self._key_cache.lives(space, space_keys)
            ):
                return space_keys, items

    async def _open(
        self, space: SpaceId, space_keys: SpaceKeys | None, items: Sequence[Document]
    ) -> Sequence[Document]:
        if space_keys is None:
            return []
        if not space_keys.knows(document.body for document in items):
            space_keys = await self._key_cache.newer(space, space_keys)
        return [space_keys.open(document) for document in items]

    def _chunks(self, space: SpaceId, space_keys: SpaceKeys | None, key: str) -> AsyncIterator[bytes]:
        if space_keys is None:
            return self._inner.read_blob(SpaceId(self._keyring.tag(space)), key)

        async def find_key(number: int) -> DataKey | None:
            return space_keys.key(number) or (await self._key_cache.newer(space, space_keys)).key(number)

        stream = self._inner.read_blob(space_keys.inner, key)
        return cipher.unseal_stream(stream, find_key=find_key, where=space_keys.blob_place(key), what=f"blob {key}")

    async def _destroy_keys(self, space: SpaceId) -> SpaceId | None:
        self._key_cache.drop(space)
        inner_space = await self._keyring.destroy_keys(space)
        self._key_cache.drop(space)  # a running call may have opened it again before the mark was stored
        return inner_space

    async def _erase_inner(self, inner_space: SpaceId, *, at: Instant) -> ErasureReceipt:
        # The guard is a document of the sealing, not of the caller.
        guard_documents = int(await self._keyring.guard(inner_space) > 0)
        erasure_receipt = await self._inner.erase(ErasureTarget(space=inner_space, at=at, whole_space=True))
        return ErasureReceipt(
            documents=max(erasure_receipt.documents - guard_documents, 0),
            blobs=erasure_receipt.blobs,
            entries_scrubbed=erasure_receipt.entries_scrubbed,
            sequence=erasure_receipt.sequence,
            layers=erasure_receipt.layers,
        )

    async def _sweep(self, inner_space: SpaceId) -> None:
        # Leftovers of a call that did not know of the erasure; the guard would suggest that there is more.
        if not await self._keyring.guard(inner_space):
            await self._inner.erase(ErasureTarget(space=inner_space, at=self._clock.now(), whole_space=True))


def _sealed_layer(layer: ErasureLayer) -> ErasureLayer:
    """Return `layer` of an inner store as changed by sealing: remaining bytes are ciphertext."""
    if layer.state is ErasureState.GONE:
        return layer
    reason = f"{layer.reason}; it is sealed, and can be opened only with a key-encryption key from its time"
    return layer.model_copy(update={"reason": reason})
