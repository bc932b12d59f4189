"""Continuity: a conversation's state, and its transfer to another conversation or another memory."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import FactDraft
from elytron_core.contracts.planes import CapsuleDraft, ExecutionDraft, SummaryDraft
from elytron_core.contracts.scope_fields import ConversationReport, ScopedRequest, ScrubbedCounts
from elytron_core.model import Value
from elytron_core.planes.conversation import continuity, execution, summaries
from elytron_core.planes.knowledge.notes import DailyNote

SNAPSHOT_FORMAT = "elytron.continuity"
SNAPSHOT_VERSION = 1


class ContinuityRequest(ScopedRequest):
    """Read the state of the scope's conversation; `query` names the matter that is taken up, so that it comes first."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)] = ""


class ContinuityReport(ConversationReport):
    """State of a conversation.

    `selected` are up to three of its newest capsules, best first, and `block` has their text in at most 900 characters.
    """

    state: execution.ExecutionState | None = None
    summary: summaries.SessionSummary | None = None
    summary_is_due: bool = False
    """True if a new summary is due."""
    capsules: tuple[continuity.ContinuityCapsule, ...] = ()
    selected: tuple[str, ...] = ()
    block: str = ""
    notes: tuple[DailyNote, ...] = ()


class SnapshotMode(StrEnum):
    """Layers of a conversation's continuity in an export or import."""

    BOOTSTRAP = "bootstrap"
    """Up to 16 facts: enough to begin with."""
    FULL_RESTORE = "full_restore"
    """Up to 48 facts, execution state, summary and capsules: enough to continue the conversation."""


class Layer(StrEnum):
    """The parts of a snapshot."""

    FACTS = "facts"
    EXECUTION = "execution"
    SUMMARY = "summary"
    CAPSULES = "capsules"


class SnapshotManifest(Value):
    """Header of a snapshot. `fingerprint` is the SHA-256 of its layers; another one is refused."""

    format: Literal["elytron.continuity"] = SNAPSHOT_FORMAT
    version: Literal[1] = SNAPSHOT_VERSION
    mode: SnapshotMode
    space: str
    channel: str
    conversation: str
    made_at: Instant
    includes: tuple[Layer, ...]
    fingerprint: str


class SnapshotLayers(Value):
    """Contents of a snapshot: drafts, so that an import judges them like any other."""

    facts: Annotated[tuple[FactDraft, ...], Field(max_length=limits.SNAPSHOT_FACTS_FULL)] = ()
    state: ExecutionDraft | None = None
    state_at: Instant | None = None
    summary: SummaryDraft | None = None
    summary_at: Instant | None = None
    capsules: Annotated[tuple[CapsuleDraft, ...], Field(max_length=limits.CAPSULES_PER_CONVERSATION)] = ()
    capsules_at: Annotated[tuple[Instant, ...], Field(max_length=limits.CAPSULES_PER_CONVERSATION)] = ()


class ContinuitySnapshot(Value):
    """The continuity of one conversation, to be taken in elsewhere. Private facts and documents are never in it."""

    manifest: SnapshotManifest
    layers: SnapshotLayers


class ContinuityExportRequest(ScopedRequest):
    """Take the continuity of the scope's conversation along."""

    mode: SnapshotMode = SnapshotMode.FULL_RESTORE


class ContinuityExportReport(Value):
    """The snapshot, and what was left out of it."""

    space: str
    snapshot: ContinuitySnapshot
    facts_left: int = 0
    private_left: int = 0


class ContinuityImportRequest(ScopedRequest):
    """Take a snapshot into the scope's conversation, whichever it was made in. The newer word wins, layer by layer."""

    snapshot: ContinuitySnapshot
    mode: SnapshotMode = SnapshotMode.BOOTSTRAP
    dry_run: bool = False


class LayerOutcome(StrEnum):
    """Outcome of a layer."""

    TAKEN = "taken"
    PARTLY = "partly"
    KEPT_OWN = "kept_own"
    """The stored one is newer, or equal."""
    NOT_INCLUDED = "not_included"


class LayerDecision(Value):
    """One layer: how many of its memories were taken, how many were not, and why."""

    layer: Layer
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
