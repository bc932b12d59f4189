"""Drafts for the planes beside transcript, facts and procedures, without ids and times."""

from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.planes.conversation import continuity, execution, summaries
from elytron_core.planes.knowledge import garden, long_term, notes, subjects
from elytron_core.scope import Name


class CapsuleDraft(Value):
    """Draft of a capsule. The same kind and topic in the same conversation is replaced, not doubled."""

    capsule_kind: continuity.CapsuleKind
    topic: long_term.Topic
    summary: continuity.CapsuleText
    outcome: continuity.CapsuleText = ""
    decisions: continuity.CapsuleItems = ()
    next_step: continuity.CapsuleText = ""
    unresolved: continuity.CapsuleItems = ()
    artifacts: Annotated[tuple[Name, ...], Field(max_length=limits.CAPSULE_ITEMS)] = ()
    provenance: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    state: continuity.CapsuleState = continuity.CapsuleState.ACTIVE
    supersedes: Name | None = None
    """The id of another capsule that this one replaces."""


class CapsulesWrite(Value):
    """Continuity capsules of the scope's conversation."""

    kind: Literal["capsules"] = "capsules"
    capsules: Annotated[tuple[CapsuleDraft, ...], Field(min_length=1, max_length=limits.CAPSULES_PER_CONVERSATION)]


class ExecutionDraft(Value):
    """Draft of the state of work; it replaces the previous one."""

    goal: execution.ExecutionText
    progress: execution.ExecutionText = ""
    blocker: execution.ExecutionText = ""
    next_action: execution.ExecutionText = ""
    last_output: execution.ExecutionText = ""
    done: execution.ExecutionItems = ()
    pending: execution.ExecutionItems = ()
    decisions: execution.ExecutionItems = ()
    artifacts: execution.ExecutionItems = ()
    status: execution.ExecutionStatus = execution.ExecutionStatus.ACTIVE


class ExecutionWrite(Value):
    """The execution state of the scope's conversation."""

    kind: Literal["execution"] = "execution"
    state: ExecutionDraft


class SummaryDraft(Value):
    """Draft of a summary through `messages` messages."""

    text: summaries.SummaryText
    messages: Annotated[int, Field(ge=0)]
    through_sequence: Annotated[int, Field(ge=0)] = 0
    model: Name | None = None


class SummaryWrite(Value):
    """The summary of the scope's conversation. One that covers less than the kept one is refused."""

    kind: Literal["summary"] = "summary"
    summary: SummaryDraft


class NoteDraft(Value):
    """Draft of a note on a day or a month; the same period in the same conversation is replaced."""

    period: notes.Period
    text: notes.NoteText
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()


class NotesWrite(Value):
    """Daily and monthly notes of the scope's conversation."""

    kind: Literal["notes"] = "notes"
    notes: Annotated[tuple[NoteDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]


class GardenDraft(Value):
    """One private document; the same name in the same conversation is written over."""

    role: garden.GardenRole
    name: Name
    text: garden.GardenText


class GardenWrite(Value):
    """Private documents of the scope's conversation."""

    kind: Literal["garden"] = "garden"
    documents: Annotated[tuple[GardenDraft, ...], Field(min_length=1, max_length=limits.GARDEN_DOCUMENTS)]


class SubjectDraft(Value):
    """Draft of a subject of this space; the same name is replaced."""

    name: Name
    other_names: subjects.OtherNames = ()
    subject_kind: subjects.SubjectKind
    visibility: subjects.SubjectVisibility = subjects.SubjectVisibility.VISIBLE
    lifecycle: subjects.SubjectLifecycle = subjects.SubjectLifecycle.ACTIVE
    mount: subjects.SubjectMount = subjects.SubjectMount()
    soul: subjects.SoulBinding | None = None


class EdgeDraft(Value):
    """Draft of a relation of one subject to another."""

    source: Name
    edge_kind: subjects.EdgeKind
    target: Name


class SubjectsWrite(Value):
    """Subjects, then edges between subjects of the space that stand, then edges that end."""

    kind: Literal["subjects"] = "subjects"
    subjects: Annotated[tuple[SubjectDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    edges: Annotated[tuple[EdgeDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    ended_edges: Annotated[tuple[EdgeDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
