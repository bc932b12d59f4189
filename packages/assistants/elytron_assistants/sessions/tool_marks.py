"""Marks of what an assistant did: files that it changed, commands with their exit codes, decisions of the person."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elytron_assistants.foreign_json import ForeignObject

TEXT_CHARS: Final = 300
"""Characters of a command, path or decision that a mark keeps."""
_FILES_NAMED: Final = 5
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
_DECISION_TOOLS: Final = frozenset({"exitplanmode", "askuserquestion"})
PATH_KEYS: Final = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file")
_COMMAND_KEYS: Final = ("command", "cmd")
_EXIT_CODE: Final = re.compile(r"(?:[Ee]xit(?:ed with)? code:?|\"exit_code\":) ?(-?\d{1,6})")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S.*)$", re.MULTILINE)
_CHOICE: Final = re.compile(r'"([^"\n]{1,300})"="([^"\n]{1,300})"')
_HOME: Final = re.compile(r"(?:/home|/Users|(?:[A-Za-z]:)?\\Users)[/\\][^/\\\s\"':]+|/root(?=/)")
_OUTPUT_CHARS: Final = 4_000
"""Characters of a tool's output, at its beginning and at its end, in which its exit code is searched for."""


class MarkKind(StrEnum):
    """What a mark says."""

    FILE = "file"
    COMMAND = "command"
    DECISION = "decision"
    OUTSIDE = "outside"
    """Content of third parties was read."""


@dataclass(frozen=True, slots=True)
class SessionMark:
    """One thing that was done beside what was said: never a tool's output."""

    kind: MarkKind
    tool: str
    text: str = ""
    exit_code: int | None = None

    @property
    def is_outside(self) -> bool:
        """True if the words of third parties went into the turn."""
        return self.kind is MarkKind.OUTSIDE

    @property
    def summary(self) -> str:
        """The mark in words."""
        return self.text if self.exit_code is None else f"{self.text} (exit code {self.exit_code})"


@dataclass(slots=True)
class ToolCall:
    """A tool's use, completed by its result."""

    id: str
    name: str
    arguments: ForeignObject
    exit_code: int | None = None
    is_error: bool | None = None
    choices: tuple[str, ...] = ()

    def update(self, later: "ToolCall", /) -> None:
        """Take over a later state of the same use."""
        self.arguments = later.arguments if later.arguments.fields else self.arguments
        self.exit_code = later.exit_code if later.exit_code is not None else self.exit_code

    def finish(self, output: str, /, *, is_error: bool | None) -> None:
        """Note how the use ended; of its output only the exit code, or the person's answers, are kept."""
        self.is_error = is_error
        head, tail = output[:_OUTPUT_CHARS], output[-_OUTPUT_CHARS:]
        if self._word in _DECISION_TOOLS and not is_error:
            self.choices = tuple(f"{question} {answer}" for question, answer in _CHOICE.findall(head))
        if self._word in _COMMAND_TOOLS and self.exit_code is None:
            code = _EXIT_CODE.search(head) or _EXIT_CODE.search(tail)
            self.exit_code = int(code[1]) if code is not None else (None if is_error is None else int(is_error))

    @property
    def _word(self) -> str:
        return self.name.lower()

    @property
    def command(self) -> str:
        """The command line of a shell tool; empty for any other tool."""
        if self._word not in _COMMAND_TOOLS:
            return ""
        words = [word for key in _COMMAND_KEYS for word in self.arguments.texts(key)]
        return _short_text(words[2] if len(words) == 3 and words[1] in {"-c", "-lc"} else " ".join(words))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that an editing tool changed."""
        if self._word not in _EDIT_TOOLS or self.is_error:
            return ()
        named = [value for key in PATH_KEYS if isinstance(value := self.arguments.get(key), str)]
        patches = (
            value for key in ("input", "patch", "patchText") if isinstance(value := self.arguments.get(key), str)
        )
        patched = [path for patch in patches for path in _PATCHED.findall(patch)]
        return tuple(dict.fromkeys(_short_text(path) for path in (*named, *patched) if path.strip()))

    @property
    def marks(self) -> tuple[SessionMark, ...]:
        """What the use leaves beside the turn."""
        if command := self.command:
            return (SessionMark(MarkKind.COMMAND, self.name, command, self.exit_code),)
        if self._word in _WEB_TOOLS or self._word.startswith("mcp__"):
            return (SessionMark(MarkKind.OUTSIDE, self.name),)
        if self._word == "exitplanmode" and self.is_error is False:
            plan = self.arguments.text("plan")
            self.choices = (f"Approved plan: {plan}",) if plan else ()
        decisions = tuple(SessionMark(MarkKind.DECISION, self.name, _short_text(text)) for text in self.choices)
        return decisions or tuple(SessionMark(MarkKind.FILE, self.name, path) for path in self.paths)


def command_fixes(turns: Iterable[Iterable[ToolCall]], /) -> dict[int, dict[str, str]]:
    """Return, by the place of the turn and a key of the call, which failed commands passed later and what fixed them.

    A fix is what happened between the failure and the same command's success: changed files, else the last command.
    """
    failures: dict[str, tuple[int, list[str], list[str]]] = {}
    fixes: dict[int, dict[str, str]] = {}
    for place, calls in enumerate(turns):
        for number, call in enumerate(calls):
            command = call.command
            if command and call.exit_code == 0 and command in failures:
                code, paths, commands = failures.pop(command)
                if cause := _fix_cause(list(dict.fromkeys(paths)), commands):
                    text = f"`{command}` failed with exit code {code} and passed after {cause}."
                    fixes.setdefault(place, {})[call.id or f"{command}:{number}"] = text
            for _, paths, commands in failures.values():
                paths.extend(call.paths)
                commands.extend([command] if command and call.exit_code == 0 else [])
            if command and call.exit_code:
                failures.setdefault(command, (call.exit_code, [], []))
    return fixes


def _fix_cause(paths: list[str], commands: list[str]) -> str:
    if paths:
        more = f" and {len(paths) - _FILES_NAMED} more" if len(paths) > _FILES_NAMED else ""
        return f"changes to {', '.join(paths[:_FILES_NAMED])}{more}"
    return f"`{commands[-1]}`" if commands else ""


def without_home(text: str, /) -> str:
    """Return `text` with `~` in place of people's home folders, whose names are theirs."""
    return _HOME.sub("~", text)


def _short_text(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= TEXT_CHARS else f"{flat[: TEXT_CHARS - 1]}…"
