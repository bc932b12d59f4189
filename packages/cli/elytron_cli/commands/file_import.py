"""The command that imports a file: a transcript, notes, an export, or an archive."""

import asyncio
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from elytron.flows.transcript_import import (
    PLACE_DIGITS,
    FileDates,
    ResumedConversation,
    TranscriptImportReport,
    import_transcript,
)
from elytron.importers.detection import MAGIC, is_export
from elytron.transfer.restore import contents_text
from elytron_adapter.envelope import failure_of
from elytron_cli.input.options import (
    OneOf,
    choice_option,
    common_options,
    dry_run_option,
    page_command,
)
from elytron_cli.input.values import STANDARD_INPUT, as_file
from elytron_cli.session import (
    CommandSession,
    answer_request,
    run_settings,
    run_work,
    scope_of,
    storing_missing,
)
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, ProgressBar, safe_line
from elytron_core.contracts.archive import (
    ImportMode,
    MemoryImportReport,
    MemoryImportRequest,
)
from elytron_core.errors import UnreadableFile
from elytron_core.evidence import EvidenceRole

if TYPE_CHECKING:
    from rich.console import Console


_WHOLE: Final = ImportMode.FULL_RESTORE


class DateOrderChoice(StrEnum):
    """Order of the dates of a file that is imported."""

    AUTO = "auto"
    DMY = "dmy"
    MDY = "mdy"
    YMD = "ymd"


_DATE_ORDER: Final = choice_option(
    "--date-order", DateOrderChoice.AUTO, "Order of day, month and year in a chat's dates."
)


_OWNER: Final = click.option(
    "--memories-of", "owners", multiple=True, metavar="USER", help='User of a store of several; "*" means all.'
)


_STRICT: Final = click.option(
    "--strict", is_flag=True, help="Import nothing if a record is unreadable or a message has changed."
)


_RESTORE_ERASED: Final = click.option(
    "--restore-erased", is_flag=True, help="Import messages even if they were erased from this space."
)


_WITH_AGENTS: Final = click.option(
    "--with-agents", is_flag=True, help="Include the agents' journals from an archive that you trust as your own."
)


@page_command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--conversation", metavar="NAME", help="Conversation for messages that do not name one.")
@choice_option("--mode", ImportMode.FULL_RESTORE, "For archives: exact copy in an empty space, or new items into any.")
@click.option(
    "--include",
    multiple=True,
    type=OneOf((EvidenceRole.SYSTEM, EvidenceRole.TOOL)),
    help="Include messages of this role too.",
)
@_DATE_ORDER
@_OWNER
@_STRICT
@_RESTORE_ERASED
@_WITH_AGENTS
@dry_run_option("Read and check the file without importing it.")
@common_options
def import_file(
    *,
    file: Path,
    conversation: str | None,
    mode: ImportMode,
    include: tuple[EvidenceRole, ...],
    date_order: DateOrderChoice,
    owners: tuple[str, ...],
    strict: bool,
    restore_erased: bool,
    with_agents: bool,
    dry_run: bool,
) -> int | None:
    """Import FILE into the space: a transcript, notes, an export, an archive, or a folder or ZIP file of these.

    Formats: JSON Lines, message lists of OpenAI, LangChain and Pydantic AI, Markdown, text, mbox, and exports of
    ChatGPT, Claude, Gemini, WhatsApp, Telegram, Slack, Discord and Obsidian. Memories of mem0, Graphiti, LangGraph,
    Hindsight, Cognee (COGX), basic-memory and the MCP memory server come in below what you said yourself.

    The format is detected from the content; "-" reads standard input. Importing a newer export of the same conversation
    stores only what is new, and erased messages stay erased. Unreadable records are skipped and listed, and the exit
    code is then 6. After an interruption, run the same command again to resume.
    """
    run_settings(file if file.is_dir() else None)
    with as_file(file) as readable_path:
        if is_archive_file(readable_path):
            request = MemoryImportRequest(
                path=os.fspath(readable_path), mode=mode, with_agents=with_agents and mode is _WHOLE, dry_run=dry_run
            )
            return answer_request(request, show_imported, when_missing=storing_missing(dry_run=dry_run))
        scope = scope_of(conversation or (_of_stream(readable_path) if file == STANDARD_INPUT else None))

        async def work(session: CommandSession, out: CommandOutput) -> int | None:
            with (
                hint_at_resuming(out),
                ProgressBar("importing", unit="bytes", is_visible=not out.is_json, first="judging") as bar,
            ):
                report = await import_transcript(
                    session, readable_path, scope=scope, progress=bar.at, dry_run=dry_run, include=include,
                    date_order=date_order, strict=strict, restore_erased=restore_erased, owners=owners,
                )  # fmt: skip
            out.report(report, _show_stored)
            return failure_of(UnreadableFile.key).exit if report.skipped else None

        return run_work(work, when_missing=storing_missing(dry_run=dry_run))


