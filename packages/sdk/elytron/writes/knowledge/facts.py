"""Proposed facts are judged and admitted: one current value per slot, what it replaces kept as history."""

from collections.abc import Sequence
from dataclasses import replace

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.slots import SlotKey, StoredSlot, read_slots, slot_ref
from elytron.documents.stored_values import documents_at
from elytron.memories.provenance_links import Resting, unlink_left
from elytron.memories.tombstones import LEARNING, Buried, read_buried, read_learning
from elytron.writes.commit import Planned
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import (
    FactDraft,
    LongTermExtraction,
    Outcome,
    Verdict,
    WriteDecision,
)
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.ids import FactId
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.learning_rules import Learning
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import learning_rules, rules
from elytron_core.policy.temporal import slot_versions
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import ConversationKey, Scope

_VERSIONS_AT_ONCE = 2


async def plan_facts(ctx: OperationContext, scope: Scope, write: LongTermExtraction, record: SpaceRecord, /) -> Planned:
    """Judge each draft in order, later ones against what earlier ones leave."""
    book = _Slots(record, scope.conversation_key)
    await book.read(ctx, scope, write)
    now = ctx.clock.now()
    decisions = tuple(_admit(ctx, scope, draft, book, now) for draft in write.facts)
    await book.unlink(ctx, scope)
    return Planned(book.changes, decisions, book.ref(write.facts[0]))


