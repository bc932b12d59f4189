"""Followers of a space's journal: what was committed, in order and without gaps, then new commits as they come.

Each reader has its own position. Commits of this runtime wake it at once; those of others are found by polling every
`poll_s`, once for all readers of a space, if the store declares `following`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from elytron.indexing.units import FOLDED
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.events import EventGap, EventId, GapReason, JournalEvent, event_position
from elytron_core.errors import SequenceAhead
from elytron_core.ids import SpaceId
from elytron_core.planes.space import OF_A_CONVERSATION, plane_of
from elytron_core.ports.store import Batch, CommitReceipt, ErasureReceipt, ErasureTarget, JournalEntry, Store
from elytron_store.engine import PassingStore
from elytron_store.secret.store import SecretStore

MIN_SEQUENCE_WAIT_S: Final = 2.0
MIN_SEQUENCE_POLL_S: Final = 0.01
"""Time for which a call waits for a journal to reach a `min_sequence`, and the pause between looks."""
EVENTS_BACKLOG: Final = 100_000
"""Older entries are not streamed: a reader further behind receives a note of the gap."""


WRITER: ContextVar[str | None] = ContextVar("elytron_writer", default=None)
"""The caller of the running operation, for `CommitWaiters.writers`."""
WRITERS_KEPT = 20_000


class WrittenRun(NamedTuple):
    """The caller of the journal entries `first` to `last` of a space, which were committed at `at`."""

    space: SpaceId
    first: int
    last: int
    at: Instant
    caller: str


class CommitWaiters:
    """Waiting readers of each space, and the callers of the latest commits.

    Only commits of this runtime notify and are noted; others' are found by polling.
    """

    def __init__(self) -> None:
        self._waiting: dict[SpaceId, asyncio.Event] = {}
        self.writers: deque[WrittenRun] = deque(maxlen=WRITERS_KEPT)

    def next(self, space: SpaceId, /) -> asyncio.Event:
        """Return the event for the next change of `space`. Get it before reading, so that none is missed."""
        return self._waiting.setdefault(space, asyncio.Event())

    def note(self, space: SpaceId, first_sequence: int, last_sequence: int, at: Instant, /) -> None:
        """Record the caller of the entries that were just committed."""
        commit_caller = WRITER.get()
        if commit_caller is not None:
            self.writers.append(WrittenRun(space, first_sequence, last_sequence, at, commit_caller))

    def tell(self, space: SpaceId, /) -> None:
        """Wake all readers that wait for `space`."""
        event = self._waiting.pop(space, None)
        if event is not None:
            event.set()


class AnnouncingStore(PassingStore):
    """A store that notifies `commits` of each commit and erasure through it.

    An erasure names in the journal all that indexes are made from, so that none keeps a word of it.
    """

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.commits = CommitWaiters()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        receipt = await self._inner.commit(batch)
        if not receipt.replayed:
            self.commits.note(batch.space, receipt.first, receipt.last, batch.at)
        self.commits.tell(batch.space)
        return receipt

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        try:
            refs = erasure.named
            if refs is None:
                refs = tuple(ref for ref in dict.fromkeys(erasure.refs) if ref.collection in FOLDED)
            erasure_receipt = await self._inner.erase(replace(erasure, named=refs))
            self.commits.note(erasure.space, erasure_receipt.sequence - len(refs), erasure_receipt.sequence, erasure.at)
            return erasure_receipt
        finally:
            self.commits.tell(erasure.space)


def inner_store(store: Store, /) -> Store:
    """Return the engine or wrapper beneath a runtime's store, for features that only its kind has."""
    while isinstance(store, AnnouncingStore | SecretStore):
        store = store.inner
    return store


Mark = JournalEntry | None
"""The last entry that a reader has seen; None before the first."""


