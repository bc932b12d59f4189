"""What the command tells of itself: its settings with their origins, and completion for shells."""

import json

import pytest
from click.testing import CliRunner
from tests.cli.conftest import CommandLine

from elytron_cli.app import COMMANDS, cli


def test_settings_are_shown_with_their_origins_and_no_secret(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    elytron.write("elytron.toml", b'space = "ada"\n')
    monkeypatch.setenv("ELYTRON_KEYS", "k:s3cret")
    monkeypatch.setenv("ELYTRON_EMBEDDER_KEY", "s3cret")
    monkeypatch.setenv("ELYTRON_STORE", "postgresql://ada:s3cret@db.example/memory")
    result = elytron("config", "show", "--embedder", "hash")
    shown = json.loads(result.stdout)["settings"]
    assert shown["space"] == {"value": "ada", "origin": "elytron.toml"}
    assert shown["embedder"] == {"value": "hash", "origin": "--embedder"}
    assert shown["store"] == {"value": "postgresql://ada:********@db.example/memory", "origin": "ELYTRON_STORE"}
    assert shown["keys"] == {"value": "********", "origin": "ELYTRON_KEYS"}
    assert "s3cret" not in result.stdout
    assert "ELYTRON_STORE" in elytron("config", "show", "--no-json").stdout
    assert sorted(path.name for path in elytron.folder.iterdir()) == ["elytron.toml"], "no store was made"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(elytron: CommandLine, shell: str) -> None:
    shown = elytron("completion", shell).stdout
    assert f"_ELYTRON_COMPLETE={shell}_complete" in shown


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("elytron ", set(COMMANDS)), ("elytron mcp ", {"config"}), ("elytron recall --lim", {"--limit"})],
)
def test_commands_and_options_are_completed(elytron: CommandLine, typed: str, expected: set[str]) -> None:
    words = typed.split(" ")
    environment = {
        "_ELYTRON_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    result = CliRunner().invoke(cli, prog_name="elytron", env=environment)
    assert expected <= {line.partition(",")[2] for line in result.stdout.splitlines()}


def test_an_unknown_shell_is_a_usage_error(elytron: CommandLine) -> None:
    assert elytron.error("completion", "cmd", expect=2)["key"] == "invalid_input"
