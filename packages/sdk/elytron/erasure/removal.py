"""Erasure: named content is removed from documents, lookups, index and journal digests, and the report counts it.

Content of one origin is erased across all planes, after a dry run has named it.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from elytron.context import OperationContext
from elytron.documents.planes import StoredMemory, by_plane, id_of, touched_planes
from elytron.documents.stored_values import ChangeSet, documents_under, key_of, read_slot, values_at
from elytron.erasure.dependants import copies_of, space_dependants, vectors_of
from elytron.erasure.erasure_mark import end_erasing, erasing_places, erasing_put
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.memories.audit_trail import trail_documents
from elytron.memories.links import links_of_memory
from elytron.memories.lookup import FactMemory, Memory, MessageMemory, SkillMemory, find_stored, hit_of, stored_at
from elytron.memories.tag_links import tag_links_of
from elytron.memories.tombstones import stones_of
from elytron.memories.versions import message_versions
from elytron.secrets.user_spaces import further_spaces
from elytron.state.change_lines import LostRaces
from elytron.state.conversation_heads import read_head
from elytron.state.space_records import REF, opening_changes
from elytron.writes.imported_messages import erasure_marks
from elytron_core import limits
from elytron_core.contracts.memories import (
    ControlDecision,
    ControlOutcome,
    MemoryControlReport,
    MemoryEraseRequest,
    OriginKind,
    OutsideOrigin,
)
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import Conflict, InvalidInput, KeyDestroyed, SpaceIncomplete, SpaceLocked, StoreCorrupt
from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.planes import subjects, tools, transcript
from elytron_core.planes.audit_trail import AuditTrail
from elytron_core.planes.facts import FACT_USES, Fact, FactSlot
from elytron_core.planes.space import COLLECTIONS, ErasedImport, MemoryPlace, SpaceRecord
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    TURN_ATTRIBUTES,
    DerivedMemoryPlane,
    DerivedMemoryRef,
    TurnAttribute,
)
from elytron_core.policy.integrity import parts_through
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
)
from elytron_core.profiles import ErasureLayer
from elytron_core.scope import ConversationKey, Scope

_REMOVED_AT_ONCE = 10_000
"""Number of memories whose bytes are removed together."""
_NO_NAME = "-"
"""Replaces the names of a conversation without a turn, which nothing shows."""
_Changed = transcript.Turn | transcript.Conversation | FactSlot | AuditTrail
"""Derived forms that may stay after an erasure."""


@dataclass(slots=True)
class _ErasurePlan:
    """Target of one erasure: whole documents, and messages cut from remaining turns."""

    record: SpaceRecord
    names: dict[DocumentRef, int]
    """References of the host ids of its turns."""
    refs: dict[DocumentRef, int] = field(default_factory=dict[DocumentRef, int])
    changes: dict[DocumentRef, tuple[_Changed, int]] = field(default_factory=dict[DocumentRef, tuple[_Changed, int]])
    marks: dict[DocumentRef, tuple[ErasedImport, int]] = field(
        default_factory=dict[DocumentRef, tuple[ErasedImport, int]]
    )
    """Keyed tags by which an import recognises erased messages."""
    sources: set[DocumentRef] = field(default_factory=set[DocumentRef])
    """The documents that are erased or cut: tags of their texts are removed too."""
    citations: set[str] = field(default_factory=set[str])
    places: set[MemoryPlace] = field(default_factory=set[MemoryPlace])
    has_remains: bool = False
    """True if a message was emptied before, perhaps by an erasure that did not remove its bytes."""

    @property
    def turns(self) -> list[str]:
        """Return the turns that are erased as a whole."""
        return [ref.key for ref in self.refs if ref.collection == transcript.TURNS]


async def erase_memories(ctx: OperationContext, scope: Scope, request: MemoryEraseRequest, /) -> MemoryControlReport:
    """Erase the memories that `request` names, each message with all its versions.

    First the remaining data is committed without them (a turn's other messages, its conversation's count, a slot's
    list) and turns are emptied; then the documents are physically removed with every remnant, including the index
    checkpoint. If killed, the same request finishes the work, or the next process that uses the space
    (`finish_erasure`): emptied turns are found again, and not subtracted twice.
    """
    with ctx.spaces.erasing(scope.space):
        report, plan = await _empty_space(ctx, scope, request)
        if plan is None:
            return report
        receipt = await _remove_plans(ctx, scope, (plan,))
    return report.model_copy(update={"sequence": receipt.sequence, "layers": receipt.layers})


async def erase_many(ctx: OperationContext, scope: Scope, ids: Sequence[str], /) -> int:
    """Erase memories as `erase_memories` does, however many; return their number.

    They are emptied one after the other, but their bytes are removed together, because that takes time for the whole
    store.
    """
    count = 0
    for batch_start in range(0, len(ids), _REMOVED_AT_ONCE):
        plans: list[_ErasurePlan] = []
        with ctx.spaces.erasing(scope.space):
            for start in range(batch_start, min(batch_start + _REMOVED_AT_ONCE, len(ids)), limits.WRITES_PER_REQUEST):
                request_ids = tuple(ids[start : start + limits.WRITES_PER_REQUEST])
                report, plan = await _empty_space(ctx, scope, MemoryEraseRequest(scope=scope, ids=request_ids))
                count += sum(decision.outcome is ControlOutcome.CHANGED for decision in report.decisions)
                plans += [plan] if plan is not None else []
            if plans:
                await _remove_plans(ctx, scope, plans)
    return count


async def finish_erasure(ctx: OperationContext, space: SpaceId, /) -> None:
    """Finish interrupted erasures of `space`, down to the last byte."""
    places = await erasing_places(ctx.store, space)
    scope, now = Scope(space=space), ctx.clock.now()
    memories = await stored_at(ctx, scope, {DocumentRef(place.collection, place.key): None for place in places})
    ids: list[str] = []
    for collection, key, part in places:
        memory = memories.get(DocumentRef(collection, key))
        if isinstance(memory, MessageMemory):
            ids.append(transcript.message_id(TurnId(key), part or 0))
        elif memory is not None:
            ids.append(hit_of(memory, now).id)
    await erase_many(ctx, scope, ids)
    # The rows may have been gone already, but not their bytes.
    await ctx.store.erase(ErasureTarget(space=space, at=now, blobs=(CHECKPOINT,)))
    await ctx.folds.settle_erasure(space)
    await end_erasing(ctx.store, space, places, at=now)


async def _empty_space(
    ctx: OperationContext, scope: Scope, request: MemoryEraseRequest
) -> tuple[MemoryControlReport, _ErasurePlan | None]:
    """Commit what remains without the memories of `request`; return the report, and what is still to be removed."""
    lost_races = LostRaces()
    while True:
        stored_memories = await find_stored(ctx, scope, request.ids)
        stored_memories |= await _other_versions(ctx, scope, stored_memories.values())
        decisions = tuple(_erasure_decision(memory_id, memory) for memory_id, memory in stored_memories.items())
        record = await ctx.spaces.find(scope.space)
        if record is None:
            report = MemoryControlReport(space=scope.space, decisions=decisions, changed=False, dry_run=request.dry_run)
            return report, None
        # A batch is bounded, and the versions of a message are not: the loop finds the emptied ones again.
        turns = {name: each for name, each in stored_memories.items() if isinstance(each, MessageMemory)}
        unerased_ids = [name for name, each in turns.items() if each.part not in each.turn.erased]
        later_ids = set(() if request.dry_run else unerased_ids[limits.WRITES_PER_REQUEST :])
        memories = [memory for name, memory in stored_memories.items() if memory is not None and name not in later_ids]
        plan = await _plan_erasure(ctx, scope, record, memories)
        derived_ids = await _derived_memories(ctx, scope, plan)
        removed_counts = Counter(ref.collection for ref in plan.refs)
        cut_turns = [ref for ref in plan.changes if ref.collection == transcript.TURNS and ref not in plan.refs]
        removed_counts.update(messages=len(cut_turns))
        report = MemoryControlReport(
            space=scope.space,
            decisions=decisions,
            changed=bool(plan.refs or plan.changes) and not request.dry_run,
            dry_run=request.dry_run,
            removed={name: count for name, count in sorted(removed_counts.items()) if count},
            derived=derived_ids,
            planes=touched_planes(decisions),
        )
        if request.dry_run or not (plan.refs or plan.changes or plan.has_remains):
            return report, None
        try:
            await _commit_rest(ctx, scope, plan)
        except Conflict as conflict:
            ctx.spaces.forget(scope.space)
            ctx.heads.drop_space(scope.space)
            await lost_races.lost(conflict)
            continue
        if not later_ids:
            return report, plan


async def _other_versions(
    ctx: OperationContext, scope: Scope, memories: Collection[Memory | None]
) -> dict[str, Memory | None]:
    """Return what else must go with `memories`: the other versions of each message."""
    versions = await message_versions(ctx, scope, memories)
    return {each.id: each for family in versions.values() for each in family if each.id not in versions}


async def _plan_erasure(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, memories: Sequence[Memory]
) -> _ErasurePlan:
    """Return the plan for erasing `memories`."""
    plan = _ErasurePlan(record, names=await _host_id_places(ctx, scope, record, memories))
    for memory in memories:
        plan.sources.add(memory.ref)
        plan.places.add(MemoryPlace(*memory.ref, memory.part if isinstance(memory, MessageMemory) else None))
        await _take_memory(ctx, scope, memory, plan)
    for memory in memories:
        await _take_links(ctx, scope, memory, plan)
    # After the loops, since only now is it known which turns go as a whole.
    messages = [memory for memory in memories if isinstance(memory, MessageMemory)]
    await _take_beside(ctx, scope, messages, plan)
    await _leave_speakers(ctx, scope, messages, plan)
    plan.refs |= await copies_of(ctx, scope.space, record, memories)
    plan.refs |= await vectors_of(ctx.store, scope.space, plan.sources)
    plan.refs |= await tag_links_of(ctx.store, scope.space, plan.turns)
    await _take_trails(ctx, scope, memories, plan)
    turn_by_part = {(memory.ref, memory.part): memory.turn for memory in memories if isinstance(memory, MessageMemory)}
    message_parts = ((turn, part) for (_, part), turn in turn_by_part.items() if part not in turn.erased)
    plan.marks = await erasure_marks(ctx, scope.space, record, message_parts)
    return plan


async def _host_id_places(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, memories: Sequence[Memory]
) -> dict[DocumentRef, int]:
    """Return the places of host ids of turns among `memories`, with their revisions."""
    turns = {memory.ref: memory.turn for memory in memories if isinstance(memory, MessageMemory)}
    refs = [ref for turn in turns.values() if (ref := _name_of(record, turn)) is not None]
    revisions: dict[DocumentRef, int] = {}
    for start in range(0, len(refs), limits.SCAN_MAX):
        page = await ctx.store.get(scope.space, refs[start : start + limits.SCAN_MAX])
        revisions |= {document.ref: document.revision for document in page if document is not None}
    return revisions


def _name_of(record: SpaceRecord, turn: transcript.Turn) -> DocumentRef | None:
    if turn.host_id is None:
        return None
    key = ConversationKey(turn.channel, turn.conversation)
    return DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, turn.host_id))


async def erase_space(ctx: OperationContext, scope: Scope, request: MemoryEraseRequest, /) -> MemoryControlReport:
    """Erase a whole space: documents, journal, checkpoints, and if it is sealed, its key."""
    try:
        counts = await _count_memories(ctx, scope)
        exists = await ctx.spaces.find(scope.space) is not None or bool(counts)
    except (SpaceLocked, SpaceIncomplete, KeyDestroyed, StoreCorrupt):
        counts, exists = {}, True  # damaged content cannot be counted, but is erased all the same
    layers: tuple[ErasureLayer, ...] = ()
    if exists and not request.dry_run:
        erasure_target = ErasureTarget(space=scope.space, at=ctx.clock.now(), whole_space=True)
        layers = (await ctx.store.erase(erasure_target)).layers
        _let_go(ctx, scope)
    outcome = ControlOutcome.CHANGED if exists else ControlOutcome.NOT_FOUND
    return MemoryControlReport(
        space=scope.space,
        decisions=(ControlDecision(id=scope.space, outcome=outcome),),
        changed=exists and not request.dry_run,
        dry_run=request.dry_run,
        removed=counts,
        planes=tuple(by_plane(counts)),
        layers=layers,
        other_spaces=await further_spaces(ctx.store, scope.space),
    )


def _erasure_decision(memory_id: str, memory: Memory | None) -> ControlDecision:
    if memory is None:
        return ControlDecision(id=memory_id, outcome=ControlOutcome.NOT_FOUND)
    is_erased = isinstance(memory, MessageMemory) and memory.part in memory.turn.erased and not memory.turn.is_emptied
    if is_erased:
        return ControlDecision(
            id=memory_id, outcome=ControlOutcome.UNCHANGED, plane=memory.plane, reason="it was already erased"
        )
    return ControlDecision(id=memory_id, outcome=ControlOutcome.CHANGED, plane=memory.plane)


async def _take_memory(ctx: OperationContext, scope: Scope, memory: Memory, plan: _ErasurePlan) -> None:
    """Add the effects of erasing `memory` to `plan`."""
    match memory:
        case SkillMemory():
            plan.refs[memory.ref] = memory.revision
        case StoredMemory(value=value):
            plan.refs[memory.ref] = memory.revision
            if isinstance(value, subjects.Subject):
                await _leave_subject(ctx, scope, value, plan)
        case FactMemory(fact=fact):
            plan.refs[memory.ref] = memory.revision
            await _leave_slot(ctx, scope, fact, plan)
            tombstones = await stones_of(ctx, scope.space, plan.record, (fact,))
            plan.refs |= {ref: document.revision for ref, document in tombstones.items()}
            (use_document,) = await ctx.store.get(scope.space, (DocumentRef(FACT_USES, fact.id),))
            plan.refs |= {use_document.ref: use_document.revision} if use_document is not None else {}
        case MessageMemory(turn=turn, part=part):
            plan.citations.add(memory.id)
            # Several messages of a turn may go at once: each is cut from what the one before left.
            changed_turn, _ = plan.changes.get(memory.ref, (turn, 0))
            assert isinstance(changed_turn, transcript.Turn)
            if part in turn.erased:
                plan.has_remains = True
            else:
                changed_turn = changed_turn.without(part)
                plan.changes[memory.ref] = (changed_turn, memory.revision)
            if changed_turn.is_emptied:
                plan.refs[memory.ref] = memory.revision
                await _leave_conversation(ctx, scope, turn, plan)


async def _take_links(ctx: OperationContext, scope: Scope, memory: Memory, plan: _ErasurePlan) -> None:
    """Add to `plan` the links and attributes that mean nothing without `memory`."""
    match memory:
        case FactMemory(fact=fact):
            refs = links_of_memory(plan.record, DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
        case SkillMemory(skill=skill):
            refs = links_of_memory(plan.record, DerivedMemoryPlane.PROCEDURAL_SKILL, skill.name, skill.citations)
        case StoredMemory(home=home, value=value) if home.evidence is not None:
            refs = links_of_memory(plan.record, home.evidence, id_of(memory.ref), home.citations(value))
        case _:
            return
    for document in await ctx.store.get(scope.space, refs) if refs else ():
        if document is not None:
            plan.refs[document.ref] = document.revision


async def _take_beside(
    ctx: OperationContext, scope: Scope, memories: Sequence[MessageMemory], plan: _ErasurePlan
) -> None:
    """Add documents that accompany removed turns, or erased messages of remaining turns."""
    messages = {memory.id for memory in memories}
    turn_prefixes = [f"{memory.ref.key}." for memory in memories]

    def goes(document: Document, message: str | None) -> bool:
        return DocumentRef(transcript.TURNS, document.ref.key.rpartition(".")[0]) in plan.refs or message in messages

    for document in await documents_under(ctx.store, scope.space, DERIVED_REFS, turn_prefixes):
        if goes(document, DerivedMemoryRef.from_bytes(document.body).source.message_id):
            plan.refs[document.ref] = document.revision
    for document in await documents_under(ctx.store, scope.space, TURN_ATTRIBUTES, turn_prefixes):
        attribute = TurnAttribute.from_bytes(document.body)
        message = transcript.message_id(attribute.turn, attribute.part) if attribute.part is not None else None
        if goes(document, message):
            plan.refs[document.ref] = document.revision


async def _take_trails(ctx: OperationContext, scope: Scope, memories: Sequence[Memory], plan: _ErasurePlan) -> None:
    """Add to `plan` the audit trails of what goes; for a remaining turn, its other messages' share stays."""
    parts_by_turn: dict[DocumentRef, list[int]] = {}
    for memory in memories:
        if isinstance(memory, MessageMemory):
            parts_by_turn.setdefault(memory.ref, []).append(memory.part)
    for ref, document in (await trail_documents(ctx, scope.space, plan.record, plan.sources)).items():
        if ref in plan.refs:
            plan.refs[document.ref] = document.revision
            continue
        stored_trail = cut_trail = AuditTrail.from_bytes(document.body)
        for part in parts_by_turn.get(ref, ()):
            cut_trail = cut_trail.without(part)
        if cut_trail != stored_trail:
            plan.changes[document.ref] = (cut_trail, document.revision)


