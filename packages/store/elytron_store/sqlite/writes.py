"""Writes of the writer connection: commits in groups, each batch applied or refused by itself, and erasure.

After an erasure every page that ever held a row is rewritten, and the journal file is truncated.

Usually no batch of a group is refused. Independent batches are therefore written one table at a time, and their
preconditions are checked by writing. If one fails, the whole group is rolled back and its batches are applied one after
the other, each checked first.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import (
    Conflict,
    ElytronError,
    IdempotencyConflict,
    InvalidInput,
    StoreClosed,
    StoreCorrupt,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    PutChange,
    erasure_entries,
)
from elytron_store import limits as store_limits
from elytron_store.commit_queue import GroupCommitter, Outcome, Work
from elytron_store.engine import row_checksum
from elytron_store.sqlite import blobs, schema
from elytron_store.sqlite.driver import (
    ENGINE,
    ERRORS,
    FileAccess,
    Raw,
    StoreConnection,
    retry_while_held,
    translate_error,
    write_transaction,
)
from elytron_store.sqlite.schema import OF_SPACE, PAD, JournalAppending, create_table, page_bytes
from elytron_store.sqlite.wal_reserve import WalReserve, translate_write_error, truncate_wal

VACUUM_BYTES: Final = 256 * 1024 * 1024
"""Up to this size an erasure rebuilds an SQLite file in memory, above it table by table in the file."""


_NAMING_ENTRIES = (
    "SELECT sequence, at, action, collection, key, covers FROM journal "
    "WHERE space = ? AND digest <> '' AND (collection, key) IN (VALUES {})"
)
# Two parameters each, well below the 32,766 that a statement may have.
_REFS_AT_ONCE = 5_000
_REMAINS = "SELECT body FROM manifest WHERE name = 'remains'"
"""Mark of an erasure whose remains are still to be purged: a process that dies in between leaves them to the next."""
_SCRUB = "UPDATE journal SET digest = '', \"check\" = ? WHERE space = ? AND sequence = ?"


def erase_rows(raw: Raw, access: FileAccess, erasure: ErasureTarget, /) -> ErasureReceipt:
    """Remove what `erasure` names in one transaction; `purge_file` then removes its remains, at the next opening at the
    latest.

    Raises StoreCorrupt where the space's head cannot be read.
    """
    with write_transaction(raw, access):
        raw.execute("INSERT OR REPLACE INTO manifest VALUES ('remains', ?)", (os.urandom(16),))
        return _erase_space(raw, erasure.space) if erasure.whole_space else _erase_named(raw, erasure)


def drop_space(raw: Raw, access: FileAccess, erasure: ErasureTarget, /) -> ErasureReceipt:
    """Remove a whole space as `erase_rows` does, on a device without the room to overwrite its pages.

    A table that only this space uses is emptied without writing to its pages, which `VACUUM` then cuts off the file.
    Raises StoreFull above `VACUUM_BYTES`, where free pages stay in the file.
    """
    if raw.execute("PRAGMA page_count").fetchone()[0] * page_bytes(raw) > VACUUM_BYTES:
        raise StoreFull(engine=ENGINE)
    raw.execute("PRAGMA secure_delete = OFF")
    try:
        return erase_rows(raw, access, erasure)
    finally:
        raw.execute("PRAGMA secure_delete = ON")


def purge_file(raw: Raw, access: FileAccess, /, *, whole_space: bool = True) -> None:
    """Remove every byte from the file that no row uses. Raises StoreBusy while a reader holds an older state.

    `secure_delete` alone is not enough: when SQLite rebuilds a page to balance a tree, copies of its rows stay behind
    in the page's free room, and outlive the rows. So the tables are rewritten and their old pages overwritten: in
    memory if the file has up to `VACUUM_BYTES`, else in the file. In the latter case the tables with blobs are skipped
    unless a whole space was erased: their bytes are on separate pages, which are overwritten as they are freed.
    """
    remains_row = retry_while_held(lambda: raw.execute(_REMAINS).fetchone(), wait_s=access.busy_wait_s)
    # Even reading the page count needs a lock, which a commit of others holds if there is no WAL.
    pages: int = retry_while_held(lambda: raw.execute("PRAGMA page_count").fetchone()[0], wait_s=access.busy_wait_s)
    if pages * page_bytes(raw) <= VACUUM_BYTES:
        retry_while_held(lambda: raw.execute("VACUUM"), wait_s=access.busy_wait_s)
    else:
        skipped_tables: set[str] = set() if whole_space else {"chunks", "quarantine"}
        for name in (name for name in OF_SPACE if name not in skipped_tables):
            with write_transaction(raw, access):
                _rebuild_table(raw, name)
    if remains_row is not None:
        with write_transaction(raw, access):  # the mark of a later erasure is another one, and stays
            raw.execute("DELETE FROM manifest WHERE name = 'remains' AND body = ?", remains_row)
    truncate_wal(raw, wait_s=access.busy_wait_s)


def purge_remains(raw: Raw, access: FileAccess, /) -> None:
    """Finish an interrupted erasure. Raises StoreBusy and StoreFull: the next opening does it."""
    try:
        if raw.execute(_REMAINS).fetchone() is not None:
            purge_file(raw, access)
    except ERRORS as error:
        raise translate_error(error, doing="opening") from error


def _rebuild_table(raw: Raw, name: str) -> None:
    """Rewrite the table `name`, row by row, and free its old pages, which overwrites them."""
    raw.execute(create_table(name, name=f"fresh_{name}"))
    # Padding made for another order of the table may be too short for this one.
    columns = f'space, upload, part, "check", {PAD}, bytes' if name == "chunks" else "*"
    raw.execute(f"INSERT INTO fresh_{name} SELECT {columns} FROM {name}")  # noqa: S608 - our own names
    raw.execute(f"DROP TABLE {name}")
    raw.execute(f"ALTER TABLE fresh_{name} RENAME TO {name}")
    if name == "documents":
        schema.index_queues(raw)


def _erase_space(raw: Raw, space: str) -> ErasureReceipt:
    # An unfinished upload of another process is no blob yet, and is removed with the rest.
    row_counts: dict[str, int] = {}
    for name in OF_SPACE:
        is_shared = raw.execute(f"SELECT 1 FROM {name} WHERE space <> ? LIMIT 1", (space,)).fetchone()  # noqa: S608 - ours
        # Without a condition SQLite frees the pages of a table without overwriting them.
        condition, values = (" WHERE space = ?", (space,)) if is_shared else ("", ())
        row_counts[name] = raw.execute(f"DELETE FROM {name}{condition}", values).rowcount  # noqa: S608 - ours
    return ErasureReceipt(
        documents=row_counts["documents"], blobs=row_counts["blobs"], entries_scrubbed=row_counts["journal"], sequence=0
    )


def _erase_named(raw: Raw, erasure: ErasureTarget) -> ErasureReceipt:
    space = erasure.space
    refs = list(dict.fromkeys(erasure.refs))
    documents = scrubbed_count = 0
    for ref in refs:
        document_place = (space, *ref)
        cursor = raw.execute("DELETE FROM documents WHERE space = ? AND collection = ? AND key = ?", document_place)
        documents += cursor.rowcount
        raw.execute("DELETE FROM quarantine WHERE space = ? AND collection = ? AND key = ?", document_place)
    for start in range(0, len(refs), _REFS_AT_ONCE):
        scrubbed_count += _scrub_digests(raw, space, refs[start : start + _REFS_AT_ONCE])
    removed_blobs = sum(_erase_blob(raw, space, key) for key in dict.fromkeys(erasure.blobs))
    journal_appending = JournalAppending(raw)
    entries = erasure_entries(erasure, after=0)
    drafts = tuple(EntryDraft(entry.action, entry.ref) for entry in entries)
    _, sequence = journal_appending.append(Batch(space=space, at=erasure.at, entries=drafts))
    journal_appending.finish()
    return ErasureReceipt(documents=documents, blobs=removed_blobs, entries_scrubbed=scrubbed_count, sequence=sequence)


def _scrub_digests(raw: Raw, space: str, refs: Sequence[DocumentRef]) -> int:
    """Remove the digests from the entries that name `refs`; return how many had one."""
    query = _NAMING_ENTRIES.format(",".join(["(?,?)"] * len(refs)))
    rows = raw.execute(query, (space, *(part for ref in refs for part in ref))).fetchall()
    raw.executemany(
        _SCRUB,
        [
            (row_checksum(space, sequence, at, action, collection, key, "", covers), space, sequence)
            for sequence, at, action, collection, key, covers in rows
        ],
    )
    return len(rows)


def _erase_blob(raw: Raw, space: str, key: str) -> int:
    """Delete a blob with its uploads and quarantined rows; return the number of deleted blobs."""
    place = (space, key)
    removed_count = 0
    for table, where in (("blobs", "key = ?"), ("uploads", "key = ?"), ("quarantine", "collection = '' AND key = ?")):
        rows = raw.execute(f"SELECT upload FROM {table} WHERE space = ? AND {where}", place).fetchall()  # noqa: S608 - ours
        for (upload,) in rows:
            blobs.drop_chunks(raw, space, upload)
        raw.execute(f"DELETE FROM {table} WHERE space = ? AND {where}", place)  # noqa: S608 - ours
        removed_count += len(rows) if table == "blobs" else 0
    return removed_count


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


class _FailedPrecondition(Exception):
    """A precondition of a group does not hold."""


def apply_group(raw: Raw, access: FileAccess, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    """Apply `batches` in order and commit them with one flush; return each outcome for its caller.

    A rejected batch changes nothing and does not affect others. Raises the driver's error if nothing was committed.
    """
    try:
        try:
            return _apply_at_once(raw, access, batches)
        except (_FailedPrecondition, Conflict, StoreCorrupt):
            return _apply_in_turn(raw, access, batches)
    except (OverflowError, UnicodeError, *ERRORS) as error:
        is_driver_error = isinstance(error, ERRORS)
        if len(batches) == 1 and not is_driver_error:
            return [InvalidInput(field="batch", problem="contains a number or text that cannot be stored")]
        if len(batches) == 1 or (
            is_driver_error and not isinstance(translate_error(error, doing="committing"), StoreCorrupt)
        ):
            raise
    # One of them carries what cannot be stored, or touches damage: applied separately, each finds out for itself.
    return [outcome for batch in batches for outcome in _apply_alone(raw, access, batch)]


def forget_answers(raw: Raw, access: FileAccess, before: int, /) -> None:
    """Drop the idempotency records whose batch is older than `before`."""
    with write_transaction(raw, access):
        raw.execute(_FORGET, (before,))


def _apply_alone(raw: Raw, access: FileAccess, batch: Batch, /) -> Sequence[Outcome]:
    try:
        return apply_group(raw, access, [batch])
    except ERRORS as error:
        refusal = translate_error(error, doing="committing")
        if not isinstance(refusal, StoreCorrupt):
            raise
        return [refusal]


class _BatchRun:
    """Consecutive, independent batches: none changes, requires or answers under what another does."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.batches: list[Batch] = []
        self.inserts: list[tuple[str, str, str, bytes, bytes]] = []
        self.updates: list[tuple[int, bytes, bytes, str, str, str, int]] = []
        self.deletes: list[tuple[str, str, str, int]] = []
        self._touched: set[tuple[str, DocumentRef | str]] = set()

    def take(self, batch: Batch, /) -> bool:
        """Add `batch`, unless it touches what is already changed here; return whether it was added."""
        if not self._stands_apart(batch):
            return False
        space = batch.space
        self.batches.append(batch)
        for change in batch.puts:
            if change.expects:
                self.updates.append(_update_of(space, change))
            else:
                self.inserts.append(_insert_of(space, change))
        for delete in batch.deletes:
            collection, key = delete.ref
            self.deletes.append((space, collection, key, delete.expects))
        return True

    def _stands_apart(self, batch: Batch) -> bool:
        """Return whether no batch so far touches the documents of `batch`, and record those."""
        # A batch alone in its group has no other to touch.
        if self._most == 1:
            return True
        space = batch.space
        touched_refs: set[tuple[str, DocumentRef | str]] = {(space, change.ref) for change in batch.puts}
        if batch.deletes:
            touched_refs.update([(space, delete.ref) for delete in batch.deletes])
        if batch.idempotency is not None:
            touched_refs.add((space, batch.idempotency.key))
        if not self._touched.isdisjoint(touched_refs):
            return False
        # A requirement is not recorded: all are checked before any change, so a later put does them no harm.
        if batch.requires and not self._touched.isdisjoint(
            [(space, requirement.ref) for requirement in batch.requires]
        ):
            return False
        self._touched |= touched_refs
        return True

    def write(self, raw: Raw, journal_appending: JournalAppending, /) -> Sequence[CommitReceipt]:
        """Write everything, a table at a time. Raises _FailedPrecondition, Conflict, StoreCorrupt on a rejection."""
        for batch in self.batches:
            if _find_answered(raw, batch) is not None:
                raise _FailedPrecondition
            for demand in batch.requires:
                _require_revision(raw, batch.space, demand.ref, demand.revision)
        for statement, changes in ((_INSERT, self.inserts), (_UPDATE, self.updates), (_DELETE, self.deletes)):
            if changes and raw.executemany(statement, changes).rowcount != len(changes):
                raise _FailedPrecondition
        return [_append_batch(raw, journal_appending, batch) for batch in self.batches]


