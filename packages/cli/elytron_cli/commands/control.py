"""Forgetting, correcting and erasing."""

import click

from elytron_cli.input.files import valid
from elytron_cli.input.options import asking, command, common, dry, reasoned
from elytron_cli.runner import answer, run, settings
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.confirmation import at_terminal, confirm
from elytron_cli.terminal.output import Output
from elytron_core.contracts.control import (
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    Origin,
    OriginKind,
)

NOT_FOUND = 3


@command("forget")
@click.argument("memories", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Bring them back.")
@reasoned()
@dry()
@common
def forget(*, memories: tuple[str, ...], undo: bool, reason: str, dry_run: bool) -> int | None:
    """Hide the memories with these ids from recall and projection; evidence and history stay."""
    return _answer(MemoryForgetRequest(ids=memories, undo=undo, reason=reason, dry_run=dry_run))


@command("correct")
@click.argument("memory")
@click.argument("text")
@reasoned()
@dry()
@common
def correct(*, memory: str, text: str, reason: str, dry_run: bool) -> int | None:
    """Put TEXT in the place of the fact with the id MEMORY; the old word stays in its history."""
    return _answer(MemoryCorrectRequest(id=memory, content=text, reason=reason, dry_run=dry_run))


@command("erase")
@click.argument("memories", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Erase the whole space.")
@click.option(
    "--origin", metavar="KIND:NAME", help="All that came through one tool, page or upload: `tool:browse`, `page:URL`."
)
@click.option("--token", metavar="TOKEN", help="Of a dry run with --origin: erase what it named, without asking.")
@asking
@reasoned()
@dry()
@common
def erase(
    *,
    memories: tuple[str, ...],
    everything: bool,
    origin: str | None,
    token: str | None,
    yes: bool,
    reason: str,
    dry_run: bool,
) -> int | None:
    """Remove the memories with these ids, all of one origin, or the whole space, physically. There is no way back."""
    if bool(memories) + everything + (origin is not None) != 1:
        raise click.UsageError("name the memories to erase, or --origin, or --all")
    if token is not None and origin is None:
        raise click.UsageError("--token belongs to --origin")
    if origin is not None:
        return _erase_origin(_origin(origin), token=token, yes=yes, reason=reason, dry_run=dry_run)
    space = settings().space.value
    if not everything:
        confirm(f"Erase {', '.join(memories)} from the space {space!r}, with no way back?", yes=yes or dry_run)
        return _answer(MemoryEraseRequest(ids=memories, reason=reason, dry_run=dry_run))
    if not yes and not dry_run and not at_terminal():
        raise click.UsageError("--all erases the whole space: say --yes")
    confirm(f"Erase everything in the space {space!r}?", yes=yes or dry_run)
    return _answer(MemoryEraseRequest(whole_space=space, reason=reason, dry_run=dry_run))


def _origin(said: str) -> Origin:
    kind, _, name = said.partition(":")
    if kind not in set(OriginKind) or not name:
        raise click.BadParameter(f"is KIND:NAME, where KIND is {', '.join(OriginKind)}", param_hint="--origin")
    return valid(Origin, kind=kind, name=name)


def _erase_origin(origin: Origin, *, token: str | None, yes: bool, reason: str, dry_run: bool) -> int | None:
    """Name what came through `origin`, ask, and erase it. Without a terminal, `yes` or `token` it is named alone."""
    first = MemoryEraseRequest(origin=origin, token=token, reason=reason, dry_run=dry_run or token is None)

    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(first, MemoryControlReport)
        if not dry_run and token is None and report.decisions and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_common.controlled)
            confirm("Erase all of this, with no way back?", yes=yes)
            whole = MemoryEraseRequest(origin=origin, token=report.token, reason=reason)
            report = await session.call(whole, MemoryControlReport)
        out.report(report, tables_common.controlled)
        return None if report.decisions else NOT_FOUND

    return run(work)


def _answer(request: MemoryForgetRequest | MemoryCorrectRequest | MemoryEraseRequest) -> int | None:
    def code(report: MemoryControlReport) -> int | None:
        return NOT_FOUND if {each.outcome for each in report.decisions} == {ControlOutcome.NOT_FOUND} else None

    return answer(request, tables_common.controlled, code=code)
