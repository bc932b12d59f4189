"""Finding a memory by its id: turn, turn#part, fact id, a skill's name, or a plane's word and key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from elytron.context import OperationContext
from elytron.documents.hits import fact_hit, skill_hit, turn_hit
from elytron.documents.plane_documents import KeptMemory, is_expired, kept, place_of
from elytron.documents.planes import HOMES
from elytron.documents.stored_values import documents_at
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.ids import FactId, TurnId, is_id
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Document, Ref, require_ref
from elytron_core.scope import Scope


@dataclass(frozen=True, slots=True)
class TurnMemory:
    """One message of a stored turn."""

    plane: ClassVar = Plane.TRANSCRIPT
    ref: Ref
    revision: int
    turn: transcript.Turn
    part: int


@dataclass(frozen=True, slots=True)
class FactMemory:
    """A stored fact."""

    plane: ClassVar = Plane.LONG_TERM
    ref: Ref
    revision: int
    fact: long_term.Fact


@dataclass(frozen=True, slots=True)
class SkillMemory:
    """A stored skill."""

    plane: ClassVar = Plane.PROCEDURAL
    ref: Ref
    revision: int
    skill: procedural.Skill


Memory = TurnMemory | FactMemory | SkillMemory | KeptMemory


def hit_of(memory: Memory, now: Instant, /) -> RecallHit:
    """Return how a memory looks, with how fresh it is at `now`."""
    match memory:
        case TurnMemory():
            return turn_hit(TurnId(memory.ref.key), memory.turn, memory.part)
        case FactMemory():
            return fact_hit(memory.fact, now=now)
        case SkillMemory():
            return skill_hit(memory.skill)
        case KeptMemory():
            return memory.found(now=now)


async def find(ctx: OperationContext, scope: Scope, memory_id: str, /) -> Memory | None:
    """Return the memory with this id, forgotten or closed ones too; None if there is none."""
    return (await find_all(ctx, scope, (memory_id,)))[memory_id]


async def find_all(ctx: OperationContext, scope: Scope, ids: Iterable[str], /) -> dict[str, Memory | None]:
    """Return the memory with each of `ids`, as `find` does."""
    found, now = await find_stored(ctx, scope, ids), ctx.clock.now()
    return {
        memory_id: None if memory is None or is_gone(memory, now) else memory for memory_id, memory in found.items()
    }


async def find_stored(ctx: OperationContext, scope: Scope, ids: Iterable[str], /) -> dict[str, Memory | None]:
    """Return the memory with each of `ids`, erased messages of turns that are still there among them."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return dict.fromkeys(ids)
    places = {memory_id: place(record, memory_id) for memory_id in ids}
    found = await stored_at(ctx, scope, dict.fromkeys(ref for ref, _ in places.values() if ref is not None))
    return {
        memory_id: _part_of(found[ref], part) if ref is not None and ref in found else None
        for memory_id, (ref, part) in places.items()
    }


async def stored_at(ctx: OperationContext, scope: Scope, refs: Iterable[Ref], /) -> dict[Ref, Memory]:
    """Return the memory at each of `refs` that exists; of a turn its first message."""
    return {ref: _stored(document) for ref, document in (await documents_at(ctx.store, scope.space, refs)).items()}


def _stored(document: Document) -> Memory:
    """Return what a document holds; of a turn its first message."""
    ref, revision = document.ref, document.revision
    match ref.collection:
        case long_term.FACTS:
            return FactMemory(ref, revision, long_term.Fact.from_bytes(document.body))
        case procedural.SKILLS:
            return SkillMemory(ref, revision, procedural.Skill.from_bytes(document.body))
        case collection if collection in HOMES:
            return kept(document)
        case _:
            return TurnMemory(ref, revision, transcript.Turn.from_bytes(document.body), 0)


def _part_of(memory: Memory, part: int) -> Memory | None:
    if not isinstance(memory, TurnMemory):
        return memory
    return replace(memory, part=part) if part < len(memory.turn.messages) else None


def parts_of(document: Document, /) -> Sequence[Memory]:
    """Return the memories that a document holds: of a turn its messages, in their order."""
    memory = _stored(document)
    if not isinstance(memory, TurnMemory):
        return (memory,)
    return [replace(memory, part=part) for part in range(len(memory.turn.messages))]


def is_gone(memory: Memory, now: Instant, /) -> bool:
    """Return whether a stored memory is gone: an erased message, or one whose time to live is over."""
    if isinstance(memory, KeptMemory):
        return is_expired(memory.value, now)
    return isinstance(memory, TurnMemory) and memory.part in memory.turn.erased


async def must_find(ctx: OperationContext, scope: Scope, memory_id: str, /) -> Memory:
    """Return the memory with this id. Raises NotFound, also for a message that may not be read."""
    memory = await find(ctx, scope, memory_id)
    is_closed = isinstance(memory, TurnMemory) and not memory.turn.is_readable(memory.part)
    if memory is None or is_closed:
        raise NotFound(what="memory", name=memory_id)
    return memory


def place(record: SpaceRecord, memory_id: str, /) -> tuple[Ref | None, int]:
    """Return where a memory of this id would stand, and which part of the document it is."""
    if memory_id.startswith(procedural.NAME_PREFIX):
        return Ref(procedural.SKILLS, record.skill_tag(memory_id)), 0
    if is_id(memory_id):
        return Ref(long_term.FACTS, FactId(memory_id)), 0
    turn, _, part = memory_id.partition("#")
    ref = place_of(memory_id) or Ref(transcript.TURNS, turn)
    try:
        require_ref(ref)
    except InvalidInput:
        return None, 0
    is_part = not part or (part.isascii() and part.isdigit())
    return (ref, int(part or "0")) if is_part else (None, 0)
