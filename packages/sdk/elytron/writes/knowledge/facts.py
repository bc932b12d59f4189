"""Proposed facts are judged and admitted: one current value per slot, what it replaces kept as history."""

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
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
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import ConversationKey, Scope


async def plan_facts(ctx: OperationContext, scope: Scope, write: LongTermExtraction, record: SpaceRecord, /) -> Planned:
    """Judge each draft in order, later ones against what earlier ones leave."""
    book = _Slots(record, scope.conversation_key)
    await book.read(ctx, scope, write)
    now = ctx.clock.now()
    decisions = tuple(_admit(ctx, scope, draft, book, now) for draft in write.facts)
    await book.unlink(ctx, scope)
    first = write.facts[0]
    return Planned(book.changes, decisions, Ref(long_term.SLOTS, book.tag(first)))


class _Slots:
    """The slots that one write touches: their stored facts, and the write's changes."""

    def __init__(self, record: SpaceRecord, key: ConversationKey, /) -> None:
        self._record = record
        self._key = key
        self._slots: dict[str, tuple[long_term.Slot, int]] = {}
        self._facts: dict[FactId, tuple[long_term.Fact, int]] = {}
        self._stored: tuple[long_term.Fact, ...] = ()
        self._learning = Learning()
        self._buried = Buried(record, frozenset(), {})
        self.changes = Changes(record)

    def tag(self, draft: FactDraft, /) -> str:
        """Return the tag of a draft's slot in this conversation."""
        return self._record.slot_tag(draft.fact_kind, draft.topic, self._home(draft))

    def refusal(self, draft: FactDraft, /) -> str:
        """Return why a proposed value is not to be learned; an empty text if it may be."""
        if draft.operation is long_term.FactOperation.DELETE:
            return ""
        is_buried = self._buried.has(draft.fact_kind, draft.content, draft.citations, self._home(draft))
        return learning_rules.FORGOTTEN_BEFORE if is_buried else learning_rules.refusal(draft, self._learning)

    def _home(self, draft: FactDraft) -> ConversationKey | None:
        return self._key if draft.reach is long_term.Reach.CHAT else None

    async def read(self, ctx: OperationContext, scope: Scope, write: LongTermExtraction, /) -> None:
        slots = [Ref(long_term.SLOTS, self.tag(draft)) for draft in write.facts]
        for ref, document in (await documents_at(ctx.store, scope.space, slots)).items():
            self._slots[ref.key] = (long_term.Slot.from_bytes(document.body), document.revision)
        newest = [Ref(long_term.FACTS, slot.facts[-1]) for slot, _ in self._slots.values()]
        for ref, document in (await documents_at(ctx.store, scope.space, newest)).items():
            self._facts[FactId(ref.key)] = (long_term.Fact.from_bytes(document.body), document.revision)
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

    def newest(self, draft: FactDraft, /) -> long_term.Fact | None:
        """Return the fact that holds the draft's slot, or held it last."""
        slot = self._slots.get(self.tag(draft))
        if slot is None or slot[0].facts[-1] not in self._facts:
            return None
        return self._facts[slot[0].facts[-1]][0]

    def put(self, fact: long_term.Fact, action: Action, /) -> None:
        """Write a fact, new or changed."""
        _, revision = self._facts.get(fact.id, (None, 0))
        self._facts[fact.id] = (fact, revision)
        self.changes.put(Ref(long_term.FACTS, fact.id), fact, expects=revision, action=action)

    def hold(self, fact: long_term.Fact, /) -> None:
        """Make `fact` the newest of its slot."""
        tag = self._record.slot_tag(fact.kind, fact.topic, fact.home)
        known, revision = self._slots.get(tag, (None, 0))
        facts = (*known.facts, fact.id) if known is not None else (fact.id,)
        slot = long_term.Slot(kind=fact.kind, topic=fact.topic, facts=facts)
        self._slots[tag] = (slot, revision)
        self.changes.put(Ref(long_term.SLOTS, tag), slot, expects=revision, action=None)


def _admit(ctx: OperationContext, scope: Scope, draft: FactDraft, book: _Slots, now: Instant) -> WriteDecision:
    newest = book.newest(draft)
    judgement = rules.judge_fact(draft, newest, at=now)
    current = newest if newest is not None and newest.is_current else None
    if judgement.verdict is Verdict.ACCEPT and (refusal := book.refusal(draft)):
        judgement = rules.rejected(refusal)
    kept: FactId | None = current.id if current is not None else None
    supersedes: FactId | None = None
    match judgement.outcome:
        case Outcome.STORED | Outcome.UPDATED:
            fact = _fact(ctx, scope, draft, current, now)
            if current is not None:
                closed = long_term.close(
                    current, at=now, because=draft.reason or "superseded", state=long_term.State.SUPERSEDED, by=fact.id
                )
                began = fact.valid_from if fact.valid_from is not None else fact.observed_at
                book.put(closed.model_copy(update={"valid_to": current.valid_to or began}), Action.WRITE)
                supersedes = current.id
            book.put(fact, Action.WRITE)
            book.hold(fact)
            kept = fact.id
        case Outcome.CONFIRMED:
            assert current is not None
            book.put(_confirmed(current, draft, now), Action.MERGE)
        case Outcome.DELETED:
            assert current is not None
            because = draft.reason or "deleted"
            closed = long_term.close(current, at=now, because=because, state=long_term.State.DELETED)
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


def _fact(
    ctx: OperationContext, scope: Scope, draft: FactDraft, current: long_term.Fact | None, now: Instant
) -> long_term.Fact:
    observed_at = rules.observed(draft, at=now)
    # A value that replaces another is taken to hold from its observation on.
    began = draft.valid_from if draft.valid_from is not None or current is None else observed_at
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
        supersedes=current.id if current is not None else None,
        reach=draft.reach,
        channel=scope.channel if draft.reach is long_term.Reach.CHAT else None,
        chat=scope.conversation_key.conversation,
    )


def _confirmed(fact: long_term.Fact, draft: FactDraft, now: Instant) -> long_term.Fact:
    is_bounded = rules.may_bound(draft, fact, at=now)
    observed_at = rules.observed(draft, at=now)
    is_stale = fact.stale_at is not None and observed_at < fact.stale_at
    ends_at = rules.end_of(draft, at=now)
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
