"""The verbs that change or remove: forget (reversible), correct (history kept), erase (physically gone)."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeGuard, assert_never

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.plane_documents import KeptMemory, hidden, touched
from elytron.documents.slots import StoredSlot, key_of, read_slots, remaining_of, slot_ref, versions_of
from elytron.erasure.dependants import dependants
from elytron.erasure.origins import erase_origin
from elytron.erasure.removal import erase_memories, erase_space
from elytron.intake.texts import admitting
from elytron.memories.audit_trail import event_of, note
from elytron.memories.lookup import FactMemory, Memory, SkillMemory, TurnMemory, find_all
from elytron.memories.tombstones import bury, exhume
from elytron.writes.knowledge.fact_changes import plan_change
from elytron.writes.settlement import Settled, settle_report
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import (
    ControlDecision,
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
)
from elytron_core.contracts.knowledge.facts import FactAction, FactChangeRequest
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.admin.audit import AuditAction, AuditEvent
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission.fact_control import CANNOT_BE_HIDDEN, GONE, NOT_FORGOTTEN, SLOT_TAKEN, require_fields
from elytron_core.policy.temporal import slot_versions
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope


@admitting
async def forget(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide memories from recall, or with `undo` show them again; all in one batch.

    A forgotten fact is not learned again until its topic is allowed.
    """
    return await _forget(ctx, request, buries=True)


