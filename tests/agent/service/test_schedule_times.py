"""Times of schedules, compared with the clocks of every zone in the last and the next ten years."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elytron_agent.service.schedules.schedule_repository import (
    SCHEDULE_MAX_MS,
    CronRule,
    DailyRule,
    IntervalRule,
    OneOffRule,
    ScheduleRule,
    WeekDay,
    WeeklyRule,
    due_after,
    require_rule,
)
from elytron_core.clock import Instant, format_instant, instant
from elytron_core.errors import InvalidInput

NOW = instant("2026-06-01T00:00:00Z")
YEARS_MS = 10 * 366 * 86_400_000
MINUTE_MS = 60_000
ZONES = sorted(zone for zone in available_timezones() if zone != "localtime")


def times(rule: ScheduleRule, after: str, zone: str, count: int = 3) -> list[str]:
    """Return the next times of a rule."""
    found: list[str] = []
    at = instant(after)
    for _ in range(count):
        due = due_after(rule, at, zone=zone, made_at=instant(after))
        if due is None:
            break
        found.append(format_instant(due))
        at = due
    return found


@pytest.mark.parametrize(
    ("rule", "after", "zone", "expected"),
    [
        # Clocks go from 02:00 to 03:00 on 2026-03-29: 02:30 is due at the end of the gap.
        (DailyRule(time="02:30"), "2026-03-28T12:00Z", "Europe/Berlin",
         ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        # Clocks show 02:30 twice on 2026-10-25: it is due the first time.
        (DailyRule(time="02:30"), "2026-10-24T12:00Z", "Europe/Berlin",
         ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        # Samoa had no 30th of December 2011.
        (DailyRule(time="09:00"), "2011-12-29T20:00Z", "Pacific/Apia",
         ["2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"]),
        # Lord Howe's clocks move by half an hour.
        (DailyRule(time="02:15"), "2026-10-03T00:00Z", "Australia/Lord_Howe",
         ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]),
        (WeeklyRule(days=(WeekDay.MONDAY, WeekDay.FRIDAY), time="09:00"), "2026-10-24T00:00Z", "Asia/Tokyo",
         ["2026-10-26T00:00:00Z", "2026-10-30T00:00:00Z"]),
        # Two times of the line in one gap are one.
        (CronRule(line="*/20 2 * * *"), "2026-03-28T12:00Z", "Europe/Berlin",
         ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        (CronRule(line="0 9 * * 1-5"), "2026-01-02T12:00Z", "UTC", ["2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z"]),
        (CronRule(line="0 0 29 2 *"), "2026-01-02T12:00Z", "UTC", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        (IntervalRule(seconds=90), "2026-01-01T00:00Z", "UTC", ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"]),
        (OneOffRule(at="2026-03-29T02:30"), "2026-01-01T00:00Z", "Europe/Berlin", ["2026-03-29T01:00:00Z"]),
        (OneOffRule(at="2026-03-29T02:30+02:00"), "2026-01-01T00:00Z", "Asia/Tokyo", ["2026-03-29T00:30:00Z"]),
    ],
)  # fmt: skip
def test_a_skipped_time_is_due_at_the_end_of_the_gap_and_a_repeated_time_once(
    rule: ScheduleRule, after: str, zone: str, expected: list[str]
) -> None:
    assert times(rule, after, zone)[: len(expected)] == expected


@cache
def changes_of(zone: str) -> tuple[Instant, ...]:
    """Return the times within ten years at which a zone's clocks were or will be changed."""
    place, found = ZoneInfo(zone), list[Instant]()
    at = datetime.fromtimestamp((NOW - YEARS_MS) / 1000, UTC)
    end, step = datetime.fromtimestamp((NOW + YEARS_MS) / 1000, UTC), timedelta(days=10)
    offset = at.astimezone(place).utcoffset()
    while at < end:
        later = (at + step).astimezone(place).utcoffset()
        if later != offset:
            low, high = at, at + step
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) // 2
                low, high = (middle, high) if middle.astimezone(place).utcoffset() == offset else (low, middle)
            found.append(Instant(round(high.timestamp() / 60) * MINUTE_MS))
            offset = later
        at += step
    return tuple(found)


