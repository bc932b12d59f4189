"""Stores with interference: somebody else acts between two steps of a call, or writes are impossible."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from elytron_core.errors import StoreReadOnly
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, CommitReceipt, Document, DocumentRef, ErasureReceipt, ErasureTarget, Store
from elytron_store.engine import PassingStore

Then = Callable[[], Awaitable[object]]


class Meanwhile(PassingStore):
    """Lets something happen once: after a read, before or after a commit, or before an erasure."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self._behind_reading: dict[str, Then] = {}
        self._before_commit: dict[str, Then] = {}
        self._behind_commit: dict[str, Then] = {}
        self._before_erasure: list[Then] = []

    @property
    def is_over(self) -> bool:
        """Return whether everything scheduled has happened."""
        return not (self._behind_reading or self._before_commit or self._behind_commit or self._before_erasure)

    def behind_reading(self, collection: str, then: Then, /) -> None:
        """Run `then` after the next read of a document of `collection`."""
        self._behind_reading[collection] = then

    def before_commit(self, collection: str, then: Then, /) -> None:
        """Run `then` before the next write of a document of `collection`."""
        self._before_commit[collection] = then

    def behind_commit(self, collection: str, then: Then, /) -> None:
        """Run `then` after the next write of a document of `collection`."""
        self._behind_commit[collection] = then

    def before_erasure(self, then: Then, /) -> None:
        """Run `then` before the next erasure of documents."""
        self._before_erasure.append(then)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        found = await super().get(space, refs)
        await _happen(self._behind_reading, refs)
        return found

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        await _happen(self._before_commit, [put.ref for put in batch.puts])
        committed = await super().commit(batch)
        await _happen(self._behind_commit, [put.ref for put in batch.puts])
        return committed

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        if self._before_erasure:
            await self._before_erasure.pop()()
        return await super().erase(erasure)


class ReadOnly(PassingStore):
    """A store on a read-only device."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        raise StoreReadOnly("this store is read-only")


async def _happen(awaited: dict[str, Then], refs: Iterable[DocumentRef]) -> None:
    for collection in {ref.collection for ref in refs} & awaited.keys():
        await awaited.pop(collection)()
