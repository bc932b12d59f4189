"""Options that need values of the core, apart from the others, for what they make is not loaded for a page of help."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from elytron_cli.input.files import valid_value
from elytron_cli.input.options import Body, OneOf, time_option
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters
from elytron_core.evidence import TrustLevel
from elytron_core.profiles import ProfileName

ResultT = TypeVar("ResultT")

_FILTERS = (
    click.option("--speaker", "speakers", multiple=True, metavar="NAME", help="Only what NAME said; may be repeated."),
    click.option("--conversation", "conversations", multiple=True, metavar="NAME", help="Only in that conversation."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only what has one of the tags."),
    time_option("--since", "Not before WHEN: in ISO 8601 or in words (yesterday, 2 hours ago), UTC."),
    time_option("--until", "Before WHEN."),
    click.option(
        "--trust", type=OneOf(TrustLevel), help="Only what may be relied on so far at least, by where it came from."
    ),
)


def filter_options(body: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """Give a command the options that narrow what is read, as one argument `filters`."""

    @wraps(body)
    def call(
        *,
        speakers: tuple[str, ...],
        conversations: tuple[str, ...],
        tags: tuple[str, ...],
        since: Instant | None,
        until: Instant | None,
        trust: TrustLevel | None,
        **more: Any,
    ) -> ResultT:
        filters = valid_value(
            RecallFilters,
            speakers=speakers,
            conversations=conversations,
            tags_any=tags,
            since=since,
            until=until,
            trust=trust,
        )
        return body(filters=filters, **more)

    for option in reversed(_FILTERS):
        call = option(call)
    return call


class _ProfileChoice(OneOf[ProfileName]):
    """The name of a profile, also with the prefix `profile-`, by which some hosts call it."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return the short name."""
        return super().normalize_choice(choice, ctx).removeprefix("profile-")


def profile_option(told: str, /) -> Callable[[Body], Body]:
    """Give a command a `--profile` of its own."""
    usual = ProfileName.SERVER_DEV_FULL.value
    return click.option("--profile", type=_ProfileChoice(ProfileName), default=usual, show_default=True, help=told)
