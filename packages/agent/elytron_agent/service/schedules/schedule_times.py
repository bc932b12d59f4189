"""Times of schedules: rules, and the moment at which one is due next.

Rules name times as clocks show them in a zone. A time that the zone skips is due at the end of the gap, and a time that
it shows twice is due the first time alone. Times of one rule that fall together are due once.
"""

from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from elytron_agent.context.request import time_zone
from elytron_agent.service import limits
from elytron_core.clock import Instant, as_datetime
from elytron_core.errors import InvalidInput, MissingExtra
from elytron_core.model import Request

_MS: Final = 1_000
_CRON_FIELDS: Final = 5
_NO_CRON: Final = (
    "is no cron line of five fields that is ever due, such as `0 9 * * 1-5`, `*/15 8-18 * * *` or `30 7 1 * *`"
)


class WeekDay(StrEnum):
    """Day of the week."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"

    @property
    def number(self) -> int:
        return tuple(WeekDay).index(self)


def _clock_time(text: str) -> str:
    try:
        found = time.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or len(text) != len("09:00") or found.tzinfo is not None:
        raise InvalidInput(field="time", problem="is no time of day such as 09:00 or 18:30")
    return text


def _one_moment(text: str) -> str:
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        year = 0
    # At both ends of the calendar, a time has no moment in some zones.
    if not MINYEAR < year < MAXYEAR:
        problem = "is no date and time such as 2027-05-04T09:00, or with an offset 2027-05-04T09:00+02:00"
        raise InvalidInput(field="at", problem=problem)
    return text


def _cron_line(text: str) -> str:
    _cron_times(text, datetime(2000, 1, 1))  # noqa: DTZ001 - a time as clocks show it, of no zone
    return text


ClockTime = Annotated[str, Field(max_length=5), AfterValidator(_clock_time)]


class OneOffRule(Request):
    """Once, at a time as clocks show it, or at one with an offset."""

    type: Literal["one_off"] = "one_off"
    at: Annotated[str, Field(max_length=40), AfterValidator(_one_moment)]


class IntervalRule(Request):
    """At an interval of seconds, counted from its making."""

    type: Literal["interval"] = "interval"
    seconds: Annotated[int, Field(ge=limits.INTERVAL_MIN_S, le=limits.INTERVAL_MAX_S)]


class DailyRule(Request):
    """Every day."""

    type: Literal["daily"] = "daily"
    time: ClockTime


class WeeklyRule(Request):
    """On some days of each week."""

    type: Literal["weekly"] = "weekly"
    days: Annotated[tuple[WeekDay, ...], Field(min_length=1, max_length=7)]
    time: ClockTime


class CronRule(Request):
    """By a cron line of five fields."""

    type: Literal["cron"] = "cron"
    line: Annotated[str, Field(max_length=limits.CRON_CHARS), AfterValidator(_cron_line)]


ScheduleRule = Annotated[OneOffRule | IntervalRule | DailyRule | WeeklyRule | CronRule, Field(discriminator="type")]


def due_after(rule: ScheduleRule, after: Instant, /, *, zone: str, made_at: Instant) -> Instant | None:
    """Return the first moment behind `after` at which a rule is due; None if there is none. Raises InvalidInput."""
    if isinstance(rule, IntervalRule):
        period = rule.seconds * _MS
        count = max(1, (after - made_at) // period + 1)
        return Instant(made_at + count * period)
    place = time_zone(zone)
    for local in _local_times(rule, _local_time(after, place)):
        due = instant_in(local, place)
        if due > after:
            return due
    return None


def instant_in(local: datetime, zone: tzinfo, /) -> Instant:
    """Return the moment of a time as clocks show it in a zone; one with an offset of its own is that moment."""
    if local.tzinfo is not None:
        return _utc_instant(local)
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return _utc_instant(first)
    # The zone skips this time. Of both offsets around the gap, one gives a moment before it, one behind it.
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    before, behind = sorted((first, second))
    offset = before.astimezone(zone).utcoffset()
    while behind - before > timedelta(seconds=1):
        middle = before + (behind - before) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            behind = middle
    return _utc_instant(behind.replace(microsecond=0))


def require_rule(rule: ScheduleRule, now: Instant, /, *, zone: str) -> Instant:
    """Return when a new rule is first due. Raises InvalidInput for one that is never due, or only in ten years."""
    due = due_after(rule, now, zone=zone, made_at=now)
    if due is None:
        problem = "is in the past" if isinstance(rule, OneOffRule) else "is never due"
        raise InvalidInput(field="rule", problem=problem)
    if due > now + limits.SCHEDULE_MAX_MS:
        raise InvalidInput(field="rule", problem="is first due in more than ten years")
    return due


def _local_times(rule: OneOffRule | DailyRule | WeeklyRule | CronRule, begin: datetime) -> Iterator[datetime]:
    """Yield the times of a rule as clocks show them, from `begin` on."""
    match rule:
        case OneOffRule():
            yield datetime.fromisoformat(rule.at)
        case DailyRule():
            yield from _times_of_days(begin.date(), frozenset(range(7)), rule.time)
        case WeeklyRule():
            yield from _times_of_days(begin.date(), frozenset(day.number for day in rule.days), rule.time)
        case CronRule():
            yield from _cron_times(rule.line, begin - timedelta(minutes=1))


def _times_of_days(first: date, days: frozenset[int], at: str) -> Iterator[datetime]:
    moment = time.fromisoformat(at)
    # Two weeks hold each day of the week twice, so also one behind a day that a zone skips or repeats.
    for number in range(15):
        day = first + timedelta(days=number)
        if day.weekday() in days:
            yield datetime.combine(day, moment)


def _cron_times(line: str, begin: datetime) -> Iterator[datetime]:
    """Return the times of a cron line behind `begin`. Raises InvalidInput for a line that is none."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra(extra="agent", purpose="a cron line", packages=("cronsim",)) from None
    if len(line.split()) != _CRON_FIELDS:
        raise InvalidInput(field="line", problem=_NO_CRON)
    try:
        return iter(CronSim(line, begin))
    except CronSimError:
        raise InvalidInput(field="line", problem=_NO_CRON) from None


def _local_time(at: Instant, zone: tzinfo) -> datetime:
    return as_datetime(at).astimezone(zone).replace(tzinfo=None)


def _utc_instant(moment: datetime) -> Instant:
    return Instant(round(moment.timestamp() * _MS))
