"""Commits of one space that wait for each other's sync are applied together: one sync answers them all."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from elytron_core import limits
from elytron_core.errors import ElytronError, StoreFailed
from elytron_core.ports.store import Batch, Committed
from elytron_store.file.failures import ENGINE
from elytron_store.file.space import Outcome

Apply = Callable[[Sequence[Batch]], Awaitable[Sequence[Outcome]]]
Waiting = tuple[Batch, asyncio.Future[Committed]]


class GroupCommitter:
    """Hands the batches of one space over in groups: while one is being written, the next gathers."""

    def __init__(self, apply: Apply, /, *, afterwards: Callable[[], Awaitable[None]]) -> None:
        self._apply = apply
        self._afterwards = afterwards
        self._room = asyncio.Semaphore(limits.STORE_QUEUE_BATCHES)
        self._waiting: deque[Waiting] = deque()
        self._group: Sequence[Waiting] = ()
        self._runner: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._runner is None

    async def commit(self, batch: Batch, /) -> Committed:
        """Apply `batch` in its turn. Cancelled before its group is formed, it is not applied."""
        async with self._room:
            answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
            self._waiting.append((batch, answer))
            if self._runner is None:
                self._start()
            return await answer

    async def drain(self) -> None:
        """Return when every batch handed over so far has its answer."""
        while self._runner is not None:
            await asyncio.wait([self._runner])

    def _start(self) -> None:
        self._runner = asyncio.create_task(self._run())
        self._runner.add_done_callback(self._end)

    async def _run(self) -> None:
        while group := self._next_group():
            self._group = group
            await self._write(group)
            await self._afterwards()

    async def _write(self, group: Sequence[Waiting]) -> None:
        try:
            outcomes: Sequence[Outcome | ElytronError] = await self._apply([batch for batch, _ in group])
        except ElytronError as error:
            outcomes = [error] * len(group)
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if answer.done():
                continue  # cancelled while it was being written: applied, and told to nobody
            if isinstance(outcome, Committed):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    def _next_group(self) -> Sequence[Waiting]:
        group: list[Waiting] = []
        size = 0
        while self._waiting and len(group) < limits.STORE_GROUP_BATCHES and size < limits.STORE_GROUP_BYTES:
            waiting = self._waiting.popleft()
            if not waiting[1].done():
                group.append(waiting)
                size += sum(len(put.body) for put in waiting[0].puts)
        return group

    def _end(self, runner: asyncio.Task[None]) -> None:
        """Start anew for batches that came at the last moment; where the runner broke, leave no caller waiting."""
        self._runner = None
        broken = runner.cancelled() or runner.exception() is not None
        if broken:
            for _, answer in (*self._group, *self._waiting):
                if not answer.done():
                    failed = StoreFailed(engine=ENGINE, doing="appending commits")
                    failed.__cause__ = None if runner.cancelled() else runner.exception()
                    answer.set_exception(failed)
            self._waiting.clear()
        self._group = ()
        if self._waiting:
            self._start()
