"""Inspection of a space, and the turn ledger of a conversation."""

import asyncio
import logging
import re
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pkgutil import iter_modules
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm
from elytron.documents.planes import by_plane
from elytron.documents.stored_values import ChangeSet
from elytron.erasure.erasure_mark import is_mark_damaged
from elytron.intake import admit_texts
from elytron.jobs.queue import relist_all_jobs, work_of
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.chat_aliases import meant_conversation, with_last
from elytron.memories.contents import SpaceReading
from elytron.state.conversation_heads import read_head, read_heads
from elytron.state.losses import losses_of
from elytron.state.space_records import MARK, REF
from elytron.writes.commit import SettledChanges, settle_changes
from elytron.writes.facts import keep_all_uses
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import (
    ConversationSummary,
    DamageItem,
    LedgerMessage,
    LedgerOrder,
    LedgerTurn,
    MemoryCapabilitiesRequest,
    MemoryCapabilityCatalog,
    MemoryCloseRequest,
    MemoryInspectionReport,
    MemoryInspectionRequest,
    MemoryLifecycleReport,
    MemoryRecoverRequest,
    MemoryReplayReport,
    MemoryReplayRequest,
    MemorySpacesReport,
    MemorySpacesRequest,
    RuntimePhase,
    SpaceSummary,
    StoreCheck,
)
from elytron_core.contracts.maintenance.jobs import WorkHealth
from elytron_core.errors import (
    Conflict,
    InvalidInput,
    SealBroken,
    SealError,
    StoreCorrupt,
    StoreError,
)
from elytron_core.ids import SYSTEM_SPACE, ConversationTag, SpaceId, TurnId
from elytron_core.planes import transcript
from elytron_core.planes.audit_trail import AuditAction
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.integrity import JournalHead
from elytron_core.policy.platform import modes
from elytron_core.policy.platform.capabilities import CatalogSources, DistributionPart, capability_catalog
from elytron_core.policy.skills import count_skills
from elytron_core.policy.tools import count_tools
from elytron_core.ports.store import Document, JournalAction
from elytron_core.ports.store_checks import CheckReport, DamageKind
from elytron_core.profiles import SpaceLoss
from elytron_core.scope import Scope

logger = logging.getLogger(__name__)

_NEEDS: dict[DistributionPart, tuple[str, ...]] = {
    DistributionPart.CLI: ("elytron_cli",),
    DistributionPart.HTTP: ("elytron_http_shell", "starlette"),
    DistributionPart.WSS: ("elytron_http_shell", "starlette", "websockets"),
    DistributionPart.MCP: ("elytron_mcp_shell", "mcp"),
    DistributionPart.A2A: ("elytron_a2a_shell", "a2a"),
    DistributionPart.LLM_GATEWAY: ("elytron_proxy", "starlette", "httpx"),
    DistributionPart.REPLAY: ("elytron_replay",),
    DistributionPart.EVOLVE: ("elytron_replay.evolve",),
}
"""The packages of each part; an unlisted part is in no distribution yet."""


def catalog_of(ctx: OperationContext, /) -> MemoryCapabilityCatalog:
    """Return all capabilities, and whether each is available here and now."""
    return capability_catalog(
        CatalogSources(
            profile=ctx.profile,
            compiled={part for part, packages in _NEEDS.items() if all(map(_is_built_in, packages))},
            entries=ctx.entries,
            has_model=ctx.models.language is not None,
            policy=ctx.capability_policy,
            capacity=ctx.capacity,
        )
    )


@cache
def _is_built_in(package: str) -> bool:
    """Return whether a package is installed and not empty; it is not imported."""
    module_spec = find_spec(package)
    if module_spec is None:
        return False
    search_paths = module_spec.submodule_search_locations
    return search_paths is None or any(iter_modules(search_paths))


