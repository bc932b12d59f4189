"""Human-readable reports. Stored text is printed as plain text: no markup, and no terminal control sequences."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, cast

from elytron_cli.terminal.output import safe_line, safe_text
from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.control import HistoryItem, MemoryControlReport, MemoryHistoryReport, MemoryListReport
from elytron_core.contracts.inspection import JournalAccount, MemoryInspectionReport, MemoryReplayReport, StoreCheck
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
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptRepairReport,
    MemoryTranscriptReplayReport,
    MemoryWriteReport,
)
from elytron_core.evidence import TrustLevel
from elytron_core.policy.admission.claimed_times import future_claim_text
from elytron_core.profiles import ErasurePromise, SpaceLoss, StoreCapabilities, count_text
from elytron_core.scope import FutureClaims

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


BAR_CELLS = 24
_WIDE = 120
"""Minimum columns for an id next to a text."""
_MISSES: Final = {
    MissReason.NO_BUDGET: "the block is too small",
    MissReason.NOTHING_RELEVANT: "nothing relevant was found",
    MissReason.EMPTY_SPACE: "the space is empty",
    MissReason.NOT_ADMITTED: "the host's mode does not allow any",
}


def minute_text(at: Instant | None, /) -> str:
    """Return `at` to the minute, in UTC."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def hit_time(hit: RecallHit, /) -> str:
    """Return when a memory was said or observed; if that is after its recording, both times."""
    if hit.recorded_at is None:
        return minute_text(hit.at)
    return f"{minute_text(hit.recorded_at)} (claims {minute_text(hit.at)})"


def show_future_claims(console: "Console", claims: FutureClaims, /) -> None:
    """Show which times of a request lie in the future and are ignored for ordering."""
    for claim in claims:
        console.print(safe_line(future_claim_text(claim)), soft_wrap=True)


def show_other_spaces(console: "Console", spaces: Sequence[str], /) -> None:
    """Show which spaces of the same user an operation on one space did not reach."""
    if spaces:
        names = ", ".join(map(safe_line, spaces))
        console.print(f"this user has other spaces, which are not included: {names}", soft_wrap=True)


def share_bar(share: float, /) -> str:
    """Return a bar whose filled part is `share`, between 0 and 1, of its cells."""
    filled = round(min(max(share, 0.0), 1.0) * BAR_CELLS)
    return "█" * filled + "·" * (BAR_CELLS - filled)


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
    nothing = _MISSES[report.miss_reason] if report.miss_reason is not None else ""
    if is_held_back and report.miss_reason is MissReason.NOTHING_RELEVANT:
        nothing = "none was asked for"
    console.print(safe_text(report.system_memory_block) or f"no memory is shown: {nothing}", soft_wrap=True)
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
        (name, f"{chars}/{room}", share_bar(chars / room if room else 0.0), *counts)
        for name, chars, room, *counts in parts
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
    place = "/".join(part for part in (hit.channel, hit.conversation) if part is not None)
    head = {"id": hit.id, "date": hit_time(hit), "who": _hit_speaker(hit), "in": place, "plane": hit.plane.value}
    show_pairs(console, (head | {"tags": ", ".join(hit.tags)}).items())
    console.print()
    console.print(safe_text(hit.text), soft_wrap=True)


def show_history(console: "Console", report: MemoryHistoryReport, /) -> None:
    """Show the history of a memory, oldest first."""
    rows = ((_event_time(item), item.event, item.id, item.text, item.reason) for item in report.items)
    show_table(console, ("date", "event", "id", "text", "reason"), rows)


def _event_time(item: HistoryItem) -> str:
    claimed = f" (claims {minute_text(item.claimed_at)})" if item.claimed_at is not None else ""
    return f"{minute_text(item.at)}{claimed}"


def show_written(console: "Console", report: MemoryWriteReport, /) -> None:
    """Show the outcome of each part of a write."""
    for one in report.decisions:
        why = f"  {safe_line(one.reason)}" if one.reason else ""
        console.print(f"{one.outcome.value}  {safe_line(one.name or one.id or '')}{why}", soft_wrap=True)
    show_future_claims(console, report.future_claims)


def show_controlled(console: "Console", report: MemoryControlReport, /) -> None:
    """Show what was done, or would be done, to each memory."""
    show_table(console, ("id", "outcome", "new id"), ((one.id, one.outcome, one.new_id) for one in report.decisions))
    for one in report.decisions:
        if one.reason is not None:
            console.print(f"{safe_line(one.id)}: {safe_text(one.reason)}", soft_wrap=True)
        for other in one.remaining:
            console.print(f"another version remains, for another period: {safe_line(other)}", soft_wrap=True)
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


