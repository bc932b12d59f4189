"""Read memories by id, as a list and through time; and forget, correct and erase them."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeGuard, assert_never

from pydantic import ValidationError

from elytron.context import OperationContext
from elytron.documents.hits import cited_hit
from elytron.documents.planes import StoredMemory, hide_value, touched_planes
from elytron.documents.stored_values import (
    ChangeSet,
    StoredSlot,
    key_of,
    read_slots,
    remaining_of,
    slot_ref,
    versions_of,
)
from elytron.erasure.dependants import space_dependants
from elytron.erasure.removal import erase_memories, erase_origin, erase_space
from elytron.intake import admit_texts
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.history import history_of
from elytron.memories.lookup import (
    FactMemory,
    Memory,
    MessageMemory,
    SkillMemory,
    find_all,
    hit_of,
    must_find,
    require_disclosed,
)
from elytron.memories.tombstones import add_tombstones, remove_tombstones
from elytron.memories.versions import latest_versions
from elytron.recall.list_pages import latest_page, stored_page
from elytron.writes.commit import SettledChanges, settle_report
from elytron.writes.edits import edit_message
from elytron.writes.facts import plan_change
from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactAction, FactChangeRequest
from elytron_core.contracts.memories import (
    ControlDecision,
    ControlOutcome,
    ListOrder,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
    MemoryHistoryReport,
    MemoryHistoryRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.model import Value, invalid_input
from elytron_core.planes import transcript
from elytron_core.planes.audit_trail import AuditAction, AuditEvent
from elytron_core.planes.facts import Fact, FactState, close_fact, is_taken, reopen_fact, topic_key
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission.facts import (
    CANNOT_BE_HIDDEN,
    CLOSED_REASONS,
    NOT_FORGOTTEN,
    SLOT_TAKEN,
    require_fields,
)
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import Scope


@admit_texts
async def forget_memories(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide memories from recall, or with `undo` show them again; all in one batch.

    A forgotten fact is not learned again until its topic is allowed.
    """
    return await _hide_memories(ctx, request, buries=True)


