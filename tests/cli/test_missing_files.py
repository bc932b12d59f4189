"""Every command that reads a file reports a missing one in the same words."""

from collections.abc import Iterator

import click
from click.testing import CliRunner
from tests.cli.conftest import CommandLine

from elytron_cli.app import elytron_group, load_command
from elytron_cli.terminal.help_page import COMMANDS

FILE = "gone.json"
FURTHER = {"skills edit": ("--procedure-file", FILE)}
"""Options that name a file to read, for commands without file arguments."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its names."""
    for name in COMMANDS:
        yield from below(name, load_command(name))


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command, or all of a group."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word, each in command.commands.items():
        yield from below(f"{name} {word}", each)


def line_of(name: str, command: click.Command) -> list[str] | None:
    """Return a command line with a missing file for each path; None without a path."""
    if not any(isinstance(each.type, click.Path) for each in command.params) and name not in FURTHER:
        return None
    line: list[str] = name.split()
    for param in command.params:
        is_path = isinstance(param.type, click.Path)
        if isinstance(param, click.Argument) and (param.required or is_path):
            line.append(FILE if is_path else "x")
        elif isinstance(param, click.Option) and param.required:
            line += [param.opts[0], FILE if is_path else "x"]
    return [*line, *FURTHER.get(name, ())]


def test_every_command_reports_a_missing_file(elytron: CommandLine) -> None:
    elytron.make()
    said: dict[str, str] = {}
    for name, command in commands():
        line = line_of(name, command)
        if line is None or name.startswith(("server", "serve", "proxy", "mcp", "a2a", "hooks install")):
            continue
        result = CliRunner().invoke(elytron_group, line, input="")
        (elytron.folder / FILE).unlink(missing_ok=True)  # for commands that write it
        if result.exit_code and FILE in result.output:
            said[name] = result.output
    odd = {name: text for name, text in said.items() if "does not exist" not in text}
    assert odd == {}
    assert "restore" in said
    assert len(said) >= 14, sorted(said)
