"""Changes of one fact by a control call: its new form, its slot, links, tombstones and audit trail, as one batch."""

from dataclasses import dataclass

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.stored_values import documents_at, value_at
from elytron.memories.audit_trail import event_of, note
from elytron.memories.lookup import FactMemory, must_find
from elytron.memories.preconditions import tag_of
from elytron.memories.provenance_links import Resting, link, unlink_left
from elytron.memories.tombstones import bury
from elytron.writes.settlement import Settled
from elytron_core.contracts.knowledge.control import ControlOutcome
from elytron_core.contracts.knowledge.facts import FactAction, FactChangeReport, FactChangeRequest
from elytron_core.errors import InvalidInput, NotFound, PreconditionFailed
from elytron_core.ids import FactId
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Fact, Slot
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission.fact_control import AUDITED, FactChange, change, tightened
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import ConversationKey, Scope


@dataclass(frozen=True, slots=True)
class _Batch:
    """Changes by space."""

    ctx: OperationContext
    scope: Scope
    record: SpaceRecord
    changes: Changes


async def plan_change(
    ctx: OperationContext, scope: Scope, here: ConversationKey, request: FactChangeRequest, record: SpaceRecord, /
) -> Settled[FactChangeReport]:
    """Return what a control call changes now. Raises NotFound, InvalidInput, PreconditionFailed."""
    memory = await must_find(ctx, scope, request.id)
    if not isinstance(memory, FactMemory):
        raise InvalidInput(field="id", problem="names no fact: evidence stays as it was said; write a fact instead")
    if request.expected_version not in {None, tag_of(record, memory.ref, memory.revision)}:
        raise PreconditionFailed
    if not memory.fact.is_current:
        raise InvalidInput(field="id", problem="names a closed fact: change the current one of its slot")
    now = ctx.clock.now()
    made = change(memory.fact, request, at=now, new_id=FactId(ctx.ids.new()), here=here)
    report = FactChangeReport(
        space=scope.space,
        id=request.id,
        action=request.action,
        outcome=ControlOutcome.CHANGED if made is not None else ControlOutcome.UNCHANGED,
        changed=made is not None and not request.dry_run,
        dry_run=request.dry_run,
    )
    if made is None:
        return Settled(report)
    changes = Changes(record)
    batch = _Batch(ctx, scope, record, changes)
    await _put(batch, memory, made)
    if request.action is FactAction.CHANGE_PRIVACY:
        await _tighten(batch, made.fact)
    if request.action is FactAction.DELETE:
        await bury(ctx, scope.space, record, changes, (memory.fact,), at=now)
    done = event_of(ctx, AUDITED[request.action], at=now, reason=request.reason)
    await note(ctx, scope.space, record, changes, {memory.ref: (done,)})
    if request.dry_run:
        return Settled(report)
    new_id = made.successor.id if made.successor is not None else None
    return Settled(report.model_copy(update={"new_id": new_id}), changes)


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
    slot, revision = await _slot(batch, before)
    held = slot.model_copy(update={"facts": (*slot.facts, new.id)})
    batch.changes.put(_slot_ref(batch.record, before), held, expects=revision, action=None)
    plane = DerivedMemoryPlane.SHARED_FACT
    await link(batch.ctx, batch.scope.space, batch.record, batch.changes, [Resting(plane, new.id, new.citations)])
    await unlink_left(
        batch.ctx, batch.scope.space, batch.record, batch.changes, Resting(plane, before.id, before.citations), after=()
    )


async def _change_slot(batch: _Batch, before: Fact, after: Fact) -> None:
    """Move a fact to the slot of its new reach. Raises InvalidInput if that slot is taken."""
    left, revision = await _slot(batch, before)
    kept = tuple(name for name in left.facts if name != before.id)
    if kept:
        batch.changes.put(
            _slot_ref(batch.record, before), left.model_copy(update={"facts": kept}), expects=revision, action=None
        )
    else:
        batch.changes.delete(_slot_ref(batch.record, before), expects=revision)
    store, space = batch.ctx.store, batch.scope.space
    slot, at = await value_at(store, space, _slot_ref(batch.record, after), Slot)
    if slot is not None:
        last, _ = await value_at(store, space, Ref(long_term.FACTS, slot.facts[-1]), Fact)
        if last is not None and last.is_current:
            raise InvalidInput(field="reach", problem="has a current fact on this topic: change or forget that first")
    held = slot or Slot(kind=after.kind, topic=after.topic, facts=())
    moved = held.model_copy(update={"facts": (*held.facts, after.id)})
    batch.changes.put(_slot_ref(batch.record, after), moved, expects=at, action=None)


async def _tighten(batch: _Batch, fact: Fact) -> None:
    """Make the earlier versions of a fact at least as private."""
    slot, _ = await _slot(batch, fact)
    earlier = [Ref(long_term.FACTS, name) for name in slot.facts if name != fact.id]
    for ref, document in (await documents_at(batch.ctx.store, batch.scope.space, earlier)).items():
        version = tightened(Fact.from_bytes(document.body), fact.privacy)
        if version is not None:
            batch.changes.put(ref, version, expects=document.revision, action=Action.OPERATOR)


def _slot_ref(record: SpaceRecord, fact: Fact) -> Ref:
    return Ref(long_term.SLOTS, record.slot_tag(fact.kind, fact.topic, fact.home))


async def _slot(batch: _Batch, fact: Fact) -> tuple[Slot, int]:
    """Return the slot of a fact and its revision. Raises NotFound if it was erased meanwhile."""
    slot, revision = await value_at(batch.ctx.store, batch.scope.space, _slot_ref(batch.record, fact), Slot)
    if slot is None:
        raise NotFound(what="memory", name=fact.id)
    return slot, revision