async def _leave_slot(ctx: OperationContext, scope: Scope, fact: Fact, plan: _ErasurePlan) -> None:
    stored_slot = await read_slot(ctx.store, scope.space, plan.record, key_of(fact))
    revisions = {**stored_slot.earlier, **({stored_slot.ref: stored_slot.revision} if stored_slot.revision else {})}
    slots = await values_at(ctx.store, scope.space, revisions, FactSlot)
    for ref, slot in slots.items():
        # Several facts of a slot may go at once: each is removed from what the one before left.
        changed_slot, revision = plan.changes.get(ref, (slot, revisions[ref]))
        assert isinstance(changed_slot, FactSlot)
        if fact.id not in changed_slot.facts:
            continue
        remaining_facts = tuple(other_id for other_id in changed_slot.facts if other_id != fact.id)
        if remaining_facts:
            plan.changes[ref] = (changed_slot.model_copy(update={"facts": remaining_facts}), revision)
        else:
            plan.changes.pop(ref, None)
            plan.refs[ref] = revision


async def _leave_subject(ctx: OperationContext, scope: Scope, subject: subjects.Subject, plan: _ErasurePlan) -> None:
    """Remove the edges that name the subject, and release its soul."""
    async for document in store.scan_documents(ctx.store, scope.space, subjects.SUBJECT_EDGES):
        subject_edge = subjects.SubjectEdge.from_bytes(document.body)
        if subject.name in {subject_edge.source, subject_edge.target}:
            plan.refs[document.ref] = document.revision
    async for document in store.scan_documents(ctx.store, scope.space, subjects.SOUL_BINDINGS):
        if subjects.BoundSoul.from_bytes(document.body).subject == subject.name:
            plan.refs[document.ref] = document.revision


