"""Time comes in through a port; inside it is a whole number of milliseconds since 1970, UTC."""

import time
from datetime import UTC, datetime
from typing import NewType, Protocol, runtime_checkable

from elytron_core import limits
from elytron_core.errors import InvalidInput

Instant = NewType("Instant", int)
"""Milliseconds since 1970-01-01T00:00:00Z."""

DAY_MS = 24 * 3600 * 1000


@runtime_checkable
class Clock(Protocol):
    """Where the time comes from."""

    def now(self, /) -> Instant:
        """Return the present moment."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self, /) -> Instant:
        return Instant(time.time_ns() // 1_000_000)


class FrozenClock:
    """A clock that moves only when told to, or by `step_ms` at each look."""

    def __init__(self, at: Instant = Instant(1_767_225_600_000), /, *, step_ms: int = 0) -> None:
        self._at = at
        self._step_ms = step_ms

    def now(self, /) -> Instant:
        at = self._at
        self._at = Instant(at + self._step_ms)
        return at

    def advance(self, by_ms: int, /) -> None:
        """Move the clock by `by_ms`; a negative number steps back."""
        self._at = Instant(self._at + by_ms)


def instant(value: datetime | int | str, /, *, field: str = "timestamp") -> Instant:
    """Return the instant of a datetime, of epoch milliseconds, or of ISO 8601 text.

    A datetime or text without a zone is taken as UTC. Raises InvalidInput outside the years 1 to 9999 as the
    bounds in `limits` name them, and for text that is no timestamp.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput(field=field, problem="is not an ISO 8601 timestamp") from None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        value = round(aware.timestamp() * 1000)
    try:
        is_near = limits.EARLIEST_MS <= value <= limits.LATEST_MS
    except TypeError:
        raise InvalidInput(field=field, problem="is neither a datetime, nor milliseconds, nor ISO 8601 text") from None
    if not is_near:
        raise InvalidInput(field=field, problem="lies outside the years 1900 to 2999")
    return Instant(value)


def iso(at: Instant, /) -> str:
    """Return `at` as ISO 8601 text in UTC, to the second where it has no fraction."""
    moment = as_datetime(at)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds").replace("+00:00", "Z")


def as_datetime(at: Instant, /) -> datetime:
    """Return `at` as an aware datetime in UTC."""
    return datetime.fromtimestamp(at / 1000, tz=UTC)
