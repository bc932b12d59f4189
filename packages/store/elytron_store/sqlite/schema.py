"""The tables of a store file, its application mark, and the migrations between schemas."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt, StoreForeign, StoreNewer
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    QUEUE,
    Batch,
    CompactedRun,
    DocumentRef,
    JournalAction,
    JournalEntry,
    number_entries,
)
from elytron_store import engine
from elytron_store.engine import row_checksum
from elytron_store.private_files import create_empty, sync_path
from elytron_store.sqlite.driver import FileAccess, Raw, SqliteLibrary, sqlite_library, write_transaction

Row = tuple[str, str, int, bytes, bytes]
"""A document as it is selected: collection, key, revision, body, checksum."""

# Names contain no control characters, so a line break separates them unambiguously.
_ACTIONS = {action.value: action for action in JournalAction}
_WORDS = {action: action.value for action in JournalAction}
EntryRow = tuple[str, int, int, str, str, str, str, int, bytes]
"""A journal entry as it is inserted."""


def entry_row(space: str, entry: JournalEntry, /) -> EntryRow:
    """Return the row of a journal entry."""
    sequence, at, action, (collection, key) = entry.sequence, entry.at, _WORDS[entry.action], entry.ref
    check = row_checksum(space, sequence, at, action, collection, key, entry.digest, entry.covers)
    return space, sequence, at, action, collection, key, entry.digest, entry.covers, check


def journal_row_entries(space: str, rows: Sequence[Any], /, *, after: int) -> Sequence[JournalEntry]:
    """Return the journal entries in `rows`. Raises StoreCorrupt for an altered one and for a gap after `after`."""
    entries: list[JournalEntry] = []
    for sequence, at, action, collection, key, digest, covers, check in rows:
        if row_checksum(space, sequence, at, action, collection, key, digest, covers) != check:
            raise StoreCorrupt(what=f"journal entry {after + 1}")
        # The first may cover a run that contains `after`.
        is_successor = sequence - covers == after if entries else sequence - covers <= after < sequence
        if not is_successor:
            raise StoreCorrupt(what=f"journal entry {after + 1}")
        entries.append(
            JournalEntry(sequence, Instant(at), _ACTIONS[action], DocumentRef(collection, key), digest, covers)
        )
        after = sequence
    return entries


APPLICATION_ID = 0x456C7974
"""`Elyt`, in the file's header."""

PAGE_BYTES = 4_096
"""For a new store; one created with another size keeps it. A commit writes whole pages, and names of turns are
scattered."""
PAD = "zeroblob((SELECT page_size FROM pragma_page_size))"
"""Padding before the bytes of a blob: more than a page stores of a row, so that they are on separate pages."""

Step = Callable[[Raw], None]

TABLES = {
    "documents": """
        space TEXT NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
        revision INTEGER NOT NULL, body BLOB NOT NULL, "check" BLOB NOT NULL,
        PRIMARY KEY (space, collection, key)
    """,
    "journal": """
        space TEXT NOT NULL, sequence INTEGER NOT NULL, at INTEGER NOT NULL, action TEXT NOT NULL,
        collection TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, covers INTEGER NOT NULL,
        "check" BLOB NOT NULL,
        PRIMARY KEY (space, sequence)
    """,
    "heads": """
        space TEXT NOT NULL, sequence INTEGER NOT NULL, "check" BLOB NOT NULL,
        PRIMARY KEY (space)
    """,
    "idempotency": """
        space TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, answer BLOB NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL, "check" BLOB NOT NULL,
        PRIMARY KEY (space, key)
    """,
    "blobs": """
        space TEXT NOT NULL, key TEXT NOT NULL, upload INTEGER NOT NULL,
        parts INTEGER NOT NULL, size INTEGER NOT NULL, "check" BLOB NOT NULL,
        PRIMARY KEY (space, key)
    """,
    "uploads": """
        space TEXT NOT NULL, upload INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY (space, upload)
    """,
    "chunks": """
        space TEXT NOT NULL, upload INTEGER NOT NULL, part INTEGER NOT NULL,
        "check" BLOB NOT NULL, pad BLOB NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (space, upload, part)
    """,
    "quarantine": """
        space TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, damage TEXT NOT NULL,
        collection TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, upload INTEGER NOT NULL,
        pad BLOB NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (space, number)
    """,
    "manifest": "name TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL",
}
_AS_THEY_CAME = frozenset({"documents", "idempotency", "chunks"})
"""Tables whose rows are in insertion order, with a separate index of their keys.

Their keys are random and their rows are long. Sorted by key, each row of a batch would touch another page, and a row
longer than a quarter of a page would take another whole page. To compare its key with another, SQLite would read the
whole row, which for a chunk is 256 KiB. The other tables' rows are short: without row ids those of a space are
adjacent.
"""