def show_inspection(console: "Console", report: MemoryInspectionReport, /) -> None:
    """Show the contents of a space, and the findings of a check."""
    is_damaged = report.store_check is not None and not report.store_check.ok
    is_empty = not (report.losses or report.sequence or is_damaged)
    nothing = "nothing stored yet" if is_empty else "nothing can be read"
    if report.acknowledged:
        for loss in report.losses:
            console.print(f"acknowledged, not reported any more: {safe_line(loss_text(loss))}", soft_wrap=True)
    else:
        show_losses(console, report.losses)
    show_pairs(
        console,
        {
            "space": report.space if report.exists else f"{report.space} ({nothing})",
            "engine": report.engine,
            "store": promises_text(report.store),
            "journal": str(report.sequence),
            "documents": ", ".join(
                count_text(count, name.removesuffix("s"), name) for name, count in report.documents.items() if count
            ),
            "from": minute_text(report.first_at),
            "to": minute_text(report.last_at),
            "speakers": ", ".join(report.speakers),
            "index": f"{report.indexed_units} units, {report.index_bytes:,} bytes",
            "vectors": _vectors_text(report),
            "state": report.state_fingerprint,
            "events": report.event_fingerprint,
            "head": report.head,
            "--head": report.head_standing.value if report.head_standing is not None else "",
        }.items(),
    )
    rows = (
        (f"{one.channel}/{one.conversation}", one.turns, minute_text(one.first_at), minute_text(one.last_at), one.title)
        for one in report.conversations
    )
    show_table(console, ("conversation", "turns", "from", "to", "title"), rows, numbers=("turns",))
    if report.store_check is not None:
        show_check(console, report.store_check)
    if report.journal_account is not None:
        console.print(f"journal: {account_text(report.journal_account)}", soft_wrap=True)


def loss_text(loss: SpaceLoss, /) -> str:
    """Return what was lost in which space."""
    space = "a space that is not known" if loss.space is None else f"the space {loss.space!r}"
    return f"{minute_text(loss.at)}, of {space}: {loss.summary}"


def show_losses(console: "Console", losses: Sequence[SpaceLoss], /) -> None:
    """Show what repairs could not save, and how an operator acknowledges it."""
    for loss in losses:
        console.print(f"LOST {safe_line(loss_text(loss))}", soft_wrap=True)
    if losses:
        console.print("`elytron inspect --space NAME --acknowledge` ends the report of one", soft_wrap=True)


def show_check(console: "Console", checked: StoreCheck, /) -> None:
    """Show the findings of reading the whole store, and what a repair did about them."""
    entries = count_text(checked.entries, "entry", "entries")
    counts = f"{count_text(checked.documents, 'document')}, {entries}, {count_text(checked.blobs, 'blob')} read"
    is_damaged = bool(checked.problems) and not checked.repaired
    state = "DAMAGED" if is_damaged else "repaired" if checked.problems else "LOSSY" if checked.losses else "sound"
    console.print(f"store: {state}; {counts}")
    if checked.losses:
        console.print(f"  unacknowledged losses: {checked.losses}")
    for problem in checked.problems:
        aside = " (moved aside)" if problem.quarantined else ""
        console.print(f"  {problem.damage}: {safe_line(problem.what)}{aside}", soft_wrap=True)


def _vectors_text(report: MemoryInspectionReport) -> str:
    """Return how many units have vectors of which model, and how many lack one; empty if not applicable."""
    if not report.embedded_units and not report.unembedded_units:
        return ""
    lacking = f"{report.unembedded_units} without vectors" if report.unembedded_units else ""
    stale = f"{lacking} ({report.stale_units} of them have vectors of another model)" if report.stale_units else lacking
    counts = (f"{count} by {safe_line(model)}" for model, count in report.embedded_units.items())
    return ", ".join(filter(None, (*counts, stale)))


_ERASURES = {
    ErasurePromise.NO_BYTE: "erasure leaves no bytes behind",
    ErasurePromise.OF_TABLES: "erasure leaves no bytes in tables; copies elsewhere on the database server are reported",
    ErasurePromise.OF_SERVER: "erasure as provided by the server's store",
}


def promises_text(store: StoreCapabilities, /) -> str:
    """Return a store's guarantees in words."""
    durability = "durable" if store.durable else "lost when closed"
    writers = "single writer" if store.single_writer else "multiple writers"
    erasure = _ERASURES[store.erasure]
    return ", ".join((durability, writers, erasure, *(["sealed"] if store.sealed else [])))


def account_text(account: JournalAccount, /) -> str:
    """Return the result of comparing documents with their journal in words."""
    summary = f"{account.told} documents match their last journal entries"
    compaction = f"; {account.compacted} emptied entries were compacted" if account.compacted else ""
    if account.ok:
        return summary + compaction
    made_up = f", {account.unproven} runs of entries REMOVED" if account.unproven else ""
    return (
        f"{account.told - account.altered} of {summary}, {account.altered} DO NOT, {account.missing} "
        f"missing{made_up}{compaction}"
    )


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


