"""Settings of Claude Code that have it call hooks."""

import json
import os
import re
from pathlib import Path
from typing import Any, cast

from elytron_core import limits, strict_json
from elytron_core.errors import InvalidInput, InvalidJson
from elytron_core.model import Value

_PROMPT, _STOP = "UserPromptSubmit", "Stop"
_OURS = re.compile(r'"command": ?"((?:[^"\\]|\\.)* hooks (?:recall|keep)\b(?:[^"\\]|\\.)*)"')
_PLACE = re.compile(r" --(?:space|per-repository)\b")
_WAITS_S = {_PROMPT: 15, _STOP: 60}

Json = dict[str, Any]


class HookInstallReport(Value):
    """The file that configures the hooks, and the commands that they run."""

    file: str
    recall: str
    keep: str
    space: str | None = None
    """The space of the memory; None if each repository has its own."""
    changed: bool
    was_shared: bool = False
    """True if hooks that are replaced here had one space for all repositories; what they stored stays there."""


def configure_hooks(file: Path, /, *, recall: str, keep: str, space: str | None) -> HookInstallReport:
    """Set both commands in Claude Code's settings `file`; other hooks stay, and an equal file is not written.

    Raises InvalidInput if the file holds no settings.
    """
    before = _read_settings(file)
    hooks = before.get("hooks", {})
    if not isinstance(hooks, dict):
        raise InvalidInput(field=file.name, problem="has `hooks` that are not an object: fix the file first")
    hook_lists, was_shared = cast("Json", hooks), _is_shared(file)
    after = before | {
        "hooks": hook_lists
        | {_PROMPT: _with_command(hook_lists, _PROMPT, recall), _STOP: _with_command(hook_lists, _STOP, keep)}
    }
    if after != before:
        file.parent.mkdir(parents=True, exist_ok=True)
        # As a whole, for the program may read it at any time.
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text(json.dumps(after, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(file)
    return HookInstallReport(
        file=str(file), recall=recall, keep=keep, space=space, changed=after != before, was_shared=was_shared
    )


def settings_file(folder: Path, /, *, is_project: bool) -> Path:
    """Return the file with the hooks of a project's folder, or of the user's."""
    return folder / ".claude" / ("settings.local.json" if is_project else "settings.json")


def shared_settings() -> tuple[str, ...]:
    """Return the settings files of the user and of this folder whose hooks use one space for all repositories."""
    files = (settings_file(Path.home(), is_project=False), settings_file(Path.cwd(), is_project=True))
    return tuple(os.fspath(file) for file in files if _is_shared(file))


def _is_shared(file: Path) -> bool:
    """Return whether a hook of ours names no space, as those that were installed earlier."""
    try:
        commands = _OURS.findall(file.read_text("utf-8", "replace"))
    except OSError:
        return False
    return any(_PLACE.search(command) is None for command in commands)


def _read_settings(file: Path) -> Json:
    if not file.exists():
        return {}
    try:
        settings = strict_json.parse_json(file.read_bytes(), limit=limits.JSON_BYTES)
    except InvalidJson:
        settings = None
    if not isinstance(settings, dict):
        raise InvalidInput(field=file.name, problem="is not a JSON object: fix the file first")
    return cast("Json", settings)


def _with_command(hooks: Json, event: str, command: str) -> list[Any]:
    """Return the hooks of `event` with `command` in the place of an earlier one of ours."""
    verb = {_PROMPT: " hooks recall", _STOP: " hooks keep"}[event]
    groups: list[Any] = hooks.get(event, [])
    # Ours by the verb, since path and options may have changed.
    others = [group for group in groups if verb not in json.dumps(group)]
    return [*others, {"hooks": [{"type": "command", "command": command, "timeout": _WAITS_S[event]}]}]
