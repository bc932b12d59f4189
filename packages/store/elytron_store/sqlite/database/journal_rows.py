"""The journal's side of a transaction: the next sequences of each space, and the entries that take them."""

from elytron_core.errors import StoreCorrupt
from elytron_core.ports.store import Action, Batch
from elytron_store.sqlite.database import rows
from elytron_store.sqlite.database.driver import Raw

_HEAD = 'SELECT sequence, "check" FROM heads WHERE space = ?'
_MOVE_HEAD = (
    "INSERT INTO heads VALUES (?, ?, ?) "
    'ON CONFLICT (space) DO UPDATE SET sequence = excluded.sequence, "check" = excluded."check"'
)
_APPEND = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_WORDS = {action: action.value for action in Action}


class Appending:
    """What a transaction, which the caller begins and commits, adds to the journals."""

    def __init__(self, raw: Raw, /) -> None:
        self._raw = raw
        self._heads: dict[str, int] = {}
        self._moved: set[str] = set()
        self._entries: list[tuple[str, int, int, str, str, str, str, bytes]] = []

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
        first = sequence = self.head(space) + 1
        for sequence, entry in enumerate(batch.entries, first):
            (collection, key), action, digest = entry.ref, _WORDS[entry.action], entry.digest
            at = batch.at if entry.at is None else entry.at
            check = rows.check_of(space, sequence, at, action, collection, key, digest)
            self._entries.append((space, sequence, at, action, collection, key, digest, check))
        self._heads[space] = sequence
        self._moved.add(space)
        return first, sequence

    def finish(self) -> None:
        """Write the entries, and the last sequence of each space that grew."""
        self._raw.executemany(_APPEND, self._entries)
        moved = [(space, self._heads[space], rows.check_of(space, self._heads[space])) for space in self._moved]
        self._raw.executemany(_MOVE_HEAD, moved)
