"""The mark on a space whose memories are being erased: set, cleared, and read by whoever finishes the erasure."""

from collections.abc import Collection, Iterable

from elytron.context import OperationContext
from elytron.state.change_lines import LostRaces
from elytron.state.space_records import ERASING, MARK, REF
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
    """Return the change that adds the memories at `places` to the mark."""
    marked_places, revision = await _read_mark(store, space)
    body = UnfinishedErasure(memories=tuple(dict.fromkeys((*marked_places, *places)))).to_bytes()
    return PutChange(ERASING, body, revision)


async def end_erasing(store: Store, space: SpaceId, places: Collection[MemoryPlace], /, *, at: Instant) -> None:
    """Commit that the memories at `places` are erased."""
    lost_races = LostRaces()
    while True:
        marked_places, revision = await _read_mark(store, space)
        if not revision:
            return
        try:
            remaining_places = tuple(place for place in marked_places if place not in places)
            await _commit_mark(store, space, remaining_places, revision, at=at)
        except Conflict as conflict:
            await lost_races.lost(conflict)
        else:
            return


async def erasing_places(store: Store, space: SpaceId, /) -> tuple[MemoryPlace, ...]:
    """Return the places of memories whose erasure is not finished."""
    return (await _read_mark(store, space))[0]


async def is_mark_damaged(ctx: OperationContext, space: SpaceId, /, *, repair: bool) -> bool:
    """Return whether the mark of `space` is unreadable; with `repair`, remove it."""
    ctx.spaces.forget(space)
    try:
        await ctx.spaces.settle(space)
    except StoreCorrupt:
        (document,) = await ctx.store.get(space, (ERASING,)) if repair else (None,)
        if document is not None:
            await _commit_mark(ctx.store, space, (), document.revision, at=ctx.clock.now())
        return True
    return False


async def _commit_mark(
    store: Store, space: SpaceId, places: tuple[MemoryPlace, ...], revision: int, /, *, at: Instant
) -> None:
    """Commit a mark with `places`, or remove it if there are no more."""
    mark_put = PutChange(ERASING, UnfinishedErasure(memories=places).to_bytes(), revision)
    puts, deletes = ((mark_put,), ()) if places else ((), (DeleteChange(ERASING, revision),))
    entries = (EntryDraft(JournalAction.MAINTENANCE, REF),)
    await store.commit(Batch(space, at, entries, puts, deletes, (RequireRevision(REF, 1),), takes_back=True))


async def _read_mark(store: Store, space: SpaceId) -> tuple[tuple[MemoryPlace, ...], int]:
    (document,) = await store.get(space, (ERASING,))
    if document is None:
        return (), 0
    try:
        return UnfinishedErasure.from_bytes(document.body).memories, document.revision
    except InvalidInput as error:
        raise StoreCorrupt(what=MARK) from error
