"""Calls of sealed spaces under open keys: the cache of open keys, and the port's calls over ciphertext."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

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
from elytron_store import limits as store_limits
from elytron_store.engine import PassingStore
from elytron_store.sealed import cipher
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import SpaceKeys


class SpaceKeyring(Protocol):
    """The keys of sealed spaces: those of a whole store, or those that users hold."""

    def tag(self, space: str, /) -> str:
        """Return the name of an inner space that is empty, in place of one that `space` does not have."""
        ...

    async def slot(self, space: str, /) -> Document | None:
        """Return the document that names the inner space of `space`."""
        ...

    async def guard(self, inner: SpaceId, /) -> int:
        """Return the revision of the guard of an inner space, 0 if it has none."""
        ...

    async def find(self, space: str, /) -> SpaceKeys | None:
        """Return the open keys of `space`, None if it has none."""
        ...

    async def ensure(self, space: str, /) -> SpaceKeys:
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


class SpaceKeyCache:
    """Open vaults by space, the `store_limits.SEALED_SPACES_OPEN` last used. Shows no key material."""

    def __init__(self, keyring: SpaceKeyring, /) -> None:
        self._keyring = keyring
        self._open: LruCache[SpaceId, SpaceKeys] = LruCache(store_limits.SEALED_SPACES_OPEN)
        self._turns: dict[SpaceId, anyio.Lock] = {}

    def ready(self, space: SpaceId, /) -> SpaceKeys | None:
        """Return the open vault of `space` at once, None where callers must queue in `open_in_turn`."""
        return None if space in self._turns else self._cached(space)

    async def open_in_turn(self, space: SpaceId, /) -> SpaceKeys:
        """Return the vault of `space`, its keys made if it has none; callers get it in the order they came.

        Raises KeyDestroyed, KeyMissing, SealBroken.
        """
        turn = self._turns.setdefault(space, anyio.Lock())
        try:
            async with turn:
                # Looked at again in turn: the caller before has mostly opened it.
                return self._cached(space) or self._keep(space, await self._keyring.ensure(space))
        finally:
            # The last caller takes the lock away, since a process may see any number of spaces.
            if not turn.locked() and self._turns.get(space) is turn:
                del self._turns[space]

    async def find(self, space: SpaceId, /) -> SpaceKeys | None:
        """Return the vault of `space`, None if it has no keys. Raises KeyDestroyed, KeyMissing, SealBroken."""
        vault = self._cached(space)
        if vault is not None:
            return vault
        new_keys = await self._keyring.find(space)
        # A vault that another call opened meanwhile stays: it may know of a later guard.
        return self._cached(space) or (None if new_keys is None else self._keep(space, new_keys))

    async def fresh(self, space: SpaceId, /) -> SpaceKeys:
        """Return the vault of `space` as the keyring has it now, its keys made if it has none."""
        vault = self._cached(space)
        if vault is not None and await self.lives(space, vault):
            return vault
        return await self.open_in_turn(space)

    async def newer(self, space: SpaceId, vault: SpaceKeys, /) -> SpaceKeys:
        """Return the vault of `space` opened again, for a key that `vault` lacks. Raises KeyDestroyed."""
        self.drop(space, vault)
        newest = await self._keyring.find(space)
        if newest is None or newest.inner != vault.inner:
            raise KeyDestroyed
        return self._keep(space, newest)

    async def lives(self, space: SpaceId, vault: SpaceKeys, /) -> bool:
        """Return whether the incarnation of `space` that `vault` opens is current; else forget the vault."""
        slot = await self._keyring.slot(space)
        if slot is not None and slot.body == vault.slot:
            return True
        self.drop(space, vault)
        return False

    async def prove(self, space: SpaceId, vault: SpaceKeys, /) -> bool:
        """Return whether the incarnation of `space` is current after the first batch of `vault`; else forget it."""
        vault.is_proven = await self.lives(space, vault)
        return vault.is_proven

    async def stands(self, space: SpaceId, vault: SpaceKeys, /, *, guard: int) -> bool:
        """Return whether that incarnation is current and its guard is at revision `guard`; else forget the vault."""
        if not await self.lives(space, vault):
            return False
        if await self._keyring.guard(vault.inner) == guard:
            return True
        self.drop(space, vault)
        return False

    def drop(self, space: SpaceId, vault: SpaceKeys | None = None, /) -> None:
        """Forget the vault of `space`, if one is given only that one."""
        if vault is None or self._open.get(space) is vault:
            self._open.pop(space, None)

    def clear(self) -> None:
        """Forget all vaults."""
        self._open.clear()

    def _cached(self, space: SpaceId) -> SpaceKeys | None:
        return self._open.use(space)

    def _keep(self, space: SpaceId, vault: SpaceKeys) -> SpaceKeys:
        self._open[space] = vault
        return vault


_ItemT = TypeVar("_ItemT")


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
        self._vaults = SpaceKeyCache(keyring)

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
        vault, documents = await self._look(space, lambda inner: self._inner.get(inner, refs))
        plain = iter(await self._open(space, vault, [document for document in documents if document is not None]))
        return [None if document is None else next(plain) for document in documents]

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

        vault, documents = await self._look(space, look)
        return await self._open(space, vault, documents)

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
        _, entries = await self._look(space, lambda inner: self._inner.journal(inner, after=after, limit=limit))
        return entries

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
        async with closed_stream(sealing.chunks()) as sealed:
            await self._inner.write_blob(vault.inner, key, sealed)
        if not await self._vaults.lives(space, vault):
            # Erased meanwhile: the ciphertext of a destroyed key is not left behind.
            await self._sweep(vault.inner)
            raise KeyDestroyed
        return sealing.size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        """Yield the blob's bytes, each chunk once it is proven. Raises NotFound, KeyDestroyed, SealBroken."""
        engine.require_blob(space, key)
        while True:
            vault = await self._vaults.find(space)
            try:
                async with closed_stream(self._chunks(space, vault, key)) as chunks:
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
            inner_erasure = replace(erasure, space=vault.inner)
            erased = await self._inner.erase(inner_erasure)
            if await self._vaults.lives(erasure.space, vault):
                return erased
            await self._sweep(vault.inner)

    async def _look(
        self, space: SpaceId, look: Callable[[SpaceId], Awaitable[Sequence[_ItemT]]]
    ) -> tuple[SpaceKeys | None, Sequence[_ItemT]]:
        require_space(space)
        while True:
            vault = await self._vaults.find(space)
            # A space without keys is asked for under a name that is empty, so the store's own refusals apply.
            items = await look(SpaceId(self._keys.tag(space)) if vault is None else vault.inner)
            if vault is None or any(item is not None for item in items) or await self._vaults.lives(space, vault):
                return vault, items

    async def _open(self, space: SpaceId, vault: SpaceKeys | None, items: Sequence[Document]) -> Sequence[Document]:
        if vault is None:
            return []
        if not vault.knows(document.body for document in items):
            vault = await self._vaults.newer(space, vault)
        return [vault.open(document) for document in items]

    def _chunks(self, space: SpaceId, vault: SpaceKeys | None, key: str) -> AsyncIterator[bytes]:
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
        # The guard is a document of the sealing, not of the caller.
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
    reason = f"{layer.reason}; it is sealed, and can be opened only with a key-encryption key from its time"
    return layer.model_copy(update={"reason": reason})
