"""People and other subjects of a space."""

from pathlib import Path

import click

from elytron_cli.input.files import read_value
from elytron_cli.input.options import Command, Group, common
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output
from elytron_core.contracts.conversation.write import MemoryWriteReport, MemoryWriteRequest
from elytron_core.contracts.knowledge.subjects import SubjectAudience, SubjectsReport, SubjectsRequest
from elytron_core.contracts.planes import SubjectsWrite
from elytron_core.planes.knowledge.subjects import SubjectKind
from elytron_store import WhenMissing

_KINDS = click.Choice([one.value for one in SubjectKind])


@click.group("subjects", cls=Group)
@common
def subjects() -> None:
    """See who takes part in the space, and how they stand to each other."""


@subjects.command("list", cls=Command)
@click.option("--audit", is_flag=True, help="Hidden ones too, and those for an audit alone.")
@click.option("--kind", "kinds", multiple=True, type=_KINDS, help="Only these; may be repeated.")
@common
def list_subjects(*, audit: bool, kinds: tuple[str, ...]) -> int | None:
    """List subjects by name, and the edges between them."""
    audience = SubjectAudience.AUDIT if audit else SubjectAudience.HOST
    request = SubjectsRequest(audience=audience, kinds=tuple(map(SubjectKind, kinds)))

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, SubjectsReport)
        out.report(report, lambda console: planes.subjects_shown(console, report))

    return run(work)


@subjects.command("write", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@common
def write(*, file: Path) -> int | None:
    """Write the subjects and edges in FILE (JSON); its `ended_edges` end."""
    request = MemoryWriteRequest(write=read_value(SubjectsWrite, file))

    async def work(session: Session, out: Output) -> None:
        report: MemoryWriteReport = await session.write(request)
        out.report(report, lambda console: planes.written(console, report))

    return run(work, when_missing=WhenMissing.MAKE)
