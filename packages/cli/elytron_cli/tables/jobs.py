"""Human-readable reports of maintenance and its jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elytron.flows.maintenance import BacklogReport, MaintenanceBacklog
from elytron_cli.tables.common import minute_text, show_table
from elytron_cli.terminal.output import safe_line
from elytron_core.contracts.maintenance.jobs import JobListReport, JobReport, JobRunReport, JobView
from elytron_core.contracts.maintenance.journal_compaction import JournalCompactReport
from elytron_core.contracts.maintenance.maintenance import MemoryMaintenanceReport
from elytron_core.contracts.recall import MemoryRecallReport
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteReport,
    AgentToolRegistryGetReport,
    AgentToolRegistryListReport,
    AgentToolRegistryUpsertReport,
)
from elytron_core.contracts.transcript import MemoryWriteReport
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
    more = "; more are waiting: run it again" if report.has_more else ""
    console.print(f"{report.turns} turns processed{more}")
    if report.job is not None:
        console.print(f"the rest is deferred to job {report.job}: elytron jobs run")
    _show_cost(console, report.spent)


def waiting_text(backlog: MaintenanceBacklog, /) -> str:
    """Return the backlog, and the maximum model usage for it."""
    waits = f"{backlog.turns} turns are waiting in {len(backlog.conversations)} conversations"
    cost = f"; this takes up to {backlog.calls} model calls with about {backlog.tokens:,} input tokens"
    return f"{waits}{cost}" if backlog.calls else waits


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


def show_registries(console: "Console", report: AgentToolRegistryListReport, /) -> None:
    """Show the registries, and the counts of known tools."""
    rows = (
        (
            one.registry_id,
            one.namespace,
            ":".join(part for part in (one.scope, one.scope_id) if part),
            len(one.tools),
            one.fingerprint,
        )
        for one in report.registries
    )
    show_table(console, ("registry", "namespace", "scope", "tools", "fingerprint"), rows, numbers=("tools",))
    summary = report.report
    counts = f"{summary.registries} registries, {summary.tools} tools ({summary.disabled_tools} disabled)"
    learned = f"{summary.governed_experiences} governed experiences ({summary.stale_experiences} stale)"
    console.print(f"{counts}; {learned}, {summary.candidate_experiences} candidates", soft_wrap=True)


def show_registry(console: "Console", report: AgentToolRegistryGetReport, /) -> None:
    """Show the tools of one registry."""
    rows = (
        (
            tool.tool_id,
            tool.version,
            tool.schema_fingerprint,
            ", ".join(tool.permission_tags),
            ", ".join(tool.risk_tags),
            "disabled" if tool.disabled else "",
        )
        for tool in report.registry.tools
    )
    show_table(console, ("tool", "version", "schema", "permissions", "risks", ""), rows)
    line = f"{safe_line(report.registry.registry_id)}  {report.registry.fingerprint}"
    console.print(f"{line}  registered {minute_text(report.registered_at)}", soft_wrap=True)


def show_registered(console: "Console", report: AgentToolRegistryUpsertReport, /) -> None:
    """Show the outcome of a snapshot."""
    if not report.accepted:
        console.print(f"refused: {report.reason} ({report.fingerprint})", soft_wrap=True)
        return
    outcome = "registered" if report.changed else "unchanged"
    console.print(f"{outcome}  {safe_line(report.registry_id)}  {report.fingerprint}", soft_wrap=True)


def show_registry_deleted(console: "Console", report: AgentToolRegistryDeleteReport, /) -> None:
    """Show the outcome of a deletion."""
    outcome = "deleted" if report.changed else "no such registry"
    console.print(f"{outcome} {safe_line(report.registry_id)}", soft_wrap=True)


def show_judgement(console: "Console", report: MemoryWriteReport, /) -> None:
    """Show governance's decision on feedback."""
    for decision in report.decisions:
        console.print(f"{decision.outcome.value}  {safe_line(decision.reason)}", soft_wrap=True)


def show_hints(console: "Console", report: MemoryRecallReport, /) -> None:
    """Show hints, and why others are missing."""
    rows = (
        (hint.tool_id, hint.registry_id, hint.confidence, hint.success_count, hint.reason)
        for hint in report.agent_tool_hints
    )
    show_table(console, ("tool", "registry", "confidence", "successes", "reason"), rows, numbers=("successes",))
    for rejected in report.tool_experience_status.rejected:
        what = "/".join(part for part in (rejected.registry_id, rejected.tool_id) if part)
        console.print(f"omitted  {safe_line(what)}: {rejected.reason.value}", soft_wrap=True)
    console.print(report.tool_experience_status.reason.value)