async def _leave_conversation(ctx: OperationContext, scope: Scope, turn: transcript.Turn, plan: _ErasurePlan) -> None:
    """Subtract the turn, as it was found, from its conversation's head; its sequence is never reused."""
    key = ConversationKey(turn.channel, turn.conversation)
    name = _name_of(plan.record, turn)
    if name is not None and name in plan.names:
        plan.refs[name] = plan.names[name]
    if turn.is_emptied:
        return  # the erasure that emptied it has already subtracted it
    ref = DocumentRef(transcript.CONVERSATIONS, plan.record.conversation_tag(key))
    pending_head = await _pending_head(ctx, scope, ref, plan)
    if pending_head is None:
        return
    head, revision = pending_head
    turn_count = head.turns - 1
    # Without a turn, nothing may remain of where, by whom, about what, and when it was said.
    nameless_head = transcript.Conversation(channel=_NO_NAME, conversation=_NO_NAME, next_sequence=head.next_sequence)
    plan.changes[ref] = (head.model_copy(update={"turns": turn_count}) if turn_count else nameless_head, revision)


async def _leave_speakers(
    ctx: OperationContext, scope: Scope, memories: Sequence[MessageMemory], plan: _ErasurePlan
) -> None:
    """Remove the speakers from their conversation's head of whom no message is left there."""
    lost_speakers: dict[ConversationTag, set[str]] = {}
    for memory in memories:
        speaker = memory.turn.messages[memory.part].speaker
        if speaker is not None:
            lost_speakers.setdefault(transcript.tag_of(TurnId(memory.ref.key)), set()).add(speaker)
    for tag, speakers in lost_speakers.items():
        pending_head = await _pending_head(ctx, scope, DocumentRef(transcript.CONVERSATIONS, tag), plan)
        if pending_head is None:
            continue
        head, revision = pending_head
        candidates = speakers & {*head.speakers}
        silent_names = (
            candidates - await _heard_speakers(ctx, scope, tag, candidates, plan) if candidates else candidates
        )
        if silent_names:
            remaining_names = tuple(name for name in head.speakers if name not in silent_names)
            ref = DocumentRef(transcript.CONVERSATIONS, tag)
            plan.changes[ref] = (head.model_copy(update={"speakers": remaining_names}), revision)


