"""Bringing files in and taking the space out."""

import hashlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from elytron.flows.transcript_import import PLACE_DIGITS, TranscriptImportReport, import_transcript
from elytron.importers import bundle
from elytron_cli.commands.admin.backup import report_copy
from elytron_cli.input.files import STANDARD_INPUT, as_file, require_free
from elytron_cli.input.options import OneOf, choosing, command, common, dry, overwriting
from elytron_cli.runner import answer, run, scope_of, settings, storing
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
from elytron_core.errors import InvalidInput
from elytron_core.planes.conversation.transcript import Role
from elytron_store import WhenMissing, parse_url

if TYPE_CHECKING:
    from rich.console import Console


_WHOLE: Final = ImportMode.FULL_RESTORE
_WITH_AGENTS: Final = click.option(
    "--with-agents", is_flag=True, help="Of an archive of your own: also the journals that agents act on."
)


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
@_WITH_AGENTS
@dry("Only read and judge the file.")
@common
def import_file(
    *,
    file: Path,
    conversation: str | None,
    mode: ImportMode,
    include: tuple[Role, ...],
    with_agents: bool,
    dry_run: bool,
) -> int | None:
    """Read FILE into the space: a transcript, notes, an export, a folder or ZIP file of these, or an archive.

    Known are JSON Lines, OpenAI messages, the exports of ChatGPT, Claude, WhatsApp and Telegram, Markdown and text.

    The kind of FILE is read from its content ("-" reads standard input). A transcript can be imported again, also
    when it has grown: what is stored already is left alone. From a file with an error, nothing is stored.
    """
    with as_file(file) as read:
        if _is_archive(read):
            request = MemoryImportRequest(
                path=os.fspath(read), mode=mode, with_agents=with_agents and mode is _WHOLE, dry_run=dry_run
            )
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
@click.option("--public", is_flag=True, help="Only what may leave your hands: no transcript, no private fact.")
@overwriting
@common
def export(*, file: Path, public: bool, force: bool) -> int | None:
    """Write the whole space to the archive FILE, which `elytron restore` brings back.

    With --public it holds only what may leave your hands, and can be added to a space (`import --mode bootstrap`). An
    existing file is refused; with --force it is replaced as a whole.
    """
    require_free(file, force=force)

    async def work(session: Session, out: Output) -> None:
        if public:
            await _require_something(session)
        request = MemorySpaceExportRequest(path=os.fspath(file), include_private=not public, overwrite=force)
        out.report(await session.call(request, MemorySpaceExportReport), _exported)

    return run(work)


async def _require_something(session: Session) -> None:
    """Raise InvalidInput where a public archive would hold nothing, before it replaces a file."""
    with TemporaryDirectory(prefix="elytron-export-") as folder:
        request = MemorySpaceExportRequest(path=os.fspath(Path(folder) / "public.ely"))
        report = await session.call(request, MemorySpaceExportReport)
    if not report.documents:
        problem = "leaves nothing to write: no fact or skill here may leave your hands; export without --public"
        raise InvalidInput(field="--public", problem=problem)


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@common
def restore(*, file: Path) -> int | None:
    """Bring back FILE: a backup as the store, which must not be there yet; or an archive into an empty space.

    What `elytron backup` and `elytron export` wrote is checked first, and comes back exactly.
    """
    if _is_archive(file):
        request = MemoryImportRequest(path=os.fspath(file), mode=_WHOLE, with_agents=True)
        return answer(request, _imported, when_missing=WhenMissing.MAKE)
    target = parse_url(settings().store.value).path
    if target is None:
        raise InvalidInput(field="--store", problem="is no file or folder here, as which a backup could come back")
    target.parent.mkdir(parents=True, exist_ok=True)
    report_copy(os.fspath(file), target)
    return None


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
    left_out = [("left out", f"{left}: without --public they are written too")] if left else []
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
