"""Asking, and showing what a model would see."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from elytron.api.metadata_filters import where_from
from elytron_cli.input.filters import filtered
from elytron_cli.input.options import choosing, command, common, disclosing, limited, sized
from elytron_cli.runner import answer
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall as tables_recall
from elytron_core import limits, strict_json
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.recall import Diversity, MemoryRecallRequest, RecallFilters
from elytron_core.errors import InvalidInput
from elytron_core.profiles import Pressure


@command("recall")
@click.argument("query")
@limited("How many memories at most.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@click.option("--max-tokens", type=int, metavar="N", help="No more than N tokens of text.")
@click.option("--explain", is_flag=True, help="Show what spoke for each memory, and where the cut fell.")
@click.option(
    "--neighbours",
    type=click.IntRange(0, limits.RECALL_NEIGHBOURS),
    default=0,
    metavar="N",
    help="With each message, N before it and N after.",
)
@click.option("--why-not", "why_not", multiple=True, metavar="ID", help="Say why the memory ID is not among them.")
@choosing("--diversity", Diversity.AUTO, "Whether to spread over conversations.")
@click.option("--min-score", type=click.FloatRange(0.0, 1.0), default=0.0, help="Only hits of this score at least.")
@click.option("--where", metavar="JSON", help='Conditions on metadata, such as {"team": "red", "size": {"gte": 3}}.')
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@disclosing
@filtered
@common
def recall(*, explain: bool, where: str | None, filters: RecallFilters, **asked: Any) -> int | None:
    """Find what answers QUERY, best first."""
    if where is not None:
        filters = filters.model_copy(update={"where": where_from(_conditions(where))})
    return answer(MemoryRecallRequest(filters=filters, **asked), partial(tables_recall.recalled, explain=explain))


@command("project")
@click.argument("query")
@sized(limits.PROJECTION_CHARS_DEFAULT, "Size of the block.")
@choosing("--pressure", Pressure.NORMAL, "How short the host is of room.")
@disclosing
@filtered
@common
def project(*, include_private: bool, **asked: Any) -> int | None:
    """Show the block that a model would see for QUERY, and how its budget was used."""
    private = PrivateContext.ALLOWED if include_private else PrivateContext.WITHHELD
    return answer(MemoryProjectionRequest(private_context=private, **asked), tables_common.projected)


def _conditions(text: str) -> Mapping[str, Any]:
    found = strict_json.parse(text.encode())
    if not isinstance(found, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    return found
