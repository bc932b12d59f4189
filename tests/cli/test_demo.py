"""The demonstration shows facts about the store that it writes."""

import json
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from elytron_cli.config import called_as
from elytron_core.errors import UnreadableFile
from elytron_evaluation import recall_demo


def test_the_demonstration_writes_a_store_asks_ten_questions_and_can_be_repeated(elytron: CommandLine) -> None:
    shown = elytron("demo").stdout
    assert "486 turns" in shown
    assert "turns/s written" in shown
    assert "evidence found for 10 of 10 questions" in shown
    assert shown.count("✓") >= 10
    assert "--store elytron-demo.db recall" in shown
    assert (elytron.folder / "elytron-demo.db").exists()
    assert not (elytron.folder / "m.db").exists(), "the user's own store is left alone"
    before = elytron.json("inspect", "--store", "elytron-demo.db")
    assert "nothing new to write" in elytron("demo").stdout
    assert elytron.json("inspect", "--store", "elytron-demo.db") == before


def test_a_store_can_be_named_and_the_report_printed_as_json(elytron: CommandLine) -> None:
    report = elytron.json("demo", "--store", "mine.db", "--json")
    assert (report["store"], report["imported"]["stored"]) == ("mine.db", 486)
    assert len(report["answered"]) == 10
    assert all(answered["evidence_at"] for answered in report["answered"])
    assert len(report["projection"]["system_memory_block"]) <= report["projection"]["budget"]


def test_the_conversation_is_found_in_the_package_or_the_checkout() -> None:
    assert (recall_demo.demo_folder() / recall_demo.CONVERSATION).is_file()
    assert (recall_demo.demo_folder() / recall_demo.QUESTIONS).is_file()


def test_damaged_files_are_reported(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recall_demo, "demo_folder", lambda: tmp_path)
    elytron.write(recall_demo.QUESTIONS, json.dumps([]).encode())
    with pytest.raises(UnreadableFile, match=recall_demo.CONVERSATION):
        recall_demo.read_conversation()


def test_the_answering_sentence_is_shown_completely(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), (("--space", "ada", "--agent", "Bo O'Neil"), ("--store", "my  demo.db"))]
)
def test_every_proposed_command_runs_as_printed(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ELYTRON_SPACE", "team")
    monkeypatch.setenv("ELYTRON_CHAT", "trip")
    proposed = elytron(*before, "demo", *after).stdout.partition("Try:\n")[2].splitlines()
    assert len(proposed) == 4
    # As in a shell where they were set for the one command.
    monkeypatch.delenv("ELYTRON_SPACE")
    monkeypatch.delenv("ELYTRON_CHAT")
    for proposal in proposed:
        program, *arguments = shlex.split(proposal)
        assert program == "elytron"
        report = elytron.json(*arguments)
        assert report.get("hits") or report.get("selected_ids") or report["documents"]["turns"] == 486


def test_proposed_commands_are_called_like_the_demonstration(tmp_path: Path) -> None:
    def called(program: Path | str, **environment: str) -> str:
        return called_as(str(program), environment=environment, folder=tmp_path / "project" / "docs")

    def installed(folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "elytron").write_text("#!/bin/sh")
        (folder / "elytron").chmod(0o755)
        return folder / "elytron"

    program, other = installed(tmp_path / "bin dir"), tmp_path / "other" / "elytron"
    assert called(program, PATH=str(program.parent)) == "elytron"
    assert called(program, PATH=str(tmp_path)) == f"'{program}'"
    assert called("embedding_host", PATH=str(tmp_path)) == "elytron"
    assert called(other, PATH=str(program.parent)) == str(other)
    # uv has its environment on the path, unlike the shell that started it.
    by_uv = {"UV": "/bin/uv", "UV_RUN_RECURSION_DEPTH": "1"}
    of_project = installed(tmp_path / "project" / ".venv" / "bin")
    (tmp_path / "project" / "pyproject.toml").touch()
    assert called(of_project, **by_uv, PATH=str(of_project.parent)) == "uv run elytron"
    assert called(program, **by_uv, PATH=str(program.parent)) == f"'{program}'"
    assert called(of_project, UV="/bin/uv", PATH=str(of_project.parent)) == str(of_project)
