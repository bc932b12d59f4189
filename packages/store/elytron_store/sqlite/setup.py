"""Opening and checking a store file: created or recognised, migrated to the latest schema, its manifest matched.

A check reads everything and reports damage without content; a repair quarantines damaged rows.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import StoreBusy, StoreForeign, StoreFull, StoreReadOnly, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store_checks import CheckReport, CheckTally, DamageKind, StoreProblem
from elytron_store import limits as store_limits
from elytron_store.disk_reserve import DEFAULT_BOUNDS, DeviceBounds, file_bytes, free_bytes
from elytron_store.engine import WriteDurability, row_checksum
from elytron_store.losses import quarantined_losses
from elytron_store.manifest import StoreManifest, is_folder, read_manifest, require_match
from elytron_store.private_files import create_empty
from elytron_store.sqlite import blobs, quarantine
from elytron_store.sqlite.driver import (
    ERRORS,
    FileAccess,
    FilePlace,
    JournalMode,
    Raw,
    SqliteLibrary,
    path_beside,
    read_snapshot,
    retry_while_held,
    sqlite_library,
    translate_error,
    write_transaction,
)
from elytron_store.sqlite.schema import PAGE_BYTES, STEPS, Step, migrate_schema, page_bytes, recognise_schema
from elytron_store.sqlite.wal_reserve import translate_write_error

_CACHE_KIB = 16_384
_MANIFEST = "SELECT body FROM manifest WHERE name = 'store'"


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """Options of a caller of `open`."""

    path: Path
    at: Instant
    profile: str | None
    sealed: bool
    durability: WriteDurability
    library: SqliteLibrary = field(default_factory=sqlite_library)
    steps: Sequence[Step] = STEPS
    busy_wait_s: float = store_limits.BUSY_WAIT_S
    bounds: DeviceBounds = DEFAULT_BOUNDS


def create_file(path: Path, /) -> None:
    """Create an empty file that only its owner may read, unless there is one. Raises StoreUnavailable."""
    try:
        if is_folder(path):
            raise StoreUnavailable(f"{str(path)!r} is a folder: name a file in it, or use file: for a file store")
        # Never opened if it exists: closing it would drop the locks of other handles in this process.
        with suppress(FileExistsError):
            create_empty(path)
    except FileNotFoundError:
        raise StoreUnavailable(f"the folder of {str(path)!r} does not exist: create it") from None
    except OSError as error:
        raise StoreUnavailable(f"{str(path)[:200]!r} cannot be created: {error.strerror}") from error


def is_read_only(path: Path, /) -> bool:
    """Return whether `path` is a file that this process may not write: another user's, or on a read-only medium."""
    try:
        is_file = path.is_file()
    except OSError:  # not accessible: opening it will say why
        return False
    return is_file and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def read_only_refusal() -> StoreReadOnly:
    """Return the message for a change of a read-only file; the caller may be remote, and gets no path."""
    return StoreReadOnly("this store is read-only here: make its file and folder writable, or copy it")


def connect_writer(library: SqliteLibrary, path: Path, /) -> Raw:
    """Return a connection that does not wait in SQLite: `retry_while_held` does, without sleeping a whole second."""
    return library.connect(str(path), wait_s=0.0)


def connect_alone(library: SqliteLibrary, path: Path, /) -> Raw:
    """Return a write connection that shares the file with no other, and so keeps the WAL's index private."""
    raw = connect_writer(library, path)
    raw.execute("PRAGMA locking_mode = EXCLUSIVE")
    return raw


def connect_reader(library: SqliteLibrary, path: Path, busy_wait_s: float, /) -> Raw:
    """Return a connection that cannot write, and waits for a lock as long as it may."""
    if is_read_only(path):
        raw = library.connect_reading(path, wait_s=busy_wait_s)
    else:
        raw = library.connect(str(path), wait_s=busy_wait_s)
    raw.execute("PRAGMA query_only = ON")
    return raw


def prepare_reading(raw: Raw, options: SqliteOptions, /) -> FileAccess:
    """Check whether the file is a matching store without changing anything; return how to use it.

    Raises StoreForeign, StoreNewer, StoreBusy, StoreUnavailable, and StoreReadOnly for a file without a store yet.
    """
    version = _look_up(raw, options)
    if not version:
        raise read_only_refusal()
    if version != len(options.steps):
        raise StoreUnavailable(
            f"the store at {str(options.path)!r} has an older format: open it once with write access"
        )
    return FileAccess("delete", options.busy_wait_s)


