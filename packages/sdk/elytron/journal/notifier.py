"""Notification of waiting readers when this runtime has changed a space, so that none polls the store."""

import asyncio

from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Committed, Erased, Erasure, Store
from elytron_store.wrappers.wrapper import PassingStore


class Commits:
    """Waiting readers of each space. Only commits of this runtime notify; others' are found by polling."""

    def __init__(self) -> None:
        self._waiting: dict[SpaceId, asyncio.Event] = {}

    def next(self, space: SpaceId, /) -> asyncio.Event:
        """Return what is set at the next change of `space`. Take it before reading, so that none is missed."""
        return self._waiting.setdefault(space, asyncio.Event())

    def tell(self, space: SpaceId, /) -> None:
        """Wake all readers that wait for `space`."""
        event = self._waiting.pop(space, None)
        if event is not None:
            event.set()


class AnnouncingStore(PassingStore):
    """A store that notifies `commits` of each commit and erasure through it."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.commits = Commits()

    async def commit(self, batch: Batch, /) -> Committed:
        committed = await self._inner.commit(batch)
        self.commits.tell(batch.space)
        return committed

    async def erase(self, erasure: Erasure, /) -> Erased:
        try:
            return await self._inner.erase(erasure)
        finally:
            self.commits.tell(erasure.space)


def inner(store: Store, /) -> Store:
    """Return the engine or wrapper beneath what a runtime works with, for what only its kind can do."""
    return store.inner if isinstance(store, AnnouncingStore) else store
