"""Streams: a space's journal as it grows, and the frames of a WebSocket.

A stream reads the journal. It is ordered and gapless, names no content, and resumes after any event that a reader has
seen. Entries that can no longer be sent appear as a gap.
"""

from enum import IntEnum, StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import IdempotencyKey, Name, Scope

EVENT_ID_CHARS: Final = 40


EVENT_ID_PATTERN = r"^[0-9]{1,16}(-[0-9]{1,16})?$"
EventId = Annotated[str, Field(max_length=EVENT_ID_CHARS, pattern=EVENT_ID_PATTERN)]
"""`<sequence>-<milliseconds>` of an entry. The second part reveals a journal that was erased and started again; a bare
sequence is accepted too, but not checked. `0` is before the first entry."""

EventAction = Literal["write", "merge", "delete", "erase", "maintenance", "projection", "lifecycle", "operator"]
"""The actions of journal entries, as the store port names them."""


class JournalEvent(Value):
    """One entry of a space's journal: which document was changed and how, never its content."""

    type: Literal["entry"] = "entry"
    id: EventId
    space: str
    sequence: int
    at: Instant
    action: EventAction
    collection: str
    plane: str = ""
    """The plane that the collection belongs to."""
    key: str
    conversation: str | None = None
    """The keyed tag of the document's conversation, if it has one; never its name."""
    digest: str = ""


class GapReason(StrEnum):
    """Why entries cannot be resent."""

    ERASED = "erased"
    """The space was erased and may have started again: discard what was known of it."""
    COMPACTED = "compacted"
    """The journal no longer contains them."""
    RETENTION = "retention"
    """The reader is too far behind for streaming."""


class EventGap(Value):
    """Entries `first` to `last` are not sent; the stream continues after `last`. Read the space again."""

    type: Literal["gap"] = "gap"
    space: str
    reason: GapReason
    first: int
    last: int


StreamItem = Annotated[JournalEvent | EventGap, Field(discriminator="type")]


def event_position(event_id: EventId, /) -> tuple[int, int | None]:
    """Return the sequence in `event_id`, and the entry's time if the id has one."""
    sequence_text, _, at_text = event_id.partition("-")
    return int(sequence_text), int(at_text) if at_text else None


class CloseCode(IntEnum):
    """Why a server closes a WebSocket."""

    GOING_AWAY = 1001
    """The server shuts down; accepted work is done. Reconnect."""
    FRAME_TOO_BIG = 1009
    """A frame exceeded the budget (`frame_budget_exceeded` was sent before)."""
    INTERNAL = 1011
    SLOW_READER = 1013
    """The backlog exceeded the budget. Reconnect and resume."""
    UNAUTHORIZED = 4401
    """The credential is no longer valid."""


class StreamKind(StrEnum):
    """Kind of a subscription."""

    EVENTS = "events"
    """The journal's entries."""
    PROJECTION = "projection"
    INSPECTION = "inspection"
    REPLAY = "replay"
    CAPABILITY = "capability"


class FrameError(StrEnum):
    """Errors of frames, in addition to the errors of operations."""

    FRAME_BUDGET_EXCEEDED = "frame_budget_exceeded"
    SUBSCRIPTION_BUDGET_EXCEEDED = "subscription_budget_exceeded"
    UNSUPPORTED_SUBSCRIPTION = "unsupported_subscription"


FrameId = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS, pattern=r"^[A-Za-z0-9._:-]+$")]
"""A client's name for a command or subscription, unique among its open ones; answers carry it."""


class InFrame(Value):
    """A client's frame: `command.<operation>`, `subscribe.<kind>`, or `unsubscribe`.

    `payload` is the request of the operation. `scope` and `after` belong to `subscribe.events`, `after` as a number to
    the other subscriptions too: their first report comes when the journal is beyond it.
    """

    type: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
    id: FrameId
    payload: dict[str, JsonValue] = {}
    idempotency_key: IdempotencyKey | None = None
    scope: Scope | None = None
    after: EventId | int | None = None


class EventProblem(Value):
    """An error in an event."""

    code: str
    seed_key: str | None = None
    """The same error as the protocol's first hosts call it; None for frame errors."""
    detail: str
    retryable: bool = False
    details: dict[str, str | int] = {}


class ReportEvent(Value):
    """A report: the answer to a command, or the next one of a subscription. `sequence` is what a subscription has
    covered."""

    type: Literal["event.report"] = "event.report"
    id: str
    operation: str
    outcome: Literal["accepted", "duplicated", "queued"] = "accepted"
    sequence: int | None = None
    event_id: EventId | None = None
    report: JsonValue


class ErrorEvent(Value):
    """A command failed, or a subscription or frame was rejected; `id` is empty if the frame's is unknown."""

    type: Literal["event.error"] = "event.error"
    id: str = ""
    error: EventProblem


class SubscriptionPhase(StrEnum):
    """Change of a connection or a subscription."""

    OPENED = "opened"
    SUBSCRIBED = "subscribed"
    GAP = "gap"
    UNSUBSCRIBED = "unsubscribed"
    CLOSING = "closing"


class LifecycleEvent(Value):
    """A connection or subscription changed its state. `id` is empty for the connection itself.

    `after` is the start of a subscription to events, also if none has come yet.
    """

    type: Literal["event.lifecycle"] = "event.lifecycle"
    id: str = ""
    phase: SubscriptionPhase
    after: EventId | None = None
    gap: EventGap | None = None
    principal: Name | None = None


OutFrame = Annotated[ReportEvent | ErrorEvent | LifecycleEvent, Field(discriminator="type")]
