"""The queue of what was put off."""

import click

from elytron_cli.input.options import Command, Group, common, limited
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import jobs as tables_jobs
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import (
    JobCancelRequest,
    JobListReport,
    JobListRequest,
    JobReport,
    JobRetryRequest,
    JobRunReport,
    JobRunRequest,
)
from elytron_core.planes.admin.jobs import JobState


@click.group("jobs", cls=Group)
@common
def jobs() -> None:
    """See and do what was put off because it needs a language model."""


@jobs.command("list", cls=Command)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([member.value for member in JobState]),
    help="Only jobs in this state; may be repeated.",
)
@limited("How many jobs at most.")
@common
def list_jobs(*, states: tuple[str, ...], limit: int) -> int | None:
    """List the space's jobs, and say whether they get done and what models may still cost today."""
    request = JobListRequest(states=tuple(JobState(state) for state in states), limit=limit)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, JobListReport)
        out.report(report, lambda console: tables_jobs.jobs_listed(console, report))

    return run(work)


@jobs.command("run", cls=Command)
@click.argument("job", required=False)
@limited("How many jobs at most.", most=limits.JOBS_RUN_MAX, usual=limits.JOBS_RUN_MAX)
@common
def run_jobs(*, job: str | None, limit: int) -> int | None:
    """Do the jobs that are due, or the one with the id JOB. Needs --language-model."""
    request = JobRunRequest(id=job, limit=limit)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, JobRunReport)
        out.report(report, lambda console: tables_jobs.jobs_run(console, report))

    return run(work)


@jobs.command("retry", cls=Command)
@click.argument("job")
@common
def retry(*, job: str) -> int | None:
    """Let the job with the id JOB be tried again at once, also one that was given up."""
    return _move(JobRetryRequest(id=job))


@jobs.command("cancel", cls=Command)
@click.argument("job")
@common
def cancel(*, job: str) -> int | None:
    """Give the job with the id JOB up; what it did already stays."""
    return _move(JobCancelRequest(id=job))


def _move(request: JobRetryRequest | JobCancelRequest) -> int | None:
    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, JobReport)
        out.report(report, lambda console: tables_jobs.jobs_shown(console, (report.job,)))

    return run(work)
