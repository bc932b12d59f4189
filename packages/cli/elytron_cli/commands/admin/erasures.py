"""A file of past erasures, and their repetition after an older copy of the store was put back."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from elytron.erasure.log_file import known_erasures, read_erasures, write_erasures
from elytron.erasure.reapplication import erase_all_again, gather_all
from elytron_adapter.failures import failure
from elytron_cli.input.options import Group, asking, common
from elytron_cli.runner import output, settings
from elytron_cli.session import opened
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import line
from elytron_core.contracts.admin.erasures import ErasuresOutcome, MemoryErasuresApplyReport, MemoryErasuresKeepReport
from elytron_core.contracts.knowledge.recall import Plane
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


@click.group("erasures", cls=Group)
@common
def erasures() -> None:
    """Keep what was erased in a file elsewhere, and erase it again after an older copy was put back."""


@erasures.command("keep")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--gone", multiple=True, metavar="NAME", help="A space that was erased as a whole; may be repeated.")
@common
def keep(*, file: Path, gone: tuple[str, ...]) -> None:
    """Add what was erased in every space of the store to FILE.

    FILE holds ids and names of spaces, and no content. Keep it apart from the store and its backups. A space that was
    erased as a whole leaves no trace in the store: name it with --gone, once FILE knows it.
    """
    told = asyncio.run(_kept(file, gone))
    rows = [(line(each.space), _told(each)) for each in told.spaces]
    output().report(told, lambda console, _: tables_common.pairs(console, rows or [("spaces", "none")]))


@erasures.command("apply")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@asking
@common
def apply(*, file: Path, dry_run: bool, yes: bool) -> int | None:
    """Erase again, in every space, what was erased according to FILE and is there again. A repeat is harmless.

    What was written since stays. A space that was erased as a whole and written to after it was put back stays too:
    it is named, and the command exits with 4.
    """
    confirm(f"Erase what {file.name} lists from every space, with no way back?", yes=yes or dry_run)
    done = asyncio.run(_applied(file, dry_run=dry_run))
    rows = [(line(each.space), _done(each)) for each in done.spaces]
    output().report(done, lambda console, _: tables_common.pairs(console, rows or [("spaces", "none")]))
    is_left = any(each.outcome is ErasuresOutcome.WRITTEN_SINCE for each in done.spaces)
    return failure(Conflict.key).exit if is_left else None


async def _kept(file: Path, gone: tuple[str, ...]) -> ErasuresKept:
    async with opened(settings()) as session:
        found = known_erasures(file)
        await gather_all(session.runtime.context, found, gone=tuple(map(SpaceId, gone)))
        write_erasures(file, found)
    reports = [
        MemoryErasuresKeepReport(
            space=told.space, path=str(file), erased=told.by_plane(), is_whole=told.whole_at is not None
        )
        for told in found.spaces
    ]
    return ErasuresKept(spaces=tuple(reports))


async def _applied(file: Path, *, dry_run: bool) -> ErasuresApplied:
    found = read_erasures(file)
    async with opened(settings()) as session:
        done = await erase_all_again(session.runtime.context, found, dry_run=dry_run)
    return ErasuresApplied(spaces=done, changed=any(each.changed for each in done))


def _told(report: MemoryErasuresKeepReport) -> str:
    whole = "erased as a whole; " if report.is_whole else ""
    return f"{whole}{_counted(report.erased) or 'nothing erased'}"


def _done(report: MemoryErasuresApplyReport) -> str:
    match report.outcome:
        case ErasuresOutcome.WRITTEN_SINCE:
            return "was written to since: erase it, or what of it must go"
        case ErasuresOutcome.NOTHING:
            return "nothing to erase"
        case ErasuresOutcome.APPLIED:
            return f"{'would erase' if report.dry_run else 'erased'} {_counted(report.erased) or 'all of it'}"


def _counted(erased: Mapping[Plane, int]) -> str:
    return ", ".join(f"{count} {plane.value}" for plane, count in erased.items())
