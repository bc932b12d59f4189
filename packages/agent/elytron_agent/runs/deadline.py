"""Deadline of a run, and waits for foreign work (models, tools, strategies) that end with it.

Foreign code may be silent, may swallow its cancellation, and may raise CancelledError of its own. Each wait for it
passes `finished`, so that none of these holds a run or ends it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from elytron_core.clock import Clock

GRACE_S: Final = 1.0
"""So long work that was cancelled may take to clean up before it is left alone."""
T = TypeVar("T")


class WorkCancelled(Exception):
    """Foreign work ended with a CancelledError that was not asked for here."""


class Deadline:
    """Moment at which a run's time is over, by its clock and by the time of the event loop, whichever comes first."""

    def __init__(self, clock: Clock, seconds: float | None, /) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._until_ms = None if seconds is None else clock.now() + seconds * 1000
        self._until_s = None if seconds is None else self._loop.time() + seconds

    @property
    def is_over(self) -> bool:
        return self._until_ms is not None and self.remaining_s(0) == 0

    def remaining_s(self, otherwise: float, /) -> float:
        """Return the seconds that are left; `otherwise`, if there is no bound."""
        if self._until_ms is None or self._until_s is None:
            return otherwise
        return max(min((self._until_ms - self._clock.now()) / 1000, self._until_s - self._loop.time()), 0.0)

    def timeout_s(self, most: float | None = None, /) -> float | None:
        """Return how long a piece of work may take, which alone may take `most` seconds."""
        if self._until_ms is None:
            return most
        left = self.remaining_s(0)
        return left if most is None else min(left, most)

    async def paused(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return what a person answers; the time that it takes is not the run's."""
        at_ms, at_s = self._clock.now(), self._loop.time()
        try:
            return await finished(work)
        finally:
            if self._until_ms is not None and self._until_s is not None:
                self._until_ms += self._clock.now() - at_ms
                self._until_s += self._loop.time() - at_s


async def finished(work: Coroutine[Any, Any, T], /, *, timeout_s: float | None = None) -> T:
    """Return what foreign work returns.

    Raises TimeoutError if it takes longer than `timeout_s`, WorkCancelled if it cancelled itself, and what it raises.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    finally:
        if not task.done():
            await abandon(task)
    if not done:
        raise TimeoutError
    if task.cancelled():
        raise WorkCancelled
    return task.result()


async def abandon(task: asyncio.Task[Any], /) -> None:
    """Cancel a task, and leave it alone if it does not end in time; what it raises is dropped."""
    task.cancel()
    task.add_done_callback(_take_error)
    await asyncio.wait({task}, timeout=GRACE_S)


def _take_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
