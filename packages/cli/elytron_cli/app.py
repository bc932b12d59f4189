"""The command and its subcommands, each loaded when it is called; and how errors become exit codes."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from elytron_cli.exit_codes import exit_code
from elytron_cli.input.options import PageGroup, common_options, json_choice
from elytron_cli.terminal.help_page import COMMANDS, command_page
from elytron_core.errors.foreign_names import command_instead

_LISTED = [click.Command(name, help=told) for name, (_, told) in COMMANDS.items()]


class LazyCommands(PageGroup):
    """Subcommands that are imported when they are called; what is listed of them needs no import."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Show the commands in their groups."""
        click.echo(command_page())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command itself, for a call."""
        meant = command_instead(args[0], COMMANDS) if args else ""
        if meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002, ARG002 - click's signature
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> NoReturn:
        """Run the command, print what went wrong, and exit with the code that belongs to it."""
        given = list(args) if args is not None else sys.argv[1:]

        def run() -> object:
            return super(LazyCommands, self).main(
                given,
                prog_name or "elytron",
                complete_var,
                windows_expand_args=windows_expand_args,
                standalone_mode=False,
                **extra,
            )

        sys.exit(exit_code(run, as_json=json_choice(given)))


def load_command(name: str, /) -> click.Command:
    """Return the command called `name`, whose module is imported now."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(f"elytron_cli.commands.{module}"), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyCommands, commands=_LISTED, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="elytron", message="elytron %(version)s")
@common_options
def elytron_group() -> None:
    """Run one of the commands."""
