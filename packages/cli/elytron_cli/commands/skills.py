"""Commands for runtime skills, which were learned, and agent skills, which are read from your directories."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from elytron.state.skill_directories import SkillDirs
from elytron_cli.input.options import (
    OneOf,
    PageGroup,
    common_options,
    dry_run_option,
    limit_option,
    reason_option,
    yes_option,
)
from elytron_cli.input.values import read_file, skill_writes, valid_value
from elytron_cli.session import (
    CommandSession,
    answer_request,
    run_output,
    run_settings,
    run_work,
    skill_dirs_of,
    storing_missing,
)
from elytron_cli.tables import hits as tables_hits
from elytron_cli.tables import planes as tables_skills
from elytron_cli.terminal.output import CommandOutput, confirm_question
from elytron_core.clock import SystemClock
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillGovernRequest,
    RuntimeSkillListRequest,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.contracts.transcript import MemoryWriteRequest, ProcedureSource
from elytron_core.planes.skills import ReuseOutcome, SkillSource, full_name

REFUSED = 2


@click.group("skills", cls=PageGroup)
@common_options
def skills_group() -> None:
    """Manage learned skills; none is executed. The prefix `runtime_skill__` of names is optional."""


@skills_group.command("list")
@click.argument("query", required=False)
@click.option("--disabled", "include_disabled", is_flag=True, help="Include disabled skills.")
@click.option("--retired", "include_retired", is_flag=True, help="Include retired skills.")
@limit_option("Maximum number of skills.")
@common_options
def list_skills(**options: Any) -> int | None:
    """List learned skills, active and good ones first, or those that contain the words of QUERY."""
    return answer_request(RuntimeSkillListRequest(**options), tables_skills.skill_table)


@skills_group.command("show")
@click.argument("name")
@click.option("--raw", is_flag=True, help="Print the Markdown form, which `skills import` reads.")
@common_options
def show_command(*, name: str, raw: bool) -> int | None:
    """Show the skill NAME with its citations, lineage and changes."""
    request = RuntimeSkillDetailRequest(name=full_name(name))

    async def work(session: CommandSession, out: CommandOutput) -> None:
        report = await session.call(request)
        if raw:
            click.echo(report.raw_content, nl=False)
        else:
            out.report(report, tables_skills.skill_details)

    return run_work(work)


@skills_group.command("edit")
@click.argument("name")
@click.option("--title", metavar="TEXT", help="New title.")
@click.option("--topic", metavar="TEXT", help="New topic.")
@click.option("--summary", metavar="TEXT", help="New summary.")
@click.option("--procedure-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the new steps.")
@reason_option("Reason, recorded with the change.")
@common_options
def edit_command(*, name: str, procedure_file: Path | None, reason: str, **parts: Any) -> int | None:
    """Revise the skill NAME; fields without an option stay as they are, and the change is recorded."""
    if procedure_file is None and not any(part is not None for part in parts.values()):
        raise click.UsageError("name what to change: --title, --topic, --summary or --procedure-file")
    procedure_text = read_file(procedure_file) if procedure_file is not None else None
    return _mutate_skill(
        RuntimeSkillEditRequest(name=full_name(name), procedure=procedure_text, edit_reason=reason, **parts)
    )


@skills_group.command("enable")
@click.argument("name")
@common_options
def enable_command(*, name: str) -> int | None:
    """Enable the skill NAME for recall, even if it was retired."""
    return _mutate_skill(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=True))


@skills_group.command("disable")
@click.argument("name")
@common_options
def disable_command(*, name: str) -> int | None:
    """Disable the skill NAME for recall; its content is preserved."""
    return _mutate_skill(RuntimeSkillSetEnabledRequest(name=full_name(name), enabled=False))


@skills_group.command("delete")
@click.argument("name")
@yes_option
@common_options
def delete_command(*, name: str, yes: bool) -> int | None:
    """Remove the skill NAME."""
    confirm_question(f"Remove the skill {name!r}?", yes=yes)
    return _mutate_skill(RuntimeSkillDeleteRequest(name=full_name(name)))


@skills_group.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@dry_run_option("Read and check the files without importing them.")
@common_options
def import_skills(*, files: Sequence[Path], dry_run: bool) -> int | None:
    """Import the procedures in FILES as skills: Markdown as printed by `skills show --raw`, JSON or JSON Lines.

    SKILL.md files are not imported but read in place: pass their folder to --agent-skill-dirs.
    """
    writes = tuple(skill_write for file in files for skill_write in skill_writes(file.name, read_file(file)))
    skill_write = valid_value(ProcedureSource, writes=writes, source=SkillSource.MANUAL)
    request = MemoryWriteRequest(write=skill_write, dry_run=dry_run)
    return answer_request(request, tables_hits.show_written, when_missing=storing_missing(dry_run=dry_run))


@skills_group.command("outcome")
@click.argument("names", nargs=-1, required=True)
@click.option("--outcome", type=OneOf(ReuseOutcome), required=True, help="Outcome of using the skills.")
@click.option("--note", default="", metavar="TEXT", help="Comment on the outcome.")
@common_options
def outcome_command(*, names: Sequence[str], **options: Any) -> int | None:
    """Record the outcome of the skills NAMES: a mismatch requests a revision, a success withdraws the request."""
    return answer_request(
        RuntimeSkillReuseRequest(names=tuple(map(full_name, names)), **options), tables_skills.show_reused_skills
    )


@skills_group.command("govern")
@dry_run_option()
@common_options
def govern_command(*, dry_run: bool) -> int | None:
    """Merge duplicate skills, retire stale ones, and remove useless ones."""
    return answer_request(RuntimeSkillGovernRequest(dry_run=dry_run), tables_skills.show_governance)


@skills_group.command("dirs")
@common_options
def dirs_command() -> None:
    """List the agent skills in the directories of --agent-skill-dirs, which are only read."""
    skill_dirs = SkillDirs(skill_dirs_of(run_settings()))
    report = asyncio.run(skill_dirs.scan(at=SystemClock().now()))
    run_output().report(report, tables_skills.show_directories)


def _mutate_skill(
    request: RuntimeSkillEditRequest | RuntimeSkillSetEnabledRequest | RuntimeSkillDeleteRequest,
) -> int | None:
    def code(report: RuntimeSkillMutationReport) -> int | None:
        return REFUSED if report.refused is not None else None

    return answer_request(request, tables_skills.show_mutated_skill, code=code)
