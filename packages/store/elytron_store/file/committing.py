"""Commits of one space that wait for each other's sync are applied together: one sync answers them all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from elytron_core.errors import StoreError, StoreFailed
from elytron_core.ports.store import Batch, Committed
from elytron_store.file.failures import ENGINE
from elytron_store.file.space import Outcome

_GROUP_BYTES = 16 * 1024 * 1024

Apply = Callable[[Sequence[Batch]], Awaitable[Sequence[Outcome]]]
Waiting = tuple[Batch, asyncio.Future[Committed]]


class GroupCommitter:
    """Hands the batches of one space over in groups: while one is being written, the next gathers."""

    def __init__(self, apply: Apply, /, *, afterwards: Callable[[], Awaitable[None]]) -> None:
        self._apply = apply
        self._afterwards = afterwards
        self._waiting: list[Waiting] = []
        self._runner: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._runner is None

    async def commit(self, batch: Batch, /) -> Committed:
        """Apply `batch` in its turn. Cancelled before its group is formed, it is not applied."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        return await answer

    async def drain(self) -> None:
        """Return when every batch handed over so far has its answer."""
        if self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        group: list[Waiting] = []
        try:
            while group := self._next_group():
                await self._write(group)
                await self._afterwards()
        finally:
            self._runner = None
            # Only an error nobody foresaw leaves answers open; their callers must not wait for ever.
            for _, answer in (*group, *self._waiting):
                if not answer.done():
                    answer.set_exception(StoreFailed(engine=ENGINE, doing="appending commits"))
            self._waiting.clear()

    async def _write(self, group: Sequence[Waiting]) -> None:
        try:
            outcomes: Sequence[Outcome | StoreError] = await self._apply([batch for batch, _ in group])
        except StoreError as error:
            outcomes = [error] * len(group)
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if answer.done():
                continue  # cancelled while it was being written: applied, and told to nobody
            if isinstance(outcome, Committed):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    def _next_group(self) -> list[Waiting]:
        group: list[Waiting] = []
        size = 0
        while self._waiting and size < _GROUP_BYTES:
            batch, answer = self._waiting.pop(0)
            if not answer.done():
                group.append((batch, answer))
                size += sum(len(put.body) for put in batch.puts)
        return group
