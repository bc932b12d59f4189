"""The queue of waiting commits: written in groups, one flush each; a commit cancelled while it waits is left out."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from elytron_core.errors import ElytronError, StoreClosed, StoreFailed, Unsupported
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store import limits as store_limits

GROUP_BATCHES: Final = 256
"""Number of waiting batches that one transaction takes."""
GROUP_PUTS: Final = 256
"""Number of documents from which on a group does not wait for more."""


Outcome = CommitReceipt | ElytronError
"""Outcome of a batch for its caller."""

Waiting = tuple[Batch, asyncio.Future[CommitReceipt]]
Work = Callable[[], object]


class GroupCommitter:
    """Hands batches to a worker thread in groups, and each group's outcomes back to the event loop at once.

    Commits keep the order of calls. At most one group, or one task between groups, is in the thread; so a group costs
    one switch there and one back, however many batches it has.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Batch]], Sequence[Outcome]],
        /,
        *,
        engine: str,
        submit: Callable[[Work], object],
        between: Callable[[], Work | None],
    ) -> None:
        """`write`, and the work to do `between` groups, run where `submit` runs its argument.

        `submit` raises StoreClosed where it takes nothing any more.
        """
        self._write = write
        self._engine = engine
        self._submit = submit
        self._between = between
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._room.set()
        self._waiting: deque[Waiting] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._is_given = False
        self._unheard = 0

    @property
    def is_resting(self) -> bool:
        """True if the thread is idle, and all callers of written batches have their answers or are gone."""
        return not self._is_given and not self._unheard

    @property
    def is_idle(self) -> bool:
        """True if nothing waits and nothing is being written."""
        return self._idle.is_set()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Return the outcome of `batch` once it is durable. If cancelled before its group is formed, it is not applied.

        Raises Unsupported in another event loop than the one it was made in.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise Unsupported(
                "a store works only in the event loop that opened it: open it in this one, or use a blocking memory"
                " (`with elytron.open(...)`)"
            )
        # Checked again after each wait: all waiters are woken, and the first ones fill the queue.
        while len(self._waiting) >= store_limits.QUEUE_BATCHES:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise StoreClosed
        receipt_future: asyncio.Future[CommitReceipt] = self._loop.create_future()
        self._waiting.append((batch, receipt_future))
        if self._idle.is_set():
            self._idle.clear()
            # Deferred: what others commit in the same iteration of the loop shares the flush.
            self._loop.call_soon(self._hand_over)
        self._unheard += 1
        try:
            return await receipt_future
        finally:
            self._unheard -= 1

    async def close(self) -> None:
        """Finish accepted work, reject the rest."""
        self._closed = True
        await self._idle.wait()

    def _hand_over(self) -> None:
        self._is_given = False
        group = take_group(self._waiting)
        self._room.set()
        if group:
            self._give(partial(self._write_group, group), otherwise=group)
        else:
            self._idle.set()

    def _give(self, queued_work: Work, /, *, otherwise: Sequence[Waiting] = ()) -> None:
        self._is_given = True
        try:
            self._submit(queued_work)
        except StoreClosed as closed_error:
            answer_group(otherwise, [closed_error] * len(otherwise))
            self._loop.call_soon(self._hand_over)

    def _write_group(self, group: Sequence[Waiting]) -> None:
        """Write `group` and schedule its callers' answers; runs in the thread and raises nothing."""
        try:
            outcomes = self._write([batch for batch, _ in group])
        except ElytronError as error:
            outcomes = [error] * len(group)
        except BaseException as error:  # noqa: BLE001 - no caller may be left waiting
            failure = StoreFailed(engine=self._engine, doing="committing")
            failure.__cause__ = error
            outcomes = [failure] * len(group)
        self._call_loop(self._tell, group, outcomes)

    def _tell(self, group: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
        self._is_given = False
        between_work = self._between()
        # Maintenance goes first, or a steady stream of commits would postpone it forever.
        if between_work is None and self._waits_much():
            # The thread continues while the answered callers proceed.
            self._hand_over()
            answer_group(group, outcomes)
            return
        answer_group(group, outcomes)
        if between_work is None:
            # After the callers just answered: their next commits are in the next group.
            self._loop.call_soon(self._hand_over)
        else:
            self._give(partial(self._do_between, between_work))

    def _waits_much(self) -> bool:
        """Return whether the waiting batches are worth a flush."""
        return sum([len(batch.puts) for batch, _ in self._waiting]) >= GROUP_PUTS

    def _do_between(self, work: Work) -> None:
        try:
            with suppress(ElytronError):  # it saves room or time, and is due again if it failed
                work()
        finally:
            self._call_loop(self._hand_over)

    def _call_loop(self, call: Callable[..., None], /, *args: object) -> None:
        with suppress(RuntimeError):  # the loop was closed without the store, and no caller waits there
            self._loop.call_soon_threadsafe(call, *args)


def take_group(waiting: deque[Waiting], /) -> Sequence[Waiting]:
    """Take the next batches of callers who still wait, up to the limits of a group."""
    group: list[Waiting] = []
    group_bytes = 0
    while waiting and len(group) < GROUP_BATCHES and group_bytes < store_limits.GROUP_BYTES:
        batch, receipt_future = waiting.popleft()
        # A caller cancelled while waiting gets its wish: the batch is left out.
        if not receipt_future.done():
            group.append((batch, receipt_future))
            group_bytes += sum([len(change.body) for change in batch.puts])
    return group


def answer_group(group: Sequence[Waiting], outcomes: Sequence[Outcome], /) -> None:
    """Give each caller of `group` its outcome; callers cancelled meanwhile get none."""
    for (_, receipt_future), outcome in zip(group, outcomes, strict=True):
        if receipt_future.done():
            continue
        if isinstance(outcome, CommitReceipt):
            receipt_future.set_result(outcome)
        else:
            receipt_future.set_exception(outcome)
