"""The plane of session summaries: what a conversation has been about so far."""

from typing import Annotated, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

SUMMARIES = "summaries"
SummaryId = NewType("SummaryId", str)
ID_WORD = "summary"

SummaryText = Annotated[str, Field(min_length=1, max_length=limits.SUMMARY_CHARS)]


class SessionSummary(Value):
    """The summary of one conversation: one, always the newest. `messages` says how many it has taken in."""

    id: SummaryId
    text: SummaryText
    messages: Annotated[int, Field(ge=0)]
    through_sequence: Annotated[int, Field(ge=0)] = 0
    """The last turn's sequence that it covers."""
    channel: Name
    conversation: Name
    updated_at: Instant
    model: Name | None = None
    forgotten_at: Instant | None = None
