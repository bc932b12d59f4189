"""Judgement and admission of proposed facts: one current value per slot, with replaced values as history."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from elytron.context import OperationContext
from elytron.documents.stored_values import (
    ChangeSet,
    SlotKey,
    StoredSlot,
    documents_at,
    key_of,
    read_slot,
    read_slots,
    remaining_of,
    slot_ref,
    values_at,
)
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.links import RestingMemory, link_sources, unlink_left
from elytron.memories.lookup import FactMemory, must_find, tag_of
from elytron.memories.tombstones import LEARNING, ForgottenDrafts, add_tombstones, read_forgotten, read_learning
from elytron.writes.commit import PlannedWrite, SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactAction, FactChangeReport, FactChangeRequest, FactDraft
from elytron_core.contracts.memories import ControlOutcome
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import LongTermExtraction, WriteDecision, WriteOutcome
from elytron_core.errors import Conflict, InvalidInput, PreconditionFailed, SealError, StoreError
from elytron_core.ids import FactId, SpaceId
from elytron_core.planes import facts as planes_facts
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.facts import (
    FACT_USES,
    Fact,
    FactUse,
    LearningRules,
    is_past,
    replace_version,
    replaceable_versions,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy.admission import rules
from elytron_core.policy.admission.facts import (
    AUDITED,
    STAYS,
    FactChange,
    change_fact,
    require_believed,
    tighten_privacy,
)
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, learning_refusal
from elytron_core.policy.extraction.rule_facts import kind_of_topic
from elytron_core.policy.skills import TOUCH_MS
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import ConversationKey, Scope
from elytron_store.secret.sessions import SERVER, calling_as

_VERSIONS_AT_ONCE = 2


async def plan_facts(
    ctx: OperationContext, scope: Scope, write: LongTermExtraction, record: SpaceRecord, /
) -> PlannedWrite:
    """Judge each draft in order, later ones against the results of earlier ones."""
    fact_kinds = (kind_of_topic(draft.fact_kind, draft.topic) for draft in write.facts)
    drafts = zip(write.facts, fact_kinds, strict=True)
    write = write.model_copy(
        update={"facts": tuple(draft.model_copy(update={"fact_kind": kind}) for draft, kind in drafts)}
    )
    slot_changes = _SlotChanges(record, scope.conversation_key)
    await slot_changes.read(ctx, scope, write)
    now = ctx.clock.now()
    decisions = tuple(_admit_fact(ctx, scope, draft, slot_changes, now) for draft in write.facts)
    await slot_changes.unlink(ctx, scope)
    return PlannedWrite(slot_changes.changes, decisions, slot_changes.ref(write.facts[0]))


class _SlotChanges:
    """The slots that one write touches: their stored facts, and the write's changes."""

    def __init__(self, record: SpaceRecord, key: ConversationKey, /) -> None:
        self._record = record
        self._key = key
        self._slots: dict[DocumentRef, StoredSlot] = {}
        self._facts: dict[FactId, tuple[planes_facts.Fact, int]] = {}
        self._stored: tuple[planes_facts.Fact, ...] = ()
        self._learning = LearningRules()
        self._forgotten = ForgottenDrafts(record, frozenset(), {})
        self.changes = ChangeSet(record)

    def ref(self, draft: FactDraft, /) -> DocumentRef:
        """Return the ref of a draft's slot in this conversation."""
        return slot_ref(self._record, self._key_of(draft))

    def _key_of(self, draft: FactDraft) -> SlotKey:
        return SlotKey(draft.fact_kind, draft.topic, self._home(draft))

    def refusal(self, draft: FactDraft, /) -> str:
        """Return why a proposed value may not be learned; empty if it may."""
        if draft.operation is planes_facts.FactOperation.DELETE:
            return ""
        is_tombstoned = self._forgotten.has(draft.fact_kind, draft.content, draft.citations, self._home(draft))
        return FORGOTTEN_BEFORE if is_tombstoned else learning_refusal(draft, self._learning)

    def _home(self, draft: FactDraft) -> ConversationKey | None:
        return self._key if draft.reach is planes_facts.FactReach.CHAT else None

    async def read(self, ctx: OperationContext, scope: Scope, write: LongTermExtraction, /) -> None:
        keys = [self._key_of(draft) for draft in write.facts]
        self._slots = await read_slots(ctx.store, scope.space, self._record, keys)
        await self._read_versions(ctx, scope)
        self._stored = tuple(fact for fact, _ in self._facts.values())
        # Read before the tombstones: a change of these gives the rules a new revision, and the write is judged again.
        self._learning, revision = await read_learning(ctx, scope.space)
        self.changes.require(LEARNING, revision=revision)
        proposals = [(draft.fact_kind, draft.content, draft.citations, self._home(draft)) for draft in write.facts]
        self._forgotten = await read_forgotten(ctx, scope.space, self._record, proposals)

    async def unlink(self, ctx: OperationContext, scope: Scope, /) -> None:
        """Remove the links to turns that a fact no longer cites."""
        for fact in self._stored:
            remaining_citations = self._facts[fact.id][0].citations
            if not set(fact.citations) <= set(remaining_citations):
                former_memory = RestingMemory(DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
                await unlink_left(
                    ctx, scope.space, self._record, self.changes, former_memory, after=remaining_citations
                )

    async def _read_versions(self, ctx: OperationContext, scope: Scope) -> None:
        """Read each slot's versions from the newest back, until one had ended before now: earlier ones had ended
        too."""
        now = ctx.clock.now()
        unread_ids = {ref: slot.facts for ref, slot in self._slots.items()}
        versions_per_read = _VERSIONS_AT_ONCE
        while fact_ids := {name for names in unread_ids.values() for name in names[-versions_per_read:]}:
            refs = [DocumentRef(planes_facts.FACTS, name) for name in fact_ids]
            for ref, document in (await documents_at(ctx.store, scope.space, refs)).items():
                self._facts[FactId(ref.key)] = (planes_facts.Fact.from_bytes(document.body), document.revision)
            for ref, names in unread_ids.items():
                newest_versions = [self._facts[name][0] for name in names[-versions_per_read:] if name in self._facts]
                # Each list of an earlier build may have a current version.
                is_past_reached = not self._slots[ref].earlier and any(
                    is_past(fact, at=now) for fact in newest_versions
                )
                unread_ids[ref] = () if is_past_reached else names[:-versions_per_read]
            versions_per_read *= _VERSIONS_AT_ONCE

    def versions(self, draft: FactDraft, /) -> list[planes_facts.Fact]:
        """Return the newest versions of the draft's slot, oldest first, as earlier drafts leave them."""
        return [self._facts[name][0] for name in self._slots[self.ref(draft)].facts if name in self._facts]

    def put(self, fact: planes_facts.Fact, action: JournalAction, /) -> None:
        """Write a fact, new or changed."""
        _, revision = self._facts.get(fact.id, (None, 0))
        self._facts[fact.id] = (fact, revision)
        self.changes.put(DocumentRef(planes_facts.FACTS, fact.id), fact, expects=revision, action=action)

    def hold(self, draft: FactDraft, fact: planes_facts.Fact, /) -> None:
        """Make `fact` the newest of the draft's slot."""
        ref = self.ref(draft)
        stored_slot = self._slots[ref]
        slot = replace(stored_slot, facts=(*stored_slot.facts, fact.id))
        slot.put(self.changes)
        self._slots[ref] = replace(slot, earlier={})


def _admit_fact(
    ctx: OperationContext, scope: Scope, draft: FactDraft, slot_changes: _SlotChanges, now: Instant
) -> WriteDecision:
    versions = slot_changes.versions(draft)
    judgement = rules.judge_fact(draft, versions, at=now)
    known_fact = rules.known_version(draft, versions, at=now)
    if judgement.verdict is AdmissionVerdict.ACCEPT and (refusal := slot_changes.refusal(draft)):
        judgement = rules.reject_fact(refusal)
    fact_id: FactId | None = known_fact.id if known_fact is not None else None
    superseded_id: FactId | None = None
    match judgement.outcome:
        case WriteOutcome.STORED | WriteOutcome.UPDATED:
            is_first = not any(version.is_believed for version in versions)
            fact = _draft_fact(ctx, scope, draft, known_fact, now, is_first=is_first)
            _replace_versions(slot_changes, fact, versions, because=draft.reason or "superseded", now=now)
            slot_changes.put(fact, JournalAction.WRITE)
            slot_changes.hold(draft, fact)
            fact_id, superseded_id = fact.id, fact.supersedes
        case WriteOutcome.CONFIRMED:
            assert known_fact is not None
            confirmed_fact = _confirm_fact(known_fact, draft, now)
            slot_changes.put(confirmed_fact, JournalAction.MERGE)
            if known_fact.is_current:
                other_versions = [fact for fact in versions if fact.id != known_fact.id]
                _replace_versions(slot_changes, confirmed_fact, other_versions, because="superseded", now=now)
        case WriteOutcome.DELETED:
            closing_reason = draft.reason or "deleted"
            for fact in replaceable_versions(versions, at=now):
                closed_fact = planes_facts.close_fact(
                    fact, at=now, because=closing_reason, state=planes_facts.FactState.DELETED
                )
                slot_changes.put(closed_fact.model_copy(update={"gone_at": draft.observed_at}), JournalAction.DELETE)
        case _:
            pass
    return WriteDecision(
        plane=RecallPlane.LONG_TERM,
        id=fact_id,
        outcome=judgement.outcome,
        verdict=judgement.verdict,
        reason=judgement.reason,
        supersedes=superseded_id,
    )


def _replace_versions(
    slot_changes: _SlotChanges,
    fact: planes_facts.Fact,
    versions: Sequence[planes_facts.Fact],
    *,
    because: str,
    now: Instant,
) -> None:
    """End the other versions of a slot at the start of `fact`."""
    valid_since = fact.valid_from if fact.valid_from is not None else fact.ordered_at
    for version in replaceable_versions(versions, at=now):
        closed_fact = replace_version(version, began=valid_since, at=now, because=because, by=fact.id)
        if closed_fact is not None:
            slot_changes.put(closed_fact, JournalAction.WRITE)


def _draft_fact(
    ctx: OperationContext,
    scope: Scope,
    draft: FactDraft,
    known_fact: planes_facts.Fact | None,
    now: Instant,
    *,
    is_first: bool,
) -> planes_facts.Fact:
    observed_at = rules.observation_time(draft, at=now)
    # A value that follows another is assumed to hold from its observation on.
    valid_since = draft.valid_from if draft.valid_from is not None or is_first else observed_at
    return planes_facts.Fact(
        id=FactId(ctx.ids.new()),
        kind=draft.fact_kind,
        topic=draft.topic,
        content=draft.content.strip(),
        keywords=draft.keywords,
        entities=draft.entities,
        citations=planes_facts.newest_citations(draft.citations),
        privacy=draft.privacy,
        authority=draft.authority,
        claimed=draft.claimed,
        confidence=rules.effective_confidence(draft),
        tier=draft.tier,
        certainty=draft.certainty,
        # Stored as claimed: a claim of the future is data, and only its position in the order differs.
        observed_at=draft.observed_at if draft.observed_at is not None else now,
        recorded_at=now,
        confirmed_at=observed_at,
        valid_from=valid_since,
        valid_to=rules.end_of(draft, at=now),
        supersedes=known_fact.id if known_fact is not None else None,
        reach=draft.reach,
        channel=scope.channel if draft.reach is planes_facts.FactReach.CHAT else None,
        chat=scope.conversation_key.conversation,
    )


def _confirm_fact(fact: planes_facts.Fact, draft: FactDraft, now: Instant) -> planes_facts.Fact:
    is_bounded = rules.may_bound(draft, fact, at=now)
    observed_at = rules.observation_time(draft, at=now)
    is_stale = fact.stale_at is not None and observed_at < fact.stale_at
    valid_to = rules.end_of(draft, at=now)
    if valid_to is not None and not fact.is_current and fact.valid_to is not None:
        valid_to = min(valid_to, fact.valid_to)
    return fact.model_copy(
        update={
            "evidence_count": fact.evidence_count + 1,
            "confirmed_at": max(fact.confirmed_at, observed_at),
            "stale_at": fact.stale_at if is_stale else None,
            "valid_from": draft.valid_from if is_bounded and draft.valid_from is not None else fact.valid_from,
            "valid_to": valid_to if is_bounded and valid_to is not None else fact.valid_to,
            "citations": planes_facts.newest_citations((*fact.citations, *draft.citations)),
        }
    )


def draft_of(fact: planes_facts.Fact, /, *, citations: tuple[str, ...] = ()) -> FactDraft:
    """Return a fact as a draft for elsewhere. Its citations are only included where those turns are."""
    return FactDraft(
        fact_kind=fact.kind,
        topic=fact.topic,
        content=fact.content,
        keywords=fact.keywords,
        entities=fact.entities,
        citations=citations,
        privacy=fact.privacy,
        authority=fact.authority,
        claimed=fact.claimed,
        confidence=fact.confidence,
        tier=fact.tier,
        certainty=fact.certainty,
        reach=fact.reach,
        observed_at=fact.ordered_at,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
    )


@dataclass(frozen=True, slots=True)
class _SpaceBatch:
    """Changes by space, of a fact in a slot with its versions, oldest first, each with its revision."""

    ctx: OperationContext
    scope: Scope
    record: SpaceRecord
    changes: ChangeSet
    slot: StoredSlot
    versions: Mapping[DocumentRef, tuple[Fact, int]]
    now: Instant


async def plan_change(
    ctx: OperationContext, scope: Scope, home_key: ConversationKey, request: FactChangeRequest, record: SpaceRecord, /
) -> SettledChanges[FactChangeReport]:
    """Return the changes of a control call now. Raises NotFound, InvalidInput, PreconditionFailed."""
    memory = await must_find(ctx, scope, request.id)
    if not isinstance(memory, FactMemory):
        problem = (
            "does not name a fact: `correct` also accepts the id of a message, and shows the new text in its place"
        )
        raise InvalidInput(field="id", problem=problem)
    if request.expected_version not in {None, tag_of(record, memory.ref, memory.revision)}:
        raise PreconditionFailed
    require_believed(memory.fact)
    now = ctx.clock.now()
    fact_change = change_fact(memory.fact, request, at=now, new_id=FactId(ctx.ids.new()), here=home_key)
    slot = await read_slot(ctx.store, scope.space, record, key_of(memory.fact))
    documents = await documents_at(
        ctx.store, scope.space, (DocumentRef(planes_facts.FACTS, name) for name in slot.facts)
    )
    versions = {ref: (Fact.from_bytes(document.body), document.revision) for ref, document in documents.items()}
    report = FactChangeReport(
        space=scope.space,
        id=request.id,
        action=request.action,
        outcome=ControlOutcome.CHANGED if fact_change is not None else ControlOutcome.UNCHANGED,
        reason=None if fact_change is not None else STAYS[request.action],
        remaining=_remaining_versions(request, versions.values()),
        changed=fact_change is not None and not request.dry_run,
        dry_run=request.dry_run,
    )
    if fact_change is None:
        return SettledChanges(report)
    changes = ChangeSet(record)
    batch = _SpaceBatch(ctx, scope, record, changes, slot, versions, now)
    await _put_fact(batch, memory, fact_change)
    if request.action is FactAction.CHANGE_PRIVACY:
        _tighten_privacy(batch, fact_change.fact)
    if request.action is FactAction.DELETE:
        await add_tombstones(ctx, scope.space, record, changes, (memory.fact,), at=now)
    event = event_of(ctx, AUDITED[request.action], at=now, reason=request.reason)
    await note_events(ctx, scope.space, record, changes, {memory.ref: (event,)})
    if request.dry_run:
        return SettledChanges(report)
    new_id = fact_change.successor.id if fact_change.successor is not None else None
    return SettledChanges(report.model_copy(update={"new_id": new_id}), changes)


def _remaining_versions(request: FactChangeRequest, versions: Iterable[tuple[Fact, int]]) -> tuple[str, ...]:
    if request.action is not FactAction.DELETE:
        return ()
    return remaining_of((fact for fact, _ in versions), without={request.id})


async def _put_fact(batch: _SpaceBatch, memory: FactMemory, change: FactChange) -> None:
    """Add the changed fact to a batch, and the version that replaces it."""
    former_fact = memory.fact
    action = JournalAction.WRITE if change.successor is not None else JournalAction.OPERATOR
    action = JournalAction.DELETE if change.fact.state is planes_facts.FactState.DELETED else action
    batch.changes.put(memory.ref, change.fact, expects=memory.revision, action=action)
    if change.fact.home != former_fact.home:
        await _change_slot(batch, former_fact, change.fact)
    if change.successor is None:
        return
    successor = change.successor
    batch.changes.put(DocumentRef(planes_facts.FACTS, successor.id), successor, expects=0, action=JournalAction.WRITE)
    slot_position = (
        batch.slot.facts.index(former_fact.id) + 1 if former_fact.id in batch.slot.facts else len(batch.slot.facts)
    )
    replace(batch.slot, facts=(*batch.slot.facts[:slot_position], successor.id, *batch.slot.facts[slot_position:])).put(
        batch.changes
    )
    plane = DerivedMemoryPlane.SHARED_FACT
    await link_sources(
        batch.ctx,
        batch.scope.space,
        batch.record,
        batch.changes,
        [RestingMemory(plane, successor.id, successor.citations)],
    )
    await unlink_left(
        batch.ctx,
        batch.scope.space,
        batch.record,
        batch.changes,
        RestingMemory(plane, former_fact.id, former_fact.citations),
        after=(),
    )


async def _change_slot(batch: _SpaceBatch, former_fact: Fact, changed_fact: Fact) -> None:
    """Move a fact, and those that follow it, to the slot of its new reach. Raises InvalidInput if that is taken."""
    moved_facts = {changed_fact.id: changed_fact}
    for ref, (version, revision) in _following_versions(batch, former_fact):
        if version.is_believed:
            moved_facts[version.id] = version.model_copy(
                update={"reach": changed_fact.reach, "channel": changed_fact.channel, "chat": changed_fact.chat}
            )
            batch.changes.put(ref, moved_facts[version.id], expects=revision, action=JournalAction.OPERATOR)
    replace(batch.slot, facts=tuple(name for name in batch.slot.facts if name not in moved_facts)).put(batch.changes)
    store, space = batch.ctx.store, batch.scope.space
    slot = await read_slot(store, space, batch.record, key_of(changed_fact))
    refs = [DocumentRef(planes_facts.FACTS, name) for name in slot.facts]
    present_facts = tuple((await values_at(store, space, refs, Fact)).values())
    if replaceable_versions(present_facts, at=batch.now):
        raise InvalidInput(field="reach", problem="has a current fact on this topic: change or forget that first")
    replace(slot, facts=(*slot.facts, *moved_facts)).put(batch.changes)


def _following_versions(batch: _SpaceBatch, fact: Fact) -> list[tuple[DocumentRef, tuple[Fact, int]]]:
    """Return the versions after a fact in its slot."""
    ordered_refs = list(batch.versions)
    own_ref = DocumentRef(planes_facts.FACTS, fact.id)
    return (
        [(ref, batch.versions[ref]) for ref in ordered_refs[ordered_refs.index(own_ref) + 1 :]]
        if own_ref in ordered_refs
        else []
    )


def _tighten_privacy(batch: _SpaceBatch, fact: Fact) -> None:
    """Make the other versions of a fact at least as private; for one that has ended, only the earlier ones."""
    later_refs = (
        {ref for ref, _ in _following_versions(batch, fact)} if is_past(fact, at=batch.now) else set[DocumentRef]()
    )
    for ref, (version, revision) in batch.versions.items():
        stricter_fact = (
            tighten_privacy(version, fact.privacy) if version.id != fact.id and ref not in later_refs else None
        )
        if stricter_fact is not None:
            batch.changes.put(ref, stricter_fact, expects=revision, action=JournalAction.OPERATOR)


async def uses_of(ctx: OperationContext, space: SpaceId, facts: Iterable[FactId], /) -> dict[FactId, Instant]:
    """Return when each of up to a page of facts was last shown, if known."""
    fact_ids = list(facts)
    uses_by_ref = await values_at(ctx.store, space, [DocumentRef(FACT_USES, fact) for fact in fact_ids], FactUse)
    stored_uses = {FactId(ref.key): use.last_used_at for ref, use in uses_by_ref.items()}
    return stored_uses | {fact: at for fact, at in ctx.fact_uses.of(space).items() if fact in fact_ids}


async def keep_uses(ctx: OperationContext, space: SpaceId, /) -> None:
    """Store the remembered uses of a space. Nothing fails because of it: a failure is retried later."""
    pending_uses = dict(list(ctx.fact_uses.of(space).items())[-limits.SCAN_MAX :])
    try:
        if not pending_uses or await ctx.spaces.find(space) is None:
            return
        await settle_changes(ctx, space, partial(_plan_pending, ctx, space, pending_uses))
    except (Conflict, StoreError):
        return
    ctx.fact_uses.drop(space, pending_uses)


async def keep_all_uses(ctx: OperationContext, /, *, within_s: float) -> None:
    """Store the remembered uses of each space before the runtime ends; after that time, of no further one."""
    event_loop = asyncio.get_running_loop()
    deadline = event_loop.time() + within_s
    for space in ctx.fact_uses.spaces():
        if event_loop.time() > deadline:
            return
        # A space that its user is closing keeps what was stored before.
        with calling_as(SERVER), suppress(SealError):
            await keep_uses(ctx, space)


async def _plan_pending(
    ctx: OperationContext, space: SpaceId, pending_uses: dict[FactId, Instant], record: SpaceRecord
) -> SettledChanges[None]:
    facts = await ctx.store.get(space, [DocumentRef(planes_facts.FACTS, fact) for fact in pending_uses])
    use_documents = await ctx.store.get(space, [DocumentRef(FACT_USES, fact) for fact in pending_uses])
    changes = ChangeSet(record)
    for (fact, at), fact_document, use_document in zip(pending_uses.items(), facts, use_documents, strict=True):
        if fact_document is None:
            continue
        former_use = FactUse.from_bytes(use_document.body) if use_document is not None else None
        if former_use is not None and at - former_use.last_used_at < TOUCH_MS:
            continue
        fact_use = FactUse(last_used_at=at, uses=(former_use.uses if former_use is not None else 0) + 1)
        revision = use_document.revision if use_document is not None else 0
        # One entry in the journal is for all of them.
        action = None if changes else JournalAction.MAINTENANCE
        changes.put(DocumentRef(FACT_USES, fact), fact_use, expects=revision, action=action)
    return SettledChanges(None, changes)
