"""Wiring of coding assistants: their settings are written, restored, and shown before either."""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elytron_assistants.hooks.events import HookKind
from elytron_assistants.hosts import HostName
from elytron_assistants.project_identity import repository_of
from elytron_assistants.wiring.host_table import HOST_TABLE, SERVER_NAME, WIRED_HOSTS, host_folders
from elytron_assistants.wiring.settings_text import SettingsEntry, uses_shared_space
from elytron_assistants.wiring.wiring_files import (
    FilePlan,
    WiringChoice,
    WiringRecord,
    hooks_goal,
    host_goals,
    is_installed,
    plan_file,
    plan_removal,
    read_record,
    removal_paths,
    write_plan,
)
from elytron_cli.agents.mcp_config import mcp_address, setting_options
from elytron_cli.app import FAILURE
from elytron_cli.config import program_path, state_folder
from elytron_cli.input.options import OneOf, PageGroup, common_options, dry_run_option, page_command, yes_option
from elytron_cli.session import run_output, stated_settings
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.help_page import PER_REPOSITORY
from elytron_cli.terminal.output import at_terminal, confirm_question, plain_console, safe_line
from elytron_core.errors import InvalidInput, StoreUnavailable
from elytron_core.model import Value

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_assistants.sessions.session_log import AssistantHost

_ONLY = click.option("--only", "names", multiple=True, type=OneOf(WIRED_HOSTS), help="Assistant; can be repeated.")
_PROJECT = click.option("--project", is_flag=True, help="Configure this folder only.")
_URL = click.option("--url", metavar="URL", help="Address of a memory server; its key is read from ELYTRON_API_KEY.")
_RESIDENT = click.option(
    "--resident/--no-resident",
    default=None,
    help="Keep a process with the open memory between prompts. [default: for a store on this machine]",
)
_WAS_SHARED = (
    "The previous hooks shared one space between all repositories. Its memories remain there;"
    " `elytron repo migrate` moves them."
)
_NO_REPOSITORY = "is missing: this folder is not in a repository, so run the command in one or name a space"
_UNSTABLE = "the program is in uv's cache, which may be cleaned: run `uv tool install elytron` and install again"
_NO_CLIENT = "the hooks need the extra `client` to reach a server, and fail without it: add it"
_NO_TOOLS = "the MCP tools need the extra `mcp`: add it and run `elytron install` again"


class WiredFile(Value):
    """A file of an assistant, and the change to it."""

    host: HostName
    file: str
    outcome: Literal["create", "change", "remove", "unchanged", "refused", "failed"]
    entries: tuple[str, ...] = ()
    problem: str = ""


class InstallReport(Value):
    """What is or would be written, and what is left to the person."""

    files: tuple[WiredFile, ...]
    is_written: bool
    space: str | None = None
    """The space of the memory; None if each repository has its own."""
    todo: dict[HostName, str] = {}
    notes: tuple[str, ...] = ()


class HookInstallReport(Value):
    """The file that configures the hooks of Claude Code, and the commands that they run."""

    file: str
    recall: str
    keep: str
    space: str | None = None
    """The space of the memory; None if each repository has its own."""
    changed: bool
    was_shared: bool = False
    """True if replaced hooks used one space for all repositories; what they stored stays there."""


