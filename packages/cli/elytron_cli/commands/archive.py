"""Commands that import files and export the space."""

import asyncio
import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from elytron.erasure.reapplication import erase_all_again, gather_all, known_erasures, read_erasures, write_erasures
from elytron.flows.transcript_import import (
    PLACE_DIGITS,
    FileDates,
    ResumedConversation,
    TranscriptImportReport,
    import_transcript,
)
from elytron.importers.detection import MAGIC, is_export
from elytron.transfer.cogx_archive import CogxExportReport, write_cogx
from elytron.transfer.migration import CopiedSpace, migrate_store
from elytron.transfer.restore import contents_text
from elytron_adapter.envelope import failure_of
from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    force_option,
    page_command,
    yes_option,
)
from elytron_cli.input.values import STANDARD_INPUT, as_file, require_free
from elytron_cli.session import (
    CommandSession,
    answer_request,
    keys_of,
    open_session,
    run_output,
    run_settings,
    run_work,
    scope_of,
    storing_missing,
)
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import CommandOutput, ProgressBar, confirm_question, safe_line
from elytron_core.clock import SystemClock
from elytron_core.contracts.archive import (
    ErasuresOutcome,
    ImportMode,
    MemoryErasuresApplyReport,
    MemoryErasuresKeepReport,
    MemoryImportReport,
    MemoryImportRequest,
    MemorySpaceExportReport,
    MemorySpaceExportRequest,
)
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import Conflict, InvalidInput, StoreUrlInvalid, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import KeyProvider
from elytron_core.scope import Scope
from elytron_store import WhenMissing, parse_url
from elytron_store.backup import back_up

if TYPE_CHECKING:
    from rich.console import Console


class BackupReport(Value):
    """A backup that was read completely and is sound."""

    path: str
    engine: str
    sealed: bool
    size_bytes: int
    spaces: int
    documents: int
    entries: int
    blobs: int


_NAME_CHARS: Final = 160


class UserExportReport(Value):
    """The archives of all spaces of a user, the user's own first."""

    archives: tuple[MemorySpaceExportReport, ...]


class MigrationReport(Value):
    """Each space in the other store, compared and equal to the original."""

    engine: str
    sealed: bool
    spaces: tuple[CopiedSpace, ...]


@page_command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def backup_command(*, file: Path) -> None:
    """Copy the whole store to FILE while it is in use; if the store is a folder, so is the copy.

    FILE must not exist. The copy is flushed to disk and verified before the command ends. A sealed store stays sealed.
    The backup is an ordinary store: open it with --store FILE.
    """
    report_copy(run_settings().store.value, file)


def report_copy(source: str, target: Path, /) -> None:
    """Copy the store at `source` to `target`, and print the result. Raises as `back_up`."""
    backup = asyncio.run(back_up(source, target, clock=SystemClock()))
    report = BackupReport(
        path=os.fspath(backup.path),
        engine=backup.engine,
        sealed=backup.sealed,
        size_bytes=backup.size_bytes,
        spaces=backup.check.spaces,
        documents=backup.check.documents,
        entries=backup.check.entries,
        blobs=backup.check.blobs,
    )
    rows = [(name.replace("_", " "), str(value)) for name, value in report]
    run_output().report(report, lambda console, _: tables_common.show_pairs(console, rows))