async def check_store(ctx: OperationContext, space: SpaceId, /, *, repair: bool) -> StoreCheck:
    """Read every byte of the store; with `repair`, quarantine damage. Only operators see other spaces' names."""
    report = await ctx.store.repair() if repair else await ctx.store.check()
    if repair:
        await relist_all_jobs(ctx)
    # Checked again, because a repair only reports what it found.
    is_repaired = repair and (report.ok or (await ctx.store.check()).ok)
    loss_count = len(await ctx.losses.read())
    store_check = shown_check(report, space, repaired=is_repaired, losses=loss_count, names_spaces=not ctx.is_bound)
    if not await is_mark_damaged(ctx, space, repair=repair):
        return store_check
    damage = DamageItem(
        damage=DamageKind.DOCUMENT, what=f"{MARK}: with --repair it goes; then erase again what was to go"
    )
    return store_check.model_copy(update={"ok": False, "problems": (*store_check.problems, damage)})


def shown_check(
    report: CheckReport, space: SpaceId, /, *, repaired: bool, losses: int = 0, names_spaces: bool = True
) -> StoreCheck:
    """Return a store's report for `space`; with an unacknowledged loss it is not `ok`.

    An operator sees which other spaces are damaged; others, without `names_spaces`, that there is one.
    """
    other_text = "in the space {!r}" if names_spaces else "in another space"
    return StoreCheck(
        ok=report.ok and not losses,
        documents=report.documents,
        entries=report.entries,
        blobs=report.blobs,
        problems=tuple(
            DamageItem(
                damage=problem.damage,
                what=problem.what if problem.space in {None, space} else other_text.format(problem.space),
                quarantined=problem.quarantined,
            )
            for problem in report.problems
        ),
        clipped=report.clipped,
        repaired=repaired,
        losses=losses,
    )


CONVERSATIONS_SHOWN = 200
_CURSOR = CursorForm(re.compile(r"(.+)\.[0-9a-f]{12}"), "a replay report of this conversation")


async def inspect_space(ctx: OperationContext, request: MemoryInspectionRequest, /) -> MemoryInspectionReport:
    """Report what the space contains; a space never written to is reported as such.

    With `check`, `fingerprints` or `head` the whole space is read. Damage raises StoreCorrupt or SealBroken; with
    `check` the report lists it instead, counts what could be read and leaves the fingerprints empty. The same applies
    to a space that its user's secret closed, which is no damage; without `check` that raises SpaceLocked.
    """
    scope = ctx.scope_of(request)
    _require_fitting(request)
    ctx.losses.forget()
    listed_losses, acknowledged_count = await _acknowledge_losses(ctx, scope.space) if request.acknowledge else ((), 0)
    store_check = await check_store(ctx, scope.space, repair=request.repair) if request.check else None
    expected_head = JournalHead.parse(request.head) if request.head is not None else None
    is_whole = request.check or request.fingerprints or expected_head is not None
    space_reading = SpaceReading(recorded_head=expected_head, is_checked=request.check, is_whole=is_whole)
    await space_reading.read(ctx, scope.space)
    alias_trust = (
        transcript.AliasTrust.TRUSTED if space_reading.is_closed else (await meant_conversation(ctx, scope)).trust
    )
    if alias_trust is not transcript.AliasTrust.TRUSTED:
        space_reading.conversations.clear()
    conversations, (first_at, last_at) = space_reading.by_time, space_reading.times
    work_health, jobs = await _work_of(ctx, scope.space, space_reading)
    return MemoryInspectionReport(
        space=scope.space,
        exists=space_reading.exists,
        engine=ctx.engine,
        store=ctx.store.capabilities,
        sequence=space_reading.sequence,
        documents=dict(sorted(space_reading.counts.items())),
        planes=by_plane(space_reading.counts),
        alias=alias_trust,
        conversations=tuple(map(_summary_of, conversations[:CONVERSATIONS_SHOWN])),
        conversations_clipped=len(conversations) > CONVERSATIONS_SHOWN,
        speakers=tuple(dict.fromkeys(name for head in conversations for name in head.speakers)),
        first_at=first_at,
        last_at=last_at,
        indexed_units=space_reading.units,
        index_bytes=space_reading.index_bytes,
        state_fingerprint=space_reading.state,
        event_fingerprint=space_reading.events,
        head=space_reading.head,
        head_standing=space_reading.standing,
        losses=listed_losses or await ctx.losses.of(scope.space),
        acknowledged=acknowledged_count,
        store_check=store_check,
        journal_account=space_reading.account,
        compared_model=space_reading.compared,
        unembedded_units=space_reading.unembedded,
        stale_units=space_reading.stale,
        embedded_units=space_reading.embedded,
        runtime_skills=count_skills(space_reading.skills, at=ctx.clock.now()),
        agent_skills=await ctx.skill_dirs.scan(at=ctx.clock.now()),
        work=work_health,
        jobs=jobs,
        lifecycle=modes.action_admissions(request.mode_input) if request.mode_input is not None else (),
        capabilities=catalog_of(ctx),
        agent_tools=count_tools(space_reading.registries, space_reading.experiences, forbidden=ctx.profile.is_esp),
    )


