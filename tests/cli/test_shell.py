"""What the command says about itself: settings with their sources, and shell completion."""

import json
import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from tests.cli.conftest import CommandLine

from elytron_cli.app import elytron_group
from elytron_cli.config import OPTIONS, SECRETS
from elytron_cli.terminal.help_page import COMMANDS
from elytron_core.errors.foreign_names import COMMAND_HINTS
from elytron_core.errors.foreign_names import COMMANDS as FOREIGN

MEANT = {meant for words in FOREIGN.values() for meant in words.split(", ")}


def test_settings_are_shown_with_their_sources_and_without_secrets(
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
    assert "ELYTRON_STORE" in elytron("config", "show", "--no-json", "--origin").stdout
    assert elytron.json("config", "show", "--no-origin")["settings"]["store"] == {
        "value": "postgresql://ada:********@db.example/memory"
    }
    assert "ELYTRON_STORE" not in elytron("config", "show", "--no-json", "--no-origin").stdout
    report = elytron.json("config", "show", "--embedder", "hash")
    assert {*report["settings"], *report["unset"]} == {*OPTIONS, *SECRETS}
    assert report["unset"]["profile"] == "--profile, ELYTRON_PROFILE, or profile in elytron.toml"
    assert report["unset"]["model_key"] == "ELYTRON_MODEL_KEY"
    assert "ELYTRON_LLM_UPSTREAM_KEY" in report["variables"]
    assert sorted(path.name for path in elytron.folder.iterdir()) == ["elytron.toml"], "no store was made"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(elytron: CommandLine, shell: str) -> None:
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
    result = CliRunner().invoke(elytron_group, prog_name="elytron", env=environment)
    assert expected <= {line.partition(",")[2] for line in result.stdout.splitlines()}


def test_a_mistyped_command_gets_a_suggestion(elytron: CommandLine) -> None:
    assert elytron.error("recal", "tea", expect=2)["reason"] == "No such command 'recal'. Did you mean 'recall'?"
    assert elytron.error("search", "tea", expect=2)["reason"] == "No such command 'search'. Did you mean 'recall'?"


def test_a_removal_word_is_answered_with_the_reversible_command_first(elytron: CommandLine) -> None:
    reason = elytron.error("delete", "x", expect=2)["reason"]
    assert reason == "No such command 'delete'. Did you mean 'forget' or 'erase'?"


@pytest.mark.parametrize("word", ["ui", "dashboard", "status", "show", "login", "init", "upgrade", "logs", "xyzzy"])
def test_an_unknown_command_is_answered_with_a_hint(elytron: CommandLine, word: str) -> None:
    reason = elytron.error(word, expect=2)["reason"]
    assert "Did you mean" in reason or "`elytron " in reason


@pytest.mark.parametrize("line", sorted({*COMMAND_HINTS.values(), *(f"`elytron {meant}`" for meant in MEANT)}))
def test_every_command_named_in_a_hint_exists(line: str) -> None:
    named = re.findall(r"`elytron ([^`]+)`", line)
    assert named
    for words in named:
        command: click.Command = elytron_group
        for word in words.split():
            if word.startswith("--"):
                assert any(word in parameter.opts for parameter in command.params), line
            else:
                assert isinstance(command, click.Group), line
                _, found, _ = command.resolve_command(click.Context(command), [word])
                assert found is not None
                command = found


def test_no_word_of_another_interface_is_a_command_here() -> None:
    assert {*FOREIGN, *COMMAND_HINTS} & {*COMMANDS} == set()


def described(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Yield every option and subcommand of `command` with its help text."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{path} {parameter.opts[0]}", parameter.help or ""
    if isinstance(command, click.Group):
        for name, subcommand in command.commands.items():
            yield f"{path} {name}", subcommand.help or ""
            yield from described(subcommand, f"{path} {name}")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_and_command_has_help_text(name: str) -> None:
    _, command, _ = elytron_group.resolve_command(click.Context(elytron_group), [name])
    assert command is not None
    assert [path for path, told in described(command, name) if not told] == []


def test_an_unknown_shell_is_a_usage_error(elytron: CommandLine) -> None:
    assert elytron.error("completion", "cmd", expect=2)["key"] == "invalid_input"
