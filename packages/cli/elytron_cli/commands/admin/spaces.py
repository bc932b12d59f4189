"""The spaces of a store."""

from typing import TYPE_CHECKING

import click

from elytron_cli.input.options import command, common, limited
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import Output, line
from elytron_core.contracts.admin.spaces import MemorySpacesReport, MemorySpacesRequest

if TYPE_CHECKING:
    from rich.console import Console


@command("spaces")
@limited("Spaces on a page.")
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@common
def spaces(*, limit: int, cursor: str | None) -> int | None:
    """List the spaces of the store, and what they hold of conversations."""

    async def work(session: Session, out: Output) -> None:
        report = await session.call(MemorySpacesRequest(limit=limit, cursor=cursor), MemorySpacesReport)
        out.report(report, lambda console: _listed(console, report))

    return run(work, hints=False)


def _listed(console: "Console", report: MemorySpacesReport) -> None:
    if not report.spaces:
        console.print("no space was written to yet")
        return
    table = tables_common.new_table("space", "conversations", "turns", "from", "to", numbers=("conversations", "turns"))
    for found in report.spaces:
        counts = (str(found.conversations), str(found.turns)) if found.readable else ("cannot be read", "")
        table.add_row(line(found.space), *counts, tables_common.when(found.first_at), tables_common.when(found.last_at))
    console.print(table)
    tables_common.more(console, report.next_cursor)
