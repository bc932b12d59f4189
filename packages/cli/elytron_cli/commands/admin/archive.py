"""Bringing files in and taking the space out."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron.flows.transcript_import import PLACE_DIGITS, TranscriptImportReport, import_transcript
from elytron.importers import bundle
from elytron_cli.input.files import STANDARD_INPUT, as_file, require_free
from elytron_cli.input.options import OneOf, choosing, command, common, disclosing, dry, overwriting
from elytron_cli.runner import answer, run, scope_of, storing
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import Output
from elytron_cli.terminal.progress import Bar
from elytron_core.contracts.admin.archive import (
    ImportMode,
    MemoryImportReport,
    MemoryImportRequest,
    MemorySpaceExportReport,
    MemorySpaceExportRequest,
)
from elytron_core.planes.conversation.transcript import Role

if TYPE_CHECKING:
    from rich.console import Console


@command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--conversation", metavar="NAME", help="Where messages go that name no conversation.")
@choosing("--mode", ImportMode.FULL_RESTORE, "For archives: exactly into an empty space, or what is new into any.")
@click.option(
    "--include",
    multiple=True,
    type=OneOf((Role.SYSTEM, Role.TOOL)),
    help="Also what a system or a tool said; may be repeated.",
)
@dry("Only read and judge the file.")
@common
def import_file(
    *, file: Path, conversation: str | None, mode: ImportMode, include: tuple[Role, ...], dry_run: bool
) -> int | None:
    """Read FILE into the space: a transcript, notes, an export, a folder or ZIP file of these, or an archive.

    Known are JSON Lines, OpenAI messages, the exports of ChatGPT, Claude, WhatsApp and Telegram, Markdown and text.

    The kind of FILE is read from its content ("-" reads standard input). A transcript can be imported again, also
    when it has grown: what is stored already is left alone. From a file with an error, nothing is stored.
    """
    with as_file(file) as read:
        if _is_archive(read):
            request = MemoryImportRequest(path=os.fspath(read), mode=mode, dry_run=dry_run)
            return answer(request, _imported, when_missing=storing(dry_run=dry_run))
        scope = scope_of(conversation or (_of_stream(read) if file == STANDARD_INPUT else None))

        async def work(session: Session, out: Output) -> None:
            with Bar("importing", unit="bytes", shown=not out.is_json, first="judging") as bar:
                report = await import_transcript(
                    session, read, scope=scope, progress=bar.at, dry_run=dry_run, include=include
                )
            out.report(report, _stored)

        return run(work, when_missing=storing(dry_run=dry_run))


@command("export")
@click.argument("file", type=click.Path(path_type=Path))
@disclosing
@overwriting
@common
def export(*, file: Path, include_private: bool, force: bool) -> int | None:
    """Write to the archive FILE what may leave your hands: no transcript, no private fact. With --private, everything.

    A full restore needs everything. An existing file is refused; with --force it is replaced as a whole.
    """
    require_free(file, force=force)
    request = MemorySpaceExportRequest(path=os.fspath(file), include_private=include_private, overwrite=force)
    return answer(request, _exported)


def _is_archive(file: Path) -> bool:
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            is_zip = opened.read(len(bundle.MAGIC)) == bundle.MAGIC
        return is_zip and not bundle.is_export(file)
    except (OSError, ValueError):
        return False  # the reader of transcripts says what is wrong with it


def _of_stream(read: Path) -> str:
    """Return the conversation of what standard input gave, which no other input shares."""
    with read.open("rb") as file:
        return f"stdin-{hashlib.file_digest(file, 'sha256').hexdigest()[:PLACE_DIGITS]}"


def _exported(console: "Console", report: MemorySpaceExportReport) -> None:
    rows = [("file", report.path), ("bytes", f"{report.size_bytes:,}"), ("entries", str(report.entries))]
    counts = [(name, str(count)) for name, count in report.documents.items()]
    left = ", ".join(f"{count} {name}" for name, count in report.redacted.items())
    left_out = [("left out", f"{left}: --private writes them too")] if left else []
    tables_common.pairs(console, [*rows, *counts, *left_out])


def _imported(console: "Console", report: MemoryImportReport) -> None:
    imported = ", ".join(f"{count} {name}" for name, count in report.imported.items()) or "nothing"
    skipped = ", ".join(f"{count} {name}" for name, count in report.skipped.items() if count)
    done = "would import" if report.dry_run else "imported"
    left_out = ", ".join(f"{count} {name}" for name, count in report.left_out.items())
    tables_common.pairs(console, [(done, imported), ("there already", skipped), ("left out", left_out)])


def _stored(console: "Console", report: TranscriptImportReport) -> None:
    formats = ", ".join(form.value for form in report.formats)
    found = f"{report.messages} messages in {report.conversations} conversations ({formats})"
    left_out = ", ".join(f"{count} {reason.value.replace('_', ' ')}" for reason, count in report.left_out.items())
    span = (
        f"{tables_common.when(report.first_at)} to {tables_common.when(report.last_at)}"
        if report.first_at is not None
        else ""
    )
    rows = [
        ("found", found),
        ("said", span),
        ("stored", "nothing, this was a dry run" if report.dry_run else str(report.stored)),
        ("there already", str(report.duplicates) if report.duplicates else ""),
        ("left out", left_out),
    ]
    tables_common.pairs(console, rows)
