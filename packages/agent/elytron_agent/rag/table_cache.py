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
"""Maximum number of changed turns for an incremental update; with more, the table is reloaded."""
CACHE_MS: Final = 5 * 60 * 1000
CACHE_USERS: Final = 100
CACHE_BYTES: Final = 4 * 1024**3
CACHE_USER_BYTES: Final = 128 * 1024**2
LOAD_WAIT_S: Final = 60.0
"""How long a search waits for its user's vectors to be loaded."""


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """Limits of a cache."""

    users: int = CACHE_USERS
    size_bytes: int = CACHE_BYTES
    user_bytes: int = CACHE_USER_BYTES
    ttl_ms: int = CACHE_MS
    wait_s: float = LOAD_WAIT_S


@dataclass(slots=True)
class CacheCounts:
    """Events of a cache since the process started."""

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
    """A table and the last journal entry that it includes.

    The table is None if the user has too many vectors to cache.
    """

    table: VectorTable | None
    kind: VectorKind
    mark: JournalEntry | None
    until_ms: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size_bytes(self) -> int:
        return self.table.size_bytes if self.table is not None else 0


class TableCache:
    """Vector tables of users. Whenever a table is returned, it includes all commits so far, which the journal reports.

    The least recently used tables are evicted first. An expired table is reloaded.
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
        """Approximate memory used by the tables."""
        return sum(cached.size_bytes for cached in self._cached.values())

    def forget(self, space: SpaceId, /) -> None:
        """Drop the table of a space."""
        self._cached.pop(space, None)

    def expire(self) -> None:
        """Drop expired tables."""
        now = self._clock.now()
        for space in [space for space, cached in self._cached.items() if cached.until_ms <= now]:
            del self._cached[space]
            self.counts.expired += 1

    async def close(self) -> None:
        """Cancel running loads."""
        load_tasks = list(self._loads.values())
        for load_task in load_tasks:
            load_task.cancel()
        await asyncio.gather(*load_tasks, return_exceptions=True)
        self._cached.clear()

    async def table(self, space: SpaceId, kind: VectorKind, /) -> VectorTable | None:
        """Return the current table of a space, or None if it is too large to cache.

        Raises Overloaded if it could not be loaded in time. The load continues for the next search.
        """
        self.expire()
        cached_table = self._cached.get(space)
        if cached_table is not None and cached_table.kind == kind:
            self._cached.move_to_end(space)
            if cached_table.table is None or await self._catch_up(space, cached_table):
                self.counts.hits += 1
                return cached_table.table
            self.forget(space)
        self.counts.misses += 1
        return (await self._loaded(space, kind)).table

    async def _loaded(self, space: SpaceId, kind: VectorKind) -> _CachedTable:
        """Return the loaded table of a space. Concurrent callers share one load."""
        load_task = self._loads.get((space, kind))
        if load_task is None:
            load_task = self._loads[space, kind] = asyncio.create_task(self._load(space, kind))
            load_task.add_done_callback(lambda _: self._loads.pop((space, kind), None))
        try:
            async with asyncio.timeout(self.bounds.wait_s):
                cached_table = await asyncio.shield(load_task)
        except TimeoutError:
            self.counts.waits_over += 1
            raise Overloaded from None
        # The loaded table does not include commits made during the load.
        if cached_table.table is not None and not await self._catch_up(space, cached_table):
            self.forget(space)
            raise Overloaded
        return cached_table

    async def _load(self, space: SpaceId, kind: VectorKind) -> _CachedTable:
        start_s = time.perf_counter()
        journal_mark = await last_entry(self._store, space)
        tables: list[VectorTable] = []
        size_bytes = 0
        is_too_large = False
        async for page in row_pages(self._store, space):
            tables.append(await asyncio.to_thread(VectorTable.of, kind, page))
            size_bytes += tables[-1].size_bytes
            if size_bytes > min(self.bounds.user_bytes, self.bounds.size_bytes):
                is_too_large = True
                break
        table = None if is_too_large else await asyncio.to_thread(VectorTable.joined, tables, kind)
        cached_table = _CachedTable(table, kind, journal_mark, self._clock.now() + self.bounds.ttl_ms)
        self.counts.too_large += table is None
        self.counts.last_load_s = time.perf_counter() - start_s
        self._cached[space] = cached_table
        self._cached.move_to_end(space)
        self._evict()
        return cached_table

    def _evict(self) -> None:
        while len(self._cached) > self.bounds.users or self.size_bytes > self.bounds.size_bytes:
            self._cached.popitem(last=False)
            self.counts.evicted += 1

    async def _catch_up(self, space: SpaceId, cached: _CachedTable) -> bool:
        """Update a table from the journal and return whether that was possible."""
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
        """Return the turns changed after `mark`, and the last entry, or None if a full reload is required."""
        turns: set[str] = set()
        last_entry_read = mark
        after_sequence = mark.sequence - 1 if mark is not None else 0
        is_first_page = mark is not None
        while True:
            entries = await self._store.journal(space, after=after_sequence, limit=core_limits.PAGE_MAX)
            if is_first_page and (not entries or entries[0] != mark):
                return None
            is_first_page = False
            turns |= turns_of([entry.ref for entry in entries])
            if len(turns) > CATCH_UP_TURNS:
                return None
            if entries:
                last_entry_read, after_sequence = entries[-1], entries[-1].sequence
            if len(entries) < core_limits.PAGE_MAX:
                return frozenset(turns), last_entry_read


async def last_entry(store: Store, space: SpaceId, /) -> JournalEntry | None:
    """Return the last entry of a space's journal."""
    latest_entry, page = None, await store.journal(space, after=0, limit=1)
    while page:
        # More entries may have been added since the end was determined.
        latest_entry = page[-1]
        end_sequence = await end_of(store, space, latest_entry.sequence)
        page = await store.journal(
            space, after=max(end_sequence - 1, latest_entry.sequence), limit=core_limits.PAGE_MAX
        )
    return latest_entry
