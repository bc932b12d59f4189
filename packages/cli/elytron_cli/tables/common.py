"""Reports as people read them at a terminal. Stored text is printed as text: no markup, nothing that steers."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from elytron_cli.terminal.output import line, safe
from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.admin.inspection import JournalAccount, MemoryInspectionReport, MemoryReplayReport
from elytron_core.contracts.conversation.projection import MemoryProjectionReport, MissReason
from elytron_core.contracts.knowledge.control import MemoryControlReport, MemoryHistoryReport, MemoryListReport
from elytron_core.contracts.knowledge.recall import RecallHit
from elytron_core.planes.evidence import Trust
from elytron_core.planes.knowledge.profiles import ErasurePromise, StoreCapabilities

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BAR_CELLS = 24
_WIDE = 120
"""Columns from which on an id beside a text leaves the text room."""
_MISSES: Final = {
    MissReason.NO_BUDGET: "the block is too small for anything",
    MissReason.NOTHING_RELEVANT: "nothing relevant is stored",
    MissReason.EMPTY_SPACE: "this space is empty",
    MissReason.NOT_ADMITTED: "the host's mode admits none",
}


def when(at: Instant | None, /) -> str:
    """Return `at` to the minute, in UTC."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def bar(share: float, /, *, cells: int = BAR_CELLS) -> str:
    """Return a bar whose filled part is `share`, between 0 and 1, of its cells."""
    filled = round(min(max(share, 0.0), 1.0) * cells)
    return "█" * filled + "·" * (cells - filled)


def hits(console: "Console", found: Sequence[RecallHit], /) -> None:
    """Show memories best first, with date, speaker, score, text and id."""
    rows = [((when(hit.at), line(_who(hit)), f"{hit.score:.3f}", line(hit.text)), hit.id) for hit in found]
    console.print(known_by_id(console, ("date", "who", "score", "text"), rows, numbers=("score",)))


def marked_hits(console: "Console", found: Sequence[RecallHit], marks: Sequence[str], /) -> None:
    """Show memories best first, a mark before each, with date, speaker, score and text."""
    table = new_table("", "date", "who", "score", "text", numbers=("score",))
    for mark, hit in zip(marks, found, strict=True):
        table.add_row(mark, when(hit.at), line(_who(hit)), f"{hit.score:.3f}", line(hit.text))
    console.print(table)


def projected(console: "Console", report: MemoryProjectionReport, /) -> None:
    """Show the block and, beneath it, how its budget was used."""
    nothing = _MISSES[report.miss_reason] if report.miss_reason is not None else ""
    console.print(safe(report.system_memory_block) or f"nothing is shown: {nothing}", soft_wrap=True)
    console.print()
    budget(console, report)


def budget(console: "Console", report: MemoryProjectionReport, /) -> None:
    """Show a bar for the whole block and one for each part of it."""
    table = new_table("part", "characters", "", "shown", "left out", numbers=("characters", "shown", "left out"))
    used = len(report.system_memory_block)
    table.add_row("block", f"{used}/{report.budget}", bar(used / report.budget if report.budget else 0.0), "", "")
    for section in report.sections:
        share = section.chars / section.budget if section.budget else 0.0
        counts = str(len(section.included)), str(len(section.dropped))
        table.add_row(section.name.value, f"{section.chars}/{section.budget}", bar(share), *counts)
    console.print(table)


def listed(console: "Console", report: MemoryListReport, /) -> None:
    """Show a page of memories by id."""
    rows = [((when(hit.at), line(_who(hit)), line(hit.text)), hit.id) for hit in report.items]
    table = known_by_id(console, ("date", "who", "text"), rows)
    console.print(table if rows else "nothing of this kind is stored")
    more(console, report.next_cursor)


def memory(console: "Console", hit: RecallHit, /) -> None:
    """Show one memory, whole."""
    place = "/".join(part for part in (hit.channel, hit.conversation) if part is not None)
    head = {"id": hit.id, "date": when(hit.at), "who": _who(hit), "in": place, "plane": hit.plane.value}
    _pairs(console, head | {"tags": ", ".join(hit.tags)})
    console.print()
    console.print(safe(hit.text), soft_wrap=True)


def history(console: "Console", report: MemoryHistoryReport, /) -> None:
    """Show what happened to a memory, oldest first."""
    table = new_table("date", "event", "id", "text", "reason")
    for item in report.items:
        table.add_row(when(item.at), item.event.value, item.id, line(item.text or ""), line(item.reason))
    console.print(table)


def controlled(console: "Console", report: MemoryControlReport, /) -> None:
    """Show what was done, or would be done, to each memory."""
    table = new_table("id", "outcome", "new id")
    for decision in report.decisions:
        table.add_row(line(decision.id), decision.outcome.value, decision.new_id or "")
    if report.decisions:
        console.print(table)
    for name, count in report.removed.items():
        console.print(f"{'would remove' if report.dry_run else 'removed'} {count} from {name}")
    for derived in report.derived:
        console.print(f"rests on what is gone and still stands: {line(derived)}", soft_wrap=True)
    if not report.changed:
        console.print("nothing was changed")


