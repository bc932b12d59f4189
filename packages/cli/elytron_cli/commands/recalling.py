"""Asking, and showing what a model would see."""

import click

from elytron_cli import tables
from elytron_cli.options import command, common, filtered
from elytron_cli.output import Output
from elytron_cli.running import filters, run
from elytron_cli.session import Session
from elytron_core import limits
from elytron_core.contracts.projecting import MemoryProjectionReport, MemoryProjectionRequest, Pressure
from elytron_core.contracts.recalling import MemoryRecallReport, MemoryRecallRequest


@command("recall")
@click.argument("query")
@click.option("--limit", type=int, default=limits.RECALL_DEFAULT, show_default=True, help="How many memories at most.")
@click.option("--max-tokens", type=int, metavar="N", help="No more than N tokens of text.")
@click.option("--explain", is_flag=True, help="Show what spoke for each memory.")
@filtered
@common
def recall(
    *,
    query: str,
    limit: int,
    max_tokens: int | None,
    explain: bool,
    speakers: tuple[str, ...],
    conversations: tuple[str, ...],
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
) -> int | None:
    """Find what answers QUERY, best first."""
    narrowed = filters(speakers=speakers, conversations=conversations, tags=tags, since=since, until=until)
    request = MemoryRecallRequest(query=query, limit=limit, max_tokens=max_tokens, filters=narrowed)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryRecallReport)
        out.report(report, lambda console: tables.recalled(console, report, explain=explain))

    return run(work)


@command("project")
@click.argument("query")
@click.option(
    "--max-chars", type=int, default=limits.PROJECTION_CHARS_DEFAULT, show_default=True, help="Size of the block."
)
@click.option(
    "--pressure",
    type=click.Choice([pressure.value for pressure in Pressure]),
    default=Pressure.NORMAL.value,
    show_default=True,
    help="How short the host is of room.",
)
@filtered
@common
def project(
    *,
    query: str,
    max_chars: int,
    pressure: str,
    speakers: tuple[str, ...],
    conversations: tuple[str, ...],
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
) -> int | None:
    """Show the block that a model would see for QUERY, and how its budget was used."""
    narrowed = filters(speakers=speakers, conversations=conversations, tags=tags, since=since, until=until)
    request = MemoryProjectionRequest(
        user_query=query, system_max_len=max_chars, pressure=Pressure(pressure), filters=narrowed
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryProjectionReport)
        out.report(report, lambda console: tables.projected(console, report))

    return run(work)