async def _heard_speakers(
    ctx: OperationContext, scope: Scope, tag: ConversationTag, names: Collection[str], plan: _ErasurePlan
) -> set[str]:
    """Return those of `names` who said what remains in a conversation."""
    heard_names: set[str] = set()
    async for document in store.scan_documents(ctx.store, scope.space, transcript.TURNS, prefix=f"{tag}."):
        if document.ref in plan.refs:
            continue
        turn, _ = plan.changes.get(document.ref) or (transcript.Turn.from_bytes(document.body), 0)
        assert isinstance(turn, transcript.Turn)
        heard_names |= {message.speaker for message in turn.messages if message.speaker is not None} & {*names}
        if len(heard_names) == len(names):
            break
    return heard_names


async def _pending_head(
    ctx: OperationContext, scope: Scope, ref: DocumentRef, plan: _ErasurePlan
) -> tuple[transcript.Conversation, int] | None:
    """Return the head at `ref` as `plan` leaves it, with its stored revision; None if there is none."""
    if ref not in plan.changes:
        return await read_head(ctx.store, scope.space, ConversationTag(ref.key))
    head, revision = plan.changes[ref]
    assert isinstance(head, transcript.Conversation)
    return head, revision


async def _derived_memories(ctx: OperationContext, scope: Scope, plan: _ErasurePlan) -> tuple[str, ...]:
    """Return the memories that cite what goes, or describe its conversation, and are not erased themselves."""
    if not plan.citations:
        return ()
    dependants = space_dependants(ctx, scope.space)
    return tuple([one.id async for one in dependants if one.ref not in plan.refs and one.rests_on(plan.citations)])


