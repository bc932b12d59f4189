"""Time enters through a port. Inside it is a whole number of milliseconds since 1970, UTC."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol, runtime_checkable

from elytron_core import limits
from elytron_core.errors import InvalidInput

Instant = NewType("Instant", int)
"""Milliseconds since 1970-01-01T00:00:00Z."""

DAY_MS = 24 * 3600 * 1000
_LEAP_SECOND = re.compile(r"(?<=[Tt ]\d\d:\d\d:)60")


@runtime_checkable
class Clock(Protocol):
    """Source of the current time."""

    def now(self, /) -> Instant:
        """Return the present moment."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self, /) -> Instant:
        return Instant(time.time_ns() // 1_000_000)


class FrozenClock:
    """A clock that moves only through `advance`, or by `step_ms` on every read."""

    def __init__(self, at: Instant = Instant(1_767_225_600_000), /, *, step_ms: int = 0) -> None:
        self._at = at
        self._step_ms = step_ms

    def now(self, /) -> Instant:
        current_time = self._at
        self._at = Instant(current_time + self._step_ms)
        return current_time

    def advance(self, by_ms: int, /) -> None:
        """Move the clock by `by_ms`; a negative number steps back."""
        self._at = Instant(self._at + by_ms)


def order_time(claimed_at: Instant | None, /, *, recorded_at: Instant, now: Instant | None = None) -> Instant:
    """Return the time by which a memory is ordered among others.

    It is the claimed time, but never later than the recording: nothing is observed after it was recorded. With `now`, a
    recording later than that shows that the recording clock was ahead. Such a memory gives way to everything that is
    observed from now on.

    >>> order_time(Instant(90), recorded_at=Instant(20))
    20
    """
    ordering_time = recorded_at if claimed_at is None else min(claimed_at, recorded_at)
    if now is None or now >= recorded_at:
        return ordering_time
    return Instant(min(ordering_time, now - limits.CLOCK_SKEW_MS))


def late_recording(claimed_at: Instant | None, recorded_at: Instant, /) -> Instant | None:
    """Return when a memory was recorded if it claims a later time; None otherwise."""
    is_ahead = claimed_at is not None and claimed_at > recorded_at + limits.CLOCK_SKEW_MS
    return recorded_at if is_ahead else None


def instant(value: datetime | float | str, /, *, field: str = "timestamp") -> Instant:
    """Return the instant of a datetime, of epoch milliseconds, or of ISO 8601 text.

    A datetime or text without a zone is taken as UTC, a leap second as the second behind it. Raises InvalidInput
    outside the years that `limits` names, and for text that is no timestamp.

    >>> elytron.instant("2026-05-04T12:00:00+02:00")
    1777888800000
    """
    if isinstance(value, str):
        try:
            value = _parse_datetime(value.strip())
        except (ValueError, OverflowError):
            problem = "is not an ISO 8601 timestamp such as 2026-03-01 or 2026-03-01T09:30:00Z"
            raise InvalidInput(field=field, problem=problem) from None
    if isinstance(value, datetime):
        aware_datetime = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        value = round(aware_datetime.timestamp() * 1000)
    try:
        # NaN compares as False, so it is rejected together with out-of-range years.
        is_near = limits.EARLIEST_MS <= value <= limits.LATEST_MS
    except TypeError:
        is_near = None
    # In Python, True is an int, but it is not a time.
    if is_near is None or isinstance(value, bool):
        raise InvalidInput(field=field, problem="is not a datetime, milliseconds or ISO 8601 text")
    if not is_near:
        raise InvalidInput(field=field, problem="is not between the years 1900 and 2999")
    return Instant(round(value))


def _parse_datetime(text: str) -> datetime:
    # RFC 3339 allows a lower-case `z`, which `fromisoformat` rejects.
    if text.endswith("z"):
        text = f"{text[:-1]}Z"
    text_without_leap_second, leap_second_count = _LEAP_SECOND.subn("59", text)
    return datetime.fromisoformat(text_without_leap_second) + timedelta(seconds=leap_second_count)


def format_instant(at: Instant, /) -> str:
    """Return `at` as ISO 8601 text in UTC, without fractional seconds if there are none."""
    utc_datetime = as_datetime(at)
    return utc_datetime.isoformat(timespec="milliseconds" if at % 1000 else "seconds").replace("+00:00", "Z")


def as_datetime(at: Instant, /) -> datetime:
    """Return `at` as an aware datetime in UTC."""
    return datetime.fromtimestamp(at / 1000, tz=UTC)
