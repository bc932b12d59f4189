"""Opening a store file: it is created or recognised, brought to the last schema, and its manifest matched."""

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from elytron_core.clock import Instant
from elytron_core.errors import StoreBusy, StoreForeign, StoreFull, StoreReadOnly, StoreUnavailable
from elytron_store import limits as store_limits
from elytron_store.engine import WriteDurability
from elytron_store.manifest import DEFAULT_PROFILE, StoreManifest, is_folder, read_manifest, require_match
from elytron_store.sqlite import blobs
from elytron_store.sqlite.driver import (
    ERRORS,
    FileAccess,
    FilePlace,
    JournalMode,
    Raw,
    SqliteLibrary,
    read_snapshot,
    retry_while_held,
    sqlite_library,
    translate_error,
    write_transaction,
)
from elytron_store.sqlite.schema import PAGE_BYTES, STEPS, Step, migrate_schema, page_bytes, recognise_schema

_CACHE_KIB = 16_384
_MANIFEST = "SELECT body FROM manifest WHERE name = 'store'"


@dataclass(frozen=True, slots=True)
class WantedStore:
    """Request of a caller of `open`."""

    path: Path
    at: Instant
    profile: str | None
    sealed: bool
    durability: WriteDurability
    library: SqliteLibrary = field(default_factory=sqlite_library)
    steps: Sequence[Step] = STEPS
    busy_wait_s: float = store_limits.BUSY_WAIT_S


def create_file(path: Path, /) -> None:
    """Make an empty file that only its owner may read, unless there is one. Raises StoreUnavailable."""
    try:
        if is_folder(path):
            raise StoreUnavailable(f"{str(path)!r} is a folder: name a file in it, or use file: for a file store")
        # Never opened when it exists: closing it would take the locks of other handles in this process with it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileNotFoundError:
        raise StoreUnavailable(f"the folder of {str(path)!r} does not exist: create it") from None
    except OSError as error:
        raise StoreUnavailable(f"{str(path)[:200]!r} cannot be created: {error.strerror}") from error


def is_read_only(path: Path, /) -> bool:
    """Return whether `path` is a file that this process may not write: another user's, or on a read-only medium."""
    try:
        is_file = path.is_file()
    except OSError:  # no place that can be looked at: opening it will say why
        return False
    return is_file and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def read_only_refusal() -> StoreReadOnly:
    """Return the message for a change of a read-only file; the caller may be remote, and gets no path."""
    return StoreReadOnly("this store can only be read here: have its file and folder made writable, or copy it")


def connect_writer(library: SqliteLibrary, path: Path, /) -> Raw:
    """Return a connection that does not wait in SQLite: `retry_while_held` does, without a whole second's sleep."""
    return library.connect(str(path), wait_s=0.0)


def connect_alone(library: SqliteLibrary, path: Path, /) -> Raw:
    """Return a writer's connection that shares the file with no other, and so keeps the index of its WAL to itself."""
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


def prepare_reading(raw: Raw, wanted: WantedStore, /) -> FileAccess:
    """Look whether the file is a store that matches, and change nothing; return how it is used from now on.

    Raises StoreForeign, StoreNewer, StoreBusy, StoreUnavailable, and StoreReadOnly for a file without a store yet.
    """
    version = _look_up(raw, wanted)
    if not version:
        raise read_only_refusal()
    if version != len(wanted.steps):
        raise StoreUnavailable(f"the store at {str(wanted.path)!r} is older: open it once with write access")
    return FileAccess("delete", wanted.busy_wait_s)


