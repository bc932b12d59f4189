"""Stored help pages, one file per command, so that a page is shown without loading a library.

`python -m elytron_cli.help_pages` regenerates them after a command or option has changed. Pages of `elytron client` are
generated on demand, because every operation has one.
"""

from collections.abc import Iterator

from elytron_cli.terminal.help_page import COMMANDS, FOLDER, PARTING, Page, page_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import click


def pages_of(name: str, command: "click.Command", parent: "click.Context", /) -> Iterator[Page]:
    """Yield the pages of `command`, called `name` beneath `parent`, and of its subcommands."""
    import click

    with click.Context(command, parent=parent, info_name=name, **command.context_settings) as context:
        yield context.command_path.partition(" ")[2], page_of(context)
        if isinstance(command, click.Group):
            for subcommand_name in command.list_commands(context):
                subcommand = command.get_command(context, subcommand_name)
                assert subcommand is not None
                yield from pages_of(subcommand_name, subcommand, context)


def text_of(pages: Iterator[Page], /) -> str:
    """Return `pages` as the text of one stored file."""
    return f"\n{PARTING}".join(f"{command_words}\n{page}" for command_words, page in pages) + "\n"


def every_text() -> dict[str, str]:
    """Return the text of each stored file by its name."""
    import click

    from elytron_cli.app import elytron_group

    with click.Context(elytron_group, info_name="elytron", **elytron_group.context_settings) as root:
        commands = {name: elytron_group.resolve_command(root, [name])[1] for name in COMMANDS if name != "client"}
        return {f"{name}.txt": text_of(pages_of(name, command, root)) for name, command in commands.items() if command}


def keep_pages(where: str = FOLDER, /) -> None:
    """Write every page to the folder `where`, and remove those of former commands."""
    from pathlib import Path

    folder = Path(where)
    folder.mkdir(exist_ok=True)
    texts = every_text()
    for old_page in folder.glob("*.txt"):
        if old_page.name not in texts:
            old_page.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    keep_pages()