async def _commit_rest(ctx: OperationContext, scope: Scope, plan: _ErasurePlan) -> None:
    changes = ChangeSet(plan.record)
    for ref, (value, revision) in plan.changes.items():
        changes.put(ref, value, expects=revision, action=JournalAction.DELETE)
    for ref, (erased_import, revision) in plan.marks.items():
        changes.put(ref, erased_import, expects=revision, action=None)
    _, requires, _ = opening_changes(plan.record, is_new=False)
    # Only cut documents leave entries; shortened lists would fill a bounded journal.
    entries = [each if each.ref in plan.sources else EntryDraft(each.action, each.ref) for each in changes.entries]
    erasing_entry = EntryDraft(JournalAction.MAINTENANCE, REF)
    puts = (*changes.puts, await erasing_put(ctx.store, scope.space, plan.places))
    batch = Batch(scope.space, ctx.clock.now(), (*entries, erasing_entry), puts, requires=requires, takes_back=True)
    await ctx.store.commit(batch)
    ctx.heads.drop_space(scope.space)


async def _remove_plans(ctx: OperationContext, scope: Scope, plans: Sequence[_ErasurePlan]) -> ErasureReceipt:
    refs = tuple(dict.fromkeys(ref for plan in plans for ref in plan.refs))
    receipt = await ctx.store.erase(
        ErasureTarget(space=scope.space, at=ctx.clock.now(), refs=refs, blobs=(CHECKPOINT,))
    )
    # They may have been embedded and linked during their removal; now they cannot be any more.
    late_refs = await vectors_of(ctx.store, scope.space, [source for plan in plans for source in plan.sources])
    late_refs |= await tag_links_of(ctx.store, scope.space, [turn for plan in plans for turn in plan.turns])
    if late_refs:
        receipt = await ctx.store.erase(ErasureTarget(space=scope.space, at=ctx.clock.now(), refs=tuple(late_refs)))
    await ctx.folds.settle_erasure(scope.space)
    ctx.heads.drop_space(scope.space)
    places = {place for plan in plans for place in plan.places}
    await end_erasing(ctx.store, scope.space, places, at=ctx.clock.now())
    return receipt


