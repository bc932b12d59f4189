"""Looking at a whole space."""

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli import tables
from elytron_cli.options import command, common
from elytron_cli.output import Output
from elytron_cli.running import run
from elytron_cli.session import Session
from elytron_core.contracts.inspecting import MemoryInspectionReport, MemoryInspectionRequest


@command("inspect")
@click.option("--check", is_flag=True, help="Read every byte of the store and report damage.")
@click.option("--repair", is_flag=True, help="Check, and move what is damaged aside; nothing is thrown away.")
@common
def inspect(*, check: bool, repair: bool) -> int | None:
    """Say what the space holds. Exits with 13 where a check finds damage."""
    request = MemoryInspectionRequest(check=check or repair, repair=repair)

    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(request, MemoryInspectionReport)
        out.report(report, lambda console: tables.inspected(console, report))
        return EXIT_DAMAGE if report.store_check is not None and not report.store_check.ok else None

    return run(work)
