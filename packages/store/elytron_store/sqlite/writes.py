"""Commits of the write connection: a group of batches in one transaction, each applied or refused by itself.

Mostly no batch of a group is refused. So what batches write that have nothing to do with each other goes in a table at
a time, and their preconditions are checked by writing. If one does not hold, nothing of the group is kept,
and its batches are applied again one after the other, each checked first.
"""

from collections.abc import Sequence

from elytron_core.errors import Conflict, IdempotencyConflict, InvalidInput, StoreCorrupt
from elytron_core.ports.store import Batch, Committed, Delete, Put, Ref
from elytron_store.group_commit import Outcome
from elytron_store.sqlite.database import rows
from elytron_store.sqlite.database.connection import transaction
from elytron_store.sqlite.database.driver import ERRORS, Access, Raw, translate
from elytron_store.sqlite.database.journal_rows import Appending

_REVISION = "SELECT revision FROM documents WHERE space = ? AND collection = ? AND key = ?"
_INSERT = "INSERT INTO documents VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE = (
    'UPDATE documents SET revision = ?, body = ?, "check" = ? '
    "WHERE space = ? AND collection = ? AND key = ? AND revision = ?"
)
_DELETE = "DELETE FROM documents WHERE space = ? AND collection = ? AND key = ? AND revision = ?"
_ANSWERED = 'SELECT digest, answer, first, last, at, "check" FROM idempotency WHERE space = ? AND key = ?'
_REMEMBER = "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM idempotency WHERE at < ?"


class _Dashed(Exception):
    """A precondition of a group does not hold."""


