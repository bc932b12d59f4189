"""Records of spaces in this runtime: found, created and cached. Every operation begins with one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    SpaceIncomplete,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from elytron_core.ids import IdSource, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes.space import KEY, SPACE, SpaceRecord
from elytron_core.ports.store import (
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    Store,
)

REF = DocumentRef(SPACE, KEY)
FILLING = DocumentRef(SPACE, "1")
"""Mark of a space that is or was partly restored or copied in several batches: no other writer begins here."""
ERASING = DocumentRef(SPACE, "2")
"""Marks an erasure in progress: if its process dies, the next process that reads the space finishes it."""
MARK: Final = "the mark of an erasure that began"
"""Named if `ERASING` cannot be read."""
SPACES_KEPT = 65_536
FRESH_S = 0.005
"""How long a record compared with a store of many nodes is not compared again."""


_ENDS: ContextVar[SpaceId | None] = ContextVar("elytron_ends", default=None)
"""The space in which this task finishes an erasure."""


class _CachedRecord(NamedTuple):
    """A record, its bytes, and when they were last read from the store."""

    record: SpaceRecord
    body: bytes
    seen_at: float


class SpaceRecords:
    """Finds and creates space records, and caches up to `SPACES_KEPT`.

    Over a store of many nodes, the cache is compared with the store: a space that another node erased as a whole may
    have been recreated, with another secret and a record of the same revision.
    """

    def __init__(self, store: Store, clock: Clock, ids: IdSource, /) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._has_nodes = store.capabilities.nodes
        self._cache: LruCache[SpaceId, _CachedRecord] = LruCache(SPACES_KEPT)
        self._erasing: Counter[SpaceId] = Counter()
        self._ending: dict[SpaceId, asyncio.Event] = {}
        self._marks_seen: dict[SpaceId, Instant] = {}
        """When other processes' marks were found in spaces that were read before."""
        self.ender: Callable[[SpaceId], Awaitable[None]] | None = None
        """Finishes the interrupted erasures of a space."""

    async def find(self, space: SpaceId, /) -> SpaceRecord | None:
        """Return the record of `space`, or None if nothing was ever written.

        Interrupted erasures are finished first, so that nobody sees them undone.
        """
        if space in self._ending and _ENDS.get() != space:
            await self._ending[space].wait()
        cached_record = self._cache.get(space)
        is_fresh = cached_record is not None and (not self._has_nodes or monotonic() - cached_record.seen_at < FRESH_S)
        if cached_record is not None and is_fresh and not self._is_overdue(space):
            return cached_record.record
        document, erasing_mark = await self._store.get(space, (REF, ERASING))
        if document is None:
            self.forget(space)
            return None
        newer_record = self._cache.get(space)
        if newer_record is not None and newer_record.body == document.body:
            record = newer_record.record
        else:
            record = SpaceRecord.from_bytes(document.body)
        self._cache[space] = _CachedRecord(record, document.body, monotonic())
        if erasing_mark is None:
            self._marks_seen.pop(space, None)
        elif space not in self._erasing and _ENDS.get() != space:
            # A later mark may belong to a live process, which gets its time.
            if space in self._ending:
                return await self.find(space)  # another call began to finish it during the read
            if cached_record is None or self._is_overdue(space):
                await self._end(space)
            else:
                self._marks_seen.setdefault(space, self._clock.now())
        return record

    def meet_mark(self, space: SpaceId, /) -> None:
        """Record that another process may have begun or ended an erasure, so that the mark is checked after a while."""
        self._marks_seen[space] = self._clock.now()

    def _is_overdue(self, space: SpaceId) -> bool:
        """Return whether a mark was found so long ago that its process is presumed dead."""
        mark_seen_at = self._marks_seen.get(space)
        return mark_seen_at is not None and self._clock.now() - mark_seen_at >= limits.ERASING_MS

    @contextmanager
    def erasing(self, space: SpaceId, /) -> Generator[None]:
        """Run an erasure in the block, which itself finishes what it marks as begun."""
        self._erasing[space] += 1
        try:
            yield
        finally:
            self._erasing[space] -= 1
            if not self._erasing[space]:
                del self._erasing[space]

    async def _end(self, space: SpaceId) -> None:
        if self.ender is None:
            return
        self._marks_seen.pop(space, None)
        end_event = self._ending[space] = asyncio.Event()
        token = _ENDS.set(space)
        try:
            # A read-only store is still read: whoever opens it for writing finishes the erasure.
            with suppress(StoreReadOnly, StoreFull):
                await self.ender(space)
        except InvalidInput as error:
            self.forget(space)
            raise StoreCorrupt(what=MARK) from error
        except BaseException:
            self.forget(space)
            raise
        finally:
            _ENDS.reset(token)
            del self._ending[space]
            end_event.set()

    async def settle(self, space: SpaceId, /) -> None:
        """Finish the interrupted erasures of `space`, before anything is answered from it.

        Raises StoreCorrupt if it is not known what they were of. Other errors are for what reads the space then.
        """
        if space in self._cache and space not in self._ending and not self._is_overdue(space):
            return
        try:
            await self.find(space)
        except StoreCorrupt as error:
            if error.what == MARK:
                raise
        except ElytronError:
            return

    async def found_or_new(self, space: SpaceId, /) -> tuple[SpaceRecord, bool]:
        """Return the record to write with, and whether the write must include it (see `opening_changes`).

        Raises SpaceIncomplete in a space that holds a part of what it is being filled with.
        """
        record = await self.find(space)
        if record is not None:
            return record, False
        (filling_mark,) = await self._store.get(space, (FILLING,))
        # Between the two reads the filling may have ended, with its record.
        if filling_mark is not None and await self.find(space) is None:
            raise SpaceIncomplete(space=space)
        return SpaceRecord(secret=self._ids.secret(32).hex(), created_at=self._clock.now()), True

    def forget(self, space: SpaceId, /) -> None:
        """Read the record again at its next use."""
        self._cache.pop(space, None)
        self._marks_seen.pop(space, None)


def opening_changes(
    record: SpaceRecord, /, *, is_new: bool
) -> tuple[tuple[PutChange, ...], tuple[RequireRevision, ...], tuple[EntryDraft, ...]]:
    """Return the changes that tie a write's batch to this space and to no successor of it.

    A new space is created by its first write, unless it is being filled; later ones require that the record that keyed
    their tags is still stored.
    """
    if not is_new:
        return (), (RequireRevision(REF, 1),), ()
    body = record.to_bytes()
    return (
        (PutChange(REF, body, 0),),
        (RequireRevision(FILLING, 0),),
        (EntryDraft(JournalAction.LIFECYCLE, REF, record.digest(body)),),
    )