def prepare_file(raw: Raw, options: SqliteOptions, /) -> FileAccess:
    """Prepare the write connection and make the file a matching store; return how to use it.

    Nothing is written to a file that is not a store or does not match, and nothing to a store of the latest schema.
    Raises StoreForeign, StoreNewer, StoreBusy, StoreUnavailable.
    """
    version = _look_up(raw, options)
    raw.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    access = FileAccess(_set_journal_mode(raw, options), options.busy_wait_s, FilePlace.of(options.path))
    # Without a WAL only EXTRA makes the removal of the journal file, which is the commit, survive a power cut.
    synchronous_mode = "FULL" if access.mode == "wal" else "EXTRA"
    raw.execute(f"PRAGMA synchronous = {synchronous_mode if options.durability is WriteDurability.FULL else 'NORMAL'}")
    # Freed pages are overwritten: an erasure promises that no byte is left.
    raw.execute("PRAGMA secure_delete = ON")
    wal_bytes = _wal_limit(options)
    raw.execute(f"PRAGMA journal_size_limit = {wal_bytes}")
    raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    raw.execute(f"PRAGMA wal_autocheckpoint = {max(1, wal_bytes // page_bytes(raw))}")
    if version != len(options.steps):
        with write_transaction(raw, access):
            migrate_schema(raw, options.path, library=options.library, steps=options.steps)
            # In the same transaction, so that no store has tables and no manifest.
            if _matching_manifest(raw, options) is None:
                fresh_manifest = StoreManifest.fresh(
                    "sqlite", at=options.at, profile=options.profile, sealed=options.sealed
                )
                _keep_manifest(raw, fresh_manifest)
    return access


def note_opening(raw: Raw, access: FileAccess, at: Instant, /) -> None:
    """Record in the manifest that the store was opened at `at`, and remove uploads that died long before.

    On a full device it is left unchanged: stored content can still be read.
    """
    try:
        with write_transaction(raw, access):
            row = raw.execute(_MANIFEST).fetchone()
            if row is not None:
                _keep_manifest(raw, read_manifest(row[0]).model_copy(update={"opened_at": at}))
            blobs.sweep_uploads(raw, at - store_limits.UPLOAD_KEEP_MS)
    except ERRORS as error:
        if not isinstance(translate_write_error(error, access.place, doing="opening"), StoreFull):
            raise


def _wal_limit(options: SqliteOptions) -> int:
    """Return the limit of the WAL, by the device's room for this store's accompanying files."""
    available_bytes = free_bytes(options.path.parent)
    beside_bytes = sum(file_bytes(path_beside(options.path, kind)) for kind in ("wal", "reserve"))
    return (
        options.bounds.wal_bytes
        if available_bytes is None
        else options.bounds.wal_limit(available_bytes + beside_bytes)
    )


def _look_up(raw: Raw, options: SqliteOptions) -> int:
    """Return the schema of the file, 0 for an empty one, whose manifest matches; change nothing."""

    def look() -> int:
        with read_snapshot(raw):  # another process may be creating the store
            version = recognise_schema(raw, latest_version=len(options.steps))
            if version and _matching_manifest(raw, options) is None:
                raise StoreForeign("this store has lost its manifest: restore it from a backup")
            return version

    return retry_while_held(look, wait_s=options.busy_wait_s)


def _matching_manifest(raw: Raw, options: SqliteOptions) -> StoreManifest | None:
    """Return the matching manifest; None if there is none."""
    row = raw.execute(_MANIFEST).fetchone()
    if row is None:
        return None
    manifest = read_manifest(row[0])
    require_match(manifest, engine="sqlite", profile=options.profile, sealed=options.sealed)
    return manifest


def _keep_manifest(raw: Raw, manifest: StoreManifest) -> None:
    raw.execute("INSERT OR REPLACE INTO manifest VALUES ('store', ?)", (manifest.to_bytes(),))


def _set_journal_mode(raw: Raw, options: SqliteOptions) -> JournalMode:
    mode = "WAL" if options.library.wal_is_safe else "DELETE"
    try:
        current_mode: str = retry_while_held(
            lambda: raw.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0], wait_s=options.busy_wait_s
        )
    except StoreBusy:
        # Others use the file in its current mode, so that one is kept.
        current_mode = raw.execute("PRAGMA journal_mode").fetchone()[0]
    if current_mode == "wal" and not options.library.wal_is_safe:
        raise StoreUnavailable("this sqlite store is used by a newer SQLite: close it there, or install pysqlite3 here")
    # A file system without shared memory leaves the rollback journal in place, which is as safe and slower.
    return "wal" if current_mode == "wal" else "delete"


def copy_database(source: Path, target: Path, /) -> StoreManifest:
    """Write a consistent copy of the store `source` to the new file `target`, durably, and return its manifest.

    Freed bytes are not copied. Blocks: call it in a worker thread. Raises StoreForeign, StoreNewer, StoreBusy,
    StoreFull, StoreUnavailable.
    """
    create_empty(target)
    try:
        with closing(connect_reader(sqlite_library(), source, store_limits.BUSY_WAIT_S)) as raw:
            if recognise_schema(raw, latest_version=len(STEPS)) == 0:
                raise StoreForeign("this file contains no store yet: there is nothing to copy")
            raw.execute("PRAGMA query_only = OFF")  # it would forbid writing to other files too
            raw.execute("VACUUM INTO ?", (str(target),))
        with closing(connect_reader(sqlite_library(), target, store_limits.BUSY_WAIT_S)) as raw:
            row = raw.execute("SELECT body FROM manifest WHERE name = 'store'").fetchone()
    except ERRORS as error:
        raise translate_error(error, doing="copying") from error
    if row is None:
        raise StoreForeign("this store has lost its manifest: restore it from a backup")
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    return read_manifest(row[0])