class JournalFollower:
    """One reader's position in a space's journal."""

    def __init__(self, journals: "StoreJournals", space: SpaceId, /) -> None:
        self._journals = journals
        self._space = space
        self._mark: Mark = None

    @property
    def sequence(self) -> int:
        """Return the reader's current sequence."""
        return self._mark.sequence if self._mark is not None else 0

    @property
    def place(self) -> EventId:
        """Return the id from which a reader resumes; "0" before the first entry."""
        return _entry_id(self._mark) if self._mark is not None else "0"

    async def begin(self, after: EventId | None, /) -> EventGap | None:
        """Move to the position after `after`, or to the end (None); return the gap, if any."""
        if after is None:
            self._mark = await self._journals.last(self._space, 0)
            return None
        sequence, at = event_position(after)
        if sequence == 0:
            return await self._skip_backlog(0)
        page = await self._journals.read(self._space, sequence - 1, 1)
        if page and page[0].covers > 1 and page[0].first <= sequence:
            self._mark = page[0]
            return _compacted_gap(self._space, page[0], behind=sequence)
        if not page or (at is not None and max(page[0].at, 0) != at):
            return EventGap(space=self._space, reason=GapReason.ERASED, first=1, last=sequence)
        self._mark = page[0]
        return await self._skip_backlog(sequence)

    async def _skip_backlog(self, sequence: int) -> EventGap | None:
        """Skip to the oldest streamed entry, if the reader is further behind."""
        if not await self._journals.read(self._space, sequence + EVENTS_BACKLOG, 1):
            return None
        last_mark = await self._journals.last(self._space, sequence + EVENTS_BACKLOG)
        assert last_mark is not None
        backlog_start = last_mark.sequence - EVENTS_BACKLOG
        (self._mark,) = await self._journals.read(self._space, backlog_start - 1, 1)
        return EventGap(space=self._space, reason=GapReason.RETENTION, first=sequence + 1, last=self._mark.sequence)

    async def next(self) -> Sequence[JournalEvent] | EventGap:
        """Wait for the entries after the reader's position, and return them; or the gap that opened there."""
        while True:
            # Obtained before the read, so that a commit in between wakes this reader.
            commit_event = self._journals.commits.next(self._space)
            events = await self.read()
            if events:
                return events
            await self._journals.wait(self._space, self._mark, commit_event)

    async def read(self) -> Sequence[JournalEvent] | EventGap:
        """Return the entries after the reader's position now, perhaps none."""
        last_mark = self._mark
        # The mark is read again, which shows what was erased or compacted meanwhile.
        page = await self._journals.read(
            self._space, last_mark.sequence - 1 if last_mark is not None else 0, limits.EVENTS_PAGE
        )
        if last_mark is not None:
            if page and page[0].covers > 1 and page[0].first <= last_mark.sequence and page[0] != last_mark:
                self._mark = page[0]
                return _compacted_gap(self._space, page[0], behind=last_mark.sequence)
            if not page or (page[0].sequence, page[0].at) != (last_mark.sequence, last_mark.at):
                self._mark = None
                return EventGap(space=self._space, reason=GapReason.ERASED, first=1, last=last_mark.sequence)
            # An erasure may have removed its digest; the position is the same.
            self._mark = page[0]
            page = page[1:]
        if page and page[0].covers > 1:
            self._mark = page[0]
            return _compacted_gap(self._space, page[0], behind=page[0].first - 1)
        # A compacted run further on is the gap of the next call.
        entries = tuple(takewhile(lambda entry: entry.covers == 1, page))
        if entries:
            self._mark = entries[-1]
        return tuple(event_of(self._space, entry) for entry in entries)