def oracle(clock: str, after: Instant, zone: str, minutes: int) -> Instant | None:
    """Return the next due time of a daily rule by checking every minute; None if it is later."""
    place = ZoneInfo(zone)
    hour, minute = map(int, clock.split(":"))
    before = datetime.fromtimestamp(after / 1000, UTC).astimezone(place).replace(tzinfo=None)
    for at in range(after + MINUTE_MS, after + minutes * MINUTE_MS, MINUTE_MS):
        shown = datetime.fromtimestamp(at / 1000, UTC).astimezone(place)
        local = shown.replace(tzinfo=None)
        if shown.fold == 0 and (local.hour, local.minute) == (hour, minute):
            return Instant(at)
        if local - before > timedelta(minutes=1):
            skipped = before.replace(hour=hour, minute=minute)
            if any(before < day < local for day in (skipped, skipped + timedelta(days=1))):
                return Instant(at)
        before = local
    return None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_daily_time_agrees_with_the_clock_of_every_minute_around_each_change(data: st.DataObject) -> None:
    zone = data.draw(st.sampled_from(ZONES))
    changes = changes_of(zone) or (NOW,)
    change = data.draw(st.sampled_from(changes))
    after = Instant(change + data.draw(st.integers(-900, 900)) * MINUTE_MS)
    local = datetime.fromtimestamp(change / 1000, UTC).astimezone(ZoneInfo(zone))
    near = local + timedelta(minutes=data.draw(st.integers(-150, 150)))
    clock = f"{near:%H:%M}"
    due = due_after(DailyRule(time=clock), after, zone=zone, made_at=after)
    expected = oracle(clock, after, zone, 1_500)
    assert due is not None
    assert due == expected if expected is not None else due >= after + 1_500 * MINUTE_MS


def test_every_existing_day_is_due_once_in_every_time_zone() -> None:
    rule, day_ms = DailyRule(time="02:30"), 86_400_000
    for zone in ZONES:
        for change in changes_of(zone)[::3]:
            at, due = Instant(change - 2 * day_ms), list[Instant]()
            while at < change + 2 * day_ms:
                found = due_after(rule, at, zone=zone, made_at=at)
                assert found is not None
                due.append(found)
                at = found
            assert due == sorted(set(due)), zone
            gaps = [later - earlier for earlier, later in pairwise(due)]
            assert all(9 * 3_600_000 <= gap <= 49 * 3_600_000 for gap in gaps), (zone, gaps)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (OneOffRule(at="2026-05-31T23:59"), "is in the past"),
        (OneOffRule(at="2037-01-01T00:00"), "ten years"),
    ],
)
def test_a_rule_in_the_past_or_far_future_is_rejected(rule: ScheduleRule, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        require_rule(rule, NOW, zone="UTC")
    assert SCHEDULE_MAX_MS == YEARS_MS


@pytest.mark.parametrize(
    ("kind", "given_fields", "told"),
    [
        (CronRule, {"line": "0 0 30 2 *"}, "line must be a cron line of five fields that can come due, such as `0 9"),
        (CronRule, {"line": "61 * * * *"}, "line must be a cron line"),
        (CronRule, {"line": "@daily"}, "line must be a cron line"),
        (CronRule, {"line": "* * * * * *"}, "line must be a cron line"),
        (DailyRule, {"time": "9"}, "time must be a time of day"),
        (DailyRule, {"time": "24:00"}, "time must be a time of day"),
        (WeeklyRule, {"days": ("mo",), "time": "09:00"}, "days.0 is not valid: input should be 'mon', 'tue'"),
        (WeeklyRule, {"days": (), "time": "09:00"}, "days is not valid"),
        (OneOffRule, {"at": "tomorrow"}, "at must be a date and time"),
        (IntervalRule, {"seconds": 59}, "seconds is not valid"),
    ],
)
def test_invalid_rules_are_rejected_by_field(kind: type, given_fields: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)):
        kind(**given_fields)
