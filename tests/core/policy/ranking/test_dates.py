"""Dates named in texts."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import instant
from elytron_core.policy.ranking.time_ranges import NamedDate, day_of, named_in


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 2025-03-02.", (NamedDate(2025, 3, 2),)),
        ("2025-03-02T14:05:00Z", (NamedDate(2025, 3, 2),)),
        ("2025/3/2", (NamedDate(2025, 3, 2),)),
        ("2025.03.02", (NamedDate(2025, 3, 2),)),
        ("在2025年3月2日见", (NamedDate(2025, 3, 2),)),
        ("2025年3月", (NamedDate(2025, 3),)),
        ("2025-03", (NamedDate(2025, 3),)),
        ("the 2nd of March 2025", (NamedDate(2025, 3, 2),)),
        ("2 Mar 2025", (NamedDate(2025, 3, 2),)),
        ("March 2nd, 2025", (NamedDate(2025, 3, 2),)),
        ("SEPT. 2025", (NamedDate(2025, 9),)),
        ("in May 2025 and in 2024, not in May 2025", (NamedDate(2025, 5), NamedDate(2024))),
        ("in 2025", (NamedDate(2025),)),
        ("2025-13-40", (NamedDate(2025),)),
        ("2025-03-40", (NamedDate(2025, 3),)),
        ("20250302", ()),
        ("v1.2025 a2025b 02025", ()),
        ("1850 oars", ()),
        ("in March", ()),
        ("", ()),
    ],
)
def test_an_absolute_date_is_read_with_its_precision(text: str, dates: tuple[NamedDate, ...]) -> None:
    assert named_in(text) == dates


@pytest.mark.parametrize(
    ("asked", "told", "met"),
    [
        (NamedDate(2025, 3, 2), NamedDate(2025, 3, 2), True),
        (NamedDate(2025, 3), NamedDate(2025, 3, 2), True),
        (NamedDate(2025), NamedDate(2025, 3, 2), True),
        (NamedDate(2025, 3, 2), NamedDate(2025, 3), False),
        (NamedDate(2025, 3, 2), NamedDate(2025, 4, 2), False),
        (NamedDate(2024), NamedDate(2025), False),
    ],
)
def test_a_date_matches_one_of_the_same_precision(asked: NamedDate, told: NamedDate, met: bool) -> None:
    assert asked.is_met_by(told) is met


@given(st.dates(min_value=date(1900, 1, 1), max_value=date(2999, 12, 31)))
def test_every_day_round_trips(day: date) -> None:
    assert named_in(day.isoformat()) == (NamedDate(day.year, day.month, day.day),)


@given(st.text(max_size=80))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert all(0 <= found.month <= 12 and 0 <= found.day <= 99 for found in named_in(text))


def test_the_day_of_an_instant_is_in_utc() -> None:
    assert day_of(instant("2025-03-02T23:30:00-02:00")) == NamedDate(2025, 3, 3)