def inspected(console: "Console", report: MemoryInspectionReport, /) -> None:
    """Show what a space holds, and what a check found."""
    _pairs(
        console,
        {
            "space": report.space if report.exists else f"{report.space} (nothing is stored yet)",
            "engine": report.engine,
            "store": promised(report.store),
            "journal": str(report.sequence),
            "documents": ", ".join(f"{count} {name}" for name, count in report.documents.items() if count),
            "from": when(report.first_at),
            "to": when(report.last_at),
            "speakers": ", ".join(report.speakers),
            "index": f"{report.indexed_units} units, {report.index_bytes:,} bytes",
            "state": report.state_fingerprint,
            "events": report.event_fingerprint,
            "head": report.head,
            "that head": report.head_standing.value if report.head_standing is not None else "",
        },
    )
    if report.conversations:
        table = new_table("conversation", "turns", "from", "to", "title", numbers=("turns",))
        for found in report.conversations:
            name = line(f"{found.channel}/{found.conversation}")
            table.add_row(name, str(found.turns), when(found.first_at), when(found.last_at), line(found.title or ""))
        console.print(table)
    if report.store_check is not None:
        checked = report.store_check
        seen = f"{checked.documents} documents, {checked.entries} entries, {checked.blobs} blobs read"
        console.print(f"store: {'sound' if checked.ok else 'DAMAGED'}; {seen}")
        for problem in checked.problems:
            aside = " (moved aside)" if problem.quarantined else ""
            console.print(f"  {problem.damage}: {line(problem.what)}{aside}", soft_wrap=True)
    if report.journal_account is not None:
        console.print(f"journal: {accounted(report.journal_account)}", soft_wrap=True)


def promised(store: StoreCapabilities, /) -> str:
    """Return what a store can promise, in words."""
    kept = "durable" if store.durable else "gone when it is closed"
    writers = "one writer" if store.single_writer else "many writers"
    left = (
        "erasure leaves no byte" if store.erasure is ErasurePromise.NO_BYTE else "erasure as the server's store does it"
    )
    return ", ".join((kept, writers, left, *(["sealed"] if store.sealed else [])))


def accounted(account: JournalAccount, /) -> str:
    """Return what comparing documents with their journal showed, in words."""
    told = f"{account.told} documents as it last told of them"
    gone = f"; {account.compacted} entries that told of nothing are compacted" if account.compacted else ""
    if account.ok:
        return told + gone
    made_up = f", {account.unproven} runs of entries TAKEN AWAY" if account.unproven else ""
    return (
        f"{account.told - account.altered} of {told}, {account.altered} NOT, {account.missing} not there{made_up}{gone}"
    )


def replayed(console: "Console", report: MemoryReplayReport, /) -> None:
    """Show turns in their order."""
    table = new_table("turn", "date", "who", "text", numbers=("turn",))
    for turn in report.turns:
        for message in turn.messages:
            who = message.speaker or message.role.value
            text = f"{message.text} (forgotten)" if message.forgotten else message.text
            table.add_row(str(turn.sequence), when(message.at or turn.recorded_at), line(who), line(text))
    if report.turns:
        console.print(table)
    console.print(f"{len(report.turns)} of {report.total_turns} turns")
    more(console, report.next_cursor)


def pairs(console: "Console", rows: Iterable[tuple[str, str]], /) -> None:
    """Show names and values, and nothing for values that are empty."""
    _pairs(console, dict(rows))


def _pairs(console: "Console", values: dict[str, str]) -> None:
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        if value:
            console.print(f"{name:<{width}}  {line(value)}", soft_wrap=True)


def _who(hit: RecallHit) -> str:
    """Return the speaker of a memory, with a mark if it came from outside."""
    return f"{_speaker(hit)} (outside)" if hit.trust is Trust.OUTSIDE else _speaker(hit)


def _speaker(hit: RecallHit) -> str:
    if hit.speaker is not None:
        return hit.speaker
    return hit.role.value if hit.role is not None else (hit.kind.value if hit.kind is not None else hit.plane.value)


def more(console: "Console", cursor: str | None, /) -> None:
    """Show how to go on behind a page, if anything is behind it."""
    if cursor is not None:
        console.print(f"more: --cursor {safe(cursor)}", soft_wrap=True)


def known_by_id(
    console: "Console",
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[str], str]],
    *,
    numbers: Sequence[str] = (),
) -> "Table":
    """Return a table of rows and their ids, each id in one piece: beneath the last cell where room is short."""
    from rich.text import Text

    is_wide = console.width >= _WIDE
    table = new_table(*columns, *(["id"] if is_wide else []), numbers=numbers)
    for (*cells, text), name in rows:
        known = Text(safe(name), style="dim")
        table.add_row(*cells, *([text, known] if is_wide else [Text.assemble(text, "\n", known)]))
    if is_wide:
        table.columns[-1].no_wrap = True
    return table


def new_table(*columns: str, numbers: Sequence[str] = ()) -> "Table":
    """Return an empty table with these columns; those in `numbers` are set right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return table
