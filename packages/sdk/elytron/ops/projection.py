"""Projection: the bounded block a model may see."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from elytron.context import OperationContext
from elytron.intake import rendered_chars
from elytron.memories.chat_aliases import meant_conversation, with_last
from elytron.recall.hints import hints_beside, note_shown
from elytron.recall.retrieval import GatheredHits, HitQuery, gather_hits
from elytron.recall.space_reader import SpaceReader, open_reader
from elytron.standing_items import (
    PrivateItems,
    StandingItems,
    hint_of_skill,
    hint_of_tool,
    private_of,
    standing_items,
)
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.contracts.projection import (
    MemoryProjectionReport,
    MemoryProjectionRequest,
    MissReason,
    PrivateContext,
    PrivateGate,
    SectionName,
)
from elytron_core.contracts.recall import NothingReason, RecallHit, RecallOutcome, RecallPlane
from elytron_core.errors import Conflict, StoreError
from elytron_core.evidence import TrustLevel
from elytron_core.model import VouchedMaker
from elytron_core.policy.platform import modes
from elytron_core.policy.projection import builder
from elytron_core.policy.projection.sections import (
    RECALLED_CHARS_MAX,
    RECALLED_CHARS_MIN,
    RECALLED_SPARE,
    RecalledItem,
    StandingFact,
    recalled_chars,
)
from elytron_core.policy.ranking.excerpts import passages_of
from elytron_core.ports.store import Batch, EntryDraft, JournalAction, RequireRevision
from elytron_core.profiles import MemoryPressure, ModeAction, ModeInput
from elytron_core.scope import ClipReason, ReportClip, Scope
from elytron_core.text.similarity import distinct_places, plain_text

MARK_BYTES = 12
_RECALLED = VouchedMaker(RecalledItem, *RecalledItem.model_fields)
SHORT_CHARS = 80
"""A short message with its speaker and time."""


async def build_projection(ctx: OperationContext, request: MemoryProjectionRequest, /) -> MemoryProjectionReport:
    """Build the block for the query: standing facts, skills, the latest messages, and recalled memories."""
    scope = await with_last(ctx, ctx.scope_of(request))
    mode_input = request.mode_input
    if mode_input is not None and not modes.is_admitted(ModeAction.PROJECT, mode_input):
        return _not_admitted(ctx, scope, request, mode_input)
    report = await _report_of(ctx, scope, request)
    included_ids = _each_once(part.included for part in report.sections)
    considered_ids = _each_once((*part.included, *part.dropped) for part in report.sections)
    if ctx.notes_projections:
        await _leave_event(ctx, scope, report)
    return report.model_copy(update={"selected_ids": included_ids, "candidate_ids": considered_ids})


async def _leave_event(ctx: OperationContext, scope: Scope, report: MemoryProjectionReport) -> None:
    """Record in the journal that a block was built: a keyed digest and no content.

    A projection is never refused over it: where the store takes no write now, none is left.
    """
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return
    entry = EntryDraft(JournalAction.PROJECTION, REF, digest=record.digest(report.system_memory_block.encode()))
    with suppress(Conflict, StoreError):
        await ctx.store.commit(
            Batch(space=scope.space, at=ctx.clock.now(), entries=(entry,), requires=(RequireRevision(REF, 1),))
        )


async def _report_of(ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest) -> MemoryProjectionReport:
    mode, conversation = request.mode_input, await meant_conversation(ctx, scope)
    inner_scope, key = conversation.within(scope), conversation.key if conversation.is_trusted else None
    reader = await open_reader(ctx, scope.space)
    standing = await standing_items(reader, scope, request, key) if reader is not None else StandingItems()
    max_len, by_bound = _length_bound(ctx, request)
    recall_count = request.recall_limit if request.recall_limit is not None else _fitting_count(max_len)
    gathered = await _gather_recalled(
        ctx, reader, scope, request, max(recall_count, 1) + len(standing.facts), room=max_len
    )
    hints = await hints_beside(ctx, reader, request)
    private_items = private_of(standing.private, request, gathered.private)
    is_empty = gathered.verdict.reason is NothingReason.EMPTY_SPACE
    projection = builder.build_projection(
        builder.ProjectionInputs(
            form=_form_of(request, max_len),
            stable=builder.StableItems(
                mount=standing.mount, private=private_items.items, facts=standing.facts, skills=standing.skills
            ),
            guidance=builder.GuidanceItems(
                wishes=standing.wishes,
                standing=standing.work.items,
                has_work=standing.work.has_work,
                agent_skills=tuple(map(hint_of_skill, hints.agent_skills)),
                agent_tools=tuple(map(hint_of_tool, hints.agent_tools)),
            ),
            recent=standing.recent,
            recalled=await _recalled_items(gathered, room=max_len, limit=recall_count),
            withheld=private_items.withheld,
            space_is_empty=is_empty and not await ctx.losses.fresh(scope.space),
        ),
        mark=ctx.ids.secret(MARK_BYTES).hex(),
    )
    await _note_shown(ctx, scope, gathered, standing.facts, projection)
    return MemoryProjectionReport(
        space=scope.space,
        projection_id=ctx.ids.new(),
        system_memory_block=projection.block,
        requested_chars=request.max_chars,
        budget=projection.budget,
        stable_chars=projection.stable_chars,
        pressure=_pressure_of(request),
        sections=projection.sections,
        truncated=projection.truncated,
        limited_by=(*by_bound, *projection.limited_by),
        miss_reason=projection.miss_reason,
        intent=gathered.reading.intent.value,
        unchanged_bytes=ctx.last_blocks.unchanged_bytes(scope.space, inner_scope.conversation_key, projection.block),
        private_gate=_private_gate(request, private_items, projection),
        checks=projection.checks,
        lifecycle=modes.action_admissions(mode) if mode is not None else (),
        alias=conversation.trust,
        sequence=gathered.search.sequence,
        agent_skill_hits=hints.agent_skills,
        agent_tool_hints=hints.agent_tools,
        tool_experience_status=hints.tool_status,
        gate=gathered.verdict.gate,
    )


def _form_of(request: MemoryProjectionRequest, max_chars: int) -> builder.BlockForm:
    return builder.BlockForm(
        max_chars=max_chars,
        pressure=_pressure_of(request),
        room_percent=modes.room_percent(request.host_room),
        line_label=request.line_label or "",
    )


def _pressure_of(request: MemoryProjectionRequest) -> MemoryPressure:
    mode = request.mode_input
    return modes.worse_pressure(request.pressure, mode.pressure) if mode is not None else request.pressure


async def _note_shown(
    ctx: OperationContext,
    scope: Scope,
    gathered: GatheredHits,
    facts: Iterable[StandingFact],
    built: builder.BuiltProjection,
) -> None:
    """Count the memories in a block as shown."""
    section_ids = {section.name: frozenset(section.included) for section in built.sections}
    recalled_ids, standing_ids = (
        section_ids.get(name, frozenset[str]()) for name in (SectionName.RECALLED, SectionName.FACTS)
    )
    await note_shown(ctx, scope, [hit for hit in gathered.hits if hit.id in recalled_ids])
    if shown_facts := [fact.id for fact in facts if fact.id in standing_ids]:
        ctx.fact_uses.note(scope.space, shown_facts, at=ctx.clock.now())


def _each_once(ids: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(ids)))


def _length_bound(ctx: OperationContext, request: MemoryProjectionRequest) -> tuple[int, tuple[ReportClip, ...]]:
    """Return the smallest of the request's, the profile's and the provider's limit, and which of them cut."""
    max_len, by_profile = rendered_chars(ctx.profile, request.max_chars)
    provider_max = request.provider_max_len
    if provider_max is None or provider_max >= max_len:
        return max_len, tuple(by_profile)
    provider_clip = ReportClip(
        what="characters", reason=ClipReason.PROVIDER, limit=provider_max, dropped=max_len - provider_max
    )
    return provider_max, (*by_profile, provider_clip)