def _let_go(ctx: OperationContext, scope: Scope) -> None:
    ctx.folds.drop(scope.space)
    ctx.heads.drop_space(scope.space)
    ctx.spaces.forget(scope.space)


async def _count_memories(ctx: OperationContext, scope: Scope) -> dict[str, int]:
    counts = {name: await ctx.store.count(scope.space, name) for name in COLLECTIONS}
    return {name: count for name, count in counts.items() if count}


async def erase_origin(
    ctx: OperationContext, scope: Scope, origin: OutsideOrigin, request: MemoryEraseRequest, /
) -> MemoryControlReport:
    """Erase what came through `origin`, and what is based only on that. Raises InvalidInput for a stale token.

    What is also based on something else stays, and the report names it in `derived`. If killed, a new dry run and call
    finish the work.
    """
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return MemoryControlReport(space=scope.space, decisions=(), changed=False, dry_run=request.dry_run)
    ids, citing_ids = await _resting_on(ctx, scope, origin)
    token = record.tag("erased origin", origin.kind, origin.name, *ids)
    if not request.dry_run and request.token != token:
        raise InvalidInput(
            field="token",
            problem="does not belong to a dry run with exactly these memories: repeat the dry run and check its list",
        )
    decisions: list[ControlDecision] = []
    removed_counts: Counter[str] = Counter()
    for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
        request_ids = ids[start : start + limits.WRITES_PER_REQUEST]
        # Only for the counts: `erase_many` removes the bytes of all of them together.
        report = await erase_memories(ctx, scope, MemoryEraseRequest(scope=scope, ids=request_ids, dry_run=True))
        decisions += report.decisions
        removed_counts.update(report.removed)
    if not request.dry_run:
        await erase_many(ctx, scope, ids)
    has_erased = any(decision.outcome is ControlOutcome.CHANGED for decision in decisions)
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions[: limits.WRITES_PER_REQUEST]),
        changed=has_erased and not request.dry_run,
        dry_run=request.dry_run,
        removed=dict(sorted(removed_counts.items())),
        derived=citing_ids,
        token=token if request.dry_run else None,
        planes=tuple(plane for plane in RecallPlane if any(decision.plane is plane for decision in decisions)),
    )