OF_SPACE = tuple(name for name in TABLES if name != "manifest")
"""Tables that the erasure of a space empties."""


def create_table(table: str, /, *, name: str) -> str:
    """Return the statement that creates a table like `table` under `name`."""
    order = "" if table in _AS_THEY_CAME else ", WITHOUT ROWID"
    return f"CREATE TABLE {name} ({TABLES[table]}) STRICT{order}"


def create_tables(raw: Raw, /) -> None:
    """Create all tables: the step to schema 1."""
    for table in TABLES:
        raw.execute(create_table(table, name=table))


def rebuild_tables(raw: Raw, /) -> None:
    """Migrate a file of any layout that schema 1 has had to today's tables: the step to schema 2.

    Builds before this step changed tables in place and called all of them schema 1: where rows are, and the journal's
    column `covers`. Raises StoreCorrupt for a layout that none of them wrote, and for a damaged journal entry.
    """
    layouts_by_table = {name: (create_table(name, name=name), _table_columns(raw, name)) for name in TABLES}
    for name, (statement, columns) in layouts_by_table.items():
        row = raw.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).fetchone()
        if row is not None and row[0].replace(f'TABLE "{name}"', f"TABLE {name}") == statement:
            continue
        old_table = f"old_{name}"
        raw.execute(f"ALTER TABLE {name} RENAME TO {old_table}")
        raw.execute(statement)
        fresh_columns = _table_columns(raw, name)
        if columns == fresh_columns:
            raw.execute(f"INSERT INTO {name} SELECT * FROM {old_table}")  # noqa: S608 - our own names
        elif name == "journal" and columns == tuple(column for column in fresh_columns if column != "covers"):
            _copy_journal(raw)
        else:
            raise StoreCorrupt(what=f"the table {name!r} of the sqlite file")
        raw.execute(f"DROP TABLE {old_table}")


def _table_columns(raw: Raw, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in raw.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall())


_OLD_ENTRIES = "SELECT * FROM old_journal WHERE (space, sequence) > (?, ?) ORDER BY space, sequence LIMIT 1000"


def _copy_journal(raw: Raw) -> None:
    """Copy entries written before an entry could cover others: each covers only itself."""
    last_key = ("", 0)
    while rows := raw.execute(_OLD_ENTRIES, last_key).fetchall():
        fresh_rows: list[tuple[object, ...]] = []
        for *place, check in rows:
            if row_checksum(*place) != check:
                raise StoreCorrupt(what=f"journal entry {place[1]}")
            fresh_rows.append((*place, 1, row_checksum(*place, 1)))
        raw.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", fresh_rows)
        last_key = (rows[-1][0], rows[-1][1])


QUEUE_INDEX = f"CREATE INDEX queued ON documents (space) WHERE collection = '{QUEUE}'"
"""Index of the spaces with unfinished jobs. SQLite changes it with the documents, so no commit can omit it."""


def index_queues(raw: Raw, /) -> None:
    """Index the spaces with a queue: the step to schema 3."""
    raw.execute(QUEUE_INDEX)


STEPS: tuple[Step, ...] = (create_tables, rebuild_tables, index_queues)
"""Step `n` leads from schema `n` to `n + 1`; new ones are appended, none is ever changed."""


def create_schema(raw: Raw, /) -> None:
    """Create the schema of an empty store."""
    create_tables(raw)
    index_queues(raw)


def page_bytes(raw: Raw, /) -> int:
    """Return the page size of the file."""
    size: int = raw.execute("PRAGMA page_size").fetchone()[0]
    return size


_RECOGNISED = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
  count(*), count(*) FILTER (WHERE name = 'manifest')
