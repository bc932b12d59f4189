"""Options that every command takes, before or after its name; and those that several share."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from rich_click import RichCommand

from elytron_cli.config import OPTIONS
from elytron_cli.values import valid
from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.contracts.recalling import RecallFilters
from elytron_core.planes.evidence import Trust

Body = TypeVar("Body", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")

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


_FILTERS = (
    click.option("--speaker", "speakers", multiple=True, metavar="NAME", help="Only what NAME said; may be repeated."),
    click.option("--conversation", "conversations", multiple=True, metavar="NAME", help="Only in that conversation."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only what has one of the tags."),
    click.option("--since", metavar="WHEN", help="Not before WHEN: a date or time in ISO 8601, UTC."),
    click.option("--until", metavar="WHEN", help="Before WHEN."),
    click.option(
        "--trust",
        type=click.Choice([trust.value for trust in Trust]),
        help="Only what may be relied on so far at least, by where it came from.",
    ),
)


def filtered(body: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """Give a command the options that narrow what is read, as one argument `filters`."""

    @wraps(body)
    def call(
        *,
        speakers: tuple[str, ...],
        conversations: tuple[str, ...],
        tags: tuple[str, ...],
        since: str | None,
        until: str | None,
        trust: str | None,
        **more: Any,
    ) -> ResultT:
        filters = valid(
            RecallFilters,
            speakers=speakers,
            conversations=conversations,
            tags_any=tags,
            since=instant(since, field="--since") if since is not None else None,
            until=instant(until, field="--until") if until is not None else None,
            trust=trust,
        )
        return body(filters=filters, **more)

    for option in reversed(_FILTERS):
        call = option(call)
    return call


def limited(told: str, /, *, most: int = limits.PAGE_MAX, usual: int = 100) -> Callable[[Body], Body]:
    """Give a command `--limit`, from 1 to `most`."""
    return click.option("--limit", type=click.IntRange(1, most), default=usual, show_default=True, help=told)


def in_conversation(body: Body) -> Body:
    """Give a command the options that name a conversation."""
    body = click.option("--channel", metavar="NAME", help="The channel of the conversation.")(body)
    return click.option("--conversation", metavar="NAME", help="Whose.")(body)
