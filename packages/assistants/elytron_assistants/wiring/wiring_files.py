"""The files that connect a host to the memory: planned, written, recorded, and restored."""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from elytron_assistants.hooks.events import HookKind
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import (
    HOST_TABLE,
    SERVER_NAME,
    WIRED_HOSTS,
    HostWiring,
    SettingsStyle,
    command_line,
    host_events,
    timeout_s,
)
from elytron_assistants.wiring.jsonc_text import read_text
from elytron_assistants.wiring.settings_text import (
    SettingsEntry,
    UndoSpan,
    add_entries,
    fits_removal,
    has_member,
    read_table,
    remove_own,
    undo_changes,
    with_wrapped,
)
from elytron_core.errors import ElytronError, InvalidInput, StoreUnavailable, UnreadableFile
from elytron_core.model import Value
from elytron_store.private_files import replace_file

SKILL: Final = "elytron-memory"
_COMMAND: Final = "elytron.md"
_FOREIGN: Final = "is listed in `installed.json`, but `elytron install` writes no such file: remove it from that list"
_TAMPERED: Final = "cannot be restored, because `installed.json` does not match it: remove Elytron's entries by hand"
_SETTINGS_BYTES: Final = 64 * 1024 * 1024
_OPEN_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_BYTE_MARK: Final = "\ufeff"
_LOCAL_COMMANDS: Final = {
    "list": "list{memory} --latest --limit 20",
    "recall": 'recall "WORDS"{memory}',
    "correct": 'correct ID "TEXT"{memory}',
    "forget": "forget ID{memory}",
}
_SERVER_COMMANDS: Final = {
    "list": """client list{memory} --request '{"order": "latest", "limit": 20}'""",
    "recall": 'client recall "WORDS"{memory}',
    "correct": """client correct{memory} --request '{"id": "ID", "content": "TEXT"}'""",
    "forget": """client forget{memory} --request '{"ids": ["ID"]}'""",
}


@dataclass(frozen=True, slots=True)
class WiringChoice:
    """What hosts are to run: the program with its options, or for the tools the address of a server."""

    program: str
    options: tuple[str, ...]
    folders: Mapping[str, Path]
    platform: str
    address: str | None = None
    is_resident: bool = False
    has_tools: bool = True
    project: Path | None = None
    """Folder of the only project to connect; None connects all of the user's projects."""

    def hook_words(self, host: HostName, kind: HookKind, /) -> list[str]:
        """Return the command for a host's event as a list of words."""
        host_options = [] if host is HostName.CLAUDE_CODE else ["--host", host.value]
        resident_option = ["--resident"] if self.is_resident else []
        return [self.program, "hooks", kind.value, *host_options, *resident_option, *self.options]

    def hook_line(self, host: HostName, kind: HookKind, /) -> str:
        """Return the command for a host's event as a line for the platform's shells."""
        return command_line(self.hook_words(host, kind), self.platform)

    def place(self, user: str, project: str, /) -> Path:
        """Return the project's file if a project is set, otherwise the user's."""
        return self.project / project if self.project is not None else Path(user.format_map(self.folders))


@dataclass(frozen=True, slots=True)
class FileGoal:
    """The intended content of a file: entries among others, or a complete text."""

    host: HostName
    path: Path
    style: SettingsStyle = SettingsStyle.JSON
    entries: tuple[SettingsEntry, ...] = ()
    is_versioned: bool = False
    text: str | None = None


class FileRecord(Value):
    """A written file: its digest, whether it was new, and what undoes the change."""

    host: HostName
    digest: str
    is_new: bool = False
    folders: tuple[str, ...] = ()
    """Folders created for the file, innermost first."""
    undo: tuple[UndoSpan, ...] = ()


class WiringRecord(Value):
    """Every written file by path. Of the files' contents, it stores only what our entries replaced."""

    files: dict[str, FileRecord] = {}


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file before and after the change; None means that it does not exist. With an error, it is left unchanged."""

    host: HostName
    path: Path
    before: str | None
    after: str | None
    entries: tuple[SettingsEntry, ...] = ()
    undo: tuple[UndoSpan, ...] = ()
    is_new: bool = False
    is_removal: bool = False
    error: ElytronError | None = None

    @property
    def is_change(self) -> bool:
        """Return whether the file is to be written or removed."""
        return self.error is None and self.before != self.after


def is_installed(wiring: HostWiring, folders: Mapping[str, Path], search_path: str | None, /) -> bool:
    """Return whether a host is on this machine: one of its programs is on the search path, or its folder exists."""
    program_paths = (shutil.which(program, path=search_path) for program in wiring.programs)
    return any(program_paths) or Path(wiring.folder.format_map(folders)).is_dir()


def host_goals(host: HostName, choice: WiringChoice, /) -> Iterator[FileGoal]:
    """Yield a host's files and their intended content."""
    wiring = WIRED_HOSTS[host]
    tools = _tools_goal(host, choice) if choice.has_tools else None
    hooks = hooks_goal(host, choice)
    if tools is not None and tools.path == hooks.path:
        yield replace(tools, entries=(*tools.entries, *hooks.entries))
    else:
        yield from (goal for goal in (tools, hooks) if goal is not None)
    if wiring.skills and choice.has_tools and choice.project is None:
        folder = Path(wiring.skills.format_map(choice.folders))
        yield FileGoal(host, folder / SKILL / "SKILL.md", text=packaged_text("skill.md"))
    if wiring.commands and choice.project is None:
        folder = Path(wiring.commands.format_map(choice.folders))
        yield FileGoal(host, folder / _COMMAND, text=slash_command_text(choice))


