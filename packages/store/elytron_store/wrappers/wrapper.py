"""A store over a store that changes nothing: what wrappers are made of, each saying only what it does otherwise."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence

from elytron_core.ids import SpaceId
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
    Store,
)
from elytron_core.profiles import StoreCapabilities


def innermost_store(store: Store, /) -> object:
    """Return the engine beneath all wrappers of `store`."""
    found: object = store
    while (beneath := getattr(found, "inner", None)) is not None:
        found = beneath
    return found


class PassingStore:
    """Hands every call on to the store beneath."""

    def __init__(self, store: Store, /) -> None:
        self._inner = store

    @property
    def inner(self) -> Store:
        """Return the store beneath."""
        return self._inner

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._inner.capabilities

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        return await self._inner.commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        return await self._inner.get(space, refs)

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
        return await self._inner.scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)

    async def count(self, space: SpaceId, collection: str, /) -> int:
        return await self._inner.count(space, collection)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        return await self._inner.journal(space, after=after, limit=limit)

    async def compact(self, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
        return await self._inner.compact(space, runs)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        return await self._inner.spaces(after=after, limit=limit)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        return await self._inner.write_blob(space, key, chunks)

    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        return self._inner.read_blob(space, key)

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        return await self._inner.erase(erasure)

    async def check(self) -> CheckReport:
        return await self._inner.check()

    async def repair(self) -> CheckReport:
        return await self._inner.repair()

    async def probe(self) -> None:
        await self._inner.probe()

    async def close(self) -> None:
        await self._inner.close()
