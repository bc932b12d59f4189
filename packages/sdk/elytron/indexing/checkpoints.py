"""Checkpoints: an index stored as a blob of its space, so that opening need not read the whole journal."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, NotFound, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.planes.space import KEY, SPACE, SpaceRecord
from elytron_core.ports.store import DocumentRef, ErasureTarget, JournalAction, JournalEntry, Store
from elytron_core.text.analyser import TextAnalyser

if TYPE_CHECKING:
    from elytron_index.space_index import FrozenIndex, SpaceIndex


CHECKPOINT = "c0"
"""The blob with a space's index checkpoint."""
PAGE = 200
"""Journal entries examined together."""


class _ErasedMeanwhile(Exception):
    """Something was erased that a checkpoint being written still contains."""


@dataclass(frozen=True, slots=True)
class IndexCheckpoint:
    """An index in the state after the entry `mark`, to be written by another thread."""

    mark: JournalEntry
    frozen: "FrozenIndex"

    async def write(self, store: Store, space: SpaceId, /) -> bool:
        """Store this as the checkpoint of `space`, unless something was erased meanwhile; return whether it is
        stored."""
        try:
            await store.write_blob(space, CHECKPOINT, self._chunks(store, space))
        except _ErasedMeanwhile:
            return False
        # Again after its publication: an erasure just before that could not see it.
        erased_at = await self._outlived(store, space)
        if erased_at is not None:
            await store.erase(ErasureTarget(space=space, at=erased_at, blobs=(CHECKPOINT,)))
        return erased_at is None

    async def _chunks(self, store: Store, space: SpaceId) -> AsyncIterator[bytes]:
        """Yield the bytes, made by another thread, and check after the last one whether they may be stored."""
        # Read before checking the journal, which shows that the space is still the one of the index.
        owner, _ = await _owner_of(store, space)
        index_pieces = await asyncio.to_thread(self.frozen.pieces, owner)
        while chunk_bytes := await asyncio.to_thread(_next_pieces, index_pieces):
            for start in range(0, len(chunk_bytes), limits.BLOB_CHUNK_BYTES):
                yield chunk_bytes[start : start + limits.BLOB_CHUNK_BYTES]
        if await self._outlived(store, space) is not None:
            raise _ErasedMeanwhile

    async def _outlived(self, store: Store, space: SpaceId) -> Instant | None:
        """Return the time of an erasure that may concern this: of the space, or all of it; None if there was none."""
        mark_entry, last_sequence = self.mark, self.mark.sequence - 1
        while entries := await store.journal(space, after=last_sequence, limit=PAGE):
            if entries[0].sequence == mark_entry.sequence and entries[0] != mark_entry:
                break
            erasure_entries = [
                entry
                for entry in entries
                if entry.action is JournalAction.ERASE and entry.sequence > mark_entry.sequence
            ]
            if erasure_entries:
                return erasure_entries[-1].at
            last_sequence = entries[-1].sequence
        # Without its mark the space was erased, or was erased and recreated.
        return None if last_sequence >= mark_entry.sequence else mark_entry.at


async def read_checkpoint(
    store: Store, space: SpaceId, analyser: TextAnalyser, labels: str, /
) -> "tuple[SpaceIndex, JournalEntry] | None":
    """Return the index in the checkpoint of `space` and its last entry; None if it cannot be trusted.

    That is the case if its units were labelled by another version than `labels`, or if it belongs to an erased space of
    this name, left by a process that died right after publishing it: that one is removed.
    """
    # Imported late: a process that searches nothing needs no numeric library.
    from elytron_index.space_index import ArrivingCheckpoint, SpaceIndex

    arriving_checkpoint = ArrivingCheckpoint(limits.BLOB_BYTES, labels=labels)
    try:
        async for chunk in store.read_blob(space, CHECKPOINT):
            arriving_checkpoint.take(chunk)
    except (NotFound, StoreCorrupt):
        return None
    index = SpaceIndex.from_bytes(arriving_checkpoint.data, analyser, labels=labels)
    if index is None or index.watermark == 0:
        return None
    owner, owner_since = await _owner_of(store, space)
    if index.owner != owner:
        await remove_checkpoint(store, space, owner_since)
        return None
    entries = await store.journal(space, after=index.watermark - 1, limit=1)
    # A compacted run hides whether the last entry in the index is still the same.
    is_in_journal = bool(entries) and (entries[0].sequence, entries[0].covers) == (index.watermark, 1)
    return (index, entries[0]) if is_in_journal else None


