"""A progress bar on stderr, for people at a terminal."""

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Literal, Self

Unit = Literal["bytes", "texts", "entries", "turns"]


class Bar:
    """Shows the progress, speed and remaining time of some work.

    It comes at once, with the text `first` or the name of the work; if `unasked`, with the first call of `at`, and it
    goes with the last. Shows nothing if `shown` is false or stderr is no terminal.
    """

    def __init__(
        self, what: str, /, *, unit: Unit, shown: bool, first: str | None = None, unasked: bool = False
    ) -> None:
        self._what = what
        self._first = first or what
        self._unit: Unit = unit
        self._shown = shown and sys.stderr.isatty()
        self._unasked = unasked
        self._running = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._unasked:
            self._begin()
        return self

    def _begin(self) -> None:
        if not self._shown or self._running:
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

        from elytron_cli.terminal.output import console

        pace = TransferSpeedColumn() if self._unit == "bytes" else MofNCompleteColumn()
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), pace, TimeRemainingColumn()
        self._progress = self._stack.enter_context(Progress(*columns, console=console(stderr=True), transient=True))
        self._task = self._progress.add_task(self._first, total=None)
        self._running = True

    def at(self, done: int, total: int, /) -> None:
        """Say that `done` of `total` is done."""
        self._begin()
        if self._running:
            self._progress.update(self._task, description=self._what, completed=done, total=total)
        if self._unasked and done == total:
            self._end()

    def _end(self) -> None:
        self._stack.close()
        self._running = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
