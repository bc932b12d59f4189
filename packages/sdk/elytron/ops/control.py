"""Read memories by id, as a list and through time; and forget, correct and erase them."""

import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeGuard, assert_never

from pydantic import ValidationError

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm, cited_hit
from elytron.documents.planes import LISTABLE, StoredMemory, at_of, forgotten_at, hide_value, text_of, touched_planes
from elytron.documents.stored_values import (
    ChangeSet,
    StoredSlot,
    key_of,
    read_slot,
    read_slots,
    remaining_of,
    slot_ref,
    versions_of,
)
from elytron.erasure.dependants import space_dependants
from elytron.erasure.removal import erase_memories, erase_origin, erase_space
from elytron.intake import admit_texts
from elytron.memories.audit_trail import audit_trails, event_of, note_events, with_trail
from elytron.memories.lookup import (
    DocumentMark,
    FactMemory,
    Memory,
    MessageMemory,
    SkillMemory,
    documents_as_stored,
    find_all,
    find_memory,
    hit_of,
    is_gone,
    latest_memories,
    may_disclose,
    must_find,
    parts_of,
    readable_hit,
    require_disclosed,
)
from elytron.memories.tombstones import add_tombstones, remove_tombstones
from elytron.memories.versions import latest_versions
from elytron.recall.filters import is_meant, passes_filters, wants_plane
from elytron.state.spaces import REF
from elytron.writes.commit import SettledChanges, settle_report
from elytron.writes.edits import edit_message
from elytron.writes.facts import plan_change
from elytron_core import limits
from elytron_core.clock import Instant, late_recording
from elytron_core.contracts.control import (
    ControlDecision,
    ControlOutcome,
    HiddenFilter,
    HistoryEvent,
    HistoryItem,
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
from elytron_core.contracts.facts import FactAction, FactChangeRequest
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.ids import SpaceId
from elytron_core.model import Value, invalid_input
from elytron_core.planes import candidates, skills, transcript
from elytron_core.planes.facts import FACTS, Fact, FactPrivacy, FactState, close_fact, is_taken, reopen_fact, topic_key
from elytron_core.planes.space import WHOLE_SPACE, AuditAction, AuditEvent, AuditTrail, SpaceRecord
from elytron_core.policy.admission.facts import CANNOT_BE_HIDDEN, NOT_FORGOTTEN, SLOT_TAKEN, WHY_GONE, require_fields
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import Scope


@admit_texts
async def forget_memories(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide memories from recall, or with `undo` show them again; all in one batch.

    A forgotten fact is not learned again until its topic is allowed.
    """
    return await _hide_memories(ctx, request, buries=True)


async def retire_memories(ctx: OperationContext, request: MemoryForgetRequest, /) -> MemoryControlReport:
    """Hide memories that are out of date; they may be learned again."""
    return await _hide_memories(ctx, request, buries=False)


async def _hide_memories(ctx: OperationContext, request: MemoryForgetRequest, *, buries: bool) -> MemoryControlReport:
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[MemoryControlReport]:
        targets, versions = await latest_versions(ctx, scope, await find_all(ctx, scope, request.ids))
        now = ctx.clock.now()
        changed: dict[DocumentRef, tuple[Value, int]] = {}
        slots = await _fact_slots(ctx, scope, record, targets.values())
        # In order: each decision sees what those before it have changed.
        decisions = [
            _hide_memory(memory_id, memory, request, changed, now)
            if not request.undo or not _is_taken(memory, slots, changed)
            else _unchanged_decision(memory_id, memory, SLOT_TAKEN)
            for memory_id, memory in targets.items()
        ]
        decisions = _with_remaining(decisions, targets, slots, changed) if not request.undo else decisions
        hidden_versions = [
            each for family in versions if family[-1].ref in changed for each in family if not request.undo
        ]
        derived = await _derived_memories(ctx, scope, hidden_versions, changed)
        report = _control_report(scope, decisions, dry_run=request.dry_run).model_copy(update={"derived": derived})
        if not report.changed:
            return SettledChanges(report)
        changes = ChangeSet(record)
        action = JournalAction.OPERATOR if request.undo else JournalAction.DELETE
        for ref, (value, revision) in changed.items():
            changes.put(ref, value, expects=revision, action=action)
        facts = [memory.fact for memory in targets.values() if isinstance(memory, FactMemory) and memory.ref in changed]
        if request.undo:
            await remove_tombstones(ctx, scope.space, record, changes, facts)
            # A slot gets another revision: a write that was judged without its fact is judged again.
            for slot in {slots[ref].slot.ref: slots[ref].slot for ref in changed if ref in slots}.values():
                slot.put(changes)
        elif buries:
            await add_tombstones(ctx, scope.space, record, changes, facts, at=now)
        await note_events(ctx, scope.space, record, changes, _audit_events(ctx, request, decisions, targets, now))
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan, takes_back=not request.undo)


@admit_texts
async def correct_memory(ctx: OperationContext, request: MemoryCorrectRequest, /) -> MemoryControlReport:
    """Put a new content in the place of a fact or message; history has both. Raises NotFound, InvalidInput."""
    scope = ctx.scope_of(request)
    if isinstance(await must_find(ctx, scope, request.id), MessageMemory):
        report, edited = await edit_message(ctx, scope, request)
        hidden_messages = (edited,) if report.planes else ()
        return report.model_copy(update={"derived": await _derived_memories(ctx, scope, hidden_messages, ())})
    try:
        change_request = FactChangeRequest(action=FactAction.CORRECT, **dict(request))
    except ValidationError as error:
        raise invalid_input(error) from None
    require_fields(change_request)
    plan = partial(plan_change, ctx, scope, scope.conversation_key, change_request)
    change = await settle_report(ctx, scope.space, plan)
    decision = ControlDecision(
        id=request.id, outcome=change.outcome, plane=RecallPlane.LONG_TERM, new_id=change.new_id, reason=change.reason
    )
    return _control_report(scope, [decision], sequence=change.sequence, dry_run=request.dry_run)


@admit_texts
async def erase_from_space(ctx: OperationContext, request: MemoryEraseRequest, /) -> MemoryControlReport:
    """Remove memories, or the whole space, so that no byte of them is left in the store. Raises ScopeMissing."""
    scope = ctx.scope_of(request)
    selectors = {"ids": bool(request.ids), "origin": request.origin, "whole_space": request.whole_space is not None}
    field, *others = [name for name, value in selectors.items() if value] or ["ids"]
    if others:
        raise InvalidInput(field=field, problem=f"and {others[0]} are both set: pass only one")
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
    ctx: OperationContext, scope: Scope, messages: Iterable[MessageMemory], changed: Collection[DocumentRef]
) -> tuple[str, ...]:
    """Return the memories that rest on `messages`, which are hidden now, and are recalled still."""
    names = {message.id for message in messages}
    if not names:
        return ()
    others = [one async for one in space_dependants(ctx, scope.space) if not one.is_hidden and one.ref not in changed]
    return tuple(one.id for one in others if one.rests_on(names))


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
            part = memory.part if isinstance(memory, MessageMemory) else None
            events.setdefault(memory.ref, []).append(event_of(ctx, action, at=at, reason=request.reason, part=part))
    return events


def _hide_memory(
    memory_id: str,
    memory: Memory | None,
    request: MemoryForgetRequest,
    changed: dict[DocumentRef, tuple[Value, int]],
    now: Instant,
) -> ControlDecision:
    if memory is None:
        return ControlDecision(id=memory_id, outcome=ControlOutcome.NOT_FOUND)
    value = _shown_value(memory, changed) if request.undo else _hidden_value(memory, request, changed, now)
    if value is None:
        return _unchanged_decision(memory_id, memory, NOT_FORGOTTEN if request.undo else _gone_reason(memory))
    changed[memory.ref] = (value, memory.revision)
    return ControlDecision(id=memory_id, outcome=ControlOutcome.CHANGED, plane=memory.plane)


def _gone_reason(memory: Memory) -> str:
    """Return why a memory is not forgotten now."""
    if isinstance(memory, StoredMemory) and memory.home.forgotten_at is None:
        return CANNOT_BE_HIDDEN
    state = memory.fact.state if isinstance(memory, FactMemory) else FactState.FORGOTTEN
    return WHY_GONE[state]


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
    changed: Mapping[DocumentRef, tuple[Value, int]],
) -> TypeGuard[FactMemory]:
    """Return whether a forgotten fact's slot has another value for its time by now, or will have with `changed`."""
    if not isinstance(memory, FactMemory) or memory.fact.state is not FactState.FORGOTTEN:
        return False
    pending = [value for value, _ in changed.values() if isinstance(value, Fact)]
    return is_taken(memory.fact, (*slots[memory.ref].versions, *_of_slot(memory, pending)))


def _of_slot(memory: FactMemory, facts: Iterable[Fact]) -> list[Fact]:
    slot = memory.fact.kind, topic_key(memory.fact.topic), memory.fact.home
    return [fact for fact in facts if (fact.kind, topic_key(fact.topic), fact.home) == slot]


def _with_remaining(
    decisions: Iterable[ControlDecision],
    memories: Mapping[str, Memory | None],
    slots: Mapping[DocumentRef, _HeldSlot],
    changed: Mapping[DocumentRef, object],
) -> list[ControlDecision]:
    """Return the decisions on facts with the versions that recall still gives for other times."""
    hidden_keys = {ref.key for ref in changed}
    return [
        decision.model_copy(update={"remaining": remaining_of(slots[memory.ref].versions, without=hidden_keys)})
        if (memory := memories[decision.id]) is not None and memory.ref in slots
        else decision
        for decision in decisions
    ]


def _hidden_value(
    memory: Memory, request: MemoryForgetRequest, changed: dict[DocumentRef, tuple[Value, int]], now: Instant
) -> Value | None:
    """Return the document with the memory hidden, None if it is already."""
    match memory:
        case MessageMemory():
            return _with_forgotten(memory, changed, now) if memory.part not in memory.turn.forgotten else None
        case SkillMemory(skill=skill):
            return skill.model_copy(update={"forgotten_at": now}) if skill.forgotten_at is None else None
        case FactMemory(fact=fact):
            if not fact.is_believed:
                return None
            because = request.reason or "forgotten"
            return close_fact(fact, at=now, because=because, state=FactState.FORGOTTEN)
        case StoredMemory(value=value):
            return hide_value(value, now)
        case _:
            assert_never(memory)


def _shown_value(memory: Memory, changed: dict[DocumentRef, tuple[Value, int]]) -> Value | None:
    """Return the document with the memory shown again, None if it is not hidden."""
    match memory:
        case MessageMemory():
            return _with_forgotten(memory, changed, None) if memory.part in memory.turn.forgotten else None
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
    memory: MessageMemory, changed: dict[DocumentRef, tuple[Value, int]], forgotten_at: Instant | None
) -> Value:
    """Return the turn with this message's mark set, upon what the same request did to its other messages."""
    pending, _ = changed.get(memory.ref, (memory.turn, 0))
    assert isinstance(pending, transcript.Turn)
    forgotten = {part: at for part, at in pending.forgotten.items() if part != memory.part}
    if forgotten_at is not None:
        forgotten[memory.part] = forgotten_at
    return pending.model_copy(update={"forgotten": dict(sorted(forgotten.items()))})


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


_HIDINGS = frozenset((AuditAction.FORGOTTEN, AuditAction.RESTORED))
"""Calls that change what is kept of a memory, and none of its words."""
_ORDER = (
    (RecallPlane.TRANSCRIPT, transcript.TURNS),
    (RecallPlane.LONG_TERM, FACTS),
    (RecallPlane.PROCEDURAL, skills.SKILLS),
    *((home.plane, collection) for collection, home in LISTABLE.items()),
)
_CURSOR = CursorForm(re.compile(r"([0-9]{1,16})\.([0-9]{1,16})\.([0-9]{1,16})\.(.+)", re.DOTALL), "a list report")


async def get_memory(ctx: OperationContext, request: MemoryGetRequest, /) -> RecallHit:
    """Return the memory with this id, in any state. Raises NotFound, InvalidInput for a private memory."""
    memory = await must_find(ctx, ctx.scope_of(request), request.id)
    require_disclosed(memory, include_private=request.include_private)
    return cited_hit(hit_of(memory, ctx.clock.now()), ctx.scope_of(request).space)


async def list_memories(ctx: OperationContext, request: MemoryListRequest, /) -> MemoryListReport:
    """Return the page of memories behind the cursor that pass the filters."""
    space = ctx.scope_of(request).space
    report = await (_latest_list if request.order is ListOrder.LATEST else _stored_list)(ctx, space, request)
    losses_of = ctx.losses.of if report.items else ctx.losses.fresh
    return report.model_copy(update={"losses": await losses_of(space)})


async def _stored_list(ctx: OperationContext, space: SpaceId, request: MemoryListRequest) -> MemoryListReport:
    items: list[RecallHit] = []
    cursors: list[str] = []
    lost = lost_before = 0
    async for cursor, hit in _walk_memories(ctx, space, request):
        if hit is None:
            lost += 1
            continue
        if len(items) == request.limit:
            page = MemoryListReport(space=space, items=tuple(items), lost=lost_before)
            return page.model_copy(update={"next_cursor": cursors[-1], "has_more": True})
        items.append(cited_hit(hit, space))
        cursors.append(cursor)
        # Lost ones behind the last item are counted by the next page.
        lost_before = lost
    return MemoryListReport(space=space, items=tuple(items), lost=lost)


async def memory_history(ctx: OperationContext, request: MemoryHistoryRequest, /) -> MemoryHistoryReport:
    """Return the history of a memory, oldest first. Raises NotFound, InvalidInput for a private memory.

    A private document's text is never returned, nor masked or deleted text.
    """
    scope = ctx.scope_of(request)
    if request.id == WHOLE_SPACE:
        items = with_trail((), await _memory_trail(ctx, scope, REF), memory=WHOLE_SPACE)
        return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(items))
    skill_items = await _of_gone_skill(ctx, scope, request.id)
    if skill_items:
        return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(skill_items))
    memory = await _must_find_trace(ctx, scope, request.id)
    if memory.plane is not RecallPlane.PRIVATE_GARDEN:
        require_disclosed(memory, include_private=request.include_private)
    part = None
    trail = await _memory_trail(ctx, scope, memory.ref)
    match memory:
        case FactMemory(fact=fact):
            history = await _of_slot_read(ctx, scope, fact, include_private=request.include_private)
            return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(history))
        case MessageMemory(turn=turn, part=part):
            items = _of_message(request.id, turn, part)
        case SkillMemory(skill=skill):
            items = _of_skill(request.id, skill)
        case StoredMemory():
            items = _of_kept(request.id, memory, trail)
        case _:
            assert_never(memory)
    history = with_trail(items, trail, memory=request.id, part=part)
    return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(history))


