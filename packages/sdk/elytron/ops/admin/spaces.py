"""The list of a store's spaces."""

from elytron.context import OperationContext
from elytron.state.conversation_heads import read_heads
from elytron_core.contracts.admin.spaces import MemorySpacesReport, MemorySpacesRequest, SpaceSummary
from elytron_core.errors import SealError, StoreCorrupt
from elytron_core.ids import SYSTEM_SPACE, SpaceId


async def list_spaces(ctx: OperationContext, request: MemorySpacesRequest, /) -> MemorySpacesReport:
    """Return a page of the spaces that were written to, without the system's own."""
    asked = await ctx.store.spaces(after=request.cursor or "", limit=request.limit + 2)
    found = [space for space in asked if space != SYSTEM_SPACE]
    page = found[: request.limit]
    more = len(found) > request.limit
    return MemorySpacesReport(
        spaces=tuple([await _summary(ctx, space) for space in page]),
        next_cursor=page[-1] if more else None,
        has_more=more,
    )


async def _summary(ctx: OperationContext, space: SpaceId) -> SpaceSummary:
    try:
        heads = [head async for head in read_heads(ctx.store, space)]
    except (SealError, StoreCorrupt):
        return SpaceSummary(space=space, readable=False)
    return SpaceSummary(
        space=space,
        conversations=len(heads),
        turns=sum(head.turns for head in heads),
        first_at=min((head.first_at for head in heads if head.first_at is not None), default=None),
        last_at=max((head.last_at for head in heads if head.last_at is not None), default=None),
    )
