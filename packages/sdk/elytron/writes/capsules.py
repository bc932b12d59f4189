"""Continuity capsules are written over by what the same matter came to later; the least worth give way."""

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.plane_documents import id_of
from elytron.memories.provenance_links import Resting, unlink_left
from elytron.writes.commit import Planned
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import Outcome, Verdict, WriteDecision
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.contracts.planes import CapsuleDraft, CapsulesWrite
from elytron_core.planes.conversation import continuity
from elytron_core.planes.conversation.continuity import CapsuleId, CapsuleKind, CapsuleState, ContinuityCapsule
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.continuity import capsules as policy
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text import similarity

BLANK = "the topic or the summary is empty"
NO_SUCH = "there is no capsule of the id that it would replace"
GAVE_WAY = "it gave way: there were more capsules than are kept"


async def plan_capsules(ctx: OperationContext, scope: Scope, write: CapsulesWrite, record: SpaceRecord, /) -> Planned:
    """Return the changes of writing these capsules now, and the decision on each."""
    book = _Book(record)
    await book.read(ctx, scope)
    now = ctx.clock.now()
    decisions = [_written(scope, draft, book, now) for draft in write.capsules]
    decisions += [book.drop(capsule) for capsule in policy.giving_way(book.all, fresh=book.fresh, now=now)]
    changes = book.commit()
    for before, after in book.cut:
        resting = Resting(DerivedMemoryPlane.CONTINUITY, before.id, before.provenance)
        await unlink_left(ctx, scope.space, record, changes, resting, after=after)
    return Planned(changes, tuple(decisions), Ref(continuity.CAPSULES, record.conversation_tag(scope.conversation_key)))


class _Book:
    """The capsules of a space: the stored ones, and the changes of one write."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self.record = record
        self._kept: dict[Ref, tuple[ContinuityCapsule, int]] = {}
        self._written: dict[Ref, Action] = {}
        self._dropped: dict[Ref, int] = {}
        self._stored: dict[Ref, ContinuityCapsule] = {}

    async def read(self, ctx: OperationContext, scope: Scope, /) -> None:
        # The space keeps few of them, so all are at hand; more than that are only there until the next write.
        for document in await ctx.store.scan(scope.space, continuity.CAPSULES, limit=limits.SCAN_MAX):
            self._stored[document.ref] = ContinuityCapsule.from_bytes(document.body)
            self._kept[document.ref] = (self._stored[document.ref], document.revision)

    @property
    def all(self) -> list[ContinuityCapsule]:
        return [capsule for capsule, _ in self._kept.values()]

    @property
    def fresh(self) -> frozenset[str]:
        return frozenset(id_of(ref) for ref in self._written)

    @property
    def cut(self) -> list[tuple[ContinuityCapsule, tuple[str, ...]]]:
        """Return the stored capsules that do not rest any more on all that they cited, each with what is left."""
        left = {ref: self._kept[ref][0].provenance if ref in self._kept else () for ref in self._stored}
        return [(capsule, left[ref]) for ref, capsule in self._stored.items() if set(capsule.provenance) - {*left[ref]}]

    def place_of(self, home: ConversationKey, kind: CapsuleKind, topic: str, /) -> str | None:
        """Return the key of the conversation's capsule on a topic, which an earlier build may have tagged otherwise."""
        for one in self.all:
            if (one.channel, one.conversation, one.kind) == (*home, kind) and long_term.topic_key(one.topic) == topic:
                return one.id.partition(":")[2]
        return None

    def get(self, ref: Ref, /) -> ContinuityCapsule | None:
        return self._kept[ref][0] if ref in self._kept else None

    def put(self, ref: Ref, capsule: ContinuityCapsule, action: Action, /) -> None:
        _, revision = self._kept.get(ref, (None, 0))
        self._kept[ref] = (capsule, revision)
        self._written[ref] = action

    def drop(self, capsule: ContinuityCapsule, /) -> WriteDecision:
        ref = Ref(continuity.CAPSULES, capsule.id.partition(":")[2])
        self._dropped[ref] = self._kept.pop(ref)[1]
        return WriteDecision(plane=Plane.CONTINUITY, id=capsule.id, outcome=Outcome.DELETED, reason=GAVE_WAY)

    def commit(self) -> Changes:
        changes = Changes(self.record)
        for ref, action in self._written.items():
            capsule, revision = self._kept[ref]
            changes.put(ref, capsule, expects=revision, action=action)
        for ref, revision in self._dropped.items():
            changes.delete(ref, expects=revision)
        return changes


def _written(scope: Scope, draft: CapsuleDraft, book: _Book, now: Instant) -> WriteDecision:
    if similarity.is_blank(draft.topic) or similarity.is_blank(draft.summary):
        return _rejected(BLANK)
    key = scope.conversation_key
    topic = long_term.topic_key(draft.topic)
    tag = book.record.tag("capsule", *key, draft.capsule_kind.value, topic)
    place = f"{book.record.conversation_tag(key)}.{tag}"
    ref = Ref(continuity.CAPSULES, book.place_of(key, draft.capsule_kind, topic) or place)
    capsule = _capsule(scope, draft, CapsuleId(id_of(ref)), book.get(ref), now)
    replaced = None
    if draft.supersedes is not None:
        replaced = next((known for known in book.all if known.id == draft.supersedes and known.id != capsule.id), None)
        if replaced is None:
            return _rejected(NO_SUCH)
        closed = {"state": CapsuleState.SUPERSEDED, "superseded_by": capsule.id}
        book.put(
            Ref(continuity.CAPSULES, replaced.id.partition(":")[2]),
            replaced.model_copy(update=closed),
            Action.WRITE,
        )
    known = book.get(ref)
    if known is None:
        outcome = Outcome.STORED
    else:
        same = known.model_copy(update={"updated_at": now}) == capsule
        outcome = Outcome.CONFIRMED if same else Outcome.UPDATED
    book.put(ref, capsule, Action.MERGE if outcome is Outcome.CONFIRMED else Action.WRITE)
    return WriteDecision(plane=Plane.CONTINUITY, id=capsule.id, outcome=outcome, name=draft.topic)


def _capsule(
    scope: Scope, draft: CapsuleDraft, capsule_id: CapsuleId, known: ContinuityCapsule | None, now: Instant
) -> ContinuityCapsule:
    channel, conversation = scope.conversation_key
    provenance = dict.fromkeys((*(known.provenance if known is not None else ()), *draft.provenance))
    return ContinuityCapsule(
        id=capsule_id,
        kind=draft.capsule_kind,
        topic=" ".join(draft.topic.split()),
        summary=draft.summary,
        outcome=draft.outcome,
        decisions=draft.decisions,
        next_step=draft.next_step,
        unresolved=draft.unresolved,
        artifacts=draft.artifacts,
        provenance=tuple(provenance)[-limits.CITATIONS :],
        state=draft.state,
        channel=channel,
        conversation=conversation,
        recorded_at=known.recorded_at if known is not None else now,
        updated_at=now,
    )


def _rejected(reason: str) -> WriteDecision:
    return WriteDecision(plane=Plane.CONTINUITY, outcome=Outcome.REJECTED, verdict=Verdict.REJECT, reason=reason)
