"""Times in words are read in UTC, and their interpretation is shown."""

from datetime import UTC, datetime

import pytest
from tests.cli.conftest import CommandLine

from elytron_cli.input.options import read_words_of_time
from elytron_core.clock import format_instant

NOW = datetime(2026, 3, 4, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("yesterday", "2026-03-03T00:00:00Z"),
        ("2 hours ago", "2026-03-04T13:30:00Z"),
        ("vor 3 Tagen", "2026-03-01T00:00:00Z"),
        ("3 March 2025 10:00", "2025-03-03T10:00:00Z"),
    ],
)
def test_times_are_read_in_many_languages(text: str, read: str) -> None:
    found = read_words_of_time(text, now=NOW)
    assert found is not None
    assert format_instant(found) == read


@pytest.mark.parametrize("text", ["s3cret", "x" * 1_000, ""])
def test_text_without_a_time_yields_none(text: str) -> None:
    assert read_words_of_time(text, now=NOW) is None


def test_the_command_shows_how_it_read_the_times(elytron: CommandLine) -> None:
    elytron("add", "The ferry leaves at six.")
    result = elytron("recall", "ferry", "--since", "yesterday")
    assert "--since: read as 20" in result.stderr
    assert "The ferry leaves at six." in result.stdout


@pytest.mark.parametrize("wrong", ["2026-13-01", "2026-02-30T10:00", "soonish", "-5", "+3", "5"])
def test_a_wrong_timestamp_is_not_guessed(elytron: CommandLine, wrong: str) -> None:
    elytron("add", "The ferry leaves at six.")
    told = elytron.error("recall", "ferry", "--since", wrong, expect=2)
    assert "such as 2026-03-01" in told["reason"]