def apply_group(raw: Raw, access: Access, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    """Apply `batches` in order and commit them with one flush; return what became of each, as the callers shall see it.

    A refused batch changes nothing and takes no other down. Raises what the driver raises when nothing was committed.
    """
    try:
        try:
            return _apply_at_once(raw, access, batches)
        except (_Dashed, Conflict, StoreCorrupt):
            return _apply_in_turn(raw, access, batches)
    except (OverflowError, UnicodeError, *ERRORS) as error:
        of_driver = isinstance(error, ERRORS)
        if len(batches) == 1 and not of_driver:
            return [InvalidInput(field="batch", problem="holds a number or text that cannot be stored")]
        if len(batches) == 1 or (of_driver and not isinstance(translate(error, doing="committing"), StoreCorrupt)):
            raise
    # One of them carries what cannot be stored, or touches what is damaged: alone, each finds out for itself.
    return [outcome for batch in batches for outcome in _apply_alone(raw, access, batch)]


def forget_answers(raw: Raw, access: Access, before: int, /) -> None:
    """Drop the idempotency records whose batch is older than `before`."""
    with transaction(raw, access):
        raw.execute(_FORGET, (before,))


def _apply_alone(raw: Raw, access: Access, batch: Batch, /) -> Sequence[Outcome]:
    try:
        return apply_group(raw, access, [batch])
    except ERRORS as error:
        refused = translate(error, doing="committing")
        if not isinstance(refused, StoreCorrupt):
            raise
        return [refused]


class _Stretch:
    """Batches that follow each other and stand apart: none changes, asks for or answers under what another does."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.batches: list[Batch] = []
        self.inserts: list[tuple[str, str, str, bytes, bytes]] = []
        self.updates: list[tuple[int, bytes, bytes, str, str, str, int]] = []
        self.deletes: list[tuple[str, str, str, int]] = []
        self._touched: set[tuple[str, Ref | str]] = set()

    def take(self, batch: Batch, /) -> bool:
        """Take `batch` up, unless it touches what is changed here already; return whether it was taken."""
        if not self._stands_apart(batch):
            return False
        space = batch.space
        self.batches.append(batch)
        for put in batch.puts:
            if put.expects:
                self.updates.append(_update_of(space, put))
            else:
                self.inserts.append(_insert_of(space, put))
        for delete in batch.deletes:
            collection, key = delete.ref
            self.deletes.append((space, collection, key, delete.expects))
        return True

    def _stands_apart(self, batch: Batch) -> bool:
        """Return whether no batch taken so far touches the documents of `batch`, and note those."""
        if self._most == 1:
            return True
        space = batch.space
        touched: set[tuple[str, Ref | str]] = {(space, put.ref) for put in batch.puts}
        if batch.deletes:
            touched.update([(space, delete.ref) for delete in batch.deletes])
        if batch.idempotency is not None:
            touched.add((space, batch.idempotency.key))
        if not self._touched.isdisjoint(touched):
            return False
        if batch.requires and not self._touched.isdisjoint([(space, ask.ref) for ask in batch.requires]):
            return False
        self._touched |= touched
        return True

    def write(self, raw: Raw, appending: Appending, /) -> Sequence[Committed]:
        """Write everything, a table at a time. Raises _Dashed, Conflict or StoreCorrupt where a batch is refused."""
        for batch in self.batches:
            if _find_answered(raw, batch) is not None:
                raise _Dashed
            for demand in batch.requires:
                _require(raw, batch.space, demand.ref, demand.revision)
        for statement, changes in ((_INSERT, self.inserts), (_UPDATE, self.updates), (_DELETE, self.deletes)):
            if changes and raw.executemany(statement, changes).rowcount != len(changes):
                raise _Dashed
        return [_append(raw, appending, batch) for batch in self.batches]


def _stretches(batches: Sequence[Batch]) -> Sequence[_Stretch]:
    found = [_Stretch(most=len(batches))]
    for batch in batches:
        if not found[-1].take(batch):
            found.append(_Stretch(most=len(batches)))
            found[-1].take(batch)
    return found


def _apply_at_once(raw: Raw, access: Access, batches: Sequence[Batch], /) -> Sequence[Committed]:
    """Apply `batches`, all or none. Raises _Dashed, Conflict or StoreCorrupt where one of them is refused."""
    # Work without the lock is done before others have to wait for it.
    stretches = _stretches(batches)
    with transaction(raw, access):
        appending = Appending(raw)
        outcomes = [outcome for stretch in stretches for outcome in stretch.write(raw, appending)]
        appending.finish()
    return outcomes


def _apply_in_turn(raw: Raw, access: Access, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    """Apply `batches` one after the other; whichever is refused leaves nothing behind."""
    outcomes: list[Outcome] = []
    with transaction(raw, access):
        appending = Appending(raw)
        for batch in batches:
            try:
                outcomes.append(_find_answered(raw, batch) or _apply(raw, appending, batch))
            except (Conflict, StoreCorrupt) as refused:
                outcomes.append(refused)
        appending.finish()
    return outcomes


def _apply(raw: Raw, appending: Appending, batch: Batch) -> Committed:
    """Apply `batch`. Raises Conflict and StoreCorrupt before anything is written."""
    space = batch.space
    changes: tuple[Put | Delete, ...] = (*batch.puts, *batch.deletes)
    for change in changes:
        _require(raw, space, change.ref, change.expects)
    for demand in batch.requires:
        _require(raw, space, demand.ref, demand.revision)
    appending.head(space)
    for change in changes:
        (collection, key), expects = change.ref, change.expects
        if isinstance(change, Delete):
            raw.execute(_DELETE, (space, collection, key, expects))
        elif expects:
            raw.execute(_UPDATE, _update_of(space, change))
        else:
            raw.execute(_INSERT, _insert_of(space, change))
    return _append(raw, appending, batch)


def _append(raw: Raw, appending: Appending, batch: Batch) -> Committed:
    """Have the entries of `batch` written, and remember its answer."""
    first, last = appending.append(batch)
    if batch.idempotency is None:
        return Committed(first, last)
    key, digest, answer = batch.idempotency.key, batch.idempotency.digest, batch.idempotency.answer
    check = rows.check_of(batch.space, key, digest, first, last, batch.at, body=answer)
    raw.execute(_REMEMBER, (batch.space, key, digest, answer, first, last, batch.at, check))
    return Committed(first, last, answer=answer)


def _find_answered(raw: Raw, batch: Batch) -> Committed | None:
    if batch.idempotency is None:
        return None
    key = batch.idempotency.key
    row = raw.execute(_ANSWERED, (batch.space, key)).fetchone()
    if row is None:
        return None
    digest, answer, first, last, at, check = row
    if rows.check_of(batch.space, key, digest, first, last, at, body=answer) != check:
        raise StoreCorrupt(what="an idempotency record")
    if digest != batch.idempotency.digest:
        raise IdempotencyConflict
    return Committed(first, last, replayed=True, answer=answer)


def _insert_of(space: str, put: Put) -> tuple[str, str, str, bytes, bytes]:
    collection, key = put.ref
    return space, collection, key, put.body, rows.check_of(space, collection, key, 1, body=put.body)


def _update_of(space: str, put: Put) -> tuple[int, bytes, bytes, str, str, str, int]:
    collection, key = put.ref
    check = rows.check_of(space, collection, key, put.expects + 1, body=put.body)
    return put.expects + 1, put.body, check, space, collection, key, put.expects


def _require(raw: Raw, space: str, ref: Ref, expected: int) -> None:
    found = _revision(raw, space, ref)
    if found != expected:
        raise Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected, found=found)


def _revision(raw: Raw, space: str, ref: Ref) -> int:
    row = raw.execute(_REVISION, (space, *ref)).fetchone()
    return 0 if row is None else row[0]
