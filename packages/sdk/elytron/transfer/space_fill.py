"""A space that is filled from elsewhere: read as empty, and reserved, until its last batch is committed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

from elytron.state.space_records import FILLING, REF
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.planes.space import SPACE
from elytron_core.ports.store import Action, Batch, Delete, Entry, Erasure, Put, Ref, Require, Store

BATCH = 1_000
"""Largest number of documents or entries of one batch."""


async def take_over(store: Store, space: SpaceId, /, *, at: Instant) -> None:
    """Remove what a filling left that was killed, or still runs: that one cannot go on. Raises Conflict."""
    if not await store.journal(space, after=0, limit=1):
        return
    (mark,) = await store.get(space, (FILLING,))
    # From here on neither a first write nor the other filling gets through, so the erasure removes no memories.
    taken = Batch(
        space=space,
        at=at,
        entries=(Entry(Action.LIFECYCLE, FILLING),),
        puts=(Put(FILLING, b"{}", mark.revision if mark is not None else 0),),
        requires=(Require(REF, 0),),
    )
    await store.commit(taken)
    await store.erase(Erasure(space=space, at=at, whole_space=True))


def batch_count(*, documents: int, entries: int, blobs: int) -> int:
    """Return the number of batches that a filling of so much takes; each must have an entry."""
    # Blobs are written behind the first batch and before the last.
    fewest = 2 if blobs and entries > 1 else 1
    return max(-(-max(documents, entries) // BATCH), fewest)


def share(total: int, number: int, count: int, /) -> int:
    """Return how many of `total` entries are in batch `number` of `count`."""
    return total * (number + 1) // count - total * number // count


async def fill(
    store: Store, batches: AsyncIterator[Batch], /, *, count: int, own: str, files: Callable[[], Awaitable[object]]
) -> int:
    """Commit the `count` batches of a space, and `files` behind the first; return the last sequence.

    The space's record is in the last batch. `own` is a unique id. Raises Conflict if the space
    was not empty, or was not left alone.
    """
    # The second mark is this filling's alone: if another one has begun again, the first is stored again, but not this.
    marks = (FILLING, Ref(SPACE, own)) if count > 1 else ()
    sequence = 0
    number = 0
    async for batch in batches:
        sequence = (await store.commit(_held(batch, marks, number, count))).last
        if number == 0:
            await files()
        number += 1
    return sequence


def _held(batch: Batch, marks: Sequence[Ref], number: int, count: int) -> Batch:
    """Return a batch of a filling so that it is refused where the space is not, or no more, its own."""
    if count == 1:
        return replace(batch, requires=(Require(FILLING, 0),))
    if number == 0:
        return replace(batch, puts=(*batch.puts, *(Put(mark, b"{}", 0) for mark in marks)), requires=(Require(REF, 0),))
    if number < count - 1:
        return replace(batch, requires=tuple(Require(mark, 1) for mark in marks))
    return replace(batch, deletes=tuple(Delete(mark, 1) for mark in marks))
