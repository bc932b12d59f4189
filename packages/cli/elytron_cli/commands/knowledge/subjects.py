"""People and other subjects of a space."""

from pathlib import Path

import click

from elytron_cli.input.files import read_value
from elytron_cli.input.options import Group, OneOf, common
from elytron_cli.runner import answer
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import planes
from elytron_core.contracts.conversation.write import MemoryWriteRequest
from elytron_core.contracts.knowledge.subjects import SubjectAudience, SubjectsRequest
from elytron_core.contracts.planes import SubjectsWrite
from elytron_core.planes.knowledge.subjects import SubjectKind
from elytron_store import WhenMissing


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
def write(*, file: Path) -> int | None:
    """Write the subjects and edges in FILE (JSON); its `ended_edges` end."""
    request = MemoryWriteRequest(write=read_value(SubjectsWrite, file))
    return answer(request, tables_common.written, when_missing=WhenMissing.MAKE)
