"""Marks of an assistant's actions: changed files, commands with exit codes, and the person's decisions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elytron_assistants.foreign_json import ForeignObject

TEXT_CHARS: Final = 300
"""Maximum characters of a command, path or decision in a mark."""
_FILES_NAMED: Final = 5
_PATHS_KEPT, _CHOICES_KEPT, _FAILURES_KEPT = 64, 4, 32
_COMMAND_TOOLS: Final = frozenset({
    "bash", "shell", "exec_command", "local_shell", "local_shell_call", "run_shell_command", "run_terminal_cmd",
})  # fmt: skip
_EDIT_TOOLS: Final = frozenset({
    "edit", "write", "multiedit", "notebookedit", "apply_patch", "replace", "write_file", "patch", "strreplace",
    "delete", "edit_file",
})  # fmt: skip
_WEB_TOOLS: Final = frozenset({
    "webfetch", "websearch", "web_fetch", "web_search", "web_search_call", "google_web_search",
})  # fmt: skip
_PLAN_TOOL, _QUESTION_TOOL = "exitplanmode", "askuserquestion"
PATH_KEYS: Final = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file")
_COMMAND_KEYS: Final = ("command", "cmd")
_EXIT_CODE: Final = re.compile(r"(?:[Ee]xit(?:ed with)? code:?|\"exit_code\":) ?(-?\d{1,6})")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S.*)$", re.MULTILINE)
_CHOICE: Final = re.compile(r'"([^"\n]{1,300})"="([^"\n]{1,300})"')
_HOME: Final = re.compile(
    r"(?:(?:/(?:var|usr|export))?/home|(?:(?:/mnt|/cygdrive)?/[a-z])?/Users|(?:[A-Za-z]:)?\\Users)[/\\][^/\\\s\"':]+"
    r"|/root(?=/)"
    # An absolute or relative path that may contain a folder `home`. A compiler option such as -I is not part of it.
    r"|(?P<other>(?:(?<![\w.@+~%\\-])(?!-[A-Z]/)[\w.@+~%-]*[\w~])?(?:/[\w.@+~%-]+)+)",
    re.ASCII,
)
_OUTPUT_CHARS: Final = 4_000
"""Characters at each end of a tool's output that are searched for the exit code."""


class MarkKind(StrEnum):
    """What a mark records."""

    FILE = "file"
    COMMAND = "command"
    DECISION = "decision"
    OUTSIDE = "outside"
    """Third-party content was read."""


@dataclass(frozen=True, slots=True)
class SessionMark:
    """One recorded action. It never contains a tool's output."""

    kind: MarkKind
    tool: str
    text: str = ""
    exit_code: int | None = None

    @property
    def is_outside(self) -> bool:
        """True if third-party content entered the turn."""
        return self.kind is MarkKind.OUTSIDE

    @property
    def summary(self) -> str:
        """The mark as text."""
        return self.text if self.exit_code is None else f"{self.text} (exit code {self.exit_code})"


@dataclass(frozen=True, slots=True)
class ToolEnding:
    """The outcome of a tool call: only the exit code and the person's choices are taken from its output."""

    is_error: bool | None = None
    exit_code: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class ToolRun:
    """A tool call. Of its arguments only the command, the paths of changed files and an approved plan are stored."""

    id: str
    name: str
    command: str = ""
    paths: tuple[str, ...] = ()
    plan: str = ""
    exit_code: int | None = None
    result: ToolEnding = ToolEnding()

    def finish(self, result: ToolEnding, /) -> None:
        """Record how the call ended."""
        self.result = result
        if self.command and self.exit_code is None:
            error_flag = None if result.is_error is None else int(result.is_error)
            self.exit_code = result.exit_code if result.exit_code is not None else error_flag

    @property
    def changed_paths(self) -> tuple[str, ...]:
        """Files that the call changed; none if it failed."""
        return () if self.result.is_error else self.paths

    @property
    def marks(self) -> tuple[SessionMark, ...]:
        """Marks that the call adds to its turn."""
        lower_name = self.name.lower()
        if self.command:
            return (SessionMark(MarkKind.COMMAND, self.name, self.command, self.exit_code),)
        if lower_name in _WEB_TOOLS or lower_name.startswith("mcp__"):
            return (SessionMark(MarkKind.OUTSIDE, self.name),)
        plans = (f"Approved plan: {self.plan}",) if self.plan and self.result.is_error is False else ()
        choices = self.result.choices if lower_name == _QUESTION_TOOL else ()
        decisions = tuple(SessionMark(MarkKind.DECISION, self.name, _short_text(text)) for text in (*plans, *choices))
        return decisions or tuple(SessionMark(MarkKind.FILE, self.name, path) for path in self.changed_paths)


