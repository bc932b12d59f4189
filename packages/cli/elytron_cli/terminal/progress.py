"""A progress bar on stderr, for people at a terminal."""

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Literal, Self

Unit = Literal["bytes", "texts", "entries", "turns"]


class Bar:
    """Shows the progress, speed and remaining time of some work from its first call of `at`.

    Until then it shows the text `first`, else the name of the work. Shows nothing if `shown` is false or stderr is no
    terminal.
    """

    def __init__(self, what: str, /, *, unit: Unit, shown: bool, first: str | None = None) -> None:
        self._what = what
        self._first = first or what
        self._unit: Unit = unit
        self._shown = shown and sys.stderr.isatty()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._shown:
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
            progress = self._stack.enter_context(Progress(*columns, console=console(stderr=True), transient=True))
            self._progress = progress
            self._task = progress.add_task(self._first, total=None)
        return self

    def at(self, done: int, total: int, /) -> None:
        """Say that `done` of `total` is done."""
        if self._shown:
            self._progress.update(self._task, description=self._what, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class UnaskedBar:
    """A bar for a work that seldom has to be done: it comes with the first word of it, and goes with the last."""

    def __init__(self, what: str, /, *, unit: Unit, shown: bool) -> None:
        self._what = what
        self._unit: Unit = unit
        self._shown = shown
        self._stack = ExitStack()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def at(self, done: int, total: int, /) -> None:
        """Say that `done` of `total` is done."""
        if self._bar is None:
            self._bar = self._stack.enter_context(Bar(self._what, unit=self._unit, shown=self._shown))
        self._bar.at(done, total)
        if done == total:
            self._stack.close()
            self._bar = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
