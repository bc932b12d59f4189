"""The queue before a thread: turns that wait for it, of all processes over one store, in the order of their coming."""

import asyncio
from collections.abc import Callable
from typing import Final

from elytron.runtime_records import RuntimeRecords
from elytron_agent import limits
from elytron_agent.runs.journal import AGENTS
from elytron_core.clock import Clock, Instant
from elytron_core.errors import ElytronError, PreconditionFailed, ThreadBusy
from elytron_core.model import Value

_KEY: Final = "queue"


class QueuedTurn(Value):
    """A turn in the queue. It is dropped at `until`, if its process no longer renews it."""

    id: str
    until: Instant


class WaitingTurns(Value):
    """The turns of a thread's queue, in their order."""

    turns: tuple[QueuedTurn, ...] = ()


class ThreadQueue:
    """The queue of one thread."""

    def __init__(self, records: RuntimeRecords, clock: Clock, thread: str, /) -> None:
        self._records = records
        self._clock = clock
        self._thread = thread
        self._place = (AGENTS, thread, _KEY)

    async def is_empty(self) -> bool:
        """Return whether no turn is in the queue."""
        waiting, _ = await self._read()
        return not self._alive(waiting)

    async def enter(self, turn: str, /) -> None:
        """Put a turn at the end. Raises ThreadBusy if as many wait as may."""

        def add(turns: tuple[QueuedTurn, ...]) -> tuple[QueuedTurn, ...]:
            if len(turns) >= limits.QUEUED_RUNS:
                raise ThreadBusy(thread=self._thread)
            return (*turns, QueuedTurn(id=turn, until=self._until()))

        await self._change(add)

    async def wait(self, turn: str, /) -> None:
        """Return when a turn is the first of the queue, which renews it meanwhile."""
        loop, renewed_s = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        while True:
            waiting, _ = await self._read()
            alive = self._alive(waiting)
            if turn not in {each.id for each in alive} or alive[0].id == turn:
                return
            if loop.time() - renewed_s >= limits.LEASE_SECONDS / limits.LEASE_RENEWALS:
                await self._change(lambda turns: self._renewed(turns, turn))
                renewed_s = loop.time()
            await asyncio.sleep(limits.THREAD_LOOK_S)

    async def leave(self, turn: str, /) -> None:
        """Take a turn out, once it has the thread. A store that fails drops the turn when its time is over."""
        try:
            await self._change(lambda turns: tuple(each for each in turns if each.id != turn))
        except ElytronError:
            return

    def _renewed(self, turns: tuple[QueuedTurn, ...], turn: str) -> tuple[QueuedTurn, ...]:
        return tuple(each.model_copy(update={"until": self._until()}) if each.id == turn else each for each in turns)

    def _until(self) -> Instant:
        return Instant(self._clock.now() + round(limits.LEASE_SECONDS * 1000))

    def _alive(self, waiting: WaitingTurns) -> tuple[QueuedTurn, ...]:
        now = self._clock.now()
        return tuple(each for each in waiting.turns if each.until > now)

    async def _read(self) -> tuple[WaitingTurns, int]:
        found = await self._records.get(self._place, _KEY)
        return (WaitingTurns.model_validate(found.value), found.version) if found is not None else (WaitingTurns(), 0)

    async def _change(self, change: Callable[[tuple[QueuedTurn, ...]], tuple[QueuedTurn, ...]]) -> None:
        while True:
            waiting, version = await self._read()
            made = WaitingTurns(turns=change(self._alive(waiting)))
            if made == waiting:
                return
            value = made.model_dump(mode="json")
            try:
                await self._records.put(self._place, _KEY, value, text="a queue of turns", expected_version=version)
            except PreconditionFailed:
                continue
            return