def _batch_runs(batches: Sequence[Batch]) -> Sequence[_BatchRun]:
    batch_runs = [_BatchRun(most=len(batches))]
    for batch in batches:
        if not batch_runs[-1].take(batch):
            batch_runs.append(_BatchRun(most=len(batches)))
            batch_runs[-1].take(batch)
    return batch_runs


def _apply_at_once(raw: Raw, access: FileAccess, batches: Sequence[Batch], /) -> Sequence[CommitReceipt]:
    """Apply `batches`, all or none. Raises _FailedPrecondition, Conflict, StoreCorrupt if one of them is rejected."""
    # Work without the lock is done before others have to wait for it.
    batch_runs = _batch_runs(batches)
    with write_transaction(raw, access):
        journal_appending = JournalAppending(raw)
        outcomes = [outcome for stretch in batch_runs for outcome in stretch.write(raw, journal_appending)]
        journal_appending.finish()
    return outcomes


def _apply_in_turn(raw: Raw, access: FileAccess, batches: Sequence[Batch], /) -> Sequence[Outcome]:
    """Apply `batches` one after the other; rejected ones leave nothing behind."""
    outcomes: list[Outcome] = []
    with write_transaction(raw, access):
        journal_appending = JournalAppending(raw)
        for batch in batches:
            try:
                outcomes.append(_find_answered(raw, batch) or _apply_batch(raw, journal_appending, batch))
            except (Conflict, StoreCorrupt) as refusal:
                outcomes.append(refusal)
        journal_appending.finish()
    return outcomes