class StoreJournals:
    """The journals of a store, as readers follow them."""

    def __init__(self, store: Store, commits: CommitWaiters, /, *, poll_s: float = limits.EVENTS_POLL_S) -> None:
        self._store = store
        self._poll_s = poll_s
        self._waiting: dict[SpaceId, list[Mark]] = {}
        self._lookouts: dict[SpaceId, asyncio.Task[None]] = {}
        self.commits = commits

    def follow(self, space: SpaceId, /) -> JournalFollower:
        """Return a reader of `space`, before its first entry."""
        return JournalFollower(self, space)

    async def read(self, space: SpaceId, after: int, limit: int, /) -> Sequence[JournalEntry]:
        """Return up to `limit` entries after `after`."""
        return await self._store.journal(space, after=after, limit=limit)

    async def last(self, space: SpaceId, after: int, /) -> Mark:
        """Return the newest entry, which is after `after` if any is, in a few small reads."""
        newest_mark: Mark = None
        low_sequence, step_size = after, 1
        while page := await self.read(space, low_sequence, 1):
            newest_mark, low_sequence, step_size = page[0], page[0].sequence + step_size, step_size * 2
        high_sequence = low_sequence
        low_sequence = newest_mark.sequence if newest_mark is not None else after
        while newest_mark is not None and high_sequence - low_sequence > 1:
            middle_sequence = (low_sequence + high_sequence) // 2
            if page := await self.read(space, middle_sequence, 1):
                newest_mark, low_sequence = page[0], page[0].sequence
            else:
                high_sequence = middle_sequence
        if newest_mark is not None and (page := await self.read(space, newest_mark.sequence, limits.EVENTS_PAGE)):
            newest_mark = page[-1]
        return newest_mark

    async def wait(self, space: SpaceId, last_mark: Mark, commit_event: asyncio.Event, /) -> None:
        """Wait until `space` may have grown beyond `last_mark`."""
        waiting_marks = self._waiting.setdefault(space, [])
        waiting_marks.append(last_mark)
        if self._store.capabilities.following and space not in self._lookouts:
            self._lookouts[space] = asyncio.create_task(self._look_out(space))
        try:
            await commit_event.wait()
        finally:
            waiting_marks.remove(last_mark)
            if not waiting_marks:
                self._waiting.pop(space, None)
                lookout_task = self._lookouts.pop(space, None)
                if lookout_task is not None:
                    lookout_task.cancel()

    async def _look_out(self, space: SpaceId) -> None:
        """Wake the readers of `space` when another process has written to it, or it cannot be read any more."""
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                grown_marks = [mark for mark in set(self._waiting.get(space, ())) if await self._is_behind(space, mark)]
            except Exception:  # noqa: BLE001 - each reader meets it itself and reports it
                grown_marks = [None]
            if grown_marks:
                self.commits.tell(space)

    async def _is_behind(self, space: SpaceId, mark: Mark) -> bool:
        if mark is None:
            return bool(await self.read(space, 0, 1))
        return tuple(await self.read(space, mark.sequence - 1, 2)) != (mark,)


async def reach_sequence(store: Store, commits: CommitWaiters, space: SpaceId, sequence: int, /) -> None:
    """Wait until the journal of `space` has `sequence`. Raises SequenceAhead if that takes too long."""
    event_loop = asyncio.get_running_loop()
    deadline = event_loop.time() + MIN_SEQUENCE_WAIT_S
    while not await store.journal(space, after=sequence - 1, limit=1):
        if event_loop.time() >= deadline:
            raise SequenceAhead(expected=sequence)
        with suppress(TimeoutError):
            await asyncio.wait_for(commits.next(space).wait(), MIN_SEQUENCE_POLL_S)


async def entry_pages(
    follower: JournalFollower, gap: EventGap | None, /
) -> AsyncIterator[Sequence[JournalEvent] | EventGap]:
    """Yield the entries after the position of an open reader, in order, with the gaps; `gap` opened as it began."""
    if gap is not None:
        yield gap
    while True:
        yield await follower.next()


def event_of(space: SpaceId, entry: JournalEntry, /) -> JournalEvent:
    """Return `entry` as an event."""
    return JournalEvent(
        id=_entry_id(entry),
        space=space,
        sequence=entry.sequence,
        at=entry.at,
        action=entry.action.value,
        collection=entry.ref.collection,
        plane=plane_of(entry.ref.collection),
        key=entry.ref.key,
        conversation=entry.ref.key.partition(".")[0] if entry.ref.collection in OF_A_CONVERSATION else None,
        digest=entry.digest,
    )


def _compacted_gap(space: SpaceId, compacted_run: JournalEntry, *, behind: int) -> EventGap:
    """Return the gap of a reader at `behind` after the entries of `compacted_run` were compacted."""
    first_missing = min(max(behind + 1, compacted_run.first), compacted_run.sequence)
    return EventGap(space=space, reason=GapReason.COMPACTED, first=first_missing, last=compacted_run.sequence)


def _entry_id(entry: JournalEntry) -> EventId:
    return f"{entry.sequence}-{max(entry.at, 0)}"
