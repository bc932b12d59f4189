"""Continuity of conversations and subjects: their drafts, their state, and their transfer."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.facts import FactDraft
from elytron_core.model import Value
from elytron_core.planes import continuity, facts, subjects
from elytron_core.planes.continuity import DailyNote, GardenDocument
from elytron_core.planes.subjects import Subject, SubjectEdge, SubjectKind
from elytron_core.scope import ConversationReport, FutureClaims, Name, ScopedRequest, ScrubbedCounts
from elytron_core.time_kinds import StatedTime

__all__ = [
    "CapsuleDraft",
    "CapsulesWrite",
    "ContinuityExportReport",
    "ContinuityExportRequest",
    "ContinuityImportReport",
    "ContinuityImportRequest",
    "ContinuityReport",
    "ContinuityRequest",
    "ContinuitySnapshot",
    "EdgeDraft",
    "ExecutionDraft",
    "ExecutionWrite",
    "GardenAudience",
    "GardenDraft",
    "GardenReport",
    "GardenRequest",
    "GardenWrite",
    "NoteDraft",
    "NotesWrite",
    "SnapshotLayer",
    "SnapshotLayers",
    "SnapshotManifest",
    "SnapshotMode",
    "SubjectAudience",
    "SubjectDraft",
    "SubjectsReport",
    "SubjectsRequest",
    "SubjectsWrite",
    "SummaryDraft",
    "SummaryWrite",
]


class CapsuleDraft(Value):
    """Draft of a capsule. It replaces one of the same kind and topic in the same conversation."""

    capsule_kind: continuity.CapsuleKind
    topic: facts.Topic
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

    goal: continuity.ExecutionText
    progress: continuity.ExecutionText = ""
    blocker: continuity.ExecutionText = ""
    next_action: continuity.ExecutionText = ""
    last_output: continuity.ExecutionText = ""
    done: continuity.ExecutionItems = ()
    pending: continuity.ExecutionItems = ()
    decisions: continuity.ExecutionItems = ()
    artifacts: continuity.ExecutionItems = ()
    status: continuity.ExecutionStatus = continuity.ExecutionStatus.ACTIVE


class ExecutionWrite(Value):
    """The execution state of the scope's conversation."""

    kind: Literal["execution"] = "execution"
    state: ExecutionDraft


class SummaryDraft(Value):
    """Draft of a summary through `messages` messages."""

    text: continuity.SummaryText
    messages: Annotated[int, Field(ge=0)]
    through_sequence: Annotated[int, Field(ge=0)] = 0
    model: Name | None = None


class SummaryWrite(Value):
    """The summary of the scope's conversation. One that covers less than the stored one is refused."""

    kind: Literal["summary"] = "summary"
    summary: SummaryDraft


class NoteDraft(Value):
    """Draft of a note on a day or month; it replaces that of the same period and conversation."""

    period: continuity.Period
    text: continuity.NoteText
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()


