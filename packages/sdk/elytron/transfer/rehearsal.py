"""A rehearsal of several commits: what they would store is noted, and nothing is stored."""

from collections.abc import Sequence

from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Committed, Document, Ref, Store
from elytron_store.wrappers.wrapper import PassingStore


class RehearsalStore(PassingStore):
    """A store that keeps the batches of one space in memory, and reads documents as they would leave them."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.batches: list[Batch] = []
        self._left: dict[tuple[SpaceId, Ref], Document | None] = {}

    async def commit(self, batch: Batch, /) -> Committed:
        """Note what `batch` would store."""
        self.batches.append(batch)
        for put in batch.puts:
            self._left[batch.space, put.ref] = Document(put.ref, put.expects + 1, put.body)
        for delete in batch.deletes:
            self._left[batch.space, delete.ref] = None
        return Committed(1, len(batch.entries))

    async def get(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None]:
        """Return the documents as the noted batches would leave them."""
        found = await self._inner.get(space, refs)
        return [self._left.get((space, ref), document) for ref, document in zip(refs, found, strict=True)]
