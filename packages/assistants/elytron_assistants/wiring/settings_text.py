"""Add our entries to hosts' settings files, recognise them there, and remove them again."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from elytron_assistants.hooks.events import HookKind
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import HOST_TABLE, SERVER_NAME, SettingsStyle, toml_table
from elytron_assistants.wiring.jsonc_text import add_item, node_at, read_text, remove_part, set_member
from elytron_core.errors import UnreadableFile
from elytron_core.model import Value
from elytron_core.strict_json import Json

_OWN_PROGRAM: Final = re.compile(r"(?:.*/)?elytron(?:\.exe)?", re.DOTALL)
_OWN_EVENTS: Final = frozenset({*HookKind, "status"})
_OPERATORS: Final = frozenset("();<>|&")
_ASKED_KEY: Final = HOST_TABLE[HostName.VSCODE].tools.prompt
_OWN_MEMBERS: Final = (
    *(
        dict.fromkeys(
            (*row.tools.path, SERVER_NAME)
            for row in HOST_TABLE.values()
            if row.wiring is not None and row.tools.style is SettingsStyle.JSON
        )
    ),
    ("mcp", "servers", SERVER_NAME),
)
_STORING: Final = re.compile(r" hooks (?:recall|keep)\b(?!.* --(?:space|per-repository)\b)")
_WRAP: Final = " --wrap "
_LINE: Final = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class SettingsEntry:
    """A value at a path in a settings file: the member itself, or one more item of a list."""

    path: tuple[str, ...]
    value: Json
    is_item: bool = False
    wraps: bool = False
    """True for a command that a host allows only once. It then runs the person's own command as well."""

    @property
    def text(self) -> str:
        """Return the value in readable form: a hook's command, otherwise JSON."""
        return next(own_commands(self.value), None) or json.dumps(self.value, ensure_ascii=False)


class UndoSpan(Value):
    """A changed part of a text and its previous content."""

    start: int
    length: int
    text: str


def add_entries(
    text: str, entries: Sequence[SettingsEntry], style: SettingsStyle, name: str, /
) -> tuple[str, tuple[UndoSpan, ...]]:
    """Add `entries` and return the text with its undo spans, last change first. Raises UnreadableFile."""
    spans: list[UndoSpan] = []
    for entry in entries:
        if style is SettingsStyle.TOML:
            changed_text = _with_table(text, entry, name)
        elif entry.is_item:
            changed_text = add_item(text, entry.path, entry.value, name)
        else:
            changed_text = set_member(text, entry.path, entry.value, name)
        spans.append(_undo_span(text, changed_text))
        text = changed_text
    return text, tuple(reversed(spans))


def undo_changes(text: str, spans: Sequence[UndoSpan], /) -> str:
    """Return the text as it was before the changes."""
    for span in spans:
        text = text[: span.start] + span.text + text[span.start + span.length :]
    return text


def remove_own(text: str, style: SettingsStyle, name: str, /) -> str:
    """Remove everything Elytron wrote into the text, including by earlier versions. Raises UnreadableFile."""
    if style is SettingsStyle.TOML:
        return _without_table(text, ("mcp_servers", SERVER_NAME), name)
    if (command := _wrapped_command(read_text(text, name).value)) is not None:
        text = set_member(text, ("statusLine", "command"), command, name)
    while (path := _own_part(read_text(text, name).value)) is not None:
        text = remove_part(text, path, name)
    return text


def fits_removal(after: str, text: str, style: SettingsStyle, name: str, /) -> bool:
    """Return whether `after` equals `text` without our entries, ignoring formatting. Raises UnreadableFile."""
    remaining_settings = remove_own(text, style, name)
    if style is SettingsStyle.TOML:
        return _without_empty(read_table(after, name)) == _without_empty(read_table(remaining_settings, name))
    return _without_empty(read_text(after, name).value) == _without_empty(read_text(remaining_settings, name).value)