@page_command("migrate")
@click.argument("stores", nargs=-1, metavar="[[SOURCE] TARGET]")
@click.option("--to", "to", metavar="URL", help="New or empty store of any kind.")
@click.option("--to-key-file", metavar="PATH", help="Key file for sealing the target store.")
@common_options
def migrate_command(*, stores: tuple[str, ...], to: str | None, to_key_file: str | None) -> None:
    """Copy every space of the store SOURCE exactly into the store TARGET: documents, journal and files.

    SOURCE defaults to --store, and --to can name TARGET.

    TARGET must be empty, and nothing may be written to SOURCE meanwhile. Each space is compared after copying; indexes
    are rebuilt in TARGET, and idempotency keys are not copied. A new store appears only when it is complete. An
    existing store receives each space atomically; after an interruption, run the command again to resume.
    """
    settings = run_settings()
    out = run_output()
    addresses = [*stores, *([to] if to is not None else [])]
    if len(addresses) not in {1, 2}:
        raise InvalidInput(field="TARGET", problem="is missing, or more than two stores are named")
    source, target = addresses if len(addresses) == 2 else (settings.store.value, *addresses)
    if parse_url(source) == parse_url(target):
        raise InvalidInput(field="TARGET", problem="is the source store itself")
    with ProgressBar("copying", unit="entries", is_visible=not out.is_json) as bar:
        copied = migrate_store(
            source,
            target,
            clock=SystemClock(),
            keys=keys_of(settings),
            target_keys=_file_keys(to_key_file),
            progress=bar.at,
        )
        spaces = asyncio.run(copied)
    report = MigrationReport(engine=parse_url(target).engine, sealed=to_key_file is not None, spaces=spaces)
    rows = [(item.space, f"{item.documents} documents, {item.entries} entries, {item.blobs} files") for item in spaces]
    out.report(report, lambda console, _: tables_common.show_pairs(console, rows or [("spaces", "none")]))


def _file_keys(file: str | None) -> KeyProvider | None:
    if file is None:
        return None
    from elytron_store.sealed.providers import FileKeys

    return FileKeys(file)


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
    with as_file(file) as read:
        if _is_archive(read):
            request = MemoryImportRequest(
                path=os.fspath(read), mode=mode, with_agents=with_agents and mode is _WHOLE, dry_run=dry_run
            )
            return answer_request(request, _show_imported, when_missing=storing_missing(dry_run=dry_run))
        scope = scope_of(conversation or (_of_stream(read) if file == STANDARD_INPUT else None))

        async def work(session: CommandSession, out: CommandOutput) -> int | None:
            with (
                hint_at_resuming(out),
                ProgressBar("importing", unit="bytes", is_visible=not out.is_json, first="judging") as bar,
            ):
                report = await import_transcript(
                    session, read, scope=scope, progress=bar.at, dry_run=dry_run, include=include,
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


class ExportForm(StrEnum):
    """Form of an export."""

    ARCHIVE = "archive"
    COGX = "cogx"


@page_command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    type=OneOf(ExportForm),
    default=ExportForm.ARCHIVE.value,
    show_default=True,
    help="An archive, or a COGX folder for other memory systems.",
)
@click.option("--public", is_flag=True, help="Export only shareable content: no transcript, no private facts.")
@click.option("--user", "whole_user", is_flag=True, help="All spaces of this user, as archives in the folder FILE.")
@force_option
@common_options
def export_command(*, file: Path, form: ExportForm, public: bool, whole_user: bool, force: bool) -> int | None:
    """Write the whole space to the archive FILE, which `elytron restore` can restore.

    With --public, the archive contains only shareable content, which can be added to another space (`import --mode
    bootstrap`). An existing file is replaced only with --force.

    With --as cogx, FILE is a folder in COGX, which Cognee and `elytron import` read. It holds conversations, facts and
    procedures; anything private, hidden or no longer believed is left out and counted.
    """
    require_free(file, force=force)
    if form is ExportForm.COGX and whole_user:
        raise InvalidInput(field="--user", problem="writes archives: export each space with --as cogx by itself")

    async def work(session: CommandSession, out: CommandOutput) -> None:
        if public:
            await _require_something(session)
        request = MemorySpaceExportRequest(path=os.fspath(file), include_private=not public, overwrite=force)
        if form is ExportForm.COGX:
            out.report(await _export_cogx(session, request), _show_cogx)
        elif whole_user:
            out.report(await _export_user(session, request), _show_user)
        else:
            out.report(await session.call(request), _show_exported)

    return run_work(work)