class _Slots:
    """The slots that one write touches: their stored facts, and the write's changes."""

    def __init__(self, record: SpaceRecord, key: ConversationKey, /) -> None:
        self._record = record
        self._key = key
        self._slots: dict[Ref, StoredSlot] = {}
        self._facts: dict[FactId, tuple[long_term.Fact, int]] = {}
        self._stored: tuple[long_term.Fact, ...] = ()
        self._learning = Learning()
        self._buried = Buried(record, frozenset(), {})
        self.changes = Changes(record)

    def ref(self, draft: FactDraft, /) -> Ref:
        """Return the place of a draft's slot in this conversation."""
        return slot_ref(self._record, self._key_of(draft))

    def _key_of(self, draft: FactDraft) -> SlotKey:
        return SlotKey(draft.fact_kind, draft.topic, self._home(draft))

    def refusal(self, draft: FactDraft, /) -> str:
        """Return why a proposed value is not to be learned; an empty text if it may be."""
        if draft.operation is long_term.FactOperation.DELETE:
            return ""
        is_buried = self._buried.has(draft.fact_kind, draft.content, draft.citations, self._home(draft))
        return learning_rules.FORGOTTEN_BEFORE if is_buried else learning_rules.refusal(draft, self._learning)

    def _home(self, draft: FactDraft) -> ConversationKey | None:
        return self._key if draft.reach is long_term.Reach.CHAT else None

    async def read(self, ctx: OperationContext, scope: Scope, write: LongTermExtraction, /) -> None:
        keys = [self._key_of(draft) for draft in write.facts]
        self._slots = await read_slots(ctx.store, scope.space, self._record, keys)
        await self._read_versions(ctx, scope)
        self._stored = tuple(fact for fact, _ in self._facts.values())
        # Read before the tombstones: a change of these makes the rules another revision, and the write is judged again.
        self._learning, revision = await read_learning(ctx, scope.space)
        self.changes.require(LEARNING, revision=revision)
        proposed = [(draft.fact_kind, draft.content, draft.citations, self._home(draft)) for draft in write.facts]
        self._buried = await read_buried(ctx, scope.space, self._record, proposed)

    async def unlink(self, ctx: OperationContext, scope: Scope, /) -> None:
        """Remove the links to turns that a fact no longer cites."""
        for fact in self._stored:
            after = self._facts[fact.id][0].citations
            if not set(fact.citations) <= set(after):
                before = Resting(DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
                await unlink_left(ctx, scope.space, self._record, self.changes, before, after=after)

    async def _read_versions(self, ctx: OperationContext, scope: Scope) -> None:
        """Read each slot's versions from the newest back, until one had ended before now: others had before it."""
        now = ctx.clock.now()
        ahead = {ref: slot.facts for ref, slot in self._slots.items()}
        page = _VERSIONS_AT_ONCE
        while asked := {name for names in ahead.values() for name in names[-page:]}:
            refs = [Ref(long_term.FACTS, name) for name in asked]
            for ref, document in (await documents_at(ctx.store, scope.space, refs)).items():
                self._facts[FactId(ref.key)] = (long_term.Fact.from_bytes(document.body), document.revision)
            for ref, names in ahead.items():
                newest = [self._facts[name][0] for name in names[-page:] if name in self._facts]
                # Each list of an earlier build may have a current version.
                is_read = not self._slots[ref].earlier and any(slot_versions.is_past(fact, at=now) for fact in newest)
                ahead[ref] = () if is_read else names[:-page]
            page *= _VERSIONS_AT_ONCE

    def versions(self, draft: FactDraft, /) -> list[long_term.Fact]:
        """Return the newest versions of the draft's slot, oldest first, as the drafts before it leave them."""
        return [self._facts[name][0] for name in self._slots[self.ref(draft)].facts if name in self._facts]

    def put(self, fact: long_term.Fact, action: Action, /) -> None:
        """Write a fact, new or changed."""
        _, revision = self._facts.get(fact.id, (None, 0))
        self._facts[fact.id] = (fact, revision)
        self.changes.put(Ref(long_term.FACTS, fact.id), fact, expects=revision, action=action)

    def hold(self, draft: FactDraft, fact: long_term.Fact, /) -> None:
        """Make `fact` the newest of the draft's slot."""
        ref = self.ref(draft)
        known = self._slots[ref]
        slot = replace(known, facts=(*known.facts, fact.id))
        slot.put(self.changes)
        self._slots[ref] = replace(slot, earlier={})


def _admit(ctx: OperationContext, scope: Scope, draft: FactDraft, book: _Slots, now: Instant) -> WriteDecision:
    versions = book.versions(draft)
    judgement = rules.judge_fact(draft, versions, at=now)
    known = rules.known_version(draft, versions, at=now)
    if judgement.verdict is Verdict.ACCEPT and (refusal := book.refusal(draft)):
        judgement = rules.rejected(refusal)
    kept: FactId | None = known.id if known is not None else None
    supersedes: FactId | None = None
    match judgement.outcome:
        case Outcome.STORED | Outcome.UPDATED:
            is_first = not any(version.is_believed for version in versions)
            fact = _fact(ctx, scope, draft, known, now, is_first=is_first)
            _replace(book, fact, versions, because=draft.reason or "superseded", now=now)
            book.put(fact, Action.WRITE)
            book.hold(draft, fact)
            kept, supersedes = fact.id, fact.supersedes
        case Outcome.CONFIRMED:
            assert known is not None
            confirmed = _confirmed(known, draft, now)
            book.put(confirmed, Action.MERGE)
            if known.is_current:
                others = [fact for fact in versions if fact.id != known.id]
                _replace(book, confirmed, others, because="superseded", now=now)
        case Outcome.DELETED:
            because = draft.reason or "deleted"
            for fact in slot_versions.replaceable_versions(versions, at=now):
                closed = long_term.close(fact, at=now, because=because, state=long_term.State.DELETED)
                book.put(closed.model_copy(update={"gone_at": draft.observed_at}), Action.DELETE)
        case _:
            pass
    return WriteDecision(
        plane=Plane.LONG_TERM,
        id=kept,
        outcome=judgement.outcome,
        verdict=judgement.verdict,
        reason=judgement.reason,
        supersedes=supersedes,
    )


def _replace(
    book: _Slots, fact: long_term.Fact, versions: Sequence[long_term.Fact], *, because: str, now: Instant
) -> None:
    """End the other versions of a slot at the beginning of `fact`."""
    began = fact.valid_from if fact.valid_from is not None else fact.observed_at
    for version in slot_versions.replaceable_versions(versions, at=now):
        closed = slot_versions.replaced(version, began=began, at=now, because=because, by=fact.id)
        if closed is not None:
            book.put(closed, Action.WRITE)


def _fact(
    ctx: OperationContext, scope: Scope, draft: FactDraft, known: long_term.Fact | None, now: Instant, *, is_first: bool
) -> long_term.Fact:
    observed_at = rules.observed(draft, at=now)
    # A value that follows another is taken to hold from its observation on.
    began = draft.valid_from if draft.valid_from is not None or is_first else observed_at
    return long_term.Fact(
        id=FactId(ctx.ids.new()),
        kind=draft.fact_kind,
        topic=draft.topic,
        content=draft.content.strip(),
        keywords=draft.keywords,
        entities=draft.entities,
        citations=long_term.newest_citations(draft.citations),
        privacy=draft.privacy,
        authority=draft.authority,
        claimed=draft.claimed,
        confidence=rules.effective_confidence(draft),
        tier=draft.tier,
        certainty=draft.certainty,
        observed_at=observed_at,
        recorded_at=now,
        confirmed_at=observed_at,
        valid_from=began,
        valid_to=rules.end_of(draft, at=now),
        supersedes=known.id if known is not None else None,
        reach=draft.reach,
        channel=scope.channel if draft.reach is long_term.Reach.CHAT else None,
        chat=scope.conversation_key.conversation,
    )


def _confirmed(fact: long_term.Fact, draft: FactDraft, now: Instant) -> long_term.Fact:
    is_bounded = rules.may_bound(draft, fact, at=now)
    observed_at = rules.observed(draft, at=now)
    is_stale = fact.stale_at is not None and observed_at < fact.stale_at
    ends_at = rules.end_of(draft, at=now)
    if ends_at is not None and not fact.is_current and fact.valid_to is not None:
        ends_at = min(ends_at, fact.valid_to)
    return fact.model_copy(
        update={
            "evidence_count": fact.evidence_count + 1,
            "confirmed_at": max(fact.confirmed_at, observed_at),
            "stale_at": fact.stale_at if is_stale else None,
            "valid_from": draft.valid_from if is_bounded and draft.valid_from is not None else fact.valid_from,
            "valid_to": ends_at if is_bounded and ends_at is not None else fact.valid_to,
            "citations": long_term.newest_citations((*fact.citations, *draft.citations)),
        }
    )


def draft_of(fact: long_term.Fact, /, *, citations: tuple[str, ...] = ()) -> FactDraft:
    """Return a fact as it is proposed elsewhere. What it cites goes along only where those turns do."""
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
        observed_at=fact.observed_at,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
    )