async def _latest_list(ctx: OperationContext, space: SpaceId, request: MemoryListRequest) -> MemoryListReport:
    if request.cursor is not None:
        raise InvalidInput(field="cursor", problem="is not supported with the order 'latest', which has a single page")
    collections = {collection for plane, collection in _ORDER if wants_plane(request.filters, plane)}
    now = ctx.clock.now()
    hits = await latest_memories(
        ctx,
        space,
        lambda document: [hit for _, hit in _document_hits(document, request, now)],
        collections=collections,
        limit=request.limit,
    )
    return MemoryListReport(space=space, items=tuple(cited_hit(hit, space) for hit in hits))


def _document_hits(document: Document, request: MemoryListRequest, now: Instant) -> list[tuple[int, RecallHit]]:
    """Return the memories of a document that `request` asks for, each with its part."""
    matches = [(part, one) for part, one in enumerate(parts_of(document)) if _is_asked(one, request, now)]
    hits = [(part, readable_hit(memory, now)) for part, memory in matches]
    if request.include_private:
        return hits
    return [(part, hit) for part, hit in hits if hit.privacy is not FactPrivacy.PRIVATE]


def _is_asked(memory: Memory, request: MemoryListRequest, now: Instant) -> bool:
    match request.hidden:
        case HiddenFilter.LEFT_OUT:
            return passes_filters(memory, request.filters, now)
        case HiddenFilter.LISTED:
            return is_meant(memory, request.filters) and not is_gone(memory, now)
        case _:
            assert_never(request.hidden)


