"""Cache of users' vector tables, bounded by time, users and bytes. Concurrent callers share one load."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from elytron.indexing.checkpoints import end_of
from elytron_agent.rag.rows import EmbeddingRow, row_pages, rows_of_turns, turns_of
from elytron_agent.rag.vector_table import VectorKind, VectorTable
from elytron_core import limits as core_limits
from elytron_core.clock import Clock
from elytron_core.errors import Overloaded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import JournalEntry, Store

CATCH_UP_TURNS: Final = 1_000
"""Changed turns that a table takes over by itself; beyond that, it is read as a whole."""
CACHE_MS: Final = 5 * 60 * 1000
CACHE_USERS: Final = 100
CACHE_BYTES: Final = 4 * 1024**3
CACHE_USER_BYTES: Final = 128 * 1024**2
LOAD_WAIT_S: Final = 60.0
"""So long a search waits for the vectors of its user to be read."""


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """Bounds of a cache."""

    users: int = CACHE_USERS
    size_bytes: int = CACHE_BYTES
    user_bytes: int = CACHE_USER_BYTES
    ttl_ms: int = CACHE_MS
    wait_s: float = LOAD_WAIT_S


@dataclass(slots=True)
class CacheCounts:
    """Events of a cache since the process began."""

    hits: int = 0
    misses: int = 0
    updates: int = 0
    expired: int = 0
    evicted: int = 0
    too_large: int = 0
    waits_over: int = 0
    last_load_s: float = 0.0


@dataclass(slots=True)
class _CachedTable:
    """A table with the last entry of the journal that is in it. None: the user's vectors are too many to be cached."""

    table: VectorTable | None
    kind: VectorKind
    mark: JournalEntry | None
    until_ms: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size_bytes(self) -> int:
        return self.table.size_bytes if self.table is not None else 0


class TableCache:
    """Tables of users' rows, up to date whenever one is returned: what was committed since is read from the journal.

    Tables that are unused for longest go first. One is read again when its time is over.
    """

    def __init__(self, store: Store, clock: Clock, /, *, bounds: CacheBounds | None = None) -> None:
        self._store = store
        self._clock = clock
        self.bounds = bounds or CacheBounds()
        self.counts = CacheCounts()
        self._cached: OrderedDict[SpaceId, _CachedTable] = OrderedDict()
        self._loads: dict[tuple[SpaceId, VectorKind], asyncio.Task[_CachedTable]] = {}

    @property
    def users(self) -> int:
        """Number of tables."""
        return sum(cached.table is not None for cached in self._cached.values())

    @property
    def size_bytes(self) -> int:
        """About how much memory the tables take."""
        return sum(cached.size_bytes for cached in self._cached.values())

    def forget(self, space: SpaceId, /) -> None:
        """Drop the table of a space."""
        self._cached.pop(space, None)

    def expire(self) -> None:
        """Drop the tables whose time is over."""
        now = self._clock.now()
        for space in [space for space, cached in self._cached.items() if cached.until_ms <= now]:
            del self._cached[space]
            self.counts.expired += 1

    async def close(self) -> None:
        """End the loads under way."""
        loads = list(self._loads.values())
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        self._cached.clear()

    async def table(self, space: SpaceId, kind: VectorKind, /) -> VectorTable | None:
        """Return the table of a space as of now; None if it is too large to be cached.

        Raises Overloaded if it was not read in time: the load goes on for the next search.
        """
        self.expire()
        cached = self._cached.get(space)
        if cached is not None and cached.kind == kind:
            self._cached.move_to_end(space)
            if cached.table is None or await self._catch_up(space, cached):
                self.counts.hits += 1
                return cached.table
            self.forget(space)
        self.counts.misses += 1
        return (await self._loaded(space, kind)).table

    async def _loaded(self, space: SpaceId, kind: VectorKind) -> _CachedTable:
        """Return what is read of a space; of several calls at once, one reads it."""
        load = self._loads.get((space, kind))
        if load is None:
            load = self._loads[space, kind] = asyncio.create_task(self._load(space, kind))
            load.add_done_callback(lambda _: self._loads.pop((space, kind), None))
        try:
            async with asyncio.timeout(self.bounds.wait_s):
                cached = await asyncio.shield(load)
        except TimeoutError:
            self.counts.waits_over += 1
            raise Overloaded from None
        # Commits that came during the load are not in it yet.
        if cached.table is not None and not await self._catch_up(space, cached):
            self.forget(space)
            raise Overloaded
        return cached

    async def _load(self, space: SpaceId, kind: VectorKind) -> _CachedTable:
        began = time.perf_counter()
        mark = await last_entry(self._store, space)
        tables: list[VectorTable] = []
        size = 0
        is_too_large = False
        async for page in row_pages(self._store, space):
            tables.append(await asyncio.to_thread(VectorTable.of, kind, page))
            size += tables[-1].size_bytes
            if size > min(self.bounds.user_bytes, self.bounds.size_bytes):
                is_too_large = True
                break
        table = None if is_too_large else await asyncio.to_thread(VectorTable.joined, tables, kind)
        cached = _CachedTable(table, kind, mark, self._clock.now() + self.bounds.ttl_ms)
        self.counts.too_large += table is None
        self.counts.last_load_s = time.perf_counter() - began
        self._cached[space] = cached
        self._cached.move_to_end(space)
        self._evict()
        return cached

    def _evict(self) -> None:
        while len(self._cached) > self.bounds.users or self.size_bytes > self.bounds.size_bytes:
            self._cached.popitem(last=False)
            self.counts.evicted += 1

    async def _catch_up(self, space: SpaceId, cached: _CachedTable) -> bool:
        """Bring a table up to date; return whether that could be done."""
        async with cached.lock:
            changes = await self._changes(space, cached.mark)
            if changes is None or cached.table is None:
                return False
            turns, mark = changes
            if turns:
                rows: Sequence[EmbeddingRow] = await rows_of_turns(self._store, space, turns)
                cached.table = await asyncio.to_thread(cached.table.with_turns, turns, rows)
                self.counts.updates += 1
                if cached.size_bytes > self.bounds.user_bytes:
                    return False
                self._evict()
            cached.mark = mark
            return True

    async def _changes(
        self, space: SpaceId, mark: JournalEntry | None
    ) -> tuple[frozenset[str], JournalEntry | None] | None:
        """Return the turns that changed behind `mark`, and the last entry. None: the journal does not join on."""
        turns: set[str] = set()
        last = mark
        after = mark.sequence - 1 if mark is not None else 0
        is_first = mark is not None
        while True:
            entries = await self._store.journal(space, after=after, limit=core_limits.PAGE_MAX)
            if is_first and (not entries or entries[0] != mark):
                return None
            is_first = False
            turns |= turns_of([entry.ref for entry in entries])
            if len(turns) > CATCH_UP_TURNS:
                return None
            if entries:
                last, after = entries[-1], entries[-1].sequence
            if len(entries) < core_limits.PAGE_MAX:
                return frozenset(turns), last


async def last_entry(store: Store, space: SpaceId, /) -> JournalEntry | None:
    """Return the last entry of a space's journal."""
    last, page = None, await store.journal(space, after=0, limit=1)
    while page:
        # Entries may have come since the end was looked for.
        last = page[-1]
        end = await end_of(store, space, last.sequence)
        page = await store.journal(space, after=max(end - 1, last.sequence), limit=core_limits.PAGE_MAX)
    return last
