"""mem0's update: a fact is corrected, and a message is replaced by its owner's edit. A flow of add and forget."""

from elytron.api import arguments
from elytron.api.base import Face
from elytron.api.metadata_filters import filters_from
from elytron_core.contracts.conversation.write import MemoryWriteReport, MemoryWriteRequest
from elytron_core.contracts.knowledge.control import (
    ControlDecision,
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.errors import InvalidInput
from elytron_core.scope import Scope

EDIT_OF = "edit_of"
"""Metadata of an edited message: the id of the one that it replaces."""


async def update(memory: Face, memory_id: str, text: str, /, *, user_id: str | None) -> MemoryControlReport:
    """Give a memory another text; the report names the new memory's id. Its earlier text stays in history."""
    scope = arguments.scope_of(memory.scope, user_id=user_id)
    asked = MemoryGetRequest(scope=scope, id=memory_id, include_private=True)
    found = await _latest(memory, scope, await memory.operate(asked, RecallHit))
    match found.plane:
        case Plane.LONG_TERM:
            correction = MemoryCorrectRequest(scope=scope, id=memory_id, content=text)
            return await memory.operate(correction, MemoryControlReport)
        case Plane.TRANSCRIPT:
            return await _edit(memory, scope, found, text)
        case _:
            raise InvalidInput(field="memory_id", problem=f"is of {found.plane.value}: messages and facts are updated")


async def _latest(memory: Face, scope: Scope | None, found: RecallHit) -> RecallHit:
    """Return what is shown for a memory: itself, or the edit of it that was not edited since."""
    while found.plane is Plane.TRANSCRIPT:
        asked = MemoryListRequest(scope=scope, filters=filters_from({EDIT_OF: found.id}), include_private=True)
        edits = (await memory.operate(asked, MemoryListReport)).items
        if not edits:
            break
        found = edits[-1]
    return found


async def _edit(memory: Face, scope: Scope | None, found: RecallHit, text: str) -> MemoryControlReport:
    """Store the edit as said by the same speaker at the same time, then hide the message: never is neither shown."""
    said = {"role": found.role, "content": text, "name": found.speaker, "timestamp": found.at}
    write = arguments.transcript_of([said], tags=found.tags, metadata=found.metadata | {EDIT_OF: found.id})
    place = scope
    if scope is not None:
        place = scope.model_copy(update={"channel": found.channel, "conversation": found.conversation, "chat": None})
    written = await memory.operate(MemoryWriteRequest(scope=place, write=write), MemoryWriteReport)
    (stored,) = written.decisions
    if stored.id is None:
        raise InvalidInput(field="text", problem=f"was not stored: {stored.reason or stored.outcome.value}")
    hiding = MemoryForgetRequest(scope=scope, ids=(found.id,), reason=f"edited: {stored.id} replaces it")
    hidden = await memory.operate(hiding, MemoryControlReport)
    decision = ControlDecision(id=found.id, outcome=ControlOutcome.CHANGED, plane=found.plane, new_id=stored.id)
    return hidden.model_copy(update={"decisions": (decision,)})
