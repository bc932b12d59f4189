"""Why a memory that was asked about is not among the hits."""

from collections.abc import Sequence

from elytron.context import OperationContext
from elytron.memories.chat_aliases import meant
from elytron.memories.lookup import FactMemory, TurnMemory, find, is_private
from elytron.recall.filters import asked_planes, passes
from elytron.recall.order import Placed
from elytron_core.contracts.recall import Absence, MemoryRecallRequest, RecallFilters, RecallHit, WhyNot
from elytron_core.scope import Scope


async def absences(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryRecallRequest,
    /,
    *,
    order: Sequence[Placed],
    page: Sequence[RecallHit],
    shown: Sequence[RecallHit],
    offset: int,
) -> tuple[WhyNot, ...]:
    """Return why each of `request.why_not` is not `shown`, of a `page` that begins at `offset` of the whole `order`."""
    places = {item.id: (place, item) for place, item in enumerate(order, 1)}
    on_page, on_show = ({hit.id for hit in hits} for hits in (page, shown))
    found: list[WhyNot] = []
    for memory_id in request.why_not:
        place, item = places.get(memory_id, (None, None))
        if place is None or item is None:
            absence = await _unplaced(ctx, scope, memory_id, request.filters, include_private=request.include_private)
            found.append(WhyNot(id=memory_id, absence=absence))
            continue
        if memory_id in on_show:
            absence = Absence.SHOWN
        elif item.score < request.min_score:
            absence = Absence.MIN_SCORE
        elif memory_id in on_page:
            absence = Absence.TOKENS
        else:
            absence = Absence.EARLIER_PAGE if place <= offset else Absence.LIMIT
        signals = dict(item.signals)
        found.append(WhyNot(id=memory_id, absence=absence, place=place, score=item.score, signals=signals))
    return tuple(found)


async def _unplaced(
    ctx: OperationContext, scope: Scope, memory_id: str, filters: RecallFilters, *, include_private: bool
) -> Absence:
    memory = await find(ctx, scope, memory_id)
    if memory is None or (isinstance(memory, TurnMemory) and not memory.turn.is_readable(memory.part)):
        return Absence.UNKNOWN
    if is_private(memory) and not include_private:
        return Absence.UNKNOWN
    now = ctx.clock.now()
    if isinstance(memory, FactMemory) and not memory.fact.counts_in((await meant(ctx, scope)).key):
        return Absence.HIDDEN
    if not passes(memory, RecallFilters(as_of=filters.as_of, known_at=filters.known_at), now):
        return Absence.HIDDEN
    if memory.plane not in asked_planes(filters) or not passes(memory, filters, now):
        return Absence.FILTERED
    return Absence.NO_MATCH