def prepare_file(raw: Raw, wanted: WantedStore, /) -> FileAccess:
    """Make the write connection fit for use and the file a store that matches; return how it is used from now on.

    Nothing is written to a file that is not a store or does not match, and nothing to a store of the last schema.
    Raises StoreForeign, StoreNewer, StoreBusy, StoreUnavailable.
    """
    version = _look_up(raw, wanted)
    raw.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    access = FileAccess(_set_journal_mode(raw, wanted), wanted.busy_wait_s, FilePlace.of(wanted.path))
    # Without a WAL only EXTRA makes the removal of the journal file, which is the commit, survive a power cut.
    full = "FULL" if access.mode == "wal" else "EXTRA"
    raw.execute(f"PRAGMA synchronous = {full if wanted.durability is WriteDurability.FULL else 'NORMAL'}")
    raw.execute("PRAGMA secure_delete = ON")
    raw.execute(f"PRAGMA journal_size_limit = {store_limits.WAL_BYTES}")
    raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    raw.execute(f"PRAGMA wal_autocheckpoint = {store_limits.CHECKPOINT_BYTES // page_bytes(raw)}")
    if version != len(wanted.steps):
        with write_transaction(raw, access):
            migrate_schema(raw, wanted.path, library=wanted.library, steps=wanted.steps)
            if _matching_manifest(raw, wanted) is None:
                _keep_manifest(raw, _new_manifest(wanted))
    return access


def note_opening(raw: Raw, access: FileAccess, at: Instant, /) -> None:
    """Write into the manifest that the store was opened at `at`, and take back uploads that died long before.

    On a device without room it is left as it is: what is stored there can be read all the same.
    """
    try:
        with write_transaction(raw, access):
            row = raw.execute(_MANIFEST).fetchone()
            if row is not None:
                _keep_manifest(raw, read_manifest(row[0]).model_copy(update={"opened_at": at}))
            blobs.sweep_uploads(raw, at - store_limits.UPLOAD_KEEP_MS)
    except ERRORS as error:
        if not isinstance(translate_error(error, doing="opening"), StoreFull):
            raise


def _look_up(raw: Raw, wanted: WantedStore) -> int:
    """Return the schema of the file, 0 for an empty one, whose manifest matches; change nothing."""

    def look() -> int:
        with read_snapshot(raw):  # another process may be making the store
            version = recognise_schema(raw, known=len(wanted.steps))
            if version and _matching_manifest(raw, wanted) is None:
                raise StoreForeign("this store has lost its manifest: restore it from a backup")
            return version

    return retry_while_held(look, wait_s=wanted.busy_wait_s)


def _matching_manifest(raw: Raw, wanted: WantedStore) -> StoreManifest | None:
    """Return the manifest, which matches; None if there is none."""
    row = raw.execute(_MANIFEST).fetchone()
    if row is None:
        return None
    found = read_manifest(row[0])
    require_match(found, engine="sqlite", profile=wanted.profile, sealed=wanted.sealed)
    return found


def _new_manifest(wanted: WantedStore) -> StoreManifest:
    return StoreManifest(
        engine="sqlite",
        profile=wanted.profile or DEFAULT_PROFILE,
        sealed=wanted.sealed,
        created_at=wanted.at,
        opened_at=wanted.at,
    )


def _keep_manifest(raw: Raw, manifest: StoreManifest) -> None:
    raw.execute("INSERT OR REPLACE INTO manifest VALUES ('store', ?)", (manifest.to_bytes(),))


def _set_journal_mode(raw: Raw, wanted: WantedStore) -> JournalMode:
    mode = "WAL" if wanted.library.wal_is_safe else "DELETE"
    try:
        found: str = retry_while_held(
            lambda: raw.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0], wait_s=wanted.busy_wait_s
        )
    except StoreBusy:
        found = raw.execute("PRAGMA journal_mode").fetchone()[0]
    if found == "wal" and not wanted.library.wal_is_safe:
        raise StoreUnavailable("this sqlite store is used by a newer SQLite: close it there, or install pysqlite3 here")
    # A file system without shared memory leaves the rollback journal in place, which is as safe and slower.
    return "wal" if found == "wal" else "delete"


def copy_database(source: Path, target: Path, /) -> StoreManifest:
    """Leave one state of the store `source` at the new file `target`, durable, and return its manifest.

    Bytes that were freed are left behind. Blocks: call it in a worker thread. Raises StoreForeign, StoreNewer,
    StoreBusy, StoreFull, StoreUnavailable.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(connect_reader(sqlite_library(), source, store_limits.BUSY_WAIT_S)) as raw:
            if recognise_schema(raw, known=len(STEPS)) == 0:
                raise StoreForeign("this file holds no store yet: there is nothing to copy")
            raw.execute("PRAGMA query_only = OFF")  # which forbids writing to other files too
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
