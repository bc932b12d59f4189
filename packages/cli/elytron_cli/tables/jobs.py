"""Reports of maintenance and its jobs, as people read them at a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elytron.flows.backlog import BacklogReport, MaintenanceBacklog
from elytron_cli.tables.common import table, when
from elytron_core.contracts.admin.compaction import JournalCompactReport
from elytron_core.contracts.admin.maintenance import (
    JobListReport,
    JobReport,
    JobRunReport,
    JobView,
    MemoryMaintenanceReport,
)
from elytron_core.planes.admin.jobs import Spent

if TYPE_CHECKING:
    from rich.console import Console


def maintained(console: "Console", report: MemoryMaintenanceReport, /) -> None:
    """Show what each part of maintenance came to."""
    if report.refused is not None:
        console.print(f"nothing was done: {report.refused.value}")
        return
    rows = (
        (one.of, one.status, one.reason, ", ".join(f"{count} {name}" for name, count in one.counts.items()))
        for one in report.passes
    )
    table(console, ("part", "outcome", "why", "counts"), rows)
    more = "; there are more: run it again" if report.has_more else ""
    console.print(f"{report.turns} turns looked at{more}")
    if report.job is not None:
        console.print(f"the rest is left to job {report.job}: elytron jobs run")
    _cost(console, report.spent)


def waiting(backlog: MaintenanceBacklog, /) -> str:
    """Return what waits, and what a model is asked for it at most."""
    waits = f"{backlog.turns} turns wait in {len(backlog.conversations)} conversations"
    asked = f"; the model is asked {backlog.calls} times at most, with about {backlog.tokens:,} tokens in"
    return f"{waits}{asked}" if backlog.calls else waits


def worked_off(console: "Console", report: BacklogReport, /) -> None:
    """Show what working a backlog off came to, or what waits."""
    console.print(waiting(report.backlog), soft_wrap=True)
    if report.dry_run:
        console.print("nothing was done, this was a dry run")
        return
    counts = ", ".join(f"{count} {name}" for name, count in report.decisions.items()) or "nothing"
    console.print(f"{report.turns} turns of {report.conversations} conversations looked at: {counts}")
    if report.stopped:
        console.print(f"stopped: {report.stopped}; {report.left} turns are left, run it again to go on", soft_wrap=True)
    _cost(console, report.spent)


def jobs_listed(console: "Console", report: JobListReport, /) -> None:
    """Show jobs, how the queue is, and the day's budget."""
    _shown(console, report.jobs)
    counts = ", ".join(f"{count} {state}" for state, count in report.counts.items()) or "no jobs"
    console.print(f"{report.health.value}: {counts}")
    console.print(f"left today: {report.calls_left} calls, {report.tokens_left} tokens")


def jobs_run(console: "Console", report: JobRunReport, /) -> None:
    """Show the jobs that were taken, and what that cost."""
    _shown(console, report.jobs)
    console.print(f"{len(report.jobs)} jobs taken, {report.waiting} waiting")
    _cost(console, report.spent)


def job_moved(console: "Console", report: JobReport, /) -> None:
    """Show one job."""
    _shown(console, (report.job,))


def compacted(console: "Console", report: JournalCompactReport, /) -> None:
    """Show what a compaction of the journal came to."""
    told = f"{report.removed} entries are gone; the journal ends at {report.sequence} as before"
    console.print(told if report.changed else "nothing to compact")


def _shown(console: "Console", jobs: Sequence[JobView]) -> None:
    rows = ((job.id, job.state, job.conversation, job.turns, job.attempts, when(job.due_at), job.error) for job in jobs)
    columns = ("job", "state", "conversation", "turns", "tries", "due", "error")
    table(console, columns, rows, numbers=("turns", "tries"))


def _cost(console: "Console", spent: Spent) -> None:
    if spent.calls:
        console.print(f"{spent.calls} calls, {spent.prompt_tokens} tokens in, {spent.completion_tokens} out")
