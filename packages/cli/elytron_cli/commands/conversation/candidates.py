"""Proposed beliefs: the list of those that wait, and decisions on them."""

from pathlib import Path

import click

from elytron_cli.commands.conversation.write import conversation_scope
from elytron_cli.input.files import read_value
from elytron_cli.input.options import Command, Group, common, disclosing, in_conversation, limited
from elytron_cli.input.values import valid
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output
from elytron_core.contracts.conversation.candidates import (
    CandidateListReport,
    CandidateListRequest,
    CandidateResolveReport,
    CandidateResolveRequest,
    CandidatesWrite,
    Resolution,
)
from elytron_core.contracts.conversation.write import MemoryWriteRequest
from elytron_core.planes.conversation.candidates import CandidateState, Target
from elytron_store import WhenMissing

REFUSED = 2
_STATES = click.Choice([one.value for one in CandidateState])
_TARGETS = click.Choice([one.value for one in Target])
_REASON = click.option("--reason", default="", metavar="TEXT", help="Why; it is kept.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would become of it.")


@click.group("candidates", cls=Group)
@common
def candidates() -> None:
    """See proposed beliefs that wait, and decide on them."""


@candidates.command("list", cls=Command)
@click.option("--state", "states", multiple=True, type=_STATES, help="Only these; without, those that wait.")
@click.option("--target", "targets", multiple=True, type=_TARGETS, help="Only for that plane; may be repeated.")
@limited("How many.")
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@disclosing
@common
def list_candidates(
    *, states: tuple[str, ...], targets: tuple[str, ...], limit: int, cursor: str | None, include_private: bool
) -> int | None:
    """List candidates, oldest first."""
    wanted = {"states": tuple(map(CandidateState, states))} if states else {}
    request = valid(
        CandidateListRequest,
        targets=tuple(map(Target, targets)),
        limit=limit,
        cursor=cursor,
        include_private=include_private,
        **wanted,
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, CandidateListReport)
        out.report(report, lambda console: planes.candidates_listed(console, report))

    return run(work)


@candidates.command("propose", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common
def propose(*, file: Path, conversation: str | None) -> int | None:
    """Propose the beliefs in FILE (JSON); rules judge them, and what they do not decide waits."""
    write = read_value(CandidatesWrite, file)

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        report = await session.write(MemoryWriteRequest(scope=scope, write=write))
        out.report(report, lambda console: planes.written(console, report))

    return run(work, when_missing=WhenMissing.MAKE)


@candidates.command("accept", cls=Command)
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def accept(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Make the candidate with the id CANDIDATE a belief, if the merge guards let it."""
    return _resolve(candidate, Resolution.ACCEPT, reason, dry_run=dry_run)


@candidates.command("reject", cls=Command)
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def reject(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Turn the candidate with the id CANDIDATE down; the same one is not taken up again."""
    return _resolve(candidate, Resolution.REJECT, reason, dry_run=dry_run)


def _resolve(candidate: str, resolution: Resolution, reason: str, *, dry_run: bool) -> int | None:
    request = valid(CandidateResolveRequest, id=candidate, resolution=resolution, reason=reason, dry_run=dry_run)

    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(request, CandidateResolveReport)
        out.report(report, lambda console: planes.candidate_resolved(console, report))
        return None if report.changed or dry_run else REFUSED

    return run(work)
