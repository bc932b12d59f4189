"""A worker inside a runtime: does the jobs of every space of the store while the runtime is open."""

import asyncio
import logging

from elytron.context import OperationContext
from elytron.flows.job_runs import run_next
from elytron.jobs.background import Background
from elytron.jobs.queue import read_queue
from elytron_core import limits
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId

logger = logging.getLogger(__name__)

SWEEP_EVERY = 30
"""Rounds after which all spaces are searched for jobs that another process queued."""


class Worker:
    """One task that does jobs, one at a time. Several workers of one store, in any process, share its jobs."""

    def __init__(self, ctx: OperationContext, /, *, pause_s: float = limits.WORKER_PAUSE_S) -> None:
        self._ctx = ctx
        self._pause_s = pause_s
        self._stopping = asyncio.Event()
        self._background = Background(self._work, name="elytron-worker")

    def start(self) -> None:
        """Begin to work."""
        self._background.start()

    async def stop(self) -> None:
        """End after the step under way; the job it belongs to goes back to the queue."""
        self._stopping.set()
        await self._background.stop()

    async def _work(self) -> None:
        rounds = 0
        while not self._stopping.is_set():
            try:
                if rounds % SWEEP_EVERY == 0:
                    await self._sweep()
                for space in tuple(self._ctx.put_off):
                    await self._empty(space)
            except ElytronError as error:
                # The store may be back later; what was held goes on when its lease ends.
                logger.warning("the worker stopped short: %s", error.key)
            rounds += 1
            try:
                await asyncio.wait_for(self._stopping.wait(), timeout=self._pause_s)
            except TimeoutError:
                continue

    async def _sweep(self) -> None:
        after = ""
        while spaces := await self._ctx.store.spaces(after=after, limit=limits.SCAN_MAX):
            after = spaces[-1]
            for space in spaces:
                if (await read_queue(self._ctx, space)).active:
                    self._ctx.put_off.add(space)

    async def _empty(self, space: SpaceId) -> None:
        while await run_next(self._ctx, space) is not None:
            if self._stopping.is_set():
                return
        if not (await read_queue(self._ctx, space)).active:
            self._ctx.put_off.discard(space)
