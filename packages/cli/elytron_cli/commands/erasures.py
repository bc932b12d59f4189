"""Commands that record erasures in a file and re-apply them to a restored copy."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from elytron.erasure.reapplication import erase_all_again, gather_all, known_erasures, read_erasures, write_erasures
from elytron_adapter.envelope import failure_of
from elytron_cli.input.options import (
    PageGroup,
    common_options,
    yes_option,
)
from elytron_cli.session import (
    open_session,
    run_output,
    run_settings,
)
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import confirm_question, safe_line
from elytron_core.contracts.archive import (
    ErasuresOutcome,
    MemoryErasuresApplyReport,
    MemoryErasuresKeepReport,
)
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.model import Value


class ErasuresKept(Value):
    """The erasures that the file now holds of each space."""

    spaces: tuple[MemoryErasuresKeepReport, ...]


class ErasuresApplied(Value):
    """The result for each space of the store."""

    spaces: tuple[MemoryErasuresApplyReport, ...]
    changed: bool


@click.group("erasures", cls=PageGroup)
@common_options
def erasures_group() -> None:
    """Record erasures in a file outside the store, and re-apply them to a restored backup."""


@erasures_group.command("keep")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--gone", "erased_spaces", multiple=True, metavar="NAME", help="Space that was erased as a whole.")
@common_options
def keep_command(*, file: Path, erased_spaces: tuple[str, ...]) -> None:
    """Add the erasures of every space in the store to FILE.

    FILE contains ids and names of spaces, and no content. Store it apart from the store and its backups. A space that
    was erased as a whole leaves no trace in the store: name it with --gone if FILE already lists it.
    """
    report = asyncio.run(_keep_erasures(file, erased_spaces))
    rows = [(safe_line(each.space), _erasures_line(each)) for each in report.spaces]
    run_output().report(report, lambda console, _: tables_layout.show_pairs(console, rows or [("spaces", "none")]))


@erasures_group.command("apply")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be erased without erasing it.")
@yes_option
@common_options
def apply_command(*, file: Path, dry_run: bool, yes: bool) -> int | None:
    """Re-apply the erasures listed in FILE to every space; repeating it is harmless.

    Anything written after the restore is preserved. A space that was erased as a whole but written to since is
    preserved too; it is reported, and the exit code is then 4.
    """
    confirm_question(f"Erase what {file.name} lists from every space? This cannot be undone.", yes=yes or dry_run)
    report = asyncio.run(_apply_erasures(file, dry_run=dry_run))
    rows = [(safe_line(each.space), _applied_line(each)) for each in report.spaces]
    run_output().report(report, lambda console, _: tables_layout.show_pairs(console, rows or [("spaces", "none")]))
    has_refused_space = any(each.outcome is ErasuresOutcome.WRITTEN_SINCE for each in report.spaces)
    return failure_of(Conflict.key).exit if has_refused_space else None


async def _keep_erasures(file: Path, removed_spaces: tuple[str, ...]) -> ErasuresKept:
    async with open_session(run_settings()) as session:
        erasures = known_erasures(file)
        await gather_all(session.runtime.context, erasures, erased_ids=tuple(map(SpaceId, removed_spaces)))
        write_erasures(file, erasures)
    reports = [
        MemoryErasuresKeepReport(
            space=entry.space, path=str(file), erased=entry.by_plane(), is_whole=entry.whole_at is not None
        )
        for entry in erasures.spaces
    ]
    return ErasuresKept(spaces=tuple(reports))


async def _apply_erasures(file: Path, *, dry_run: bool) -> ErasuresApplied:
    erasures = read_erasures(file)
    async with open_session(run_settings()) as session:
        outcomes = await erase_all_again(session.runtime.context, erasures, dry_run=dry_run)
    return ErasuresApplied(spaces=outcomes, changed=any(each.changed for each in outcomes))


def _erasures_line(report: MemoryErasuresKeepReport) -> str:
    whole_text = "erased as a whole; " if report.is_whole else ""
    return f"{whole_text}{_count_erased(report.erased) or 'nothing erased'}"


def _applied_line(report: MemoryErasuresApplyReport) -> str:
    match report.outcome:
        case ErasuresOutcome.WRITTEN_SINCE:
            return "written to since the restore: erase the space, or the affected memories"
        case ErasuresOutcome.NOTHING:
            return "nothing to erase"
        case ErasuresOutcome.APPLIED:
            return f"{'would erase' if report.dry_run else 'erased'} {_count_erased(report.erased) or 'everything'}"


def _count_erased(erased_counts: Mapping[RecallPlane, int]) -> str:
    return ", ".join(f"{count} {plane.value}" for plane, count in erased_counts.items())
