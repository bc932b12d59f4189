"""The audit trail: who changed a document, when and why."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value

AUDIT = "audit"


WHOLE_SPACE: Final = "space"
"""Id of a space's own history: what was done to it as a whole."""


class AuditAction(StrEnum):
    """A control call's effect on a memory."""

    CORRECTED = "corrected"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    FORGOTTEN = "forgotten"
    RESTORED = "restored"
    MARKED_STALE = "marked_stale"
    INVALIDATED = "invalidated"
    PRIVACY_CHANGED = "privacy_changed"
    SCOPE_CHANGED = "scope_changed"
    ARCHIVED = "archived"
    MASKED = "masked"
    RAW_DELETED = "raw_deleted"
    ENABLED = "enabled"
    DISABLED = "disabled"
    MERGED = "merged"
    RECOVERED = "recovered"


class AuditEvent(Value):
    """One control call. `by` is the principal, or the transport of a call without one.

    `audit_id` is the id of the caller's own records, `source` what the caller said to be; neither proves anything.
    """

    action: AuditAction
    at: Instant
    by: str
    reason: str = ""
    part: int | None = None
    """The message of a turn; None: the whole document."""
    audit_id: str | None = None
    source: str | None = None


class AuditTrail(Value):
    """The control calls on one document, oldest first; beyond the limit the oldest is dropped."""

    events: Annotated[tuple[AuditEvent, ...], Field(max_length=limits.AUDIT_EVENTS)] = ()

    def plus(self, *events: AuditEvent) -> "AuditTrail":
        """Return the trail with `events` appended."""
        return AuditTrail(events=(*self.events, *events)[-limits.AUDIT_EVENTS :])

    def without(self, part: int, /) -> "AuditTrail":
        """Return the trail without the events of one message."""
        return AuditTrail(events=tuple(event for event in self.events if event.part != part))
