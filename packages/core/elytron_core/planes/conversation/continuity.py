"""The plane of continuity capsules: what a piece of work or life came to, so that it can be taken up again."""

from enum import StrEnum
from typing import Annotated, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes.knowledge import long_term
from elytron_core.scope import Name

CAPSULES = "capsules"
CapsuleId = NewType("CapsuleId", str)
ID_WORD = "capsule"
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
    """State of a capsule. An active one that was not changed for 14 days is stale."""

    ACTIVE = "active"
    DONE = "done"
    STALE = "stale"
    SUPERSEDED = "superseded"


class ContinuityCapsule(Value):
    """Current state of one matter of a conversation. There is one per conversation, kind and topic."""

    id: CapsuleId
    kind: CapsuleKind
    topic: long_term.Topic
    summary: CapsuleText
    outcome: CapsuleText = ""
    decisions: CapsuleItems = ()
    next_step: CapsuleText = ""
    unresolved: CapsuleItems = ()
    artifacts: Annotated[tuple[Name, ...], Field(max_length=limits.CAPSULE_ITEMS)] = ()
    """References to what was made: files, tickets, links."""
    provenance: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    """Ids of the turns that it rests on."""
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
        """Return all that it says, a line for each part."""
        parts = (
            self.summary,
            self.outcome,
            *self.decisions,
            f"Next: {self.next_step}" if self.next_step else "",
            *(f"Open: {item}" for item in self.unresolved),
        )
        return "\n".join(part for part in parts if part)


def state_at(capsule: ContinuityCapsule, now: Instant, /) -> CapsuleState:
    """Return the capsule's state at `now`: an active one grows stale 14 days after it was last touched."""
    if capsule.state is CapsuleState.ACTIVE and now - capsule.updated_at >= STALE_MS:
        return CapsuleState.STALE
    return capsule.state