def _require_fitting(request: MemoryInspectionRequest) -> None:
    if request.repair and not request.check:
        raise InvalidInput(field="repair", problem="requires check: pass both")
    if request.check and request.acknowledge:
        raise InvalidInput(
            field="acknowledge", problem="cannot be combined with check or repair: read first what is lost"
        )


def _summary_of(head: transcript.Conversation) -> ConversationSummary:
    return ConversationSummary.model_validate(head, from_attributes=True)


async def _work_of(ctx: OperationContext, space: SpaceId, reading: SpaceReading) -> tuple[WorkHealth, dict[str, int]]:
    """Return the health of the space's jobs and their number by state; with a check, none if jobs are damaged."""
    try:
        return (WorkHealth.IDLE, {}) if reading.is_closed or not reading.exists else await work_of(ctx, space)
    except (StoreCorrupt, SealBroken):
        if not reading.is_checked:
            raise
        return WorkHealth.IDLE, {}


async def _acknowledge_losses(ctx: OperationContext, space: SpaceId) -> tuple[tuple[SpaceLoss, ...], int]:
    """Acknowledge the losses of the space; return them, and their number."""
    losses = losses_of(space, await ctx.losses.read(is_logged=False))
    # Up to the latest of those listed, by the clock that recorded it: one that grows meanwhile is later, and stays.
    count = await ctx.losses.acknowledge(space, at=max(loss.at for loss in losses)) if losses else 0
    if count:
        logger.info("%s acknowledged %d losses of a space", ctx.caller, count)
    standing_losses = await ctx.losses.read(is_logged=False)
    return tuple(loss for loss in losses if loss not in standing_losses), count


async def replay_turns(ctx: OperationContext, request: MemoryReplayRequest, /) -> MemoryReplayReport:
    """Return a page of a conversation's turns, in order; read-only.

    Of a chat that cannot be trusted nothing is returned, of a message that may not be read no text.
    """
    scope = ctx.scope_of(request)
    conversation = await meant_conversation(ctx, await with_last(ctx, _asked_scope(scope, request)))
    key = conversation.key
    record = await ctx.spaces.find(scope.space) if conversation.is_trusted else None
    if record is None:
        if request.cursor is not None:
            raise _CURSOR.refusal()
        return MemoryReplayReport(
            space=scope.space, channel=key.channel, conversation=key.conversation, turns=(), total_turns=0
        )
    tag = record.conversation_tag(key)
    if request.cursor is not None and _CURSOR.parts(request.cursor) != (tag,):
        raise _CURSOR.refusal()
    head = await read_head(ctx.store, scope.space, tag)
    next_sequence = head[0].next_sequence if head is not None else 1
    documents, has_more = await _turn_page(ctx, scope, tag, request, next_sequence)
    turns = tuple(map(_ledger_turn, documents))
    assert all(turn_before.sequence < next_turn.sequence for turn_before, next_turn in pairwise(turns))
    return MemoryReplayReport(
        space=scope.space,
        channel=key.channel,
        conversation=key.conversation,
        turns=turns,
        total_turns=head[0].turns if head is not None else 0,
        next_cursor=turns[0 if request.order is LedgerOrder.LATEST else -1].id if has_more else None,
        has_more=has_more,
    )


