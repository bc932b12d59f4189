"""Output and prompts at a terminal: results on stdout, errors on stderr, tables for people and JSON for pipes."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import click

from elytron_core.clock import Instant, format_instant

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_adapter.envelope import RejectedAnswer
    from elytron_core.model import Value


class QuestionDeclined(Exception):
    """A question at the terminal was answered with no."""

    key = "declined"


class OperationRefused(Exception):
    """An operation was rejected."""

    def __init__(self, rejection: "RejectedAnswer", /) -> None:
        super().__init__(rejection.reason)
        self.rejected = rejection


ValueT = TypeVar("ValueT", bound="Value")

_TIMES = frozenset({"at", "since", "until", "as_of", "valid_from", "valid_to"})
"""Fields with an instant, in addition to those whose name ends in `_at`."""
_PLAIN = "\n\xa0\u3000\u200c\u200d"
"""Not counted as printable, but harmless: line ends, two kinds of space, and the joiners of emoji and some scripts."""


def safe_text(text: str, /) -> str:
    """Return `text` with characters that could control a terminal or hide in it escaped; line ends stay."""
    return "".join(char if _is_plain(char) else _escape_char(char) for char in text)


def safe_line(text: str, /) -> str:
    """Return `text` on one line, safe to print."""
    return safe_text(" ".join(text.split()))


def json_text(value: "Value", /) -> str:
    """Return `value` as JSON that is safe to print."""
    return _printed_json(value.model_dump(mode="json", exclude_none=True))


def _printed_json(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return "".join(char if _is_plain(char) else _json_escape(char) for char in text)


def _with_iso(data: Any) -> Any:
    """Return `data` with each time in milliseconds repeated in ISO 8601 as `<name>_iso`."""
    if isinstance(data, list):
        return [_with_iso(item) for item in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    fields: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", data).items():
        fields[name] = _with_iso(value)
        if (name in _TIMES or name.endswith("_at")) and isinstance(value, int) and not isinstance(value, bool):
            fields[f"{name}_iso"] = format_instant(Instant(value))
    return fields


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in _PLAIN


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Prints a command's report. `as_json` None: JSON unless at a terminal."""

    as_json: bool | None = None

    @property
    def is_json(self) -> bool:
        """True if reports are printed as JSON."""
        return self.as_json if self.as_json is not None else not sys.stdout.isatty()

    def report(self, value: ValueT, render: Callable[["Console", ValueT], None], /, *, exact: bool = False) -> None:
        """Print `value` as JSON, with times in ISO 8601 too unless it is to be `exact`; or let `render` show it."""
        if self.is_json:
            data = value.model_dump(mode="json", exclude_none=True)
            print(_printed_json(data if exact else _with_iso(data)))
            return
        render(plain_console(), value)

    def hint(self, text: str, /) -> None:
        """Print a hint on stderr."""
        as_json = self.as_json if self.as_json is not None else not sys.stderr.isatty()
        print(json.dumps({"hint": text}, ensure_ascii=False) if as_json else _for_terminal(text), file=sys.stderr)

    def error(self, rejection: "RejectedAnswer", /) -> None:
        """Print an error on stderr."""
        as_json = self.as_json if self.as_json is not None else not sys.stderr.isatty()
        if as_json:
            fields = rejection.model_dump(mode="json", include={"error_key", "reason", "retryable", "details"})
            fields["key"] = fields.pop("error_key")
            text = json.dumps({"error": dict(sorted(fields.items()))})
        else:
            text = _for_terminal(f"elytron: {rejection.reason}")
        print(text, file=sys.stderr)


def _for_terminal(text: str) -> str:
    """Return a message for stderr, wrapped between words if that is a terminal."""
    if not sys.stderr.isatty():
        return safe_text(text)
    from elytron_cli.terminal.word_wrap import wrap_words

    return wrap_words(safe_text(text))


def plain_console(*, stderr: bool = False) -> "Console":
    """Return a console that shows text unchanged: no markup, no guessed highlights, no emoji names."""
    from elytron_cli.terminal.word_wrap import WordConsole

    return WordConsole(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False)


Unit = Literal["bytes", "texts", "entries", "turns"]


class ProgressBar:
    """Shows the progress, speed and remaining time of some work.

    It comes at once, with the text `first` or the name of the work; if `unasked`, with the first call of `at`, and it
    goes with the last. Shows nothing if `shown` is false or stderr is no terminal.
    """

    def __init__(
        self, activity: str, /, *, unit: Unit, is_visible: bool, first: str | None = None, unasked: bool = False
    ) -> None:
        self._what = activity
        self._first = first or activity
        self._unit: Unit = unit
        self._is_visible = is_visible and sys.stderr.isatty()
        self._unasked = unasked
        self._running = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._unasked:
            self._begin()
        return self

    def _begin(self) -> None:
        if not self._is_visible or self._running:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        pace_column = TransferSpeedColumn() if self._unit == "bytes" else MofNCompleteColumn()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            pace_column,
            TimeRemainingColumn(),
        )
        self._progress = self._stack.enter_context(
            Progress(*columns, console=plain_console(stderr=True), transient=True)
        )
        self._task = self._progress.add_task(self._first, total=None)
        self._running = True

    def at(self, count: int, total: int, /) -> None:
        """Report that `count` of `total` is done."""
        self._begin()
        if self._running:
            self._progress.update(self._task, description=self._what, completed=count, total=total)
        if self._unasked and count == total:
            self._end()

    def _end(self) -> None:
        self._stack.close()
        self._running = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


def at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty()


def confirm_question(question: str, /, *, yes: bool) -> None:
    """Ask `question` at a terminal, unless `yes` was given. Raises QuestionDeclined for a no, and for Ctrl-C."""
    if yes or not at_terminal():
        return
    try:
        answer = click.confirm(question, err=True)
    except click.exceptions.Abort:
        raise QuestionDeclined from None
    if not answer:
        raise QuestionDeclined