def hooks_goal(host: HostName, choice: WiringChoice, /) -> FileGoal:
    """Return the file for a host's hooks."""
    wiring = WIRED_HOSTS[host]
    path = choice.place(wiring.hooks_user, wiring.hooks_project)
    if wiring.item is None:
        return FileGoal(host, path, text=module_text(host, choice))
    entries = [
        SettingsEntry(("hooks", event), wiring.item(choice.hook_line(host, kind), timeout_s(kind)), is_item=True)
        for kind, event in host_events(host).items()
    ]
    if wiring.has_status_line and choice.project is None and choice.platform != "win32":
        command = command_line([choice.program, "hooks", "status"], choice.platform)
        entries.append(SettingsEntry(("statusLine",), {"type": "command", "command": command}, wraps=True))
    return FileGoal(host, path, entries=tuple(entries), is_versioned=wiring.is_versioned)


def module_text(host: HostName, choice: WiringChoice, /) -> str:
    """Return the JavaScript module for a host whose hooks are a module."""
    commands = {kind.value: choice.hook_words(host, kind) for kind in host_events(host)}
    return packaged_text("opencode.js").replace("__COMMANDS__", json.dumps(commands, indent=2, ensure_ascii=False))


def slash_command_text(choice: WiringChoice, /) -> str:
    """Return the file of the slash command `/elytron`, which uses the same memory as the hooks."""
    program = command_line([choice.program], choice.platform)
    memory = command_line([choice.program, *choice.options], choice.platform).removeprefix(program)
    text = packaged_text("elytron_command.md", package="elytron_assistants.hooks").replace("{program}", program)
    for name, line in (_LOCAL_COMMANDS if choice.address is None else _SERVER_COMMANDS).items():
        text = text.replace(f"{{{name}}}", f"{program} {line.replace('{memory}', memory)}")
    return text


def packaged_text(name: str, /, *, package: str = "elytron_assistants.wiring") -> str:
    """Return a text file packaged with a package's modules."""
    return files(package).joinpath(name).read_text("utf-8")


def _tools_goal(host: HostName, choice: WiringChoice) -> FileGoal | None:
    wiring, tools_form = WIRED_HOSTS[host], HOST_TABLE[host].tools
    if choice.project is not None:
        project_paths = [choice.project / name for name in wiring.tools_project]
    else:
        project_paths = [Path(name.format_map(choice.folders)) for name in wiring.tools_user]
    path = next((place for place in project_paths if place.exists()), project_paths[0] if project_paths else None)
    if path is None:
        return None
    if choice.address is None:
        entry = tools_form.local([choice.program, "mcp", *choice.options])
    else:
        assert tools_form.remote is not None
        entry = tools_form.remote(choice.address)
    entries = [SettingsEntry((*_tools_path(host, path), SERVER_NAME), entry)]
    if choice.address is not None and tools_form.prompt is not None:
        entries.append(SettingsEntry(("inputs",), tools_form.prompt, is_item=True))
    return FileGoal(host, path, tools_form.style, tuple(entries))


def _tools_path(host: HostName, path: Path) -> tuple[str, ...]:
    default_path = HOST_TABLE[host].tools.path
    with suppress(ElytronError):
        # OpenCode 2 entries take precedence where they exist.
        if host is HostName.OPENCODE and has_member(read_settings(path) or "{}", (*default_path, "servers"), path.name):
            return (*default_path, "servers")
    return default_path