async def _turn_page(
    ctx: OperationContext, scope: Scope, tag: ConversationTag, request: MemoryReplayRequest, next_sequence: int
) -> tuple[list[Document], bool]:
    """Return the requested turns, and whether there are more."""
    page_size, cursor = request.limit + 1, request.cursor
    match request.order:
        case LedgerOrder.LATEST:
            end_sequence = (
                min(transcript.sequence_of(TurnId(cursor)), next_sequence) if cursor is not None else next_sequence
            )
            documents = await _last_before(ctx, scope, tag, end_sequence, most=page_size)
            return documents[-request.limit :], len(documents) == page_size
        case LedgerOrder.FIRST:
            page = await ctx.store.scan(
                scope.space, transcript.TURNS, prefix=f"{tag}.", after=cursor or "", limit=page_size
            )
            return list(page[: request.limit]), len(page) == page_size
        case _:
            assert_never(request.order)


async def _last_before(
    ctx: OperationContext, scope: Scope, tag: ConversationTag, end_sequence: int, *, most: int
) -> list[Document]:
    """Return the last turns of a conversation before `end_sequence`, in order, even if others are missing."""
    documents: list[Document] = []
    while end_sequence > 1 and len(documents) < most:
        first_sequence = max(1, end_sequence - most)
        key_before = transcript.turn_id(tag, first_sequence - 1)
        page = await ctx.store.scan(
            scope.space, transcript.TURNS, prefix=f"{tag}.", after=key_before, limit=end_sequence - first_sequence
        )
        end_key = transcript.turn_id(tag, end_sequence)
        documents = [*(document for document in page if document.ref.key < end_key), *documents]
        end_sequence = first_sequence
    return documents[-most:]


def _asked_scope(scope: Scope, request: MemoryReplayRequest) -> Scope:
    if request.chat_id is None:
        return scope
    return scope.model_copy(update={"chat": request.chat_id, "conversation": None})


def _ledger_turn(document: Document) -> LedgerTurn:
    turn = transcript.Turn.from_bytes(document.body)
    return LedgerTurn(
        id=TurnId(document.ref.key),
        sequence=turn.sequence,
        recorded_at=Instant(turn.recorded_at),
        delivery=turn.delivery,
        lifecycle=turn.lifecycle,
        host_id=turn.host_id,
        messages=tuple(
            LedgerMessage(
                role=message.role,
                text=message.text if turn.is_readable(part) else "",
                speaker=message.speaker,
                at=message.at,
                forgotten=part in turn.forgotten,
            )
            for part, message in enumerate(turn.messages)
            if part not in turn.erased
        ),
    )


async def list_capabilities(ctx: OperationContext, request: MemoryCapabilitiesRequest, /) -> MemoryCapabilityCatalog:  # noqa: ARG001 - every operation takes both, and is awaited
    """Return what is possible here, by profile, by what is installed and by what is configured."""
    return catalog_of(ctx)


