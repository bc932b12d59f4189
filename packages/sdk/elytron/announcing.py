"""Telling whoever waits that this runtime has changed a space, so that nobody asks a store again and again."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CheckReport,
    Committed,
    Document,
    Erased,
    Erasure,
    JournalEntry,
    Ref,
    Store,
)


class Commits:
    """Who waits for which space. Only commits of this runtime are told; others' are found by looking."""

    def __init__(self) -> None:
        self._waiting: dict[SpaceId, asyncio.Event] = {}

    def next(self, space: SpaceId, /) -> asyncio.Event:
        """Return what is set at the next change of `space`. Take it before reading, so that none is missed."""
        return self._waiting.setdefault(space, asyncio.Event())

    def tell(self, space: SpaceId, /) -> None:
        """Wake everybody who waits for `space`."""
        event = self._waiting.pop(space, None)
        if event is not None:
            event.set()


class AnnouncingStore:
    """A store that tells `commits` of each commit and erasure that went through it; all else is the store's."""

    def __init__(self, store: Store, /) -> None:
        self._store = store
        self.commits = Commits()

    @property
    def inner(self) -> Store:
        """Return the store itself."""
        return self._store

    def __getattr__(self, name: str) -> Any:
        """Return what only the store beneath has: rotating keys is a sealed one's."""
        return getattr(self._store, name)

    async def commit(self, batch: Batch, /) -> Committed:
        committed = await self._store.commit(batch)
        self.commits.tell(batch.space)
        return committed

    async def erase(self, erasure: Erasure, /) -> Erased:
        try:
            return await self._store.erase(erasure)
        finally:
            self.commits.tell(erasure.space)

    async def get(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None]:
        return await self._store.get(space, refs)

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
        return await self._store.scan(
            space, collection, prefix=prefix, after=after, limit=limit, descending=descending
        )

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        return await self._store.journal(space, after=after, limit=limit)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        return await self._store.spaces(after=after, limit=limit)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        return await self._store.write_blob(space, key, chunks)

    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        return self._store.read_blob(space, key)

    async def check(self) -> CheckReport:
        return await self._store.check()

    async def repair(self) -> CheckReport:
        return await self._store.repair()

    async def close(self) -> None:
        await self._store.close()


def inner(store: Store, /) -> Store:
    """Return the engine or wrapper beneath what a runtime works with, for what only its kind can do."""
    return store.inner if isinstance(store, AnnouncingStore) else store