def plan_file(goal: FileGoal, record: WiringRecord, /, *, project: Path | None = None) -> FilePlan:
    """Plan the change to a file.

    A file outside `project` or with invalid settings results in a plan with an error, which names the line of invalid
    settings.
    """
    previous_text: str | None = None
    try:
        _require_inside(goal.path, project)
        previous_text = read_settings(goal.path)
        written_record = _written_record(goal.path, previous_text, record)
        if goal.text is not None:
            is_new = previous_text is None or written_record is not None
            problem = (
                "was not written by `elytron install`: move it elsewhere"
                if previous_text != goal.text and not is_new
                else ""
            )
            return FilePlan(
                goal.host, goal.path, previous_text, goal.text, is_new=is_new, error=_file_error(goal.path, problem)
            )
        base_text = _base_text(goal, previous_text, written_record)
        start_text = (
            base_text if base_text is not None and base_text.strip(f"{_BYTE_MARK} \t\r\n") else _first_text(goal)
        )
        entries = tuple(with_wrapped(start_text, entry, goal.path.name) for entry in goal.entries)
        new_text, undo_spans = add_entries(start_text, entries, goal.style, goal.path.name)
        if base_text is not None and start_text is not base_text:
            undo_spans = (UndoSpan(start=0, length=len(new_text), text=base_text),)
        return FilePlan(goal.host, goal.path, previous_text, new_text, entries, undo_spans, is_new=base_text is None)
    except UnreadableFile as error:
        return FilePlan(goal.host, goal.path, previous_text, previous_text, error=error)


def _require_inside(path: Path, project: Path | None) -> None:
    if project is not None and not path.resolve().is_relative_to(project.resolve()):
        raise UnreadableFile(name=str(path), problem="is a link that leads out of the project: remove it")


def plan_removal(path: Path, host: HostName, record: WiringRecord, /) -> FilePlan:
    """Plan the removal of our entries from a file."""
    previous_text: str | None = None
    try:
        previous_text = read_settings(path)
        written_record, earlier_record = _written_record(path, previous_text, record), record.files.get(str(path))
        if previous_text is None:
            return FilePlan(host, path, None, None, is_removal=True)
        if not _is_written_name(path, host):
            return FilePlan(
                host, path, previous_text, previous_text, is_removal=True, error=_file_error(path, _FOREIGN)
            )
        if written_record is not None:
            new_text = None if written_record.is_new else undo_changes(previous_text, written_record.undo)
            if not _is_text(path) and not _is_restored(new_text, previous_text, path):
                return FilePlan(
                    host, path, previous_text, previous_text, is_removal=True, error=_file_error(path, _TAMPERED)
                )
        elif _is_text(path):
            problem = "was changed by hand: delete it by hand, too" if earlier_record is not None else ""
            return FilePlan(host, path, previous_text, previous_text, is_removal=True, error=_file_error(path, problem))
        else:
            new_text = remove_own(previous_text, _style_of(path), path.name)
            if earlier_record is not None and earlier_record.is_new and _is_bare(new_text, path):
                new_text = None
        return FilePlan(host, path, previous_text, new_text, is_removal=True)
    except UnreadableFile as error:
        return FilePlan(host, path, previous_text, previous_text, error=error)


def _is_text(path: Path) -> bool:
    """Return whether a file is entirely ours: a module, a skill or a slash command."""
    return path.suffix in {".js", ".md"}


def _is_restored(new_text: str | None, previous_text: str, path: Path) -> bool:
    """Return whether undoing by the record has the same result as removing our entries; nothing else is allowed."""
    style = _style_of(path)
    if new_text is None or not new_text.strip(f"{_BYTE_MARK} \t\r\n"):
        return _is_bare(remove_own(previous_text, style, path.name), path)
    return fits_removal(new_text, previous_text, style, path.name)


def _is_written_name(path: Path, host: HostName) -> bool:
    """Return whether a host gets files of this name. Folders do not count, because variables may have moved them."""
    wiring = WIRED_HOSTS[host]
    names = {Path(name).name for name in (*wiring.tools_user, *wiring.tools_project, wiring.hooks_user)}
    names.add(Path(wiring.hooks_project).name)
    is_skill_file = path.name == "SKILL.md" and path.parent.name == SKILL
    return (
        path.name in names
        or (bool(wiring.skills) and is_skill_file)
        or (bool(wiring.commands) and path.name == _COMMAND)
    )


def _file_error(path: Path, problem: str) -> InvalidInput | None:
    return InvalidInput(field=str(path), problem=problem) if problem else None


def removal_paths(hosts: Sequence[HostName], record: WiringRecord, choice: WiringChoice, /) -> dict[Path, HostName]:
    """Return files that may contain our entries: the recorded ones and those that would be written now."""
    # Reverse order removes the first file written to a new folder last, and the folder with it.
    paths = {Path(path): each.host for path, each in reversed(record.files.items()) if each.host in hosts}
    for host in hosts:
        for goal in host_goals(host, choice):
            paths.setdefault(goal.path, host)
    return paths


