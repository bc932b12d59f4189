"""Commands that list assistants' sessions and import them into the memory of their repositories."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_assistants.hooks.activity import ActivityFolder
from elytron_assistants.sessions.session_import import (
    ImportChoice,
    ListedSession,
    SessionImport,
    SessionImportReport,
    list_sessions,
)
from elytron_assistants.sessions.session_log import AssistantHost, SkipCause
from elytron_assistants.sessions.session_places import AssistantPlaces, places_of
from elytron_cli.commands.file_import import hint_at_resuming
from elytron_cli.config import state_folder
from elytron_cli.input.options import OneOf, PageGroup, common_options, dry_run_option, limit_option, time_option
from elytron_cli.session import CommandSession, person_space, run_work, stated_settings, storing_missing
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, ProgressBar, safe_line
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

_HOST = click.argument("host", required=False, type=OneOf(AssistantHost))
_PATH = click.option(
    "--path", type=click.Path(path_type=Path), help="File or folder to read in place of the usual ones of HOST."
)


class SessionListReport(Value):
    """The sessions on disk, the one that changed last first."""

    sessions: tuple[ListedSession, ...]
    total: int


@click.group("sessions", cls=PageGroup)
@common_options
def sessions_group() -> None:
    """Import what coding assistants left on disk into the memory of each repository."""


@sessions_group.command("import")
@_HOST
@time_option("--since", "Import only sessions that changed since then.")
@_PATH
@click.option("--subagents", is_flag=True, help="Include sessions of subagents.")
@click.option("--again", is_flag=True, help="Read unchanged files again, too.")
@dry_run_option("Read everything and show what would be stored.")
@common_options
def import_command(
    *,
    host: AssistantHost | None,
    since: Instant | None,
    path: Path | None,
    subagents: bool,
    again: bool,
    dry_run: bool,
) -> int | None:
    """Import the sessions and memory files of HOST, or of every assistant, that are on this machine.

    Each session goes to the space of the repository in whose folder it took place. The words of the user and the
    assistant are stored, and next to them commands, exit codes and changed files. A repeat reads only what is new, and
    erased messages stay erased. After an interruption, run the same command again to resume.
    """
    hosts = (host,) if host is not None else tuple(AssistantHost)
    choice = ImportChoice(hosts=hosts, since=since, subagents=subagents, again=again, dry_run=dry_run)
    return import_sessions(choice, _chosen_places(host, path))


def import_sessions(choice: ImportChoice, places: AssistantPlaces, /) -> int | None:
    """Import sessions as selected, report, and return the exit code."""

    async def work(session: CommandSession, out: CommandOutput) -> None:
        records = ActivityFolder(state_folder(os.environ) / "assistants")
        own_space = person_space(stated_settings())
        session_import = SessionImport(session.runtime, own_space, places, choice, is_paused=records.is_paused)
        with (
            hint_at_resuming(out),
            ProgressBar("importing", unit="bytes", is_visible=not out.is_json, first="reading") as bar,
        ):
            report = await session_import.run(bar.at)
        out.report(report, _show_imported)

    return run_work(work, when_missing=storing_missing(dry_run=choice.dry_run))


@sessions_group.command("list")
@_HOST
@_PATH
@limit_option("Maximum number of sessions.")
@common_options
def list_command(*, host: AssistantHost | None, path: Path | None, limit: int) -> int | None:
    """List the sessions of HOST, or of every assistant, that are on this machine, and whether they were imported."""
    assistant_places = _chosen_places(host, path)

    async def work(session: CommandSession, out: CommandOutput) -> None:
        hosts = (host,) if host is not None else tuple(AssistantHost)
        sessions = await list_sessions(session.runtime, person_space(stated_settings()), assistant_places, hosts)
        out.report(SessionListReport(sessions=sessions[:limit], total=len(sessions)), _show_listed)

    return run_work(work, when_missing=WhenMissing.PRETEND, hints=False)


def _chosen_places(host: AssistantHost | None, path: Path | None) -> AssistantPlaces:
    """Return this user's places. Raises InvalidInput for a missing path, or one without an assistant."""
    places = places_of(os.environ, Path.home())
    if path is None:
        return places
    if host is None:
        raise InvalidInput(field="--path", problem="requires HOST: name the assistant whose files it holds")
    if not path.exists():
        raise InvalidInput(field="--path", problem="names nothing that exists")
    return places.at(host, path.absolute())


def _show_imported(console: "Console", report: SessionImportReport) -> None:
    skipped_counts = [(reason.value.replace("_", " "), count) for reason, count in report.skipped.items()]
    stored_text = "nothing (dry run)" if report.dry_run else str(report.stored)
    counts = [
        ("updated", report.updated), ("already stored", report.duplicates), ("previously erased", report.erased),
        ("hidden", report.hidden), ("redacted", sum(report.scrubbed.values())),
    ]  # fmt: skip
    rows = [
        ("found", f"{report.sources} sessions and files, {report.unchanged} unchanged"),
        ("read", f"{report.sessions} sessions, {report.notes} notes, {report.read_bytes:,} bytes"),
        ("would store" if report.dry_run else "stored", str(report.stored) if report.dry_run else stored_text),
        *((name, str(count)) for name, count in counts if count),
        *((safe_line(filed.label), f"{filed.stored} messages of {filed.sessions} sessions in the space {filed.space}")
          for filed in report.spaces),
        *(("skipped", f"{count} {reason}") for reason, count in skipped_counts),
        *(("unknown", safe_line(f"{count} {kind}")) for kind, count in report.unknown.items()),
    ]  # fmt: skip
    tables_layout.show_pairs(console, rows)
    if SkipCause.PAUSED in report.skipped:
        console.print("paused: run `elytron hooks resume` in their folders, then import again", soft_wrap=True)
    if SkipCause.COMPRESSED in report.skipped:
        console.print("compressed sessions are read if the package `backports.zstd` is installed", soft_wrap=True)


def _show_listed(console: "Console", report: SessionListReport) -> None:
    rows = [
        (
            each.host.value,
            f"{tables_layout.minute_text(each.changed_at)}  {each.state:8}  {safe_line(each.folder or '-')}",
        )
        for each in report.sessions
    ]
    tables_layout.show_pairs(console, rows or [("sessions", "none")])
    if report.total > len(report.sessions):
        console.print(f"{report.total - len(report.sessions)} more: pass --limit")
