"""Human-readable reports of hits, blocks and single memories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from elytron_cli.tables.inspection import show_losses
from elytron_cli.terminal.output import safe_line, safe_text
from elytron_core.contracts.memories import HistoryItem, MemoryControlReport, MemoryHistoryReport, MemoryListReport
from elytron_core.contracts.projection import MemoryProjectionReport, MissReason
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
    MemoryWriteReport,
)
from elytron_core.evidence import TrustLevel

if TYPE_CHECKING:
    from rich.console import Console
from elytron_cli.tables.layout import (
    known_by_id,
    minute_text,
    show_future_claims,
    show_more,
    show_other_spaces,
    show_pairs,
    show_table,
)

BAR_CELLS = 24


_MISSES: Final = {
    MissReason.NO_BUDGET: "the block is too small",
    MissReason.NOTHING_RELEVANT: "nothing relevant was found",
    MissReason.EMPTY_SPACE: "the space is empty",
    MissReason.NOT_ADMITTED: "the host's mode does not allow any",
}


def hit_time(hit: RecallHit, /) -> str:
    """Return when a memory was said or observed; if that is after its recording, both times."""
    if hit.recorded_at is None:
        return minute_text(hit.at)
    return f"{minute_text(hit.recorded_at)} (claims {minute_text(hit.at)})"


def share_bar(share: float, /) -> str:
    """Return a bar whose filled part is `share`, between 0 and 1, of its cells."""
    filled_cells = round(min(max(share, 0.0), 1.0) * BAR_CELLS)
    return "█" * filled_cells + "·" * (BAR_CELLS - filled_cells)


def _hit_speaker(hit: RecallHit) -> str:
    """Return the speaker of a memory, with a mark if it came from outside."""
    return f"{_speaker_name(hit)} (outside)" if hit.trust is TrustLevel.OUTSIDE else _speaker_name(hit)


def _speaker_name(hit: RecallHit) -> str:
    if hit.speaker is not None:
        return hit.speaker
    return hit.role.value if hit.role is not None else (hit.kind.value if hit.kind is not None else hit.plane.value)


def show_hits(console: "Console", hits: Sequence[RecallHit], /) -> None:
    """Show memories best first, with date, speaker, score, text and id."""
    rows = [((hit_time(hit), _hit_speaker(hit), f"{hit.score:.3f}", hit.text), hit.id) for hit in hits]
    known_by_id(console, ("date", "who", "score", "text"), rows, numbers=("score",))


def marked_hits(console: "Console", hits: Sequence[RecallHit], marks: Sequence[str], /) -> None:
    """Show memories best first, a mark before each, with date, speaker, score and text."""
    rows = (
        (mark, hit_time(hit), _hit_speaker(hit), f"{hit.score:.3f}", hit.text)
        for mark, hit in zip(marks, hits, strict=True)
    )
    show_table(console, ("", "date", "who", "score", "text"), rows, numbers=("score",))


def show_projection(console: "Console", report: MemoryProjectionReport, /, *, explain: bool = False) -> None:
    """Show the block and, beneath it, how its budget was used; with `explain`, the gate's numbers."""
    gate = report.gate
    is_held_back = gate is not None and gate.left_out > 0 and not gate.is_open
    miss_text = _MISSES[report.miss_reason] if report.miss_reason is not None else ""
    if is_held_back and report.miss_reason is MissReason.NOTHING_RELEVANT:
        miss_text = "none was asked for"
    console.print(safe_text(report.system_memory_block) or f"no memory is shown: {miss_text}", soft_wrap=True)
    console.print()
    show_budget(console, report)
    if gate is not None and is_held_back:
        count = f"{gate.left_out} {'memories' if gate.left_out > 1 else 'memory'}"
        console.print(f"{count} held back: the query does not seem to ask for what is remembered")
    if gate is not None and explain:
        columns = ("plane", "evidence", "searched", "asks", "context", "chance", "shown")
        rows = ((*map(str, row.model_dump(mode="json").values()),) for row in gate.planes)
        show_table(console, columns, rows, numbers=columns[1:-1])


