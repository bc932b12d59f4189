"""Salvage of a damaged file: every row whose checksum fits is written into the tables of a new file.

SQL counts and completes the rows there, so a file of any size takes little memory.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, StoreBusy, StoreForeign
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef, JournalAction, JournalEntry
from elytron_core.ports.store_checks import CheckReport, CheckTally, DamageKind, StoreLoss, StoreProblem
from elytron_store import limits as store_limits
from elytron_store.engine import lost_entry, row_checksum
from elytron_store.manifest import StoreManifest, known_manifest
from elytron_store.private_files import create_empty, sync_path
from elytron_store.sealed.records import SEALED_LOST, shows_seal
from elytron_store.sqlite import blobs, quarantine, schema
from elytron_store.sqlite.driver import ENGINE, ERRORS, Raw, is_busy, sqlite_library
from elytron_store.sqlite.pages import Cell, DatabasePages, open_pages

_ROWS_AT_ONCE = 500
_HEAD_BYTES = 40
"""Size of a head in addition to the name of its space."""
_FORMS: Mapping[str, tuple[type, ...]] = {
    "documents": (str, str, str, int, bytes, bytes),
    "journal": (str, int, int, str, str, str, str, int, bytes),
    "heads": (str, int, bytes),
    "idempotency": (str, str, str, bytes, int, int, int, bytes),
    "blobs": (str, str, int, int, int, bytes),
    "uploads": (str, int, str, int),
    "chunks": (str, int, int, bytes, bytes, bytes),
    "quarantine": (str, int, int, str, str, str, int, int, bytes, bytes),
    "manifest": (str, bytes),
}
"""Column types of each table whose rows are saved; they identify a row's table."""
_NEWEST_DOCUMENT = """
ON CONFLICT DO UPDATE SET revision = excluded.revision, body = excluded.body, "check" = excluded."check"
WHERE excluded.revision > revision
"""
_NEWEST_HEAD = """
ON CONFLICT DO UPDATE SET sequence = excluded.sequence, "check" = excluded."check"
WHERE excluded.sequence > sequence
"""
# Freed space may contain older states of a row.
_NEWEST = {"documents": ("INSERT", _NEWEST_DOCUMENT), "heads": ("INSERT", _NEWEST_HEAD)}


def _is_whole_document(row: Cell) -> bool:
    *row_key, body, check = row
    return row_checksum(*row_key, body=body) == check


def _is_whole_entry(row: Cell) -> bool:
    # An unknown action has a matching checksum only if another build wrote it.
    return _is_whole_row(row) and row[3] in set(JournalAction)


def _is_whole_row(row: Cell) -> bool:
    *row_key, check = row
    return row_checksum(*row_key) == check


def _is_whole_answer(row: Cell) -> bool:
    space, key, digest, answer, first_sequence, last_sequence, at, check = row
    return row_checksum(space, key, digest, first_sequence, last_sequence, at, body=answer) == check


def _is_whole_chunk(row: Cell) -> bool:
    space, upload, part, check, _, body = row
    return blobs.check_of_chunk(space, upload, part, body) == check


_PROOFS: Mapping[str, Callable[[Cell], bool]] = {
    "documents": _is_whole_document,
    "journal": _is_whole_entry,
    "heads": _is_whole_row,
    "idempotency": _is_whole_answer,
    "blobs": _is_whole_row,
    "chunks": _is_whole_chunk,
}
"""Checks for each table with checksums whether a row is whole."""

_SPACES = """
SELECT space FROM heads UNION SELECT space FROM journal UNION SELECT space FROM documents ORDER BY space
"""
_RUNS = "SELECT sequence, covers FROM journal WHERE space = ? AND covers > 1"
_CUT_RUN = "DELETE FROM journal WHERE space = ? AND sequence > ? AND sequence < ?"
_GAPS = """
SELECT before + 1, sequence - covers, at FROM (
  SELECT sequence, covers, at, lag(sequence, 1, 0) OVER (ORDER BY sequence) AS before FROM journal WHERE space = ?
) WHERE sequence - covers > before
"""
_APPEND = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# A separate table, since entries are added while it is read.
_FIND_UNNAMED = """
INSERT INTO temp.unnamed SELECT collection, key FROM documents WHERE space = ?1
EXCEPT SELECT collection, key FROM journal
WHERE space = ?1 AND (action = 'write' OR (action = 'maintenance' AND digest = ''))
"""
# SQLite takes the other columns from the row with the greatest sequence.
_MISSING = """
FROM (
  SELECT collection, key, max(sequence), action, digest, covers FROM journal WHERE space = ?1 GROUP BY collection, key
) AS j WHERE action <> 'delete' AND digest <> '' AND covers = 1 AND NOT EXISTS (
  SELECT 1 FROM documents AS d WHERE d.space = ?1 AND d.collection = j.collection AND d.key = j.key)
"""
_HALF_BLOBS = """
FROM blobs AS b WHERE (parts, size) <> (
  SELECT count(*), coalesce(sum(length(bytes)), 0) FROM chunks AS c
  WHERE c.space = b.space AND c.upload = b.upload AND c.part < b.parts)
"""
_ORPHANS = """
FROM chunks WHERE (space, upload) NOT IN (
  SELECT space, upload FROM blobs UNION SELECT space, upload FROM quarantine UNION SELECT space, upload FROM uploads)
"""


