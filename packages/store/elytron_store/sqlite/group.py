"""Group commit: whatever waits while one transaction is flushed goes into the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from elytron_core import limits
from elytron_core.errors import ElytronError, StoreClosed, StoreFailed
from elytron_core.ports.store import Batch, Committed
from elytron_store.sqlite.driver import ERRORS, translate
from elytron_store.sqlite.writing import Outcome

Apply = Callable[[Sequence[Batch]], Awaitable[Sequence[Outcome]]]
Waiting = tuple[Batch, asyncio.Future[Committed]]


class GroupCommit:
    """The queue before the write connection and the one task that empties it.

    Order of commits is order of calls. A failed write ends it: nothing more is taken, since nobody can say what of
    the failed one reached the device.
    """

    def __init__(self, apply: Apply, /) -> None:
        self._apply = apply
        self._waiting: deque[Waiting] = deque()
        self._group: Sequence[Waiting] = ()
        self._room = asyncio.Semaphore(limits.STORE_QUEUE_BATCHES)
        self._wake = asyncio.Event()
        self._ended: ElytronError | None = None
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._give_up)

    @property
    def ended(self) -> ElytronError | None:
        """Why nothing more is taken, if so."""
        return self._ended

    def fail(self, error: ElytronError, /) -> None:
        """Take nothing more: a write beside the queue failed."""
        self._ended = self._ended or error

    async def commit(self, batch: Batch, /) -> Committed:
        """Return what became of `batch` once it is durable; see `Store.commit`."""
        await self._room.acquire()
        try:
            if self._ended is not None:
                raise self._ended
            future: asyncio.Future[Committed] = self._task.get_loop().create_future()
            self._waiting.append((batch, future))
            self._wake.set()
            return await future
        finally:
            self._room.release()

    async def close(self) -> None:
        """Finish what was accepted, refuse the rest."""
        self._ended = self._ended or StoreClosed()
        self._wake.set()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._waiting or self._ended is None:
            self._group = self._take()
            if not self._group:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                outcomes = await self._apply([batch for batch, _ in self._group])
            except (ElytronError, *ERRORS) as error:
                self._refuse(error)
                continue
            for (_, future), outcome in zip(self._group, outcomes, strict=True):
                if future.done():
                    continue  # its caller has gone
                if isinstance(outcome, Committed):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)

    def _take(self) -> Sequence[Waiting]:
        """Take the next batches of callers who still wait, up to the bounds of a group."""
        group: list[Waiting] = []
        size = 0
        while self._waiting and len(group) < limits.STORE_GROUP_BATCHES and size < limits.STORE_GROUP_BYTES:
            waiting = self._waiting.popleft()
            if not waiting[1].done():
                group.append(waiting)
                size += sum(len(put.body) for put in waiting[0].puts)
        return group

    def _refuse(self, error: Exception) -> None:
        """Tell each caller of the group that nothing was committed, and stop where the file cannot be trusted."""
        for _, future in self._group:
            refused = error if isinstance(error, ElytronError) else translate(error, doing="committing")
            if isinstance(refused, StoreFailed):
                self._ended = refused
            if not future.done():
                refused.__cause__ = None if refused is error else error
                future.set_exception(refused)
        if isinstance(self._ended, StoreFailed):
            self._drop(self._ended)

    def _give_up(self, task: asyncio.Task[None]) -> None:
        """Leave no caller waiting for a task that is gone."""
        cause = None if task.cancelled() else task.exception()
        if task.cancelled() or cause is not None:
            self._ended = StoreFailed(engine="sqlite", doing="committing")
            self._ended.__cause__ = cause
        self._drop(self._ended or StoreClosed())

    def _drop(self, error: ElytronError) -> None:
        for _, future in (*self._group, *self._waiting):
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