def _without_empty(value: Json) -> Json:
    """Drop empty objects and lists, because our entry may have been the only one in them."""
    if isinstance(value, dict):
        members = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in members.items() if inner not in ({}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def read_table(text: str, name: str, /) -> dict[str, Json]:
    """Parse TOML. Raises UnreadableFile, which names the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _LINE.search(str(error))
        line_number = int(match[1]) if match is not None else text.count("\n") + 1
        raise UnreadableFile(name=name, problem="is not valid TOML: fix the file first", line=line_number) from None


def own_words(command: str, /) -> list[str]:
    """Split a command line that runs only one of our hooks into words; return [] for any other."""
    if " hooks " not in command:
        return []
    # Backslashes in Windows paths would be lost in shell splitting.
    lexer = shlex.shlex(command.replace("\\", "/"), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # unterminated quote
        return []
    is_own_program = len(words) > 2 and _OWN_PROGRAM.fullmatch(words[0]) is not None and words[1] == "hooks"
    is_only_command = not any(word and _OPERATORS.issuperset(word) for word in words) and "\n" not in command.strip()
    return words if is_own_program and is_only_command and words[2] in _OWN_EVENTS else []


def own_commands(value: Json, /) -> Iterator[str]:
    """Yield our commands anywhere in a value."""
    if isinstance(value, str) and own_words(value):
        yield value
    for inner_value in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from own_commands(inner_value)


def uses_shared_space(text: str, /) -> bool:
    """Return whether JSON settings have one of our hooks without a space, as earlier versions installed them."""
    try:
        settings = read_text(text or "{}", "settings").value
    except UnreadableFile:
        return False
    return any(_STORING.search(command) is not None for command in own_commands(settings))


def is_own_value(value: Json, /) -> bool:
    """Return whether a value is a hook, hook group or prompted input that is entirely ours."""
    if not isinstance(value, dict):
        return False
    hooks = value.get("hooks")
    if isinstance(hooks, list):
        return bool(hooks) and all(map(is_own_value, hooks))
    command = value.get("command", value.get("bash"))
    return value == _ASKED_KEY or (isinstance(command, str) and bool(own_words(command)))


def with_wrapped(text: str, entry: SettingsEntry, name: str, /) -> SettingsEntry:
    """Return the entry to write over a person's own command. The new command runs theirs first."""
    node = node_at(read_text(text, name), entry.path) if entry.wraps else None
    own_command = node.value if node is not None else None
    if not isinstance(own_command, dict) or not isinstance(command := own_command.get("command"), str):
        return entry
    assert isinstance(entry.value, dict)
    return replace(entry, value={**own_command, "command": f"{entry.value['command']}{_WRAP}{shlex.quote(command)}"})


def _wrapped_command(settings: Json) -> str | None:
    """Return the person's own command from a status line of ours."""
    command_line_text = _member_at(settings, ("statusLine", "command"))
    if not isinstance(command_line_text, str) or not own_words(command_line_text) or _WRAP not in command_line_text:
        return None
    return next(iter(shlex.split(command_line_text.partition(_WRAP)[2])), None)


def _own_part(settings: Json) -> tuple[str | int, ...] | None:
    """Return the path of one part of ours, or None if none is left."""
    for path in _OWN_MEMBERS:
        if _member_at(settings, path) is not None:
            return path
    if is_own_value(_member_at(settings, ("statusLine",))):
        return ("statusLine",)
    hooks = _member_at(settings, ("hooks",))
    lists = {("hooks", event): items for event, items in hooks.items()} if isinstance(hooks, dict) else {}
    for path, items in {**lists, ("inputs",): _member_at(settings, ("inputs",))}.items():
        for position, item in enumerate(items if isinstance(items, list) else ()):
            if is_own_value(item):
                return (*path, position)
            hook_entries = item.get("hooks") if isinstance(item, dict) else None
            for hook_index, hook in enumerate(hook_entries if isinstance(hook_entries, list) else ()):
                if is_own_value(hook):
                    return (*path, position, "hooks", hook_index)
    return None


def _member_at(settings: Json, path: Sequence[str]) -> Json:
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


def _undo_span(text_before: str, text_after: str) -> UndoSpan:
    """Return the single span in which two texts differ."""
    shorter_length = min(len(text_before), len(text_after))
    first_difference = next((at for at in range(shorter_length) if text_before[at] != text_after[at]), shorter_length)
    max_suffix = shorter_length - first_difference
    suffix_length = next((at for at in range(max_suffix) if text_before[-1 - at] != text_after[-1 - at]), max_suffix)
    return UndoSpan(
        start=first_difference,
        length=len(text_after) - suffix_length - first_difference,
        text=text_before[first_difference : len(text_before) - suffix_length],
    )


def _with_table(text: str, entry: SettingsEntry, name: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    table = toml_table(entry.path, entry.value).replace("\n", newline)
    separator = "" if not text else newline if text.endswith("\n") else newline * 2
    changed_text = f"{text}{separator}{table}{newline}"
    previous_settings = read_table(text, name)
    merged = _merged_table(previous_settings, entry)
    if merged is None or _parsed_table(changed_text) != merged:
        problem = f"has `{entry.path[0]}` in a form that cannot be extended: add the entry by hand"
        raise UnreadableFile(name=name, problem=problem, line=_line_of(text, entry.path[0]))
    return changed_text


def _parsed_table(text: str) -> Mapping[str, Json] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _merged_table(settings: dict[str, Json], entry: SettingsEntry) -> dict[str, Json] | None:
    outer_name, inner_name = entry.path
    servers = settings.get(outer_name, {})
    return {**settings, outer_name: {**servers, inner_name: entry.value}} if isinstance(servers, dict) else None


def _without_table(text: str, path: tuple[str, str], name: str) -> str:
    """Return a TOML text without a table and its subtables. Comments before the next table are preserved."""
    settings = read_table(text, name)
    outer_name, inner_name = path
    servers = cast("dict[str, Json]", settings.get(outer_name)) if isinstance(settings.get(outer_name), dict) else {}
    if inner_name not in servers:
        return text
    header = re.compile(rf"""\s*\[\s*["']?{outer_name}["']?\s*\.\s*["']?{inner_name}["']?\s*[.\]]""")
    lines: list[str] = []
    is_in_table = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_in_table = header.match(line) is not None
            if is_in_table and lines and not lines[-1].strip():
                lines.pop()
        if not is_in_table or line.lstrip().startswith("#"):
            lines.append(line)
    remaining_text = "".join(lines)
    other_servers = {key: value for key, value in servers.items() if key != inner_name}
    expected_settings = {key: value for key, value in settings.items() if key != outer_name} | (
        {outer_name: other_servers} if other_servers else {}
    )
    remaining_settings = _parsed_table(remaining_text)
    if (
        remaining_settings is None
        or {key: value for key, value in remaining_settings.items() if (key, value) != (outer_name, {})}
        != expected_settings
    ):
        problem = f"has `{outer_name}.{inner_name}` in a form that cannot be removed automatically: remove it by hand"
        raise UnreadableFile(name=name, problem=problem, line=_line_of(text, inner_name))
    return remaining_text


def _line_of(text: str, word: str) -> int:
    return text.count("\n", 0, max(text.find(word), 0)) + 1


def has_member(text: str, path: Sequence[str], name: str, /) -> bool:
    """Return whether a JSON text has a value at `path`."""
    return node_at(read_text(text, name), path) is not None
