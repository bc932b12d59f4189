"""Subjects and their edges; a persona's soul is bound in the same batch, so that no two can have it."""

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.writes.commit import PlannedWrite
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import EdgeDraft, SubjectDraft, SubjectsWrite
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import WriteDecision, WriteOutcome
from elytron_core.model import Value
from elytron_core.planes import subjects
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.subjects import BoundSoul, Subject, SubjectEdge, SubjectId
from elytron_core.policy.admission import rules as policy
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import Scope

NO_SUCH_EDGE = "there is no such edge"


async def plan_subjects(
    ctx: OperationContext, scope: Scope, write: SubjectsWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the changes of writing these subjects and edges now, and the decision on each."""
    roll = _SubjectRoll(record, ctx.clock.now())
    await roll.read(ctx, scope, write)
    decisions = [roll.enter(draft) for draft in write.subjects]
    decisions += [roll.join(draft) for draft in write.edges]
    decisions += [roll.part(draft) for draft in write.ended_edges]
    about = DocumentRef(subjects.SUBJECTS, record.tag("subject", ""))
    return PlannedWrite(roll.changes(), tuple(decisions), about)


class _SubjectRoll:
    """The subjects, edges and souls that one write touches."""

    def __init__(self, record: SpaceRecord, now: Instant, /) -> None:
        self._record = record
        self._now = now
        self._held: dict[DocumentRef, tuple[Value, int]] = {}
        self._written: dict[DocumentRef, Value] = {}
        self._released: set[DocumentRef] = set()

    async def read(self, ctx: OperationContext, scope: Scope, write: SubjectsWrite, /) -> None:
        named = {draft.name for draft in write.subjects} | {
            end for draft in write.edges for end in (draft.source, draft.target)
        }
        await self._read(ctx, scope, [self._subject(name) for name in sorted(named)])
        # A persona that takes another soul lets go of the one it had.
        had = [held.soul for held, _ in self._held.values() if isinstance(held, Subject)]
        souls = {binding.soul for binding in (*had, *(draft.soul for draft in write.subjects)) if binding is not None}
        await self._read(ctx, scope, [self._soul(name) for name in sorted(souls)])
        await self._read(ctx, scope, [self._edge(draft) for draft in (*write.edges, *write.ended_edges)])

    async def _read(self, ctx: OperationContext, scope: Scope, refs: list[DocumentRef]) -> None:
        for ref, document in (await documents_at(ctx.store, scope.space, refs)).items():
            self._held[ref] = (_document_value(document), document.revision)

    def enter(self, draft: SubjectDraft, /) -> WriteDecision:
        """Take a subject in, or say why not."""
        ref = self._subject(draft.name)
        bound = self._now_at(self._soul(draft.soul.soul)) if draft.soul is not None else None
        reason = policy.subject_flaw(draft, bound_to=bound.subject if isinstance(bound, BoundSoul) else None)
        if reason is not None:
            return _rejected_decision(reason, draft.name)
        known = self._now_at(ref)
        before = known if isinstance(known, Subject) else None
        subject = Subject(
            id=SubjectId(id_of(ref)),
            name=draft.name,
            other_names=draft.other_names,
            kind=draft.subject_kind,
            visibility=draft.visibility,
            lifecycle=draft.lifecycle,
            mount=draft.mount,
            soul=draft.soul,
            recorded_at=before.recorded_at if before is not None else self._now,
            updated_at=self._now,
        )
        self._bind(draft, before)
        outcome = WriteOutcome.STORED if before is None else WriteOutcome.UPDATED
        if before is not None and before.model_copy(update={"updated_at": self._now}) == subject:
            outcome = WriteOutcome.CONFIRMED
        else:
            self._written[ref] = subject
        return WriteDecision(plane=RecallPlane.SUBJECT, id=subject.id, outcome=outcome, name=draft.name)

    def join(self, draft: EdgeDraft, /) -> WriteDecision:
        """Take an edge in, or say why not."""
        ends = {draft.source, draft.target}
        known = frozenset(end for end in ends if self._now_at(self._subject(end)) is not None)
        name = _draft_name(draft)
        reason = policy.edge_flaw(draft, known=known)
        if reason is not None:
            return _rejected_decision(reason, name)
        ref = self._edge(draft)
        if self._now_at(ref) is not None:
            return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.CONFIRMED, name=name)
        self._written[ref] = SubjectEdge(
            source=draft.source, kind=draft.edge_kind, target=draft.target, recorded_at=self._now
        )
        return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.STORED, name=name)

    def part(self, draft: EdgeDraft, /) -> WriteDecision:
        """End an edge; if there is none, nothing changes."""
        ref, name = self._edge(draft), _draft_name(draft)
        if self._now_at(ref) is None:
            return WriteDecision(
                plane=RecallPlane.SUBJECT, outcome=WriteOutcome.SKIPPED, reason=NO_SUCH_EDGE, name=name
            )
        self._written.pop(ref, None)
        if ref in self._held:
            self._released.add(ref)
        return WriteDecision(plane=RecallPlane.SUBJECT, outcome=WriteOutcome.DELETED, name=name)

    def changes(self) -> ChangeSet:
        changes = ChangeSet(self._record)
        for ref, value in self._written.items():
            _, revision = self._held.get(ref, (None, 0))
            changes.put(ref, value, expects=revision, action=JournalAction.WRITE)
        for ref in sorted(self._released):
            changes.delete(ref, expects=self._held[ref][1])
        return changes

    def _bind(self, draft: SubjectDraft, before: Subject | None) -> None:
        wanted = self._soul(draft.soul.soul) if draft.soul is not None and policy.holds_soul(draft) else None
        if before is not None and before.soul is not None:
            had = self._soul(before.soul.soul)
            bound = self._now_at(had)
            if had != wanted and isinstance(bound, BoundSoul) and bound.subject == draft.name:
                self._written.pop(had, None)
                if had in self._held:
                    self._released.add(had)
        if wanted is not None and self._now_at(wanted) is None:
            self._released.discard(wanted)
            self._written[wanted] = BoundSoul(subject=draft.name)

    def _now_at(self, ref: DocumentRef) -> Value | None:
        if ref in self._released:
            return None
        return self._written.get(ref) or (self._held[ref][0] if ref in self._held else None)

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


def _rejected_decision(reason: str, name: str) -> WriteDecision:
    return WriteDecision(
        plane=RecallPlane.SUBJECT,
        outcome=WriteOutcome.REJECTED,
        verdict=AdmissionVerdict.REJECT,
        reason=reason,
        name=name,
    )
