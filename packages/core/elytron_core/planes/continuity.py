"""The planes of continuity: capsules, execution state, summaries, daily notes, and the private garden of a persona."""

import re
from enum import StrEnum
from typing import Annotated, Final, NewType

from pydantic import AfterValidator, BeforeValidator, Field

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.scope import Name

GARDEN_BYTES: Final = 8 * 1024
"""Bytes of one private document."""


CAPSULES = "capsules"
CapsuleId = NewType("CapsuleId", str)
CAPSULE_ID_WORD = "capsule"
STALE_MS = 14 * DAY_MS

CapsuleText = Annotated[str, Field(max_length=limits.CAPSULE_TEXT_CHARS)]
CapsuleItem = Annotated[str, Field(min_length=1, max_length=limits.CAPSULE_ITEM_CHARS)]
CapsuleItems = Annotated[tuple[CapsuleItem, ...], Field(max_length=limits.CAPSULE_ITEMS)]


class CapsuleKind(StrEnum):
    """Kind of a capsule's matter."""

    TASK_RESOLUTION = "task_resolution"
    WORK_SESSION = "work_session"
    DEVICE_INCIDENT = "device_incident"
    RELATIONSHIP_EVENT = "relationship_event"
    HANDOFF = "handoff"


class CapsuleState(StrEnum):
    """State of a capsule. An active one unchanged for 14 days is stale."""

    ACTIVE = "active"
    DONE = "done"
    STALE = "stale"
    SUPERSEDED = "superseded"


class ContinuityCapsule(Value):
    """Current state of one matter of a conversation: one per conversation, kind and topic."""

    id: CapsuleId
    kind: CapsuleKind
    topic: facts.Topic
    summary: CapsuleText
    outcome: CapsuleText = ""
    decisions: CapsuleItems = ()
    next_step: CapsuleText = ""
    unresolved: CapsuleItems = ()
    artifacts: Annotated[tuple[Name, ...], Field(max_length=limits.CAPSULE_ITEMS)] = ()
    """References to results: files, tickets, links."""
    provenance: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    """Ids of the turns that it is based on."""
    state: CapsuleState = CapsuleState.ACTIVE
    channel: Name
    conversation: Name
    recorded_at: Instant
    updated_at: Instant
    superseded_by: CapsuleId | None = None
    forgotten_at: Instant | None = None

    @property
    def is_recallable(self) -> bool:
        return self.forgotten_at is None and self.state is not CapsuleState.SUPERSEDED

    @property
    def text(self) -> str:
        """Return its full text, one line per part."""
        parts = (
            self.summary,
            self.outcome,
            *self.decisions,
            f"Next: {self.next_step}" if self.next_step else "",
            *(f"Open: {item}" for item in self.unresolved),
        )
        return "\n".join(part for part in parts if part)


def state_at(capsule: ContinuityCapsule, now: Instant, /) -> CapsuleState:
    """Return the capsule's state at `now`: an active one becomes stale 14 days after its last change."""
    if capsule.state is CapsuleState.ACTIVE and now - capsule.updated_at >= STALE_MS:
        return CapsuleState.STALE
    return capsule.state


EXECUTION = "execution_states"
ExecutionId = NewType("ExecutionId", str)
EXECUTION_ID_WORD = "state"

ExecutionText = Annotated[str, Field(max_length=limits.EXECUTION_TEXT_CHARS)]
ExecutionItem = Annotated[str, Field(min_length=1, max_length=limits.EXECUTION_ITEM_CHARS)]
ExecutionItems = Annotated[tuple[ExecutionItem, ...], Field(max_length=limits.EXECUTION_ITEMS)]


class ExecutionStatus(StrEnum):
    """Status of the work."""

    ACTIVE = "active"
    BLOCKED = "blocked"
    DONE = "done"


