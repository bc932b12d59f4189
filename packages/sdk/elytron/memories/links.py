"""Links from memories to the turns that they cite: written and removed with a memory, read by lifecycle and repair."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elytron.context import OperationContext
from elytron.documents.planes import HOMES, LINKED, id_of
from elytron.documents.stored_values import ChangeSet, documents_at, values_at
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    DerivedMemoryPlane,
    DerivedMemoryRef,
    TranscriptEvidenceRef,
    cited_turn,
    derived_key,
)
from elytron_core.ports.store import DocumentRef


@dataclass(frozen=True, slots=True)
class RestingMemory:
    """A memory and what it cites."""

    plane: DerivedMemoryPlane
    store_key: str
    citations: tuple[str, ...]


async def link_sources(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    changes: ChangeSet,
    resting_memories: Sequence[RestingMemory],
    /,
) -> None:
    """Add links to a batch from each memory to the turns that it cites; existing links are unchanged.

    A citation that names no turn, or one that is not there, makes no link. Nothing is awaited if nothing is cited.
    """
    links = {
        DocumentRef(DERIVED_REFS, derived_key(citation[0], record.derived_tag(item.plane, item.store_key))): (
            item,
            *citation,
        )
        for item in resting_memories
        # Reversed, so that of several messages of one turn the first cited one counts.
        for citation in map(cited_turn, reversed(item.citations))
        if citation is not None
    }
    if not links:
        return
    turn_refs = [DocumentRef(transcript.TURNS, turn) for _, turn, _ in links.values()]
    turns = await values_at(ctx.store, space, turn_refs, transcript.Turn)
    stored_links = await documents_at(ctx.store, space, links)
    now = ctx.clock.now()
    for ref, (item, turn_id, part) in links.items():
        turn = turns.get(DocumentRef(transcript.TURNS, turn_id))
        if turn is not None and ref not in stored_links:
            evidence_source = _evidence_source(space, turn_id, turn, part)
            link = DerivedMemoryRef(plane=item.plane, store_key=item.store_key, source=evidence_source, created_at=now)
            changes.put(ref, link, expects=0, action=None)


async def link_written(ctx: OperationContext, space: SpaceId, record: SpaceRecord, changes: ChangeSet, /) -> None:
    """Link the memories of a batch to the turns that they cite."""
    resting_memories: list[RestingMemory] = []
    for ref, value in changes.folded.items():
        match value:
            case facts.Fact(citations=(_, *_)):
                resting_memories.append(RestingMemory(DerivedMemoryPlane.SHARED_FACT, value.id, value.citations))
            case skills.Skill(citations=(_, *_)):
                resting_memories.append(RestingMemory(DerivedMemoryPlane.PROCEDURAL_SKILL, value.name, value.citations))
            case _:
                plane_home = HOMES.get(ref.collection)
                if (
                    plane_home is not None
                    and plane_home.evidence is not None
                    and (citations := plane_home.citations(value))
                ):
                    resting_memories.append(RestingMemory(plane_home.evidence, id_of(ref), citations))
    await link_sources(ctx, space, record, changes, resting_memories)


async def unlink_left(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    changes: ChangeSet,
    before: RestingMemory,
    /,
    *,
    after: Sequence[str],
) -> None:
    """Remove a memory's links to turns that it cited `before` but not `after`."""
    current_refs = links_of_memory(record, before.plane, before.store_key, after)
    stale_refs = [
        ref
        for ref in links_of_memory(record, before.plane, before.store_key, before.citations)
        if ref not in current_refs
    ]
    for ref, document in (await documents_at(ctx.store, space, stale_refs)).items():
        changes.delete(ref, expects=document.revision)


def _evidence_source(space: SpaceId, turn_id: TurnId, turn: transcript.Turn, part: int | None) -> TranscriptEvidenceRef:
    is_message = part is not None and part < len(turn.messages)
    return TranscriptEvidenceRef(
        memory_space_id=space,
        channel_id=turn.channel,
        conversation_id=turn.conversation,
        turn_id=turn_id,
        message_id=transcript.message_id(turn_id, part) if part is not None and is_message else None,
        subject_id=turn.actor.subject_id if turn.actor is not None else None,
        authority=turn.messages[part].stands_on if part is not None and is_message else None,
    )


def links_of_memory(
    record: SpaceRecord, plane: DerivedMemoryPlane, store_key: str, citations: Iterable[str], /
) -> list[DocumentRef]:
    """Return the refs of a memory's links."""
    cited_turns = [citation[0] for citation in map(cited_turn, citations) if citation is not None]
    return [
        DocumentRef(DERIVED_REFS, derived_key(turn, record.derived_tag(plane, store_key)))
        for turn in dict.fromkeys(cited_turns)
    ]


async def links_of_skills(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, skills: Iterable[skills.Skill], /
) -> dict[DocumentRef, int]:
    """Return the links of these skills, with their revisions: they mean nothing without them."""
    refs = [
        ref
        for skill in skills
        for ref in links_of_memory(record, DerivedMemoryPlane.PROCEDURAL_SKILL, skill.name, skill.citations)
    ]
    return {ref: document.revision for ref, document in (await documents_at(ctx.store, space, refs)).items()}


def target_of(record: SpaceRecord, ref: DerivedMemoryRef, /) -> DocumentRef | None:
    """Return the reference of a link's memory; None if its plane has no document with that key."""
    match ref.plane:
        case DerivedMemoryPlane.LONG_TERM | DerivedMemoryPlane.SHARED_FACT:
            return DocumentRef(facts.FACTS, ref.store_key)
        case DerivedMemoryPlane.PROCEDURAL_SKILL:
            return DocumentRef(skills.SKILLS, record.skill_tag(ref.store_key))
        case _:
            plane_home = LINKED.get(ref.plane)
            return (
                DocumentRef(plane_home.collection, ref.store_key.removeprefix(f"{plane_home.word}:"))
                if plane_home is not None
                else None
            )