class FileSalvage:
    """The whole rows of a damaged file, in the tables of a new one at `raw`, which the caller closes."""

    def __init__(self, raw: Raw, at: Instant, /) -> None:
        self._raw, self._at = raw, at
        self._waiting: dict[str, list[Cell]] = {table: [] for table in _FORMS}
        self._manifest: StoreManifest | None = None
        self._spaces: list[str] = []
        self._has_moved = False
        """True once rows come from displaced pages."""
        self._problems: list[StoreProblem] = []
        self._losses: list[StoreLoss] = []
        raw.execute("PRAGMA journal_mode = MEMORY")  # an unfinished file is useless anyway
        raw.execute("PRAGMA secure_delete = ON")
        raw.execute("BEGIN")
        schema.create_schema(raw)
        raw.execute("CREATE TEMP TABLE unnamed (collection TEXT, key TEXT)")

    def read(self, pages: DatabasePages, /, *, sealed: bool = False) -> None:
        """Collect every whole row of `pages`, complete the journal of each space, and count what is missing.

        Raises StoreForeign if nothing in the file is a store's, or nothing shows that it was `sealed`.
        """
        for row, is_moved in pages.rows():
            if is_moved and not self._has_moved:
                self._write_all()
                self._has_moved = True
            self._take(row)
        self._write_all()
        self._spaces = [space for (space,) in self._raw.execute(_SPACES).fetchall()]
        if not (pages.is_marked or self._manifest or self._spaces):
            raise StoreForeign("this file contains no part of a store: restore it from a backup")
        if sealed and not (self._manifest or shows_seal(self._spaces)):
            raise StoreForeign(SEALED_LOST)
        blobs = self._drop_half_blobs()
        losses = [self._mend_space(space, blobs.pop(space, 0)) for space in self._spaces]
        losses += [self._loss(SpaceId(space), blobs=number) for space, number in sorted(blobs.items())]
        self._losses = [loss for loss in losses if loss is not None]
        unread_count = pages.unread_pages()
        # If every space is complete up to its head, what is unread was spare, or an index.
        if unread_count and (self._losses or not self._has_all_heads()):
            self._losses.append(replace(self._loss(None), what=f"unreadable pages of the sqlite file: {unread_count}"))
        for loss in self._losses:
            quarantine.record_loss(self._raw, loss, missing=loss.documents)

    def report(self, *, kept_as: str = "") -> CheckReport:
        """Return what was saved, and by name what was lost; `kept_as` names the damaged file if a new one was made."""
        file = StoreProblem(DamageKind.ENGINE, None, "the sqlite file", quarantined=bool(kept_as))
        documents, entries, blobs = [
            self._number(f"SELECT count(*) FROM {table}")  # noqa: S608 - our own names
            for table in ("documents", "journal", "blobs")
        ]
        tally = CheckTally(len(self._spaces), documents, entries, blobs)
        return tally.report([file, *self._problems], losses=self._losses)

    def end(self) -> None:
        """Turn the tables into a store, and commit them."""
        manifest = self._manifest or StoreManifest.fresh("sqlite", at=self._at, sealed=shows_seal(self._spaces))
        self._raw.execute("INSERT INTO manifest VALUES ('store', ?)", (manifest.to_bytes(),))
        self._raw.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        self._raw.execute(f"PRAGMA user_version = {len(schema.STEPS)}")
        self._raw.execute("COMMIT")

    def _take(self, row: Cell) -> None:
        """Save `row` if it is one of ours and its checksum matches."""
        kinds = tuple(map(type, row))
        for table, row_form in _FORMS.items():
            # These have no checksum, and bytes of a blob may look like a displaced page.
            if kinds != row_form or (self._has_moved and table not in _PROOFS):
                continue
            if table == "manifest":
                with suppress(ElytronError, ValueError):
                    self._manifest = (
                        known_manifest(row[1], engine=ENGINE) if row[0] == "store" else None
                    ) or self._manifest
            elif table not in _PROOFS or _PROOFS[table](row):
                self._waiting[table].append(row)
                if len(self._waiting[table]) == _ROWS_AT_ONCE:
                    self._write(table)

    def _write_all(self) -> None:
        for table in _FORMS:
            self._write(table)

    def _write(self, table: str) -> None:
        rows = self._waiting[table]
        if rows:
            # A row in its own position is never replaced by one found elsewhere.
            insert_verb, conflict_clause = (
                ("INSERT OR IGNORE", "") if self._has_moved else _NEWEST.get(table, ("INSERT OR REPLACE", ""))
            )
            marks = ", ".join("?" * len(rows[0]))
            self._raw.executemany(f"{insert_verb} INTO {table} VALUES ({marks}) {conflict_clause}", rows)
            rows.clear()

    def _mend_space(self, space: str, blobs: int) -> StoreLoss | None:
        """Give a space a journal without gaps, and return what it lost beyond what is already recorded."""
        head_row = self._raw.execute("SELECT sequence FROM heads WHERE space = ?", (space,)).fetchone()
        entries = self._fill_gaps(space, 0 if head_row is None else head_row[0])
        last_sequence = self._append_unnamed(space) if entries or head_row is None else self._last_entry(space)
        self._raw.execute(
            "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (space, last_sequence, row_checksum(space, last_sequence))
        )
        if entries:
            problem = StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), f"{entries} journal entries")
            self._problems.append(problem)
        self._name_missing(
            DamageKind.MISSING_DOCUMENT, f"SELECT ?1, 'document ' || collection || '/' || key {_MISSING}", space
        )
        missing_count = self._number(f"SELECT count(*) {_MISSING}", space)
        documents = max(0, missing_count - quarantine.read_note(self._raw, space).missing)
        if head_row is None:
            return replace(
                self._loss(SpaceId(space), documents, entries, blobs), what="rows, perhaps the last of its journal too"
            )
        return self._loss(SpaceId(space), documents, entries, blobs) if documents or entries or blobs else None

    def _fill_gaps(self, space: str, head_sequence: int) -> int:
        """Insert a placeholder for each lost entry of a journal that ended at `head_sequence`; return their number."""
        for sequence, covers in self._raw.execute(_RUNS, (space,)).fetchall():
            # Remains of compacted entries may be found too: no sequence may occur twice.
            self._raw.execute(_CUT_RUN, (space, sequence - covers, sequence))
        gap_rows = self._raw.execute(_GAPS, (space,)).fetchall()
        gap_rows.append((self._last_entry(space) + 1, head_sequence, self._at))
        for first_sequence, last_sequence, at in gap_rows:
            entries = (lost_entry(sequence, at) for sequence in range(first_sequence, last_sequence + 1))
            self._raw.executemany(_APPEND, (schema.entry_row(space, entry) for entry in entries))
        return sum(max(0, last_sequence + 1 - first_sequence) for first_sequence, last_sequence, _ in gap_rows)

    def _append_unnamed(self, space: str) -> int:
        """Append entries for documents whose own entries may be lost; return the journal's last sequence."""
        self._raw.execute(_FIND_UNNAMED, (space,))
        unnamed_rows = self._raw.execute("SELECT collection, key FROM temp.unnamed ORDER BY collection, key")
        last_sequence = self._last_entry(space)
        entries = (
            JournalEntry(sequence, self._at, JournalAction.MAINTENANCE, DocumentRef(collection, key), "")
            for sequence, (collection, key) in enumerate(unnamed_rows, last_sequence + 1)
        )
        self._raw.executemany(_APPEND, (schema.entry_row(space, entry) for entry in entries))
        self._raw.execute("DELETE FROM temp.unnamed")
        return self._last_entry(space)

    def _drop_half_blobs(self) -> Counter[str]:
        """Remove blobs with lost parts, and parts without their blob; return how many each space lost."""
        self._name_missing(DamageKind.BLOB, f"SELECT space, 'blob ' || key {_HALF_BLOBS} ORDER BY space, key")
        lost_counts = Counter[str]()
        for query in (f"SELECT space {_HALF_BLOBS}", f"SELECT space {_ORPHANS} GROUP BY space, upload"):
            lost_counts.update(space for (space,) in self._raw.execute(query))
        self._raw.execute(f"DELETE {_HALF_BLOBS}")
        self._raw.execute("DELETE FROM uploads")
        self._raw.execute(f"DELETE {_ORPHANS}")
        return lost_counts

    def _has_all_heads(self) -> bool:
        """Return whether the heads of all spaces were on one page, so that none of them is lost without the others."""
        return 0 < sum(len(space.encode()) + _HEAD_BYTES for space in self._spaces) < schema.PAGE_BYTES // 2

    def _last_entry(self, space: str) -> int:
        return self._number("SELECT coalesce(max(sequence), 0) FROM journal WHERE space = ?", space)

    def _number(self, query: str, *places: str) -> int:
        return int(self._raw.execute(query, places).fetchone()[0])

    def _name_missing(self, damage: DamageKind, query: str, *places: str) -> None:
        rows = self._raw.execute(query, places).fetchmany(limits.PROBLEMS_MAX)
        self._problems += [StoreProblem(damage, SpaceId(space), what) for space, what in rows]

    def _loss(self, space: SpaceId | None, documents: int = 0, entries: int = 0, blobs: int = 0) -> StoreLoss:
        return StoreLoss(space, documents, entries, blobs, self._at, "rows of the sqlite file")


