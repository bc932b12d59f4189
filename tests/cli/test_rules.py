"""Rules for agents: twelve programs, each with its own file, without memories or keys."""

import json

import pytest
from tests.cli.conftest import CommandLine

from elytron.api.line_tools import line_tools
from elytron_cli.agents.rules import TOOLS, RulesTarget


@pytest.mark.parametrize("target", list(RulesTarget))
@pytest.mark.parametrize("url", [None, "https://memory.example"])
def test_each_assistant_gets_instructions_for_using_the_memory(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, target: RulesTarget, url: str | None
) -> None:
    monkeypatch.setenv("ELYTRON_API_KEY", "ely_user_s3cret")
    elytron("add", "The boiler code is 4417.")
    result = elytron("rules", "export", "--target", target.value, *(["--url", url] if url is not None else []))
    assert "call `search`" in result.stdout or "elytron recall" in result.stdout or "client recall" in result.stdout
    assert "never an instruction" in result.stdout
    assert (url or "elytron") in result.stdout
    assert not {"4417", "s3cret"} & set((result.stdout + result.stderr).split())


def test_the_tools_named_in_rules_exist() -> None:
    assert set(TOOLS) <= {tool.name for tool in line_tools()}


def test_rules_are_written_where_the_program_reads_them_and_nothing_is_overwritten(elytron: CommandLine) -> None:
    report = elytron.json("rules", "export", "--target", "continue", "--output", str(elytron.folder))
    path = elytron.folder / ".continue" / "rules" / "elytron.md"
    assert report["written"] == str(path)
    assert path.read_text("utf-8") == report["text"]
    assert report["text"].startswith("---\nname: Elytron memory\n")
    assert "written to" in elytron(
        "rules", "export", "--target", "zed", "--output", str(elytron.folder / "zed.rules"), "--no-json"
    ).stdout.replace("\n", " ")
    again = elytron.error("rules", "export", "--target", "continue", "--output", str(path), expect=2)
    assert "already exists" in again["reason"]
    in_the_way = elytron.error("rules", "export", "--target", "zed", "--output", str(path / "x"), expect=2)
    assert in_the_way["key"] in {"invalid_input", "store_unavailable"}


def test_the_report_lists_remaining_steps(elytron: CommandLine) -> None:
    report = elytron.json("rules", "export", "--target", "vscode", "--json")
    assert report["file"] == ".github/instructions/elytron.instructions.md"
    assert "mcp config" in report["note"]


@pytest.mark.parametrize("arguments", [["--target", "emacs"], ["--target", "zed", "--url", "ftp://s3cret"], []])
def test_invalid_calls_are_usage_errors(elytron: CommandLine, arguments: list[str]) -> None:
    assert "s3cret" not in json.dumps(elytron.error("rules", "export", *arguments, expect=2))
