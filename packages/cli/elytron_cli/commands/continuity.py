"""The state of conversations: shown, written, taken elsewhere."""

from pathlib import Path

import click

from elytron_cli.input.files import read_value, require_free, valid, write_file
from elytron_cli.input.options import Group, OneOf, choosing, common, dry, in_conversation, overwriting
from elytron_cli.runner import answer, run, scope_of, storing
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output, json_text
from elytron_core.contracts.continuity import (
    CapsulesWrite,
    ContinuityExportReport,
    ContinuityExportRequest,
    ContinuityImportRequest,
    ContinuityRequest,
    ContinuitySnapshot,
    ExecutionWrite,
    GardenAudience,
    GardenDraft,
    GardenRequest,
    GardenWrite,
    NoteDraft,
    NotesWrite,
    SnapshotMode,
    SubjectAudience,
    SubjectsRequest,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.transcript import MemoryWriteRequest, PlaneWrite
from elytron_core.planes.continuity import GardenRole
from elytron_core.planes.subjects import SubjectKind
from elytron_store import WhenMissing

_KINDS: dict[str, type[CapsulesWrite | ExecutionWrite | SummaryWrite]] = {
    "capsules": CapsulesWrite,
    "execution": ExecutionWrite,
    "summary": SummaryWrite,
}


@click.group("continuity", cls=Group)
@common
def continuity() -> None:
    """See the state of a conversation, write it down, and take it elsewhere."""


@continuity.command("show")
@click.argument("query", required=False, default="")
@in_conversation
@common
def show(*, query: str, conversation: str | None) -> int | None:
    """Show work, summary, capsules and notes; capsules that QUERY takes up are marked."""
    return answer(ContinuityRequest(scope=scope_of(conversation), query=query), planes.continuity_shown)


@continuity.command("write")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common
def write(*, kind: str, file: Path, conversation: str | None) -> int | None:
    """Write the capsules, the execution state or the summary in FILE (JSON)."""
    return write_plane(read_value(_KINDS[kind], file), conversation)


@continuity.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@choosing("--mode", SnapshotMode.FULL_RESTORE, "How much.")
@overwriting
@in_conversation
@common
def export(*, file: Path, mode: SnapshotMode, force: bool, conversation: str | None) -> int | None:
    """Write the conversation's snapshot to FILE. An existing file is refused unless --force is given."""
    require_free(file, force=force)
    request = ContinuityExportRequest(scope=scope_of(conversation), mode=mode)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, ContinuityExportReport)
        write_file(file, json_text(report.snapshot) + "\n", force=force)
        out.report(report, lambda console, _: planes.snapshot_written(console, report, file.name))

    return run(work)


@continuity.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@choosing("--mode", SnapshotMode.BOOTSTRAP, "How much.")
@dry("Only say what would be taken.")
@in_conversation
@common
def import_snapshot(*, file: Path, mode: SnapshotMode, dry_run: bool, conversation: str | None) -> int | None:
    """Take the snapshot in FILE into the conversation; the newer word wins."""
    snapshot = read_value(ContinuitySnapshot, file)
    request = ContinuityImportRequest(scope=scope_of(conversation), snapshot=snapshot, mode=mode, dry_run=dry_run)
    return answer(request, planes.snapshot_taken, when_missing=storing(dry_run=dry_run))


def write_plane(write: PlaneWrite, conversation: str | None, /) -> int | None:
    """Commit a write to a conversation and print what became of it."""
    request = MemoryWriteRequest(scope=scope_of(conversation), write=write)
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)


@click.group("notes", cls=Group)
@common
def notes() -> None:
    """See and write what days and months held."""


@notes.command("list")
@in_conversation
@common
def list_notes(*, conversation: str | None) -> int | None:
    """Show the conversation's notes, the latest first."""
    return answer(ContinuityRequest(scope=scope_of(conversation)), planes.notes_shown)


@notes.command("write")
@click.argument("period")
@click.argument("text")
@in_conversation
@common
def write_note(*, period: str, text: str, conversation: str | None) -> int | None:
    """Write what PERIOD held, a day (2026-08-01) or a month (2026-08), in place of what was written before."""
    return write_plane(NotesWrite(notes=(valid(NoteDraft, period=period, text=text),)), conversation)


@click.group("garden", cls=Group)
@common
def garden() -> None:
    """See and write what a persona keeps to itself in a conversation."""


@garden.command("list")
@choosing("--audience", GardenAudience.OWNER, "For whom.")
@in_conversation
@common
def list_garden(*, audience: GardenAudience, conversation: str | None) -> int | None:
    """Show the private documents that the audience may see."""
    return answer(GardenRequest(scope=scope_of(conversation), audience=audience), planes.garden_shown)


@garden.command("write")
@click.argument("name")
@click.argument("text")
@click.option("--role", type=OneOf(GardenRole), required=True, help="What it is for.")
@in_conversation
@common
def write_garden(*, name: str, text: str, role: GardenRole, conversation: str | None) -> int | None:
    """Write the private document NAME, in place of one of that name."""
    draft = valid(GardenDraft, name=name, text=text, role=role)
    return write_plane(GardenWrite(documents=(draft,)), conversation)


@click.group("subjects", cls=Group)
@common
def subjects() -> None:
    """See who takes part in the space, and how they stand to each other."""


@subjects.command("list")
@click.option("--audit", is_flag=True, help="Hidden ones too, and those for an audit alone.")
@click.option("--kind", "kinds", multiple=True, type=OneOf(SubjectKind), help="Only these; may be repeated.")
@common
def list_subjects(*, audit: bool, kinds: tuple[SubjectKind, ...]) -> int | None:
    """List subjects by name, and the edges between them."""
    audience = SubjectAudience.AUDIT if audit else SubjectAudience.HOST
    return answer(SubjectsRequest(audience=audience, kinds=kinds), planes.subjects_shown)


@subjects.command("write")
@click.argument("file", type=click.Path(path_type=Path))
@common
def write_subject(*, file: Path) -> int | None:
    """Write the subjects and edges in FILE (JSON); its `ended_edges` end."""
    request = MemoryWriteRequest(write=read_value(SubjectsWrite, file))
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)
