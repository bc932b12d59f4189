"""Commands that export a space, and back up, restore and migrate stores."""

import asyncio
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from elytron.transfer.cogx_archive import CogxExportReport, write_cogx
from elytron.transfer.migration import CopiedSpace, migrate_store
from elytron_cli.commands.file_import import is_archive_file, show_imported
from elytron_cli.input.options import (
    OneOf,
    common_options,
    force_option,
    page_command,
)
from elytron_cli.input.values import require_free
from elytron_cli.session import (
    CommandSession,
    answer_request,
    keys_of,
    run_output,
    run_settings,
    run_work,
)
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, ProgressBar
from elytron_core.clock import SystemClock
from elytron_core.contracts.archive import (
    ImportMode,
    MemoryImportRequest,
    MemorySpaceExportReport,
    MemorySpaceExportRequest,
)
from elytron_core.errors import InvalidInput, StoreUrlInvalid, UnreadableFile
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
    run_output().report(report, lambda console, _: tables_layout.show_pairs(console, rows))


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
    output = run_output()
    addresses = [*stores, *([to] if to is not None else [])]
    if len(addresses) not in {1, 2}:
        raise InvalidInput(field="TARGET", problem="is missing, or more than two stores are named")
    source, target = addresses if len(addresses) == 2 else (settings.store.value, *addresses)
    if parse_url(source) == parse_url(target):
        raise InvalidInput(field="TARGET", problem="is the source store itself")
    with ProgressBar("copying", unit="entries", is_visible=not output.is_json) as bar:
        migration = migrate_store(
            source,
            target,
            clock=SystemClock(),
            keys=keys_of(settings),
            target_keys=_file_keys(to_key_file),
            progress=bar.at,
        )
        spaces = asyncio.run(migration)
    report = MigrationReport(engine=parse_url(target).engine, sealed=to_key_file is not None, spaces=spaces)
    rows = [(item.space, f"{item.documents} documents, {item.entries} entries, {item.blobs} files") for item in spaces]
    output.report(report, lambda console, _: tables_layout.show_pairs(console, rows or [("spaces", "none")]))


def _file_keys(file: str | None) -> KeyProvider | None:
    if file is None:
        return None
    from elytron_store.sealed.providers import FileKeys

    return FileKeys(file)


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
    omitted_rows = [("not in COGX", f"{count} {reason}") for reason, count in report.left_out.items()]
    counts = [(kind.replace("_", " "), str(count)) for kind, count in report.records.items()]
    tables_layout.show_pairs(console, [("folder", report.path), *counts, *omitted_rows])


async def _export_user(session: CommandSession, request: MemorySpaceExportRequest) -> UserExportReport:
    """Write an archive of each space of the user to the folder of `request`, and return their contents."""

    async def archive(space: str) -> MemorySpaceExportReport:
        path = os.fspath(Path(request.path) / _archive_name(space))
        return await session.call(request.model_copy(update={"path": path, "scope": Scope(space=SpaceId(space))}))

    with _private_folder(Path(request.path), force=request.overwrite):
        own_archive = await archive(run_settings().space.value)
        return UserExportReport(archives=(own_archive, *[await archive(space) for space in own_archive.other_spaces]))


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
    if is_archive_file(file):
        request = MemoryImportRequest(path=os.fspath(file), mode=ImportMode.FULL_RESTORE, with_agents=True)
        return answer_request(request, show_imported, when_missing=WhenMissing.MAKE)
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


def _show_exported(console: "Console", report: MemorySpaceExportReport) -> None:
    rows = [("file", report.path), ("bytes", f"{report.size_bytes:,}"), ("entries", str(report.entries))]
    counts = [(name, str(count)) for name, count in report.documents.items()]
    redactions = ", ".join(f"{count} {name}" for name, count in report.redacted.items())
    omission_note = f"{redactions}; export without --public to include them" if redactions else ""
    tables_layout.show_pairs(console, [*rows, *counts, ("skipped", omission_note)])
    tables_layout.show_other_spaces(console, report.other_spaces)