def read_call(call_id: str, name: str, arguments: ForeignObject, /, *, exit_code: int | None = None) -> ToolRun:
    """Reduce a tool call to what is stored."""
    call, lower_name = ToolRun(call_id, name, exit_code=exit_code), name.lower()
    if lower_name in _COMMAND_TOOLS:
        command_words = [word for key in _COMMAND_KEYS for word in arguments.texts(key)]
        call.command = _short_text(
            command_words[2]
            if len(command_words) == 3 and command_words[1] in {"-c", "-lc"}
            else " ".join(command_words)
        )
    elif lower_name in _EDIT_TOOLS:
        patched_paths: list[str] = _PATCHED.findall(arguments.text("input", "patch", "patchText"))
        paths = (arguments.text(*PATH_KEYS), *patched_paths[:_PATHS_KEPT])
        call.paths = tuple(dict.fromkeys(_short_text(path) for path in paths if path.strip()))
    elif lower_name == _PLAN_TOOL:
        call.plan = _short_text(arguments.text("plan"))
    return call


def read_result(output: str, /, *, is_error: bool | None = None, is_plain: bool = False) -> ToolEnding:
    """Reduce a tool's output to what is stored. With `is_plain`, its text is not searched for an exit code."""
    text = shortened_output(output)
    code = _EXIT_CODE.search(text) if not is_plain else None
    choices = tuple(f"{question} {answer}" for question, answer in _CHOICE.findall(text))
    return ToolEnding(is_error, int(code[1]) if code is not None else None, choices[:_CHOICES_KEPT])


def command_fixes(turns: Iterable[Iterable[ToolRun]], /) -> dict[int, dict[str, str]]:
    """Find failed commands that succeeded later, and describe what fixed them.

    The result maps a turn's index to descriptions by key of the call. A fix is what happened between the failure and
    the success of the same command: the changed files, or otherwise the last command.
    """
    failures: dict[str, tuple[int, list[str], list[str]]] = {}
    fixes_by_turn: dict[int, dict[str, str]] = {}
    for turn_index, calls in enumerate(turns):
        for call_index, call in enumerate(calls):
            command = call.command
            if command and call.exit_code == 0 and command in failures:
                code, paths, commands = failures.pop(command)
                if cause := _fix_cause(list(dict.fromkeys(paths)), commands):
                    text = f"`{command}` failed with exit code {code} and passed after {cause}."
                    fixes_by_turn.setdefault(turn_index, {})[f"fix:{call.id or f'{command}:{call_index}'}"] = text
            for _, paths, commands in failures.values():
                paths.extend(call.changed_paths)
                commands.extend([command] if command and call.exit_code == 0 else [])
            if command and call.exit_code:
                failures.setdefault(command, (call.exit_code, [], []))
                if len(failures) > _FAILURES_KEPT:
                    del failures[next(iter(failures))]
    return fixes_by_turn


def call_decisions(calls: Iterable[ToolRun], /) -> dict[str, str]:
    """Return what the person decided when a tool asked, by key of the call."""
    return {
        f"decision:{call.id}:{mark_index}": f"Decided by the user: {mark.text}"
        for call in calls
        for mark_index, mark in enumerate(call.marks)
        if mark.kind is MarkKind.DECISION
    }


def _fix_cause(paths: list[str], commands: list[str]) -> str:
    if paths:
        more_note = f" and {len(paths) - _FILES_NAMED} more" if len(paths) > _FILES_NAMED else ""
        return f"changes to {', '.join(paths[:_FILES_NAMED])}{more_note}"
    return f"`{commands[-1]}`" if commands else ""


def shortened_output(text: str, /) -> str:
    """Return only the beginning and end of a long tool output, where the exit code is found."""
    return text if len(text) <= 2 * _OUTPUT_CHARS else f"{text[:_OUTPUT_CHARS]}\n{text[-_OUTPUT_CHARS:]}"


def without_home(text: str, /) -> str:
    """Replace home folders with `~`, because their names identify people."""
    return _HOME.sub(lambda match: match["other"] or "~", text)


def _short_text(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= TEXT_CHARS else f"{one_line[: TEXT_CHARS - 1]}…"
