"""Asking, and showing what a model would see."""

from collections.abc import Mapping
from typing import Any

import click

from elytron.api.metadata_filters import where_from
from elytron_cli.input.filters import filtered
from elytron_cli.input.options import command, common, disclosing, limited
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall as tables_recall
from elytron_cli.terminal.output import Output
from elytron_core import limits, strict_json
from elytron_core.contracts.conversation.projection import (
    MemoryProjectionReport,
    MemoryProjectionRequest,
    Pressure,
    PrivateContext,
)
from elytron_core.contracts.knowledge.recall import Diversity, MemoryRecallReport, MemoryRecallRequest, RecallFilters
from elytron_core.errors import InvalidInput


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
@click.option(
    "--diversity",
    type=click.Choice([diversity.value for diversity in Diversity]),
    default=Diversity.AUTO.value,
    show_default=True,
    help="Whether to spread over conversations.",
)
@click.option("--min-score", type=click.FloatRange(0.0, 1.0), default=0.0, help="Only hits of this score at least.")
@click.option("--where", metavar="JSON", help='Conditions on metadata, such as {"team": "red", "size": {"gte": 3}}.')
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@disclosing
@filtered
@common
def recall(
    *,
    query: str,
    limit: int,
    max_tokens: int | None,
    min_score: float,
    explain: bool,
    neighbours: int,
    why_not: tuple[str, ...],
    diversity: str,
    where: str | None,
    cursor: str | None,
    include_private: bool,
    filters: RecallFilters,
) -> int | None:
    """Find what answers QUERY, best first."""
    if where is not None:
        filters = filters.model_copy(update={"where": where_from(_conditions(where))})
    request = MemoryRecallRequest(
        query=query,
        limit=limit,
        max_tokens=max_tokens,
        min_score=min_score,
        filters=filters,
        cursor=cursor,
        diversity=Diversity(diversity),
        neighbours=neighbours,
        why_not=why_not,
        include_private=include_private,
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryRecallReport)
        out.report(report, lambda console: tables_recall.recalled(console, report, explain=explain))

    return run(work)


@command("project")
@click.argument("query")
@click.option(
    "--max-chars",
    "--max-len",
    "max_chars",
    type=click.IntRange(0, limits.PROJECTION_CHARS_MAX),
    default=limits.PROJECTION_CHARS_DEFAULT,
    show_default=True,
    help="Size of the block.",
)
@click.option(
    "--pressure",
    type=click.Choice([pressure.value for pressure in Pressure]),
    default=Pressure.NORMAL.value,
    show_default=True,
    help="How short the host is of room.",
)
@disclosing
@filtered
@common
def project(
    *,
    query: str,
    max_chars: int,
    pressure: str,
    include_private: bool,
    filters: RecallFilters,
) -> int | None:
    """Show the block that a model would see for QUERY, and how its budget was used."""
    request = MemoryProjectionRequest(
        query=query,
        max_chars=max_chars,
        pressure=Pressure(pressure),
        filters=filters,
        private_context=PrivateContext.ALLOWED if include_private else PrivateContext.WITHHELD,
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryProjectionReport)
        out.report(report, lambda console: tables_common.projected(console, report))

    return run(work)


def _conditions(text: str) -> Mapping[str, Any]:
    found = strict_json.parse(text.encode())
    if not isinstance(found, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    return found
