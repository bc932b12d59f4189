"""The desk of jobs: takes the due jobs of agents in all spaces, several at once; those of one thread in their order."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from elytron.context import Beat, OperationContext
from elytron.flows.worker import run_next
from elytron.jobs.queue import BackgroundTask, apart_from_others, read_queue
from elytron_agent.service import limits
from elytron_core import limits as core_limits
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes.jobs import JobState
from elytron_core.policy import maintenance
from elytron_core.scope import Scope

logger = logging.getLogger(__name__)
_SWEEP_EVERY: Final = 12
"""Intervals after which all spaces are searched for jobs that another process made."""


class KindRunner(Protocol):
    """Does the jobs of one kind."""

    async def run(self, scope: Scope, payload: str, beat: Beat, /) -> None:
        """Do a job, keeping its lease."""
        ...

    async def give_up(self, space: SpaceId, payload: str, /) -> None:
        """Note that a job failed for good."""
        ...

    async def repair(self, space: SpaceId, /) -> None:
        """Make the jobs that a space lacks."""
        ...


class JobDesk:
    """Takes due jobs of the kinds that it has runners for."""

    def __init__(self, context: OperationContext, runners: Mapping[str, KindRunner], /, *, poll_s: float) -> None:
        self._context = context
        self._runners = runners
        self._poll_s = poll_s
        self._busy: dict[SpaceId, asyncio.Task[None]] = {}
        self._turns: LruCache[SpaceId, int] = LruCache(limits.AGENTS_KEPT)
        """Number of the last turn of each space."""
        self._numbers = count(1)
        self._background = BackgroundTask(self._work, name="elytron-agent-jobs")

    def start(self) -> None:
        """Begin to work."""
        self._context.runners.update({kind: runner.run for kind, runner in self._runners.items()})
        self._background.start()

    async def stop(self) -> None:
        """End after the step under way; what is not over goes back to the queue."""
        await self._background.stop()
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for kind in self._runners:
            self._context.runners.pop(kind, None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        is_first, sweep_at = True, loop.time()
        while True:
            try:
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + _SWEEP_EVERY * self._poll_s
                    await self._sweep(repairs=is_first)
                    is_first = False
                await self._take_due()
            except ElytronError as error:
                logger.warning("the jobs of agents were not looked at (%s)", error.key)
            pause = asyncio.ensure_future(asyncio.sleep(self._poll_s))
            try:
                await asyncio.wait({pause, *self._busy.values()}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()

    async def _sweep(self, *, repairs: bool) -> None:
        """Note the spaces that have jobs of these kinds."""
        after = ""
        while spaces := await self._context.store.spaces(after=after, limit=core_limits.SCAN_MAX):
            after = spaces[-1]
            for space in spaces:
                with self._apart(space):
                    async with self._context.secrets.background(space):
                        await self._sweep_space(space, repairs=repairs)

    async def _sweep_space(self, space: SpaceId, *, repairs: bool) -> None:
        queue = await read_queue(self._context, space)
        kinds = {job.kind for job in queue.active} & self._runners.keys()
        if kinds:
            self._context.put_off.add(space)
        for kind in kinds if repairs else ():
            await self._runners[kind].repair(space)

    async def _take_due(self) -> None:
        """Begin the due jobs for which there is room, first those of spaces that had no turn for longest."""
        for space in sorted(self._context.put_off, key=lambda space: (self._turns.get(space, 0), space)):
            if len(self._busy) >= limits.SCHEDULES_AT_ONCE:
                return
            if space in self._busy:
                continue
            is_due = False
            with self._apart(space):
                async with self._context.secrets.background(space):
                    queue = await read_queue(self._context, space)
                at = self._context.clock.now()
                is_due = maintenance.claimable_job(queue, at, self._runners.keys()) is not None
            if is_due:  # begun outside of the block, whose open keys end with it
                self._begin(space, self._do_next(space))

    def _apart(self, space: SpaceId) -> AbstractContextManager[None]:
        return apart_from_others(partial(self._context.put_off.discard, space))

    def _begin(self, space: SpaceId, work: Coroutine[Any, Any, None]) -> None:
        self._turns[space] = next(self._numbers)
        task = asyncio.get_running_loop().create_task(work, name="elytron-agent-job")
        self._busy[space] = task
        task.add_done_callback(lambda _: self._busy.pop(space, None))

    async def _do_next(self, space: SpaceId) -> None:
        """Do one job of a space: the next one waits for its turn behind those of other spaces."""
        try:
            with self._apart(space):
                async with self._context.secrets.background(space):
                    known = await run_next(self._context, space, kinds=self._runners.keys())
                    if known is not None and known.job.state is JobState.DEAD_LETTER:
                        await self._runners[known.job.kind].give_up(space, known.job.payload)
        except ElytronError as error:
            # A job that was held goes on when its lease ends.
            logger.warning("the jobs of an agent were not done (%s)", error.key)
