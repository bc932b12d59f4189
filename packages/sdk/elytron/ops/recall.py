"""Recall: the memories that answer a query, best first, and why a given memory is not among them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from elytron.context import OperationContext
from elytron.documents.hits import cited_hit, cursor_of, place_in, require_same
from elytron.memories.chat_aliases import meant_conversation, with_last
from elytron.memories.lookup import FactMemory, MessageMemory, find_memory, is_private
from elytron.recall.filters import asked_planes, passes_filters
from elytron.recall.hints import hints_beside, note_shown
from elytron.recall.hit_places import with_neighbours
from elytron.recall.order import PlacedMemory, rerank_hits
from elytron.recall.retrieval import GatheredHits, HitQuery, gather_hits
from elytron.recall.space_reader import open_reader
from elytron_core import limits
from elytron_core.contracts.recall import (
    AbsenceReason,
    MemoryRecallReport,
    MemoryRecallRequest,
    NothingReason,
    RecallExtent,
    RecallFilters,
    RecallGate,
    RecallHit,
    RecallOutcome,
    RecallPlane,
    RerankUse,
    WhyNot,
)
from elytron_core.evidence import TrustLevel
from elytron_core.model import VouchedMaker
from elytron_core.scope import ClipReason, ReportClip, Scope
from elytron_core.text.similarity import distinct_places, estimate_tokens

RECALL_NEEDED: Final = 100
RECALL_NEEDED_TOKENS: Final = 2_000
"""The most hits, and tokens if no bound is asked for, of a recall of as much as the question needs."""


_REPORTS = VouchedMaker(MemoryRecallReport, *MemoryRecallReport.model_fields)


async def recall_memories(ctx: OperationContext, request: MemoryRecallRequest, /) -> MemoryRecallReport:
    """Find what answers the query; report what a limit cut off."""
    scope = await with_last(ctx, ctx.scope_of(request))
    offset = place_in(request.cursor)
    end_place = min(offset + request.limit, limits.RECALL_MAX)
    reader = await open_reader(ctx, scope.space)
    hit_query = HitQuery(
        request.query,
        request.filters,
        limit=_gathered_count(ctx, request, end_place),
        gate=request.recall_gate,
        diversity=request.diversity,
        depth=limits.RECALL_MAX if request.why_not else 0,
        private=tuple(RecallPlane) if request.include_private else (),
    )
    gathered = await gather_hits(ctx, reader, scope, hit_query)
    search, placed_memories = gathered.search, gathered.ranking.order
    rerank_use, ordered_hits = RerankUse.NONE, gathered.hits
    if ctx.models.reranker is not None:
        rerank_use, ordered_hits = await rerank_hits(ctx, request.query, ordered_hits)
    ordered_hits = tuple([hit for hit in ordered_hits if hit.score >= request.min_score])
    scored_count = sum(score >= request.min_score for score in gathered.ranking.scores)
    if request.cursor is not None:
        require_same(request, [hit.id for hit in ordered_hits[:offset]], search.sequence)
    extent = _extent_of(request, gathered)
    page = tuple(cited_hit(hit, scope.space) for hit in extent.page(ordered_hits[offset:], end_place - offset))
    hits = _hits_within(page, extent.max_tokens) if extent.max_tokens is not None else page
    hints = await hints_beside(ctx, reader, request)
    await note_shown(ctx, scope, hits)
    shown_ids = [hit.id for hit in ordered_hits[: offset + len(hits)]]
    is_paged = not extent.is_open and gathered.verdict.gate is None
    has_more = bool(hits) and is_paged and scored_count > len(shown_ids) < limits.RECALL_MAX
    beyond_count = (scored_count if request.min_score else search.available) - offset - len(page)
    outcome, reason = _recall_outcome(gathered, has_hits=bool(ordered_hits))
    is_empty = reason is NothingReason.EMPTY_SPACE
    losses = await (ctx.losses.fresh if is_empty else ctx.losses.of)(scope.space)
    return _REPORTS.make(
        space=scope.space,
        query=request.query,
        outcome=outcome,
        reason=NothingReason.LOST if losses and is_empty else reason,
        hits=await _nearby_hits(ctx, scope, request, extent.ordered(hits)),
        considered=search.considered,
        intent=gathered.reading.intent.value,
        sequence=search.sequence,
        clipped=tuple(_clip_hits(request, page, hits, beyond=beyond_count, max_tokens=extent.max_tokens)),
        next_cursor=cursor_of(request, shown_ids, search.sequence) if has_more else None,
        cut=round(gathered.ranking.scores[len(shown_ids)], 6) if has_more else None,
        rerank=rerank_use,
        why_not=await explain_absences(ctx, scope, request, order=placed_memories, page=page, part=hits, offset=offset),
        agent_skill_hits=hints.agent_skills,
        agent_tool_hints=hints.agent_tools,
        tool_experience_status=hints.tool_status,
        vectors=search.vectors,
        unembedded=search.unembedded,
        alias=search.alias,
        gate=gathered.verdict.gate,
        losses=losses,
    )


class _PageExtent(NamedTuple):
    """Limits of a recall's hits, and their order."""

    is_open: bool
    """True if as many are returned as fit."""
    places: Mapping[str, int] | None
    """The chronological positions of the hits, if they are to be in that order."""
    max_tokens: int | None

    def page(self, hits: Sequence[RecallHit], count: int, /) -> Sequence[RecallHit]:
        """Return the first `count` of `hits`; if it is open, all that repeat none before them."""
        return (
            [hits[position] for position in distinct_places(hit.text for hit in hits)] if self.is_open else hits[:count]
        )

    def ordered(self, hits: tuple[RecallHit, ...], /) -> tuple[RecallHit, ...]:
        """Return `hits` in the order in which they are returned."""
        # Text from outside comes after everything else.
        return (
            tuple(sorted(hits, key=lambda hit: (hit.trust is TrustLevel.OUTSIDE, time_places.get(hit.id, 0))))
            if (time_places := self.places) is not None
            else hits
        )