@page_command("install")
@_ONLY
@_PROJECT
@_URL
@_RESIDENT
@dry_run_option("Show what would be written, and write nothing.")
@yes_option
@common_options
def install_command(
    *, names: tuple[HostName, ...], project: bool, url: str | None, resident: bool | None, dry_run: bool, yes: bool
) -> int | None:
    """Connect the coding assistants on this machine to the memory: their hooks, MCP tools and skill.

    Each file is shown first, then written after confirmation. Other settings and comments stay, and `elytron uninstall`
    restores the files. Without --space, each repository has a memory of its own, next to one of the person. Broken
    settings are left as they are and end the command with code 1, as do files that cannot be written.
    """
    choice, space = wiring_choice(url, is_project=project, resident=resident)
    hosts = names or _installed_hosts(choice)
    record_file = record_path()
    record = read_record(record_file)
    goals = (goal for host in hosts for goal in host_goals(host, choice))
    plans = [plan_file(goal, record, project=choice.project) for goal in goals]
    files = tuple(map(_wired_file, plans))
    report = InstallReport(
        files=files,
        is_written=False,
        space=space,
        todo=_todo_of(hosts, files),
        notes=tuple(_install_notes(choice, plans)),
    )
    report = _write_plans(plans, report, record, record_file, is_dry=dry_run, yes=yes)
    if report.is_written and choice.address is None and (histories := _histories_of(hosts)):
        _offer_import(histories, yes=yes, is_whole=not names)
    return _exit_code(report)


@page_command("uninstall")
@_ONLY
@dry_run_option("Show what would be removed, and change nothing.")
@yes_option
@common_options
def uninstall_command(*, names: tuple[HostName, ...], dry_run: bool, yes: bool) -> int | None:
    """Remove what `elytron install` wrote, in every folder; files that nobody changed since are as they were before.

    In files that were changed since, only the entries of Elytron are removed. The memory itself is not touched.
    """
    record_file = record_path()
    record = read_record(record_file)
    choice = WiringChoice("elytron", (), _host_folders(), sys.platform)
    paths = removal_paths(names or tuple(WIRED_HOSTS), record, choice)
    plans = [plan_removal(path, host, record) for path, host in paths.items()]
    plans = [plan for plan in plans if plan.is_change or str(plan.path) in record.files or _names_elytron(plan)]
    report = InstallReport(files=tuple(map(_wired_file, plans)), is_written=False)
    return _exit_code(_write_plans(plans, report, record, record_file, is_dry=dry_run, yes=yes))


def _names_elytron(plan: FilePlan) -> bool:
    """Return whether a broken file may have our entries."""
    return plan.error is not None and SERVER_NAME in (plan.before or "")


def _exit_code(report: InstallReport) -> int | None:
    return FAILURE if any(each.problem for each in report.files) else None


@click.group("claude-code", cls=PageGroup)
@common_options
def claude_code() -> None:
    """Configure the hooks of Claude Code."""


@claude_code.command("install")
@_PROJECT
@click.option("--resident", is_flag=True, help="Keep a process with the open memory running between prompts.")
@_URL
@common_options
def claude_code_command(*, project: bool, resident: bool, url: str | None) -> None:
    """Write the hooks of Claude Code without asking; `elytron install` also adds tools, and shows them first.

    Without --space, each repository has a memory of its own and one of the person beside it: `elytron repo` shows them.
    With --url, name the space that the key opens.
    """
    choice, space = wiring_choice(url, is_project=project, resident=resident)
    record_file = record_path()
    record = read_record(record_file)
    plan = plan_file(hooks_goal(HostName.CLAUDE_CODE, choice), record, project=choice.project)
    if plan.error is not None:
        raise plan.error
    write_plan(plan, record, record_file)
    recall_line, keep_line = (choice.hook_line(HostName.CLAUDE_CODE, kind) for kind in (HookKind.RECALL, HookKind.KEEP))
    report = HookInstallReport(
        file=str(plan.path),
        recall=recall_line,
        keep=keep_line,
        space=space,
        changed=plan.is_change,
        was_shared=uses_shared_space(plan.before or ""),
    )
    space_phrase = f"the space {space}" if space is not None else "a space for each repository"
    line = f"{'written to' if report.changed else 'unchanged in'} {report.file}: {space_phrase}"
    lines = [line, _WAS_SHARED] if report.was_shared else [line]
    run_output().report(report, lambda console, _: console.print("\n".join(lines), soft_wrap=True))


def shared_settings() -> tuple[str, ...]:
    """Return the settings files of the user and of this folder whose hooks use one space for all repositories."""
    wiring = WIRED_HOSTS[HostName.CLAUDE_CODE]
    files = (Path(wiring.hooks_user.format_map(_host_folders())), Path.cwd() / wiring.hooks_project)
    return tuple(os.fspath(file) for file in files if file.is_file() and uses_shared_space(_lenient_text(file)))


