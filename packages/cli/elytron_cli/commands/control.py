"""Forgetting, correcting and erasing."""

import click

from elytron_cli.input.files import valid_value
from elytron_cli.input.options import common_options, dry_run_option, page_command, reason_option, yes_option
from elytron_cli.runner import answer_request, run_settings, run_work
from elytron_cli.session import CommandSession
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.confirmation import at_terminal, confirm_question
from elytron_cli.terminal.output import CommandOutput
from elytron_core.contracts.control import (
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    OriginKind,
    OutsideOrigin,
)

NOT_FOUND = 3


@page_command("forget")
@click.argument("memories", nargs=-1, required=True)
@click.option("--undo", is_flag=True, help="Bring them back.")
@reason_option()
@dry_run_option()
@common_options
def forget_command(*, memories: tuple[str, ...], undo: bool, reason: str, dry_run: bool) -> int | None:
    """Hide the memories with these ids from recall and projection; evidence and history stay."""
    return _answer_control(MemoryForgetRequest(ids=memories, undo=undo, reason=reason, dry_run=dry_run))


@page_command("correct")
@click.argument("memory")
@click.argument("text")
@reason_option()
@dry_run_option()
@common_options
def correct_command(*, memory: str, text: str, reason: str, dry_run: bool) -> int | None:
    """Put TEXT in the place of the fact with the id MEMORY; the old word stays in its history."""
    return _answer_control(MemoryCorrectRequest(id=memory, content=text, reason=reason, dry_run=dry_run))


@page_command("erase")
@click.argument("memories", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Erase the whole space.")
@click.option(
    "--origin", metavar="KIND:NAME", help="All that came through one tool, page or upload: `tool:browse`, `page:URL`."
)
@click.option("--token", metavar="TOKEN", help="Of a dry run with --origin: erase what it named, without asking.")
@yes_option
@reason_option()
@dry_run_option()
@common_options
def erase_command(
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
        return _erase_origin(_named_origin(origin), token=token, yes=yes, reason=reason, dry_run=dry_run)
    space = run_settings().space.value
    if not everything:
        confirm_question(f"Erase {', '.join(memories)} from the space {space!r}, with no way back?", yes=yes or dry_run)
        return _answer_control(MemoryEraseRequest(ids=memories, reason=reason, dry_run=dry_run))
    if not yes and not dry_run and not at_terminal():
        raise click.UsageError("--all erases the whole space: say --yes")
    confirm_question(f"Erase everything in the space {space!r}?", yes=yes or dry_run)
    return _answer_control(MemoryEraseRequest(whole_space=space, reason=reason, dry_run=dry_run))


def _named_origin(said: str) -> OutsideOrigin:
    kind, _, name = said.partition(":")
    if kind not in set(OriginKind) or not name:
        raise click.BadParameter(f"is KIND:NAME, where KIND is {', '.join(OriginKind)}", param_hint="--origin")
    return valid_value(OutsideOrigin, kind=kind, name=name)


def _erase_origin(origin: OutsideOrigin, *, token: str | None, yes: bool, reason: str, dry_run: bool) -> int | None:
    """Name what came through `origin`, ask, and erase it. Without a terminal, `yes` or `token` it is named alone."""
    first = MemoryEraseRequest(origin=origin, token=token, reason=reason, dry_run=dry_run or token is None)

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        report = await session.call(first)
        if not dry_run and token is None and report.decisions and (yes or at_terminal()):
            if not yes:
                out.report(report, tables_common.show_controlled)
            confirm_question("Erase all of this, with no way back?", yes=yes)
            whole = MemoryEraseRequest(origin=origin, token=report.token, reason=reason)
            report = await session.call(whole)
        out.report(report, tables_common.show_controlled)
        return None if report.decisions else NOT_FOUND

    return run_work(work)


def _answer_control(request: MemoryForgetRequest | MemoryCorrectRequest | MemoryEraseRequest) -> int | None:
    def code(report: MemoryControlReport) -> int | None:
        return NOT_FOUND if {each.outcome for each in report.decisions} == {ControlOutcome.NOT_FOUND} else None

    return answer_request(request, tables_common.show_controlled, code=code)
