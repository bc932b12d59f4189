"""Compaction of a space's journal: each run of spent entries becomes one entry.

An entry is spent if it has no digest (an erasure removed it, or it never had one), no other entry has a digest for the
same document, and that document is gone. The remaining journal is bounded by the contents of the space, however much
was erased.
"""

import hmac
from collections.abc import AsyncIterator, Sequence
from typing import Final

from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.planes.space import BESIDE, SpaceRecord
from elytron_core.ports.store import (
    CompactedRun,
    DocumentRef,
    JournalAction,
    JournalEntry,
    Store,
    scan_entries,
)

_SUM_BYTES: Final = 32


_CODE_BYTES: Final = 16


MODULUS: Final = 1 << 8 * _SUM_BYTES


class EntrySums:
    """The numbers that the entries of one space add to its head."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._order = record.chain(b"journal order", size=_SUM_BYTES)
        self._content = record.chain(b"journal content", size=_SUM_BYTES)

    def order_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the position of `entry`; for the entry of a run, the sum of the run."""
        run_sum = self.run_sum(entry)
        if run_sum is not None:
            return run_sum
        line = self._order.copy()
        line.update(_entry_place(entry))
        return int.from_bytes(line.digest(), "big")

    def content_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the content of `entry`: 0 if it no longer has a digest."""
        if not entry.digest or entry.covers > 1:
            return 0
        line = self._content.copy()
        line.update(_entry_place(entry) + entry.digest.encode())
        return int.from_bytes(line.digest(), "big")

    def run_sum(self, entry: JournalEntry, /) -> int | None:
        """Return the sum of its run stored in `entry`; None for any other entry, or one made without the secret."""
        if entry.covers == 1:
            return None
        sum_text, sum_code = entry.digest[: 2 * _SUM_BYTES], entry.digest[2 * _SUM_BYTES :]
        expected_code = self._code(entry.first, entry.sequence, sum_text)
        return int(sum_text, 16) if hmac.compare_digest(expected_code.encode(), sum_code.encode()) else None

    def run_of(self, entries: Sequence[JournalEntry], /) -> CompactedRun:
        """Return `entries`, which are consecutive, as the run that one entry will replace."""
        first_sequence, last_sequence = entries[0].first, entries[-1].sequence
        text = f"{sum(map(self.order_of, entries)) % MODULUS:0{2 * _SUM_BYTES}x}"
        return CompactedRun(first_sequence, last_sequence, text + self._code(first_sequence, last_sequence, text))

    def _code(self, first_sequence: int, last_sequence: int, text: str) -> str:
        code = self._record.chain(b"journal run", size=_CODE_BYTES)
        code.update(f"{first_sequence}|{last_sequence}|{text}".encode())
        return code.hexdigest()


def _entry_place(entry: JournalEntry) -> bytes:
    return f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}\n".encode()


async def compact_space(store: Store, space: SpaceId, /) -> int:
    """Compact all spent runs in the journal of `space`; return the number of removed entries.

    The last entry stays, because readers use it as their position. The journals of the product's own spaces stay whole:
    they are the permanent record of ended keys. If killed, the same call continues. Raises Conflict if another process
    compacted it meanwhile.
    """
    (document,) = await store.get(space, (REF,))
    if document is None or is_reserved(space):
        return 0
    entry_sums = EntrySums(SpaceRecord.from_bytes(document.body))
    runs = [compacted_run async for compacted_run in _spent_runs(store, space, entry_sums)]
    count = 0
    for start in range(0, len(runs), limits.COMPACTION_RUNS):
        count += await store.compact(space, runs[start : start + limits.COMPACTION_RUNS])
    return count


async def _spent_runs(store: Store, space: SpaceId, sums: EntrySums) -> AsyncIterator[CompactedRun]:
    spent_refs = await _spent_refs(store, space)
    entries: list[JournalEntry] = []
    async for entry in _but_the_last(store, space):
        if entry.covers > 1 or (not entry.digest and (entry.ref in spent_refs or _changed_nothing(entry))):
            entries.append(entry)
            continue
        # Replacing one entry by one saves nothing.
        if len(entries) > 1:
            yield sums.run_of(entries)
        entries.clear()
    if len(entries) > 1:
        yield sums.run_of(entries)


async def _but_the_last(store: Store, space: SpaceId) -> AsyncIterator[JournalEntry]:
    previous_entry: JournalEntry | None = None
    async for entry in scan_entries(store, space):
        if previous_entry is not None:
            yield previous_entry
        previous_entry = entry


async def _spent_refs(store: Store, space: SpaceId) -> set[DocumentRef]:
    """Return the refs that are named only by entries without a digest, and contain no document."""
    digested_refs: set[DocumentRef] = set()
    refs: dict[DocumentRef, None] = {}
    async for entry in scan_entries(store, space):
        if entry.covers == 1:
            if entry.digest:
                digested_refs.add(entry.ref)
            elif not _changed_nothing(entry):
                refs[entry.ref] = None
    candidates = [ref for ref in refs if ref not in digested_refs]
    spent_refs: set[DocumentRef] = set()
    for start in range(0, len(candidates), limits.SCAN_MAX):
        page = candidates[start : start + limits.SCAN_MAX]
        documents = await store.get(space, page)
        spent_refs.update(ref for ref, document in zip(page, documents, strict=True) if document is None)
    return spent_refs


def _changed_nothing(entry: JournalEntry) -> bool:
    """Return whether an entry changed no document that a journal covers: an event, or a lookup document."""
    is_event = entry.ref == REF and entry.action is not JournalAction.LIFECYCLE
    return is_event or entry.ref.collection in BESIDE
