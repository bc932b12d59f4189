"""Options that every command accepts, before or after its name, and options that several commands share."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import click

from elytron_cli.config import OPTIONS as SETTINGS
from elytron_cli.terminal.help_page import ALIASES, FLAGS, OPTIONS, PER_REPOSITORY, page_of
from elytron_core import limits
from elytron_core.clock import Instant, format_instant, instant
from elytron_core.errors import InvalidInput

Body = TypeVar("Body", bound=Callable[..., Any])
Word = TypeVar("Word", bound=StrEnum)

_META = "elytron."


def _keep_option(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store a global option for the whole run; one after the command is read last and wins."""
    if value is not None:
        context.meta[f"{_META}{parameter.name}"] = value


def _named_option(name: str, what: str, help_text: str) -> Callable[[Body], Body]:
    spellings = (name, *ALIASES.get(name, ()), name.removeprefix("--").replace("-", "_"))
    return click.option(*spellings, metavar=what, callback=_keep_option, expose_value=False, help=help_text)


class PageCommand(click.Command):
    """A command whose help is its stored page."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Show the page."""
        click.echo(page_of(ctx))


class PageGroup(click.Group):
    """Subcommands whose help is a stored page too."""

    command_class = PageCommand

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Show the page."""
        click.echo(page_of(ctx))


_JSON = click.option(
    "--json/--no-json", "json", default=None, callback=_keep_option, expose_value=False, help=FLAGS[0][1]
)
_PER_REPOSITORY = click.option(
    PER_REPOSITORY, flag_value="yes", default=None, callback=_keep_option, expose_value=False, help=FLAGS[1][1]
)
_PROFILE = "--profile"


def page_command(name: str, /) -> Callable[[Callable[..., int | None]], click.Command]:
    """Turn a function into the command called `name`."""
    return click.command(name, cls=PageCommand)


def common_options(body: Body) -> Body:
    """Give a command the options of every command."""
    return _with_options(body, OPTIONS)


def common_but_profile(body: Body) -> Body:
    """Give a command the options of every command, if its own --profile is not that of the store."""
    return _with_options(body, [option for option in OPTIONS if option[0] != _PROFILE])


def _with_options(body: Body, options: Sequence[tuple[str, str, str]]) -> Body:
    body = _PER_REPOSITORY(_JSON(body))
    for option in reversed(options):
        body = _named_option(*option)(body)
    return body


def global_options(context: click.Context, /) -> dict[str, str]:
    """Return the given global options of this run."""
    values = {name: context.meta.get(f"{_META}{name}") for name in SETTINGS}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def as_json(context: click.Context, /) -> bool | None:
    """Return the choice of JSON output, or None."""
    json_choice = context.meta.get(f"{_META}json")
    return json_choice if isinstance(json_choice, bool) else None


def json_choice(arguments: Sequence[str], /) -> bool | None:
    """Return the choice of JSON output in `arguments`, even if they cannot be parsed."""
    choices = [argument == "--json" for argument in arguments if argument in {"--json", "--no-json"}]
    return choices[-1] if choices else None


def limit_option(help_text: str, /, *, most: int = limits.PAGE_MAX, usual: int = 100) -> Callable[[Body], Body]:
    """Give a command `--limit`, from 1 to `most`."""
    return click.option("--limit", type=click.IntRange(1, most), default=usual, show_default=True, help=help_text)


class OneOf(click.Choice[Word]):
    """A word of a closed set."""

    def __init__(self, words: Iterable[Word], /) -> None:
        super().__init__(words)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the word as it is typed."""
        return str(choice)


def choice_option(name: str, usual: StrEnum, help_text: str, /) -> Callable[[Body], Body]:
    """Give a command an option for one of the words; `usual` is the default."""
    return click.option(name, type=OneOf(type(usual)), default=usual.value, show_default=True, help=help_text)


def time_option(name: str, help_text: str, /) -> Callable[[Body], Body]:
    """Give a command an option for a time, in ISO 8601 or in words; standard error shows how words were read."""
    return click.option(name, metavar="WHEN", callback=_parse_instant, help=help_text)


def _parse_instant(_context: click.Context, parameter: click.Parameter, value: str | None) -> Instant | None:
    if value is None:
        return None
    name = parameter.opts[0]
    try:
        return instant(value, field=name)
    except InvalidInput:
        if value.lstrip("+-")[:1].isdigit() and value[-1:].isdigit():
            raise  # a number, or a mistyped timestamp, which must not be guessed
        parsed_time = read_words_of_time(value)
        if parsed_time is None:
            raise
        click.echo(f"{name}: read as {format_instant(parsed_time)}", err=True)
        return parsed_time


def dry_run_option(help_text: str = "Show what would be done without doing it.", /) -> Callable[[Body], Body]:
    """Give a command that changes something `--dry-run`."""
    return click.option("--dry-run", is_flag=True, help=help_text)


def reason_option(help_text: str = "Reason, recorded in the history.", /) -> Callable[[Body], Body]:
    """Give a command `--reason`."""
    return click.option("--reason", default="", metavar="TEXT", help=help_text)


def size_option(usual: int, help_text: str, /) -> Callable[[Body], Body]:
    """Give a command that makes a block `--max-chars`."""
    chars_range = click.IntRange(0, limits.PROJECTION_CHARS_MAX)
    return click.option(
        "--max-chars", "--max-len", "max_chars", type=chars_range, default=usual, show_default=True, help=help_text
    )


def page_options(help_text: str, /) -> Callable[[Body], Body]:
    """Give a command that lists pages `--limit` and `--cursor`."""
    cursor = click.option("--cursor", metavar="CURSOR", help="Cursor of the next page, from the previous page.")
    return lambda body: limit_option(help_text)(cursor(body))


def force_option(body: Body) -> Body:
    """Give a command that writes a file `--force`."""
    return click.option("--force", is_flag=True, help="Replace FILE if it exists.")(body)


def yes_option(body: Body) -> Body:
    """Give a command that cannot be undone `--yes`."""
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(body)


def private_option(body: Body) -> Body:
    """Give a command that reads memories `--private`."""
    return click.option("--private", "include_private", is_flag=True, help="Include private memories.")(body)


def in_conversation(body: Body) -> Body:
    """Give a command the option that names a conversation."""
    return click.option("--conversation", metavar="NAME", help="Name of the conversation. [default: default]")(body)


TEXT_CHARS = 64
"""Longer texts are no times."""


def read_words_of_time(text: str, /, *, now: datetime | None = None) -> Instant | None:
    """Return the time that `text` names, in UTC (for a day, its beginning); None if it names none."""
    from dateparser.date import DateDataParser

    if len(text) > TEXT_CHARS:
        return None
    settings = {
        "TIMEZONE": "UTC",
        "TO_TIMEZONE": "UTC",
        "RETURN_AS_TIMEZONE_AWARE": True,
        "RETURN_TIME_AS_PERIOD": True,
        "PREFER_DATES_FROM": "past",
        "RELATIVE_BASE": (now or datetime.now(UTC)).replace(tzinfo=None),
    }
    date_data = DateDataParser(settings=settings).get_date_data(text)
    if date_data.date_obj is None:
        return None
    named_time = date_data.date_obj
    if date_data.period != "time":
        named_time = named_time.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return instant(named_time)
    except InvalidInput:
        return None
