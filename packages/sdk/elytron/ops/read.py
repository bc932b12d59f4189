"""Reading memories by id, as a list, and through time."""

import re
from collections.abc import AsyncIterator
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.cursor import CursorForm
from elytron.documents.hits import cited
from elytron.documents.plane_documents import KeptMemory, at_of, forgotten_at, text_of
from elytron.documents.planes import SHOWN
from elytron.documents.slots import key_of, read_slot, versions_of
from elytron.memories.audit_trail import trails, with_trail
from elytron.memories.disclosure import may_disclose, require_disclosed
from elytron.memories.latest import latest_memories
from elytron.memories.lookup import (
    FactMemory,
    Memory,
    SkillMemory,
    TurnMemory,
    find,
    hit_of,
    is_gone,
    must_find,
    parts_of,
)
from elytron.memories.stored_order import Mark, documents_as_stored
from elytron.recall.filters import is_meant, passes, wants
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import (
    Hidden,
    HistoryEvent,
    HistoryItem,
    ListOrder,
    MemoryGetRequest,
    MemoryHistoryReport,
    MemoryHistoryRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.audit import WHOLE_SPACE, AuditTrail
from elytron_core.planes.conversation import candidates, transcript
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Document, Ref
from elytron_core.scope import Scope

_ORDER = (
    (Plane.TRANSCRIPT, transcript.TURNS),
    (Plane.LONG_TERM, long_term.FACTS),
    (Plane.PROCEDURAL, procedural.SKILLS),
    *((home.plane, collection) for collection, home in SHOWN.items()),
)
_CURSOR = CursorForm(re.compile(r"([0-9]{1,16})\.([0-9]{1,16})\.([0-9]{1,16})\.(.+)", re.DOTALL), "a list report")


async def get(ctx: OperationContext, request: MemoryGetRequest, /) -> RecallHit:
    """Return the memory with this id, in any state. Raises NotFound, InvalidInput for a private memory."""
    memory = await must_find(ctx, ctx.scope_of(request), request.id)
    require_disclosed(memory, include_private=request.include_private)
    return cited(hit_of(memory, ctx.clock.now()), ctx.scope_of(request).space)


async def list_memories(ctx: OperationContext, request: MemoryListRequest, /) -> MemoryListReport:
    """Return the page of memories behind the cursor that pass the filters."""
    scope = ctx.scope_of(request)
    if request.order is ListOrder.LATEST:
        return await _latest(ctx, scope.space, request)
    items: list[RecallHit] = []
    cursors: list[str] = []
    lost = lost_before = 0
    async for cursor, hit in _walk(ctx, scope.space, request):
        if hit is None:
            lost += 1
            continue
        if len(items) == request.limit:
            told = MemoryListReport(space=scope.space, items=tuple(items), lost=lost_before)
            return told.model_copy(update={"next_cursor": cursors[-1], "has_more": True})
        items.append(cited(hit, scope.space))
        cursors.append(cursor)
        lost_before = lost
    return MemoryListReport(space=scope.space, items=tuple(items), lost=lost)


async def history(ctx: OperationContext, request: MemoryHistoryRequest, /) -> MemoryHistoryReport:
    """Return the history of a memory, oldest first. Raises NotFound, InvalidInput for a private memory.

    A private document's text is never returned, nor masked or deleted text.
    """
    scope = ctx.scope_of(request)
    if request.id == WHOLE_SPACE:
        items = with_trail((), await _trail(ctx, scope, REF), memory=WHOLE_SPACE)
        return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(items))
    gone = await _of_gone_skill(ctx, scope, request.id)
    if gone:
        return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(gone))
    memory = await _must_find_trace(ctx, scope, request.id)
    if memory.plane is not Plane.PRIVATE_GARDEN:
        require_disclosed(memory, include_private=request.include_private)
    part = None
    match memory:
        case FactMemory(fact=fact):
            told = await _of_slot(ctx, scope, fact, include_private=request.include_private)
            return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(told))
        case TurnMemory(turn=turn, part=part):
            items = _of_message(request.id, turn, part)
        case SkillMemory(skill=skill):
            items = _of_skill(request.id, skill)
        case KeptMemory():
            items = _of_kept(request.id, memory)
        case _:
            assert_never(memory)
    told = with_trail(items, await _trail(ctx, scope, memory.ref), memory=request.id, part=part)
    return MemoryHistoryReport(space=scope.space, id=request.id, items=tuple(told))


