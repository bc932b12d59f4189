"""Absolute dates named in a text: a year, a month of a year, or a day."""

import re
from typing import Final, NamedTuple

from elytron_core.clock import Instant, as_datetime

MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR: Final = r"(?P<year>(?:19|2\d)\d\d)"
_BEFORE: Final = r"(?:(?P<before>\d{1,2})(?:st|nd|rd|th)?(?: of)? )?"
_AFTER: Final = r"(?: (?P<after>\d{1,2})(?:st|nd|rd|th)?)?"
_WRITTEN = re.compile(rf"\b{_BEFORE}{_MONTH}\.?{_AFTER},? {_YEAR}\b", re.IGNORECASE | re.ASCII)
_DAY: Final = r"(?:[-/.月](?P<day>0?[1-9]|[12]\d|3[01])(?!\d))?"
_NUMERIC = re.compile(rf"(?<![\w.]){_YEAR}(?:[-/.年](?P<month>0?[1-9]|1[0-2])(?!\d){_DAY}|(?!\w))", re.ASCII)


class Named(NamedTuple):
    """A named date; 0 for a month or day that was not named."""

    year: int
    month: int = 0
    day: int = 0

    def is_met_by(self, other: "Named") -> bool:
        """Return whether `other` names at least as much, and the same."""
        return (
            self.year == other.year
            and self.month in {0, other.month}
            and (self.day in {0, other.day} or not self.month)
        )


def named_in(text: str, /) -> tuple[Named, ...]:
    """Return the distinct dates that `text` names in digits (2025-03-02, 2025/3, 2025年3月2日, 2025) or English."""
    written = [
        Named(
            int(match["year"]),
            MONTHS.index(match["name"][:3].lower()) + 1,
            int(match["before"] or match["after"] or 0),
        )
        for match in _WRITTEN.finditer(text)
    ]
    numeric = [
        Named(int(match["year"]), int(match["month"] or 0), int(match["day"] or 0))
        for match in _NUMERIC.finditer(_WRITTEN.sub(" ", text))
    ]
    return tuple(dict.fromkeys(written + numeric))


def day_of(at: Instant, /) -> Named:
    """Return the day of `at`, UTC."""
    moment = as_datetime(at)
    return Named(moment.year, moment.month, moment.day)
