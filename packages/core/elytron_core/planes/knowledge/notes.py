"""The plane of daily notes: what a day held, archive evidence beside the transcript."""

import re
from enum import StrEnum
from typing import Annotated, NewType

from pydantic import BeforeValidator, Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

NOTES = "notes"
NoteId = NewType("NoteId", str)
ID_WORD = "note"

NoteText = Annotated[str, Field(min_length=1, max_length=limits.NOTE_CHARS)]
_PERIOD = r"^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$"


def _told(period: object) -> object:
    if isinstance(period, str) and not re.match(_PERIOD, period):
        raise ValueError("name a day (2026-08-03) or a month (2026-08)")
    return period


Period = Annotated[str, Field(pattern=_PERIOD), BeforeValidator(_told)]
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
