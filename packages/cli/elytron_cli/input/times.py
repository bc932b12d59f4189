"""Times in words, as a person types them: "yesterday", "2 hours ago", "vor 3 Tagen"."""

from datetime import UTC, datetime

from elytron_core.clock import Instant, instant
from elytron_core.errors import InvalidInput

TEXT_CHARS = 64
"""More is no time."""


def read_words_of_time(text: str, /, *, now: datetime | None = None) -> Instant | None:
    """Return the time that `text` names, in UTC: of a day, its beginning; None if it names none."""
    from dateparser.date import DateDataParser

    if len(text) > TEXT_CHARS:
        return None
    settings = {
        "TIMEZONE": "UTC",
        "TO_TIMEZONE": "UTC",
        "RETURN_AS_TIMEZONE_AWARE": True,
        "RETURN_TIME_AS_PERIOD": True,
        "PREFER_DATES_FROM": "past",
        "RELATIVE_BASE": (now or datetime.now(UTC)).replace(tzinfo=None),
    }
    found = DateDataParser(settings=settings).get_date_data(text)
    if found.date_obj is None:
        return None
    at = found.date_obj
    if found.period != "time":
        at = at.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return instant(at)
    except InvalidInput:
        return None