class ExecutionState(Value):
    """State of one conversation's work: always the newest."""

    id: ExecutionId
    goal: ExecutionText
    progress: ExecutionText = ""
    blocker: ExecutionText = ""
    next_action: ExecutionText = ""
    last_output: ExecutionText = ""
    done: ExecutionItems = ()
    pending: ExecutionItems = ()
    decisions: ExecutionItems = ()
    artifacts: ExecutionItems = ()
    status: ExecutionStatus = ExecutionStatus.ACTIVE
    channel: Name
    conversation: Name
    updated_at: Instant
    forgotten_at: Instant | None = None

    @property
    def text(self) -> str:
        """Return its full text, one line per part."""
        parts = (
            f"Goal: {self.goal}",
            f"Progress: {self.progress}" if self.progress else "",
            f"Blocked by: {self.blocker}" if self.blocker else "",
            f"Next: {self.next_action}" if self.next_action else "",
            f"Last output: {self.last_output}" if self.last_output else "",
            *(f"Done: {item}" for item in self.done),
            *(f"Pending: {item}" for item in self.pending),
            *(f"Decided: {item}" for item in self.decisions),
            *(f"Made: {item}" for item in self.artifacts),
        )
        return "\n".join(part for part in parts if part)


SUMMARIES = "summaries"
SummaryId = NewType("SummaryId", str)
SUMMARY_ID_WORD = "summary"

SummaryText = Annotated[str, Field(min_length=1, max_length=limits.SUMMARY_CHARS)]


class SessionSummary(Value):
    """The newest summary of a conversation. `messages` is the number of messages it covers."""

    id: SummaryId
    text: SummaryText
    messages: Annotated[int, Field(ge=0)]
    through_sequence: Annotated[int, Field(ge=0)] = 0
    """Sequence of the last turn that it covers."""
    channel: Name
    conversation: Name
    updated_at: Instant
    model: Name | None = None
    forgotten_at: Instant | None = None


NOTES = "notes"
NoteId = NewType("NoteId", str)
NOTE_ID_WORD = "note"

NoteText = Annotated[str, Field(min_length=1, max_length=limits.NOTE_CHARS)]
_PERIOD = r"^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$"


def _period_value(period: object) -> object:
    # The pattern's own error would show an expression instead of an example.
    if isinstance(period, str) and not re.match(_PERIOD, period):
        raise ValueError("must be a day (2026-08-03) or a month (2026-08)")
    return period


Period = Annotated[str, Field(pattern=_PERIOD), BeforeValidator(_period_value)]
"""A day ("2026-08-03") or a month ("2026-08")."""


class NoteGrain(StrEnum):
    """Period of a note."""

    DAY = "day"
    MONTH = "month"


class DailyNote(Value):
    """Note on one day, or on one month of days, of a conversation; one per period."""

    id: NoteId
    period: Period
    text: NoteText
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    channel: Name
    conversation: Name
    observed_at: Instant
    recorded_at: Instant
    updated_at: Instant
    forgotten_at: Instant | None = None

    @property
    def grain(self) -> NoteGrain:
        return NoteGrain.MONTH if len(self.period) == len("2026-08") else NoteGrain.DAY


GARDEN = "garden"
GardenId = NewType("GardenId", str)
GARDEN_ID_WORD = "garden"


class GardenRole(StrEnum):
    """Purpose of a private document."""

    WORKSPACE = "workspace"
    DIARY = "diary"
    RELATIONAL = "relational"
    SEALED = "sealed"
    """Shown only to its owner, even if private context is allowed."""


def _within_bytes(text: str) -> str:
    if len(text.encode()) > GARDEN_BYTES:
        raise ValueError(f"has more than {GARDEN_BYTES} bytes")
    return text


GardenText = Annotated[str, Field(max_length=GARDEN_BYTES), AfterValidator(_within_bytes)]


class GardenDocument(Value):
    """One private document of a conversation, by its name."""

    id: GardenId
    role: GardenRole
    name: Name
    text: GardenText
    channel: Name
    conversation: Name
    created_at: Instant
    updated_at: Instant
    forgotten_at: Instant | None = None
