"""Types of the times in requests: claimed, asked about, or planned.

They are separate from the clock, which the command line loads without any model.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant


class TimeKind(StrEnum):
    """Meaning of a time in a request. Every time in a request has one in its type."""

    CLAIM = "claim"
    """The sender says that something was said or observed then. The receiving clock limits it: see `order_time`."""
    VIEW = "view"
    """A point of view: the request asks what was true then. It may lie in the future."""
    PLAN = "plan"
    """Something begins, ends or is due then in the world. It may lie in the future."""


StatedTime = Annotated[Instant, TimeKind.CLAIM]
"""A claimed time of another store, in any year."""
BoundedInstant = Annotated[Instant, Field(ge=limits.EARLIEST_MS, le=limits.LATEST_MS)]
ClaimedTime = Annotated[BoundedInstant, TimeKind.CLAIM]
ViewTime = Annotated[BoundedInstant, TimeKind.VIEW]
PlannedTime = Annotated[BoundedInstant, TimeKind.PLAN]
