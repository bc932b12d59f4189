"""The queue of what was put off."""

from typing import Any

import click

from elytron_cli.input.options import Group, OneOf, common, limited
from elytron_cli.runner import answer
from elytron_cli.tables import jobs as tables_jobs
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import JobCancelRequest, JobListRequest, JobRetryRequest, JobRunRequest
from elytron_core.planes.admin.jobs import JobState


@click.group("jobs", cls=Group)
@common
def jobs() -> None:
    """See and do what was put off because it needs a language model."""


@jobs.command("list")
@click.option(
    "--state", "states", multiple=True, type=OneOf(JobState), help="Only jobs in this state; may be repeated."
)
@limited("How many jobs at most.")
@common
def list_jobs(**asked: Any) -> int | None:
    """List the space's jobs, and say whether they get done and what models may still cost today."""
    return answer(JobListRequest(**asked), tables_jobs.jobs_listed)


@jobs.command("run")
@click.argument("job", required=False)
@limited("How many jobs at most.", most=limits.JOBS_RUN_MAX, usual=limits.JOBS_RUN_MAX)
@common
def run_jobs(*, job: str | None, limit: int) -> int | None:
    """Do the jobs that are due, or the one with the id JOB. Needs --language-model."""
    return answer(JobRunRequest(id=job, limit=limit), tables_jobs.jobs_run)


@jobs.command("retry")
@click.argument("job")
@common
def retry(*, job: str) -> int | None:
    """Let the job with the id JOB be tried again at once, also one that was given up."""
    return answer(JobRetryRequest(id=job), tables_jobs.job_moved)


@jobs.command("cancel")
@click.argument("job")
@common
def cancel(*, job: str) -> int | None:
    """Give the job with the id JOB up; what it did already stays."""
    return answer(JobCancelRequest(id=job), tables_jobs.job_moved)