async def retire(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide memories that are out of date; they may be learned again."""
    return await _forget(ctx, request, buries=False)


async def _forget(ctx: OperationContext, request: MemoryForgetRequest, *, buries: bool) -> MemoryControlReport:
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> Settled[MemoryControlReport]:
        found = await find_all(ctx, scope, request.ids)
        now = ctx.clock.now()
        changed: dict[Ref, tuple[Value, int]] = {}
        slots = await _slots(ctx, scope, record, found.values())
        decisions = [
            _hide(memory_id, memory, request, changed, now)
            if not request.undo or not _is_taken(memory, slots, changed)
            else _unchanged(memory_id, memory, SLOT_TAKEN)
            for memory_id, memory in found.items()
        ]
        decisions = _with_remaining(decisions, found, slots, changed) if not request.undo else decisions
        derived = await _derived(ctx, scope, found.values(), changed) if not request.undo else ()
        report = _report(scope, decisions, dry_run=request.dry_run).model_copy(update={"derived": derived})
        if not report.changed:
            return Settled(report)
        changes = Changes(record)
        action = Action.OPERATOR if request.undo else Action.DELETE
        for ref, (value, revision) in changed.items():
            changes.put(ref, value, expects=revision, action=action)
        facts = [memory.fact for memory in found.values() if isinstance(memory, FactMemory) and memory.ref in changed]
        if request.undo:
            await exhume(ctx, scope.space, record, changes, facts)
            # A slot gets another revision: a write that was judged without its fact is judged again.
            for slot in {slots[ref].slot.ref: slots[ref].slot for ref in changed if ref in slots}.values():
                slot.put(changes)
        elif buries:
            await bury(ctx, scope.space, record, changes, facts, at=now)
        await note(ctx, scope.space, record, changes, _events(ctx, request, decisions, found, now))
        return Settled(report, changes)

    return await settle_report(ctx, scope.space, plan, takes_back=not request.undo)


@admitting
async def correct(ctx: OperationContext, request: MemoryCorrectRequest, /) -> MemoryControlReport:
    """Put a new content in the place of a fact; the old one stays in history as wrong. Raises NotFound.

    Evidence is not corrected: what was said was said. Raises InvalidInput for a turn or skill, for a fact that is
    not believed any more, and for a blank content.
    """
    scope = ctx.scope_of(request)
    asked = FactChangeRequest(
        id=request.id,
        action=FactAction.CORRECT,
        content=request.content,
        reason=request.reason,
        dry_run=request.dry_run,
    )
    require_fields(asked)
    plan = partial(plan_change, ctx, scope, scope.conversation_key, asked)
    change = await settle_report(ctx, scope.space, plan)
    decision = ControlDecision(
        id=request.id, outcome=change.outcome, plane=Plane.LONG_TERM, new_id=change.new_id, reason=change.reason
    )
    return _report(scope, [decision], sequence=change.sequence, dry_run=request.dry_run)


@admitting
async def erase(ctx: OperationContext, request: MemoryEraseRequest, /) -> MemoryControlReport:
    """Remove memories, or the whole space, so that no byte of them is left in the store. Raises ScopeMissing."""
    scope = ctx.scope_of(request)
    given = {"ids": bool(request.ids), "origin": request.origin, "whole_space": request.whole_space is not None}
    field, *others = [name for name, value in given.items() if value] or ["ids"]
    if others:
        raise InvalidInput(field=field, problem=f"and {others[0]} are both given: say one")
    if request.origin is not None:
        return await erase_origin(ctx, scope, request.origin, request)
    if request.whole_space is not None:
        if request.whole_space != scope.space:
            raise InvalidInput(field="whole_space", problem="is not the name of the scope's space: repeat that name")
        return await erase_space(ctx, scope, request)
    if not request.ids:
        way_out = "name the memories in ids, or their origin, or repeat the space in whole_space"
        raise ScopeMissing(operation="erase", way_out=way_out)
    return await erase_memories(ctx, scope, request)


async def _derived(
    ctx: OperationContext, scope: Scope, found: Iterable[Memory | None], changed: Mapping[Ref, object]
) -> tuple[str, ...]:
    """Return the memories that rest on the messages which are hidden now, and are recalled still."""
    names = {
        transcript.message_id(TurnId(memory.ref.key), memory.part)
        for memory in found
        if isinstance(memory, TurnMemory) and memory.ref in changed
    }
    if not names:
        return ()
    shown = [one async for one in dependants(ctx, scope.space) if not one.is_hidden and one.ref not in changed]
    return tuple(one.id for one in shown if one.rests_on(names))


def _events(
    ctx: OperationContext,
    request: MemoryForgetRequest,
    decisions: Iterable[ControlDecision],
    found: Mapping[str, Memory | None],
    at: Instant,
) -> dict[Ref, list[AuditEvent]]:
    """Return what was done to each document that a request changes."""
    action = AuditAction.RESTORED if request.undo else AuditAction.FORGOTTEN
    events: dict[Ref, list[AuditEvent]] = {}
    for decision in decisions:
        memory = found[decision.id]
        if memory is not None and decision.outcome is ControlOutcome.CHANGED:
            part = memory.part if isinstance(memory, TurnMemory) else None
            events.setdefault(memory.ref, []).append(event_of(ctx, action, at=at, reason=request.reason, part=part))
    return events


def _hide(
    memory_id: str,
    memory: Memory | None,
    request: MemoryForgetRequest,
    changed: dict[Ref, tuple[Value, int]],
    now: Instant,
) -> ControlDecision:
    if memory is None:
        return ControlDecision(id=memory_id, outcome=ControlOutcome.NOT_FOUND)
    value = _shown(memory, changed) if request.undo else _hidden(memory, request, changed, now)
    if value is None:
        return _unchanged(memory_id, memory, NOT_FORGOTTEN if request.undo else _gone(memory))
    changed[memory.ref] = (value, memory.revision)
    return ControlDecision(id=memory_id, outcome=ControlOutcome.CHANGED, plane=memory.plane)


def _gone(memory: Memory) -> str:
    """Return why a memory is not forgotten now."""
    if isinstance(memory, KeptMemory) and memory.home.forgotten_at is None:
        return CANNOT_BE_HIDDEN
    state = memory.fact.state if isinstance(memory, FactMemory) else long_term.State.FORGOTTEN
    return GONE[state]


def _unchanged(memory_id: str, memory: Memory, reason: str) -> ControlDecision:
    return ControlDecision(id=memory_id, outcome=ControlOutcome.UNCHANGED, plane=memory.plane, reason=reason)


class _Held(NamedTuple):
    """Slot of a fact, and its versions, oldest first."""

    slot: StoredSlot
    versions: list[long_term.Fact]


async def _slots(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, memories: Iterable[Memory | None]
) -> dict[Ref, _Held]:
    """Return the slot of each fact among `memories`."""
    facts = {memory.ref: key_of(memory.fact) for memory in memories if isinstance(memory, FactMemory)}
    slots = await read_slots(ctx.store, scope.space, record, facts.values())
    held = {ref: _Held(slot, await versions_of(ctx.store, scope.space, slot)) for ref, slot in slots.items()}
    return {ref: held[slot_ref(record, key)] for ref, key in facts.items()}


def _is_taken(
    memory: Memory | None,
    slots: Mapping[Ref, _Held],
    changed: Mapping[Ref, tuple[Value, int]],
) -> TypeGuard[FactMemory]:
    """Return whether a forgotten fact's slot has another value for its time by now, or will have with `changed`."""
    if not isinstance(memory, FactMemory) or memory.fact.state is not long_term.State.FORGOTTEN:
        return False
    pending = [value for value, _ in changed.values() if isinstance(value, long_term.Fact)]
    return slot_versions.is_taken(memory.fact, (*slots[memory.ref].versions, *_of_slot(memory, pending)))


def _of_slot(memory: FactMemory, facts: Iterable[long_term.Fact]) -> list[long_term.Fact]:
    slot = memory.fact.kind, long_term.topic_key(memory.fact.topic), memory.fact.home
    return [fact for fact in facts if (fact.kind, long_term.topic_key(fact.topic), fact.home) == slot]


def _with_remaining(
    decisions: Iterable[ControlDecision],
    found: Mapping[str, Memory | None],
    slots: Mapping[Ref, _Held],
    changed: Mapping[Ref, object],
) -> list[ControlDecision]:
    """Return the decisions on facts with the versions that recall still gives for other times."""
    gone = {ref.key for ref in changed}
    return [
        decision.model_copy(update={"remaining": remaining_of(slots[memory.ref].versions, without=gone)})
        if (memory := found[decision.id]) is not None and memory.ref in slots
        else decision
        for decision in decisions
    ]


def _hidden(
    memory: Memory, request: MemoryForgetRequest, changed: dict[Ref, tuple[Value, int]], now: Instant
) -> Value | None:
    """Return the document with the memory hidden, None if it is already."""
    match memory:
        case TurnMemory():
            return _with_forgotten(memory, changed, now) if memory.part not in memory.turn.forgotten else None
        case SkillMemory(skill=skill):
            return skill.model_copy(update={"forgotten_at": now}) if skill.forgotten_at is None else None
        case FactMemory(fact=fact):
            if not fact.is_believed:
                return None
            because = request.reason or "forgotten"
            return long_term.close(fact, at=now, because=because, state=long_term.State.FORGOTTEN)
        case KeptMemory(value=value):
            return hidden(value, now)
        case _:
            assert_never(memory)


def _shown(memory: Memory, changed: dict[Ref, tuple[Value, int]]) -> Value | None:
    """Return the document with the memory shown again, None if it is not hidden."""
    match memory:
        case TurnMemory():
            return _with_forgotten(memory, changed, None) if memory.part in memory.turn.forgotten else None
        case SkillMemory(skill=skill):
            return skill.model_copy(update={"forgotten_at": None}) if skill.forgotten_at is not None else None
        case FactMemory(fact=fact):
            if fact.state is not long_term.State.FORGOTTEN:
                return None
            return long_term.reopen(fact)
        case KeptMemory(value=value):
            return hidden(value, None)
        case _:
            assert_never(memory)


def _with_forgotten(memory: TurnMemory, changed: dict[Ref, tuple[Value, int]], forgotten_at: Instant | None) -> Value:
    """Return the turn with this message's mark set, upon what the same request did to its other messages."""
    pending, _ = changed.get(memory.ref, (memory.turn, 0))
    assert isinstance(pending, transcript.Turn)
    forgotten = {part: at for part, at in pending.forgotten.items() if part != memory.part}
    if forgotten_at is not None:
        forgotten[memory.part] = forgotten_at
    return pending.model_copy(update={"forgotten": dict(sorted(forgotten.items()))})


def _report(
    scope: Scope, decisions: list[ControlDecision], *, sequence: int = 0, dry_run: bool = False
) -> MemoryControlReport:
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions),
        changed=any(decision.outcome is ControlOutcome.CHANGED for decision in decisions) and not dry_run,
        dry_run=dry_run,
        sequence=sequence,
        planes=touched(decisions),
    )