async def _walk_memories(
    ctx: OperationContext, space: SpaceId, request: MemoryListRequest
) -> AsyncIterator[tuple[str, RecallHit | None]]:
    """Yield each memory that passes, with the cursor that continues behind it; None is a lost one."""
    started, after, part_after = _parse_cursor(request.cursor)
    now = ctx.clock.now()
    for place, (plane, collection) in enumerate(_ORDER):
        if place < started or not wants_plane(request.filters, plane):
            continue
        mark, parts = (after, part_after) if place == started else (None, -1)
        # The page before may have ended inside a document: its other parts come first.
        if mark is not None:
            (document,) = await ctx.store.get(space, (DocumentRef(collection, mark.key),))
            for part, hit in _document_hits(document, request, now) if document is not None else ():
                if part > parts:
                    yield _list_cursor(place, part, mark), hit
        async for document_mark, document in documents_as_stored(
            ctx, space, collection, after=mark, most_often=request.limit + 1
        ):
            if document is None:
                yield _list_cursor(place, 0, document_mark), None
                continue
            for part, hit in _document_hits(document, request, now):
                yield _list_cursor(place, part, document_mark), hit


def _list_cursor(place: int, part: int, mark: DocumentMark) -> str:
    return f"{place}.{part}.{mark.number}.{mark.key}"


