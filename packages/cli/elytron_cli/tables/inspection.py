"""Human-readable reports of inspections: contents, losses, checks and promises."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elytron_cli.terminal.output import safe_line
from elytron_core.contracts.inspection import JournalAccount, MemoryInspectionReport, StoreCheck
from elytron_core.profiles import ErasurePromise, SpaceLoss, StoreCapabilities, count_text

if TYPE_CHECKING:
    from rich.console import Console
from elytron_cli.tables.layout import minute_text, show_pairs, show_table


def show_inspection(console: "Console", report: MemoryInspectionReport, /) -> None:
    """Show the contents of a space, and the findings of a check."""
    is_damaged = report.store_check is not None and not report.store_check.ok
    is_empty = not (report.losses or report.sequence or is_damaged)
    empty_text = "nothing stored yet" if is_empty else "nothing can be read"
    if report.acknowledged:
        for loss in report.losses:
            console.print(f"acknowledged, not reported any more: {safe_line(loss_text(loss))}", soft_wrap=True)
    else:
        show_losses(console, report.losses)
    show_pairs(
        console,
        {
            "space": report.space if report.exists else f"{report.space} ({empty_text})",
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


def show_check(console: "Console", store_check: StoreCheck, /) -> None:
    """Show the findings of reading the whole store, and what a repair did about them."""
    entries = count_text(store_check.entries, "entry", "entries")
    counts = f"{count_text(store_check.documents, 'document')}, {entries}, {count_text(store_check.blobs, 'blob')} read"
    is_damaged = bool(store_check.problems) and not store_check.repaired
    state = (
        "DAMAGED" if is_damaged else "repaired" if store_check.problems else "LOSSY" if store_check.losses else "sound"
    )
    console.print(f"store: {state}; {counts}")
    if store_check.losses:
        console.print(f"  unacknowledged losses: {store_check.losses}")
    for problem in store_check.problems:
        moved_note = " (moved aside)" if problem.quarantined else ""
        console.print(f"  {problem.damage}: {safe_line(problem.what)}{moved_note}", soft_wrap=True)


def _vectors_text(report: MemoryInspectionReport) -> str:
    """Return how many units have vectors of which model, and how many lack one; empty if not applicable."""
    if not report.embedded_units and not report.unembedded_units:
        return ""
    lacking_text = f"{report.unembedded_units} without vectors" if report.unembedded_units else ""
    stale_text = (
        f"{lacking_text} ({report.stale_units} of them have vectors of another model)"
        if report.stale_units
        else lacking_text
    )
    counts = (f"{count} by {safe_line(model)}" for model, count in report.embedded_units.items())
    return ", ".join(filter(None, (*counts, stale_text)))


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
    compaction_text = f"; {account.compacted} emptied entries were compacted" if account.compacted else ""
    if account.ok:
        return summary + compaction_text
    made_up = f", {account.unproven} runs of entries REMOVED" if account.unproven else ""
    return (
        f"{account.told - account.altered} of {summary}, {account.altered} DO NOT, {account.missing} "
        f"missing{made_up}{compaction_text}"
    )
