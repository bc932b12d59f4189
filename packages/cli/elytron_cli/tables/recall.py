"""Recall as people read it at a terminal: hits, what spoke for them, where the cut fell, why something is missing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from elytron_cli.tables.common import minute_text, share_bar, show_hits, show_more, show_pairs, show_table
from elytron_cli.terminal.output import safe_line, safe_text
from elytron_core.contracts.recall import (
    AbsenceReason,
    MemoryRecallReport,
    NearbyTurn,
    NothingReason,
    RecallHit,
    RecallOutcome,
    RerankUse,
    WhyNot,
)
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptRepairReport,
    MemoryTranscriptReplayReport,
    RedactedTranscriptMessage,
)

if TYPE_CHECKING:
    from rich.console import Console


_NOTHING: Final = {
    NothingReason.NO_ANSWER: "nothing here answers; these are the nearest memories:",
    NothingReason.NOTHING_MATCHES_FILTERS: "the filters let nothing through: widen them",
    NothingReason.BELOW_MIN_SCORE: "nothing has the score that was asked for: lower --min-score",
    NothingReason.EMPTY_QUERY: "the question has no words to look for",
    NothingReason.EMPTY_SPACE: "nothing was ever stored in the space {space!r} here: add something, or import a file",
}
_ABSENCES: Final = {
    AbsenceReason.SHOWN: "is shown",
    AbsenceReason.UNKNOWN: "no such memory here",
    AbsenceReason.HIDDEN: "forgotten or replaced",
    AbsenceReason.FILTERED: "the filters leave it out",
    AbsenceReason.NO_MATCH: "nothing in it answers",
    AbsenceReason.MIN_SCORE: "its score is less than was asked for",
    AbsenceReason.EARLIER_PAGE: "is on an earlier page",
    AbsenceReason.LIMIT: "answers less well than those",
    AbsenceReason.TOKENS: "answers; tokens were spent",
}


def show_recall(console: "Console", report: MemoryRecallReport, /, *, explain: bool = False) -> None:
    """Show what was recalled and what a bound cut off; with `explain`, what spoke for each hit."""
    if report.reason is not None:
        console.print(_NOTHING[report.reason].format(space=safe_line(report.space)))
    if explain and report.hits:
        _show_explained(console, report)
    elif report.hits:
        _show_plain(console, report.hits)
    if report.outcome is RecallOutcome.DOUBTFUL:
        console.print("it is doubtful that these answer")
    for clip in report.clipped:
        console.print(f"{clip.dropped} more {clip.what} left out by {clip.reason.value} {clip.limit}")
    if report.rerank is RerankUse.FAILED:
        console.print("the reranker gave no order: hits are in the order of their own signals")
    if report.why_not:
        _show_missing(console, report.why_not)
    show_more(console, report.next_cursor)


def _show_plain(console: "Console", found: Sequence[RecallHit]) -> None:
    if not any(hit.before or hit.after for hit in found):
        show_hits(console, found)
        return
    for hit in found:
        _show_nearby(console, hit.before)
        show_hits(console, (hit,))
        _show_nearby(console, hit.after)


def _show_explained(console: "Console", report: MemoryRecallReport) -> None:
    best: dict[str, float] = {}
    for hit in report.hits:
        for name, value in hit.signals.items():
            best[name] = max(best.get(name, 0.0), abs(value))
    for place, hit in enumerate(report.hits, 1):
        _show_nearby(console, hit.before)
        show_hits(console, (hit,))
        rows = [
            (name, share_bar(abs(value) / (best[name] or 1.0)), f"{value:.3f}") for name, value in hit.signals.items()
        ]
        show_table(console, (f"{place}.", "of the best here", "value"), rows, numbers=("value",))
        if hit.newer is not None:
            console.print(f"    a newer word on it: {safe_text(hit.newer)}", soft_wrap=True)
        _show_nearby(console, hit.after)
    cut = f"; the cut fell at {report.cut:.3f}" if report.cut is not None else ""
    console.print(f"{report.considered} passed the filters, as of sequence {report.sequence}{cut}")


def _show_nearby(console: "Console", turns: Sequence[NearbyTurn]) -> None:
    for turn in turns:
        console.print(
            f"    {minute_text(turn.at)} {safe_line(turn.speaker or '')}: {safe_line(turn.text)}", soft_wrap=True
        )


def _show_missing(console: "Console", asked: Sequence[WhyNot]) -> None:
    rows = (
        (each.id, each.place, f"{each.score:.3f}" if each.score is not None else "", _ABSENCES[each.absence])
        for each in asked
    )
    show_table(console, ("id", "place", "score", "why"), rows, numbers=("place", "score"))


def show_view(console: "Console", report: MemoryTranscriptReplayReport, /) -> None:
    """Show a page of a conversation in its view, and how much was left out."""
    reasons = {item.message_id: item.reason.value for item in report.slice.redactions if item.attr_key is None}
    rows = (
        (
            turn.sequence,
            minute_text(message.at),
            _message_speaker(message),
            message.text if message.text is not None else f"({reasons.get(message.id, 'redacted')})",
        )
        for turn in report.slice.turns
        for message in turn.messages
    )
    show_table(console, ("turn", "date", "who", "text"), rows, numbers=("turn",))
    audit = report.slice.audit
    left = f"{audit.redacted_messages} messages, {audit.redacted_host_refs} references"
    reasons_told = ", ".join(reason.value for reason in audit.redaction_reasons)
    rows = [("view", audit.view.value), ("left out", left), ("because", reasons_told), ("alias", _alias_line(report))]
    show_pairs(console, rows)
    show_more(console, report.next_cursor)


def show_lifecycle(console: "Console", report: MemoryTranscriptLifecycleReport, /) -> None:
    """Show what a lifecycle request touched."""
    rests = ", ".join(f"{ref.plane.value} {ref.store_key}" for ref in report.derived_memory_refs)
    rows = [
        ("transition", report.transition.value),
        ("turns", str(report.affected_turns)),
        ("messages", str(len(report.affected_message_ids))),
        ("changed", "yes" if report.changed else "no"),
        ("rests on it", rests),
    ]
    show_pairs(console, rows)


def show_links(console: "Console", report: MemoryTranscriptRepairReport, /) -> None:
    """Show what a check of the links found."""
    beside = f"{report.checked_derived_refs} links, {report.checked_attributes} attributes"
    counts = f"{report.checked_turns} turns, {beside}"
    show_pairs(console, [("checked", counts), ("closed", "yes" if report.fail_closed else "no")])
    for issue in report.issues:
        console.print(f"  {issue.kind.value}: {issue.collection} {issue.key}", soft_wrap=True)


def _alias_line(report: MemoryTranscriptReplayReport) -> str:
    return "" if report.alias.value == "trusted" else report.alias.value


def _message_speaker(message: RedactedTranscriptMessage) -> str:
    return message.actor.speaker_id or message.role.value
