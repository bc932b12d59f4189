"""Changes of one fact by a control call: its new form, its slot, links, tombstones and audit trail, as one batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.slots import StoredSlot, key_of, read_slot, remaining_of
from elytron.documents.stored_values import documents_at, values_at
from elytron.memories.audit_trail import event_of, note
from elytron.memories.lookup import FactMemory, must_find
from elytron.memories.preconditions import tag_of
from elytron.memories.provenance_links import Resting, link, unlink_left
from elytron.memories.tombstones import bury
from elytron.writes.settlement import Settled
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import ControlOutcome
from elytron_core.contracts.knowledge.facts import FactAction, FactChangeReport, FactChangeRequest
from elytron_core.errors import InvalidInput, PreconditionFailed
from elytron_core.ids import FactId
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Fact
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission.fact_control import AUDITED, STAYS, FactChange, change, require_believed, tightened
from elytron_core.policy.temporal import slot_versions
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import ConversationKey, Scope


@dataclass(frozen=True, slots=True)
class _Batch:
    """Changes by space, of a fact in a slot with its versions, oldest first, each with its revision."""

    ctx: OperationContext
    scope: Scope
    record: SpaceRecord
    changes: Changes
    slot: StoredSlot
    versions: Mapping[Ref, tuple[Fact, int]]
    now: Instant


async def plan_change(
    ctx: OperationContext, scope: Scope, here: ConversationKey, request: FactChangeRequest, record: SpaceRecord, /
) -> Settled[FactChangeReport]:
    """Return what a control call changes now. Raises NotFound, InvalidInput, PreconditionFailed."""
    memory = await must_find(ctx, scope, request.id)
    if not isinstance(memory, FactMemory):
        raise InvalidInput(field="id", problem="names no fact: evidence stays as it was said; write a fact instead")
    if request.expected_version not in {None, tag_of(record, memory.ref, memory.revision)}:
        raise PreconditionFailed
    require_believed(memory.fact)
    now = ctx.clock.now()
    made = change(memory.fact, request, at=now, new_id=FactId(ctx.ids.new()), here=here)
    slot = await read_slot(ctx.store, scope.space, record, key_of(memory.fact))
    known = await documents_at(ctx.store, scope.space, (Ref(long_term.FACTS, name) for name in slot.facts))
    versions = {ref: (Fact.from_bytes(document.body), document.revision) for ref, document in known.items()}
    report = FactChangeReport(
        space=scope.space,
        id=request.id,
        action=request.action,
        outcome=ControlOutcome.CHANGED if made is not None else ControlOutcome.UNCHANGED,
        reason=None if made is not None else STAYS[request.action],
        remaining=_remaining(request, versions.values()),
        changed=made is not None and not request.dry_run,
        dry_run=request.dry_run,
    )
    if made is None:
        return Settled(report)
    changes = Changes(record)
    batch = _Batch(ctx, scope, record, changes, slot, versions, now)
    await _put(batch, memory, made)
    if request.action is FactAction.CHANGE_PRIVACY:
        _tighten(batch, made.fact)
    if request.action is FactAction.DELETE:
        await bury(ctx, scope.space, record, changes, (memory.fact,), at=now)
    done = event_of(ctx, AUDITED[request.action], at=now, reason=request.reason)
    await note(ctx, scope.space, record, changes, {memory.ref: (done,)})
    if request.dry_run:
        return Settled(report)
    new_id = made.successor.id if made.successor is not None else None
    return Settled(report.model_copy(update={"new_id": new_id}), changes)


def _remaining(request: FactChangeRequest, versions: Iterable[tuple[Fact, int]]) -> tuple[str, ...]:
    if request.action is not FactAction.DELETE:
        return ()
    return remaining_of((fact for fact, _ in versions), without={request.id})


async def _put(batch: _Batch, memory: FactMemory, made: FactChange) -> None:
    """Add the changed fact to a batch, and the version that takes its place."""
    before = memory.fact
    action = Action.WRITE if made.successor is not None else Action.OPERATOR
    action = Action.DELETE if made.fact.state is long_term.State.DELETED else action
    batch.changes.put(memory.ref, made.fact, expects=memory.revision, action=action)
    if made.fact.home != before.home:
        await _change_slot(batch, before, made.fact)
    if made.successor is None:
        return
    new = made.successor
    batch.changes.put(Ref(long_term.FACTS, new.id), new, expects=0, action=Action.WRITE)
    place = batch.slot.facts.index(before.id) + 1 if before.id in batch.slot.facts else len(batch.slot.facts)
    replace(batch.slot, facts=(*batch.slot.facts[:place], new.id, *batch.slot.facts[place:])).put(batch.changes)
    plane = DerivedMemoryPlane.SHARED_FACT
    await link(batch.ctx, batch.scope.space, batch.record, batch.changes, [Resting(plane, new.id, new.citations)])
    await unlink_left(
        batch.ctx, batch.scope.space, batch.record, batch.changes, Resting(plane, before.id, before.citations), after=()
    )


async def _change_slot(batch: _Batch, before: Fact, after: Fact) -> None:
    """Move a fact, and those that follow it, to the slot of its new reach. Raises InvalidInput if that is taken."""
    moved = {after.id: after}
    for ref, (version, revision) in _following(batch, before):
        if version.is_believed:
            moved[version.id] = _with_reach(version, after)
            batch.changes.put(ref, moved[version.id], expects=revision, action=Action.OPERATOR)
    replace(batch.slot, facts=tuple(name for name in batch.slot.facts if name not in moved)).put(batch.changes)
    store, space = batch.ctx.store, batch.scope.space
    slot = await read_slot(store, space, batch.record, key_of(after))
    refs = [Ref(long_term.FACTS, name) for name in slot.facts]
    there = tuple((await values_at(store, space, refs, Fact)).values())
    if slot_versions.replaceable_versions(there, at=batch.now):
        raise InvalidInput(field="reach", problem="has a current fact on this topic: change or forget that first")
    replace(slot, facts=(*slot.facts, *moved)).put(batch.changes)


def _with_reach(version: Fact, after: Fact) -> Fact:
    return version.model_copy(update={"reach": after.reach, "channel": after.channel, "chat": after.chat})


def _following(batch: _Batch, fact: Fact) -> list[tuple[Ref, tuple[Fact, int]]]:
    """Return the versions behind a fact in its slot."""
    places = list(batch.versions)
    here = Ref(long_term.FACTS, fact.id)
    return [(ref, batch.versions[ref]) for ref in places[places.index(here) + 1 :]] if here in places else []


def _tighten(batch: _Batch, fact: Fact) -> None:
    """Make the other versions of a fact at least as private; of one that has ended, the earlier ones alone."""
    later = {ref for ref, _ in _following(batch, fact)} if slot_versions.is_past(fact, at=batch.now) else set[Ref]()
    for ref, (version, revision) in batch.versions.items():
        stricter = tightened(version, fact.privacy) if version.id != fact.id and ref not in later else None
        if stricter is not None:
            batch.changes.put(ref, stricter, expects=revision, action=Action.OPERATOR)