def show_budget(console: "Console", report: MemoryProjectionReport, /) -> None:
    """Show a bar for the whole block and one for each part of it."""
    chars = len(report.system_memory_block)
    parts = [("block", chars, report.budget, "", "")]
    parts += [(part.name, part.chars, part.budget, len(part.included), len(part.dropped)) for part in report.sections]
    rows = (
        (name, f"{chars}/{part_budget}", share_bar(chars / part_budget if part_budget else 0.0), *counts)
        for name, chars, part_budget, *counts in parts
    )
    columns = ("part", "characters", "", "shown", "omitted")
    show_table(console, columns, rows, numbers=("characters", "shown", "omitted"))


def show_memories(console: "Console", report: MemoryListReport, /) -> None:
    """Show a page of memories by id."""
    rows = [((hit_time(hit), _hit_speaker(hit), hit.text), hit.id) for hit in report.items]
    show_losses(console, report.losses)
    known_by_id(console, ("date", "who", "text"), rows, none="no matching memories")
    show_more(console, report.next_cursor)


def show_memory(console: "Console", hit: RecallHit, /) -> None:
    """Show one memory, whole."""
    place_text = "/".join(part for part in (hit.channel, hit.conversation) if part is not None)
    heading_fields = {
        "id": hit.id,
        "date": hit_time(hit),
        "who": _hit_speaker(hit),
        "in": place_text,
        "plane": hit.plane.value,
    }
    show_pairs(console, (heading_fields | {"tags": ", ".join(hit.tags)}).items())
    console.print()
    console.print(safe_text(hit.text), soft_wrap=True)


def show_history(console: "Console", report: MemoryHistoryReport, /) -> None:
    """Show the history of a memory, oldest first."""
    rows = ((_event_time(item), item.event, item.id, item.text, item.reason) for item in report.items)
    show_table(console, ("date", "event", "id", "text", "reason"), rows)


def _event_time(item: HistoryItem) -> str:
    claimed_text = f" (claims {minute_text(item.claimed_at)})" if item.claimed_at is not None else ""
    return f"{minute_text(item.at)}{claimed_text}"


def show_written(console: "Console", report: MemoryWriteReport, /) -> None:
    """Show the outcome of each part of a write."""
    for decision in report.decisions:
        reason_text = f"  {safe_line(decision.reason)}" if decision.reason else ""
        console.print(
            f"{decision.outcome.value}  {safe_line(decision.name or decision.id or '')}{reason_text}", soft_wrap=True
        )
    show_future_claims(console, report.future_claims)


def show_controlled(console: "Console", report: MemoryControlReport, /) -> None:
    """Show what was done, or would be done, to each memory."""
    show_table(console, ("id", "outcome", "new id"), ((one.id, one.outcome, one.new_id) for one in report.decisions))
    for one in report.decisions:
        if one.reason is not None:
            console.print(f"{safe_line(one.id)}: {safe_text(one.reason)}", soft_wrap=True)
        for remaining_copy in one.remaining:
            console.print(f"another version remains, for another period: {safe_line(remaining_copy)}", soft_wrap=True)
    for layer in report.layers:
        line = f"{layer.place.value}: {layer.state.value.replace('_', ' ')}"
        console.print(f"{line} ({layer.reason})" if layer.reason else line, soft_wrap=True)
    for name, count in report.removed.items():
        console.print(f"{'would remove' if report.dry_run else 'removed'} {count} from {name}")
    for derived in report.derived:
        console.print(f"depends on erased content and remains: {safe_line(derived)}", soft_wrap=True)
    show_other_spaces(console, report.other_spaces)
    if not report.changed:
        console.print("nothing was changed")