def _lenient_text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _host_folders() -> dict[str, Path]:
    return host_folders(os.environ, Path.home(), sys.platform)


def record_path() -> Path:
    """Return the file that records what was written."""
    return state_folder(os.environ) / "installed.json"


def _installed_hosts(choice: WiringChoice) -> tuple[HostName, ...]:
    search_path = os.environ.get("PATH")
    hosts = [host for host, wiring in WIRED_HOSTS.items() if is_installed(wiring, choice.folders, search_path)]
    if not hosts:
        raise InvalidInput(field="--only", problem="is missing: no assistant was found on this machine, so name one")
    return tuple(hosts)


def wiring_choice(url: str | None, *, is_project: bool, resident: bool | None) -> tuple[WiringChoice, str | None]:
    """Return the command that hosts run, and the space of the memory; None if each repository has its own."""
    if url is not None and resident:
        raise InvalidInput(field="--resident", problem="cannot be used with --url: it is for a store on this machine")
    project = Path.cwd() if is_project else None
    options, space = _memory_options(url, project)
    supports_sockets = sys.platform != "win32"
    choice = WiringChoice(
        program_path(sys.argv[0]),
        tuple(options),
        _host_folders(),
        sys.platform,
        address=mcp_address(url) if url is not None else None,
        is_resident=resident if resident is not None else url is None and supports_sockets,
        has_tools=url is not None or find_spec("mcp") is not None,
        project=project,
    )
    return choice, space


def _memory_options(url: str | None, project: Path | None) -> tuple[list[str], str | None]:
    """Return the options that name the memory, and its space; None if that is the space of each session's repository.

    Repositories share a space only if it was named. Raises InvalidInput for a server without a space.
    """
    # A file in a repository chooses no store and no space.
    settings = stated_settings(with_file=False)
    is_space_named = settings.space.origin != "default"
    if url is not None:
        if not is_space_named:
            raise InvalidInput(field="--space", problem="is missing: with --url, name the space that the key opens")
        return ["--url", url, "--space", settings.space.value], settings.space.value
    options = setting_options(settings)
    if settings.is_per_repository:
        return options, None
    if is_space_named:
        return options, settings.space.value
    if project is not None and repository_of(project) is None:
        raise InvalidInput(field="--space", problem=_NO_REPOSITORY)
    return [*options, PER_REPOSITORY], None


def _wired_file(plan: FilePlan) -> WiredFile:
    if plan.error is not None:
        outcome = "refused"
    elif not plan.is_change:
        outcome = "unchanged"
    elif plan.after is None:
        outcome = "remove"
    else:
        outcome = "create" if plan.before is None else "change"
    return WiredFile(
        host=plan.host,
        file=str(plan.path),
        outcome=outcome,
        entries=tuple(map(_entry_line, plan.entries)),
        problem=plan.error.message if plan.error is not None else "",
    )


def _todo_of(hosts: Iterable[HostName], files: Iterable[WiredFile]) -> dict[HostName, str]:
    """Return what is left to the person for the hosts all of whose files are up to date."""
    incomplete_hosts = {each.host for each in files if each.problem}
    return {host: WIRED_HOSTS[host].todo for host in hosts if host not in incomplete_hosts}


def _entry_line(entry: SettingsEntry) -> str:
    """Return an entry as one line of a report; nothing else of the file is shown, because it may contain secrets."""
    return f"{'.'.join(entry.path)}: {entry.text}"


def _install_notes(choice: WiringChoice, plans: Sequence[FilePlan]) -> Iterable[str]:
    if choice.address is not None and find_spec("httpx") is None:
        yield _NO_CLIENT
    if not choice.has_tools:
        yield _NO_TOOLS
    if any(part.startswith("archive-v") for part in Path(choice.program).parts):
        yield _UNSTABLE
    if any(uses_shared_space(plan.before or "") for plan in plans):
        yield _WAS_SHARED


