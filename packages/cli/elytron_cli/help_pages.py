"""Pages of help, one for each command: made of its options, and kept in `help/`, to be shown without loading a library.

`python -m elytron_cli.help_pages` makes the kept pages anew after a command or an option has changed.
"""

import os
from collections.abc import Iterator, Sequence

from elytron_cli.terminal.help_page import ALIASES, COMMANDS, OPTIONS, rows, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import click

Page = tuple[str, str]
"""A command's words, joined by spaces, and its page."""

_PARTING = "\f"
_FOLDER = os.path.join(os.path.dirname(__file__), "help")  # noqa: PTH118, PTH120 - pathlib takes long to load
_COMMON = frozenset(name for name, _, _ in OPTIONS) | {"--json", "--help"}
_SPELT = ", ".join("/".join((name, *ALIASES.get(name, ()))) for name, _, _ in OPTIONS)
_EVERYWHERE = f"Options of every command, see `elytron --help`: {_SPELT}, --json."
_LEFT = 26


def kept(words: Sequence[str], /) -> str | None:
    """Return the kept page of the command that `words` name, None if there is none."""
    if not words or words[0] not in COMMANDS:
        return None
    try:
        with open(os.path.join(_FOLDER, f"{words[0]}.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - quicker
            return dict(_parted(file.read())).get(" ".join(words))
    except FileNotFoundError:
        return None


def page_of(context: "click.Context", /) -> str:
    """Return the page of the command of `context`."""
    command = context.command
    lines = [" ".join(["Usage:", context.command_path, *command.collect_usage_pieces(context)]), ""]
    for paragraph in (command.help or "").partition("\f")[0].strip().split("\n\n"):
        lines += [*wrapped(" ".join(paragraph.split()), 2), ""]
    own = [record for one in command.get_params(context) if (record := _told(one, context)) is not None]
    parts = {"Commands": list(_subcommands(command, context)), "Options": own}
    for title, found in parts.items():
        if found:
            lines += [f"{title}:", *(line for name, told in found for line in rows(name, told, _LEFT)), ""]
    if any("--store" in one.opts for one in command.get_params(context)):
        lines += wrapped(_EVERYWHERE, 0)
    return "\n".join(lines).rstrip()


def pages_of(name: str, command: "click.Command", parent: "click.Context", /) -> Iterator[Page]:
    """Yield the pages of `command`, called `name` beneath `parent`, and of its subcommands."""
    import click

    with click.Context(command, parent=parent, info_name=name, **command.context_settings) as context:
        yield context.command_path.partition(" ")[2], page_of(context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield from pages_of(inner, found, context)


def text_of(pages: Iterator[Page], /) -> str:
    """Return `pages` as the text of one kept file."""
    return f"\n{_PARTING}".join(f"{words}\n{page}" for words, page in pages) + "\n"


def every_text() -> dict[str, str]:
    """Return what must be kept: the text of each file by its name."""
    import click

    from elytron_cli.app import cli

    with click.Context(cli, info_name="elytron", **cli.context_settings) as root:
        loaded = {name: cli.resolve_command(root, [name])[1] for name in COMMANDS}
        return {f"{name}.txt": text_of(pages_of(name, command, root)) for name, command in loaded.items() if command}


def _told(parameter: "click.Parameter", context: "click.Context") -> tuple[str, str] | None:
    if not _COMMON.isdisjoint(parameter.opts):
        return None
    record = parameter.get_help_record(context)
    return record if record is not None and record[1] else None


def _subcommands(command: "click.Command", context: "click.Context") -> Iterator[tuple[str, str]]:
    import click

    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield name, found.get_short_help_str(limit=200)


def _parted(text: str) -> Iterator[Page]:
    for page in text.split(_PARTING):
        words, _, told = page.partition("\n")
        yield words, told.rstrip("\n")


def _keep() -> None:
    from pathlib import Path

    folder = Path(_FOLDER)
    folder.mkdir(exist_ok=True)
    texts = every_text()
    for old in folder.glob("*.txt"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _keep()