async def _export_cogx(session: CommandSession, request: MemorySpaceExportRequest) -> CogxExportReport:
    """Write the space to an archive, and the archive to the COGX folder of `request`."""
    with TemporaryDirectory(prefix="elytron-export-") as folder:
        archive = Path(folder) / "space.ely"
        await session.call(request.model_copy(update={"path": os.fspath(archive)}))
        return await asyncio.to_thread(
            write_cogx, archive, Path(request.path), at=SystemClock().now(), overwrite=request.overwrite
        )


def _show_cogx(console: "Console", report: CogxExportReport) -> None:
    left_out = [("not in COGX", f"{count} {reason}") for reason, count in report.left_out.items()]
    counts = [(kind.replace("_", " "), str(count)) for kind, count in report.records.items()]
    tables_common.show_pairs(console, [("folder", report.path), *counts, *left_out])


async def _export_user(session: CommandSession, request: MemorySpaceExportRequest) -> UserExportReport:
    """Write an archive of each space of the user to the folder of `request`, and return their contents."""

    async def archive(space: str) -> MemorySpaceExportReport:
        path = os.fspath(Path(request.path) / _archive_name(space))
        return await session.call(request.model_copy(update={"path": path, "scope": Scope(space=SpaceId(space))}))

    with _private_folder(Path(request.path), force=request.overwrite):
        own = await archive(run_settings().space.value)
        return UserExportReport(archives=(own, *[await archive(space) for space in own.other_spaces]))


