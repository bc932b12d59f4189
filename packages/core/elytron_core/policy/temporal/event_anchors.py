"""Times told by what happened then: "before we moved", "two weeks after the wedding".

What is named so, the anchor, is itself to be looked for; when it was spoken of says about when it was. People tell of
what came before and after in the same talk, and in the weeks around it: what was said then is the likelier answer.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.policy.temporal.time_ranges import Span


class Side(StrEnum):
    """On which side of its anchor a time lies."""

    BEFORE = "before"
    AFTER = "after"


class Anchor(NamedTuple):
    """What a time is told by."""

    text: str
    side: Side
    reach_ms: int
    """How far away from the anchor what was said still counts."""


LEAST_COVERED: Final = 0.5
"""Where no message holds such a share of an anchor's words, nobody knows when it was."""
_DAY_MS: Final = 86_400_000
_REACH_MS: Final = 90 * _DAY_MS
_TALK_MS: Final = 8 * 3_600_000
"""What was said so much earlier or later belongs to the talk that told of the anchor."""
_WORTH: Final = 0.5
_FAR_WORTH: Final = 0.25
_MOST_AWAY: Final = 1_000
"""A larger count of days, weeks, months or years is none that somebody remembers."""
_SIGNS: Final = ("before", "after", "since", "until", "prior to", "following")
"""A text without these has no anchor."""
_ANCHOR: Final = re.compile(
    r"\b(?:(?P<count>\d{1,4}|an?|one|two|three|four|five|six|a couple of|a few) (?P<unit>day|week|month|year)s? )?"
    r"(?P<side>before|prior to|until|after|since|following)"
    r" (?!(?:all|then|that|this|it|now|when|what|which|how|who)\b)(?P<what>[^?.!,;]*\w)",
    re.IGNORECASE,
)
_COUNTS: Final = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "a couple of": 2, "a few": 3}
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
_BEFORE: Final = frozenset({"before", "prior to", "until"})


def anchor_in(text: str, lowered: str, /) -> Anchor | None:
    """Return what a time is told by in `text`, `lowered` in small letters; None where there is no such time."""
    if not any(sign in lowered for sign in _SIGNS):
        return None
    found = _ANCHOR.search(text)
    if found is None:
        return None
    side = Side.BEFORE if found["side"].lower() in _BEFORE else Side.AFTER
    return Anchor(found["what"], side, max(_REACH_MS, _away(found["count"], found["unit"])))


def spans_of(anchor: Anchor, at: Instant, /) -> tuple[Span, Span]:
    """Return the time that is told by `anchor`, of which was spoken at `at`: near to it, and all on its side of it."""
    match anchor.side:
        case Side.BEFORE:
            end = at + _TALK_MS
            return Span(at - anchor.reach_ms, end, _WORTH), Span(limits.EARLIEST_MS, end, _FAR_WORTH)
        case Side.AFTER:
            start = at - _TALK_MS
            return Span(start, at + anchor.reach_ms, _WORTH), Span(start, limits.LATEST_MS, _FAR_WORTH)


def _away(count: str | None, unit: str | None) -> int:
    """Return how far away from the anchor it is, and half as much again: both are told in round numbers."""
    if count is None or unit is None:
        return 0
    many = int(count) if count.isdigit() else _COUNTS.get(count.lower(), 1)
    return min(many, _MOST_AWAY) * _DAYS_OF[unit.lower()] * _DAY_MS * 3 // 2
