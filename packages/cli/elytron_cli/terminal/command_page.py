"""The page of help of one command: made of its options, or read from the pages that are kept in `help/`."""

import os
from collections.abc import Iterator, Sequence

from elytron_cli.terminal.help_page import ALIASES, COMMANDS, OPTIONS, table_rows, wrap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import click

Page = tuple[str, str]
"""A command's words, joined by spaces, and its page."""
PARTING = "\f"
"""Separator of two pages in a kept file."""
FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "help")  # noqa: PTH118, PTH120 - pathlib takes long to load
"""Folder of the kept pages, a file for each command."""
_COMMON = frozenset(name for name, _, _ in OPTIONS) | {"--json", "--help"}
_SPELT = ", ".join("/".join((name, *ALIASES.get(name, ()))) for name, _, _ in OPTIONS)
_EVERYWHERE = f"Options of every command, see `elytron --help`: {_SPELT}, --json."
_LEFT = 26


def kept_page(words: Sequence[str], /) -> str | None:
    """Return the kept page of the command that `words` name, None if there is none."""
    if not words or words[0] not in COMMANDS:
        return None
    try:
        with open(os.path.join(FOLDER, f"{words[0]}.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - quicker
            return dict(_parted_pages(file.read())).get(" ".join(words))
    except FileNotFoundError:
        return None


def page_of(context: "click.Context", /) -> str:
    """Return the page of the command of `context`."""
    command = context.command
    lines = [" ".join(["Usage:", context.command_path, *command.collect_usage_pieces(context)]), ""]
    for paragraph in (command.help or "").partition("\f")[0].strip().split("\n\n"):
        lines += [*wrap_text(" ".join(paragraph.split()), 2), ""]
    own = [record for one in command.get_params(context) if (record := _option_told(one, context)) is not None]
    parts = {"Commands": list(_listed_subcommands(command, context)), "Options": own}
    for title, found in parts.items():
        if found:
            lines += [f"{title}:", *(line for name, told in found for line in table_rows(name, told, _LEFT)), ""]
    if any("--store" in one.opts for one in command.get_params(context)):
        lines += wrap_text(_EVERYWHERE, 0)
    return "\n".join(lines).rstrip()


def _option_told(parameter: "click.Parameter", context: "click.Context") -> tuple[str, str] | None:
    if not _COMMON.isdisjoint(parameter.opts):
        return None
    record = parameter.get_help_record(context)
    return record if record is not None and record[1] else None


def _listed_subcommands(command: "click.Command", context: "click.Context") -> Iterator[tuple[str, str]]:
    import click

    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield name, found.get_short_help_str(limit=200)


def _parted_pages(text: str) -> Iterator[Page]:
    for page in text.split(PARTING):
        words, _, told = page.partition("\n")
        yield words, told.rstrip("\n")
