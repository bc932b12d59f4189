"""A thread of an agent: its head, its window and its stable part, as they are stored and as they change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elytron_agent.context.reference import Stable
from elytron_agent.context.window import Summary, ThreadHead, WindowTurn, compacted, uncompacted
from elytron_agent.runs.journal import Journal
from elytron_core.errors import ElytronError, NotFound, StillRunning


@dataclass(slots=True)
class Thread:
    """One thread. Its state is cached, and read again if another process changed the head."""

    journal: Journal
    name: str
    head: ThreadHead = field(default_factory=ThreadHead)
    version: int = -1
    turns: dict[str, WindowTurn] = field(default_factory=dict[str, WindowTurn])
    summary: Summary | None = None
    stable: Stable | None = None

    async def refresh(self) -> None:
        """Read the head, and what it names and is not held yet."""
        head, version = await self.journal.head(self.name)
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
        """Read the thread, and drop turns that were forgotten or erased in memory.

        The remaining turns of a summary that was erased come back.
        """
        await self.refresh()
        if self.journal.is_elsewhere:
            await self._follow()
        while self.summary is not None and self.summary.is_erased:
            await self.uncompact()
        gone = await self._gone(self.past)
        window = tuple(run for run in self.head.window if run == self.head.open or run in self.turns.keys() - gone)
        if window != self.head.window:
            await self.store(self.head.model_copy(update={"window": window}))

    async def store(self, head: ThreadHead, /) -> None:
        """Store `head` in the place of the one that is held. Raises Conflict."""
        self.version = await self.journal.put_head(self.name, head, self.version)
        if head.epoch != self.head.epoch:
            self.stable = None
        self.head = head
        self.turns = {run: turn for run, turn in self.turns.items() if run in head.window}

    async def begin(self, run: str, /) -> None:
        """Have `run` be the open one, at the end of the window. Raises StillRunning if another run is open."""
        if self.head.open is not None:
            raise StillRunning
        window = (*self.head.window, run)
        await self.store(self.head.model_copy(update={"window": window, "open": run, "runs": self.head.runs + 1}))

    async def end(self, turn: WindowTurn, /) -> None:
        """Have the open run be over."""
        await self.store(self.head.model_copy(update={"open": None}))
        self.turns[turn.run] = turn

    async def drop_open(self) -> None:
        """Have no run be open: what was stored of the open one was erased."""
        window = tuple(run for run in self.head.window if run != self.head.open)
        await self.store(self.head.model_copy(update={"open": None, "window": window}))

    async def compact(self, summary: Summary, /) -> None:
        """Put `summary` in the place of the turns that it covers."""
        await self.journal.put_summary(self.name, summary)
        await self.store(compacted(self.head, summary))
        self.summary = summary

    async def uncompact(self) -> Summary:
        """Bring the turns of the latest summary back, and return it. Raises NotFound if there is none."""
        latest = self.summary
        if latest is None:
            raise NotFound(what="summary", name="", way_out="nothing was summed up")
        back = await self._turns(latest.covers)
        await self.store(uncompacted(self.head, latest.model_copy(update={"covers": tuple(back)})))
        self.turns = back | self.turns
        self.summary = await self.journal.summary(self.name, latest.previous)
        return latest

    async def keep_stable(self, part: Stable, /) -> None:
        """Store the stable part of the epoch."""
        await self.journal.put_stable(self.name, self.head.epoch, part)
        self.stable = part

    async def read_stable(self) -> Stable | None:
        """Return the stable part of the epoch, None before it is made."""
        if self.stable is None:
            self.stable = await self.journal.stable(self.name, self.head.epoch)
        return self.stable

    @property
    def past(self) -> tuple[WindowTurn, ...]:
        """Return the turns of the window that are over, oldest first."""
        return tuple(self.turns[run] for run in self.head.window if run in self.turns and run != self.head.open)

    async def _turns(self, runs: Iterable[str]) -> dict[str, WindowTurn]:
        """Return the turns of the runs that are still there."""
        records = [(run, await self.journal.load(run)) for run in runs]
        return {run: record.turn for run, record in records if record is not None}

    async def _follow(self) -> None:
        """Remove from a journal beside the memory what that no longer holds, with the summaries that tell of it."""
        covers: list[str] = []
        summary = self.summary
        while summary is not None:
            covers += summary.covers
            summary = await self.journal.summary(self.name, summary.previous)
        covered = await self._turns(covers)
        gone = await self._gone([*covered.values(), *self.past])
        await self.journal.erase_copies(self.name, gone, with_summaries=bool(gone & covered.keys()))
        if gone & covered.keys():
            self.summary = await self.journal.summary(self.name, self.head.summary)

    async def _gone(self, turns: Sequence[WindowTurn]) -> frozenset[str]:
        try:
            return await self.journal.gone(turns)
        except ElytronError:
            return frozenset()
