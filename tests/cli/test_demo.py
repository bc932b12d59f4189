"""The demonstration shows what is true of the store it writes."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from elytron_cli.commands import demo
from elytron_cli.config import called_as
from elytron_core.errors import UnreadableFile


def test_it_writes_a_store_asks_ten_questions_and_can_be_run_again(elytron: CommandLine) -> None:
    shown = elytron("demo").stdout
    assert "486 turns" in shown
    assert "turns/s written" in shown
    assert "the evidence was found for 10 of 10 questions" in shown
    assert shown.count("✓") >= 10
    assert "--store elytron-demo.db recall" in shown
    assert (elytron.folder / "elytron-demo.db").exists()
    assert not (elytron.folder / "m.db").exists(), "the user's own store is left alone"
    before = elytron.json("inspect", "--store", "elytron-demo.db")
    assert "nothing new to write" in elytron("demo").stdout
    assert elytron.json("inspect", "--store", "elytron-demo.db") == before


def test_a_store_can_be_named_and_the_report_be_had_as_json(elytron: CommandLine) -> None:
    report = elytron.json("demo", "--store", "mine.db", "--json")
    assert (report["store"], report["imported"]["stored"]) == ("mine.db", 486)
    assert len(report["answered"]) == 10
    assert all(answered["evidence_at"] for answered in report["answered"])
    assert len(report["projection"]["system_memory_block"]) <= report["projection"]["budget"]


def test_the_conversation_is_found_in_the_package_or_the_checkout() -> None:
    assert (demo.folder() / demo.CONVERSATION).is_file()
    assert (demo.folder() / demo.QUESTIONS).is_file()


def test_damaged_files_are_named(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "folder", lambda: tmp_path)
    elytron.write(demo.QUESTIONS, json.dumps([]).encode())
    with pytest.raises(UnreadableFile, match=demo.CONVERSATION):
        demo._read()  # pyright: ignore[reportPrivateUsage] - the whole command would say the same


def test_the_sentence_that_answers_is_shown_whole(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    shown = elytron("demo").stdout
    for answer in (
        "so it's 0.25.",
        "leaving at 8:12",
        "half a tablet a day",
        "my extension is 4430 now",
        "再加一勺白酒",
    ):
        assert answer.casefold() in shown.casefold()


def test_examples_are_called_as_the_demonstration_was(tmp_path: Path) -> None:
    assert called_as("elytron", environment={"UV_RUN_RECURSION_DEPTH": "1"}) == "uv run elytron"
    program = tmp_path / "bin dir" / "elytron"
    program.parent.mkdir()
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    assert called_as(str(program), environment={"PATH": str(program.parent)}) == "elytron"
    other = tmp_path / "other" / "elytron"
    assert called_as(str(program), environment={"PATH": str(tmp_path)}) == f"'{program}'"
    assert called_as("embedding_host", environment={"PATH": str(tmp_path)}) == "elytron"
    assert called_as(str(other), environment={"PATH": str(program.parent)}) == str(other)
