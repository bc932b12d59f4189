"""Planes with one document per conversation, period or name: execution state, summary, notes, private documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.plane_documents import id_of
from elytron.documents.planes import HOMES
from elytron.documents.stored_values import documents_at, value_at, values_at
from elytron.memories.provenance_links import Resting, unlink_left
from elytron.writes.commit import Planned
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.conversation.write import Outcome, Verdict, WriteDecision
from elytron_core.contracts.planes import (
    ExecutionWrite,
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

ValueT = TypeVar("ValueT", bound=Value)
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
    collection: str
    now: Instant
    changes: Changes
    decisions: list[WriteDecision] = field(default_factory=list[WriteDecision])

    @property
    def tag(self) -> str:
        return self.record.conversation_tag(self.scope.conversation_key)

    def named(self, purpose: str, name: str, /) -> Ref:
        """Return where this conversation keeps what is called `name`."""
        return Ref(self.collection, f"{self.tag}.{self.record.tag(purpose, *self.scope.conversation_key, name)}")

    def keep(
        self, ref: Ref, draft: Value, known: ValueT | None, revision: int, /, *, kind: type[ValueT], **more: Any
    ) -> None:
        """Write `draft` in the place of `known`; the same again changes nothing."""
        channel, conversation = self.scope.conversation_key
        fields = {"id": id_of(ref), "channel": channel, "conversation": conversation, "updated_at": self.now}
        value = kind.model_validate({**dict(draft), **fields, **more})
        outcome = Outcome.STORED if known is None else Outcome.UPDATED
        if known is not None and known.model_copy(update={"updated_at": self.now}) == value:
            outcome = Outcome.CONFIRMED
        else:
            self.changes.put(ref, value, expects=revision, action=Action.WRITE)
        self._decide(outcome, draft, id=id_of(ref))

    def refuse(self, draft: Value, reason: str, /, *, outcome: Outcome = Outcome.REJECTED) -> None:
        """Leave `draft` out."""
        self._decide(outcome, draft, verdict=Verdict.REJECT, reason=reason)

    def planned(self) -> Planned:
        return Planned(self.changes, tuple(self.decisions), Ref(self.collection, self.tag))

    def _decide(self, outcome: Outcome, draft: Value, **more: Any) -> None:
        name = getattr(draft, "period", None) or getattr(draft, "name", None)
        plane = HOMES[self.collection].plane
        self.decisions.append(WriteDecision(plane=plane, outcome=outcome, name=name, **more))


def _desk(ctx: OperationContext, scope: Scope, record: SpaceRecord, collection: str) -> _Desk:
    return _Desk(record, scope, collection, ctx.clock.now(), Changes(record))


async def plan_execution(ctx: OperationContext, scope: Scope, write: ExecutionWrite, record: SpaceRecord, /) -> Planned:
    """Return the changes of writing this execution state now."""
    desk = _desk(ctx, scope, record, execution.EXECUTION)
    ref = Ref(execution.EXECUTION, desk.tag)
    if similarity.is_blank(write.state.goal):
        desk.refuse(write.state, NO_GOAL)
    else:
        known = await value_at(ctx.store, scope.space, ref, execution.ExecutionState)
        desk.keep(ref, write.state, *known, kind=execution.ExecutionState)
    return desk.planned()


async def plan_summary(ctx: OperationContext, scope: Scope, write: SummaryWrite, record: SpaceRecord, /) -> Planned:
    """Return the changes of writing this summary now; none if it covers less than one that is in use."""
    desk = _desk(ctx, scope, record, summaries.SUMMARIES)
    ref = Ref(summaries.SUMMARIES, desk.tag)
    known, revision = await value_at(ctx.store, scope.space, ref, summaries.SessionSummary)
    if similarity.is_blank(write.summary.text):
        desk.refuse(write.summary, BLANK)
    elif known is not None and known.forgotten_at is None and write.summary.messages < known.messages:
        desk.refuse(write.summary, COVERS_LESS, outcome=Outcome.SKIPPED)
    else:
        desk.keep(ref, write.summary, known, revision, kind=summaries.SessionSummary)
    return desk.planned()


async def plan_notes(ctx: OperationContext, scope: Scope, write: NotesWrite, record: SpaceRecord, /) -> Planned:
    """Return the changes of writing these notes now; of several for one period the last counts."""
    desk = _desk(ctx, scope, record, notes.NOTES)
    drafts = {desk.named("note", draft.period): draft for draft in write.notes}
    documents = await documents_at(ctx.store, scope.space, drafts)
    for ref, draft in drafts.items():
        await _note(ctx, desk, ref, draft, documents.get(ref))
    return desk.planned()


async def plan_drawn_notes(
    ctx: OperationContext,
    scope: Scope,
    write: NotesWrite,
    said: Sequence[tuple[TurnId, transcript.Turn]],
    record: SpaceRecord,
    /,
) -> Planned:
    """Return the changes of writing these notes, drawn from what was `said`, now.

    A note that was drawn before is drawn again from what it cites and what was said.
    One that a caller wrote or hid stays.
    """
    desk = _desk(ctx, scope, record, notes.NOTES)
    for draft in write.notes:
        ref, month_ref = (desk.named("note", period) for period in (draft.period, due.month_of(draft.period)))
        document, month = await ctx.store.get(scope.space, (ref, month_ref))
        if document is None:
            await _note(ctx, desk, ref, draft, None)
            continue
        known = notes.DailyNote.from_bytes(document.body)
        is_hidden = known.forgotten_at is not None and not due.is_rolled_up(
            known, notes.DailyNote.from_bytes(month.body) if month is not None else None
        )
        if is_hidden or not own_output.is_drawn(known.text):
            continue
        again = daily_notes.drawn_again(known, (*await _cited(ctx, scope, known), *said))
        if again is not None:
            await _note(ctx, desk, ref, again, document)
    return desk.planned()


async def _cited(
    ctx: OperationContext, scope: Scope, note: notes.DailyNote
) -> Sequence[tuple[TurnId, transcript.Turn]]:
    """Return the turns that a note cites and that are still there."""
    refs = [Ref(transcript.TURNS, found[0]) for name in note.citations if (found := cited_turn(name)) is not None]
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    return [(TurnId(ref.key), turn) for ref, turn in turns.items()]


async def _note(ctx: OperationContext, desk: _Desk, ref: Ref, draft: NoteDraft, document: Document | None) -> None:
    try:
        began = instant(draft.period if len(draft.period) > len("2026-08") else f"{draft.period}-01")
    except InvalidInput:
        desk.refuse(draft, NO_SUCH_DAY)
        return
    if similarity.is_blank(draft.text):
        desk.refuse(draft, BLANK)
        return
    known, revision = None, 0
    if document is not None:
        known, revision = notes.DailyNote.from_bytes(document.body), document.revision
    recorded_at = known.recorded_at if known is not None else desk.now
    desk.keep(ref, draft, known, revision, kind=notes.DailyNote, observed_at=began, recorded_at=recorded_at)
    if known is not None:
        before = Resting(DerivedMemoryPlane.ARCHIVE_EVIDENCE, known.id, known.citations)
        await unlink_left(ctx, desk.scope.space, desk.record, desk.changes, before, after=draft.citations)


async def plan_garden(ctx: OperationContext, scope: Scope, write: GardenWrite, record: SpaceRecord, /) -> Planned:
    """Return the changes of writing these private documents now; beyond sixteen names none is accepted."""
    desk = _desk(ctx, scope, record, garden.GARDEN)
    found = await ctx.store.scan(scope.space, garden.GARDEN, prefix=f"{desk.tag}.", limit=limits.GARDEN_DOCUMENTS + 1)
    held = {one.ref: (garden.GardenDocument.from_bytes(one.body), one.revision) for one in found}
    taken = set(held)
    for draft in {draft.name: draft for draft in write.documents}.values():
        ref = desk.named("garden", draft.name)
        if similarity.is_blank(draft.text):
            desk.refuse(draft, BLANK)
        elif ref not in taken and len(taken) >= limits.GARDEN_DOCUMENTS:
            desk.refuse(draft, GARDEN_FULL)
        else:
            taken.add(ref)
            known, revision = held.get(ref, (None, 0))
            created_at = known.created_at if known is not None else desk.now
            desk.keep(ref, draft, known, revision, kind=garden.GardenDocument, created_at=created_at)
    return desk.planned()