def _apply_batch(raw: Raw, appending: JournalAppending, batch: Batch) -> CommitReceipt:
    """Apply `batch`. Raises Conflict and StoreCorrupt before anything is written."""
    space = batch.space
    changes: tuple[PutChange | DeleteChange, ...] = (*batch.puts, *batch.deletes)
    for change in changes:
        _require_revision(raw, space, change.ref, change.expects)
    for demand in batch.requires:
        _require_revision(raw, space, demand.ref, demand.revision)
    # A damaged head is found before anything is written.
    appending.head(space)
    for change in changes:
        (collection, key), expects = change.ref, change.expects
        if isinstance(change, DeleteChange):
            raw.execute(_DELETE, (space, collection, key, expects))
        elif expects:
            raw.execute(_UPDATE, _update_of(space, change))
        else:
            raw.execute(_INSERT, _insert_of(space, change))
    return _append_batch(raw, appending, batch)


def _append_batch(raw: Raw, appending: JournalAppending, batch: Batch) -> CommitReceipt:
    """Write the entries of `batch`, and store its answer."""
    first_sequence, last_sequence = appending.append(batch)
    if batch.idempotency is None:
        return CommitReceipt(first_sequence, last_sequence)
    key, digest, answer = batch.idempotency.key, batch.idempotency.digest, batch.idempotency.answer
    check = row_checksum(batch.space, key, digest, first_sequence, last_sequence, batch.at, body=answer)
    raw.execute(_REMEMBER, (batch.space, key, digest, answer, first_sequence, last_sequence, batch.at, check))
    return CommitReceipt(first_sequence, last_sequence, answer=answer)