def _private_gate(
    request: MemoryProjectionRequest, private_items: PrivateItems, built: builder.BuiltProjection
) -> PrivateGate:
    memories = [
        memory for section in built.sections if section.name is SectionName.PRIVATE for memory in section.included
    ]
    withheld_count = len(private_items.withheld) + private_items.documents_withheld
    return PrivateGate(context=request.private_context, withheld=withheld_count, shown=tuple(memories))


def _not_admitted(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest, mode: ModeInput
) -> MemoryProjectionReport:
    """Return the report of a block that is not built, because the host is doing something else."""
    return MemoryProjectionReport(
        space=scope.space,
        projection_id=ctx.ids.new(),
        system_memory_block="",
        requested_chars=request.max_chars,
        budget=0,
        stable_chars=0,
        pressure=modes.worse_pressure(request.pressure, mode.pressure),
        sections=(),
        truncated=False,
        miss_reason=MissReason.NOT_ADMITTED,
        private_gate=PrivateGate(context=request.private_context),
        lifecycle=modes.action_admissions(mode),
    )


async def _gather_recalled(
    ctx: OperationContext,
    reader: SpaceReader | None,
    scope: Scope,
    request: MemoryProjectionRequest,
    count: int,
    *,
    room: int,
) -> GatheredHits:
    """Return the recalled memories, up to `count`: those already in the block are not recalled twice."""
    hit_query = HitQuery(
        request.query,
        request.filters,
        limit=min(count + request.recent_messages_limit + len(request.shown_ids), limits.RECALL_MAX),
        gate=request.recall_gate,
        room=room + len(request.shown_ids) * SHORT_CHARS,
        private=tuple(RecallPlane) if request.private_context is PrivateContext.ALLOWED else (),
    )
    gathered = await gather_hits(ctx, reader, scope, hit_query)
    return gathered._replace(hits=tuple(hit for hit in gathered.hits if not _is_shown(hit, scope, request)))


