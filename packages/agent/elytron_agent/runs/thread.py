"""An agent's thread: its head, its window, its stable context, and the queue of waiting turns."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from elytron.runtime_records import RuntimeRecords
from elytron_agent import limits
from elytron_agent.runs.journal import RunClosing, RunEnd, RunInput, RunJournal, ThreadState
from elytron_agent.runs.process import is_gone, own_process
from elytron_agent.runs.thread_notes import AGENTS
from elytron_core.clock import Clock, Instant
from elytron_core.errors import ElytronError, NotFound, PreconditionFailed, ThreadBusy
from elytron_core.model import Value
from elytron_turn.context import (
    StableContext,
    ThreadHead,
    ThreadLease,
    WindowSummary,
    WindowTurn,
    compact_head,
    uncompact_head,
)

LEASE_RENEWALS: Final = 3
"""Number of renewals per lease period."""


@dataclass(slots=True)
class AgentThread:
    """One thread. Its state is cached, and read again if another process changed the head."""

    journal: RunJournal
    name: str
    clock: Clock
    lease_s: float = limits.LEASE_SECONDS
    is_mine: bool = False
    """True while this process holds the thread."""
    head: ThreadHead = field(default_factory=ThreadHead)
    version: int = -1
    state: ThreadState = field(default_factory=ThreadState)
    """State as last read, with the notes of the thread."""
    turns: dict[str, WindowTurn] = field(default_factory=dict[str, WindowTurn])
    summary: WindowSummary | None = None
    stable: StableContext | None = None
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def refresh(self) -> None:
        """Read the head, and everything it refers to that is not cached yet."""
        self.state = await self.journal.state(self.name)
        head, version = self.state.head, self.state.version
        if version == self.version:
            return
        if head.epoch != self.head.epoch:
            self.stable = None
        if self.summary is None or self.summary.number != head.summary:
            self.summary = await self.journal.summary(self.name, head.summary)
        self.head, self.version = head, version
        self.turns = {run: turn for run, turn in self.turns.items() if run in head.window and not turn.is_pending}
        for run in head.window:
            if run not in self.turns and run != head.open:
                self.turns |= await self._turns((run,))

    async def settle(self) -> None:
        """Drop turns that were forgotten or erased in memory. The thread must have just been read.

        If a summary was erased, its remaining turns are restored.
        """
        if self.journal.is_elsewhere:
            await self._follow()
        while self.summary is not None and self.summary.is_erased:
            await self.uncompact()
        missing_runs = await self._changed_runs(self.past)
        window = tuple(
            run for run in self.head.window if run == self.head.open or run in self.turns.keys() - missing_runs
        )
        if window != self.head.window:
            await self.store(self.head.model_copy(update={"window": window}))

    async def read_reactions(self) -> None:
        """Read the person's reactions to messages of the window, which any device may change at any time."""
        # If memory fails, the run only misses the latest reactions.
        with suppress(ElytronError):
            reacted = [run for run in self.state.reacted if run in self.turns]
            for run, reactions in (await self.journal.reactions(reacted)).items():
                self.turns[run] = self.turns[run].model_copy(update={"reactions": reactions})

    async def wait(self, wait_s: float, /, *, is_fresh: bool = False) -> None:
        """Read the thread until no other process runs it. `is_fresh` skips the first read. Raises ThreadBusy."""
        deadline_ms = self.clock.now() + wait_s * 1000
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while True:
            if not is_fresh:
                await self.refresh()
            is_fresh = False
            if not self.is_taken:
                return
            if self.clock.now() >= deadline_ms or loop.time() >= deadline_s:
                raise ThreadBusy(thread=self.name)
            await asyncio.sleep(min(limits.THREAD_LOOK_S, wait_s))

    @property
    def is_taken(self) -> bool:
        """Return whether another process ran the thread when it was last read."""
        lease = self.head.lease
        return lease is not None and lease.holder != self.journal.by and holds_thread(lease, self.clock.now())

    async def store(self, head: ThreadHead, /) -> None:
        """Replace the cached head by `head`, with this process's lease. Raises Conflict."""
        async with self._storing:
            head = self._leased(head, is_mine=self.is_mine)
            self._take(head, await self.journal.put_head(self.name, head, self.version))

    async def begin(self, run_input: RunInput, /, *, is_known: bool = False) -> None:
        """Store the input of a run, and open it at the end of the window. Raises Conflict."""
        assert self.head.open is None
        head_changes = {"window": (*self.head.window, run_input.run), "open": run_input.run, "runs": self.head.runs + 1}
        head = self.head.model_copy(update={**head_changes, "last": run_input.run})
        if is_known:
            await self.hold(head)
            return
        async with self._storing:
            head = self._leased(head, is_mine=True)
            self._take(head, await self.journal.begin(run_input, head, self.version))
            self.is_mine = True

    async def hold(self, head: ThreadHead | None = None, /) -> None:
        """Take the thread for this process. Raises Conflict."""
        async with self._storing:
            head = self._leased(head or self.head, is_mine=True)
            self._take(head, await self.journal.put_head(self.name, head, self.version))
            self.is_mine = True

    @asynccontextmanager
    async def renewed(self) -> AsyncGenerator[None]:
        """Renew the lease until the context ends, then release the thread even if a run was interrupted."""
        end_event = asyncio.Event()
        renewal_task = asyncio.ensure_future(self._renew(end_event))
        try:
            yield
        finally:
            # Do not cancel it: an interrupted commit would leave an unknown version.
            end_event.set()
            await asyncio.wait({renewal_task})
            if self.is_mine:
                self.is_mine = False
                # If this fails, the lease expires on its own.
                with suppress(ElytronError):
                    await self.store(self.head)

    async def close(self, run: str, closing: RunClosing, /, *, frees: bool) -> RunEnd:
        """Commit the end of the open run. With `frees`, also close it and release the thread. Raises Conflict."""
        async with self._storing:
            head = self._leased(self.head.model_copy(update={"open": None}), is_mine=False)
            freed_head = (self.name, head, self.version) if frees else None
            run_end, version = await self.journal.close(run, replace(closing, head=freed_head))
            if frees:
                self._take(head, version)
                self.is_mine = False
        return run_end

    async def end(self, turn: WindowTurn | None, /) -> None:
        """Close the open run and release the thread. `turn` is None for a run that is not stored."""
        self.is_mine = False
        if turn is None:
            await self.store(self.head)
            return
        if self.head.open is not None:
            await self.store(self.head.model_copy(update={"open": None}))
        self.turns[turn.run] = turn

    async def _renew(self, over: asyncio.Event) -> None:
        while not over.is_set():
            try:
                async with asyncio.timeout(self.lease_s / LEASE_RENEWALS):
                    await over.wait()
            except TimeoutError:
                # A process that lost the thread notices when it stores its next document.
                with suppress(ElytronError):
                    async with self._storing:
                        # The run may have ended while this waited for another commit of the thread.
                        if self.is_mine:
                            head = self._leased(self.head, is_mine=True)
                            self._take(head, await self.journal.put_head(self.name, head, self.version))

    def _leased(self, head: ThreadHead, *, is_mine: bool) -> ThreadHead:
        lease_end = Instant(self.clock.now() + round(self.lease_s * 1000))
        lease = ThreadLease(holder=self.journal.by, until=lease_end, process=own_process()) if is_mine else None
        return head.model_copy(update={"lease": lease})

    def _take(self, head: ThreadHead, version: int) -> None:
        if head.epoch != self.head.epoch:
            self.stable = None
        self.head, self.version = head, version
        self.turns = {run: turn for run, turn in self.turns.items() if run in head.window}

    async def drop_open(self) -> None:
        """Close the open run without a turn, because its documents were erased."""
        window = tuple(run for run in self.head.window if run != self.head.open)
        await self.store(self.head.model_copy(update={"open": None, "window": window}))

    async def compact(self, summary: WindowSummary, /) -> None:
        """Replace the turns that `summary` covers by it."""
        await self.journal.put_summary(self.name, summary)
        await self.store(compact_head(self.head, summary))
        self.summary = summary

    async def uncompact(self) -> WindowSummary:
        """Restore the turns of the latest summary and return it. Raises NotFound if there is none."""
        latest_summary = self.summary
        if latest_summary is None:
            raise NotFound(what="summary", name="", way_out="there is no summary to undo")
        restored_turns = await self._turns(latest_summary.covers)
        await self.store(uncompact_head(self.head, latest_summary.model_copy(update={"covers": tuple(restored_turns)})))
        self.turns = restored_turns | self.turns
        self.summary = await self.journal.summary(self.name, latest_summary.previous)
        return latest_summary

    async def keep_stable(self, part: StableContext, /) -> None:
        """Store the stable part of the epoch."""
        await self.journal.put_stable(self.name, self.head.epoch, part)
        self.stable = part

    async def read_stable(self) -> StableContext | None:
        """Return the stable part of the epoch, or None if it does not exist yet."""
        if self.stable is None:
            self.stable = await self.journal.stable(self.name, self.head.epoch)
        return self.stable

    @property
    def past(self) -> tuple[WindowTurn, ...]:
        """Return the finished turns of the window, oldest first."""
        return tuple(self.turns[run] for run in self.head.window if run in self.turns and run != self.head.open)

    async def _turns(self, runs: Iterable[str]) -> dict[str, WindowTurn]:
        """Return the turns of the runs that still exist."""
        records = [(run, await self.journal.load(run)) for run in runs]
        return {run: record.turn.model_copy(update={"run": run}) for run, record in records if record is not None}

    async def _follow(self) -> None:
        """Erase from a separate journal what memory no longer holds, together with the summaries that mention it."""
        covered_runs: list[str] = []
        summary = self.summary
        while summary is not None:
            covered_runs += summary.covers
            summary = await self.journal.summary(self.name, summary.previous)
        covered_turns = await self._turns(covered_runs)
        missing_runs = await self._changed_runs([*covered_turns.values(), *self.past])
        await self.journal.erase_copies(
            self.name, missing_runs, with_summaries=bool(missing_runs & covered_turns.keys())
        )
        if missing_runs & covered_turns.keys():
            self.summary = await self.journal.summary(self.name, self.head.summary)

    async def _changed_runs(self, turns: Sequence[WindowTurn]) -> frozenset[str]:
        try:
            return await self.journal.changed_runs(turns)
        # If memory does not answer, nothing is removed from the window.
        except ElytronError:
            return frozenset()