def _parse_cursor(cursor: str | None) -> tuple[int, DocumentMark | None, int]:
    if cursor is None:
        return 0, None, -1
    *numbers, key = _CURSOR.parts(cursor)
    place, part, number = map(int, numbers)
    if place >= len(_ORDER) or part >= limits.MESSAGES_PER_TURN or number > limits.LATEST_MS:
        raise _CURSOR.refusal()
    return place, DocumentMark(number, key), part


async def _must_find_trace(ctx: OperationContext, scope: Scope, memory_id: str) -> Memory:
    """Return the memory with this id, also a message whose text was masked or deleted. Raises NotFound."""
    memory = await find_memory(ctx, scope, memory_id)
    if isinstance(memory, MessageMemory) and memory.turn.redaction is not transcript.TextRedaction.RAW_AVAILABLE:
        return memory
    return await must_find(ctx, scope, memory_id)


def _of_message(memory: str, turn: transcript.Turn, part: int) -> list[HistoryItem]:
    text = turn.messages[part].text if turn.is_readable(part) else None
    said_at = turn.messages[part].at
    claimed_at = said_at if late_recording(said_at, turn.recorded_at) is not None else None
    items = [HistoryItem(id=memory, event=HistoryEvent.ADDED, at=turn.recorded_at, claimed_at=claimed_at, text=text)]
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
    """Return what was done to a runtime skill that was deleted; nothing of any other memory."""
    record = await ctx.spaces.find(scope.space)
    if record is None or not name.startswith(skills.NAME_PREFIX):
        return []
    ref = DocumentRef(skills.SKILLS, record.skill_tag(name))
    (document,) = await ctx.store.get(scope.space, (ref,))
    return with_trail((), await _memory_trail(ctx, scope, ref), memory=name) if document is None else []


