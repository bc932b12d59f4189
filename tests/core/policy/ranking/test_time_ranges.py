"""Times that a question speaks of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.policy.ranking.time_ranges import YEAR_WORTH, YEARS_BACK, TimeSpan, spans_in

NOW = instant("2026-03-10T12:00:00Z")  # a Tuesday


def span(start: str, end: str, worth: float = 1.0) -> TimeSpan:
    return TimeSpan(instant(start), instant(end), worth)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 4 May 2025", span("2025-05-04", "2025-05-05")),
        ("in June 2025", span("2025-06-01", "2025-07-01")),
        ("in December 2025", span("2025-12-01", "2026-01-01")),
        ("in 2024", span("2024-01-01", "2025-01-01", YEAR_WORTH)),
        ("2025年3月2日", span("2025-03-02", "2025-03-03")),
        ("today", span("2026-03-10", "2026-03-11")),
        ("What happened TODAY?", span("2026-03-10", "2026-03-11")),
        ("in JUNE 2025", span("2025-06-01", "2025-07-01")),
        ("what did I eat yesterday", span("2026-03-09", "2026-03-10")),
        ("昨天", span("2026-03-09", "2026-03-10")),
        ("前天", span("2026-03-08", "2026-03-09")),
        ("last night", span("2026-03-09", "2026-03-11")),
        ("last week", span("2026-03-02", "2026-03-09")),
        ("上周", span("2026-03-02", "2026-03-09")),
        ("this week", span("2026-03-09", "2026-03-16")),
        ("last weekend", span("2026-03-07", "2026-03-09")),
        ("this weekend", span("2026-03-14", "2026-03-16")),
        ("last month", span("2026-02-01", "2026-03-01")),
        ("this month", span("2026-03-01", "2026-04-01")),
        ("last year", span("2025-01-01", "2026-01-01")),
        ("this year", span("2026-01-01", "2027-01-01")),
        ("last spring", span("2025-03-01", "2025-06-01")),
        ("this spring", span("2026-03-01", "2026-06-01")),
        ("last winter", span("2025-12-01", "2026-03-01")),
        ("last autumn", span("2025-09-01", "2025-12-01")),
        ("last Tuesday", span("2026-03-03", "2026-03-04")),
        ("last Friday", span("2026-03-06", "2026-03-07")),
        ("3 days ago", span("2026-03-07", "2026-03-08")),
        ("two weeks ago", span("2026-02-21", "2026-02-28")),
        ("a month ago", span("2026-01-24", "2026-02-24")),
        ("a couple of years ago", span("2023-09-12", "2024-09-07")),
    ],
)
def test_a_time_yields_one_span(text: str, expected: TimeSpan) -> None:
    assert spans_in(text, NOW) == (expected,)


@pytest.mark.parametrize("text", ["in June", "on the 4th of May", "March 3", "6月", "6月3日"])
def test_without_a_year_any_near_year_is_meant(text: str) -> None:
    assert len(spans_in(text, NOW)) == YEARS_BACK + 2


LIKENESSES = ["what happened tonıght", "TONİGHT", "yeſterday", "fıve days ago", "ſix weeks ago", "last ſunday"]
"""Letters confused by case folding: no time word is spelled with them."""


@pytest.mark.parametrize(
    "text", ["", "tea", "I may come", "30 February 2025", "30 February", "he marched home", *LIKENESSES]
)
def test_text_without_a_time_yields_no_span(text: str) -> None:
    assert spans_in(text, NOW) == ()


@given(st.text(max_size=60), st.integers(limits.EARLIEST_MS, limits.LATEST_MS))
def test_any_text_at_any_time_yields_ordered_spans(text: str, now: int) -> None:
    assert all(limits.EARLIEST_MS <= each.start < each.end <= limits.LATEST_MS for each in spans_in(text, Instant(now)))


@pytest.mark.parametrize("now", [limits.EARLIEST_MS, limits.LATEST_MS])
@pytest.mark.parametrize(
    "text", ["yesterday", "today", "900 years ago", "last year", "this year", "in May", "last winter"]
)
def test_the_ends_of_the_calendar_are_handled(text: str, now: int) -> None:
    spans_in(text, Instant(now))
