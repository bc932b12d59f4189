"""Reading single memories and lists of them."""

import click

from elytron_cli.input.filters import filtered
from elytron_cli.input.options import command, common, disclosing, limited
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import Output
from elytron_core.contracts.knowledge.control import (
    Hidden,
    ListOrder,
    MemoryGetRequest,
    MemoryHistoryReport,
    MemoryHistoryRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.knowledge.recall import RecallFilters, RecallHit


@command("get")
@click.argument("memory")
@disclosing
@common
def get(*, memory: str, include_private: bool) -> int | None:
    """Show the memory with the id MEMORY."""
    request = MemoryGetRequest(id=memory, include_private=include_private)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, RecallHit)
        out.report(report, lambda console: tables_common.memory(console, report))

    return run(work)


@command("list")
@limited("Memories on a page.")
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@click.option("--hidden", is_flag=True, help="Also what was forgotten, put away, replaced or retired.")
@click.option("--latest", is_flag=True, help="What was stored last comes first; one page.")
@disclosing
@filtered
@common
def list_memories(
    *,
    limit: int,
    cursor: str | None,
    hidden: bool,
    latest: bool,
    include_private: bool,
    filters: RecallFilters,
) -> int | None:
    """List memories in the order in which they were stored."""
    which = Hidden.LISTED if hidden else Hidden.LEFT_OUT
    order = ListOrder.LATEST if latest else ListOrder.STORED
    request = MemoryListRequest(
        limit=limit, cursor=cursor, filters=filters, hidden=which, order=order, include_private=include_private
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryListReport)
        out.report(report, lambda console: tables_common.listed(console, report))

    return run(work)


@command("history")
@click.argument("memory")
@disclosing
@common
def history(*, memory: str, include_private: bool) -> int | None:
    """Show what happened to the memory with the id MEMORY, oldest first."""
    request = MemoryHistoryRequest(id=memory, include_private=include_private)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryHistoryReport)
        out.report(report, lambda console: tables_common.history(console, report))

    return run(work)
