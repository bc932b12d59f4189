"""Proposed changes to memory: read, tried on a copy, and submitted."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_cli.exit_codes import FAILURE
from elytron_cli.input.options import Group, common, common_but_profile
from elytron_cli.input.profile_names import profiled
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.terminal.output import Output, line
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_replay.evolve import SandboxReport

_FILE = click.argument("proposal", type=click.Path(path_type=Path))
_PROFILE = profiled("The kind of place that memory runs in; it decides how thoroughly a proposal is tried.")


@click.group("evolve", cls=Group)
@common
def evolve() -> None:
    """Try proposed changes on a copy of memory, and submit what did well."""


@evolve.command("try")
@_FILE
@_PROFILE
@common_but_profile
def try_out(*, proposal: Path, profile: ProfileName) -> int | None:
    """Try the PROPOSAL in this JSON file; nothing is written. Exits with 1 if it did not do well."""
    return _run(proposal, profile, submitting=False)


@evolve.command("submit")
@_FILE
@_PROFILE
@common_but_profile
def submit(*, proposal: Path, profile: ProfileName) -> int | None:
    """Try the PROPOSAL once more and, if it does well, write it."""
    return _run(proposal, profile, submitting=True)


def _run(path: Path, profile: ProfileName, *, submitting: bool) -> int | None:
    from elytron_replay import evolve as evolving

    async def work(session: Session, out: Output) -> int | None:
        proposal = evolving.load_proposal(path)
        if submitting:
            report, written = await evolving.submit(session.runtime, proposal, profile=profile)
        else:
            report, written = await evolving.try_out(session.runtime, proposal, profile=profile), None
        out.report(report, _shown)
        if written is not None:
            out.report(written, lambda console, _: console.print(f"submitted: {line(', '.join(written.ids))}"))
        return None if report.ok else FAILURE

    return run(work, when_missing=WhenMissing.MAKE if submitting else WhenMissing.REFUSE)


def _shown(console: "Console", report: "SandboxReport") -> None:
    tier = report.review.tier.value if report.review.tier is not None else "no"
    console.print(f"{line(report.review.proposal)}: {tier} trial, {'good' if report.ok else 'not good enough'}")
    for rejection in report.review.rejections:
        console.print(f"  rejected: {rejection.value}")
    for decision in report.decisions:
        console.print(
            f"  {decision.verdict.value} {line(decision.id or decision.plane)} {decision.reason}", soft_wrap=True
        )
    if report.asked:
        console.print(f"  {report.asked} memories asked for, {len(report.displaced)} pushed aside")