def _is_shown(hit: RecallHit, scope: Scope, request: MemoryProjectionRequest) -> bool:
    """Return whether the model has already been shown a memory."""
    is_own = request.without_conversation and scope.conversation is not None and hit.conversation == scope.conversation
    return is_own or hit.id in request.shown_ids


def _first_places(hits: Iterable[RecallHit]) -> Iterable[int]:
    """Return the places of hits that no hit of their plane and role before them repeats word for word."""
    first_places: dict[object, int] = {}
    for position, hit in enumerate(hits):
        # The same words of another role, or as a fact, are other evidence.
        first_places.setdefault((hit.plane, hit.role, plain_text(hit.text)), position)
    return first_places.values()


def _fitting_count(max_len: int) -> int:
    """Return how many memories may fit."""
    return min(max(max_len // SHORT_CHARS, limits.RECALL_DEFAULT), limits.RECALL_MAX)


async def _recalled_items(gathered: GatheredHits, *, room: int, limit: int) -> builder.RecalledItems:
    """Return what was recalled, and how the block shows it."""
    return builder.RecalledItems(
        items=await _fitting_items(gathered, room=room),
        note=builder.DOUBT if gathered.verdict.outcome is RecallOutcome.DOUBTFUL else "",
        is_by_time=gathered.reading.retells,
        limit=limit,
    )


async def _fitting_items(gathered: GatheredHits, *, room: int) -> tuple[RecalledItem, ...]:
    """Return the hits that may fit, and a few more; for long messages the passage that answers best."""
    items: list[RecalledItem] = []
    if gathered.verdict.answered < limits.PROJECTED_SCORE:
        return ()
    budget, hits = room, gathered.hits
    # Repeats would take the room of further answers.
    ranked_positions = (
        distinct_places(hit.text for hit in hits) if gathered.reading.wants_several else _first_places(hits)
    )
    for rank, hit in enumerate(map(hits.__getitem__, ranked_positions), 1):
        chars_max = recalled_chars(rank, budget)
        may_be_cut = hit.plane is RecallPlane.TRANSCRIPT and len(hit.text) > RECALLED_CHARS_MIN
        if len(hit.text) > RECALLED_CHARS_MAX:
            # Searching one takes milliseconds: other tasks run before each.
            await asyncio.sleep(0)
        items.append(
            _RECALLED.make(
                id=hit.id,
                plane=hit.plane,
                text=hit.text,
                speaker=hit.speaker or hit.role,
                at=hit.at,
                place=gathered.ranking.places.get(hit.id, 0),
                score=hit.score,
                is_overtaken=hit.newer is not None,
                is_outside=hit.trust is TrustLevel.OUTSIDE,
                hint=hit.hint,
                parts=passages_of(hit.text, gathered.reading.terms, chars_max) if may_be_cut else (),
            )
        )
        room -= min(len(hit.text), chars_max)
        # A few more, since those already in the block are left out.
        if room < -RECALLED_SPARE:
            break
    return tuple(items)