def examine_file(path: Path, at: Instant, /) -> CheckReport:
    """Return what a repair of the damaged file at `path` would save. Raises StoreForeign if nothing belongs to a
    store."""
    with closing(sqlite_library().connect("", wait_s=0.0)) as raw, open_pages(path) as pages:
        salvage = FileSalvage(raw, at)
        salvage.read(pages)
        return salvage.report()


def rebuild_file(path: Path, /, *, at: Instant, sealed: bool = False) -> CheckReport:
    """Replace the damaged file at `path` by a new store with every whole row; return what was lost.

    The damaged file stays next to it as `NAME.damaged-N`, with everything that could not be saved, and is the caller's
    to delete: erasures do not reach it. A power cut leaves the old file or the new one. Blocks: call it in a worker
    thread. Raises StoreForeign if nothing in the file belongs to a store, or nothing shows that it was `sealed`;
    StoreBusy if a process holds it.
    """
    _require_alone(path)
    new_path = path.with_name(f"{path.name}.rebuilt")
    new_path.unlink(missing_ok=True)
    create_empty(new_path)
    damaged_path = next(
        place
        for file_number in range(1, 10_000)
        if not (place := path.with_name(f"{path.name}.damaged-{file_number}")).exists()
    )
    try:
        with closing(sqlite_library().connect(str(new_path), wait_s=0.0)) as raw, open_pages(path) as pages:
            raw.execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
            salvage = FileSalvage(raw, at)
            salvage.read(pages, sealed=sealed)
            salvage.end()
            report = salvage.report(kept_as=damaged_path.name)
    except BaseException:
        new_path.unlink()
        raise
    sync_path(new_path)
    with path.open("rb+") as file, open_pages(path) as pages:
        pages.fold(file.fileno())
    for file_ending in ("-wal", "-journal", "-shm"):  # SQLite would replay another file's journal into the new one
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{file_ending}").replace(
                damaged_path.with_name(f"{damaged_path.name}{file_ending}")
            )
    try:
        # A link first: the name always refers to a file, the old one or the new one.
        os.link(path, damaged_path)
    except OSError:  # a file system without hard links
        path.replace(damaged_path)
    new_path.replace(path)
    sync_path(path.parent)
    return report


def _require_alone(path: Path) -> None:
    """Raise StoreBusy if another process holds the file; no process holds one too damaged to be locked."""
    with closing(sqlite_library().connect(str(path), wait_s=store_limits.BUSY_WAIT_S)) as raw:
        try:
            raw.execute("PRAGMA locking_mode = EXCLUSIVE")
            raw.execute("PRAGMA writable_schema = ON")  # a file that is too short would otherwise be rejected
            raw.execute("BEGIN EXCLUSIVE")
            raw.execute("ROLLBACK")
        except ERRORS as error:
            if is_busy(error):
                raise StoreBusy(engine="sqlite", waited_s=store_limits.BUSY_WAIT_S) from error