def _find_answered(raw: Raw, batch: Batch) -> CommitReceipt | None:
    if batch.idempotency is None:
        return None
    key = batch.idempotency.key
    row = raw.execute(_ANSWERED, (batch.space, key)).fetchone()
    if row is None:
        return None
    digest, answer, first_sequence, last_sequence, at, check = row
    if row_checksum(batch.space, key, digest, first_sequence, last_sequence, at, body=answer) != check:
        raise StoreCorrupt(what="an idempotency record")
    if digest != batch.idempotency.digest:
        raise IdempotencyConflict
    return CommitReceipt(first_sequence, last_sequence, replayed=True, answer=answer)


def _insert_of(space: str, change: PutChange) -> tuple[str, str, str, bytes, bytes]:
    collection, key = change.ref
    return space, collection, key, change.body, row_checksum(space, collection, key, 1, body=change.body)


def _update_of(space: str, change: PutChange) -> tuple[int, bytes, bytes, str, str, str, int]:
    collection, key = change.ref
    check = row_checksum(space, collection, key, change.expects + 1, body=change.body)
    return change.expects + 1, change.body, check, space, collection, key, change.expects


def _require_revision(raw: Raw, space: str, ref: DocumentRef, expected: int) -> None:
    revision = _stored_revision(raw, space, ref)
    if revision != expected:
        raise Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected, found=revision)


