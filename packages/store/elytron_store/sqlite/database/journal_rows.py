"""The journal's side of a transaction: the next sequences of each space, and the entries that take them."""

from collections.abc import Sequence

from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Run, numbered
from elytron_store.journal import stand_ins
from elytron_store.sqlite.database import rows
from elytron_store.sqlite.database.connection import transaction
from elytron_store.sqlite.database.driver import Access, Raw

_HEAD = 'SELECT sequence, "check" FROM heads WHERE space = ?'
_MOVE_HEAD = (
    "INSERT INTO heads VALUES (?, ?, ?) "
    'ON CONFLICT (space) DO UPDATE SET sequence = excluded.sequence, "check" = excluded."check"'
)
_APPEND = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RUN = (
    'SELECT sequence, at, action, collection, key, digest, covers, "check" FROM journal '
    "WHERE space = ? AND sequence BETWEEN ? AND ? ORDER BY sequence"
)
_CUT = "DELETE FROM journal WHERE space = ? AND sequence BETWEEN ? AND ?"


class Appending:
    """Journal rows of a transaction, which the caller begins and commits."""

    def __init__(self, raw: Raw, /) -> None:
        self._raw = raw
        self._heads: dict[str, int] = {}
        self._moved: set[str] = set()
        self._entries: list[rows.EntryRow] = []

    def head(self, space: str, /) -> int:
        """Return the last sequence given in `space`. Raises StoreCorrupt."""
        known = self._heads.get(space)
        if known is None:
            row = self._raw.execute(_HEAD, (space,)).fetchone()
            known = 0 if row is None else row[0]
            if row is not None and rows.check_of(space, known) != row[1]:
                raise StoreCorrupt(what="the head of a journal")
            self._heads[space] = known
        return known

    def append(self, batch: Batch, /) -> tuple[int, int]:
        """Take the entries of `batch` up for writing; return their first and last sequence. Raises StoreCorrupt."""
        space = batch.space
        before = last = self.head(space)
        for entry in numbered(batch, after=before):
            self._entries.append(rows.entry_row(space, entry))
            last = entry.sequence
        self._heads[space] = last
        self._moved.add(space)
        return before + 1, last

    def finish(self) -> None:
        """Write the entries, and the last sequence of each space that grew."""
        self._raw.executemany(_APPEND, self._entries)
        moved = [(space, self._heads[space], rows.check_of(space, self._heads[space])) for space in self._moved]
        self._raw.executemany(_MOVE_HEAD, moved)


def compact(raw: Raw, access: Access, space: SpaceId, runs: Sequence[Run], /) -> int:
    """Leave one entry in place of each of `runs`, in one transaction; return how many are gone.

    Raises Conflict where the journal is another, StoreCorrupt for damaged entries.
    """
    gone = 0
    with transaction(raw, access):
        for run in runs:
            place = (space, run.first, run.last)
            entries = rows.entries(space, raw.execute(_RUN, place).fetchall(), after=run.first - 1)
            made = stand_ins.stand_in(run, entries)
            raw.execute(_CUT, place)
            raw.execute(_APPEND, rows.entry_row(space, made))
            gone += len(entries) - 1
    return gone