async def _latest(ctx: OperationContext, space: SpaceId, request: MemoryListRequest) -> MemoryListReport:
    if request.cursor is not None:
        raise InvalidInput(field="cursor", problem="is nothing for the order 'latest', which has one page")
    collections = {collection for plane, collection in _ORDER if wants(request.filters, plane)}
    now = ctx.clock.now()

    def listed(document: Document) -> list[RecallHit]:
        return [hit for _, hit in _hits(document, request, now)]

    found = await latest_memories(ctx, space, listed, collections=collections, limit=request.limit)
    return MemoryListReport(space=space, items=tuple(cited(hit, space) for hit in found))


def _hits(document: Document, request: MemoryListRequest, now: Instant) -> list[tuple[int, RecallHit]]:
    """Return the memories of a document that `request` asks for, each with its part."""
    asked = [(part, one) for part, one in enumerate(parts_of(document)) if _is_asked(one, request, now)]
    hits = [(part, _hit(memory, now)) for part, memory in asked]
    if request.include_private:
        return hits
    return [(part, hit) for part, hit in hits if hit.privacy is not long_term.Privacy.PRIVATE]


def _is_asked(memory: Memory, request: MemoryListRequest, now: Instant) -> bool:
    match request.hidden:
        case Hidden.LEFT_OUT:
            return passes(memory, request.filters, now)
        case Hidden.LISTED:
            return is_meant(memory, request.filters) and not is_gone(memory, now)
        case _:
            assert_never(request.hidden)


def _hit(memory: Memory, now: Instant) -> RecallHit:
    """Return the hit of a memory, without a text that may not be read."""
    hit = hit_of(memory, now)
    is_closed = isinstance(memory, TurnMemory) and not memory.turn.is_readable(memory.part)
    return hit.model_copy(update={"text": ""}) if is_closed else hit


async def _walk(
    ctx: OperationContext, space: SpaceId, request: MemoryListRequest
) -> AsyncIterator[tuple[str, RecallHit | None]]:
    """Yield each memory that passes, with the cursor that continues behind it; None is a lost one."""
    started, after, part_after = _parse_cursor(request.cursor)
    now = ctx.clock.now()
    for place, (plane, collection) in enumerate(_ORDER):
        if place < started or not wants(request.filters, plane):
            continue
        mark, parts = (after, part_after) if place == started else (None, -1)
        if mark is not None:
            (document,) = await ctx.store.get(space, (Ref(collection, mark.key),))
            for part, hit in _hits(document, request, now) if document is not None else ():
                if part > parts:
                    yield _cursor(place, part, mark), hit
        async for found, document in documents_as_stored(
            ctx, space, collection, after=mark, most_often=request.limit + 1
        ):
            if document is None:
                yield _cursor(place, 0, found), None
                continue
            for part, hit in _hits(document, request, now):
                yield _cursor(place, part, found), hit


def _cursor(place: int, part: int, mark: Mark) -> str:
    return f"{place}.{part}.{mark.number}.{mark.key}"


def _parse_cursor(cursor: str | None) -> tuple[int, Mark | None, int]:
    if cursor is None:
        return 0, None, -1
    *numbers, key = _CURSOR.parts(cursor)
    place, part, number = map(int, numbers)
    if place >= len(_ORDER) or part >= limits.MESSAGES_PER_TURN or number > limits.LATEST_MS:
        raise _CURSOR.refusal()
    return place, Mark(number, key), part


async def _must_find_trace(ctx: OperationContext, scope: Scope, memory_id: str) -> Memory:
    """Return the memory with this id, also a message whose text was masked or deleted. Raises NotFound."""
    memory = await find(ctx, scope, memory_id)
    if isinstance(memory, TurnMemory) and memory.turn.redaction is not transcript.Redaction.RAW_AVAILABLE:
        return memory
    return await must_find(ctx, scope, memory_id)


def _of_message(memory: str, turn: transcript.Turn, part: int) -> list[HistoryItem]:
    text = turn.messages[part].text if turn.is_readable(part) else None
    items = [HistoryItem(id=memory, event=HistoryEvent.ADDED, at=turn.recorded_at, text=text)]
    if part in turn.forgotten:
        items.append(HistoryItem(id=memory, event=HistoryEvent.FORGOTTEN, at=turn.forgotten[part]))
    return items


