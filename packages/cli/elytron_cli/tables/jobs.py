"""Human-readable reports of maintenance and its jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elytron.flows.maintenance import BacklogReport, MaintenanceBacklog
from elytron_cli.tables.layout import minute_text, show_table
from elytron_core.contracts.maintenance.jobs import JobListReport, JobReport, JobRunReport, JobView
from elytron_core.contracts.maintenance.maintenance import JournalCompactReport, MemoryMaintenanceReport
from elytron_core.planes.jobs import ModelUsage

if TYPE_CHECKING:
    from rich.console import Console


def show_maintenance(console: "Console", report: MemoryMaintenanceReport, /) -> None:
    """Show the outcome of each part of maintenance."""
    if report.refused is not None:
        console.print(f"maintenance was refused: {report.refused.value}")
        return
    rows = (
        (one.of, one.status, one.reason, ", ".join(f"{count} {name}" for name, count in one.counts.items()))
        for one in report.passes
    )
    show_table(console, ("part", "outcome", "why", "counts"), rows)
    more_note = "; more are waiting: run it again" if report.has_more else ""
    console.print(f"{report.turns} turns processed{more_note}")
    if report.job is not None:
        console.print(f"the rest is deferred to job {report.job}: elytron jobs run")
    _show_cost(console, report.spent)


def waiting_text(backlog: MaintenanceBacklog, /) -> str:
    """Return the backlog, and the maximum model usage for it."""
    waiting_clause = f"{backlog.turns} turns are waiting in {len(backlog.conversations)} conversations"
    cost_clause = f"; this takes up to {backlog.calls} model calls with about {backlog.tokens:,} input tokens"
    return f"{waiting_clause}{cost_clause}" if backlog.calls else waiting_clause


def worked_off(console: "Console", report: BacklogReport, /) -> None:
    """Show the result of processing a backlog, or the backlog."""
    console.print(waiting_text(report.backlog), soft_wrap=True)
    if report.dry_run:
        console.print("nothing was changed (dry run)")
        return
    counts = ", ".join(f"{count} {name}" for name, count in report.decisions.items()) or "nothing"
    console.print(f"{report.turns} turns of {report.conversations} conversations processed: {counts}")
    if report.stopped:
        console.print(f"stopped: {report.stopped}; {report.left} turns are left, run it again", soft_wrap=True)
    _show_cost(console, report.spent)


def jobs_listed(console: "Console", report: JobListReport, /) -> None:
    """Show jobs, the queue's health, and the day's budget."""
    _show_jobs(console, report.jobs)
    counts = ", ".join(f"{count} {state}" for state, count in report.counts.items()) or "no jobs"
    console.print(f"{report.health.value}: {counts}")
    console.print(f"remaining today: {report.calls_left} calls, {report.tokens_left} tokens")


def jobs_run(console: "Console", report: JobRunReport, /) -> None:
    """Show the jobs that ran, and their cost."""
    _show_jobs(console, report.jobs)
    console.print(f"{len(report.jobs)} jobs run, {report.waiting} waiting")
    _show_cost(console, report.spent)


def job_moved(console: "Console", report: JobReport, /) -> None:
    """Show one job."""
    _show_jobs(console, (report.job,))


def show_compaction(console: "Console", report: JournalCompactReport, /) -> None:
    """Show the result of a journal compaction."""
    summary = f"removed {report.removed} entries; the journal still ends at {report.sequence}"
    console.print(summary if report.changed else "nothing to compact")


def _show_jobs(console: "Console", jobs: Sequence[JobView]) -> None:
    rows = (
        (job.id, job.state, job.conversation, job.turns, job.attempts, minute_text(job.due_at), job.error)
        for job in jobs
    )
    columns = ("job", "state", "conversation", "turns", "tries", "due", "error")
    show_table(console, columns, rows, numbers=("turns", "tries"))


def _show_cost(console: "Console", spent: ModelUsage) -> None:
    if spent.calls:
        console.print(f"{spent.calls} calls, {spent.prompt_tokens} input and {spent.completion_tokens} output tokens")
