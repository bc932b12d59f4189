"""What memory did in each repository of coding assistants, from the record that hooks keep."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elytron_assistants.hooks.repository_stats import RepositoryStats, StatsReport, repository_stats
from elytron_assistants.project_registry import project_memory
from elytron_cli.config import state_folder
from elytron_cli.input.options import common_options
from elytron_cli.session import CommandSession, person_space, run_settings, run_work, stated_settings
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console


@click.command("stats")
@click.option(
    "--repository",
    type=click.Path(path_type=Path, exists=True, resolve_path=True),
    metavar="PATH",
    help="Show only the project of PATH.",
)
@common_options
def stats_command(*, repository: Path | None) -> int | None:
    """Show what hooks recalled and stored in each repository, and what a prompt cost.

    `recalled` is how many of the prompts had memories added, and `used` how many of these memories the answer repeated
    enough words of. CPU is the mean processor time of a prompt. `turns` counts what is stored now, imported sessions
    included.
    """

    async def work(session: CommandSession, out: CommandOutput) -> None:
        space = None
        if repository is not None:
            project_place = await project_memory(session.runtime, repository, person=person_space(stated_settings()))
            space = project_place.spaces[0]
        records = state_folder(os.environ) / "assistants"
        store = run_settings().store.value
        out.report(await repository_stats(session.call, records, store=store, space=space), _show_stats)

    return run_work(work, when_missing=WhenMissing.PRETEND, hints=False)


def _show_stats(console: "Console", report: StatsReport) -> None:
    # Related counts share a column, so that the table fits into 80 characters.
    columns = ("repository", "recalled", "chars", "used", "CPU", "turns", "last")
    rows = map(_table_row, report.repositories)
    tables_layout.show_table(console, columns, rows, numbers=columns[1:-1], none="no hook has run yet")
    if any(not stats.is_here for stats in report.repositories):
        console.print("* in another store")
    if report.store_bytes is not None:
        console.print(f"size of the store: {report.store_bytes / 1e6:,.1f} MB")


def _table_row(stats: RepositoryStats) -> tuple[Any, ...]:
    return (
        stats.label if stats.is_here else f"{stats.label} *",
        f"{stats.recalled}/{stats.prompts}",
        stats.added_chars,
        f"{stats.used_hits}/{stats.shown_hits}",
        f"{stats.prompt_cpu_ms / 1000:.2f} s",
        stats.turns if stats.turns is not None else "",
        tables_layout.minute_text(stats.changed_at)[: len("2026-11-30")],
    )
