"""What the write connection runs for commits: a group of batches in one transaction, each on its own feet."""

from collections.abc import Sequence

from elytron_core.errors import Conflict, ElytronError, IdempotencyConflict, InvalidInput, StoreCorrupt
from elytron_core.ports.store import Batch, Committed, Delete, Put, Ref
from elytron_store.sqlite import rows
from elytron_store.sqlite.connection import transaction
from elytron_store.sqlite.driver import ERRORS, Access, Raw, translate

Outcome = Committed | ElytronError

_MANY = 8
"""From so many new documents on, writing them together is cheaper than looking each up before."""

_HEAD = 'SELECT sequence, "check" FROM heads WHERE space = ?'
_MOVE_HEAD = (
    "INSERT INTO heads VALUES (?, ?, ?) "
    'ON CONFLICT (space) DO UPDATE SET sequence = excluded.sequence, "check" = excluded."check"'
)
_REVISION = "SELECT revision FROM documents WHERE space = ? AND collection = ? AND key = ?"
_INSERT = "INSERT INTO documents VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE = (
    'UPDATE documents SET revision = ?, body = ?, "check" = ? '
    "WHERE space = ? AND collection = ? AND key = ? AND revision = ?"
)
_DELETE = "DELETE FROM documents WHERE space = ? AND collection = ? AND key = ? AND revision = ?"
_APPEND = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ANSWERED = 'SELECT digest, answer, first, last, at, "check" FROM idempotency WHERE space = ? AND key = ?'
_REMEMBER = "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM idempotency WHERE at < ?"


