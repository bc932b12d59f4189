"""The space records that this runtime has read; every operation begins with one."""

from time import monotonic
from typing import NamedTuple

from elytron_core.clock import Clock
from elytron_core.errors import SpaceIncomplete
from elytron_core.ids import IdSource, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes.space import KEY, SPACE, SpaceRecord
from elytron_core.ports.store import DocumentRef, EntryDraft, JournalAction, PutChange, RequireRevision, Store

REF = DocumentRef(SPACE, KEY)
FILLING = DocumentRef(SPACE, "1")
"""Mark of a space that is restored or copied in several batches, or was in part: no other writer begins here."""
SPACES_KEPT = 65_536
FRESH_S = 0.005
"""Time for which a record that was compared with a store of many nodes is not compared again."""


class _KnownRecord(NamedTuple):
    """A record, its bytes, and when they were last seen in the store."""

    record: SpaceRecord
    body: bytes
    seen_at: float


class SpaceRecords:
    """Finds and makes space records, and remembers those it has seen, up to `SPACES_KEPT`.

    Over a store of many nodes, what it remembers is compared with the store: a space that another node erased whole may
    have been made again, with another secret and a record of the same revision.
    """

    def __init__(self, store: Store, clock: Clock, ids: IdSource, /) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._has_nodes = store.capabilities.nodes
        self._known: LruCache[SpaceId, _KnownRecord] = LruCache(SPACES_KEPT)

    async def find(self, space: SpaceId, /) -> SpaceRecord | None:
        """Return the record of `space`, or None if nothing was ever written."""
        known = self._known.get(space)
        if known is not None and (not self._has_nodes or monotonic() - known.seen_at < FRESH_S):
            return known.record
        (document,) = await self._store.get(space, (REF,))
        if document is None:
            self.forget(space)
            return None
        same = self._known.get(space)
        if same is not None and same.body == document.body:
            record = same.record
        else:
            record = SpaceRecord.from_bytes(document.body)
        self._known[space] = _KnownRecord(record, document.body, monotonic())
        return record

    async def found_or_new(self, space: SpaceId, /) -> tuple[SpaceRecord, bool]:
        """Return the record to write with, and whether the write must bring it along (see `opening_changes`).

        Raises SpaceIncomplete in a space that holds a part of what it is being filled with.
        """
        found = await self.find(space)
        if found is not None:
            return found, False
        (mark,) = await self._store.get(space, (FILLING,))
        if mark is not None and await self.find(space) is None:
            raise SpaceIncomplete(space=space)
        return SpaceRecord(secret=self._ids.secret(32).hex(), created_at=self._clock.now()), True

    def forget(self, space: SpaceId, /) -> None:
        """Read the record again at next use."""
        self._known.pop(space, None)


def opening_changes(
    record: SpaceRecord, /, *, is_new: bool
) -> tuple[tuple[PutChange, ...], tuple[RequireRevision, ...], tuple[EntryDraft, ...]]:
    """Return the changes that tie a write's batch to this space and to no successor of it.

    A new space is made by its first write, unless it is being filled; later ones demand that the record they keyed
    their tags with is still stored.
    """
    if not is_new:
        return (), (RequireRevision(REF, 1),), ()
    body = record.to_bytes()
    return (
        (PutChange(REF, body, 0),),
        (RequireRevision(FILLING, 0),),
        (EntryDraft(JournalAction.LIFECYCLE, REF, record.digest(body)),),
    )
