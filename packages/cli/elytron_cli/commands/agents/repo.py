"""Commands for a folder's project: which memory it uses and why, and the user's decisions about it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elytron_assistants.hooks.activity import ActivityFolder, store_digest
from elytron_assistants.project_identity import ProjectSource, session_folder, space_name
from elytron_assistants.project_registry import (
    ProjectMemory,
    RepositoryRegistry,
    change_registry,
    project_memory,
    read_registry,
)
from elytron_assistants.space_split import NO_FOLDER, SpaceSplit, SpaceSplitReport, session_folders
from elytron_cli.config import DEFAULT_SPACE, state_folder
from elytron_cli.input.options import PageGroup, common_options, dry_run_option, yes_option
from elytron_cli.session import CommandSession, person_space, run_settings, run_work, stated_settings
from elytron_cli.tables import hits as tables_hits
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import CommandOutput, confirm_question
from elytron_core import limits
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import InvalidInput
from elytron_core.scope import Scope
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

_WHY: Final = {
    ProjectSource.PIN: "your pin of this path",
    ProjectSource.ORIGIN: "the address of the remote `origin`",
    ProjectSource.ROOT: "the first commit, because no remote `origin` is on a network",
    ProjectSource.PATH: "the git directory, because there is neither an origin nor a first commit",
    ProjectSource.FOLDER: "the path, because there is no repository",
}
_NO_PROJECT: Final = "home, temporary and scratch folders have no project"


@click.group("repo", cls=PageGroup, invoke_without_command=True)
@common_options
@click.pass_context
def repo_group(context: click.Context) -> None:
    """Show and change which project's memory a folder has.

    Each repository has a memory of its own, and one of the person holds in all of them. Without a command, the memory
    of this folder is shown. PROJECT is the label or the space of a project, FOLDER by default this one.
    """
    if context.invoked_subcommand is None:
        context.invoke(show_command)


def _folder_argument(body: Callable[..., int | None]) -> Callable[..., int | None]:
    return click.argument("folder", type=click.Path(path_type=Path), required=False)(body)


@repo_group.command("show")
@_folder_argument
@common_options
def show_command(*, folder: Path | None = None) -> int | None:
    """Show the memory of FOLDER: its label, its spaces, and why it is that."""

    async def work(session: CommandSession, out: CommandOutput) -> None:
        path = _folder_or_this(folder)
        project_place = await project_memory(session.runtime, path, person=_person_name(), cwd=folder or Path.cwd())
        out.report(project_place, _show_place)

    return run_work(work, when_missing=WhenMissing.PRETEND, hints=False)


@repo_group.command("list")
@common_options
def list_command() -> int | None:
    """List the projects and the pinned paths."""

    async def work(session: CommandSession, out: CommandOutput) -> None:
        out.report(await read_registry(session.runtime, _person_name()), _show_registry)

    return run_work(work, hints=False)


Change = Callable[[RepositoryRegistry, ProjectMemory, dict[str, str]], RepositoryRegistry]


def _link_folder(
    registry: RepositoryRegistry, project_place: ProjectMemory, names: dict[str, str]
) -> RepositoryRegistry:
    return registry.linked(project_place, registry.space_named(names["project"])).changed(pins={names["path"]: None})


def _unlink_folder(
    registry: RepositoryRegistry, project_place: ProjectMemory, names: dict[str, str]
) -> RepositoryRegistry:
    return registry.linked(project_place, next(iter(project_place.keys))).changed(pins={names["path"]: None})


def _move_folder(
    registry: RepositoryRegistry, project_place: ProjectMemory, names: dict[str, str]
) -> RepositoryRegistry:
    space = registry.space_named(names["project"])
    freed_keys = {name: None for name, key in registry.keys.items() if key.space == space}
    return _link_folder(registry.changed(keys=freed_keys), project_place, names)


def _pin_folder(registry: RepositoryRegistry, _: ProjectMemory, names: dict[str, str]) -> RepositoryRegistry:
    return registry.changed(pins={names["path"]: registry.space_named(names["project"])})


def _isolate_folder(
    registry: RepositoryRegistry, project_place: ProjectMemory, names: dict[str, str]
) -> RepositoryRegistry:
    own_space = space_name(f"pin:{names['path']}")
    return registry.changed(labels={own_space: project_place.label}, pins={names["path"]: own_space})


_CHANGES: Final[tuple[tuple[str, bool, str, Change], ...]] = (
    ("link", True, "Make the repository of FOLDER part of PROJECT, wherever its clones are.", _link_folder),
    (
        "unlink",
        False,
        "Give the repository of FOLDER its own project again, and remove the pin of FOLDER.",
        _unlink_folder,
    ),
    ("move", True, "Make FOLDER the place of PROJECT, whose earlier places no longer belong to it.", _move_folder),
    ("pin", True, "Let FOLDER and all below it belong to PROJECT, whatever repository it is.", _pin_folder),
    ("isolate", False, "Let FOLDER and all below it have a memory apart from other clones.", _isolate_folder),
)
"""Commands that change the registry: name, whether PROJECT is named, help, and the change."""


def _change_command(change: Change) -> Callable[..., int | None]:
    def command(*, folder: Path | None, project: str = "") -> int | None:
        path = _folder_or_this(folder)
        names = {"path": os.path.realpath(path), "project": project}

        async def work(session: CommandSession, out: CommandOutput) -> None:
            memory, person = session.runtime, _person_name()
            unpinned_place = await project_memory(memory, path, person=person, pins_count=False)
            if unpinned_place.repository is None:
                raise InvalidInput(field="FOLDER", problem=f"is of no project: {_NO_PROJECT}")
            project_place = unpinned_place.model_copy(update={"label": unpinned_place.repository.label})
            await change_registry(memory, person, lambda registry: change(registry, project_place, names))
            out.report(await project_memory(memory, path, person=person), _show_place)

        return run_work(work, when_missing=WhenMissing.MAKE, hints=False)

    return command


for _name, _names_project, _told, _made in _CHANGES:
    _body = _folder_argument(common_options(_change_command(_made)))
    repo_group.command(_name, help=_told)(click.argument("project")(_body) if _names_project else _body)


@repo_group.command("rename")
@click.argument("project")
@click.argument("label")
@common_options
def rename_command(*, project: str, label: str) -> int | None:
    """Give PROJECT another LABEL, by which it is shown."""
    if not label.strip() or len(label) > limits.NAME_CHARS or not label.isprintable():
        raise InvalidInput(field="LABEL", problem=f"is not one of 1 to {limits.NAME_CHARS} printable characters")

    def rename(registry: RepositoryRegistry) -> RepositoryRegistry:
        return registry.changed(labels={registry.space_named(project): label.strip()})

    async def work(session: CommandSession, out: CommandOutput) -> None:
        out.report(await change_registry(session.runtime, _person_name(), rename), _show_registry)

    return run_work(work, hints=False)


@repo_group.command("forget")
@click.argument("project")
@yes_option
@dry_run_option("Show what would be erased without erasing it.")
@common_options
def forget_command(*, project: str, yes: bool, dry_run: bool) -> int | None:
    """Erase all memory of PROJECT and remove it from the registry and the record of hooks. This cannot be undone.

    What the user said about themselves in it stays in the person's space.
    """

    async def work(session: CommandSession, out: CommandOutput) -> None:
        registry = await read_registry(session.runtime, _person_name())
        space = registry.space_named(project)
        question = f"Erase all memory of {registry.labels[space]!r} ({space})? This cannot be undone."
        confirm_question(question, yes=yes or dry_run)
        erase_request = MemoryEraseRequest(scope=Scope(space=space), whole_space=space, dry_run=dry_run)
        report = await session.call(erase_request)
        if not dry_run:
            await change_registry(session.runtime, _person_name(), lambda current: current.without(space))
            records = ActivityFolder(state_folder(os.environ) / "assistants")
            records.forget(store_digest(run_settings().store.value), space)
        out.report(report, tables_hits.show_controlled)

    return run_work(work, hints=False)


@repo_group.command("migrate")
@click.option("--from", "source", default=DEFAULT_SPACE, show_default=True, metavar="SPACE", help="Space to split.")
@click.option(
    "--assign", multiple=True, metavar="NAME=FOLDER", help="Folder of sessions whose transcripts are gone, by its name."
)
@yes_option
@dry_run_option("Show where sessions would go without moving them.")
@common_options
def migrate_command(*, source: str, assign: tuple[str, ...], yes: bool, dry_run: bool) -> int | None:
    """Move sessions that hooks stored in one space for all projects to the project of each.

    A session's folder is read from its transcript. Sessions without one stay, and are listed by the name of their
    folder. What is moved is copied first, and then hidden in the old space as `elytron forget` does.
    """
    assigned_folders = dict(map(_assigned_folder, assign))
    config = os.environ.get("CLAUDE_CONFIG_DIR") or str(Path.home() / ".claude")
    folders = session_folders(Path(config, "projects"))

    async def work(session: CommandSession, out: CommandOutput) -> None:
        space_split = SpaceSplit(session.runtime, source, _person_name(), folders, assigned_folders)
        report = await space_split.run(dry_run=True)
        turns = sum(part.turns for part in report.moved)
        if turns and not dry_run:
            confirm_question(f"Move {turns} turns from {source!r} to {len(report.moved)} projects?", yes=yes)
            report = await space_split.run(dry_run=False)
        out.report(report, _show_split)

    return run_work(work, hints=False)


def _assigned_folder(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    if not name or not folder or not Path(folder).is_dir():
        raise InvalidInput(field="--assign", problem="is not NAME=FOLDER with a folder that exists")
    return name, Path(folder).absolute()


def _person_name() -> str:
    return person_space(stated_settings())


def _folder_or_this(folder: Path | None) -> Path:
    return folder or session_folder(str(Path.cwd()), environment=os.environ) or Path.cwd()


def _show_place(console: "Console", project_place: ProjectMemory) -> None:
    repository = project_place.repository
    rows = [
        ("project", project_place.label),
        ("space", project_place.spaces[0]),
        ("reads", ", ".join(project_place.spaces)),
    ]
    rows.append(("by", _WHY[repository.source] if repository is not None else _NO_PROJECT))
    if repository is not None:
        rows += [("key", repository.space), ("at", repository.path), ("package", repository.package or "")]
        rows += [("note", project_place.notice)] if project_place.notice else []
    tables_layout.show_pairs(console, rows)


def _show_registry(console: "Console", registry: RepositoryRegistry) -> None:
    columns = ("project", "space", "last path", "keys")
    rows: list[tuple[Any, ...]] = []
    for space, label in registry.labels.items():
        keys = [key for key in registry.keys.values() if key.space == space]
        rows.append((label, space, ", ".join(dict.fromkeys(key.path for key in keys)), len(keys)))
    tables_layout.show_table(console, columns, rows, numbers=columns[3:], none="no project has a memory yet")
    tables_layout.show_pairs(console, (("pin", f"{path}: {space}") for path, space in registry.pins.items()))


def _show_split(console: "Console", report: SpaceSplitReport) -> None:
    columns = ("project", "space", "sessions", "turns")
    parts = (*report.moved, *report.left)
    rows: list[tuple[Any, ...]] = [
        (part.label, part.space or f"stays: {part.reason}", part.sessions, part.turns) for part in parts
    ]
    empty_text = f"no session of a hook is in {report.space!r}"
    tables_layout.show_table(console, columns, rows, numbers=columns[2:], none=empty_text)
    if any(part.reason == NO_FOLDER for part in report.left):
        console.print("name the folder of sessions that stay with --assign NAME=FOLDER", soft_wrap=True)