def _of_skill(memory: str, skill: procedural.Skill) -> list[HistoryItem]:
    items = [HistoryItem(id=memory, event=HistoryEvent.ADDED, at=skill.recorded_at)]
    if skill.revision_count > 1:
        items.append(HistoryItem(id=memory, event=HistoryEvent.SUPERSEDED, at=skill.updated_at, text=skill.summary))
    if skill.forgotten_at is not None:
        items.append(HistoryItem(id=memory, event=HistoryEvent.FORGOTTEN, at=skill.forgotten_at))
    return items


async def _of_gone_skill(ctx: OperationContext, scope: Scope, name: str) -> list[HistoryItem]:
    """Return what was done to a runtime skill that was deleted; nothing of any other memory."""
    record = await ctx.spaces.find(scope.space)
    if record is None or not name.startswith(procedural.NAME_PREFIX):
        return []
    ref = Ref(procedural.SKILLS, record.skill_tag(name))
    (document,) = await ctx.store.get(scope.space, (ref,))
    return with_trail((), await _trail(ctx, scope, ref), memory=name) if document is None else []


def _of_kept(memory_id: str, memory: KeptMemory) -> list[HistoryItem]:
    """Return the last words of what is written over; a private document keeps its text to itself."""
    is_private = memory.plane is Plane.PRIVATE_GARDEN
    value = memory.value
    event = HistoryEvent.ADDED if memory.revision == 1 else HistoryEvent.SUPERSEDED
    text = None if is_private else text_of(value)
    items = [HistoryItem(id=memory_id, event=event, at=at_of(value), text=text)]
    if isinstance(value, candidates.Candidate) and value.resolved_at is not None:
        resolved = HistoryEvent.CONFIRMED if value.became is not None else HistoryEvent.DELETED
        items.append(HistoryItem(id=memory_id, event=resolved, at=value.resolved_at, reason=value.resolution))
    elif (at := forgotten_at(value)) is not None:
        items.append(HistoryItem(id=memory_id, event=HistoryEvent.FORGOTTEN, at=at))
    return items


async def _trail(ctx: OperationContext, scope: Scope, ref: Ref) -> AuditTrail | None:
    record = await ctx.spaces.find(scope.space)
    return (await trails(ctx, scope.space, record, (ref,))).get(ref)


async def _of_slot(
    ctx: OperationContext, scope: Scope, fact: long_term.Fact, *, include_private: bool
) -> list[HistoryItem]:
    """Return what happened to every version of the fact's slot, without the texts of those that may not be shown."""
    versions = await _versions(ctx, scope, fact)
    record = await ctx.spaces.find(scope.space)
    refs = {version.id: Ref(long_term.FACTS, version.id) for version in versions}
    known = await trails(ctx, scope.space, record, refs.values())
    told: list[HistoryItem] = []
    for one in versions:
        items = _of_fact(one, is_shown=may_disclose(one, include_private=include_private))
        told += with_trail(items, known.get(refs[one.id]), memory=one.id)
    return told


async def _versions(ctx: OperationContext, scope: Scope, fact: long_term.Fact) -> list[long_term.Fact]:
    """Return every version of the fact's slot that is still kept, oldest first."""
    record: SpaceRecord | None = await ctx.spaces.find(scope.space)
    if record is None:
        return [fact]  # the space was erased since
    slot = await read_slot(ctx.store, scope.space, record, key_of(fact))
    return await versions_of(ctx.store, scope.space, slot) or [fact]


_CLOSED = {
    long_term.State.SUPERSEDED: HistoryEvent.SUPERSEDED,
    long_term.State.INVALIDATED: HistoryEvent.INVALIDATED,
    long_term.State.CORRECTED: HistoryEvent.CORRECTED,
    long_term.State.FORGOTTEN: HistoryEvent.FORGOTTEN,
    long_term.State.DELETED: HistoryEvent.DELETED,
}


def _of_fact(fact: long_term.Fact, *, is_shown: bool) -> list[HistoryItem]:
    text = fact.content if is_shown else None
    items = [HistoryItem(id=fact.id, event=HistoryEvent.ADDED, at=fact.recorded_at, text=text)]
    if fact.evidence_count > 1:
        items.append(HistoryItem(id=fact.id, event=HistoryEvent.CONFIRMED, at=max(fact.recorded_at, fact.confirmed_at)))
    if fact.closed_at is not None and fact.state in _CLOSED:
        because = fact.closed_because or ""
        items.append(HistoryItem(id=fact.id, event=_CLOSED[fact.state], at=fact.closed_at, reason=because))
    return items