def apply_group(raw: Raw, access: Access, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    """Apply `batches` in order and commit them with one flush; return what became of each, as the callers shall see it.

    A refused batch changes nothing and takes no other down. Raises what the driver raises when nothing was committed.
    """
    try:
        return _apply_together(raw, access, batches)
    except (OverflowError, UnicodeError, *ERRORS) as error:
        of_driver = isinstance(error, ERRORS)
        if len(batches) == 1 and not of_driver:
            return [InvalidInput(field="batch", problem="holds a number or text that cannot be stored")]
        if len(batches) == 1 or (of_driver and not isinstance(translate(error, doing="committing"), StoreCorrupt)):
            raise
    # One of them carries what cannot be stored, or touches what is damaged: alone, each finds out for itself.
    return [outcome for batch in batches for outcome in _apply_alone(raw, access, batch)]


def _apply_alone(raw: Raw, access: Access, batch: Batch, /) -> Sequence[Outcome]:
    try:
        return apply_group(raw, access, [batch])
    except ERRORS as error:
        refused = translate(error, doing="committing")
        if not isinstance(refused, StoreCorrupt):
            raise
        return [refused]


def _apply_together(raw: Raw, access: Access, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    group = Group(raw)
    with transaction(raw, access):
        outcomes = [group.apply(batch) for batch in batches]
        group.finish()
    return outcomes


def forget_answers(raw: Raw, access: Access, before: int, /) -> None:
    """Drop the idempotency records whose batch is older than `before`."""
    with transaction(raw, access):
        raw.execute(_FORGET, (before,))


class Group:
    """The batches of one transaction, which the caller begins and commits."""

    def __init__(self, raw: Raw, /) -> None:
        self._cursor = raw.cursor()
        self._heads: dict[str, int] = {}
        self._moved: set[str] = set()
        self._entries: list[tuple[str, int, int, str, str, str, str, bytes]] = []

    def apply(self, batch: Batch, /) -> Outcome:
        """Apply `batch`, or return why it is refused; then nothing of it was written."""
        try:
            replayed = self._find_answered(batch)
            if replayed is not None:
                return replayed
            first = self.head(batch.space) + 1
            self._change(batch)
        except (Conflict, StoreCorrupt) as refused:
            return refused
        last = self.append(batch, first)
        if batch.idempotency is None:
            return Committed(first, last)
        key, digest, answer = batch.idempotency.key, batch.idempotency.digest, batch.idempotency.answer
        check = rows.check_of(batch.space, key, digest, first, last, batch.at, body=answer)
        self._cursor.execute(_REMEMBER, (batch.space, key, digest, answer, first, last, batch.at, check))
        return Committed(first, last, answer=answer)

    def head(self, space: str, /) -> int:
        """Return the last sequence given in `space`. Raises StoreCorrupt."""
        known = self._heads.get(space)
        if known is None:
            row = self._cursor.execute(_HEAD, (space,)).fetchone()
            known = 0 if row is None else row[0]
            if row is not None and rows.check_of(space, known) != row[1]:
                raise StoreCorrupt(what="the head of a journal")
            self._heads[space] = known
        return known

    def append(self, batch: Batch, first: int, /) -> int:
        """Take the entries of `batch` up for writing, from sequence `first` on; return the last sequence."""
        space, sequence = batch.space, first
        for sequence, entry in enumerate(batch.entries, first):
            (collection, key), action, digest = entry.ref, entry.action.value, entry.digest
            at = batch.at if entry.at is None else entry.at
            check = rows.check_of(space, sequence, at, action, collection, key, digest)
            self._entries.append((space, sequence, at, action, collection, key, digest, check))
        self._heads[space] = sequence
        self._moved.add(space)
        return sequence

    def finish(self) -> None:
        """Write the journal entries of the group, and the last sequence of each space that grew."""
        self._cursor.executemany(_APPEND, self._entries)
        moved = [(space, self._heads[space], rows.check_of(space, self._heads[space])) for space in self._moved]
        self._cursor.executemany(_MOVE_HEAD, moved)

    def _find_answered(self, batch: Batch) -> Committed | None:
        if batch.idempotency is None:
            return None
        key = batch.idempotency.key
        row = self._cursor.execute(_ANSWERED, (batch.space, key)).fetchone()
        if row is None:
            return None
        digest, answer, first, last, at, check = row
        if rows.check_of(batch.space, key, digest, first, last, at, body=answer) != check:
            raise StoreCorrupt(what="an idempotency record")
        if digest != batch.idempotency.digest:
            raise IdempotencyConflict
        return Committed(first, last, replayed=True, answer=answer)

    def _change(self, batch: Batch) -> None:
        """Write the documents of `batch`. Raises Conflict before anything is written.

        The first write finds out for itself whether its precondition holds; all others are looked up before it. Many
        new documents are written first and together, which finds out for all of them.
        """
        changes: tuple[Put | Delete, ...] = (*batch.puts, *batch.deletes) if batch.deletes else batch.puts
        new: tuple[Put, ...] = ()
        if len(batch.puts) >= _MANY:
            new = tuple(put for put in batch.puts if put.expects == 0)
            changes = (*(put for put in batch.puts if put.expects), *batch.deletes)
        for change in changes if new else changes[1:]:
            self._require(batch.space, change.ref, change.expects)
        for demand in batch.requires:
            self._require(batch.space, demand.ref, demand.revision)
        if new:
            self._insert(batch.space, new)
        for change in changes:
            if not self._write(batch.space, change):
                raise _conflict(change.ref, change.expects, self._revision(batch.space, change.ref))

    def _insert(self, space: str, puts: Sequence[Put]) -> None:
        """Write new documents, all or none. Raises Conflict where one of them is there."""
        made = [(space, *put.ref, put.body, rows.check_of(space, *put.ref, 1, body=put.body)) for put in puts]
        self._cursor.execute("SAVEPOINT batch")
        self._cursor.executemany(_INSERT, made)
        whole = self._cursor.rowcount == len(made)
        if not whole:
            self._cursor.execute("ROLLBACK TO batch")
        self._cursor.execute("RELEASE batch")
        if not whole:
            for put in puts:
                self._require(space, put.ref, 0)

    def _write(self, space: str, change: Put | Delete) -> bool:
        """Write one change; return whether its precondition held."""
        (collection, key), expects = change.ref, change.expects
        if isinstance(change, Delete):
            self._cursor.execute(_DELETE, (space, collection, key, expects))
        elif expects == 0:
            check = rows.check_of(space, collection, key, 1, body=change.body)
            self._cursor.execute(_INSERT, (space, collection, key, change.body, check))
        else:
            check = rows.check_of(space, collection, key, expects + 1, body=change.body)
            self._cursor.execute(_UPDATE, (expects + 1, change.body, check, space, collection, key, expects))
        return self._cursor.rowcount == 1

    def _require(self, space: str, ref: Ref, expected: int) -> None:
        found = self._revision(space, ref)
        if found != expected:
            raise _conflict(ref, expected, found)

    def _revision(self, space: str, ref: Ref) -> int:
        row = self._cursor.execute(_REVISION, (space, *ref)).fetchone()
        return 0 if row is None else row[0]


def _conflict(ref: Ref, expected: int, found: int) -> Conflict:
    return Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected, found=found)
