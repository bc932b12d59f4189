"""Work beside everything else: one task with an owner who starts and stops it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Background:
    """Does `work` in one task, from `start` to `stop`."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], /, *, name: str) -> None:
        self._work = work
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._work(), name=self._name)

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
