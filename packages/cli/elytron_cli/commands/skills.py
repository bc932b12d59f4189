"""Runtime skills, which were learned, and agent skills, which are read from directories of yours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from elytron_cli.input.files import read_file, skill_writes, valid
from elytron_cli.input.options import Group, OneOf, asking, common, dry, limited, reasoned
from elytron_cli.runner import answer, run, storing
from elytron_cli.session import Session
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import planes as tables_skills
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import Output
from elytron_core.contracts.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailReport,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillGovernRequest,
    RuntimeSkillListRequest,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.contracts.transcript import MemoryWriteRequest, Procedural
from elytron_core.planes.skills import ReuseOutcome, SkillSource, full_name

REFUSED = 2


@click.group("skills", cls=Group)
@common
def skills() -> None:
    """See and govern what was learned. Names may be given without `runtime_skill__`. Nothing here executes a skill."""


@skills.command("list")
@click.argument("query", required=False)
@click.option("--disabled", "include_disabled", is_flag=True, help="Disabled ones too.")
@click.option("--retired", "include_retired", is_flag=True, help="Retired ones too.")
@limited("How many at most.")
@common
def list_skills(**asked: Any) -> int | None:
    """List runtime skills, those in use and of quality first; with QUERY those that have its words."""
    return answer(RuntimeSkillListRequest(**asked), tables_skills.skill_table)


@skills.command("show")
@click.argument("name")
@click.option("--raw", is_flag=True, help="Print the Markdown form, which `skills import` reads.")
@common
def show(*, name: str, raw: bool) -> int | None:
    """Show the runtime skill NAME with its citations, lineage and diffs."""
    request = RuntimeSkillDetailRequest(name=full_name(name))

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, RuntimeSkillDetailReport)
        if raw:
            click.echo(report.raw_content, nl=False)
        else:
            out.report(report, tables_skills.skill_details)

    return run(work)


@skills.command("edit")
@click.argument("name")
@click.option("--title", metavar="TEXT", help="Its new title.")
@click.option("--topic", metavar="TEXT", help="Its new topic.")
@click.option("--summary", metavar="TEXT", help="Its new summary.")
@click.option("--procedure-file", type=click.Path(path_type=Path), metavar="FILE", help="A file with its new steps.")
@reasoned("Why; it is kept with the change.")
@common
def edit(*, name: str, procedure_file: Path | None, reason: str, **parts: Any) -> int | None:
    """Revise the runtime skill NAME; what is not named stays, and the change is kept as a diff."""
    if procedure_file is None and not any(part is not None for part in parts.values()):
        raise click.UsageError("say what is to change: --title, --topic, --summary or --procedure-file")
    procedure = read_file(procedure_file) if procedure_file is not None else None
    return _mutate(RuntimeSkillEditRequest(name=full_name(name), procedure=procedure, edit_reason=reason, **parts))


@skills.command("enable")
@click.argument("name")
@common
def enable(*, name: str) -> int | None:
    """Let recall show the runtime skill NAME again, also one that was retired."""
    return _mutate(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=True))


@skills.command("disable")
@click.argument("name")
@common
def disable(*, name: str) -> int | None:
    """Keep the runtime skill NAME out of recall; its content stays."""
    return _mutate(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=False))


@skills.command("delete")
@click.argument("name")
@asking
@common
def delete(*, name: str, yes: bool) -> int | None:
    """Remove the runtime skill NAME."""
    confirm(f"Remove the skill {name!r}?", yes=yes)
    return _mutate(RuntimeSkillDeleteRequest(name=full_name(name)))


@skills.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@dry("Only read and judge the files.")
@common
def import_skills(*, files: Sequence[Path], dry_run: bool) -> int | None:
    """Write the procedures in FILES as runtime skills: Markdown as `skills show --raw` prints it, JSON or JSON Lines.

    SKILL.md files are none of these: name their folder in --agent-skill-dirs, and they are read there.
    """
    writes = tuple(write for file in files for write in skill_writes(file.name, read_file(file)))
    write = valid(Procedural, writes=writes, source=SkillSource.MANUAL)
    request = MemoryWriteRequest(write=write, dry_run=dry_run)
    return answer(request, tables_common.written, when_missing=storing(dry_run=dry_run))


@skills.command("outcome")
@click.argument("names", nargs=-1, required=True)
@click.option("--outcome", type=OneOf(ReuseOutcome), required=True, help="How it went.")
@click.option("--note", default="", metavar="TEXT", help="A word on it.")
@common
def outcome(*, names: Sequence[str], **asked: Any) -> int | None:
    """Say how it went with the runtime skills NAMES: a mismatch asks for a revision, a success takes that back."""
    return answer(RuntimeSkillReuseRequest(names=tuple(map(full_name, names)), **asked), tables_skills.reused)


@skills.command("govern")
@dry()
@common
def govern(*, dry_run: bool) -> int | None:
    """Merge duplicates, retire stale skills, remove those of no use."""
    return answer(RuntimeSkillGovernRequest(dry_run=dry_run), tables_skills.governed)


@skills.command("dirs")
@common
def dirs() -> int | None:
    """Show what the directories in --agent-skill-dirs (or ELYTRON_AGENT_SKILL_DIRS) hold. They are only read."""

    async def work(session: Session, out: Output) -> None:
        report = (await session.call(MemoryInspectionRequest(), MemoryInspectionReport)).agent_skills
        out.report(report, tables_skills.directories)

    return run(work)


def _mutate(
    request: RuntimeSkillEditRequest | RuntimeSkillSetEnabledRequest | RuntimeSkillDeleteRequest,
) -> int | None:
    def code(report: RuntimeSkillMutationReport) -> int | None:
        return REFUSED if report.refused is not None else None

    return answer(request, tables_skills.mutated, code=code)
