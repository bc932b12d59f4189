"""Commands that show, write and transfer the state of conversations."""

from pathlib import Path

import click

from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    force_option,
    in_conversation,
)
from elytron_cli.input.values import read_value, require_free, valid_value, write_file
from elytron_cli.session import CommandSession, answer_request, run_work, scope_of, storing_missing
from elytron_cli.tables import hits as tables_hits
from elytron_cli.tables import planes
from elytron_cli.terminal.output import CommandOutput, json_text
from elytron_core.contracts.continuity import (
    CapsulesWrite,
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


@click.group("continuity", cls=PageGroup)
@common_options
def continuity_group() -> None:
    """Show and write the state of a conversation, and export or import it."""


@continuity_group.command("show")
@click.argument("query", required=False, default="")
@in_conversation
@common_options
def show_command(*, query: str, conversation: str | None) -> int | None:
    """Show work, summary, capsules and notes, marking the capsules that QUERY matches."""
    return answer_request(ContinuityRequest(scope=scope_of(conversation), query=query), planes.continuity_shown)


@continuity_group.command("write")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("file", type=click.Path(path_type=Path))
@in_conversation
@common_options
def write_command(*, kind: str, file: Path, conversation: str | None) -> int | None:
    """Write the capsules, the execution state or the summary in FILE (JSON)."""
    return write_plane(read_value(_KINDS[kind], file), conversation)


@continuity_group.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@choice_option("--mode", SnapshotMode.FULL_RESTORE, "Extent of the snapshot.")
@force_option
@in_conversation
@common_options
def export_command(*, file: Path, mode: SnapshotMode, force: bool, conversation: str | None) -> int | None:
    """Write a snapshot of the conversation to the new file FILE."""
    require_free(file, force=force)
    request = ContinuityExportRequest(scope=scope_of(conversation), mode=mode)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await session.call(request)
        write_file(file, json_text(report.snapshot) + "\n", force=force)
        out.report(report, lambda console, _: planes.snapshot_written(console, report, file.name))

    return run_work(work)


@continuity_group.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@choice_option("--mode", SnapshotMode.BOOTSTRAP, "Extent of the import.")
@dry_run_option("Show what would be imported without storing it.")
@in_conversation
@common_options
def import_snapshot(*, file: Path, mode: SnapshotMode, dry_run: bool, conversation: str | None) -> int | None:
    """Import the snapshot in FILE into the conversation; newer values take precedence."""
    snapshot = read_value(ContinuitySnapshot, file)
    request = ContinuityImportRequest(scope=scope_of(conversation), snapshot=snapshot, mode=mode, dry_run=dry_run)
    return answer_request(request, planes.snapshot_taken, when_missing=storing_missing(dry_run=dry_run))


def write_plane(write: PlaneWrite, conversation: str | None, /) -> int | None:
    """Commit a write to a conversation and print the result."""
    request = MemoryWriteRequest(scope=scope_of(conversation), write=write)
    return answer_request(request, tables_hits.show_written, when_missing=WhenMissing.MAKE)


@click.group("notes", cls=PageGroup)
@common_options
def notes_group() -> None:
    """Read and write daily and monthly notes."""


@notes_group.command("list")
@in_conversation
@common_options
def list_notes(*, conversation: str | None) -> int | None:
    """List the notes of the conversation, latest first."""
    return answer_request(ContinuityRequest(scope=scope_of(conversation)), planes.notes_shown)


@notes_group.command("write")
@click.argument("period")
@click.argument("text")
@in_conversation
@common_options
def write_note(*, period: str, text: str, conversation: str | None) -> int | None:
    """Write the note for PERIOD, a day (2026-08-01) or a month (2026-08), replacing any earlier one."""
    return write_plane(NotesWrite(notes=(valid_value(NoteDraft, period=period, text=text),)), conversation)


@click.group("garden", cls=PageGroup)
@common_options
def garden_group() -> None:
    """Read and write the private documents of a persona."""


@garden_group.command("list")
@choice_option("--audience", GardenAudience.OWNER, "Audience of the documents.")
@in_conversation
@common_options
def list_garden(*, audience: GardenAudience, conversation: str | None) -> int | None:
    """List the private documents that the audience can see."""
    return answer_request(GardenRequest(scope=scope_of(conversation), audience=audience), planes.garden_shown)


@garden_group.command("write")
@click.argument("name")
@click.argument("text")
@click.option("--role", type=OneOf(GardenRole), required=True, help="Purpose of the document.")
@in_conversation
@common_options
def write_garden(*, name: str, text: str, role: GardenRole, conversation: str | None) -> int | None:
    """Write the private document NAME, replacing any earlier one."""
    draft = valid_value(GardenDraft, name=name, text=text, role=role)
    return write_plane(GardenWrite(documents=(draft,)), conversation)


@click.group("subjects", cls=PageGroup)
@common_options
def subjects_group() -> None:
    """List the people and agents in the space, and their relationships."""


@subjects_group.command("list")
@click.option("--audit", is_flag=True, help="Include hidden subjects and those visible only to audits.")
@click.option("--kind", "kinds", multiple=True, type=OneOf(SubjectKind), help="Kind of subject to include.")
@common_options
def list_subjects(*, audit: bool, kinds: tuple[SubjectKind, ...]) -> int | None:
    """List the subjects by name, with the relationships between them."""
    audience = SubjectAudience.AUDIT if audit else SubjectAudience.HOST
    return answer_request(SubjectsRequest(audience=audience, kinds=kinds), planes.subjects_shown)


@subjects_group.command("write")
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def write_subject(*, file: Path) -> int | None:
    """Write the subjects and relationships in FILE (JSON); those in `ended_edges` are ended."""
    request = MemoryWriteRequest(write=read_value(SubjectsWrite, file))
    return answer_request(request, tables_hits.show_written, when_missing=WhenMissing.MAKE)