def _write_plans(
    plans: Sequence[FilePlan],
    report: InstallReport,
    record: WiringRecord,
    record_file: Path,
    *,
    is_dry: bool,
    yes: bool,
) -> InstallReport:
    """Show the plans, write them after confirmation, and return the report: a failing file stops no other."""
    output = run_output()
    changes = [plan for plan in plans if plan.error is None and (plan.is_change or plan.is_removal)]
    if is_dry or not changes:
        output.report(report, _show_report)
        return report
    if not yes:
        if not at_terminal():
            output.report(report, _show_report)
            raise InvalidInput(field="--yes", problem="is missing: nothing is written without a terminal to confirm it")
        _show_report(plain_console(stderr=True), report)
        confirm_question("Write these files?", yes=False)
    failures: dict[str, WiredFile] = {}
    for plan in changes:
        try:
            record = write_plan(plan, record, record_file)
        except StoreUnavailable as error:
            problem = f"{error.message}; the file is unchanged: make it and its folder writable, then try again"
            file = _wired_file(plan)
            failures[file.file] = file.model_copy(update={"outcome": "failed", "problem": problem})
    files = tuple(failures.get(each.file, each) for each in report.files)
    update = {"files": files, "todo": _todo_of(report.todo, files), "is_written": len(failures) < len(changes)}
    report = report.model_copy(update=update)
    output.report(report, _show_report)
    return report


def _show_report(console: "Console", report: InstallReport) -> None:
    if not report.files:
        console.print("nothing to do")
    for host, title in ((host, HOST_TABLE[host].title) for host in dict.fromkeys(each.host for each in report.files)):
        console.print(title)
        for each in (each for each in report.files if each.host is host):
            console.print(f"  {each.outcome:9}  {_home_text(each.file)}", soft_wrap=True)
            if each.outcome in {"create", "change"} and not report.is_written:
                for line in each.entries:
                    console.print(f"             + {safe_line(line)}", soft_wrap=True)
            if each.problem:
                console.print(f"             {_home_text(each.problem)}", soft_wrap=True)
        if report.todo.get(host) and report.is_written:
            console.print(f"  then       {report.todo[host]}", soft_wrap=True)
    tables_layout.show_pairs(console, [("note", note) for note in report.notes])


def _home_text(text: str) -> str:
    """Return a line for a person, with the home folder shown as `~`."""
    return safe_line(text.replace(f"{Path.home()}{os.sep}", f"~{os.sep}"))


def _histories_of(hosts: Iterable[HostName]) -> tuple["AssistantHost", ...]:
    """Return the hosts that left sessions on disk."""
    from elytron_assistants.sessions.session_places import places_of

    names = {host.value for host in hosts}
    sessions = places_of(os.environ, Path.home()).sessions
    return tuple(host for host, paths in sessions.items() if host.value in names and any(map(Path.exists, paths)))


def _offer_import(hosts: Sequence["AssistantHost"], *, yes: bool, is_whole: bool) -> None:
    """Import the earlier sessions of hosts if a person at a terminal agrees, otherwise say how.

    With `is_whole`, the memory files of every assistant come with them.
    """
    from elytron_assistants.sessions.session_import import ImportChoice
    from elytron_assistants.sessions.session_log import AssistantHost
    from elytron_assistants.sessions.session_places import places_of
    from elytron_cli.commands.agents.sessions import import_sessions

    if yes or not at_terminal():
        names = [""] if is_whole else [f" {host}" for host in hosts]
        commands = " and ".join(f"`elytron sessions import{name}`" for name in names)
        run_output().hint(f"earlier sessions are on this machine: import them with {commands}")
        return
    if click.confirm("Import the earlier sessions of these assistants into the memory now?", err=True):
        memory_file_hosts = (AssistantHost.MEMORY_FILES,) if is_whole else ()
        import_sessions(ImportChoice(hosts=(*hosts, *memory_file_hosts)), places_of(os.environ, Path.home()))
