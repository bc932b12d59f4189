"""Erasures of a space that have begun: a mark in the space names them until they are ended."""

from collections.abc import Collection, Iterable

from elytron.state.spaces import ERASING, MARK, REF, LostRaces
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.planes.space import MemoryPlace, UnfinishedErasure
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    Store,
)


async def erasing_put(store: Store, space: SpaceId, places: Iterable[MemoryPlace], /) -> PutChange:
    """Return the change that marks the erasure of the memories at `places` as begun, beside others."""
    known, revision = await _read_erasing(store, space)
    body = UnfinishedErasure(memories=tuple(dict.fromkeys((*known, *places)))).to_bytes()
    return PutChange(ERASING, body, revision)


async def end_erasing(store: Store, space: SpaceId, places: Collection[MemoryPlace], /, *, at: Instant) -> None:
    """Commit that the memories at `places` are erased."""
    race = LostRaces()
    while True:
        known, revision = await _read_erasing(store, space)
        if not revision:
            return
        left = tuple(place for place in known if place not in places)
        change = PutChange(ERASING, UnfinishedErasure(memories=left).to_bytes(), revision)
        puts, deletes = ((change,), ()) if left else ((), (DeleteChange(ERASING, revision),))
        entries = (EntryDraft(JournalAction.MAINTENANCE, REF),)
        try:
            await store.commit(Batch(space, at, entries, puts, deletes, (RequireRevision(REF, 1),), takes_back=True))
        except Conflict as conflict:
            await race.lost(conflict)
        else:
            return


async def erasing_places(store: Store, space: SpaceId, /) -> tuple[MemoryPlace, ...]:
    """Return where the memories are whose erasure has begun and not ended."""
    return (await _read_erasing(store, space))[0]


async def _read_erasing(store: Store, space: SpaceId) -> tuple[tuple[MemoryPlace, ...], int]:
    (document,) = await store.get(space, (ERASING,))
    if document is None:
        return (), 0
    try:
        return UnfinishedErasure.from_bytes(document.body).memories, document.revision
    except InvalidInput as error:
        raise StoreCorrupt(what=MARK) from error
