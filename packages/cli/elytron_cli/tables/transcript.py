"""Transcripts as people read them."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import more, pairs, table, when
from elytron_core.contracts.conversation.transcript import (
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptRepairReport,
    MemoryTranscriptReplayReport,
    RedactedTranscriptMessage,
)

if TYPE_CHECKING:
    from rich.console import Console


def viewed(console: "Console", report: MemoryTranscriptReplayReport, /) -> None:
    """Show a page of a conversation in its view, and how much was left out."""
    reasons = {item.message_id: item.reason.value for item in report.slice.redactions if item.attr_key is None}
    rows = (
        (
            turn.sequence,
            when(message.at),
            _who(message),
            message.text if message.text is not None else f"({reasons.get(message.id, 'redacted')})",
        )
        for turn in report.slice.turns
        for message in turn.messages
    )
    table(console, ("turn", "date", "who", "text"), rows, numbers=("turn",))
    audit = report.slice.audit
    left = f"{audit.redacted_messages} messages, {audit.redacted_host_refs} references"
    reasons_told = ", ".join(reason.value for reason in audit.redaction_reasons)
    rows = [("view", audit.view.value), ("left out", left), ("because", reasons_told), ("alias", _alias(report))]
    pairs(console, rows)
    more(console, report.next_cursor)


def turned(console: "Console", report: MemoryTranscriptLifecycleReport, /) -> None:
    """Show what a lifecycle request touched."""
    rests = ", ".join(f"{ref.plane.value} {ref.store_key}" for ref in report.derived_memory_refs)
    rows = [
        ("transition", report.transition.value),
        ("turns", str(report.affected_turns)),
        ("messages", str(len(report.affected_message_ids))),
        ("changed", "yes" if report.changed else "no"),
        ("rests on it", rests),
    ]
    pairs(console, rows)


def checked(console: "Console", report: MemoryTranscriptRepairReport, /) -> None:
    """Show what a check of the links found."""
    beside = f"{report.checked_derived_refs} links, {report.checked_attributes} attributes"
    counts = f"{report.checked_turns} turns, {beside}"
    pairs(console, [("checked", counts), ("closed", "yes" if report.fail_closed else "no")])
    for issue in report.issues:
        console.print(f"  {issue.kind.value}: {issue.collection} {issue.key}", soft_wrap=True)


def _alias(report: MemoryTranscriptReplayReport) -> str:
    return "" if report.alias.value == "trusted" else report.alias.value


def _who(message: RedactedTranscriptMessage) -> str:
    return message.actor.speaker_id or message.role.value
