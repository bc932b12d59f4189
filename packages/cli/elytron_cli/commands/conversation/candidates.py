"""Proposed beliefs: the list of those that wait, and decisions on them."""

from pathlib import Path
from typing import Any

import click

from elytron_cli.input.files import read_value
from elytron_cli.input.options import Group, OneOf, common, disclosing, dry, in_conversation, paged, reasoned
from elytron_cli.runner import answer, scope_of
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import planes
from elytron_core.contracts.conversation.candidates import (
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
_REASON = reasoned("Why; it is kept.")
_DRY_RUN = dry("Only say what would become of it.")


@click.group("candidates", cls=Group)
@common
def candidates() -> None:
    """See proposed beliefs that wait, and decide on them."""


@candidates.command("list")
@click.option(
    "--state", "states", multiple=True, type=OneOf(CandidateState), help="Only these; without, those that wait."
)
@click.option("--target", "targets", multiple=True, type=OneOf(Target), help="Only for that plane; may be repeated.")
@paged("How many.")
@disclosing
@common
def list_candidates(**asked: Any) -> int | None:
    """List candidates, oldest first."""
    if not asked["states"]:
        del asked["states"]
    return answer(CandidateListRequest(**asked), planes.candidates_listed)


@candidates.command("propose")
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common
def propose(*, file: Path, conversation: str | None) -> int | None:
    """Propose the beliefs in FILE (JSON); rules judge them, and what they do not decide waits."""
    request = MemoryWriteRequest(scope=scope_of(conversation), write=read_value(CandidatesWrite, file))
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)


@candidates.command("accept")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def accept(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Make the candidate with the id CANDIDATE a belief, if the merge guards let it."""
    return _resolve(candidate, Resolution.ACCEPT, reason, dry_run=dry_run)


@candidates.command("reject")
@click.argument("candidate")
@_REASON
@_DRY_RUN
@common
def reject(*, candidate: str, reason: str, dry_run: bool) -> int | None:
    """Turn the candidate with the id CANDIDATE down; the same one is not taken up again."""
    return _resolve(candidate, Resolution.REJECT, reason, dry_run=dry_run)


def _resolve(candidate: str, resolution: Resolution, reason: str, *, dry_run: bool) -> int | None:
    def code(report: CandidateResolveReport) -> int | None:
        return None if report.changed or dry_run else REFUSED

    request = CandidateResolveRequest(id=candidate, resolution=resolution, reason=reason, dry_run=dry_run)
    return answer(request, planes.candidate_resolved, code=code)
