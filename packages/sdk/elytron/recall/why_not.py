"""Why a memory that was asked about is not among the hits."""

from collections.abc import Sequence

from elytron.context import OperationContext
from elytron.memories.chat_aliases import meant_conversation
from elytron.memories.lookup import FactMemory, TurnMemory, find_memory, is_private
from elytron.recall.filters import asked_planes, passes_filters
from elytron.recall.order import PlacedMemory
from elytron_core.contracts.recall import AbsenceReason, MemoryRecallRequest, RecallFilters, RecallHit, WhyNot
from elytron_core.scope import Scope


async def explain_absences(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryRecallRequest,
    /,
    *,
    order: Sequence[PlacedMemory],
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
            absence = await _unplaced_reason(
                ctx, scope, memory_id, request.filters, include_private=request.include_private
            )
            found.append(WhyNot(id=memory_id, absence=absence))
            continue
        if memory_id in on_show:
            absence = AbsenceReason.SHOWN
        elif item.score < request.min_score:
            absence = AbsenceReason.MIN_SCORE
        elif memory_id in on_page:
            absence = AbsenceReason.TOKENS
        else:
            absence = AbsenceReason.EARLIER_PAGE if place <= offset else AbsenceReason.LIMIT
        signals = dict(item.signals)
        found.append(WhyNot(id=memory_id, absence=absence, place=place, score=item.score, signals=signals))
    return tuple(found)


async def _unplaced_reason(
    ctx: OperationContext, scope: Scope, memory_id: str, filters: RecallFilters, *, include_private: bool
) -> AbsenceReason:
    memory = await find_memory(ctx, scope, memory_id)
    if memory is None or (isinstance(memory, TurnMemory) and not memory.turn.is_readable(memory.part)):
        return AbsenceReason.UNKNOWN
    if is_private(memory) and not include_private:
        return AbsenceReason.UNKNOWN
    now = ctx.clock.now()
    if isinstance(memory, FactMemory) and not memory.fact.counts_in((await meant_conversation(ctx, scope)).key):
        return AbsenceReason.HIDDEN
    if not passes_filters(memory, RecallFilters(as_of=filters.as_of, known_at=filters.known_at), now):
        return AbsenceReason.HIDDEN
    if memory.plane not in asked_planes(filters) or not passes_filters(memory, filters, now):
        return AbsenceReason.FILTERED
    return AbsenceReason.NO_MATCH