def write_plan(plan: FilePlan, record: WiringRecord, record_file: Path, /) -> WiringRecord:
    """Write or remove a file and return the updated record, which is stored first.

    On StoreUnavailable or UnreadableFile, file and record are restored.
    """
    if read_settings(plan.path) != plan.before:
        raise StoreUnavailable(f"'{plan.path}' was changed in the meantime: run the command again")
    key, earlier_record = str(plan.path), record.files.get(str(plan.path))
    entries = dict(record.files)
    missing_folders = [] if plan.after is None else [str(folder) for folder in plan.path.parents if not folder.exists()]
    # A record that was tampered with must not remove unrelated folders.
    recorded_folders = earlier_record.folders if earlier_record is not None else ()
    folders = (*missing_folders, *(folder for folder in recorded_folders if Path(folder) in plan.path.parents))
    if plan.is_removal:
        entries.pop(key, None)
    else:
        entries[key] = FileRecord(
            host=plan.host, digest=_digest_of(plan.after), is_new=plan.is_new, folders=folders, undo=plan.undo
        )
    changed_record = WiringRecord(files=entries)
    try:
        _write_record(record_file, changed_record)
        if plan.after is None:
            plan.path.unlink(missing_ok=True)
            _remove_empty(folders)
        elif plan.is_change:
            # A link stays a link, and the file's mode is preserved.
            target = plan.path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = target.stat().st_mode if target.exists() else None
            replace_file(target, plan.after.encode())
            if mode is not None:
                target.chmod(mode)
    except OSError as error:
        _remove_empty(missing_folders)
        with suppress(OSError):
            _write_record(record_file, record)
        raise StoreUnavailable(f"cannot write '{plan.path}': {error.strerror}") from error
    return changed_record


def _remove_empty(folders: Sequence[str]) -> None:
    for folder in folders:
        with suppress(OSError):
            Path(folder).rmdir()


def read_record(file: Path, /) -> WiringRecord:
    """Return the record of written files, or an empty one if it is missing or unreadable."""
    try:
        return WiringRecord.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return WiringRecord()


def _write_record(file: Path, record: WiringRecord) -> None:
    if record.files:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, record.model_dump_json().encode())
    else:
        file.unlink(missing_ok=True)


def read_settings(path: Path, /) -> str | None:
    """Return the text of a settings file, or None if it does not exist. Raises UnreadableFile."""
    try:
        # Opening a named pipe would block.
        with open(os.open(path, os.O_RDONLY | _OPEN_FLAGS), "rb") as file:  # noqa: PTH123 - opened by descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnreadableFile(name=path.name, problem="is not a regular file: move it elsewhere")
            data = file.read(_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        broken_link = next(
            (place for place in (path, *path.parents) if place.is_symlink() and not place.exists()), None
        )
        if broken_link is None:
            return None
        problem = f"is a link to '{broken_link.readlink()}', which does not exist: create it or remove the link"
        raise UnreadableFile(name=str(broken_link), problem=problem) from None
    except OSError as error:
        raise UnreadableFile.unopened(path.name, error) from error
    if len(data) > _SETTINGS_BYTES:
        raise UnreadableFile(name=path.name, problem=f"is larger than {_SETTINGS_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_number = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(name=path.name, problem="is not UTF-8: fix the file first", line=line_number) from None


def _digest_of(text: str | None) -> str:
    return blake2b((text or "").encode(), digest_size=16).hexdigest()


def is_unchanged(text: str, entry: FileRecord, /) -> bool:
    """Return whether a file is still as it was written."""
    return entry.digest == _digest_of(text)


def _written_record(path: Path, text: str | None, record: WiringRecord) -> FileRecord | None:
    """Return the record of a file if nobody has changed the file since."""
    entry = record.files.get(str(path))
    return entry if entry is not None and text is not None and is_unchanged(text, entry) else None


def _base_text(goal: FileGoal, previous_text: str | None, written_record: FileRecord | None) -> str | None:
    """Return the text without our entries, or None if there was no file before them."""
    if previous_text is None or (written_record is not None and written_record.is_new):
        return None
    if written_record is not None:
        base_text = undo_changes(previous_text, written_record.undo)
        if _is_restored(base_text, previous_text, goal.path):
            return base_text
    return (
        remove_own(previous_text, goal.style, goal.path.name)
        if previous_text.strip(f"{_BYTE_MARK} \t\r\n")
        else previous_text
    )


def _first_text(goal: FileGoal) -> str:
    if goal.style is SettingsStyle.TOML:
        return ""
    return '{\n  "version": 1\n}\n' if goal.is_versioned else "{}\n"


def _style_of(path: Path) -> SettingsStyle:
    return SettingsStyle.TOML if path.suffix == ".toml" else SettingsStyle.JSON


def _is_bare(text: str, path: Path) -> bool:
    """Return whether settings contain nothing beyond the content of a new file."""
    if _style_of(path) is SettingsStyle.TOML:
        return not read_table(text, path.name)
    return not text.strip() or read_text(text, path.name).value in ({}, {"version": 1})