class NotesWrite(Value):
    """Daily and monthly notes of the scope's conversation."""

    kind: Literal["notes"] = "notes"
    notes: Annotated[tuple[NoteDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]


class GardenDraft(Value):
    """One private document; it replaces one of the same name in the same conversation."""

    role: continuity.GardenRole
    name: Name
    text: continuity.GardenText


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
    """Subjects, then edges to add between subjects of the space, then edges to end."""

    kind: Literal["subjects"] = "subjects"
    subjects: Annotated[tuple[SubjectDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    edges: Annotated[tuple[EdgeDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    ended_edges: Annotated[tuple[EdgeDraft, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()


SNAPSHOT_FORMAT = "elytron.continuity"
SNAPSHOT_VERSION = 1


class ContinuityRequest(ScopedRequest["ContinuityReport"]):
    """Read the state of the scope's conversation; items that match `query` come first."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)] = ""


class ContinuityReport(ConversationReport):
    """State of a conversation.

    `selected` are up to three of its newest capsules, best first; `block` is their text in at most 900 characters.
    """

    state: continuity.ExecutionState | None = None
    summary: continuity.SessionSummary | None = None
    summary_is_due: bool = False
    """True if a new summary is due."""
    capsules: tuple[continuity.ContinuityCapsule, ...] = ()
    selected: tuple[str, ...] = ()
    block: str = ""
    notes: tuple[DailyNote, ...] = ()


class SnapshotMode(StrEnum):
    """Layers of a conversation's continuity in an export or import."""

    BOOTSTRAP = "bootstrap"
    """Up to 16 facts, enough to start."""
    FULL_RESTORE = "full_restore"
    """Up to 48 facts, execution state, summary and capsules: enough to continue the conversation."""


class SnapshotLayer(StrEnum):
    """The parts of a snapshot."""

    FACTS = "facts"
    EXECUTION = "execution"
    SUMMARY = "summary"
    CAPSULES = "capsules"


class SnapshotManifest(Value):
    """Header of a snapshot. `fingerprint` is the SHA-256 of its layers; a snapshot with a different one is rejected."""

    format: Literal["elytron.continuity"] = SNAPSHOT_FORMAT
    version: Literal[1] = SNAPSHOT_VERSION
    mode: SnapshotMode
    space: str
    channel: str
    conversation: str
    made_at: StatedTime
    includes: tuple[SnapshotLayer, ...]
    fingerprint: str


class SnapshotLayers(Value):
    """Contents of a snapshot: drafts, which an import validates like any others."""

    facts: Annotated[tuple[FactDraft, ...], Field(max_length=limits.SNAPSHOT_FACTS_FULL)] = ()
    state: ExecutionDraft | None = None
    state_at: StatedTime | None = None
    summary: SummaryDraft | None = None
    summary_at: StatedTime | None = None
    capsules: Annotated[tuple[CapsuleDraft, ...], Field(max_length=limits.CAPSULES_PER_CONVERSATION)] = ()
    capsules_at: Annotated[tuple[StatedTime, ...], Field(max_length=limits.CAPSULES_PER_CONVERSATION)] = ()


class ContinuitySnapshot(Value):
    """The continuity of one conversation, for import elsewhere. It never has private facts or documents."""

    manifest: SnapshotManifest
    layers: SnapshotLayers


class ContinuityExportRequest(ScopedRequest["ContinuityExportReport"]):
    """Export the continuity of the scope's conversation."""

    mode: SnapshotMode = SnapshotMode.FULL_RESTORE


class ContinuityExportReport(Value):
    """The snapshot, and what was left out of it."""

    space: str
    snapshot: ContinuitySnapshot
    facts_left: int = 0
    private_left: int = 0


class ContinuityImportRequest(ScopedRequest["ContinuityImportReport"]):
    """Import a snapshot of any conversation into the scope's. The newer version wins, layer by layer."""

    snapshot: ContinuitySnapshot
    mode: SnapshotMode = SnapshotMode.BOOTSTRAP
    dry_run: bool = False


class LayerOutcome(StrEnum):
    """Outcome of a layer."""

    TAKEN = "taken"
    PARTLY = "partly"
    KEPT_OWN = "kept_own"
    """The stored layer is newer or equal."""
    NOT_INCLUDED = "not_included"


class LayerDecision(Value):
    """One layer: how many of its memories were imported, how many were not, and why."""

    layer: SnapshotLayer
    outcome: LayerOutcome
    taken: int = 0
    left: int = 0
    reason: str = ""


class ContinuityImportReport(ConversationReport):
    """Result of an import, layer by layer."""

    mode: SnapshotMode
    layers: tuple[LayerDecision, ...]
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    scrubbed: ScrubbedCounts = {}
    future_claims: FutureClaims = ()


class SubjectAudience(StrEnum):
    """View of the caller: hosts see visible subjects, an operator's audit sees all."""

    HOST = "host"
    AUDIT = "audit"


class SubjectsRequest(ScopedRequest["SubjectsReport"]):
    """List the subjects of a space and their relations."""

    audience: SubjectAudience = SubjectAudience.HOST
    kinds: Annotated[tuple[SubjectKind, ...], Field(max_length=limits.TAGS)] = ()


class SubjectsReport(Value):
    """The subjects that the audience may see, by name, and the edges between them."""

    space: str
    subjects: tuple[Subject, ...]
    edges: tuple[SubjectEdge, ...]
    withheld: int = 0
    """Subjects that this audience may not see."""
    clipped: bool = False


class GardenAudience(StrEnum):
    """The audience of the private documents."""

    OWNER = "owner"
    """The persona itself: every document."""
    MODEL = "model"
    """A model's context where private context is allowed: every document except sealed ones."""
    HOST_UI = "host_ui"
    """A host's view: no documents."""


class GardenRequest(ScopedRequest["GardenReport"]):
    """Read the private documents of the scope's conversation."""

    audience: GardenAudience


class GardenReport(ConversationReport):
    """The documents that the audience may see, by name, and the number it may not see."""

    documents: tuple[GardenDocument, ...]
    withheld: int = 0
