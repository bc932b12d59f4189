"""Times as a person at some place reads them."""

from datetime import UTC, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from elytron_core.clock import Instant, as_datetime
from elytron_core.errors import InvalidInput

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def zone_of(name: str, /, *, field: str = "timezone") -> str:
    """Return `name` if it is a time zone of the IANA database, such as Europe/Lisbon. Raises InvalidInput."""
    try:
        _zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(field=field, problem="is no time zone: write one such as Europe/Lisbon or UTC") from None
    return name


def local(at: Instant, zone: str, /) -> str:
    """Return `at` to the minute as clocks in `zone` show it, with the day of the week: `Tue 2026-01-06 09:14`."""
    moment = as_datetime(at).astimezone(_zone(zone))
    return f"{_DAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M}"


@cache
def _zone(name: str) -> tzinfo:
    # UTC is there even where the system has no database of zones.
    return UTC if name == "UTC" else ZoneInfo(name)
