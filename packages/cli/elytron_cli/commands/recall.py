"""Asking, and showing what a model would see."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from elytron.api.metadata_filters import where_from
from elytron_cli.input.filters import filter_options
from elytron_cli.input.options import (
    choice_option,
    common_options,
    limit_option,
    page_command,
    private_option,
    size_option,
)
from elytron_cli.runner import answer_request
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall as tables_recall
from elytron_core import limits, strict_json
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.recall import HitDiversity, MemoryRecallRequest, RecallExtent, RecallFilters
from elytron_core.errors import InvalidInput
from elytron_core.profiles import MemoryPressure


@page_command("recall")
@click.argument("query")
@limit_option("How many memories at most.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@click.option("--max-tokens", type=int, metavar="N", help="No more than N tokens of text.")
@click.option("--explain", is_flag=True, help="Show the signals behind each score, and the first that were left out.")
@click.option(
    "--neighbours",
    type=click.IntRange(0, limits.RECALL_NEIGHBOURS),
    default=0,
    metavar="N",
    help="Also show the N messages before and after each hit.",
)
@click.option("--why-not", "why_not", multiple=True, metavar="ID", help="Say why the memory ID is not among them.")
@choice_option("--extent", RecallExtent.LIMIT, "How many hits: as the limit says, or all that the question needs.")
@choice_option("--diversity", HitDiversity.AUTO, "Whether to spread over conversations.")
@click.option("--min-score", type=click.FloatRange(0.0, 1.0), default=0.0, help="Only hits of this score at least.")
@click.option("--where", metavar="JSON", help='Conditions on metadata, such as {"team": "red", "size": {"gte": 3}}.')
@click.option("--cursor", metavar="CURSOR", help="The next page, by the cursor of the page before it.")
@private_option
@filter_options
@common_options
def recall_command(*, explain: bool, where: str | None, filters: RecallFilters, **asked: Any) -> int | None:
    """Find what answers QUERY, best first."""
    if where is not None:
        filters = filters.model_copy(update={"where": where_from(_filter_conditions(where))})
    return answer_request(
        MemoryRecallRequest(filters=filters, **asked), partial(tables_recall.show_recall, explain=explain)
    )


@page_command("project")
@click.argument("query")
@size_option(limits.PROJECTION_CHARS_DEFAULT, "Size of the block.")
@choice_option("--pressure", MemoryPressure.NORMAL, "How full the context window is: a fuller one, a smaller block.")
@private_option
@filter_options
@common_options
def project_command(*, include_private: bool, **asked: Any) -> int | None:
    """Show the block that a model would see for QUERY, and how its budget was used."""
    private = PrivateContext.ALLOWED if include_private else PrivateContext.WITHHELD
    return answer_request(MemoryProjectionRequest(private_context=private, **asked), tables_common.show_projection)


def _filter_conditions(text: str) -> Mapping[str, Any]:
    found = strict_json.parse_json(text.encode())
    if not isinstance(found, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    return found
