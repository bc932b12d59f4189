"""The command and its subcommands, each loaded when it is called; and how errors become exit codes."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
from rich_click import RichGroup

from elytron_cli.exits import exit_code
from elytron_cli.options import common, json_choice

COMMANDS: dict[str, tuple[str, str]] = {
    "access": ("access:access", "Make and revoke the keys with which a server is called."),
    "add": ("writing:add", "Store a text as evidence."),
    "backup": ("backup:backup", "Copy the whole store to a file, while it is in use."),
    "candidates": ("candidates:candidates", "See proposed beliefs that wait, and decide on them."),
    "client": ("client:client", "Call a memory on a server: every operation by its name."),
    "completion": ("completion:completion", "Print what lets a shell complete commands and options."),
    "config": ("config:config", "Show each setting and where it came from."),
    "continuity": ("continuity:continuity", "See where a conversation stands, and take it elsewhere."),
    "correct": ("control:correct", "Replace a fact's content; history stays."),
    "demo": ("demo:demo", "Try it: a year of conversation, ten questions, no key and no model."),
    "doctor": ("doctor:doctor", "Say what is configured and whether the store is sound."),
    "erase": ("control:erase", "Remove memories physically; there is no way back."),
    "erasures": ("erasures:erasures", "Keep what was erased in a file, and erase it again in an older copy."),
    "evolve": ("evolve:evolve", "Try proposed changes on a copy, and submit them."),
    "export": ("moving:export", "Write the space to an archive file."),
    "facts": ("facts:facts", "Read and change facts, forget them by query, and say what is not learned."),
    "forget": ("control:forget", "Hide memories from recall; --undo brings them back."),
    "garden": ("notebook:garden", "See and write what a persona keeps to itself."),
    "gateway": ("gateway:gateway", "Call a Memory Gateway: memories, resources, searches."),
    "get": ("reading:get", "Show one memory."),
    "history": ("reading:history", "Show what happened to one memory."),
    "hooks": ("hooks:hooks", "Recall and keep without being asked, as hooks of a coding agent."),
    "import": ("moving:import_file", "Read a transcript or an archive into the space."),
    "inspect": ("inspecting:inspect", "Say what the space holds; --check reads every byte."),
    "jobs": ("jobs:jobs", "See and do what was put off."),
    "keys": ("keys:keys", "Make and rotate the keys of sealed stores."),
    "list": ("reading:list_memories", "List memories in the order in which they were stored."),
    "maintain": ("maintain:maintain", "Maintain memory now: facts, summary, notes, skills."),
    "mcp": ("mcp:mcp", "Serve the space to an MCP host; print what to paste into it."),
    "migrate": ("backup:migrate", "Copy every space into another store."),
    "model": ("model:model", "Add, list, remove and switch the models that compare meanings."),
    "notes": ("notebook:notes", "See and write what days and months held."),
    "platform": ("platform:platform", "Say what a memory can do, in a profile or here."),
    "project": ("recalling:project", "Show the block a model would see."),
    "recall": ("recalling:recall", "Find what answers a question."),
    "replay": ("replaying:replay", "Show a conversation's turns, or tell fixtures to stores."),
    "rules": ("rules:rules", "Tell agents how to use this memory: rules for twelve programs."),
    "serve": ("serve:serve", "Serve the store over HTTP."),
    "skills": ("skills:skills", "See and govern what was learned; see agent skills in directories."),
    "spaces": ("spaces:spaces", "List the spaces of the store."),
    "subjects": ("subjects:subjects", "See who takes part in the space."),
    "tools": ("tools:tools", "Tell which tools the host has; see what use has taught of them."),
    "transcript": ("transcript:transcript", "Show a conversation through a view; put its text away or delete it."),
    "verify": ("verify:verify", "Say whether the store still holds what it held: heads kept elsewhere."),
    "version": ("version:version", "Print the version."),
}


_LISTED = [click.Command(name, help=told) for name, (_, told) in COMMANDS.items()]


class Commands(RichGroup):
    """Subcommands that are imported when they are called; what is listed of them needs no import."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command itself, for a call."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _loaded(name) if name in COMMANDS else command, rest

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
            return super(Commands, self).main(
                given,
                prog_name or "elytron",
                complete_var,
                windows_expand_args=windows_expand_args,
                standalone_mode=False,
                **extra,
            )

        sys.exit(exit_code(run, as_json=json_choice(given)))


def _loaded(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(f"elytron_cli.commands.{module}"), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=Commands, commands=_LISTED, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="elytron", message="elytron %(version)s")
@common
def cli() -> None:
    """Governed memory for AI agents: keep what was said, recall it, show a model its part, and erase it for good.

    Options stand before or after the command. Without --store, the environment (ELYTRON_STORE) and elytron.toml, a
    database in your own data folder is used. `elytron demo` needs nothing at all.
    """
