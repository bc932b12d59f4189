"""Skills as people read them at a terminal."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import pairs, table, when
from elytron_cli.terminal.output import line, safe
from elytron_core.contracts.knowledge.skills import (
    AgentSkillDirectoryReport,
    RuntimeSkillDetailReport,
    RuntimeSkillGovernReport,
    RuntimeSkillListReport,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseReport,
    RuntimeSkillSummary,
)

if TYPE_CHECKING:
    from rich.console import Console


def listed(console: "Console", report: RuntimeSkillListReport, /) -> None:
    """Show the skills, and how many there are in all."""
    rows = (
        (skill.name, skill.topic, skill.title, _state(skill), skill.quality, _used(skill))
        for skill in report.runtime_skills
    )
    table(console, ("name", "topic", "title", "state", "quality", "used"), rows, numbers=("quality", "used"))
    told = f"{report.total} in all, {report.active} active, {report.disabled} disabled, {report.retired} retired"
    console.print(told + ("; there are more" if report.clipped else ""))


def shown(console: "Console", report: RuntimeSkillDetailReport, /) -> None:
    """Show one skill, whole."""
    skill = report.skill
    pairs(
        console,
        {
            "name": skill.name,
            "topic": skill.topic,
            "title": skill.title,
            "summary": skill.summary,
            "state": _state(skill),
            "quality": str(skill.quality),
            "used": _used(skill),
            "source": f"{skill.source.value} ({skill.origin.value})",
            "updated": when(skill.updated_at),
            "citations": ", ".join(report.citations),
            "supersedes": ", ".join(skill.supersedes),
            "superseded by": skill.superseded_by or "",
            "last outcome": f"{when(report.last_outcome_at)} {report.last_outcome_note}".strip(),
        }.items(),
    )
    console.print()
    console.print(safe(report.procedure), soft_wrap=True)
    if len(report.lineage) > 1:
        rows = ((node.revision, node.name, node.status, when(node.at)) for node in report.lineage)
        table(console, ("revision", "name", "status", "date"), rows, numbers=("revision",))
    for diff in report.strategy_diffs:
        why = f": {line(diff.reason)}" if diff.reason else ""
        console.print(f"{when(diff.at)} revision {diff.revision}, {diff.change.value}{why}", soft_wrap=True)
        for sign, text in (("-", diff.before), ("+", diff.after)):
            for part in text.splitlines():
                console.print(f"  {sign} {safe(part)}", soft_wrap=True)


def mutated(console: "Console", report: RuntimeSkillMutationReport, /) -> None:
    """Show what was done to one skill."""
    if report.refused is not None:
        console.print(f"refused: {report.reason}", soft_wrap=True)
    elif not report.changed:
        console.print("nothing was changed")
    elif report.skill is None:
        console.print(f"deleted {line(report.name)}", soft_wrap=True)
    else:
        told = f"revision {report.skill.revision}, {_state(report.skill)}"
        console.print(f"changed {line(report.name)}: {told}", soft_wrap=True)


def reused(console: "Console", report: RuntimeSkillReuseReport, /) -> None:
    """Show for which skills the outcome was noted."""
    for name in report.recorded:
        console.print(f"noted  {line(name)}", soft_wrap=True)
    for name in report.unknown:
        console.print(f"no such skill  {line(name)}", soft_wrap=True)


def governed(console: "Console", report: RuntimeSkillGovernReport, /) -> None:
    """Show what governance did, or would do."""
    for what in ("active", "stale", "low_value", "retired", "merged", "pruned"):
        names: tuple[str, ...] = getattr(report, what)
        for name in names:
            console.print(f"{what:<9}  {line(name)}", soft_wrap=True)
    console.print(f"{report.looked_at} looked at" + ("" if report.changed else "; nothing was changed"))


def directories(console: "Console", report: AgentSkillDirectoryReport, /) -> None:
    """Show the agent skills, and what was left out."""
    rows = ((skill.name, skill.description, skill.place, sum(skill.resources.values())) for skill in report.skills)
    table(console, ("name", "description", "place", "files"), rows, numbers=("files",))
    for skipped in report.skipped:
        console.print(f"left out  {line(skipped.place)}: {skipped.reason.value}", soft_wrap=True)
    console.print(f"{len(report.skills)} skills in {report.directories} directories")


def _state(skill: RuntimeSkillSummary) -> str:
    marks = ("" if skill.enabled else "disabled", "forgotten" if skill.forgotten else "")
    pending = "revision pending" if skill.revision_pending else ""
    return ", ".join(part for part in (skill.state.value, *marks, pending) if part)


def _used(skill: RuntimeSkillSummary) -> str:
    return f"{skill.use_count}× +{skill.validated_count} -{skill.mismatch_count}"
