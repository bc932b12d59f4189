"""Human-readable reports of a host's tools."""

from typing import TYPE_CHECKING

from elytron_cli.tables.layout import minute_text, show_table
from elytron_cli.terminal.output import safe_line
from elytron_core.contracts.recall import MemoryRecallReport
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteReport,
    AgentToolRegistryGetReport,
    AgentToolRegistryListReport,
    AgentToolRegistryUpsertReport,
)
from elytron_core.contracts.transcript import MemoryWriteReport

if TYPE_CHECKING:
    from rich.console import Console


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
    learned_text = f"{summary.governed_experiences} governed experiences ({summary.stale_experiences} stale)"
    console.print(f"{counts}; {learned_text}, {summary.candidate_experiences} candidates", soft_wrap=True)


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
    for rejected_tool in report.tool_experience_status.rejected:
        tool_name = "/".join(part for part in (rejected_tool.registry_id, rejected_tool.tool_id) if part)
        console.print(f"omitted  {safe_line(tool_name)}: {rejected_tool.reason.value}", soft_wrap=True)
    console.print(report.tool_experience_status.reason.value)
