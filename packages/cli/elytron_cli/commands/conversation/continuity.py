"""The state of conversations: shown, written, taken elsewhere."""

from pathlib import Path

import click

from elytron_cli.commands.conversation.write import conversation_scope
from elytron_cli.input.files import read_value, require_free, write_file
from elytron_cli.input.options import Command, Group, common, in_conversation, overwriting
from elytron_cli.input.values import valid
from elytron_cli.runner import run, storing
from elytron_cli.session import Session
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output, json_text
from elytron_core.contracts.conversation.continuity import (
    ContinuityExportReport,
    ContinuityExportRequest,
    ContinuityImportReport,
    ContinuityImportRequest,
    ContinuityReport,
    ContinuityRequest,
    ContinuitySnapshot,
    SnapshotMode,
)
from elytron_core.contracts.conversation.write import MemoryWriteRequest, PlaneWrite
from elytron_core.contracts.planes import CapsulesWrite, ExecutionWrite, SummaryWrite
from elytron_store import WhenMissing

_MODES = click.Choice([mode.value for mode in SnapshotMode])
_KINDS: dict[str, type[CapsulesWrite | ExecutionWrite | SummaryWrite]] = {
    "capsules": CapsulesWrite,
    "execution": ExecutionWrite,
    "summary": SummaryWrite,
}


@click.group("continuity", cls=Group)
@common
def continuity() -> None:
    """See the state of a conversation, write it down, and take it elsewhere."""


@continuity.command("show", cls=Command)
@click.argument("query", required=False, default="")
@in_conversation
@common
def show(*, query: str, conversation: str | None) -> int | None:
    """Show work, summary, capsules and notes; capsules that QUERY takes up are marked."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        report = await session.call(valid(ContinuityRequest, scope=scope, query=query), ContinuityReport)
        out.report(report, lambda console: planes.continuity_shown(console, report))

    return run(work)


@continuity.command("write", cls=Command)
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common
def write(*, kind: str, file: Path, conversation: str | None) -> int | None:
    """Write the capsules, the execution state or the summary in FILE (JSON)."""
    return write_plane(read_value(_KINDS[kind], file), conversation)


@continuity.command("export", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--mode", type=_MODES, default=SnapshotMode.FULL_RESTORE.value, show_default=True, help="How much.")
@overwriting
@in_conversation
@common
def export(*, file: Path, mode: str, force: bool, conversation: str | None) -> int | None:
    """Write the conversation's snapshot to FILE. An existing file is refused unless --force is given."""
    require_free(file, force=force)

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        request = ContinuityExportRequest(scope=scope, mode=SnapshotMode(mode))
        report = await session.call(request, ContinuityExportReport)
        write_file(file, json_text(report.snapshot) + "\n", force=force)
        out.report(report, lambda console: planes.snapshot_written(console, report, file.name))

    return run(work)


@continuity.command("import", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--mode", type=_MODES, default=SnapshotMode.BOOTSTRAP.value, show_default=True, help="How much.")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken.")
@in_conversation
@common
def import_snapshot(*, file: Path, mode: str, dry_run: bool, conversation: str | None) -> int | None:
    """Take the snapshot in FILE into the conversation; the newer word wins."""
    snapshot = read_value(ContinuitySnapshot, file)

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        request = ContinuityImportRequest(scope=scope, snapshot=snapshot, mode=SnapshotMode(mode), dry_run=dry_run)
        report = await session.call(request, ContinuityImportReport)
        out.report(report, lambda console: planes.snapshot_taken(console, report))

    return run(work, when_missing=storing(dry_run=dry_run))


def write_plane(write: PlaneWrite, conversation: str | None, /) -> int | None:
    """Commit a write to a conversation and print what became of it."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        report = await session.write(MemoryWriteRequest(scope=scope, write=write))
        out.report(report, lambda console: planes.written(console, report))

    return run(work, when_missing=WhenMissing.MAKE)