_DOCUMENTS = 'SELECT space, collection, key, revision, body, "check" FROM documents'
_ENTRIES = (
    'SELECT space, sequence, at, action, collection, key, digest, covers, "check" FROM journal ORDER BY space, sequence'
)
_HEADS = 'SELECT space, sequence, "check" FROM heads'
_BLOBS = 'SELECT space, key, upload, parts, size, "check" FROM blobs'


class FoundDamage(NamedTuple):
    """A problem, and the location of the damaged row if it can be quarantined."""

    problem: StoreProblem
    place: tuple[str, str, str] | None = None


@dataclass(slots=True)
class _PassTally(CheckTally):
    """Findings of a pass."""

    damage: list[FoundDamage] = field(default_factory=list[FoundDamage])


def check_database(raw: Raw, /) -> CheckReport:
    """Read everything in one consistent state and report damage; change nothing."""
    with read_snapshot(raw):
        tally = _read_all(raw)
    return tally.report([row.problem for row in tally.damage])


def repair_database(raw: Raw, access: FileAccess, at: Instant, /) -> CheckReport:
    """Quarantine damaged documents and blobs in one transaction; report all damage."""
    with write_transaction(raw, access):
        tally = _read_all(raw)
        problems = [
            row.problem if row.place is None else quarantine.set_aside(raw, row.problem, row.place, at)
            for row in tally.damage
        ]
        losses = quarantined_losses(problems, at)
        for loss in losses:
            quarantine.record_loss(raw, loss, missing=loss.documents)
    return tally.report(problems, losses=losses)


def _read_all(raw: Raw) -> _PassTally:
    tally = _PassTally()
    for check_part in (_check_engine, _check_documents, _check_journal, _check_blobs):
        try:
            tally.damage.extend(check_part(raw, tally))
        except (*ERRORS, TypeError, ValueError):
            # If SQLite itself fails, or returns values of other types, the rest of that table is unread; the others may
            # be whole.
            description = f"the file, while reading its {check_part.__name__.rpartition('_')[2]}"
            tally.damage.append(FoundDamage(StoreProblem(DamageKind.ENGINE, None, description)))
    return tally


def _check_engine(raw: Raw, _: _PassTally) -> Iterator[FoundDamage]:
    for (report_line,) in raw.execute(f"PRAGMA integrity_check({limits.PROBLEMS_MAX})"):
        if report_line != "ok":
            yield FoundDamage(StoreProblem(DamageKind.ENGINE, None, str(report_line).partition("\n")[0]))


def _check_documents(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    for space, collection, key, revision, body, check in raw.execute(_DOCUMENTS):
        tally.documents += 1
        if row_checksum(space, collection, key, revision, body=body) != check:
            problem = StoreProblem(DamageKind.DOCUMENT, SpaceId(space), f"document {collection}/{key}")
            yield FoundDamage(problem, (space, collection, key))


def _check_journal(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    last_sequences: dict[str, int] = {}
    for space, sequence, at, action, collection, key, digest, covers, check in raw.execute(_ENTRIES):
        tally.entries += 1
        last_sequence = last_sequences.get(space, 0)
        is_whole = row_checksum(space, sequence, at, action, collection, key, digest, covers) == check
        if not (isinstance(sequence, int) and isinstance(covers, int)):
            yield FoundDamage(
                StoreProblem(DamageKind.JOURNAL_ENTRY, SpaceId(space), f"journal entry {last_sequence + 1}")
            )
            continue
        if sequence - covers != last_sequence:
            lost_range = f"journal entries {last_sequence + 1} to {sequence - covers}"
            yield FoundDamage(StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), lost_range))
        if not is_whole:
            yield FoundDamage(StoreProblem(DamageKind.JOURNAL_ENTRY, SpaceId(space), f"journal entry {sequence}"))
        last_sequences[space] = sequence
    for space, head_sequence, check in raw.execute(_HEADS):
        tally.spaces += 1
        last_sequence = last_sequences.pop(space, 0)
        if head_sequence != last_sequence or row_checksum(space, head_sequence) != check:
            yield FoundDamage(
                StoreProblem(
                    DamageKind.JOURNAL_GAP, SpaceId(space), f"the head of the journal, which ends at {last_sequence}"
                )
            )
    for space in last_sequences:
        yield FoundDamage(
            StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), "the head of the journal, which is missing")
        )


def _check_blobs(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    for space, key, *row in raw.execute(_BLOBS).fetchall():
        tally.blobs += 1
        if blobs.is_blob_damaged(raw, space, key, (row[0], row[1], row[2], row[3])):
            yield FoundDamage(StoreProblem(DamageKind.BLOB, SpaceId(space), f"blob {key}"), (space, "", key))