def show_pairs(console: "Console", rows: Iterable[tuple[str, str]], /) -> None:
    """Show names and values, without empty values. A name may be in several rows."""
    filled_rows = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in filled_rows), default=0)
    for name, value in filled_rows:
        console.print(f"{name:<{width}}  {safe_line(value)}", soft_wrap=True)


def _hit_speaker(hit: RecallHit) -> str:
    """Return the speaker of a memory, with a mark if it came from outside."""
    return f"{_speaker_name(hit)} (outside)" if hit.trust is TrustLevel.OUTSIDE else _speaker_name(hit)


def _speaker_name(hit: RecallHit) -> str:
    if hit.speaker is not None:
        return hit.speaker
    return hit.role.value if hit.role is not None else (hit.kind.value if hit.kind is not None else hit.plane.value)


def show_more(console: "Console", cursor: str | None, /) -> None:
    """Show how to continue after a page, if there is more."""
    if cursor is not None:
        console.print(f"more: --cursor {safe_text(cursor)}", soft_wrap=True)


def known_by_id(
    console: "Console",
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[object], str]],
    /,
    *,
    numbers: Sequence[str] = (),
    none: str = "",
) -> None:
    """Show rows and their ids, each id unbroken: beneath the last cell if space is short."""
    from rich.text import Text

    is_wide = console.width >= _WIDE

    def cells(row: Sequence[object], name: str) -> tuple[object, ...]:
        id_text = Text(safe_text(name), style="dim")
        return (*row, id_text) if is_wide else (*row[:-1], Text.assemble(_table_cell(row[-1]), "\n", id_text))

    cell_rows = (cells(row, name) for row, name in rows)
    show_table(console, (*columns, "id") if is_wide else columns, cell_rows, numbers=numbers, whole="id", none=none)


def show_table(
    console: "Console",
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    /,
    *,
    numbers: Sequence[str] = (),
    whole: str | Sequence[str] = "",
    none: str = "",
) -> None:
    """Show `rows`, or the text `none` if there are no rows.

    Columns in `numbers` are set right, and cells of the columns `whole` are not broken. Text that is not styled is
    printed on one line, safely.
    """
    from rich import box
    from rich.table import Table

    whole_columns = {whole} if isinstance(whole, str) else set(whole)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole_columns)
    for row in rows:
        table.add_row(*map(_table_cell, row))
    if table.row_count:
        console.print(table)
    elif none:
        console.print(none)


def _table_cell(value: object) -> "str | Text":
    if value is None:
        return ""
    return safe_line(str(value)) if isinstance(value, str | int) else cast("Text", value)


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
        show_table(console, (f"{place}.", "relative to the best", "value"), rows, numbers=("value",))
        if hit.newer is not None:
            console.print(f"    newer: {safe_text(hit.newer)}", soft_wrap=True)
        _show_nearby(console, hit.after)
    cut = f"; cut off at {report.cut:.3f}" if report.cut is not None else ""
    console.print(f"{report.considered} memories passed the filters, as of sequence {report.sequence}{cut}")


def _show_nearby(console: "Console", turns: Sequence[NearbyTurn]) -> None:
    for turn in turns:
        console.print(
            f"    {minute_text(turn.at)} {safe_line(turn.speaker or '')}: {safe_line(turn.text)}", soft_wrap=True
        )


def _show_missing(console: "Console", absences: Sequence[WhyNot]) -> None:
    rows = (
        (each.id, each.place, f"{each.score:.3f}" if each.score is not None else "", _ABSENCES[each.absence])
        for each in absences
    )
    show_table(console, ("id", "place", "score", "why"), rows, numbers=("place", "score"))


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
    rests = ", ".join(f"{ref.plane.value} {ref.store_key}" for ref in report.derived_memory_refs)
    rows = [
        ("transition", report.transition.value),
        ("turns", str(report.affected_turns)),
        ("messages", str(len(report.affected_message_ids))),
        ("changed", "yes" if report.changed else "no"),
        ("dependants", rests),
    ]
    show_pairs(console, rows)


def show_links(console: "Console", report: MemoryTranscriptRepairReport, /) -> None:
    """Show the result of a link check."""
    beside = f"{report.checked_derived_refs} links, {report.checked_attributes} attributes"
    counts = f"{report.checked_turns} turns, {beside}"
    show_pairs(console, [("checked", counts), ("closed", "yes" if report.fail_closed else "no")])
    for issue in report.issues:
        console.print(f"  {issue.kind.value}: {issue.collection} {issue.key}", soft_wrap=True)
