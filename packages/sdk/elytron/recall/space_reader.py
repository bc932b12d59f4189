"""Reads of one space for one operation: its index is brought up to the journal once, and lists are read once.

A list of documents is cached with the versions of its collections in the index. The journal names every change of
them, so a list is read again after a change by any process, and never served after one.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from elytron.context import OperationContext
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DocumentRef

if TYPE_CHECKING:
    from elytron_index.space_index import SpaceIndex

ListedT = TypeVar("ListedT")
ValueT = TypeVar("ValueT", bound=Value)


@dataclass(frozen=True, slots=True)
class SpaceReader:
    """The record and the index of a space, as one operation sees them, and lists of its documents."""

    ctx: OperationContext
    space: SpaceId
    record: SpaceRecord
    index: "SpaceIndex"

    async def listed(
        self,
        name: Hashable,
        collections: Sequence[str],
        read: Callable[[], Awaitable[Sequence[ListedT]]],
        /,
    ) -> Sequence[ListedT]:
        """Return what `read` makes of documents of these collections, read again only after one of them changed."""
        versions = tuple(map(self.index.version_of, collections))
        return await self.ctx.folds.readings.listed(self.space, name, versions, read)

    async def values_under(
        self, collection: str, prefix: str, kind: type[ValueT], /, *, limit: int
    ) -> Sequence[ValueT]:
        """Return the values of a collection whose key begins with `prefix`, by key."""

        async def read() -> list[ValueT]:
            documents = await self.ctx.store.scan(self.space, collection, prefix=prefix, limit=limit)
            return [kind.from_bytes(document.body) for document in documents]

        return await self.listed((collection, prefix), (collection,), read)

    async def values_at(self, refs: Sequence[DocumentRef], /, *kinds: type[Value]) -> Sequence[Value | None]:
        """Return the values at `refs`, each of its kind, in one read; None for each that is missing."""

        async def read() -> list[Value | None]:
            documents = await self.ctx.store.get(self.space, refs)
            return [
                kind.from_bytes(document.body) if document is not None else None
                for kind, document in zip(kinds, documents, strict=True)
            ]

        return await self.listed(tuple(refs), tuple(ref.collection for ref in refs), read)


async def open_reader(ctx: OperationContext, space: SpaceId, /) -> SpaceReader | None:
    """Return the reader of a space, with everything in its index that was committed before; None before its first
    write."""
    record = await ctx.spaces.find(space)
    return SpaceReader(ctx, space, record, await ctx.folds.current(space)) if record is not None else None
