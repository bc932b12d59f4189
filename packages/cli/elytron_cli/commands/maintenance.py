"""Maintenance: everything that is done with what was said, after it was said."""

import shlex
from typing import Any

import click

from elytron.flows.maintenance import BacklogReport, read_backlog, work_off
from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    limit_option,
    page_command,
    yes_option,
)
from elytron_cli.session import CommandSession, answer_request, run_work, scope_of
from elytron_cli.tables import jobs
from elytron_cli.tables import jobs as tables_jobs
from elytron_cli.terminal.output import CommandOutput, ProgressBar, confirm_question
from elytron_core import limits
from elytron_core.contracts.maintenance import (
    ExtractionMethod,
    JobCancelRequest,
    JobListRequest,
    JobRetryRequest,
    JobRunRequest,
    JournalCompactRequest,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
)
from elytron_core.planes.jobs import JobState, MaintenancePass


@page_command("maintain")
@click.option("--conversation", metavar="NAME", help="Which conversation's turns to look at.")
@choice_option(
    "--extraction",
    ExtractionMethod.AUTO,
    "How lasting facts are drawn from turns; auto is by the model if one is named, else by rules.",
)
@click.option("--only", "passes", multiple=True, type=OneOf(MaintenancePass), help="Only this part.")
@click.option(
    "--turns",
    type=click.IntRange(1, limits.MAINTAIN_TURNS),
    default=limits.MAINTAIN_TURNS,
    show_default=True,
    help="How many turns to look at, at most.",
)
@click.option("--all", "everything", is_flag=True, help="Every conversation of the space, until nothing is left.")
@dry_run_option("With --all: only say what waits, and what a model would be asked.")
@yes_option
@common_options
def maintain_command(
    *,
    conversation: str | None,
    extraction: ExtractionMethod,
    passes: tuple[MaintenancePass, ...],
    turns: int,
    everything: bool,
    dry_run: bool,
    yes: bool,
) -> int | None:
    """Work through the turns that were not maintained yet, and keep memory in order; each part reports its result.

    --all first says how much a model is asked at most, and continues an earlier run.
    """
    if everything and (conversation is not None):
        raise click.UsageError("--all is every conversation: leave --conversation out")
    if dry_run and not everything:
        raise click.UsageError("--dry-run needs --all")
    request = MemoryMaintainRequest(
        scope=scope_of(conversation), extraction=extraction, passes=passes or tuple(MaintenancePass), turns_max=turns
    )

    async def work(session: CommandSession, out: CommandOutput) -> None:
        if everything:
            await _work_off(session, out, request, dry_run=dry_run, yes=yes)
            return
        report = await session.call(request)
        out.report(report, jobs.show_maintenance)
        if not report.turns:
            await _hint_waiting(session, out, request, report)

    return run_work(work)


@page_command("compact")
@common_options
def compact_command() -> int | None:
    """Shorten the journal: replace runs of outdated entries by one entry each; memories stay as they are.

    A bounded store does so by itself. The names of what was erased go: `elytron erasures keep` comes before.
    """
    return answer_request(JournalCompactRequest(), jobs.show_compaction)


async def _work_off(
    session: CommandSession, out: CommandOutput, request: MemoryMaintainRequest, /, *, dry_run: bool, yes: bool
) -> None:
    """Do every conversation's backlog, after what it may cost was agreed to."""
    assert request.scope is not None
    backlog = await read_backlog(session.runtime.context, request.scope, of=request.extraction)
    if dry_run:
        report = BacklogReport(space=backlog.space, backlog=backlog, left=backlog.turns, dry_run=True)
    else:
        if backlog.calls:
            confirm_question(f"{jobs.waiting_text(backlog)}. Go on?", yes=yes)
        with ProgressBar("maintaining", unit="turns", shown=not out.is_json) as bar:
            report = await work_off(session.call, request, backlog, progress=bar.at)
    out.report(report, jobs.worked_off)


async def _hint_waiting(
    session: CommandSession, out: CommandOutput, request: MemoryMaintainRequest, report: MemoryMaintenanceReport, /
) -> None:
    """Say that turns wait in other conversations, where in this one none do."""
    assert request.scope is not None
    backlog = await read_backlog(session.runtime.context, request.scope, of=ExtractionMethod.OFF)
    if backlog.turns:
        here = f"{report.channel}/{report.conversation}"
        count = len(backlog.conversations)
        first = backlog.conversations[0]
        named = f"--channel {shlex.quote(first.channel)} --conversation {shlex.quote(first.conversation)}"
        out.hint(
            f"no turn of {here!r} waits, but {backlog.turns} in {count} other conversations: take --all, or {named}"
        )


@click.group("jobs", cls=PageGroup)
@common_options
def jobs_commands() -> None:
    """See and do what was put off because it needs a language model."""


@jobs_commands.command("list")
@click.option(
    "--state", "states", multiple=True, type=OneOf(JobState), help="Only jobs in this state; may be repeated."
)
@limit_option("How many jobs at most.")
@common_options
def list_jobs(**asked: Any) -> int | None:
    """List the space's jobs, and say whether they get done and what models may still cost today."""
    return answer_request(JobListRequest(**asked), tables_jobs.jobs_listed)


@jobs_commands.command("run")
@click.argument("job", required=False)
@limit_option("How many jobs at most.", most=limits.JOBS_RUN_MAX, usual=limits.JOBS_RUN_MAX)
@common_options
def run_jobs(*, job: str | None, limit: int) -> int | None:
    """Do the jobs that are due, or the one with the id JOB. Needs --language-model."""
    return answer_request(JobRunRequest(id=job, limit=limit), tables_jobs.jobs_run)


@jobs_commands.command("retry")
@click.argument("job")
@common_options
def retry_command(*, job: str) -> int | None:
    """Let the job with the id JOB be tried again at once, also one that was given up."""
    return answer_request(JobRetryRequest(id=job), tables_jobs.job_moved)


@jobs_commands.command("cancel")
@click.argument("job")
@common_options
def cancel_command(*, job: str) -> int | None:
    """Cancel the job with the id JOB; the work it has done stays."""
    return answer_request(JobCancelRequest(id=job), tables_jobs.job_moved)
