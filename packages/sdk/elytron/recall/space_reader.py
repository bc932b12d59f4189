"""Reads of one space for one operation: the index is caught up with the journal once, and lists are read once.

A list of documents is cached with the versions of its collections in the index. The journal names every change to them,
so a change by any process invalidates the list.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import value_at
from elytron.state.tool_state import ToolState, tools_of
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import EXPERIENCES, REGISTRIES
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
        """Return the result of `read` for documents of these collections, read again only after one of them changed."""
        versions = tuple(map(self.index.version_of, collections))
        return await self.ctx.folds.readings.listed(self.space, name, versions, read)

    async def value_at(self, ref: DocumentRef, kind: type[ValueT], /) -> ValueT | None:
        """Return the value of the document at `ref`; None if it is missing."""

        async def read() -> list[ValueT]:
            value, _ = await value_at(self.ctx.store, self.space, ref, kind)
            return [] if value is None else [value]

        return next(iter(await self.listed(ref, (ref.collection,), read)), None)

    async def tools(self) -> ToolState:
        """Return the experience with tools in the space."""

        async def read() -> list[ToolState]:
            return [await tools_of(self.ctx.store, self.space)]

        (tools,) = await self.listed(REGISTRIES, (REGISTRIES, EXPERIENCES), read)
        return tools


async def open_reader(ctx: OperationContext, space: SpaceId, /) -> SpaceReader | None:
    """Return the reader of a space, its index up to date; None before the first write."""
    record = await ctx.spaces.find(space)
    return SpaceReader(ctx, space, record, await ctx.folds.current(space)) if record is not None else None
