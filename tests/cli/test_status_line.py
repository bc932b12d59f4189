"""The status line of a session, and the entry point that prints it before loading other modules."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from elytron_assistants.hooks.activity import PAUSED, ActivityCounts, ActivityFolder, SessionActivity
from elytron_cli.agents.status_line import print_status_line, status_text
from elytron_cli.main import run_command_line
from elytron_core.clock import Instant

EVENT = {"session_id": "s1"}
MINUTE_S = 60


def line_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], event: Any, *words: str) -> str:
    """Return what the status line prints for an event."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
    print_status_line(words)
    return capsys.readouterr().out


def note(folder: Path, activity: SessionActivity, session: str = "s1") -> None:
    """Record what hooks did in a session, as they do."""
    records = ActivityFolder(folder / "assistants")
    records.change(activity.host, session, lambda _: activity, at=Instant(0))


def record_of(activity: SessionActivity) -> dict[str, Any]:
    """Return a record as it is read from its file."""
    value: dict[str, Any] = json.loads(activity.model_dump_json(exclude_defaults=True))
    return value


@pytest.mark.parametrize(
    ("passed_s", "words"), [(-5, "0 s"), (59, "59 s"), (2 * MINUTE_S, "2 min"), (3 * 60 * MINUTE_S, "3 h")]
)
def test_the_line_counts_prompts_and_turns_and_shows_their_age(passed_s: int, words: str) -> None:
    counts = ActivityCounts(prompts=3, recalled=2, stored_turns=4)
    record = record_of(
        SessionActivity(host="codex", label="acme/\x1b[31mshop", counts=counts, changed_at=Instant(1000))
    )
    line = f"elytron: 2 of 3 prompts with memories, 4 turns stored, {words} ago, acme/[31mshop"
    assert status_text(record, now_s=1 + passed_s) == line


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({}, "elytron: ready"),
        (record_of(SessionActivity(host="codex", notice=PAUSED)), "elytron: paused here"),
        ({"notice": "0a1b"}, "elytron: memory failed; the session goes on without it"),
    ],
)
def test_the_line_shows_the_state_of_the_memory(record: dict[str, Any], line: str) -> None:
    assert status_text(record, now_s=0) == line


def test_the_line_is_that_of_the_session_in_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ELYTRON_STATE_DIR", str(tmp_path))
    note(tmp_path, SessionActivity(host="codex", notice=PAUSED))
    assert line_of(monkeypatch, capsys, EVENT, "--host", "codex") == "elytron: paused here\n"
    assert line_of(monkeypatch, capsys, EVENT) == "elytron: ready\n"


@pytest.mark.parametrize("event", [{}, {"session_id": 1}, [], "x"])
def test_an_event_without_a_session_has_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], event: Any
) -> None:
    assert line_of(monkeypatch, capsys, event) == ""


def test_the_line_of_the_person_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ELYTRON_STATE_DIR", str(tmp_path))
    lines = line_of(monkeypatch, capsys, EVENT, "--wrap", "echo mine")
    assert lines == "mine\nelytron: ready\n"


def test_the_entry_point_prints_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ELYTRON_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["elytron", "hooks", "status"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(EVENT).encode())))
    run_command_line()
    assert capsys.readouterr().out == "elytron: ready\n"


@pytest.mark.parametrize("words", [["--help"], ["recall", "--help"], ["repo", "link", "-h"]])
def test_the_entry_point_prints_the_same_page_as_the_command_library(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["elytron", *words])
    run_command_line()
    assert capsys.readouterr().out.rstrip() == elytron(*words).stdout.rstrip()
