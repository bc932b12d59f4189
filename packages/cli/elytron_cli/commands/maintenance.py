"""Maintenance commands: process what was said after it was stored."""

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
from elytron_core.contracts.maintenance.jobs import JobCancelRequest, JobListRequest, JobRetryRequest, JobRunRequest
from elytron_core.contracts.maintenance.maintenance import (
    ExtractionMethod,
    JournalCompactRequest,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
)
from elytron_core.planes.jobs import JobState, MaintenancePass


@page_command("maintain")
@click.option("--conversation", metavar="NAME", help="Conversation to process.")
@choice_option(
    "--extraction",
    ExtractionMethod.AUTO,
    "Method of extracting facts; auto uses the language model if one is configured, else rules.",
)
@click.option("--only", "passes", multiple=True, type=OneOf(MaintenancePass), help="Part to run. [default: all]")
@click.option(
    "--turns",
    type=click.IntRange(1, limits.MAINTAIN_TURNS),
    default=limits.MAINTAIN_TURNS,
    show_default=True,
    help="Maximum number of turns to process.",
)
@click.option("--all", "everything", is_flag=True, help="Process all conversations of the space to the end.")
@dry_run_option("With --all, show the backlog and the model calls it would take.")
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
    """Run maintenance on the turns that have not been processed yet, and report the result of each part.

    --all shows the maximum number of model calls before it starts, and resumes an interrupted run.
    """
    if everything and (conversation is not None):
        raise click.UsageError("--all covers every conversation: remove --conversation")
    if dry_run and not everything:
        raise click.UsageError("--dry-run requires --all")
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
    """Shorten the journal by merging runs of outdated entries; memories are unchanged.

    Bounded stores compact themselves. Compaction drops the names of erased memories: run `elytron erasures keep` first.
    """
    return answer_request(JournalCompactRequest(), jobs.show_compaction)


async def _work_off(
    session: CommandSession, output: CommandOutput, request: MemoryMaintainRequest, /, *, dry_run: bool, yes: bool
) -> None:
    """Process every conversation's backlog, after its maximum cost was confirmed."""
    assert request.scope is not None
    backlog = await read_backlog(session.runtime.context, request.scope, of=request.extraction)
    if dry_run:
        report = BacklogReport(space=backlog.space, backlog=backlog, left=backlog.turns, dry_run=True)
    else:
        if backlog.calls:
            confirm_question(f"{jobs.waiting_text(backlog)}. Continue?", yes=yes)
        with ProgressBar("maintaining", unit="turns", is_visible=not output.is_json) as bar:
            report = await work_off(session.call, request, backlog, progress=bar.at)
    output.report(report, jobs.worked_off)


async def _hint_waiting(
    session: CommandSession, output: CommandOutput, request: MemoryMaintainRequest, report: MemoryMaintenanceReport, /
) -> None:
    """Say that turns wait in other conversations, if none do in this one."""
    assert request.scope is not None
    backlog = await read_backlog(session.runtime.context, request.scope, of=ExtractionMethod.OFF)
    if backlog.turns:
        current_conversation = f"{report.channel}/{report.conversation}"
        count = len(backlog.conversations)
        waiting = backlog.conversations[0]
        options = f"--channel {shlex.quote(waiting.channel)} --conversation {shlex.quote(waiting.conversation)}"
        output.hint(
            f"no turns wait in {current_conversation!r}, but {backlog.turns} in {count} other conversations: "
            f"pass --all, or {options}"
        )


@click.group("jobs", cls=PageGroup)
@common_options
def jobs_commands() -> None:
    """List and run jobs that were deferred because they need a language model."""


@jobs_commands.command("list")
@click.option("--state", "states", multiple=True, type=OneOf(JobState), help="State of the jobs.")
@limit_option("Maximum number of jobs.")
@common_options
def list_jobs(**options: Any) -> int | None:
    """List the jobs of the space, with the health of the queue and today's remaining model budget."""
    return answer_request(JobListRequest(**options), tables_jobs.jobs_listed)


@jobs_commands.command("run")
@click.argument("job", required=False)
@limit_option("Maximum number of jobs.", most=limits.JOBS_RUN_MAX, usual=limits.JOBS_RUN_MAX)
@common_options
def run_jobs(*, job: str | None, limit: int) -> int | None:
    """Run the jobs that are due, or only the one with the id JOB; requires --language-model."""
    return answer_request(JobRunRequest(id=job, limit=limit), tables_jobs.jobs_run)


@jobs_commands.command("retry")
@click.argument("job")
@common_options
def retry_command(*, job: str) -> int | None:
    """Make the job with the id JOB due immediately, even if it was abandoned."""
    return answer_request(JobRetryRequest(id=job), tables_jobs.job_moved)


@jobs_commands.command("cancel")
@click.argument("job")
@common_options
def cancel_command(*, job: str) -> int | None:
    """Cancel the job with the id JOB; its completed work is preserved."""
    return answer_request(JobCancelRequest(id=job), tables_jobs.job_moved)
