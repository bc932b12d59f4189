"""`elytron evaluate recall`: figures, comparison, page, and rejected input."""

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

QUESTIONS = Path(__file__).parents[2] / "examples" / "questions.jsonl"


@pytest.fixture
def asked(elytron: CommandLine) -> CommandLine:
    elytron("demo", "--store", "harbour.db")
    return elytron


def evaluate(*options: str) -> tuple[str, ...]:
    return ("evaluate", "recall", str(QUESTIONS), "--store", "harbour.db", *options)


def test_recall_misses_and_unrelated_questions_are_reported(asked: CommandLine) -> None:
    report = asked.json(*evaluate("--json"))["evaluation"]
    assert report["figures"]["answerable"] == 8
    assert report["figures"]["unrelated"] == 3
    assert report["figures"]["recall"] > 0.8
    assert report["figures"]["unrelated_shown"] == 0.0
    shown = asked(*evaluate("--no-json")).stdout
    assert "recall@k" in shown
    assert "missed evidence" in shown


def test_a_second_configuration_is_compared_in_a_written_page(asked: CommandLine) -> None:
    shown = asked(
        *evaluate("--compare", "limit=1", "--compare", "embedder=", "--html", "report.html", "--no-json")
    ).stdout
    assert "2 finds more evidence than 1 for 0 questions" in shown
    page = asked.folder / "report.html"
    assert "limit=1" in page.read_text("utf-8")
    assert "already exists" in asked.error(*evaluate("--html", "report.html"), expect=2)["reason"]


@pytest.mark.parametrize("change", ["limit", "size=3", "limit=many", "limit=0", "min_score=2.5", "gate=shut"])
def test_an_unknown_change_is_rejected_before_any_question(elytron: CommandLine, change: str) -> None:
    assert elytron.error(*evaluate("--compare", change), expect=2)["key"] == "invalid_input"


def test_unreadable_lines_are_all_numbered_and_set_the_exit_code(elytron: CommandLine) -> None:
    elytron("add", "The boat key is under the third oar.", "--store", "harbour.db")
    lines = ['{"question": "Where is the boat key?"}', *(["torn"] * 8)]
    (elytron.folder / "q.jsonl").write_text("\n".join(lines), "utf-8")
    shown = elytron("evaluate", "recall", "q.jsonl", "--store", "harbour.db", "--no-json", expect=6).stdout
    assert "line 6 skipped" in shown
    assert "3 more lines skipped: 7, 8, 9" in shown
    assert "unrelated question" in shown
    assert "The boat key is under" in shown
