"""The messages that a write cites: whether they are there, and whose word they are."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import values_at
from elytron_core.contracts.conversation.write import (
    FactDraft,
    LongTermExtraction,
    MemoryWrite,
    Outcome,
    Procedural,
    Verdict,
    WriteDecision,
)
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.contracts.planes import CapsuleDraft, CapsulesWrite, NotesWrite
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.planes.derived_refs import cited_turn, cites_transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.roles import Role
from elytron_core.policy.admission import candidates, rules
from elytron_core.ports.store import Ref

NOT_THERE: Final = "it cites a message that is not there"
_PLACES: Final = {
    "long_term": ("facts", Plane.LONG_TERM),
    "procedural": ("writes", Plane.PROCEDURAL),
    "notes": ("notes", Plane.ARCHIVE),
    "capsules": ("capsules", Plane.CONTINUITY),
}
"""By the kind of a write, the field of its items and their plane."""
_MACHINES: Final = rules.VOUCHED - {long_term.Authority.USER_ASSERTED}
Citing = LongTermExtraction | Procedural | NotesWrite | CapsulesWrite
"""Writes whose items cite messages. Candidates are judged by what they cite."""
CitingT = TypeVar("CitingT", bound=Citing)


async def cited_messages(
    ctx: OperationContext, space: SpaceId, citations: Iterable[str], /
) -> dict[str, candidates.Cited | None]:
    """Return the message at each citation that has the form of one of our messages, None if there is none."""
    ours = [name for name in citations if cites_transcript(name)]
    named = {name: place for name in ours if (place := cited_turn(name)) is not None}
    refs = [Ref(transcript.TURNS, turn) for turn, _ in named.values()]
    turns = await values_at(ctx.store, space, refs, transcript.Turn)
    return dict.fromkeys(ours) | {
        name: _cited(turns.get(Ref(transcript.TURNS, turn_id)), part or 0) for name, (turn_id, part) in named.items()
    }


def _cited(turn: transcript.Turn | None, part: int) -> candidates.Cited | None:
    if turn is None or part >= len(turn.messages) or part in turn.erased:
        return None
    return candidates.Cited(turn.messages[part].role, turn.is_kept(part), turn.trust_of(part))


async def without_unfounded(
    ctx: OperationContext, space: SpaceId, write: MemoryWrite, /
) -> tuple[MemoryWrite | None, dict[int, WriteDecision]]:
    """Return `write` without the items that their citations do not bear, None if none is left; and why, by place."""
    if not isinstance(write, Citing):
        return write, {}
    field, plane = _PLACES[write.kind]
    items: Sequence[Value] = getattr(write, field)
    cited = await cited_messages(ctx, space, (name for item in items for name in _citations(item)))
    refused = {
        place: WriteDecision(plane=plane, outcome=Outcome.REJECTED, verdict=Verdict.REJECT, reason=reason)
        for place, item in enumerate(items)
        if (reason := _flaw(item, cited))
    }
    if not refused:
        return write, {}
    kept = tuple(item for place, item in enumerate(items) if place not in refused)
    return write.model_copy(update={field: kept}) if kept else None, refused


async def with_founded_citations(ctx: OperationContext, space: SpaceId, write: CitingT, /) -> CitingT:
    """Return `write` without citations of messages that are not in this space, for imports from elsewhere."""
    field, _ = _PLACES[write.kind]
    items: Sequence[Value] = getattr(write, field)
    cited = await cited_messages(ctx, space, (name for item in items for name in _citations(item)))
    gone = {name for name, found in cited.items() if found is None}
    return write.model_copy(update={field: tuple(_without(item, gone) for item in items)}) if gone else write


def _without(item: Value, gone: AbstractSet[str]) -> Value:
    name = "provenance" if isinstance(item, CapsuleDraft) else "citations"
    return item.model_copy(update={name: tuple(one for one in _citations(item) if one not in gone)})


def _citations(item: Value) -> tuple[str, ...]:
    return getattr(item, "citations", None) or getattr(item, "provenance", ())


def _flaw(item: Value, cited: dict[str, candidates.Cited | None]) -> str:
    """Return what is wrong with what an item cites; nothing if it is right."""
    told = [cited[name] for name in _citations(item) if name in cited]
    if None in told:
        return NOT_THERE
    if not isinstance(item, FactDraft) or item.authority in _MACHINES or len(told) < len(item.citations):
        return ""
    readable = [one for one in told if one is not None and one.is_readable]
    is_self_claim = bool(readable) and all(one.role is Role.ASSISTANT for one in readable)
    return rules.SELF_CLAIM if is_self_claim else ""
