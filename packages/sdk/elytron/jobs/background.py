"""Background tasks of a runtime: they end with it, and their faults are logged."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

from elytron_core.errors import ElytronError, SpaceIncomplete, SpaceLocked

logger = logging.getLogger(__name__)


PAUSE_S: Final = 5.0
"""Pause after a fault."""


class BackgroundTask:
    """Runs `work` in one task, from `start` to `stop`; restarts it after an unexpected fault."""

    def __init__(
        self, work_round: Callable[[], Coroutine[Any, Any, None]], /, *, name: str, pause_s: float = PAUSE_S
    ) -> None:
        self._work = work_round
        self._name = name
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start working."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._keep_working(), name=self._name)

    async def stop(self) -> None:
        """Stop where the work waits, and return when it has ended."""
        stopped_task, self._task = self._task, None
        if stopped_task is None:
            return
        stopped_task.cancel()
        try:
            await stopped_task
        except asyncio.CancelledError:
            return

    async def _keep_working(self) -> None:
        while True:
            try:
                await self._work()
            except Exception as error:  # noqa: BLE001 - the work goes on behind any fault
                log_fault(f"{self._name} was interrupted", error)
            else:
                return
            await asyncio.sleep(self._pause_s)


@contextmanager
def apart_from_others(drop: Callable[[], object], /) -> Generator[None]:
    """Log a failure in one space and call `drop`, so that the work continues with the others.

    What another attempt may help is raised: it is no fault of the space.
    """
    try:
        yield
    except (SpaceLocked, SpaceIncomplete):
        drop()  # its jobs wait for its user, and an unlock or a sweep finds them again
    except ElytronError as error:
        if error.retryable:
            raise
        logger.warning("the jobs of a space could not be checked (%s)", error.key)
        drop()
    except Exception as error:  # noqa: BLE001 - the border: damage is one space's alone
        log_fault("the jobs of a space could not be checked", error)
        drop()


def log_fault(message: str, error: Exception, /) -> None:
    """Log a fault without its message, which may repeat a caller's input: its type and locations suffice."""
    logger.error("%s: %s\n%s", message, type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