def _of_kept(memory_id: str, memory: StoredMemory, trail: AuditTrail | None) -> list[HistoryItem]:
    """Return the last words of what is written over; a private document keeps its text to itself."""
    hidden = sum(event.action in _HIDINGS for event in trail.events) if trail is not None else 0
    is_private = memory.plane is RecallPlane.PRIVATE_GARDEN
    value = memory.value
    # Hiding and showing again raise the revision and change no word.
    event = HistoryEvent.ADDED if memory.revision - hidden <= 1 else HistoryEvent.SUPERSEDED
    text = None if is_private else text_of(value)
    items = [HistoryItem(id=memory_id, event=event, at=at_of(value), text=text)]
    if isinstance(value, candidates.Candidate) and value.resolved_at is not None:
        resolved = HistoryEvent.CONFIRMED if value.became is not None else HistoryEvent.DELETED
        items.append(HistoryItem(id=memory_id, event=resolved, at=value.resolved_at, reason=value.resolution))
    elif (at := forgotten_at(value)) is not None:
        items.append(HistoryItem(id=memory_id, event=HistoryEvent.FORGOTTEN, at=at))
    return items


async def _memory_trail(ctx: OperationContext, scope: Scope, ref: DocumentRef) -> AuditTrail | None:
    record = await ctx.spaces.find(scope.space)
    return (await audit_trails(ctx, scope.space, record, (ref,))).get(ref)


async def _of_slot_read(ctx: OperationContext, scope: Scope, fact: Fact, *, include_private: bool) -> list[HistoryItem]:
    """Return what happened to every version of the fact's slot, without the texts of those that may not be shown."""
    versions = await _slot_versions(ctx, scope, fact)
    record = await ctx.spaces.find(scope.space)
    refs = {version.id: DocumentRef(FACTS, version.id) for version in versions}
    trails = await audit_trails(ctx, scope.space, record, refs.values())
    history: list[HistoryItem] = []
    for one in versions:
        items = _of_fact(one, is_shown=may_disclose(one, include_private=include_private))
        history += with_trail(items, trails.get(refs[one.id]), memory=one.id)
    return history


async def _slot_versions(ctx: OperationContext, scope: Scope, fact: Fact) -> list[Fact]:
    """Return every version of the fact's slot that is still kept, oldest first."""
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
        because = fact.closed_because or ""
        items.append(HistoryItem(id=fact.id, event=_CLOSED[fact.state], at=fact.closed_at, reason=because))
    return items
