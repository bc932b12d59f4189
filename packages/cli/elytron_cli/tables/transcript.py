"""Human-readable reports of transcripts."""

from typing import TYPE_CHECKING

from elytron_cli.terminal.output import safe_line
from elytron_core.contracts.inspection import MemoryReplayReport
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptRepairReport,
    MemoryTranscriptReplayReport,
)

if TYPE_CHECKING:
    from rich.console import Console
from elytron_cli.tables.layout import minute_text, show_more, show_pairs, show_table


def show_turns(console: "Console", report: MemoryReplayReport, /) -> None:
    """Show turns in order."""
    if not report.total_turns:
        name = safe_line(report.conversation)
        console.print(f"no turns in the conversation {name!r}; `elytron inspect` lists conversations", soft_wrap=True)
        return
    rows = (
        (
            turn.sequence,
            minute_text(message.at or turn.recorded_at),
            message.speaker or message.role,
            f"{message.text} (forgotten)" if message.forgotten else message.text,
        )
        for turn in report.turns
        for message in turn.messages
    )
    show_table(console, ("turn", "date", "who", "text"), rows, numbers=("turn",))
    console.print(f"{len(report.turns)} of {report.total_turns} turns")
    show_more(console, report.next_cursor)


def show_view(console: "Console", report: MemoryTranscriptReplayReport, /) -> None:
    """Show a page of a conversation in its view, and how much was omitted."""
    reasons = {item.message_id: item.reason.value for item in report.slice.redactions if item.attr_key is None}
    rows = (
        (
            turn.sequence,
            minute_text(message.at),
            message.actor.speaker_id or message.role.value,
            message.text if message.text is not None else f"({reasons.get(message.id, 'redacted')})",
        )
        for turn in report.slice.turns
        for message in turn.messages
    )
    show_table(console, ("turn", "date", "who", "text"), rows, numbers=("turn",))
    audit = report.slice.audit
    omissions = f"{audit.redacted_messages} messages, {audit.redacted_host_refs} references"
    reasons_told = ", ".join(reason.value for reason in audit.redaction_reasons)
    rows = [
        ("view", audit.view.value),
        ("omitted", omissions),
        ("because", reasons_told),
        ("alias", "" if report.alias.value == "trusted" else report.alias.value),
    ]
    show_pairs(console, rows)
    show_more(console, report.next_cursor)


def show_lifecycle(console: "Console", report: MemoryTranscriptLifecycleReport, /) -> None:
    """Show what a lifecycle request affected."""
    derived_refs = ", ".join(f"{ref.plane.value} {ref.store_key}" for ref in report.derived_memory_refs)
    rows = [
        ("transition", report.transition.value),
        ("turns", str(report.affected_turns)),
        ("messages", str(len(report.affected_message_ids))),
        ("changed", "yes" if report.changed else "no"),
        ("dependants", derived_refs),
    ]
    show_pairs(console, rows)


def show_links(console: "Console", report: MemoryTranscriptRepairReport, /) -> None:
    """Show the result of a link check."""
    checked_counts = f"{report.checked_derived_refs} links, {report.checked_attributes} attributes"
    counts = f"{report.checked_turns} turns, {checked_counts}"
    show_pairs(console, [("checked", counts), ("closed", "yes" if report.fail_closed else "no")])
    for issue in report.issues:
        console.print(f"  {issue.kind.value}: {issue.collection} {issue.key}", soft_wrap=True)
