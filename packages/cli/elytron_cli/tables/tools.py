"""Tools as people read them at a terminal."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import table, when
from elytron_cli.terminal.output import line
from elytron_core.contracts.conversation.write import MemoryWriteReport
from elytron_core.contracts.knowledge.recall import MemoryRecallReport
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteReport,
    AgentToolRegistryGetReport,
    AgentToolRegistryListReport,
    AgentToolRegistryUpsertReport,
)

if TYPE_CHECKING:
    from rich.console import Console


def listed(console: "Console", report: AgentToolRegistryListReport, /) -> None:
    """Show the registries, and how much is known of their tools."""
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
    table(console, ("registry", "namespace", "scope", "tools", "fingerprint"), rows, numbers=("tools",))
    known = report.report
    told = f"{known.registries} registries, {known.tools} tools ({known.disabled_tools} disabled)"
    learned = f"{known.governed_experiences} governed experiences ({known.stale_experiences} stale)"
    console.print(f"{told}; {learned}, {known.candidate_experiences} candidates", soft_wrap=True)


def shown(console: "Console", report: AgentToolRegistryGetReport, /) -> None:
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
    table(console, ("tool", "version", "schema", "permissions", "risks", ""), rows)
    told = f"{line(report.registry.registry_id)}  {report.registry.fingerprint}"
    console.print(f"{told}  registered {when(report.registered_at)}", soft_wrap=True)


def registered(console: "Console", report: AgentToolRegistryUpsertReport, /) -> None:
    """Show what became of a snapshot."""
    if not report.accepted:
        console.print(f"refused: {report.reason} ({report.fingerprint})", soft_wrap=True)
        return
    told = "registered" if report.changed else "unchanged"
    console.print(f"{told}  {line(report.registry_id)}  {report.fingerprint}", soft_wrap=True)


def deleted(console: "Console", report: AgentToolRegistryDeleteReport, /) -> None:
    """Show what became of a deletion."""
    told = "deleted" if report.changed else "there is no registry"
    console.print(f"{told} {line(report.registry_id)}", soft_wrap=True)


def judged(console: "Console", report: MemoryWriteReport, /) -> None:
    """Show what governance said of feedback."""
    for decision in report.decisions:
        console.print(f"{decision.outcome.value}  {line(decision.reason)}", soft_wrap=True)


def hinted(console: "Console", report: MemoryRecallReport, /) -> None:
    """Show hints, and what gives none."""
    rows = (
        (hint.tool_id, hint.registry_id, hint.confidence, hint.success_count, hint.reason)
        for hint in report.agent_tool_hints
    )
    table(console, ("tool", "registry", "confidence", "successes", "reason"), rows, numbers=("successes",))
    for rejected in report.tool_experience_status.rejected:
        what = "/".join(part for part in (rejected.registry_id, rejected.tool_id) if part)
        console.print(f"left out  {line(what)}: {rejected.reason.value}", soft_wrap=True)
    console.print(report.tool_experience_status.reason.value)