@contextmanager
def _private_folder(folder: Path, *, force: bool) -> Generator[None]:
    """Create `folder` for its owner only; if the block leaves it empty, it is removed. Raises InvalidInput."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=force)
    except OSError as error:
        raise InvalidInput(field=folder.name, problem=f"is not a usable folder: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def _archive_name(space: str) -> str:
    """Return a file name for `space`, with a digest in place of what does not fit."""
    name = quote(space, safe="")
    if len(name) > _NAME_CHARS:
        name = f"{name[:_NAME_CHARS]}-{hashlib.sha256(space.encode()).hexdigest()[:16]}"
    return f"{name}.zip"


def _show_user(console: "Console", report: UserExportReport) -> None:
    for archive in report.archives:
        _show_exported(console, archive.model_copy(update={"other_spaces": ()}))


async def _require_something(session: CommandSession) -> None:
    """Raise InvalidInput if a public archive would be empty, before it replaces a file."""
    with TemporaryDirectory(prefix="elytron-export-") as folder:
        request = MemorySpaceExportRequest(path=os.fspath(Path(folder) / "public.ely"))
        report = await session.call(request)
    if not report.documents:
        problem = "leaves nothing to export: no fact or skill here may be shared; export without --public"
        raise InvalidInput(field="--public", problem=problem)


@page_command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def restore_command(*, file: Path) -> int | None:
    """Restore FILE exactly: a backup as a new store, or an archive into an empty space.

    FILE is verified first. It must have been written by `elytron backup` or `elytron export`.
    """
    if _is_archive(file):
        request = MemoryImportRequest(path=os.fspath(file), mode=_WHOLE, with_agents=True)
        return answer_request(request, _show_imported, when_missing=WhenMissing.MAKE)
    try:
        parse_url(os.fspath(file))
    except StoreUrlInvalid:
        if file.exists():
            raise
        raise UnreadableFile.unopened(file.name, FileNotFoundError()) from None
    target = parse_url(run_settings().store.value).path
    if target is None:
        raise InvalidInput(field="--store", problem="is not a file or folder on this machine to restore a backup to")
    target.parent.mkdir(parents=True, exist_ok=True)
    report_copy(os.fspath(file), target)
    return None


def _is_archive(file: Path) -> bool:
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            is_zip = opened.read(len(MAGIC)) == MAGIC
        # Exports of chats are ZIP files too.
        return is_zip and not is_export(file)
    except (OSError, ValueError):
        return False  # the reader of transcripts reports what is wrong with it


def _of_stream(read: Path) -> str:
    """Return the conversation for standard input, which no other input shares."""
    with read.open("rb") as file:
        return f"stdin-{hashlib.file_digest(file, 'sha256').hexdigest()[:PLACE_DIGITS]}"


def _show_exported(console: "Console", report: MemorySpaceExportReport) -> None:
    rows = [("file", report.path), ("bytes", f"{report.size_bytes:,}"), ("entries", str(report.entries))]
    counts = [(name, str(count)) for name, count in report.documents.items()]
    redactions = ", ".join(f"{count} {name}" for name, count in report.redacted.items())
    left_out = f"{redactions}; export without --public to include them" if redactions else ""
    tables_common.show_pairs(console, [*rows, *counts, ("skipped", left_out)])
    tables_common.show_other_spaces(console, report.other_spaces)


def _show_imported(console: "Console", report: MemoryImportReport) -> None:
    imported = ", ".join(f"{count} {name}" for name, count in report.imported.items()) or "nothing"
    skipped = ", ".join(f"{count} {name}" for name, count in report.skipped.items() if count)
    verb = "would import" if report.dry_run else "imported"
    left_out = ", ".join(f"{count} {name}" for name, count in report.left_out.items())
    rows = [("archive", contents_text(report.contents)), (verb, imported), ("already present", skipped)]
    tables_common.show_pairs(console, [*rows, ("skipped", left_out)])
    tables_common.show_future_claims(console, report.future_claims)


def _show_stored(console: "Console", report: TranscriptImportReport) -> None:
    formats = ", ".join(form.value for form in report.formats)
    conversations = f"{report.conversations} conversation{'s' * (report.conversations != 1)}"
    content = f"{report.messages} message{'s' * (report.messages != 1)} in {conversations} ({formats})"
    left_out = ", ".join(f"{count} {reason.value.replace('_', ' ')}" for reason, count in report.left_out.items())
    minute_text = tables_common.minute_text
    span = f"{minute_text(report.first_at)} to {minute_text(report.last_at)}" if report.first_at is not None else ""
    rows = [
        ("found", content),
        ("said", span),
        ("stored", "nothing (dry run)" if report.dry_run else str(report.stored)),
        ("already stored", str(report.duplicates) if report.duplicates else ""),
        ("changed", f"{report.updated} updated to the new version" if report.updated else ""),
        ("changed", f"{report.unchanged} left unchanged" if report.unchanged else ""),
        ("previously erased", f"{report.erased}, not imported again" if report.erased else ""),
        ("skipped", left_out),
        ("skipped", f"{report.skipped} unreadable" if report.skipped else ""),
        ("times", f"{report.naive_times} without a time zone, read as UTC" if report.naive_times else ""),
        ("times", f"{report.undated} missing: the time of the import is used" if report.undated else ""),
        ("unknown keys", f"{report.unknown_keys}, stored next to the text" if report.unknown_keys else ""),
        *(("dates", _dates_line(each)) for each in report.dates),
        *(("continues", _resumed_line(each)) for each in report.resumed),
        *((note.kind.value, safe_line(f"{note.file}, {note.place}: {note.problem}")) for note in report.notes),
    ]
    tables_common.show_pairs(console, rows)
    tables_common.show_future_claims(console, report.future_claims)


def _dates_line(dates: FileDates) -> str:
    doubt = ". This is a guess: if it is wrong, import the file again with --date-order" if dates.is_ambiguous else ""
    return f"{safe_line(dates.file)}: {dates.order.value}, because {dates.reason}{doubt}"


def _resumed_line(resumed: ResumedConversation) -> str:
    hours = resumed.offset_minutes / 60
    direction = "behind" if hours > 0 else "ahead"
    clock = f"; its clock is {abs(hours):g} hours {direction}; times were adjusted" if hours else ""
    return f"{safe_line(resumed.file)}: conversation {safe_line(resumed.title or resumed.conversation)}{clock}"


class ErasuresKept(Value):
    """The erasures that the file now holds of each space."""

    spaces: tuple[MemoryErasuresKeepReport, ...]


class ErasuresApplied(Value):
    """The result for each space of the store."""

    spaces: tuple[MemoryErasuresApplyReport, ...]
    changed: bool


@click.group("erasures", cls=PageGroup)
@common_options
def erasures_group() -> None:
    """Record erasures in a file outside the store, and re-apply them to a restored backup."""


@erasures_group.command("keep")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--gone", "erased_spaces", multiple=True, metavar="NAME", help="Space that was erased as a whole.")
@common_options
def keep_command(*, file: Path, erased_spaces: tuple[str, ...]) -> None:
    """Add the erasures of every space in the store to FILE.

    FILE contains ids and names of spaces, and no content. Store it apart from the store and its backups. A space that
    was erased as a whole leaves no trace in the store: name it with --gone if FILE already lists it.
    """
    report = asyncio.run(_keep_erasures(file, erased_spaces))
    rows = [(safe_line(each.space), _erasures_line(each)) for each in report.spaces]
    run_output().report(report, lambda console, _: tables_common.show_pairs(console, rows or [("spaces", "none")]))


@erasures_group.command("apply")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be erased without erasing it.")
@yes_option
@common_options
def apply_command(*, file: Path, dry_run: bool, yes: bool) -> int | None:
    """Re-apply the erasures listed in FILE to every space; repeating it is harmless.

    Anything written after the restore is preserved. A space that was erased as a whole but written to since is
    preserved too; it is reported, and the exit code is then 4.
    """
    confirm_question(f"Erase what {file.name} lists from every space? This cannot be undone.", yes=yes or dry_run)
    report = asyncio.run(_apply_erasures(file, dry_run=dry_run))
    rows = [(safe_line(each.space), _applied_line(each)) for each in report.spaces]
    run_output().report(report, lambda console, _: tables_common.show_pairs(console, rows or [("spaces", "none")]))
    is_left = any(each.outcome is ErasuresOutcome.WRITTEN_SINCE for each in report.spaces)
    return failure_of(Conflict.key).exit if is_left else None


async def _keep_erasures(file: Path, removed_spaces: tuple[str, ...]) -> ErasuresKept:
    async with open_session(run_settings()) as session:
        erasures = known_erasures(file)
        await gather_all(session.runtime.context, erasures, erased_ids=tuple(map(SpaceId, removed_spaces)))
        write_erasures(file, erasures)
    reports = [
        MemoryErasuresKeepReport(
            space=entry.space, path=str(file), erased=entry.by_plane(), is_whole=entry.whole_at is not None
        )
        for entry in erasures.spaces
    ]
    return ErasuresKept(spaces=tuple(reports))


async def _apply_erasures(file: Path, *, dry_run: bool) -> ErasuresApplied:
    erasures = read_erasures(file)
    async with open_session(run_settings()) as session:
        outcomes = await erase_all_again(session.runtime.context, erasures, dry_run=dry_run)
    return ErasuresApplied(spaces=outcomes, changed=any(each.changed for each in outcomes))


def _erasures_line(report: MemoryErasuresKeepReport) -> str:
    whole = "erased as a whole; " if report.is_whole else ""
    return f"{whole}{_count_erased(report.erased) or 'nothing erased'}"


def _applied_line(report: MemoryErasuresApplyReport) -> str:
    match report.outcome:
        case ErasuresOutcome.WRITTEN_SINCE:
            return "written to since the restore: erase the space, or the affected memories"
        case ErasuresOutcome.NOTHING:
            return "nothing to erase"
        case ErasuresOutcome.APPLIED:
            return f"{'would erase' if report.dry_run else 'erased'} {_count_erased(report.erased) or 'everything'}"


def _count_erased(erased: Mapping[RecallPlane, int]) -> str:
    return ", ".join(f"{count} {plane.value}" for plane, count in erased.items())