async def remove_checkpoint(store: Store, space: SpaceId, at: Instant, /) -> None:
    """Remove the checkpoint of `space`, which may contain erased words, if the store can be written to."""
    with suppress(ElytronError):
        await store.erase(ErasureTarget(space=space, at=at, blobs=(CHECKPOINT,)))


async def _owner_of(store: Store, space: SpaceId) -> tuple[str, Instant]:
    """Return an identity that no other or later space of this name has, and when this one was created."""
    (document,) = await store.get(space, (DocumentRef(SPACE, KEY),))
    if document is None:
        return "", Instant(0)
    record = SpaceRecord.from_bytes(document.body)
    return record.tag("checkpoint"), record.created_at


def _next_pieces(pieces: Iterator[bytes]) -> bytes:
    """Return the next pieces, joined to a worthwhile size; empty when none is left."""
    batch: list[bytes] = []
    for piece in pieces:
        batch.append(piece)
        if sum(map(len, batch)) >= 4 * limits.BLOB_CHUNK_BYTES:
            break
    return b"".join(batch)


WORTH_STORING = 64
"""A closing index with this many more entries than its checkpoint is stored first."""
ASIDE_LEAST = 1_000
"""An open index is stored after this many entries since its checkpoint, and at least its units divided by
`ASIDE_UNITS`: each time all of them are stored, which so stays a small share of the entries' cost."""
ASIDE_UNITS = 2
SETTLED_S = 1.0
"""A checkpoint that an erasure removed is rewritten after this delay, so that others may come first,"""
RESTS = 19
"""and after this multiple of the time that the last one took: erasures add a twentieth to other work."""


class CheckpointPolicy(StrEnum):
    """When indexes are stored: also as they grow, or only when one is dropped and at the end."""

    AS_THEY_GROW = "as_they_grow"
    AT_THE_END = "at_the_end"


def is_due(grown_bytes: int, /, *, units: int) -> bool:
    """Return whether an open index of `units`, `grown_bytes` by a number of entries, is to be stored while in use."""
    return grown_bytes >= max(ASIDE_LEAST, units // ASIDE_UNITS)


def is_worth_it(grown_bytes: int, /) -> bool:
    """Return whether a dropped index is stored first."""
    return grown_bytes >= WORTH_STORING


Progress = Callable[[int, int], None]
"""Called with the number of indexed journal entries of a space, and the total."""


class CatchingUp:
    """Progress of an index towards the end of its space's journal. Less than a page is not reported."""

    def __init__(self, store: Store, space: SpaceId, progress: Progress | None, /) -> None:
        self._store = store
        self._space = space
        self._progress = progress
        self._end = 0

    async def at(self, count: int, total_count: int, /, *, is_all: bool) -> None:
        """Report that the index contains `count` entries and the journal `total_count`, or more unless `is_all`."""
        if self._progress is None or (is_all and not self._end):
            return
        if is_all:
            self._end = total_count
        elif total_count > self._end:
            self._end = await end_of(self._store, self._space, total_count)
        self._progress(count, self._end)


async def end_of(store: Store, space: SpaceId, last_known: int, /) -> int:
    """Return the end of the journal of `space`, which is at `least` or later, in few reads."""

    async def reaches(sequence: int) -> bool:
        return bool(await store.journal(space, after=sequence - 1, limit=1))

    step_size = last_known
    while await reaches(last_known + step_size):
        last_known, step_size = last_known + step_size, 2 * step_size
    first_missing = last_known + step_size
    while first_missing - last_known > 1:
        middle_sequence = (last_known + first_missing) // 2
        if await reaches(middle_sequence):
            last_known = middle_sequence
        else:
            first_missing = middle_sequence
    return last_known
