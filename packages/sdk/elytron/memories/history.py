"""History of a memory: its versions and what was done to it, oldest first."""

from collections.abc import Sequence
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.planes import StoredMemory, at_of, forgotten_at, text_of
from elytron.documents.stored_values import (
    key_of,
    read_slot,
    versions_of,
)
from elytron.memories.audit_trail import audit_trails, with_trail
from elytron.memories.lookup import (
    FactMemory,
    Memory,
    MessageMemory,
    SkillMemory,
    find_memory,
    may_disclose,
    must_find,
    require_disclosed,
)
from elytron.state.space_records import REF
from elytron_core.clock import late_recording
from elytron_core.contracts.memories import HistoryEvent, HistoryItem
from elytron_core.contracts.recall import RecallPlane
from elytron_core.planes import candidates, skills, transcript
from elytron_core.planes.audit_trail import WHOLE_SPACE, AuditAction, AuditTrail
from elytron_core.planes.facts import FACTS, Fact, FactState
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope

_HIDINGS = frozenset((AuditAction.FORGOTTEN, AuditAction.RESTORED))
"""Calls that change how a memory is stored, but none of its words."""


async def history_of(
    ctx: OperationContext, scope: Scope, memory_id: str, /, *, include_private: bool
) -> Sequence[HistoryItem]:
    """Return the history of a memory, oldest first. Raises NotFound, InvalidInput for a private memory."""
    if memory_id == WHOLE_SPACE:
        return with_trail((), await _memory_trail(ctx, scope, REF), memory=WHOLE_SPACE)
    if skill_items := await _of_gone_skill(ctx, scope, memory_id):
        return skill_items
    memory = await _must_find_trace(ctx, scope, memory_id)
    if memory.plane is not RecallPlane.PRIVATE_GARDEN:
        require_disclosed(memory, include_private=include_private)
    part = None
    trail = await _memory_trail(ctx, scope, memory.ref)
    match memory:
        case FactMemory(fact=fact):
            return await _of_slot_read(ctx, scope, fact, include_private=include_private)
        case MessageMemory(turn=turn, part=part):
            history = _of_message(memory_id, turn, part)
        case SkillMemory(skill=skill):
            history = _of_skill(memory_id, skill)
        case StoredMemory():
            history = _of_kept(memory_id, memory, trail)
        case _:
            assert_never(memory)
    return with_trail(history, trail, memory=memory_id, part=part)


async def _must_find_trace(ctx: OperationContext, scope: Scope, memory_id: str) -> Memory:
    """Return the memory with this id, including a message whose text was masked or deleted. Raises NotFound."""
    memory = await find_memory(ctx, scope, memory_id)
    if isinstance(memory, MessageMemory) and memory.turn.redaction is not transcript.TextRedaction.RAW_AVAILABLE:
        return memory
    return await must_find(ctx, scope, memory_id)


def _of_message(memory: str, turn: transcript.Turn, part: int) -> list[HistoryItem]:
    text = turn.messages[part].text if turn.is_readable(part) else None
    said_at = turn.messages[part].at
    future_claim = said_at if late_recording(said_at, turn.recorded_at) is not None else None
    items = [HistoryItem(id=memory, event=HistoryEvent.ADDED, at=turn.recorded_at, claimed_at=future_claim, text=text)]
    if part in turn.forgotten:
        items.append(HistoryItem(id=memory, event=HistoryEvent.FORGOTTEN, at=turn.forgotten[part]))
    return items


def _of_skill(memory: str, skill: skills.Skill) -> list[HistoryItem]:
    items = [HistoryItem(id=memory, event=HistoryEvent.ADDED, at=skill.recorded_at)]
    if skill.revision_count > 1:
        items.append(HistoryItem(id=memory, event=HistoryEvent.SUPERSEDED, at=skill.updated_at, text=skill.summary))
    if skill.forgotten_at is not None:
        items.append(HistoryItem(id=memory, event=HistoryEvent.FORGOTTEN, at=skill.forgotten_at))
    return items


