"""Compaction of a space's journal: each run of spent entries is replaced by one entry.

An entry is spent if it has no digest (an erasure removed it, or it never had one), no other entry has a digest for the
document that it names, and that document is gone. The rest is bounded by what the space holds, however much was erased.
"""

from collections.abc import AsyncIterator

from elytron.journal.entry_sums import EntrySums
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.planes.space import BESIDE, SpaceRecord
from elytron_core.ports.store import Action, JournalEntry, Ref, Run, Store
from elytron_core.ports.store_pages import entries


async def compact(store: Store, space: SpaceId, /) -> int:
    """Compact all spent runs in the journal of `space`; return the number of removed entries.

    The last entry stays, because readers know their place by it. The journals of the product's own spaces stay whole:
    they are the permanent record of keys that had ended. After a kill, the same call goes on. Raises Conflict if
    another process compacted it meanwhile.
    """
    (document,) = await store.get(space, (REF,))
    if document is None or is_reserved(space):
        return 0
    sums = EntrySums(SpaceRecord.from_bytes(document.body))
    runs = [run async for run in _runs(store, space, sums)]
    gone = 0
    for start in range(0, len(runs), limits.COMPACTION_RUNS):
        gone += await store.compact(space, runs[start : start + limits.COMPACTION_RUNS])
    return gone


async def _runs(store: Store, space: SpaceId, sums: EntrySums) -> AsyncIterator[Run]:
    spent = await _spent(store, space)
    held: list[JournalEntry] = []
    async for entry in _but_the_last(store, space):
        if entry.covers > 1 or (not entry.digest and (entry.ref in spent or _changed_nothing(entry))):
            held.append(entry)
            continue
        if len(held) > 1:
            yield sums.run_of(held)
        held.clear()
    if len(held) > 1:
        yield sums.run_of(held)


async def _but_the_last(store: Store, space: SpaceId) -> AsyncIterator[JournalEntry]:
    before: JournalEntry | None = None
    async for entry in entries(store, space):
        if before is not None:
            yield before
        before = entry


async def _spent(store: Store, space: SpaceId) -> set[Ref]:
    """Return the refs that are named only by entries without a digest, and hold no document."""
    digested: set[Ref] = set()
    named: dict[Ref, None] = {}
    async for entry in entries(store, space):
        if entry.covers == 1:
            if entry.digest:
                digested.add(entry.ref)
            elif not _changed_nothing(entry):
                named[entry.ref] = None
    asked = [ref for ref in named if ref not in digested]
    spent: set[Ref] = set()
    for start in range(0, len(asked), limits.SCAN_MAX):
        page = asked[start : start + limits.SCAN_MAX]
        found = await store.get(space, page)
        spent.update(ref for ref, document in zip(page, found, strict=True) if document is None)
    return spent


def _changed_nothing(entry: JournalEntry) -> bool:
    """Return whether an entry changed no document that a journal covers: an event, or a document of look-ups."""
    is_event = entry.ref == REF and entry.action is not Action.LIFECYCLE
    return is_event or entry.ref.collection in BESIDE
