"""Facts that say nearly the same: folded together, and brought back."""

import click
from rich_click import RichCommand, RichGroup

from elytron_cli import plane_tables
from elytron_cli.options import common, limited
from elytron_cli.output import Output
from elytron_cli.running import run
from elytron_cli.session import Session
from elytron_cli.values import valid
from elytron_core import limits
from elytron_core.contracts.governing import MemoryMergeReport, MemoryMergeRequest


@click.group("facts", cls=RichGroup)
@common
def facts() -> None:
    """Fold facts that say nearly the same, or bring them back."""


@facts.command("merge", cls=RichCommand)
@limited("How many pairs to fold at most.", most=limits.WRITES_PER_REQUEST)
@click.option("--undo", multiple=True, metavar="FACT", help="Bring this folded fact back instead; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@common
def merge(*, limit: int, undo: tuple[str, ...], dry_run: bool) -> int | None:
    """Fold each fact that says nearly what another does into the surer of the two; history and citations stay."""
    request = valid(MemoryMergeRequest, limit=limit, undo=undo, dry_run=dry_run)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryMergeReport)
        out.report(report, lambda console: plane_tables.facts_merged(console, report))

    return run(work)
