"""Generate the pages of the command line from the commands themselves, one page for each group of `elytron --help`."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from elytron_cli.app import elytron_group
from elytron_cli.terminal.help_page import GROUPS, option_record

FOLDER = "reference/commands"


def _file(title: str) -> str:
    return f"{FOLDER}/{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}.md"


SECTIONS: dict[str, list[Any]] = {"Reference": [{"Commands": [_file(title) for title in GROUPS]}]}


def write_pages(pages: Path, /) -> None:
    """Write a page for each group of commands, with every option of each command."""
    with click.Context(elytron_group, info_name="elytron", **elytron_group.context_settings) as root:
        for title, names in GROUPS.items():
            lines = [f"# {title}\n", "Options of every command are described in [The command line](../cli.md).\n"]
            for name in names:
                _, command, _ = elytron_group.resolve_command(root, [name])
                assert command is not None
                lines.extend(_described(command, root, name))
            page = pages / _file(title)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("\n".join(lines), encoding="utf-8")


def _described(command: click.Command, parent: click.Context, name: str, level: int = 2) -> Iterator[str]:
    with click.Context(command, parent=parent, info_name=name, **command.context_settings) as context:
        yield f"{'#' * level} `{context.command_path}`\n"
        yield _prose(command.help or command.short_help or "") + "\n"
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```\n"
        rows = [record for option in command.params if (record := option_record(option, context))]
        if rows:
            yield "| option | meaning |\n|---|---|"
            yield from (f"| <code>{_cell(spelling)}</code> | {_cell(meaning)} |" for spelling, meaning in rows)
            yield ""
        if isinstance(command, click.Group) and name != "client":
            for inner in command.list_commands(context):
                nested = command.get_command(context, inner)
                assert nested is not None
                if not nested.hidden:
                    yield from _described(nested, context, inner, min(level + 1, 4))


def _prose(text: str) -> str:
    text = inspect.cleandoc(text).replace("\b\n", "").partition("\f")[0]
    return re.sub(r"<(?=[A-Za-z/])", "&lt;", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;").replace("[", "&#91;")
