"""Runtime skills, which were learned, and agent skills, which are read from directories of yours."""

from collections.abc import Sequence
from pathlib import Path

import click

from elytron_cli.input.files import read_file
from elytron_cli.input.options import Command, Group, asking, common, limited
from elytron_cli.input.skill_files import skill_writes
from elytron_cli.input.values import valid
from elytron_cli.runner import run, storing
from elytron_cli.session import Session
from elytron_cli.tables import skills as tables_skills
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import Output
from elytron_core.contracts.admin.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.conversation.write import MemoryWriteRequest, Procedural
from elytron_core.contracts.knowledge.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailReport,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillGovernReport,
    RuntimeSkillGovernRequest,
    RuntimeSkillListReport,
    RuntimeSkillListRequest,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseReport,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.model import Request
from elytron_core.planes.knowledge.procedural import ReuseOutcome, SkillSource, full_name

REFUSED = 2


@click.group("skills", cls=Group)
@common
def skills() -> None:
    """See and govern what was learned. Names may be given without `runtime_skill__`. Nothing here executes a skill."""


@skills.command("list", cls=Command)
@click.argument("query", required=False)
@click.option("--disabled", is_flag=True, help="Disabled ones too.")
@click.option("--retired", is_flag=True, help="Retired ones too.")
@limited("How many at most.")
@common
def list_skills(*, query: str | None, disabled: bool, retired: bool, limit: int) -> int | None:
    """List runtime skills, those in use and of quality first; with QUERY those that have its words."""
    request = RuntimeSkillListRequest(query=query, include_disabled=disabled, include_retired=retired, limit=limit)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, RuntimeSkillListReport)
        out.report(report, lambda console: tables_skills.listed(console, report))

    return run(work)


@skills.command("show", cls=Command)
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
            return
        out.report(report, lambda console: tables_skills.shown(console, report))

    return run(work)


@skills.command("edit", cls=Command)
@click.argument("name")
@click.option("--title", metavar="TEXT", help="Its new title.")
@click.option("--topic", metavar="TEXT", help="Its new topic.")
@click.option("--summary", metavar="TEXT", help="Its new summary.")
@click.option("--procedure-file", type=click.Path(path_type=Path), metavar="FILE", help="A file with its new steps.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the change.")
@common
def edit(
    *,
    name: str,
    title: str | None,
    topic: str | None,
    summary: str | None,
    procedure_file: Path | None,
    reason: str,
) -> int | None:
    """Revise the runtime skill NAME; what is not named stays, and the change is kept as a diff."""
    if title is None and topic is None and summary is None and procedure_file is None:
        raise click.UsageError("say what is to change: --title, --topic, --summary or --procedure-file")
    request = RuntimeSkillEditRequest(
        name=full_name(name),
        title=title,
        topic=topic,
        summary=summary,
        procedure=read_file(procedure_file) if procedure_file is not None else None,
        edit_reason=reason,
    )
    return _mutate(request)


@skills.command("enable", cls=Command)
@click.argument("name")
@common
def enable(*, name: str) -> int | None:
    """Let recall show the runtime skill NAME again, also one that was retired."""
    return _mutate(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=True))


@skills.command("disable", cls=Command)
@click.argument("name")
@common
def disable(*, name: str) -> int | None:
    """Keep the runtime skill NAME out of recall; its content stays."""
    return _mutate(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=False))


@skills.command("delete", cls=Command)
@click.argument("name")
@asking
@common
def delete(*, name: str, yes: bool) -> int | None:
    """Remove the runtime skill NAME."""
    confirm(f"Remove the skill {name!r}?", yes=yes)
    return _mutate(RuntimeSkillDeleteRequest(name=full_name(name)))


@skills.command("import", cls=Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only read and judge the files.")
@common
def import_skills(*, files: Sequence[Path], dry_run: bool) -> int | None:
    """Write the procedures in FILES as runtime skills: Markdown as `skills show --raw` prints it, JSON or JSON Lines.

    SKILL.md files are none of these: name their folder in --agent-skill-dirs, and they are read there.
    """
    writes = tuple(write for file in files for write in skill_writes(file.name, read_file(file)))
    write = valid(Procedural, writes=writes, source=SkillSource.MANUAL)
    request = MemoryWriteRequest(write=write, dry_run=dry_run)

    async def work(session: Session, out: Output) -> None:
        report = await session.write(request)
        out.report(report, lambda console: tables_skills.written(console, report))

    return run(work, when_missing=storing(dry_run=dry_run))


@skills.command("outcome", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.option("--outcome", type=click.Choice([one.value for one in ReuseOutcome]), required=True, help="How it went.")
@click.option("--note", default="", metavar="TEXT", help="A word on it.")
@common
def outcome(*, names: Sequence[str], outcome: str, note: str) -> int | None:
    """Say how it went with the runtime skills NAMES: a mismatch asks for a revision, a success takes that back."""
    request = RuntimeSkillReuseRequest(names=tuple(map(full_name, names)), outcome=ReuseOutcome(outcome), note=note)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, RuntimeSkillReuseReport)
        out.report(report, lambda console: tables_skills.reused(console, report))

    return run(work)


@skills.command("govern", cls=Command)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@common
def govern(*, dry_run: bool) -> int | None:
    """Merge duplicates, retire stale skills, remove those of no use."""
    request = RuntimeSkillGovernRequest(dry_run=dry_run)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, RuntimeSkillGovernReport)
        out.report(report, lambda console: tables_skills.governed(console, report))

    return run(work)


@skills.command("dirs", cls=Command)
@common
def dirs() -> int | None:
    """Show what the directories in --agent-skill-dirs (or ELYTRON_AGENT_SKILL_DIRS) hold. They are only read."""

    async def work(session: Session, out: Output) -> None:
        report = (await session.call(MemoryInspectionRequest(), MemoryInspectionReport)).agent_skills
        out.report(report, lambda console: tables_skills.directories(console, report))

    return run(work)


def _mutate(request: Request) -> int | None:
    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(request, RuntimeSkillMutationReport)
        out.report(report, lambda console: tables_skills.mutated(console, report))
        return REFUSED if report.refused is not None else None

    return run(work)