FROM sqlite_schema WHERE type = 'table'
"""
"""Mark of a store. One statement: while another process creates it, several would see a partial state."""


def recognise_schema(raw: Raw, /, *, latest_version: int) -> int:
    """Return the schema of the file, 0 for an empty one; change nothing.

    Raises StoreForeign for a database that is not a store, StoreNewer above `latest_version`.
    """
    application_id: int
    version: int
    application_id, version, tables, manifest_count = raw.execute(_RECOGNISED).fetchone()
    if not tables and not application_id and not version:
        return 0
    if application_id != APPLICATION_ID or (version > 0 and not manifest_count):
        raise StoreForeign("this SQLite file belongs to another program: name another file")
    if version > latest_version:
        raise StoreNewer(found=version, known=latest_version)
    if version == latest_version == len(STEPS) and _schema_text(raw) != _expected_schema():
        raise StoreCorrupt(what="the schema of the sqlite file")
    return version


def _schema_text(raw: Raw) -> frozenset[tuple[str, str, str, str]]:
    """Return the schema of the file as text, without the quotes of renamed tables."""
    rows = raw.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    return frozenset(
        (kind, name, table, sql_text.replace(f'TABLE "{name}"', f"TABLE {name}"))
        for kind, name, table, sql_text in rows
    )


@cache
def _expected_schema() -> frozenset[tuple[str, str, str, str]]:
    with closing(sqlite_library().connect(":memory:", wait_s=0.0)) as raw:
        create_schema(raw)
        return _schema_text(raw)


def migrate_schema(raw: Raw, path: Path, /, *, library: SqliteLibrary, steps: Sequence[Step] = STEPS) -> Path | None:
    """Migrate the file to the latest schema, inside the caller's transaction; return the snapshot taken before.

    An empty file needs no snapshot. The snapshot is next to the store and is the caller's to delete.
    """
    # Again under the lock: another process may have migrated the file since it was checked.
    version = recognise_schema(raw, latest_version=len(steps))
    if version == len(steps):
        return None
    snapshot_path = _keep_copy(path, library=library, version=version) if version else None
    for step in steps[version:]:
        step(raw)
    raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    raw.execute(f"PRAGMA user_version = {len(steps)}")
    return snapshot_path


def _keep_copy(path: Path, /, *, library: SqliteLibrary, version: int) -> Path:
    """Copy the store at `path` to a file next to it, durably, while the caller's lock excludes writers."""
    copy_path = path.with_name(f"{path.name}.schema-{version}.bak")
    # A leftover of an interrupted migration may be incomplete.
    copy_path.unlink(missing_ok=True)
    create_empty(copy_path)
    # SQLite copies through a separate connection: the one that migrates is inside a transaction.
    with closing(library.connect(str(path), wait_s=0.0)) as reader:
        reader.execute("VACUUM INTO ?", (str(copy_path),))
    for synced_path in (copy_path, copy_path.parent):
        sync_path(synced_path)
    return copy_path


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


class JournalAppending:
    """Journal rows of a transaction, which the caller begins and commits."""

    def __init__(self, raw: Raw, /) -> None:
        self._raw = raw
        self._heads: dict[str, int] = {}
        self._moved: set[str] = set()
        self._entries: list[EntryRow] = []

    def head(self, space: str, /) -> int:
        """Return the last sequence assigned in `space`. Raises StoreCorrupt."""
        sequence = self._heads.get(space)
        if sequence is None:
            row = self._raw.execute(_HEAD, (space,)).fetchone()
            sequence = 0 if row is None else row[0]
            if row is not None and row_checksum(space, sequence) != row[1]:
                raise StoreCorrupt(what="the head of a journal")
            self._heads[space] = sequence
        return sequence

    def append(self, batch: Batch, /) -> tuple[int, int]:
        """Prepare the entries of `batch` for writing; return their first and last sequence. Raises StoreCorrupt."""
        space = batch.space
        previous_sequence = last_sequence = self.head(space)
        for entry in number_entries(batch, after=previous_sequence):
            self._entries.append(entry_row(space, entry))
            last_sequence = entry.sequence
        self._heads[space] = last_sequence
        self._moved.add(space)
        return previous_sequence + 1, last_sequence

    def finish(self) -> None:
        """Write the entries, and the last sequence of each changed space."""
        self._raw.executemany(_APPEND, self._entries)
        head_rows = [(space, self._heads[space], row_checksum(space, self._heads[space])) for space in self._moved]
        self._raw.executemany(_MOVE_HEAD, head_rows)


def compact_journal(raw: Raw, access: FileAccess, space: SpaceId, runs: Sequence[CompactedRun], /) -> int:
    """Replace each of `runs` with one entry, in one transaction; return the number of removed entries.

    Raises Conflict where the journal is another, StoreCorrupt for damaged entries.
    """
    removal_count = 0
    with write_transaction(raw, access):
        for run in runs:
            run_values = (space, run.first, run.last)
            entries = journal_row_entries(space, raw.execute(_RUN, run_values).fetchall(), after=run.first - 1)
            replacement = engine.stand_in(run, entries)
            raw.execute(_CUT, run_values)
            raw.execute(_APPEND, entry_row(space, replacement))
            removal_count += len(entries) - 1
    return removal_count