@admit_texts
async def recover_store(ctx: OperationContext, request: MemoryRecoverRequest, /) -> MemoryLifecycleReport:
    """Check the whole store, drop the space's caches, and rebuild its index from its journal.

    Its caller, reason and time are in the history of the space.
    """
    scope = ctx.scope_of(request)
    store_check = await check_store(ctx, scope.space, repair=False)
    ctx.spaces.forget(scope.space)
    ctx.heads.drop_space(scope.space)
    ctx.folds.drop(scope.space)
    await _note_recovery(ctx, scope, request)
    units = 0
    if await ctx.spaces.find(scope.space) is not None:
        units = (await ctx.folds.rebuild(scope.space)).units
    return MemoryLifecycleReport(
        phase=RuntimePhase.RECOVERED,
        reason=request.trigger,
        spaces=(scope.space,),
        indexed_units=units,
        checkpoints_written=await ctx.folds.checkpoint(),
        store_check=store_check,
        lifecycle=modes.action_admissions(request.mode_input) if request.mode_input is not None else (),
    )


async def _note_recovery(ctx: OperationContext, scope: Scope, request: MemoryRecoverRequest) -> None:
    """Record who requested a recovery. A store too damaged or full for that is recovered too."""

    async def plan(record: SpaceRecord) -> SettledChanges[None]:
        changes = ChangeSet(record)
        event = event_of(ctx, AuditAction.RECOVERED, at=ctx.clock.now(), reason=request.trigger)
        await note_events(ctx, scope.space, record, changes, {REF: (event,)}, action=JournalAction.OPERATOR)
        return SettledChanges(None, changes)

    with suppress(Conflict, StoreError):
        if await ctx.spaces.find(scope.space) is not None:
            await settle_changes(ctx, scope.space, plan)


async def close_runtime(ctx: OperationContext, request: MemoryCloseRequest, /) -> MemoryLifecycleReport:
    """Store the last use of facts and the indexes' checkpoints, and close the store; a second close does nothing.

    However many spaces were used, this takes about `limits.CLOSE_WAIT_S`: further indexes are made again from journals,
    and further uses are forgotten.
    """
    if ctx.closing:
        return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason)
    ctx.closing.append(request.reason)
    loop_time = asyncio.get_running_loop().time
    deadline = loop_time() + limits.CLOSE_WAIT_S
    # First, since background work writes to the store.
    for stop_service in ctx.closers:
        await stop_service()
    await ctx.encoders.close()
    await keep_all_uses(ctx, within_s=(deadline - loop_time()) / 3)
    try:
        checkpoint_count = await ctx.folds.checkpoint(within_s=deadline - loop_time())
    except (StoreError, SealError):
        # A checkpoint only saves time at the next opening; closing must not fail for lack of one.
        checkpoint_count = 0
    finally:
        await ctx.store.close()
    return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason, checkpoints_written=checkpoint_count)


async def list_spaces(ctx: OperationContext, request: MemorySpacesRequest, /) -> MemorySpacesReport:
    """Return a page of the spaces that were written to, without the system's own."""
    # One more for the system's own space, and one that shows whether there are others.
    candidates = await ctx.store.spaces(after=request.cursor or "", limit=request.limit + 2)
    user_spaces = [space for space in candidates if space != SYSTEM_SPACE]
    page = user_spaces[: request.limit]
    has_more = len(user_spaces) > request.limit
    return MemorySpacesReport(
        spaces=tuple([await _space_summary(ctx, space) for space in page]),
        losses=await ctx.losses.read() if request.cursor is None else (),
        next_cursor=page[-1] if has_more else None,
        has_more=has_more,
    )


async def _space_summary(ctx: OperationContext, space: SpaceId) -> SpaceSummary:
    try:
        heads = [head async for head in read_heads(ctx.store, space)]
    except (SealError, StoreCorrupt):
        return SpaceSummary(space=space, readable=False)
    return SpaceSummary(
        space=space,
        conversations=len(heads),
        # Damage may remove heads and leave their turns.
        turns=await ctx.store.count(space, transcript.TURNS),
        first_at=min((head.first_at for head in heads if head.first_at is not None), default=None),
        last_at=max((head.last_at for head in heads if head.last_at is not None), default=None),
    )
