"""Options that every command takes, before or after its name; and those that several share."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from rich_click import RichCommand

from elytron_cli.config import OPTIONS
from elytron_core import limits

Body = TypeVar("Body", bound=Callable[..., Any])

_META = "elytron."


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep a global option for the whole run; what stands after the command is read last, and so holds."""
    if value is not None:
        context.meta[f"{_META}{parameter.name}"] = value


_COMMON = (
    click.option("--store", metavar="URL", callback=_keep, expose_value=False, help="Path or URL of the store."),
    click.option("--space", metavar="NAME", callback=_keep, expose_value=False, help="Memory space: whose memory."),
    click.option("--key-file", metavar="PATH", callback=_keep, expose_value=False, help="Keys of a sealed store."),
    click.option("--embedder", metavar="NAME", callback=_keep, expose_value=False, help="Model to compare meanings."),
    click.option(
        "--language-model", metavar="NAME", callback=_keep, expose_value=False, help="Model that maintains memory."
    ),
    click.option(
        "--language-model-url", metavar="URL", callback=_keep, expose_value=False, help="Where that model is served."
    ),
    click.option(
        "--agent-skill-dirs",
        metavar="PATHS",
        callback=_keep,
        expose_value=False,
        help=f"Directories of agent skills to read, separated by {os.pathsep!r}.",
    ),
    click.option(
        "--json/--no-json",
        "json",
        default=None,
        callback=_keep,
        expose_value=False,
        help="Print reports as JSON; without, JSON unless at a terminal.",
    ),
)
_PROFILE = click.option(
    "--profile", metavar="NAME", callback=_keep, expose_value=False, help="The kind of place, whose limits then hold."
)


def command(name: str, /) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a function the command called `name`."""
    return click.command(name, cls=RichCommand)


def common(body: Body) -> Body:
    """Give a command the options of every command."""
    return _PROFILE(common_but_profile(body))


def common_but_profile(body: Body) -> Body:
    """Give a command the options of every command, where its own --profile is not that of the store."""
    for option in reversed(_COMMON):
        body = option(body)
    return body


def told(context: click.Context, /) -> dict[str, str]:
    """Return the global options of this run that name something."""
    found = {name: context.meta.get(f"{_META}{name}") for name in OPTIONS}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def as_json(context: click.Context, /) -> bool | None:
    """Return what was said of JSON, or None."""
    said = context.meta.get(f"{_META}json")
    return said if isinstance(said, bool) else None


def json_choice(arguments: Sequence[str], /) -> bool | None:
    """Return what `arguments` say of JSON, also where they cannot be parsed."""
    said = [argument == "--json" for argument in arguments if argument in {"--json", "--no-json"}]
    return said[-1] if said else None


def limited(told: str, /, *, most: int = limits.PAGE_MAX, usual: int = 100) -> Callable[[Body], Body]:
    """Give a command `--limit`, from 1 to `most`."""
    return click.option("--limit", type=click.IntRange(1, most), default=usual, show_default=True, help=told)


def overwriting(body: Body) -> Body:
    """Give a command that writes a file `--force`."""
    return click.option("--force", is_flag=True, help="Replace FILE if it exists.")(body)


def asking(body: Body) -> Body:
    """Give a command that cannot be undone `--yes`."""
    return click.option("--yes", is_flag=True, help="Do not ask at a terminal.")(body)


def disclosing(body: Body) -> Body:
    """Give a command that reads memories `--private`."""
    return click.option("--private", "include_private", is_flag=True, help="Also private memories.")(body)


def in_conversation(body: Body) -> Body:
    """Give a command the options that name a conversation."""
    body = click.option("--channel", metavar="NAME", help="The channel of the conversation.")(body)
    return click.option("--conversation", metavar="NAME", help="Whose.")(body)
