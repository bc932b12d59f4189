"""Planes with one document per conversation, period or name: state, summary, notes, capsules, garden, and subjects.

A persona's soul is bound in the same batch as its subject, so that no two can have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elytron.context import OperationContext
from elytron.documents.planes import HOMES, id_of
from elytron.documents.stored_values import ChangeSet, documents_at, value_at, values_at
from elytron.memories.links import RestingMemory, unlink_left
from elytron.writes.commit import PlannedWrite
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.continuity import (
    CapsuleDraft,
    CapsulesWrite,
    EdgeDraft,
    ExecutionWrite,
    GardenWrite,
    NoteDraft,
    NotesWrite,
    SubjectDraft,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import WriteDecision, WriteOutcome
from elytron_core.errors import InvalidInput
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import continuity, facts, subjects, transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.continuity import CapsuleId, CapsuleKind, CapsuleState, ContinuityCapsule
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.subjects import BoundSoul, Subject, SubjectEdge, SubjectId
from elytron_core.planes.transcript import DerivedMemoryPlane, cited_turn
from elytron_core.policy import continuity as policy
from elytron_core.policy import maintenance
from elytron_core.policy.admission import own_output, rules
from elytron_core.policy.continuity import drawn_again
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text import similarity

ValueT = TypeVar("ValueT", bound=Value)
BLANK = "the text is empty"


@dataclass(slots=True)
class _NoteWriter:
    """Writes documents into a conversation."""

    record: SpaceRecord
    scope: Scope
    collection: str
    now: Instant
    changes: ChangeSet
    decisions: list[WriteDecision] = field(default_factory=list[WriteDecision])

    @property
    def tag(self) -> str:
        return self.record.conversation_tag(self.scope.conversation_key)

    def named_ref(self, purpose: str, name: str, /) -> DocumentRef:
        """Return the ref of this conversation's document called `name`."""
        return DocumentRef(
            self.collection, f"{self.tag}.{self.record.tag(purpose, *self.scope.conversation_key, name)}"
        )

    def keep(
        self,
        ref: DocumentRef,
        draft: Value,
        stored_value: ValueT | None,
        revision: int,
        /,
        *,
        kind: type[ValueT],
        **more: Any,
    ) -> None:
        """Write `draft`, replacing `stored_value`; an equal one changes nothing."""
        channel, conversation = self.scope.conversation_key
        fields = {"id": id_of(ref), "channel": channel, "conversation": conversation, "updated_at": self.now}
        value = kind.model_validate({**dict(draft), **fields, **more})
        outcome = WriteOutcome.STORED if stored_value is None else WriteOutcome.UPDATED
        if stored_value is not None and stored_value.model_copy(update={"updated_at": self.now}) == value:
            outcome = WriteOutcome.CONFIRMED
        else:
            self.changes.put(ref, value, expects=revision, action=JournalAction.WRITE)
        self._decide(outcome, draft, id=id_of(ref))

    def refuse(self, draft: Value, reason: str, /, *, outcome: WriteOutcome = WriteOutcome.REJECTED) -> None:
        """Reject `draft`."""
        self._decide(outcome, draft, verdict=AdmissionVerdict.REJECT, reason=reason)

    def planned(self) -> PlannedWrite:
        return PlannedWrite(self.changes, tuple(self.decisions), DocumentRef(self.collection, self.tag))

    def _decide(self, outcome: WriteOutcome, draft: Value, **more: Any) -> None:
        name = getattr(draft, "period", None) or getattr(draft, "name", None)
        plane = HOMES[self.collection].plane
        self.decisions.append(WriteDecision(plane=plane, outcome=outcome, name=name, **more))


def _open_writer(ctx: OperationContext, scope: Scope, record: SpaceRecord, collection: str) -> _NoteWriter:
    return _NoteWriter(record, scope, collection, ctx.clock.now(), ChangeSet(record))