async def _of_gone_skill(ctx: OperationContext, scope: Scope, name: str) -> list[HistoryItem]:
    """Return the history of a deleted runtime skill; empty for any other memory."""
    record = await ctx.spaces.find(scope.space)
    if record is None or not name.startswith(skills.NAME_PREFIX):
        return []
    ref = DocumentRef(skills.SKILLS, record.skill_tag(name))
    (document,) = await ctx.store.get(scope.space, (ref,))
    return with_trail((), await _memory_trail(ctx, scope, ref), memory=name) if document is None else []


def _of_kept(memory_id: str, memory: StoredMemory, trail: AuditTrail | None) -> list[HistoryItem]:
    """Return the latest words of a memory that is overwritten in place; a private document's text is not shown."""
    hiding_count = sum(event.action in _HIDINGS for event in trail.events) if trail is not None else 0
    is_private = memory.plane is RecallPlane.PRIVATE_GARDEN
    value = memory.value
    # Hiding and showing again raise the revision and change no word.
    event = HistoryEvent.ADDED if memory.revision - hiding_count <= 1 else HistoryEvent.SUPERSEDED
    text = None if is_private else text_of(value)
    items = [HistoryItem(id=memory_id, event=event, at=at_of(value), text=text)]
    if isinstance(value, candidates.Candidate) and value.resolved_at is not None:
        resolution_event = HistoryEvent.CONFIRMED if value.became is not None else HistoryEvent.DELETED
        items.append(HistoryItem(id=memory_id, event=resolution_event, at=value.resolved_at, reason=value.resolution))
    elif (at := forgotten_at(value)) is not None:
        items.append(HistoryItem(id=memory_id, event=HistoryEvent.FORGOTTEN, at=at))
    return items


async def _memory_trail(ctx: OperationContext, scope: Scope, ref: DocumentRef) -> AuditTrail | None:
    record = await ctx.spaces.find(scope.space)
    return (await audit_trails(ctx, scope.space, record, (ref,))).get(ref)


async def _of_slot_read(ctx: OperationContext, scope: Scope, fact: Fact, *, include_private: bool) -> list[HistoryItem]:
    """Return the history of every version of the fact's slot, without texts that may not be shown."""
    versions = await _slot_versions(ctx, scope, fact)
    record = await ctx.spaces.find(scope.space)
    refs = {version.id: DocumentRef(FACTS, version.id) for version in versions}
    trails = await audit_trails(ctx, scope.space, record, refs.values())
    history: list[HistoryItem] = []
    for fact_version in versions:
        items = _of_fact(fact_version, is_shown=may_disclose(fact_version, include_private=include_private))
        history += with_trail(items, trails.get(refs[fact_version.id]), memory=fact_version.id)
    return history


async def _slot_versions(ctx: OperationContext, scope: Scope, fact: Fact) -> list[Fact]:
    """Return every stored version of the fact's slot, oldest first."""
    record: SpaceRecord | None = await ctx.spaces.find(scope.space)
    if record is None:
        return [fact]  # the space was erased since
    slot = await read_slot(ctx.store, scope.space, record, key_of(fact))
    return await versions_of(ctx.store, scope.space, slot) or [fact]


_CLOSED = {
    FactState.SUPERSEDED: HistoryEvent.SUPERSEDED,
    FactState.INVALIDATED: HistoryEvent.INVALIDATED,
    FactState.CORRECTED: HistoryEvent.CORRECTED,
    FactState.FORGOTTEN: HistoryEvent.FORGOTTEN,
    FactState.DELETED: HistoryEvent.DELETED,
}


def _of_fact(fact: Fact, *, is_shown: bool) -> list[HistoryItem]:
    text = fact.content if is_shown else None
    is_ahead = late_recording(fact.observed_at, fact.recorded_at) is not None
    claimed_at = fact.observed_at if is_ahead else None
    items = [HistoryItem(id=fact.id, event=HistoryEvent.ADDED, at=fact.recorded_at, claimed_at=claimed_at, text=text)]
    if fact.evidence_count > 1:
        items.append(HistoryItem(id=fact.id, event=HistoryEvent.CONFIRMED, at=max(fact.recorded_at, fact.confirmed_at)))
    if fact.closed_at is not None and fact.state in _CLOSED:
        closing_reason = fact.closed_because or ""
        items.append(HistoryItem(id=fact.id, event=_CLOSED[fact.state], at=fact.closed_at, reason=closing_reason))
    return items