def _extent_of(request: MemoryRecallRequest, gathered: GatheredHits) -> _PageExtent:
    if request.extent is RecallExtent.LIMIT or not gathered.reading.wants_several:
        return _PageExtent(is_open=False, places=None, max_tokens=request.max_tokens)
    tokens_max = RECALL_NEEDED_TOKENS if request.max_tokens is None else request.max_tokens
    return _PageExtent(
        is_open=True, places=gathered.ranking.places if gathered.reading.retells else None, max_tokens=tokens_max
    )


def _gathered_count(ctx: OperationContext, request: MemoryRecallRequest, end_place: int) -> int:
    minimum = RECALL_NEEDED if request.extent is RecallExtent.NEEDED else 0
    return max(end_place, minimum, limits.RERANK_HITS if ctx.models.reranker is not None else 0)


async def _nearby_hits(
    ctx: OperationContext, scope: Scope, request: MemoryRecallRequest, hits: tuple[RecallHit, ...]
) -> tuple[RecallHit, ...]:
    if not request.neighbours:
        return hits
    return await with_neighbours(ctx, scope, hits, count=request.neighbours, include_private=request.include_private)


def _recall_outcome(gathered_hits: GatheredHits, /, *, has_hits: bool) -> tuple[RecallOutcome, NothingReason | None]:
    """Return whether one of the best hits answers, and why not otherwise."""
    if gathered_hits.verdict.reason is not None:
        return RecallOutcome.NOTHING, gathered_hits.verdict.reason
    if not has_hits:
        return RecallOutcome.NOTHING, NothingReason.BELOW_MIN_SCORE
    outcome = gathered_hits.verdict.outcome
    return outcome, NothingReason.NO_ANSWER if outcome is RecallOutcome.NOTHING else None


def _clip_hits(
    request: MemoryRecallRequest,
    page: Sequence[RecallHit],
    hits: Sequence[RecallHit],
    /,
    *,
    beyond: int,
    max_tokens: int | None,
) -> Iterator[ReportClip]:
    """Yield what the limits left out: of the `beyond` memories after the page, and of the page itself."""
    if beyond > 0 and len(page) == request.limit:
        yield ReportClip(what="hits", reason=ClipReason.LIMIT, limit=request.limit, dropped=beyond)
    if max_tokens is not None and (dropped_count := len(page) - len(hits)):
        yield ReportClip(what="hits", reason=ClipReason.TOKENS, limit=max_tokens, dropped=dropped_count)


def _hits_within(hits: tuple[RecallHit, ...], max_tokens: int) -> tuple[RecallHit, ...]:
    """Return the longest prefix of `hits` whose texts fit."""
    spent_tokens = 0
    for count, hit in enumerate(hits):
        spent_tokens += estimate_tokens(hit.text)
        if spent_tokens > max_tokens:
            return hits[:count]
    return hits


async def explain_absences(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryRecallRequest,
    /,
    *,
    order: Sequence[PlacedMemory],
    page: Sequence[RecallHit],
    part: Sequence[RecallHit],
    offset: int,
) -> tuple[WhyNot, ...]:
    """Return why each of `request.why_not` is not in `part`, the `page` of `order` that begins at `offset`."""
    place_and_item = {item.id: (rank, item) for rank, item in enumerate(order, 1)}
    page_ids, shown_ids = ({hit.id for hit in hits} for hits in (page, part))
    absences: list[WhyNot] = []
    for memory_id in request.why_not:
        rank, item = place_and_item.get(memory_id, (None, None))
        if rank is None or item is None:
            absence = await _unplaced_reason(
                ctx, scope, memory_id, request.filters, include_private=request.include_private
            )
            absences.append(WhyNot(id=memory_id, absence=absence))
            continue
        if memory_id in shown_ids:
            absence = AbsenceReason.SHOWN
        elif item.score < request.min_score:
            absence = AbsenceReason.MIN_SCORE
        elif request.recall_gate is not RecallGate.OFF and memory_id not in page_ids:
            absence = AbsenceReason.HELD_BACK
        elif memory_id in page_ids:
            absence = AbsenceReason.TOKENS
        else:
            absence = AbsenceReason.EARLIER_PAGE if rank <= offset else AbsenceReason.LIMIT
        signals = dict(item.signals)
        absences.append(WhyNot(id=memory_id, absence=absence, place=rank, score=item.score, signals=signals))
    return tuple(absences)


async def _unplaced_reason(
    ctx: OperationContext, scope: Scope, memory_id: str, filters: RecallFilters, *, include_private: bool
) -> AbsenceReason:
    memory = await find_memory(ctx, scope, memory_id)
    if memory is None or (isinstance(memory, MessageMemory) and not memory.turn.is_readable(memory.part)):
        return AbsenceReason.UNKNOWN
    # A private memory is reported like a missing one.
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