async def plan_execution(
    ctx: OperationContext, scope: Scope, write: ExecutionWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing this execution state now."""
    writer = _open_writer(ctx, scope, record, continuity.EXECUTION)
    ref = DocumentRef(continuity.EXECUTION, writer.tag)
    if similarity.is_blank(write.state.goal):
        writer.refuse(write.state, "the goal is empty")
    else:
        current_state = await value_at(ctx.store, scope.space, ref, continuity.ExecutionState)
        writer.keep(ref, write.state, *current_state, kind=continuity.ExecutionState)
    return writer.planned()


async def plan_summary(
    ctx: OperationContext, scope: Scope, write: SummaryWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing this summary now; none if it covers less than a current one."""
    writer = _open_writer(ctx, scope, record, continuity.SUMMARIES)
    ref = DocumentRef(continuity.SUMMARIES, writer.tag)
    stored_summary, revision = await value_at(ctx.store, scope.space, ref, continuity.SessionSummary)
    if similarity.is_blank(write.summary.text):
        writer.refuse(write.summary, BLANK)
    elif (
        stored_summary is not None
        and stored_summary.forgotten_at is None
        and write.summary.messages < stored_summary.messages
    ):
        writer.refuse(write.summary, "it covers fewer messages than the stored summary", outcome=WriteOutcome.SKIPPED)
    else:
        writer.keep(ref, write.summary, stored_summary, revision, kind=continuity.SessionSummary)
    return writer.planned()


async def plan_notes(ctx: OperationContext, scope: Scope, write: NotesWrite, record: SpaceRecord, /) -> PlannedWrite:
    """Return the changes of writing these notes now; of several for one period the last counts."""
    writer = _open_writer(ctx, scope, record, continuity.NOTES)
    drafts = {writer.named_ref("note", draft.period): draft for draft in write.notes}
    documents = await documents_at(ctx.store, scope.space, drafts)
    for ref, draft in drafts.items():
        await _write_note(ctx, writer, ref, draft, documents.get(ref))
    return writer.planned()


async def plan_drawn_notes(
    ctx: OperationContext,
    scope: Scope,
    write: NotesWrite,
    turns: Sequence[tuple[TurnId, transcript.Turn]],
    record: SpaceRecord,
    /,
) -> PlannedWrite:
    """Return the changes of writing these notes, made from `turns`, now.

    An existing generated note is regenerated from its citations and the new messages. One that a caller wrote or hid
    stays.
    """
    writer = _open_writer(ctx, scope, record, continuity.NOTES)
    for draft in write.notes:
        ref, month_ref = (
            writer.named_ref("note", period) for period in (draft.period, maintenance.month_of(draft.period))
        )
        document, month_document = await ctx.store.get(scope.space, (ref, month_ref))
        if document is None:
            await _write_note(ctx, writer, ref, draft, None)
            continue
        note = continuity.DailyNote.from_bytes(document.body)
        is_hidden = note.forgotten_at is not None and not maintenance.is_rolled_up(
            note, continuity.DailyNote.from_bytes(month_document.body) if month_document is not None else None
        )
        if is_hidden or not own_output.is_drawn(note.text):
            continue
        redrawn_note = drawn_again(note, (*await _cited_turns(ctx, scope, note), *turns))
        if redrawn_note is not None:
            await _write_note(ctx, writer, ref, redrawn_note, document)
    return writer.planned()


async def _cited_turns(
    ctx: OperationContext, scope: Scope, note: continuity.DailyNote
) -> Sequence[tuple[TurnId, transcript.Turn]]:
    """Return the turns that a note cites and that are still there."""
    refs = [
        DocumentRef(transcript.TURNS, cited_place[0])
        for name in note.citations
        if (cited_place := cited_turn(name)) is not None
    ]
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    return [(TurnId(ref.key), turn) for ref, turn in turns.items()]


async def _write_note(
    ctx: OperationContext, writer: _NoteWriter, ref: DocumentRef, draft: NoteDraft, document: Document | None
) -> None:
    try:
        # A month counts from its first day.
        observed_at = instant(draft.period if len(draft.period) > len("2026-08") else f"{draft.period}-01")
    except InvalidInput:
        writer.refuse(draft, "there is no such day")
        return
    if similarity.is_blank(draft.text):
        writer.refuse(draft, BLANK)
        return
    stored_note, revision = None, 0
    if document is not None:
        stored_note, revision = continuity.DailyNote.from_bytes(document.body), document.revision
    recorded_at = stored_note.recorded_at if stored_note is not None else writer.now
    writer.keep(
        ref, draft, stored_note, revision, kind=continuity.DailyNote, observed_at=observed_at, recorded_at=recorded_at
    )
    if stored_note is not None:
        former_memory = RestingMemory(DerivedMemoryPlane.ARCHIVE_EVIDENCE, stored_note.id, stored_note.citations)
        await unlink_left(ctx, writer.scope.space, writer.record, writer.changes, former_memory, after=draft.citations)


async def plan_garden(ctx: OperationContext, scope: Scope, write: GardenWrite, record: SpaceRecord, /) -> PlannedWrite:
    """Return the changes of writing these private documents now; beyond sixteen names none is accepted."""
    writer = _open_writer(ctx, scope, record, continuity.GARDEN)
    page = await ctx.store.scan(
        scope.space, continuity.GARDEN, prefix=f"{writer.tag}.", limit=limits.GARDEN_DOCUMENTS + 1
    )
    documents = {one.ref: (continuity.GardenDocument.from_bytes(one.body), one.revision) for one in page}
    refs = set(documents)
    # Of several documents with one name the last counts.
    for draft in {draft.name: draft for draft in write.documents}.values():
        ref = writer.named_ref("garden", draft.name)
        if similarity.is_blank(draft.text):
            writer.refuse(draft, BLANK)
        elif ref not in refs and len(refs) >= limits.GARDEN_DOCUMENTS:
            writer.refuse(
                draft, f"a conversation is limited to {limits.GARDEN_DOCUMENTS} private documents: erase one first"
            )
        else:
            refs.add(ref)
            stored_document, revision = documents.get(ref, (None, 0))
            created_at = stored_document.created_at if stored_document is not None else writer.now
            writer.keep(ref, draft, stored_document, revision, kind=continuity.GardenDocument, created_at=created_at)
    return writer.planned()


async def plan_capsules(
    ctx: OperationContext, scope: Scope, write: CapsulesWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing these capsules now, and the decision on each."""
    capsule_changes = _CapsuleChanges(record)
    await capsule_changes.read(ctx, scope)
    now = ctx.clock.now()
    decisions = [_write_capsule(scope, draft, capsule_changes, now) for draft in write.capsules]
    decisions += [
        capsule_changes.drop(capsule)
        for capsule in policy.giving_way(capsule_changes.all, fresh=capsule_changes.fresh, now=now)
    ]
    changes = capsule_changes.commit()
    for former_capsule, remaining_citations in capsule_changes.cut:
        former_memory = RestingMemory(DerivedMemoryPlane.CONTINUITY, former_capsule.id, former_capsule.provenance)
        await unlink_left(ctx, scope.space, record, changes, former_memory, after=remaining_citations)
    return PlannedWrite(
        changes, tuple(decisions), DocumentRef(continuity.CAPSULES, record.conversation_tag(scope.conversation_key))
    )


class _CapsuleChanges:
    """The capsules of a space: the stored ones, and the changes of one write."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self.record = record
        self._capsules: dict[DocumentRef, tuple[ContinuityCapsule, int]] = {}
        self._actions: dict[DocumentRef, JournalAction] = {}
        self._dropped: dict[DocumentRef, int] = {}
        self._stored: dict[DocumentRef, ContinuityCapsule] = {}

    async def read(self, ctx: OperationContext, scope: Scope, /) -> None:
        # A space has few of them, so all are loaded; an excess is only there until the next write.
        for document in await ctx.store.scan(scope.space, continuity.CAPSULES, limit=limits.SCAN_MAX):
            self._stored[document.ref] = ContinuityCapsule.from_bytes(document.body)
            self._capsules[document.ref] = (self._stored[document.ref], document.revision)

    @property
    def all(self) -> list[ContinuityCapsule]:
        return [capsule for capsule, _ in self._capsules.values()]

    @property
    def fresh(self) -> frozenset[str]:
        return frozenset(id_of(ref) for ref in self._actions)

    @property
    def cut(self) -> list[tuple[ContinuityCapsule, tuple[str, ...]]]:
        """Return the stored capsules that have lost some of their citations, each with what is left."""
        remaining_citations = {
            ref: self._capsules[ref][0].provenance if ref in self._capsules else () for ref in self._stored
        }
        return [
            (capsule, remaining_citations[ref])
            for ref, capsule in self._stored.items()
            if set(capsule.provenance) - {*remaining_citations[ref]}
        ]

    def place_of(self, home_key: ConversationKey, kind: CapsuleKind, topic: str, /) -> str | None:
        """Return the key of the conversation's capsule on a topic, which an earlier build may have tagged
        differently."""
        for capsule in self.all:
            if (capsule.channel, capsule.conversation, capsule.kind) == (*home_key, kind) and facts.topic_key(
                capsule.topic
            ) == topic:
                return capsule.id.partition(":")[2]
        return None

    def get(self, ref: DocumentRef, /) -> ContinuityCapsule | None:
        return self._capsules[ref][0] if ref in self._capsules else None

    def put(self, ref: DocumentRef, capsule: ContinuityCapsule, action: JournalAction, /) -> None:
        _, revision = self._capsules.get(ref, (None, 0))
        self._capsules[ref] = (capsule, revision)
        self._actions[ref] = action

    def drop(self, capsule: ContinuityCapsule, /) -> WriteDecision:
        ref = DocumentRef(continuity.CAPSULES, capsule.id.partition(":")[2])
        self._dropped[ref] = self._capsules.pop(ref)[1]
        reason = "it was dropped, because the limit of capsules was reached"
        return WriteDecision(plane=RecallPlane.CONTINUITY, id=capsule.id, outcome=WriteOutcome.DELETED, reason=reason)

    def commit(self) -> ChangeSet:
        changes = ChangeSet(self.record)
        for ref, action in self._actions.items():
            capsule, revision = self._capsules[ref]
            changes.put(ref, capsule, expects=revision, action=action)
        for ref, revision in self._dropped.items():
            changes.delete(ref, expects=revision)
        return changes


def _write_capsule(scope: Scope, draft: CapsuleDraft, capsule_changes: _CapsuleChanges, now: Instant) -> WriteDecision:
    if similarity.is_blank(draft.topic) or similarity.is_blank(draft.summary):
        return _rejected_decision("the topic or the summary is empty")
    key = scope.conversation_key
    topic = facts.topic_key(draft.topic)
    tag = capsule_changes.record.tag("capsule", *key, draft.capsule_kind.value, topic)
    document_key = f"{capsule_changes.record.conversation_tag(key)}.{tag}"
    ref = DocumentRef(continuity.CAPSULES, capsule_changes.place_of(key, draft.capsule_kind, topic) or document_key)
    capsule = _draft_capsule(scope, draft, CapsuleId(id_of(ref)), capsule_changes.get(ref), now)
    superseded_capsule = None
    if draft.supersedes is not None:
        superseded_capsule = next(
            (
                stored_capsule
                for stored_capsule in capsule_changes.all
                if stored_capsule.id == draft.supersedes and stored_capsule.id != capsule.id
            ),
            None,
        )
        if superseded_capsule is None:
            return _rejected_decision("there is no capsule with the id that it would replace")
        superseded_fields = {"state": CapsuleState.SUPERSEDED, "superseded_by": capsule.id}
        capsule_changes.put(
            DocumentRef(continuity.CAPSULES, superseded_capsule.id.partition(":")[2]),
            superseded_capsule.model_copy(update=superseded_fields),
            JournalAction.WRITE,
        )
    stored_capsule = capsule_changes.get(ref)
    if stored_capsule is None:
        outcome = WriteOutcome.STORED
    else:
        is_unchanged = stored_capsule.model_copy(update={"updated_at": now}) == capsule
        outcome = WriteOutcome.CONFIRMED if is_unchanged else WriteOutcome.UPDATED
    capsule_changes.put(ref, capsule, JournalAction.MERGE if outcome is WriteOutcome.CONFIRMED else JournalAction.WRITE)
    return WriteDecision(plane=RecallPlane.CONTINUITY, id=capsule.id, outcome=outcome, name=draft.topic)


def _draft_capsule(
    scope: Scope, draft: CapsuleDraft, capsule_id: CapsuleId, stored_capsule: ContinuityCapsule | None, now: Instant
) -> ContinuityCapsule:
    channel, conversation = scope.conversation_key
    citations = dict.fromkeys((*(stored_capsule.provenance if stored_capsule is not None else ()), *draft.provenance))
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
        provenance=tuple(citations)[-limits.CITATIONS :],
        state=draft.state,
        channel=channel,
        conversation=conversation,
        recorded_at=stored_capsule.recorded_at if stored_capsule is not None else now,
        updated_at=now,
    )


def _rejected_decision(
    reason: str, *, plane: RecallPlane = RecallPlane.CONTINUITY, name: str | None = None
) -> WriteDecision:
    return WriteDecision(
        plane=plane, outcome=WriteOutcome.REJECTED, verdict=AdmissionVerdict.REJECT, reason=reason, name=name
    )


async def plan_subjects(
    ctx: OperationContext, scope: Scope, write: SubjectsWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing these subjects and edges now, and the decision on each."""
    subject_changes = _SubjectChanges(record, ctx.clock.now())
    await subject_changes.read(ctx, scope, write)
    decisions = [subject_changes.enter(draft) for draft in write.subjects]
    decisions += [subject_changes.join(draft) for draft in write.edges]
    decisions += [subject_changes.part(draft) for draft in write.ended_edges]
    about = DocumentRef(subjects.SUBJECTS, record.tag("subject", ""))
    return PlannedWrite(subject_changes.changes(), tuple(decisions), about)


class _SubjectChanges:
    """The subjects, edges and souls that one write touches."""

    def __init__(self, record: SpaceRecord, now: Instant, /) -> None:
        self._record = record
        self._now = now
        self._current: dict[DocumentRef, tuple[Value, int]] = {}
        self._changes: dict[DocumentRef, Value] = {}
        self._released: set[DocumentRef] = set()

    async def read(self, ctx: OperationContext, scope: Scope, write: SubjectsWrite, /) -> None:
        names = {draft.name for draft in write.subjects} | {
            end for draft in write.edges for end in (draft.source, draft.target)
        }
        await self._read(ctx, scope, [self._subject(name) for name in sorted(names)])
        # A persona that takes another soul releases its former one.
        former_bindings = [subject.soul for subject, _ in self._current.values() if isinstance(subject, Subject)]
        souls = {
            binding.soul
            for binding in (*former_bindings, *(draft.soul for draft in write.subjects))
            if binding is not None
        }
        await self._read(ctx, scope, [self._soul(name) for name in sorted(souls)])
        await self._read(ctx, scope, [self._edge(draft) for draft in (*write.edges, *write.ended_edges)])

    async def _read(self, ctx: OperationContext, scope: Scope, refs: list[DocumentRef]) -> None:
        for ref, document in (await documents_at(ctx.store, scope.space, refs)).items():
            self._current[ref] = (_document_value(document), document.revision)

    def enter(self, draft: SubjectDraft, /) -> WriteDecision:
        """Add a subject, or say why not."""
        ref = self._subject(draft.name)
        binding = self._now_at(self._soul(draft.soul.soul)) if draft.soul is not None else None
        reason = rules.subject_flaw(draft, bound_to=binding.subject if isinstance(binding, BoundSoul) else None)
        if reason is not None:
            return _rejected_decision(reason, plane=RecallPlane.SUBJECT, name=draft.name)
        stored_value = self._now_at(ref)
        stored_subject = stored_value if isinstance(stored_value, Subject) else None
        subject = Subject(
            id=SubjectId(id_of(ref)),
            name=draft.name,
            other_names=draft.other_names,
            kind=draft.subject_kind,
            visibility=draft.visibility,
            lifecycle=draft.lifecycle,
            mount=draft.mount,
            soul=draft.soul,
            recorded_at=stored_subject.recorded_at if stored_subject is not None else self._now,
            updated_at=self._now,
        )
        self._bind(draft, stored_subject)
        outcome = WriteOutcome.STORED if stored_subject is None else WriteOutcome.UPDATED
        if stored_subject is not None and stored_subject.model_copy(update={"updated_at": self._now}) == subject:
            outcome = WriteOutcome.CONFIRMED
        else:
            self._changes[ref] = subject
        return WriteDecision(plane=RecallPlane.SUBJECT, id=subject.id, outcome=outcome, name=draft.name)

    def join(self, draft: EdgeDraft, /) -> WriteDecision:
        """Add an edge, or say why not."""
        end_names = {draft.source, draft.target}
        known_ends = frozenset(end for end in end_names if self._now_at(self._subject(end)) is not None)
        name = _draft_name(draft)
        reason = rules.edge_flaw(draft, subjects=known_ends)
        if reason is not None:
            return _rejected_decision(reason, plane=RecallPlane.SUBJECT, name=name)
        ref = self._edge(draft)
        if self._now_at(ref) is not None:
            return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.CONFIRMED, name=name)
        self._changes[ref] = SubjectEdge(
            source=draft.source, kind=draft.edge_kind, target=draft.target, recorded_at=self._now
        )
        return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.STORED, name=name)

    def part(self, draft: EdgeDraft, /) -> WriteDecision:
        """End an edge; if there is none, nothing changes."""
        ref, name = self._edge(draft), _draft_name(draft)
        if self._now_at(ref) is None:
            return WriteDecision(
                plane=RecallPlane.SUBJECT,
                outcome=WriteOutcome.SKIPPED,
                reason="there is no such relationship",
                name=name,
            )
        self._changes.pop(ref, None)
        if ref in self._current:
            self._released.add(ref)
        return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.DELETED, name=name)

    def changes(self) -> ChangeSet:
        changes = ChangeSet(self._record)
        for ref, value in self._changes.items():
            _, revision = self._current.get(ref, (None, 0))
            changes.put(ref, value, expects=revision, action=JournalAction.WRITE)
        for ref in sorted(self._released):
            changes.delete(ref, expects=self._current[ref][1])
        return changes

    def _bind(self, draft: SubjectDraft, stored_subject: Subject | None) -> None:
        soul_ref = self._soul(draft.soul.soul) if draft.soul is not None and rules.holds_soul(draft) else None
        if stored_subject is not None and stored_subject.soul is not None:
            former_soul_ref = self._soul(stored_subject.soul.soul)
            binding = self._now_at(former_soul_ref)
            # A soul that another subject has by now stays bound.
            if former_soul_ref != soul_ref and isinstance(binding, BoundSoul) and binding.subject == draft.name:
                self._changes.pop(former_soul_ref, None)
                if former_soul_ref in self._current:
                    self._released.add(former_soul_ref)
        if soul_ref is not None and self._now_at(soul_ref) is None:
            self._released.discard(soul_ref)
            self._changes[soul_ref] = BoundSoul(subject=draft.name)

    def _now_at(self, ref: DocumentRef) -> Value | None:
        if ref in self._released:
            return None
        return self._changes.get(ref) or (self._current[ref][0] if ref in self._current else None)

    def _subject(self, name: str) -> DocumentRef:
        return DocumentRef(subjects.SUBJECTS, self._record.tag("subject", name))

    def _soul(self, name: str) -> DocumentRef:
        return DocumentRef(subjects.SOUL_BINDINGS, self._record.tag("soul", name))

    def _edge(self, draft: EdgeDraft) -> DocumentRef:
        return DocumentRef(
            subjects.SUBJECT_EDGES, self._record.tag("edge", draft.source, draft.edge_kind.value, draft.target)
        )


def _draft_name(draft: EdgeDraft) -> str:
    return f"{draft.source} {draft.edge_kind.value} {draft.target}"[:200]


def _document_value(document: Document) -> Value:
    match document.ref.collection:
        case subjects.SUBJECTS:
            return Subject.from_bytes(document.body)
        case subjects.SUBJECT_EDGES:
            return SubjectEdge.from_bytes(document.body)
        case _:
            return BoundSoul.from_bytes(document.body)