def _stored_revision(raw: Raw, space: str, ref: DocumentRef) -> int:
    row = raw.execute(_REVISION, (space, *ref)).fetchone()
    return 0 if row is None else row[0]


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class WriteConnection:
    """The write connection, which its creator closes after `finish`.

    Nothing is written once a write failed at the device, or if all writing is `refused`.
    """

    def __init__(
        self,
        connection: StoreConnection,
        /,
        *,
        clock: Clock,
        access: FileAccess,
        room: WalReserve,
        refused: StoreReadOnly | None = None,
    ) -> None:
        self.connection = connection
        self._room = room
        self._clock = clock
        self._access = access
        self._answers = 0
        self._beside: set[object] = set()
        """The thread's work in addition to commits."""
        self._failed: StoreFailed | StoreReadOnly | None = refused
        self._group = GroupCommitter(self._apply, engine=ENGINE, submit=connection.give, between=self._between)

    @property
    def takes_writes(self) -> bool:
        """True if no write has failed at the device, and none is refused."""
        return self._failed is None

    @property
    def is_resting(self) -> bool:
        """True if the thread is idle, and all callers of written batches have their answers or are gone."""
        return not self._beside and self._group.is_resting

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Return the outcome of `batch` once it is durable; waiting ones share a flush."""
        return await self._group.commit(batch)

    async def run(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function`, which manages its own transactions, on the write connection."""
        work_token = object()

        def call(raw: Raw) -> T:
            try:
                return self._guard(lambda: function(raw, *args), doing="writing")
            finally:
                self._beside.discard(work_token)

        self._beside.add(work_token)
        return await self.connection.call(call)

    async def remove(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` as `run` does; if the device is full, with the room of the WAL, then of the reserve."""

        def call(raw: Raw) -> T:
            def attempt() -> T:
                try:
                    return function(raw, *args)
                except ERRORS as error:
                    refusal = translate_write_error(error, self._access.place, doing="erasing")
                    if isinstance(refusal, StoreFull):
                        raise refusal from error
                    raise

            return self._room.lend(raw, attempt, wait_s=self._access.busy_wait_s)

        return await self.run(call)

    async def change(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` on the write connection in a separate transaction."""
        access = self._access

        def call(raw: Raw) -> T:
            # A staged blob is rolled back on a full device too.
            refusal = self._refusal(raw) if function is not blobs.discard_upload else None
            if refusal is not None:
                raise refusal
            with write_transaction(raw, access):
                return function(raw, *args)

        return await self.run(call)

    def others(self) -> int | None:
        """Return a number that changes when other connections have committed; None while the thread is working."""
        # A connection serves one thread at a time, so it is used here only while its own thread is idle.
        if not self.is_resting:
            return None
        try:
            version: int = self.connection.require_raw().execute("PRAGMA data_version").fetchall()[0][0]
        except (StoreClosed, *ERRORS):
            return None
        return version

    async def finish(self) -> None:
        """Finish accepted work, and shrink the file."""
        await self._group.close()
        # Best effort: a store closed without these is whole, only larger.
        with suppress(ElytronError, *ERRORS):
            if self._answers:
                await self.connection.call(forget_answers, self._access, self._expired())
            if self._access.mode == "wal":
                # A close does not wait for readers: the next opening cuts the file too.
                await self.connection.call(self._room.empty_wal)

    def _expired(self) -> int:
        return self._clock.now() - limits.IDEMPOTENCY_KEEP_MS

    def _apply(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """Write a group; runs on the writer's thread."""
        raw = self.connection.require_raw()
        try:
            outcomes = self._room.reserve.commit(batches, partial(self._apply_in_room, raw), self._refusal(raw))
        except ElytronError:
            raise
        # After any surprise it is unknown how much reached the device, so this handle writes no more.
        except Exception as error:
            self._failed = StoreFailed(engine=ENGINE, doing="committing")
            raise self._failed from error
        self._answers += sum(batch.idempotency is not None for batch in batches)
        return outcomes

    def _apply_in_room(self, raw: Raw, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """Write `batches`, retrying if the WAL took the room that they need."""
        write_batches = partial(self._guard, lambda: apply_group(raw, self._access, batches), doing="committing")
        try:
            return write_batches()
        except StoreFull:
            if all(batch.takes_back for batch in batches):
                self._room.empty_for_erasing(raw, wait_s=0.0)
            elif not self._room.empty_wal(raw):
                raise
        return write_batches()

    def _refusal(self, raw: Raw) -> StoreFull | None:
        return None if self._failed is not None else self._room.refusal(raw)

    def _between(self) -> Work | None:
        if self._answers < store_limits.FORGET_EVERY:
            return None
        self._answers = 0
        raw = self.connection.require_raw()
        return lambda: forget_answers(raw, self._access, self._expired())

    def _guard(self, write: Callable[[], T], /, *, doing: str) -> T:
        """Return the result of `write`; runs on the writer's thread. Nothing is written once a write failed.

        It is unknown what part of the failed one reached the device.
        """
        if self._failed is not None:
            raise self._failed
        try:
            return write()
        except ERRORS as error:
            refusal = translate_write_error(error, self._access.place, doing=doing)
            if isinstance(refusal, StoreFailed):
                self._failed = refusal
            raise refusal from error
