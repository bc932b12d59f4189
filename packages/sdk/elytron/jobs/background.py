"""Work in the background that nothing ends: a fault of one space, or of the work itself, is logged, and it goes on."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

from elytron_core.errors import ElytronError

logger = logging.getLogger(__name__)
PAUSE_S: Final = 5.0
"""Pause behind a fault."""


class BackgroundTask:
    """Does `work` in one task, from `start` to `stop`: again after an unforeseen fault."""

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, None]], /, *, name: str, pause_s: float = PAUSE_S
    ) -> None:
        self._work = work
        self._name = name
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._keep_working(), name=self._name)

    async def stop(self) -> None:
        """End where the work waits, and return when it has ended."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return

    async def _keep_working(self) -> None:
        while True:
            try:
                await self._work()
            except Exception as error:  # noqa: BLE001 - the work goes on behind any fault
                log_fault(f"{self._name} was broken off", error)
            else:
                return
            await asyncio.sleep(self._pause_s)


@contextmanager
def apart_from_others(drop: Callable[[], None], /) -> Generator[None]:
    """Log what fails in one space and call `drop`, so that the work goes on with the others.

    What another attempt may help is raised: it is no fault of the space.
    """
    try:
        yield
    except ElytronError as error:
        if error.retryable:
            raise
        logger.warning("the jobs of a space were not looked at (%s)", error.key)
        drop()
    except Exception as error:  # noqa: BLE001 - the border: damage is one space's alone
        log_fault("the jobs of a space were not looked at", error)
        drop()


def log_fault(told: str, error: Exception, /) -> None:
    """Log a fault without its message, which may repeat what a caller gave: its type and places are enough."""
    logger.error("%s: %s\n%s", told, type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
