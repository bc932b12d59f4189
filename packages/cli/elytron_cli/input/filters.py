"""The options that narrow what is read: apart from the others, for what they make is not loaded for a page of help."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from elytron_cli.input.files import valid_value
from elytron_cli.input.options import OneOf, time_option
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters
from elytron_core.evidence import TrustLevel

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
