"""Forgetting, correcting and erasing."""

import click

from elytron_cli import tables
from elytron_cli.confirmation import at_terminal, confirm
from elytron_cli.options import asking, command, common
from elytron_cli.output import Output
from elytron_cli.running import run, settings
from elytron_cli.session import Session
from elytron_core.contracts.control import (
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
)
from elytron_core.contracts.scoped import ScopedRequest

NOT_FOUND = 3

_REASON = click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the history.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@command("forget")
@click.argument("memories", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Bring them back.")
@_REASON
@_DRY_RUN
@common
def forget(*, memories: tuple[str, ...], undo: bool, reason: str, dry_run: bool) -> int | None:
    """Hide the memories with these ids from recall and projection; evidence and history stay."""
    return _run(MemoryForgetRequest(ids=memories, undo=undo, reason=reason, dry_run=dry_run))


@command("correct")
@click.argument("memory")
@click.argument("text")
@_REASON
@_DRY_RUN
@common
def correct(*, memory: str, text: str, reason: str, dry_run: bool) -> int | None:
    """Put TEXT in the place of the fact with the id MEMORY; the old word stays in its history."""
    return _run(MemoryCorrectRequest(id=memory, content=text, reason=reason, dry_run=dry_run))


@command("erase")
@click.argument("memories", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Erase the whole space.")
@asking
@_REASON
@_DRY_RUN
@common
def erase(*, memories: tuple[str, ...], everything: bool, yes: bool, reason: str, dry_run: bool) -> int | None:
    """Remove the memories with these ids, or the whole space, physically. There is no way back."""
    if everything == bool(memories):
        raise click.UsageError("name the memories to erase, or --all")
    space = settings().space.value
    if not everything:
        confirm(f"Erase {', '.join(memories)} from the space {space!r}, with no way back?", yes=yes or dry_run)
        return _run(MemoryEraseRequest(ids=memories, reason=reason, dry_run=dry_run))
    if not yes and not dry_run and not at_terminal():
        raise click.UsageError("--all erases the whole space: say --yes")
    confirm(f"Erase everything in the space {space!r}?", yes=yes or dry_run)
    return _run(MemoryEraseRequest(whole_space=space, reason=reason, dry_run=dry_run))


def _run(request: ScopedRequest) -> int | None:
    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(request, MemoryControlReport)
        out.report(report, lambda console: tables.controlled(console, report))
        outcomes = {decision.outcome for decision in report.decisions}
        return NOT_FOUND if outcomes == {ControlOutcome.NOT_FOUND} else None

    return run(work)
