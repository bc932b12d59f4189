"""The latest memories of a space, found by walking its journal backwards."""

from collections.abc import AsyncIterator, Callable, Collection

from elytron.context import OperationContext
from elytron_core.contracts.knowledge.recall import RecallHit
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Action, Document, Ref

_STORING = frozenset({Action.WRITE, Action.MERGE, Action.OPERATOR})
_PAGE = 256
"""Journal entries that are read at once."""


async def latest_memories(
    ctx: OperationContext,
    space: SpaceId,
    hits: Callable[[Document], list[RecallHit]],
    /,
    *,
    collections: Collection[str],
    limit: int,
) -> tuple[RecallHit, ...]:
    """Return up to `limit` memories of `collections`, the one that was stored last first."""
    found: list[RecallHit] = []
    async for page in _pages(ctx, space, collections):
        for document in await ctx.store.get(space, page):
            found += reversed(hits(document)) if document is not None else ()
        if len(found) >= limit:
            break
    return tuple(found[:limit])


async def _pages(ctx: OperationContext, space: SpaceId, collections: Collection[str]) -> AsyncIterator[tuple[Ref, ...]]:
    """Yield pages of what the journal says was stored, each document once, latest first."""
    if await ctx.spaces.find(space) is None:
        return
    seen: set[Ref] = set()
    end = (await ctx.folds.current(space)).watermark
    while end > 0:
        start = max(0, end - _PAGE)
        found = await ctx.store.journal(space, after=start, limit=end - start)
        entries = [entry for entry in found if entry.sequence <= end]
        if entries:
            # The first may represent a compacted run that begins long before.
            start = min(start, entries[0].first - 1)
        stored = (entry.ref for entry in reversed(entries) if entry.action in _STORING)
        page = tuple(dict.fromkeys(ref for ref in stored if ref.collection in collections and ref not in seen))
        seen.update(page)
        if page:
            yield page
        end = start
