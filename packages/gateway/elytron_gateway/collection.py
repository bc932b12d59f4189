"""Typed documents of one collection, each change one durable commit."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import values_at
from elytron.intake import OwnOutput, scrub_value
from elytron_adapter.system_documents import commit_documents, record_of
from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports import store
from elytron_core.ports.store import (
    BatchKey,
    DeleteChange,
    DocumentRef,
    ErasureTarget,
    PutChange,
)

ValueT = TypeVar("ValueT", bound=Value)


@dataclass(frozen=True, slots=True)
class CollectionDocument(Generic[ValueT]):
    """A document as read: its key, its value, and the revision that a change must name."""

    key: str
    value: ValueT
    revision: int


class CollectionRepository(Generic[ValueT]):
    """The documents of one collection, in any space."""

    def __init__(self, ctx: OperationContext, collection: str, kind: type[ValueT], /) -> None:
        self._ctx = ctx
        self.collection = collection
        self._kind = kind

    async def get(self, space: SpaceId, key: str, /) -> CollectionDocument[ValueT] | None:
        """Return the document at `key`, or None."""
        (document,) = await self._ctx.store.get(space, (DocumentRef(self.collection, key),))
        return (
            CollectionDocument(key, self._kind.from_bytes(document.body), document.revision)
            if document is not None
            else None
        )

    async def among(self, space: SpaceId, keys: Sequence[str], /) -> dict[str, ValueT]:
        """Return the existing ones of `keys`."""
        refs = [DocumentRef(self.collection, key) for key in keys]
        values = await values_at(self._ctx.store, space, refs, self._kind)
        return {ref.key: value for ref, value in values.items()}

    async def all(self, space: SpaceId, /) -> AsyncIterator[CollectionDocument[ValueT]]:
        """Yield every document in the order of the keys."""
        async for document in store.scan_documents(self._ctx.store, space, self.collection):
            yield CollectionDocument(document.ref.key, self._kind.from_bytes(document.body), document.revision)

    def admit(self, value: ValueT, /) -> ValueT:
        """Return `value` ready to be stored: no text in it contains a credential or this memory's own output.

        Raises InvalidInput for a text of nothing but own output.
        """
        return scrub_value(value)[0]

    def put(self, key: str, value: ValueT, /, *, expects: int) -> PutChange:
        """Return the change that puts `value` at `key`, which must be at revision `expects` (0: absent).

        What `admit` would black out is blacked out here too, so that nothing else is stored.
        """
        return PutChange(
            DocumentRef(self.collection, key), scrub_value(value, own=OwnOutput.STRIP)[0].to_bytes(), expects
        )

    def remove(self, document: CollectionDocument[ValueT], /) -> DeleteChange:
        """Return the change that deletes a document."""
        return DeleteChange(DocumentRef(self.collection, document.key), document.revision)


async def commit_changes(
    ctx: OperationContext,
    space: SpaceId,
    /,
    *changes: PutChange | DeleteChange,
    once: BatchKey | None = None,
    takes_back: bool = False,
) -> None:
    """Apply the changes atomically in a space that has a record; with `once`, one time.

    With `takes_back`, a store that is full takes them too.

    Raises Conflict if one of them names a revision that is no longer current, or the space was erased meanwhile.
    """
    record = await record_of(ctx, space)
    await commit_documents(ctx, space, record, *changes, once=once, takes_back=takes_back)


def new_key(ctx: OperationContext, /) -> str:
    """Return a key that no blob has."""
    return ctx.ids.new().replace("-", "")


async def keep_blob(ctx: OperationContext, space: SpaceId, key: str, data: bytes, /) -> None:
    """Store `data`, atomically and durably, as the blob `key`."""
    await ctx.store.write_blob(space, key, _data_pieces(data))


async def read_blob(ctx: OperationContext, space: SpaceId, key: str, /) -> bytes:
    """Return the bytes of the blob `key`. Raises NotFound."""
    data = bytearray()
    async for chunk in ctx.store.read_blob(space, key):
        data += chunk
    return bytes(data)


async def remove_blobs(ctx: OperationContext, space: SpaceId, *keys: str) -> None:
    """Remove blobs physically."""
    if keys:
        await ctx.store.erase(ErasureTarget(space=space, at=ctx.clock.now(), blobs=keys))


async def _data_pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), limits.BLOB_CHUNK_BYTES):
        yield data[start : start + limits.BLOB_CHUNK_BYTES]
