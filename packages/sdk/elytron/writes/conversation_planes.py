"""Planes with one document per conversation, period or name: execution state, summary, notes, private documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.plane_documents import id_of
from elytron.documents.planes import HOMES
from elytron.memories.provenance_links import Resting, unlink_left
from elytron.writes.commit import Planned
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.conversation.write import Outcome, Verdict, WriteDecision
from elytron_core.contracts.planes import (
    ExecutionWrite,
    GardenDraft,
    GardenWrite,
    NoteDraft,
    NotesWrite,
    SummaryWrite,
)
from elytron_core.errors import InvalidInput
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.conversation import execution, summaries, transcript
from elytron_core.planes.derived_refs import DerivedMemoryPlane, cited_turn
from elytron_core.planes.knowledge import garden, notes
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import own_output
from elytron_core.policy.extraction import daily_notes
from elytron_core.policy.maintenance import due
from elytron_core.ports.store import Action, Document, Ref
from elytron_core.scope import Scope
from elytron_core.text import similarity

NO_GOAL = "the goal is empty"
BLANK = "the text is empty"
COVERS_LESS = "it covers fewer messages than the summary that is kept"
NO_SUCH_DAY = "there is no such day"
GARDEN_FULL = f"{limits.GARDEN_DOCUMENTS} private documents is all that a conversation keeps: erase one first"


@dataclass(slots=True)
class _Desk:
    """Documents that one write puts into a conversation."""

    record: SpaceRecord
    scope: Scope
    now: Instant
    changes: Changes
    decisions: list[WriteDecision] = field(default_factory=list[WriteDecision])

    @property
    def tag(self) -> str:
        return self.record.conversation_tag(self.scope.conversation_key)

    def keyed(self, purpose: str, name: str, /) -> str:
        """Return the key of what this conversation keeps under `name`."""
        return f"{self.tag}.{self.record.tag(purpose, *self.scope.conversation_key, name)}"

    def keep(self, ref: Ref, value: Value, revision: int, outcome: Outcome, *, name: str | None = None) -> None:
        if outcome is not Outcome.CONFIRMED:
            self.changes.put(ref, value, expects=revision, action=Action.WRITE)
        self.decisions.append(
            WriteDecision(plane=HOMES[ref.collection].plane, id=id_of(ref), outcome=outcome, name=name)
        )

    def refuse(
        self, collection: str, reason: str, *, outcome: Outcome = Outcome.REJECTED, name: str | None = None
    ) -> None:
        self.decisions.append(
            WriteDecision(
                plane=HOMES[collection].plane, outcome=outcome, verdict=Verdict.REJECT, reason=reason, name=name
            )
        )

    def planned(self, collection: str) -> Planned:
        return Planned(self.changes, tuple(self.decisions), Ref(collection, self.tag))


def _desk(ctx: OperationContext, scope: Scope, record: SpaceRecord) -> _Desk:
    return _Desk(record, scope, ctx.clock.now(), Changes(record))


async def plan_execution(ctx: OperationContext, scope: Scope, write: ExecutionWrite, record: SpaceRecord, /) -> Planned:
    """Return what writing this execution state now would change."""
    desk = _desk(ctx, scope, record)
    ref = Ref(execution.EXECUTION, desk.tag)
    (document,) = await ctx.store.get(scope.space, (ref,))
    if similarity.is_blank(write.state.goal):
        desk.refuse(execution.EXECUTION, NO_GOAL)
        return desk.planned(execution.EXECUTION)
    channel, conversation = scope.conversation_key
    state = execution.ExecutionState(
        id=execution.ExecutionId(id_of(ref)),
        channel=channel,
        conversation=conversation,
        updated_at=desk.now,
        **dict(write.state),
    )
    known = execution.ExecutionState.from_bytes(document.body) if document is not None else None
    same = known is not None and known.model_copy(update={"updated_at": desk.now}) == state
    desk.keep(ref, state, _revision(document), _outcome(document, same=same))
    return desk.planned(execution.EXECUTION)


async def plan_summary(ctx: OperationContext, scope: Scope, write: SummaryWrite, record: SpaceRecord, /) -> Planned:
    """Return what writing this summary now would change; one that covers less than the kept one changes nothing."""
    desk = _desk(ctx, scope, record)
    ref = Ref(summaries.SUMMARIES, desk.tag)
    (document,) = await ctx.store.get(scope.space, (ref,))
    known = summaries.SessionSummary.from_bytes(document.body) if document is not None else None
    if similarity.is_blank(write.summary.text):
        desk.refuse(summaries.SUMMARIES, BLANK)
    elif known is not None and write.summary.messages < known.messages:
        desk.refuse(summaries.SUMMARIES, COVERS_LESS, outcome=Outcome.SKIPPED)
    else:
        channel, conversation = scope.conversation_key
        summary = summaries.SessionSummary(
            id=summaries.SummaryId(id_of(ref)),
            channel=channel,
            conversation=conversation,
            updated_at=desk.now,
            **dict(write.summary),
        )
        same = known is not None and known.model_copy(update={"updated_at": desk.now}) == summary
        desk.keep(ref, summary, _revision(document), _outcome(document, same=same))
    return desk.planned(summaries.SUMMARIES)


async def plan_notes(ctx: OperationContext, scope: Scope, write: NotesWrite, record: SpaceRecord, /) -> Planned:
    """Return what writing these notes now would change; of several for one period the last counts."""
    desk = _desk(ctx, scope, record)
    drafts = {draft.period: draft for draft in write.notes}
    refs = {period: Ref(notes.NOTES, desk.keyed("note", period)) for period in drafts}
    documents = await ctx.store.get(scope.space, tuple(refs.values()))
    for draft, document in zip(drafts.values(), documents, strict=True):
        _note(desk, refs[draft.period], draft, document)
        if document is not None and refs[draft.period] in desk.changes.folded:
            known = notes.DailyNote.from_bytes(document.body)
            before = Resting(DerivedMemoryPlane.ARCHIVE_EVIDENCE, known.id, known.citations)
            await unlink_left(ctx, scope.space, record, desk.changes, before, after=draft.citations)
    return desk.planned(notes.NOTES)


async def plan_drawn_notes(
    ctx: OperationContext,
    scope: Scope,
    write: NotesWrite,
    said: Sequence[tuple[TurnId, transcript.Turn]],
    record: SpaceRecord,
    /,
) -> Planned:
    """Return what writing these notes, drawn from what was `said`, now would change.

    A note that was drawn before is drawn again from what it cites and what was said.
    One that a caller wrote or hid stays.
    """
    desk = _desk(ctx, scope, record)
    for draft in write.notes:
        ref, month_ref = (
            Ref(notes.NOTES, desk.keyed("note", period)) for period in (draft.period, due.month_of(draft.period))
        )
        document, month = await ctx.store.get(scope.space, (ref, month_ref))
        if document is None:
            _note(desk, ref, draft, None)
            continue
        known = notes.DailyNote.from_bytes(document.body)
        is_hidden = known.forgotten_at is not None and not due.is_rolled_up(
            known, notes.DailyNote.from_bytes(month.body) if month is not None else None
        )
        if is_hidden or not own_output.is_drawn(known.text):
            continue
        again = daily_notes.drawn_again(known, (*await _cited(ctx, scope, known), *said))
        if again is not None:
            _note(desk, ref, again, document)
            before = Resting(DerivedMemoryPlane.ARCHIVE_EVIDENCE, known.id, known.citations)
            await unlink_left(ctx, scope.space, record, desk.changes, before, after=again.citations)
    return desk.planned(notes.NOTES)


async def _cited(
    ctx: OperationContext, scope: Scope, note: notes.DailyNote
) -> Sequence[tuple[TurnId, transcript.Turn]]:
    """Return the turns that a note cites and that are still there."""
    cited = dict.fromkeys(found[0] for citation in note.citations if (found := cited_turn(citation)) is not None)
    documents = await ctx.store.get(scope.space, tuple(Ref(transcript.TURNS, turn) for turn in cited))
    return [
        (TurnId(document.ref.key), transcript.Turn.from_bytes(document.body))
        for document in documents
        if document is not None
    ]


def _note(desk: _Desk, ref: Ref, draft: NoteDraft, document: Document | None) -> None:
    try:
        began = instant(draft.period if len(draft.period) > len("2026-08") else f"{draft.period}-01")
    except InvalidInput:
        desk.refuse(notes.NOTES, NO_SUCH_DAY, name=draft.period)
        return
    if similarity.is_blank(draft.text):
        desk.refuse(notes.NOTES, BLANK, name=draft.period)
        return
    channel, conversation = desk.scope.conversation_key
    known = notes.DailyNote.from_bytes(document.body) if document is not None else None
    note = notes.DailyNote(
        id=notes.NoteId(id_of(ref)),
        period=draft.period,
        text=draft.text,
        citations=draft.citations,
        channel=channel,
        conversation=conversation,
        observed_at=began,
        recorded_at=known.recorded_at if known is not None else desk.now,
        updated_at=desk.now,
    )
    same = known is not None and known.model_copy(update={"updated_at": desk.now}) == note
    desk.keep(ref, note, _revision(document), _outcome(document, same=same), name=draft.period)


async def plan_garden(ctx: OperationContext, scope: Scope, write: GardenWrite, record: SpaceRecord, /) -> Planned:
    """Return what writing these private documents now would change; beyond sixteen names none is taken in."""
    desk = _desk(ctx, scope, record)
    found = await ctx.store.scan(scope.space, garden.GARDEN, prefix=f"{desk.tag}.", limit=limits.GARDEN_DOCUMENTS + 1)
    held = {document.ref: document for document in found}
    taken = set(held)
    drafts = {draft.name: draft for draft in write.documents}
    for draft in drafts.values():
        ref = Ref(garden.GARDEN, desk.keyed("garden", draft.name))
        if similarity.is_blank(draft.text):
            desk.refuse(garden.GARDEN, BLANK, name=draft.name)
        elif ref not in taken and len(taken) >= limits.GARDEN_DOCUMENTS:
            desk.refuse(garden.GARDEN, GARDEN_FULL, name=draft.name)
        else:
            taken.add(ref)
            _plant(desk, ref, draft, held.get(ref))
    return desk.planned(garden.GARDEN)


def _plant(desk: _Desk, ref: Ref, draft: GardenDraft, document: Document | None) -> None:
    channel, conversation = desk.scope.conversation_key
    known = garden.GardenDocument.from_bytes(document.body) if document is not None else None
    planted = garden.GardenDocument(
        id=garden.GardenId(id_of(ref)),
        role=draft.role,
        name=draft.name,
        text=draft.text,
        channel=channel,
        conversation=conversation,
        created_at=known.created_at if known is not None else desk.now,
        updated_at=desk.now,
    )
    same = known is not None and known.model_copy(update={"updated_at": desk.now}) == planted
    desk.keep(ref, planted, _revision(document), _outcome(document, same=same), name=draft.name)


def _revision(document: Document | None) -> int:
    return document.revision if document is not None else 0


def _outcome(document: Document | None, *, same: bool) -> Outcome:
    if document is None:
        return Outcome.STORED
    return Outcome.CONFIRMED if same else Outcome.UPDATED