async def retire_memories(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide outdated memories; they may be learned again."""
    return await _hide_memories(ctx, request, buries=False)


async def _hide_memories(ctx: OperationContext, request: MemoryForgetRequest, *, buries: bool) -> MemoryControlReport:
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[MemoryControlReport]:
        targets, versions = await latest_versions(ctx, scope, await find_all(ctx, scope, request.ids))
        now = ctx.clock.now()
        changed_values: dict[DocumentRef, tuple[Value, int]] = {}
        slots = await _fact_slots(ctx, scope, record, targets.values())
        # In order: each decision sees the changes of earlier ones.
        decisions = [
            _hide_memory(memory_id, memory, request, changed_values, now)
            if not request.undo or not _is_taken(memory, slots, changed_values)
            else _unchanged_decision(memory_id, memory, SLOT_TAKEN)
            for memory_id, memory in targets.items()
        ]
        decisions = _with_remaining(decisions, targets, slots, changed_values) if not request.undo else decisions
        hidden_versions = [
            each
            for message_versions in versions
            if message_versions[-1].ref in changed_values
            for each in message_versions
            if not request.undo
        ]
        derived_ids = await _derived_memories(ctx, scope, hidden_versions, changed_values)
        report = _control_report(scope, decisions, dry_run=request.dry_run).model_copy(update={"derived": derived_ids})
        if not report.changed:
            return SettledChanges(report)
        changes = ChangeSet(record)
        action = JournalAction.OPERATOR if request.undo else JournalAction.DELETE
        for ref, (value, revision) in changed_values.items():
            changes.put(ref, value, expects=revision, action=action)
        facts = [
            memory.fact
            for memory in targets.values()
            if isinstance(memory, FactMemory) and memory.ref in changed_values
        ]
        if request.undo:
            await remove_tombstones(ctx, scope.space, record, changes, facts)
            # The slot gets a new revision, so that a write that was judged without its fact is judged again.
            for slot in {slots[ref].slot.ref: slots[ref].slot for ref in changed_values if ref in slots}.values():
                slot.put(changes)
        elif buries:
            await add_tombstones(ctx, scope.space, record, changes, facts, at=now)
        await note_events(ctx, scope.space, record, changes, _audit_events(ctx, request, decisions, targets, now))
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan, takes_back=not request.undo)


@admit_texts
async def correct_memory(ctx: OperationContext, request: MemoryCorrectRequest, /) -> MemoryControlReport:
    """Replace the content of a fact or message; history has both. Raises NotFound, InvalidInput."""
    scope = ctx.scope_of(request)
    if isinstance(await must_find(ctx, scope, request.id), MessageMemory):
        report, edited_message = await edit_message(ctx, scope, request)
        hidden_messages = (edited_message,) if report.planes else ()
        return report.model_copy(update={"derived": await _derived_memories(ctx, scope, hidden_messages, ())})
    try:
        change_request = FactChangeRequest(action=FactAction.CORRECT, **dict(request))
    except ValidationError as error:
        raise invalid_input(error) from None
    require_fields(change_request)
    plan_correction = partial(plan_change, ctx, scope, scope.conversation_key, change_request)
    change_report = await settle_report(ctx, scope.space, plan_correction)
    decision = ControlDecision(
        id=request.id,
        outcome=change_report.outcome,
        plane=RecallPlane.LONG_TERM,
        new_id=change_report.new_id,
        reason=change_report.reason,
    )
    return _control_report(scope, [decision], sequence=change_report.sequence, dry_run=request.dry_run)


@admit_texts
async def erase_from_space(ctx: OperationContext, request: MemoryEraseRequest, /) -> MemoryControlReport:
    """Remove memories, or the whole space, so that no byte of them remains in the store. Raises ScopeMissing."""
    scope = ctx.scope_of(request)
    selectors = {"ids": bool(request.ids), "origin": request.origin, "whole_space": request.whole_space is not None}
    selector, *other_selectors = [name for name, value in selectors.items() if value] or ["ids"]
    if other_selectors:
        raise InvalidInput(field=selector, problem=f"and {other_selectors[0]} are both set: pass only one")
    if request.origin is not None:
        return await erase_origin(ctx, scope, request.origin, request)
    if request.whole_space is not None:
        if request.whole_space != scope.space:
            raise InvalidInput(field="whole_space", problem="does not match the space of the scope: repeat its name")
        return await erase_space(ctx, scope, request)
    if not request.ids:
        way_out = "pass the memories as ids, or their origin, or repeat the name of the space in whole_space"
        raise ScopeMissing(operation="erase", way_out=way_out)
    return await erase_memories(ctx, scope, request)


async def _derived_memories(
    ctx: OperationContext, scope: Scope, messages: Iterable[MessageMemory], changed_refs: Collection[DocumentRef]
) -> tuple[str, ...]:
    """Return the recalled memories that are based on `messages`, which are hidden now."""
    message_ids = {message.id for message in messages}
    if not message_ids:
        return ()
    dependants = [
        one async for one in space_dependants(ctx, scope.space) if not one.is_hidden and one.ref not in changed_refs
    ]
    return tuple(one.id for one in dependants if one.rests_on(message_ids))


def _audit_events(
    ctx: OperationContext,
    request: MemoryForgetRequest,
    decisions: Iterable[ControlDecision],
    memories: Mapping[str, Memory | None],
    at: Instant,
) -> dict[DocumentRef, list[AuditEvent]]:
    """Return what was done to each document that a request changes."""
    action = AuditAction.RESTORED if request.undo else AuditAction.FORGOTTEN
    events: dict[DocumentRef, list[AuditEvent]] = {}
    for decision in decisions:
        memory = memories[decision.id]
        if memory is not None and decision.outcome is ControlOutcome.CHANGED:
            message_part = memory.part if isinstance(memory, MessageMemory) else None
            events.setdefault(memory.ref, []).append(
                event_of(ctx, action, at=at, reason=request.reason, part=message_part)
            )
    return events


def _hide_memory(
    memory_id: str,
    memory: Memory | None,
    request: MemoryForgetRequest,
    changed_values: dict[DocumentRef, tuple[Value, int]],
    now: Instant,
) -> ControlDecision:
    if memory is None:
        return ControlDecision(id=memory_id, outcome=ControlOutcome.NOT_FOUND)
    value = (
        _shown_value(memory, changed_values) if request.undo else _hidden_value(memory, request, changed_values, now)
    )
    if value is None:
        return _unchanged_decision(memory_id, memory, NOT_FORGOTTEN if request.undo else _gone_reason(memory))
    changed_values[memory.ref] = (value, memory.revision)
    return ControlDecision(id=memory_id, outcome=ControlOutcome.CHANGED, plane=memory.plane)


def _gone_reason(memory: Memory) -> str:
    """Return why a memory is not forgotten now."""
    if isinstance(memory, StoredMemory) and memory.home.forgotten_at is None:
        return CANNOT_BE_HIDDEN
    gone_state = memory.fact.state if isinstance(memory, FactMemory) else FactState.FORGOTTEN
    return CLOSED_REASONS[gone_state]


def _unchanged_decision(memory_id: str, memory: Memory, reason: str) -> ControlDecision:
    return ControlDecision(id=memory_id, outcome=ControlOutcome.UNCHANGED, plane=memory.plane, reason=reason)


class _HeldSlot(NamedTuple):
    """Slot of a fact, and its versions, oldest first."""

    slot: StoredSlot
    versions: list[Fact]


async def _fact_slots(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, memories: Iterable[Memory | None]
) -> dict[DocumentRef, _HeldSlot]:
    """Return the slot of each fact among `memories`."""
    facts = {memory.ref: key_of(memory.fact) for memory in memories if isinstance(memory, FactMemory)}
    slots = await read_slots(ctx.store, scope.space, record, facts.values())
    versions = {ref: _HeldSlot(slot, await versions_of(ctx.store, scope.space, slot)) for ref, slot in slots.items()}
    return {ref: versions[slot_ref(record, key)] for ref, key in facts.items()}


def _is_taken(
    memory: Memory | None,
    slots: Mapping[DocumentRef, _HeldSlot],
    changed_values: Mapping[DocumentRef, tuple[Value, int]],
) -> TypeGuard[FactMemory]:
    """Return whether a forgotten fact's slot now has another value for its time, or will have with `changed_values`."""
    if not isinstance(memory, FactMemory) or memory.fact.state is not FactState.FORGOTTEN:
        return False
    changed_facts = [value for value, _ in changed_values.values() if isinstance(value, Fact)]
    return is_taken(memory.fact, (*slots[memory.ref].versions, *_of_slot(memory, changed_facts)))


def _of_slot(memory: FactMemory, facts: Iterable[Fact]) -> list[Fact]:
    slot = memory.fact.kind, topic_key(memory.fact.topic), memory.fact.home
    return [fact for fact in facts if (fact.kind, topic_key(fact.topic), fact.home) == slot]


def _with_remaining(
    decisions: Iterable[ControlDecision],
    memories: Mapping[str, Memory | None],
    slots: Mapping[DocumentRef, _HeldSlot],
    changed_values: Mapping[DocumentRef, object],
) -> list[ControlDecision]:
    """Return the decisions on facts with the versions that recall still returns for other times."""
    hidden_keys = {ref.key for ref in changed_values}
    return [
        decision.model_copy(update={"remaining": remaining_of(slots[memory.ref].versions, without=hidden_keys)})
        if (memory := memories[decision.id]) is not None and memory.ref in slots
        else decision
        for decision in decisions
    ]


def _hidden_value(
    memory: Memory, request: MemoryForgetRequest, changed_values: dict[DocumentRef, tuple[Value, int]], now: Instant
) -> Value | None:
    """Return the document with the memory hidden, None if it already is."""
    match memory:
        case MessageMemory():
            return _with_forgotten(memory, changed_values, now) if memory.part not in memory.turn.forgotten else None
        case SkillMemory(skill=skill):
            return skill.model_copy(update={"forgotten_at": now}) if skill.forgotten_at is None else None
        case FactMemory(fact=fact):
            if not fact.is_believed:
                return None
            closing_reason = request.reason or "forgotten"
            return close_fact(fact, at=now, because=closing_reason, state=FactState.FORGOTTEN)
        case StoredMemory(value=value):
            return hide_value(value, now)
        case _:
            assert_never(memory)


def _shown_value(memory: Memory, changed_values: dict[DocumentRef, tuple[Value, int]]) -> Value | None:
    """Return the document with the memory shown again, None if it is not hidden."""
    match memory:
        case MessageMemory():
            return _with_forgotten(memory, changed_values, None) if memory.part in memory.turn.forgotten else None
        case SkillMemory(skill=skill):
            return skill.model_copy(update={"forgotten_at": None}) if skill.forgotten_at is not None else None
        case FactMemory(fact=fact):
            if fact.state is not FactState.FORGOTTEN:
                return None
            return reopen_fact(fact)
        case StoredMemory(value=value):
            return hide_value(value, None)
        case _:
            assert_never(memory)


def _with_forgotten(
    memory: MessageMemory, changed_values: dict[DocumentRef, tuple[Value, int]], forgotten_at: Instant | None
) -> Value:
    """Return the turn with this message's mark set, in addition to the same request's changes to its other messages."""
    changed_turn, _ = changed_values.get(memory.ref, (memory.turn, 0))
    assert isinstance(changed_turn, transcript.Turn)
    forgotten_parts = {part: at for part, at in changed_turn.forgotten.items() if part != memory.part}
    if forgotten_at is not None:
        forgotten_parts[memory.part] = forgotten_at
    return changed_turn.model_copy(update={"forgotten": dict(sorted(forgotten_parts.items()))})


def _control_report(
    scope: Scope, decisions: list[ControlDecision], *, sequence: int = 0, dry_run: bool = False
) -> MemoryControlReport:
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions),
        changed=any(decision.outcome is ControlOutcome.CHANGED for decision in decisions) and not dry_run,
        dry_run=dry_run,
        sequence=sequence,
        planes=touched_planes(decisions),
    )


async def get_memory(ctx: OperationContext, request: MemoryGetRequest, /) -> RecallHit:
    """Return the memory with this id, in any state. Raises NotFound, InvalidInput for a private memory."""
    memory = await must_find(ctx, ctx.scope_of(request), request.id)
    require_disclosed(memory, include_private=request.include_private)
    return cited_hit(hit_of(memory, ctx.clock.now()), ctx.scope_of(request).space)


async def list_memories(ctx: OperationContext, request: MemoryListRequest, /) -> MemoryListReport:
    """Return the page of memories after the cursor that pass the filters."""
    space = ctx.scope_of(request).space
    report = await (latest_page if request.order is ListOrder.LATEST else stored_page)(ctx, space, request)
    losses_of = ctx.losses.of if report.items else ctx.losses.fresh
    return report.model_copy(update={"losses": await losses_of(space)})


async def memory_history(ctx: OperationContext, request: MemoryHistoryRequest, /) -> MemoryHistoryReport:
    """Return the history of a memory, oldest first. Raises NotFound, InvalidInput for a private memory.

    A private document's text is never returned, nor masked or deleted text.
    """
    scope = ctx.scope_of(request)
    history = await history_of(ctx, scope, request.id, include_private=request.include_private)
    return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(history))
