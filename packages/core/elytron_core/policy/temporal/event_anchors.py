"""Times named by an event: "before we moved", "two weeks after the wedding".

The event, the anchor, is itself to be looked for; the time at which people spoke of it is about the time at which it
was. They speak of what came before and after in the same talk, and in the weeks around it: what was said then is the
likelier answer.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.policy.temporal.time_ranges import COUNTS, Span


class Side(StrEnum):
    """Side of its anchor on which a time is."""

    BEFORE = "before"
    AFTER = "after"


class Anchor(NamedTuple):
    """An event by which a time is named."""

    text: str
    side: Side
    reach_ms: int
    """The distance from the anchor up to which messages count."""


LEAST_COVERED: Final = 0.5
"""If no message holds this share of an anchor's words, its time is unknown."""
_REACH_MS: Final = 90 * DAY_MS
_TALK_MS: Final = 8 * 3_600_000
"""Messages up to this much earlier or later belong to the talk about the anchor."""
_WORTH: Final = 0.5
_FAR_WORTH: Final = 0.25
_MOST_AWAY: Final = 1_000
"""A larger count of days, weeks, months or years is taken as this: no one remembers such times."""
_SIGNS: Final = ("before", "after", "since", "until", "prior to", "following")
"""A text without these has no anchor."""
_ANCHOR: Final = re.compile(
    r"\b(?:(?P<count>\d{1,4}|an?|one|two|three|four|five|six|a couple of|a few) (?P<unit>day|week|month|year)s? )?"
    r"(?P<side>before|prior to|until|after|since|following)"
    r" (?!(?:all|then|that|this|it|now|when|what|which|how|who)\b)(?P<what>[^?.!,;]*\w)",
    re.IGNORECASE,
)
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
_BEFORE: Final = frozenset({"before", "prior to", "until"})


def anchor_in(text: str, lowered: str, /) -> Anchor | None:
    """Return the event by which `text`, `lowered` in small letters, names a time; None if it names none so."""
    if not any(sign in lowered for sign in _SIGNS):
        return None
    found = _ANCHOR.search(text)
    if found is None:
        return None
    side = Side.BEFORE if found["side"].lower() in _BEFORE else Side.AFTER
    return Anchor(found["what"], side, max(_REACH_MS, _away(found["count"], found["unit"])))


def spans_of(anchor: Anchor, at: Instant, /) -> tuple[Span, Span]:
    """Return the times that `anchor`, spoken of at `at`, can mean: near to it, and all on its side of it."""
    match anchor.side:
        case Side.BEFORE:
            end = at + _TALK_MS
            return Span(at - anchor.reach_ms, end, _WORTH), Span(limits.EARLIEST_MS, end, _FAR_WORTH)
        case Side.AFTER:
            start = at - _TALK_MS
            return Span(start, at + anchor.reach_ms, _WORTH), Span(start, limits.LATEST_MS, _FAR_WORTH)


def _away(count: str | None, unit: str | None) -> int:
    """Return the distance from the anchor in milliseconds, and half as much again: people say round numbers."""
    if count is None or unit is None:
        return 0
    many = int(count) if count.isdigit() else COUNTS.get(count.lower(), 1)
    return min(many, _MOST_AWAY) * _DAYS_OF[unit.lower()] * DAY_MS * 3 // 2