def holds_thread(lease: ThreadLease | None, now: Instant, /) -> bool:
    """Return whether a process runs the thread: its lease is valid, and the process is not known to have ended."""
    return lease is not None and lease.until > now and not is_gone(lease.process)


_KEY: Final = "queue"


class QueuedTurn(Value):
    """A turn in the queue. It is dropped at `until` unless renewed, or when its process ends."""

    id: str
    until: Instant
    process: str = ""


class WaitingTurns(Value):
    """The turns of a thread's queue, in order."""

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
        """Append a turn. Raises ThreadBusy if the queue is full."""

        def add(turns: tuple[QueuedTurn, ...]) -> tuple[QueuedTurn, ...]:
            if len(turns) >= limits.QUEUED_RUNS:
                raise ThreadBusy(thread=self._thread)
            return (*turns, QueuedTurn(id=turn, until=self._until(), process=own_process()))

        await self._change(add)

    async def wait(self, turn: str, /) -> None:
        """Wait until a turn is the first of the queue, and renew it meanwhile."""
        loop, last_renewal_s = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        while True:
            waiting, _ = await self._read()
            alive_turns = self._alive(waiting)
            # A dropped turn may continue, because the lease of the thread still admits only one run at a time.
            if turn not in {waiting_turn.id for waiting_turn in alive_turns} or alive_turns[0].id == turn:
                return
            if loop.time() - last_renewal_s >= limits.LEASE_SECONDS / LEASE_RENEWALS:
                await self._change(lambda turns: self._renewed(turns, turn))
                last_renewal_s = loop.time()
            await asyncio.sleep(limits.THREAD_LOOK_S)

    async def leave(self, turn: str, /) -> None:
        """Remove a turn once it has the thread. If the store fails, the turn expires on its own."""
        try:
            await self._change(lambda turns: tuple(waiting_turn for waiting_turn in turns if waiting_turn.id != turn))
        except ElytronError:
            return

    def _renewed(self, turns: tuple[QueuedTurn, ...], turn: str) -> tuple[QueuedTurn, ...]:
        return tuple(
            waiting_turn.model_copy(update={"until": self._until()}) if waiting_turn.id == turn else waiting_turn
            for waiting_turn in turns
        )

    def _until(self) -> Instant:
        return Instant(self._clock.now() + round(limits.LEASE_SECONDS * 1000))

    def _alive(self, waiting: WaitingTurns) -> tuple[QueuedTurn, ...]:
        now = self._clock.now()
        return tuple(
            waiting_turn
            for waiting_turn in waiting.turns
            if waiting_turn.until > now and not is_gone(waiting_turn.process)
        )

    async def _read(self) -> tuple[WaitingTurns, int]:
        record = await self._records.get(self._place, _KEY)
        return (
            (WaitingTurns.model_validate(record.value), record.version) if record is not None else (WaitingTurns(), 0)
        )

    async def _change(self, change: Callable[[tuple[QueuedTurn, ...]], tuple[QueuedTurn, ...]]) -> None:
        while True:
            waiting, version = await self._read()
            queue = WaitingTurns(turns=change(self._alive(waiting)))
            if queue == waiting:
                return
            value = queue.model_dump(mode="json")
            try:
                await self._records.put(self._place, _KEY, value, text="a queue of turns", expected_version=version)
            except PreconditionFailed:
                continue
            return