async def _resting_on(
    ctx: OperationContext, scope: Scope, origin: OutsideOrigin
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the memories that came through `origin` or are based only on it, and those also based on others."""
    removals: dict[str, None] = {}
    async for document in store.scan_documents(ctx.store, scope.space, transcript.TURNS):
        turn = transcript.Turn.from_bytes(document.body)
        unerased_parts = (part for part in parts_through(turn, origin) if part not in turn.erased)
        removals |= dict.fromkeys(transcript.message_id(TurnId(document.ref.key), part) for part in unerased_parts)
    dependants = [one async for one in space_dependants(ctx, scope.space)]
    citations_of = {one.id: one.citations for one in dependants if one.is_belief}
    derivations = [one for one in dependants if not one.is_belief]
    if origin.kind is OriginKind.TOOL:
        async for document in store.scan_documents(ctx.store, scope.space, tools.EXPERIENCES):
            if tools.ToolExperience.from_bytes(document.body).tool_id == origin.name:
                removals[id_of(document.ref)] = None
    # Until nothing more is based on it: what goes may be all that another belief cites.
    while True:
        erased_names = removals.keys() | {origin.name}
        dependent_ids = [
            one
            for one, citations in citations_of.items()
            if one not in removals and citations and citations <= erased_names
        ]
        # A memory that was partly derived from erased messages may repeat them, and can be derived again.
        dependent_ids += [one.id for one in derivations if one.id not in removals and one.rests_on(removals.keys())]
        if not dependent_ids:
            # A belief may cite a whole turn instead of its message.
            all_names = erased_names | {one.partition("#")[0] for one in removals}
            citing_ids = tuple(
                one
                for one, citations in citations_of.items()
                if one not in removals and not citations.isdisjoint(all_names)
            )
            return tuple(removals), citing_ids
        removals |= dict.fromkeys(dependent_ids)
