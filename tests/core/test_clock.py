"""Time: read from hosts' formats, bounded, written as ISO 8601."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import Clock, FrozenClock, Instant, SystemClock, as_datetime, format_instant, instant
from elytron_core.errors import InvalidInput

CHRISTMAS = Instant(1_766_620_800_000)


@pytest.mark.parametrize(
    "given",
    [
        "2025-12-25T00:00:00Z",
        " 2025-12-25 ",
        "2025-12-25T01:00:00+01:00",
        "20251225T000000Z",
        "2025-12-25t00:00:00z",
        "2025-12-24T23:59:60Z",
        "2025-12-25T00:59:60+01:00",
        "2025-12-25T00:00:00.000400",
        datetime(2025, 12, 25),  # noqa: DTZ001 - without a zone is what is tested
        datetime(2025, 12, 25, tzinfo=UTC),
        datetime(2025, 12, 24, 19, tzinfo=timezone(timedelta(hours=-5))),
        1_766_620_800_000,
        1_766_620_800_000.4,
    ],
)
def test_a_time_is_read_from_each_format(given: datetime | float | str) -> None:
    assert instant(given) == CHRISTMAS


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2025-13-01", "25.12.2025", "1766620800000", "2025-12-25T00:00:00ZZ", "9999-12-31T23:59:60Z"],
)
def test_invalid_timestamps_are_rejected_without_echoing_them(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        instant(text, field="since")
    assert raised.value.message == "since is not an ISO 8601 timestamp such as 2026-03-01 or 2026-03-01T09:30:00Z"


@pytest.mark.parametrize("at", [limits.EARLIEST_MS, limits.LATEST_MS, 0, -1])
def test_times_at_both_bounds_are_accepted(at: int) -> None:
    assert instant(at) == at


@pytest.mark.parametrize(
    "given",
    [
        limits.EARLIEST_MS - 1,
        limits.LATEST_MS + 1,
        10**30,
        "1899-12-31T23:59:59.999Z",
        "3000-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_a_time_outside_the_bounds_is_refused(given: datetime | int | str) -> None:
    with pytest.raises(InvalidInput) as raised:
        instant(given)
    assert raised.value.message == "timestamp is not between the years 1900 and 2999"


@given(st.integers(limits.EARLIEST_MS, limits.LATEST_MS).map(Instant))
def test_written_times_are_read_back(at: Instant) -> None:
    assert instant(format_instant(at)) == at
    assert instant(as_datetime(at)) == at


def test_a_time_is_written_in_utc_with_a_fraction_only_if_nonzero() -> None:
    assert format_instant(CHRISTMAS) == "2025-12-25T00:00:00Z"
    assert format_instant(Instant(CHRISTMAS + 7)) == "2025-12-25T00:00:00.007Z"


def test_a_frozen_clock_moves_only_when_told_to() -> None:
    clock = FrozenClock(CHRISTMAS)
    assert (clock.now(), clock.now()) == (CHRISTMAS, CHRISTMAS)
    clock.advance(5)
    clock.advance(-2)
    assert clock.now() == CHRISTMAS + 3


def test_a_stepping_clock_moves_at_each_read() -> None:
    clock = FrozenClock(CHRISTMAS, step_ms=2)
    assert [clock.now() - CHRISTMAS for _ in range(3)] == [0, 2, 4]


def test_the_system_clock_returns_the_machines_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: CHRISTMAS * 1_000_000 + 999_999)
    assert SystemClock().now() == CHRISTMAS


def test_both_clocks_implement_the_port() -> None:
    assert isinstance(FrozenClock(), Clock)
    assert isinstance(SystemClock(), Clock)