_NOTHING: Final = {
    NothingReason.NO_ANSWER: "no memory answers the query; these are the nearest:",
    NothingReason.NOTHING_MATCHES_FILTERS: "no memory passes the filters: relax them",
    NothingReason.BELOW_MIN_SCORE: "no memory reaches the minimum score: lower --min-score",
    NothingReason.HELD_BACK: "memories are held back: the query does not seem to ask for what is remembered",
    NothingReason.EMPTY_QUERY: "the query has no words to search for",
    NothingReason.LOST: "nothing is left in the space {space!r}: damage took memories that were stored here",
    NothingReason.EMPTY_SPACE: "nothing has been stored in the space {space!r} yet: add something, or import a file",
}


_ABSENCES: Final = {
    AbsenceReason.SHOWN: "included",
    AbsenceReason.UNKNOWN: "no such memory",
    AbsenceReason.HIDDEN: "forgotten or replaced",
    AbsenceReason.FILTERED: "excluded by the filters",
    AbsenceReason.NO_MATCH: "does not match the query",
    AbsenceReason.MIN_SCORE: "below the minimum score",
    AbsenceReason.HELD_BACK: "held back: not asked for, or far behind the best",
    AbsenceReason.EARLIER_PAGE: "on an earlier page",
    AbsenceReason.LIMIT: "ranked below the limit",
    AbsenceReason.TOKENS: "relevant, but exceeds the token budget",
}


def show_recall(console: "Console", report: MemoryRecallReport, /, *, explain: bool = False) -> None:
    """Show what was recalled and what a limit cut off; with `explain`, the signals of each hit."""
    show_losses(console, report.losses)
    if report.reason is not None:
        console.print(_NOTHING[report.reason].format(space=safe_line(report.space)))
    if explain and report.hits:
        _show_explained(console, report)
    elif report.hits:
        _show_plain(console, report.hits)
    if report.outcome is RecallOutcome.DOUBTFUL:
        console.print("these may not answer the query")
    for clip in report.clipped:
        console.print(f"{clip.dropped} more {clip.what} omitted: {clip.reason.value} {clip.limit}")
    if report.rerank is RerankUse.FAILED:
        console.print("the reranker failed; hits are ordered by their own signals")
    if report.why_not:
        _show_missing(console, report.why_not)
    show_more(console, report.next_cursor)


def _show_plain(console: "Console", hits: Sequence[RecallHit]) -> None:
    if not any(hit.before or hit.after for hit in hits):
        show_hits(console, hits)
        return
    for hit in hits:
        _show_nearby(console, hit.before)
        show_hits(console, (hit,))
        _show_nearby(console, hit.after)


def _show_explained(console: "Console", report: MemoryRecallReport) -> None:
    best_signals: dict[str, float] = {}
    for hit in report.hits:
        for name, value in hit.signals.items():
            best_signals[name] = max(best_signals.get(name, 0.0), abs(value))
    for rank, hit in enumerate(report.hits, 1):
        _show_nearby(console, hit.before)
        show_hits(console, (hit,))
        rows = [
            (name, share_bar(abs(value) / (best_signals[name] or 1.0)), f"{value:.3f}")
            for name, value in hit.signals.items()
        ]
        show_table(console, (f"{rank}.", "relative to the best", "value"), rows, numbers=("value",))
        if hit.newer is not None:
            console.print(f"    newer: {safe_text(hit.newer)}", soft_wrap=True)
        _show_nearby(console, hit.after)
    cut_text = f"; cut off at {report.cut:.3f}" if report.cut is not None else ""
    console.print(f"{report.considered} memories passed the filters, as of sequence {report.sequence}{cut_text}")


def _show_nearby(console: "Console", turns: Sequence[NearbyTurn]) -> None:
    for turn in turns:
        console.print(
            f"    {minute_text(turn.at)} {safe_line(turn.speaker or '')}: {safe_line(turn.text)}", soft_wrap=True
        )


def _show_missing(console: "Console", absences: Sequence[WhyNot]) -> None:
    rows = (
        (
            absence.id,
            absence.place,
            f"{absence.score:.3f}" if absence.score is not None else "",
            _ABSENCES[absence.absence],
        )
        for absence in absences
    )
    show_table(console, ("id", "place", "score", "why"), rows, numbers=("place", "score"))