@contextmanager
def hint_at_resuming(out: CommandOutput) -> Generator[None]:
    """On an interruption, say that the same command resumes."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):  # a signal cancels the task that imports
        out.hint("The import was interrupted. Run the same command again to resume it.")
        raise


def is_archive_file(file: Path, /) -> bool:
    """Return whether `file` is an archive of a space; what cannot be read is none."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as archive_file:
            is_zip = archive_file.read(len(MAGIC)) == MAGIC
        # Exports of chats are ZIP files too.
        return is_zip and not is_export(file)
    except (OSError, ValueError):
        return False  # the reader of transcripts reports what is wrong with it


def _of_stream(readable_path: Path) -> str:
    """Return the conversation for standard input, which no other input shares."""
    with readable_path.open("rb") as file:
        return f"stdin-{hashlib.file_digest(file, 'sha256').hexdigest()[:PLACE_DIGITS]}"


def show_imported(console: "Console", report: MemoryImportReport, /) -> None:
    """Show what an archive brought."""
    imported_text = ", ".join(f"{count} {name}" for name, count in report.imported.items()) or "nothing"
    skipped_text = ", ".join(f"{count} {name}" for name, count in report.skipped.items() if count)
    verb = "would import" if report.dry_run else "imported"
    omitted_text = ", ".join(f"{count} {name}" for name, count in report.left_out.items())
    rows = [("archive", contents_text(report.contents)), (verb, imported_text), ("already present", skipped_text)]
    tables_layout.show_pairs(console, [*rows, ("skipped", omitted_text)])
    tables_layout.show_future_claims(console, report.future_claims)


def _show_stored(console: "Console", report: TranscriptImportReport) -> None:
    formats = ", ".join(form.value for form in report.formats)
    conversations = f"{report.conversations} conversation{'s' * (report.conversations != 1)}"
    content = f"{report.messages} message{'s' * (report.messages != 1)} in {conversations} ({formats})"
    omitted_text = ", ".join(f"{count} {reason.value.replace('_', ' ')}" for reason, count in report.left_out.items())
    minute_text = tables_layout.minute_text
    time_span = (
        f"{minute_text(report.first_at)} to {minute_text(report.last_at)}" if report.first_at is not None else ""
    )
    rows = [
        ("found", content),
        ("said", time_span),
        ("stored", "nothing (dry run)" if report.dry_run else str(report.stored)),
        ("already stored", str(report.duplicates) if report.duplicates else ""),
        ("changed", f"{report.updated} updated to the new version" if report.updated else ""),
        ("changed", f"{report.unchanged} left unchanged" if report.unchanged else ""),
        ("previously erased", f"{report.erased}, not imported again" if report.erased else ""),
        ("skipped", omitted_text),
        ("skipped", f"{report.skipped} unreadable" if report.skipped else ""),
        ("times", f"{report.naive_times} without a time zone, read as UTC" if report.naive_times else ""),
        ("times", f"{report.undated} missing: the time of the import is used" if report.undated else ""),
        ("unknown keys", f"{report.unknown_keys}, stored next to the text" if report.unknown_keys else ""),
        *(("dates", _dates_line(each)) for each in report.dates),
        *(("continues", _resumed_line(each)) for each in report.resumed),
        *((note.kind.value, safe_line(f"{note.file}, {note.place}: {note.problem}")) for note in report.notes),
    ]
    tables_layout.show_pairs(console, rows)
    tables_layout.show_future_claims(console, report.future_claims)


def _dates_line(dates: FileDates) -> str:
    doubt_note = (
        ". This is a guess: if it is wrong, import the file again with --date-order" if dates.is_ambiguous else ""
    )
    return f"{safe_line(dates.file)}: {dates.order.value}, because {dates.reason}{doubt_note}"


def _resumed_line(resumed: ResumedConversation) -> str:
    hours = resumed.offset_minutes / 60
    direction = "behind" if hours > 0 else "ahead"
    clock = f"; its clock is {abs(hours):g} hours {direction}; times were adjusted" if hours else ""
    return f"{safe_line(resumed.file)}: conversation {safe_line(resumed.title or resumed.conversation)}{clock}"
