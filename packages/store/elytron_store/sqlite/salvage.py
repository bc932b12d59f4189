"""Saving what a damaged file still holds: its pages are read one by one, and rows are known by their checksums.

Nothing of SQLite's own trees is needed, so a file without its header, cut short or overwritten in its middle gives up
all rows whose bytes are whole. The format is https://www.sqlite.org/fileformat2.html.
"""

import mmap
import os
import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, StoreBusy, StoreForeign
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    CheckReport,
    CheckTally,
    DamageKind,
    DocumentRef,
    JournalAction,
    JournalEntry,
    StoreProblem,
)
from elytron_store import limits as store_limits
from elytron_store.engine import lost_entry
from elytron_store.manifest import DEFAULT_PROFILE, StoreManifest, known_manifest
from elytron_store.private_files import create_empty
from elytron_store.sealed.records import SEALED_LOST, shows_seal
from elytron_store.sqlite import blobs, schema
from elytron_store.sqlite.driver import ERRORS, Raw, is_busy, sqlite_library

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_INNER_INDEX, _LEAF_INDEX, _LEAF_TABLE = 2, 10, 13
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER, _WAL_FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_PAGE_BYTES = range(512, 65_537)
_WHOLE = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of a whole number by its serial type."""
_BROKEN = (IndexError, ValueError, struct.error)
"""Errors of reading bytes that are no row."""

Cell = tuple[Any, ...]


class DatabasePages:
    """The pages of a database file, those that its WAL committed laid over them."""

    def __init__(self, data: bytes | mmap.mmap, wal: bytes | mmap.mmap, /) -> None:
        self._data, self._wal = data, wal
        self._later: dict[int, int] = {}
        self.size = self._page_size()
        self._lay_over()
        self.count = max(len(data) // self.size, *self._later, 0)
        self.is_marked = bytes(data[68:72]) == schema.APPLICATION_ID.to_bytes(4, "big")
        """True if the header says that the file is a store."""

    def rows(self) -> Iterator[Cell]:
        """Yield every row of every table and index of which all bytes can be read."""
        for number in range(1, self.count + 1):
            page = self._page(number)
            start = _HEADER_BYTES if number == 1 else 0
            # Inner pages of tables hold row ids alone; those of indexes hold rows.
            if len(page) < self.size or page[start] not in {_INNER_INDEX, _LEAF_INDEX, _LEAF_TABLE}:
                continue
            kind, cells = page[start], int.from_bytes(page[start + 3 : start + 5], "big")
            pointers = start + (12 if kind == _INNER_INDEX else 8)
            for place in range(pointers, min(pointers + 2 * cells, self.size - 1), 2):
                with suppress(*_BROKEN):
                    at = int.from_bytes(page[place : place + 2], "big")
                    yield _decode_row(self._payload(page, at, kind))

    def fold(self, file: int, /) -> None:
        """Write the pages that the WAL holds into the open `file` itself, durably."""
        for number, at in self._later.items():
            os.pwrite(file, self._wal[at : at + self.size], (number - 1) * self.size)
        os.fsync(file)

    def _page_size(self) -> int:
        found = int.from_bytes(self._data[16:18], "big") if self._data[:16] == _MAGIC else 0
        # The field has two bytes, so the format writes 1 for the largest size.
        found = 65_536 if found == 1 else found
        return found if found in _PAGE_BYTES and found & (found - 1) == 0 else schema.PAGE_BYTES

    def _lay_over(self) -> None:
        """Find the last committed copy of each page that the WAL holds."""
        if len(self._wal) < _WAL_HEADER.size:
            return
        magic, _, size, _, *salts, _, _ = _WAL_HEADER.unpack(self._wal[: _WAL_HEADER.size])
        if magic not in _WAL_MAGIC or size != self.size:
            return
        open_frames: dict[int, int] = {}
        step = _WAL_FRAME.size + size
        for at in range(_WAL_HEADER.size, len(self._wal) - step + 1, step):
            number, committed, *found, _, _ = _WAL_FRAME.unpack(self._wal[at : at + _WAL_FRAME.size])
            # Frames of an earlier round follow, which the file still holds.
            if found != salts:
                return
            open_frames[number] = at + _WAL_FRAME.size
            # Frames behind the last commit mark are of a transaction that did not end.
            if committed:
                self._later |= open_frames
                open_frames.clear()

    def _page(self, number: int) -> bytes:
        later = self._later.get(number)
        if later is not None:
            return self._wal[later : later + self.size]
        return self._data[(number - 1) * self.size : number * self.size]

    def _payload(self, page: bytes, at: int, kind: int) -> bytes:
        """Return the bytes of the row whose cell begins at `at`, those on overflow pages too."""
        at += 4 if kind == _INNER_INDEX else 0
        size, at = _read_varint(page, at)
        if kind == _LEAF_TABLE:
            # The file format defines how much of a row stays on its page.
            _, at = _read_varint(page, at)
        least = (self.size - 12) * 32 // 255 - 23
        most = self.size - 35 if kind == _LEAF_TABLE else (self.size - 12) * 64 // 255 - 23
        held = size
        if size > most:
            held = least + (size - least) % (self.size - 4)
            held = held if held <= most else least
        # A damaged length could claim more than the file has.
        if size > self.size * self.count or at + held > self.size:
            raise ValueError(size)
        parts, left = [page[at : at + held]], size - held
        following = int.from_bytes(page[at + held : at + held + 4], "big") if left else 0
        while left > 0:
            if not 0 < following <= self.count:
                raise ValueError(following)
            beyond = self._page(following)
            following = int.from_bytes(beyond[:4], "big")
            parts.append(beyond[4 : 4 + left])
            left -= self.size - 4
        return b"".join(parts)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and the place behind it."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _decode_row(payload: bytes) -> Cell:
    size, at = _read_varint(payload, 0)
    values: list[Any] = []
    body = size
    while at < size:
        kind, at = _read_varint(payload, at)
        length = (kind - 12) // 2 if kind >= 12 else 8 if kind == 7 else _WHOLE[kind] if kind < 7 else 0
        data = payload[body : body + length]
        if len(data) < length:
            raise ValueError(kind)
        body += length
        match kind:
            case 0:
                values.append(None)
            case 7:
                values.append(struct.unpack(">d", data)[0])
            case 8 | 9:
                values.append(kind - 8)
            case _ if kind < 7:
                values.append(int.from_bytes(data, "big", signed=True))
            case _:
                values.append(data.decode() if kind % 2 else data)
    return tuple(values)


_FORMS: Mapping[str, tuple[type, ...]] = {
    "documents": (str, str, str, int, bytes, bytes),
    "journal": (str, int, int, str, str, str, str, int, bytes),
    "heads": (str, int, bytes),
    "idempotency": (str, str, str, bytes, int, int, int, bytes),
    "blobs": (str, str, int, int, int, bytes),
    "chunks": (str, int, int, bytes, bytes, bytes),
    "quarantine": (str, int, int, str, str, str, int, int, bytes, bytes),
    "manifest": (str, bytes),
}
"""Types of the columns of each table whose rows are saved, by which a row's table is known."""


@dataclass(slots=True)
class SalvagedRows:
    """Whole rows of a damaged file, each once."""

    documents: dict[tuple[str, str, str], Cell] = field(default_factory=dict[tuple[str, str, str], Cell])
    journal: dict[str, dict[int, JournalEntry]] = field(default_factory=dict[str, dict[int, JournalEntry]])
    heads: dict[str, int] = field(default_factory=dict[str, int])
    answers: dict[tuple[str, str], Cell] = field(default_factory=dict[tuple[str, str], Cell])
    blobs: dict[tuple[str, str], Cell] = field(default_factory=dict[tuple[str, str], Cell])
    chunks: dict[tuple[str, int, int], Cell] = field(default_factory=dict[tuple[str, int, int], Cell])
    quarantine: dict[tuple[str, int], Cell] = field(default_factory=dict[tuple[str, int], Cell])
    manifest: StoreManifest | None = None
    is_marked: bool = False

    def take(self, row: Cell, /) -> None:
        """Keep `row` if it is one of ours and its checksum fits."""
        kinds = tuple(map(type, row))
        for table, form in _FORMS.items():
            if kinds == form:
                getattr(self, f"_take_{table}")(row)

    def _take_documents(self, row: Cell) -> None:
        *place, body, check = row
        # Freed room keeps older revisions, so the newest one is taken.
        known = self.documents.get((row[0], row[1], row[2]))
        if schema.check_of(*place, body=body) == check and (known is None or known[3] < row[3]):
            self.documents[row[0], row[1], row[2]] = row

    def _take_journal(self, row: Cell) -> None:
        *place, check = row
        if schema.check_of(*place) == check:
            with suppress(ValueError):  # an action of no build
                space, sequence, at, action, collection, key, digest, covers = place
                ref = DocumentRef(collection, key)
                entry = JournalEntry(sequence, Instant(at), JournalAction(action), ref, digest, covers)
                self.journal.setdefault(space, {})[sequence] = entry

    def _take_heads(self, row: Cell) -> None:
        space, sequence, check = row
        if schema.check_of(space, sequence) == check:
            self.heads[space] = max(sequence, self.heads.get(space, 0))

    def _take_idempotency(self, row: Cell) -> None:
        space, key, digest, answer, first, last, at, check = row
        if schema.check_of(space, key, digest, first, last, at, body=answer) == check:
            self.answers[space, key] = row

    def _take_blobs(self, row: Cell) -> None:
        *place, check = row
        if schema.check_of(*place) == check:
            self.blobs[row[0], row[1]] = row

    def _take_chunks(self, row: Cell) -> None:
        space, upload, part, check, _, body = row
        if blobs.check_of_chunk(space, upload, part, body) == check:
            self.chunks[space, upload, part] = row

    def _take_quarantine(self, row: Cell) -> None:
        self.quarantine[row[0], row[1]] = row

    def _take_manifest(self, row: Cell) -> None:
        with suppress(ElytronError, ValueError):
            self.manifest = (known_manifest(row[1]) if row[0] == "store" else None) or self.manifest

    @property
    def is_ours(self) -> bool:
        """True if anything shows that the file was a store."""
        return bool(self.is_marked or self.manifest or self.documents or self.journal or self.heads)

    def entries(self, space: str, at: Instant, /) -> Iterator[JournalEntry]:
        """Yield a journal without gaps: a lost entry has one in its place; documents that no entry names come last."""
        wanted, named = 1, set[DocumentRef]()
        for sequence, entry in sorted(self.journal.get(space, {}).items()):
            # A compacted run and remains of its entries may both be found: no sequence may come twice.
            if entry.first < wanted:
                continue
            for lost in range(wanted, entry.first):
                yield lost_entry(lost, entry.at)
            yield entry
            named.add(entry.ref)
            wanted = sequence + 1
        for lost in range(wanted, self.heads.get(space, 0) + 1):
            yield lost_entry(lost, at)
            wanted = lost + 1
        for owner, collection, key in sorted(self.documents):
            ref = DocumentRef(collection, key)
            if owner == space and ref not in named:
                yield JournalEntry(wanted, at, JournalAction.MAINTENANCE, ref, "")
                wanted += 1

    @property
    def spaces(self) -> list[str]:
        """The spaces of which anything is left, in order."""
        return sorted({*self.heads, *self.journal, *(place[0] for place in self.documents)})

    def whole_blobs(self) -> Iterator[tuple[Cell, list[Cell]]]:
        """Yield each blob of which every part is left, with its parts."""
        for row in self.blobs.values():
            parts = [self.chunks.get((row[0], row[2], part)) for part in range(row[3])]
            found = [part for part in parts if part is not None]
            if len(found) == row[3] and sum(len(part[5]) for part in found) == row[4]:
                yield row, found


def read_damaged(path: Path, /) -> SalvagedRows:
    """Return every whole row in the file at `path` and its WAL. Raises StoreForeign if none is a store's."""
    found = SalvagedRows()
    with _pages_of(path) as pages:
        found.is_marked = pages.is_marked
        for row in pages.rows():
            found.take(row)
    if not found.is_ours:
        raise StoreForeign("this file contains no part of a store: restore it from a backup")
    return found


@contextmanager
def _pages_of(path: Path) -> Generator[DatabasePages]:
    with ExitStack() as opened:
        yield DatabasePages(*(_map_file(opened, each) for each in (path, path.with_name(f"{path.name}-wal"))))


def _map_file(opened: ExitStack, path: Path) -> bytes | mmap.mmap:
    try:
        file = opened.enter_context(path.open("rb"))
    except FileNotFoundError:
        return b""
    if not os.fstat(file.fileno()).st_size:
        return b""
    return opened.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def report_of(found: SalvagedRows, at: Instant, /, *, kept_as: str = "") -> CheckReport:
    """Return what was saved, and by name what was lost; `kept_as` names the damaged file where a new one was made."""
    problems = [StoreProblem(DamageKind.ENGINE, None, "the sqlite file", quarantined=bool(kept_as))]
    entries = 0
    for space in found.spaces:
        last: dict[DocumentRef, JournalEntry] = {}
        lost = 0
        for entry in found.entries(space, at):
            entries += 1
            lost += entry == lost_entry(entry.sequence, entry.at)
            last[entry.ref] = entry
        if lost:
            problems.append(StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), f"{lost} journal entries"))
        problems.extend(
            StoreProblem(DamageKind.MISSING_DOCUMENT, SpaceId(space), f"document {ref.collection}/{ref.key}")
            for ref, entry in last.items()
            if entry.digest and entry.covers == 1 and (space, *ref) not in found.documents
        )
    whole = {(row[0], row[1]) for row, _ in found.whole_blobs()}
    problems.extend(
        StoreProblem(DamageKind.BLOB, SpaceId(space), f"blob {key}")
        for space, key in sorted(found.blobs)
        if (space, key) not in whole
    )
    tally = CheckTally(spaces=len(found.spaces), documents=len(found.documents), entries=entries, blobs=len(whole))
    return tally.report(problems)


def rebuild_file(path: Path, /, *, at: Instant, sealed: bool = False) -> CheckReport:
    """Put a new store with every whole row in the place of the damaged file at `path`; return what was lost.

    The damaged file stays beside it as `NAME.damaged-N`, with all that could not be saved, and is the caller's to
    delete: erasures do not reach it. A power cut leaves the old file or the new one. Blocks: call it in a worker
    thread. Raises StoreForeign if nothing in the file is a store's, or nothing shows that it was `sealed`; StoreBusy
    where a process holds it.
    """
    _require_alone(path)
    found = read_damaged(path)
    if sealed and not (found.manifest or shows_seal(found.spaces)):
        raise StoreForeign(SEALED_LOST)
    made = path.with_name(f"{path.name}.rebuilt")
    made.unlink(missing_ok=True)
    create_empty(made)
    with closing(sqlite_library().connect(str(made), wait_s=0.0)) as raw:
        _write_rows(raw, found, at)
    _sync_path(made)
    kept = next(
        place for number in range(1, 10_000) if not (place := path.with_name(f"{path.name}.damaged-{number}")).exists()
    )
    with path.open("rb+") as file, _pages_of(path) as pages:
        pages.fold(file.fileno())
    for ending in ("-wal", "-journal", "-shm"):  # SQLite would play another file's journal into the new one
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{ending}").replace(kept.with_name(f"{kept.name}{ending}"))
    try:
        # A link first: the name always leads to a file, the old one or the new one.
        os.link(path, kept)
    except OSError:  # a file system without links
        path.replace(kept)
    made.replace(path)
    _sync_path(path.parent)
    return report_of(found, at, kept_as=kept.name)


def _require_alone(path: Path) -> None:
    """Raise StoreBusy where another process holds the file; a file too damaged to be locked is held by none."""
    with closing(sqlite_library().connect(str(path), wait_s=store_limits.BUSY_WAIT_S)) as raw:
        try:
            raw.execute("PRAGMA locking_mode = EXCLUSIVE")
            raw.execute("PRAGMA writable_schema = ON")  # a file that is too short is refused otherwise
            raw.execute("BEGIN EXCLUSIVE")
            raw.execute("ROLLBACK")
        except ERRORS as error:
            if is_busy(error):
                raise StoreBusy(engine="sqlite", waited_s=store_limits.BUSY_WAIT_S) from error


def _write_rows(raw: Raw, found: SalvagedRows, at: Instant) -> None:
    raw.execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
    raw.execute("PRAGMA secure_delete = ON")
    raw.execute("BEGIN")
    schema.create_schema(raw)
    raw.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    raw.execute(f"PRAGMA user_version = {len(schema.STEPS)}")
    whole = list(found.whole_blobs())
    _insert_rows(raw, "documents", list(found.documents.values()))
    _insert_rows(raw, "idempotency", list(found.answers.values()))
    _insert_rows(raw, "quarantine", list(found.quarantine.values()))
    _insert_rows(raw, "blobs", [row for row, _ in whole])
    _insert_rows(raw, "chunks", [part for _, parts in whole for part in parts])
    for space in found.spaces:
        last = 0
        rows: list[Cell] = []
        for entry in found.entries(space, at):
            rows.append(schema.entry_row(space, entry))
            last = entry.sequence
        _insert_rows(raw, "journal", rows)
        _insert_rows(raw, "heads", [(space, last, schema.check_of(space, last))])
    manifest = found.manifest or StoreManifest(
        engine="sqlite",
        profile=DEFAULT_PROFILE,
        sealed=shows_seal(found.spaces),
        created_at=at,
        opened_at=at,
    )
    _insert_rows(raw, "manifest", [("store", manifest.to_bytes())])
    raw.execute("COMMIT")


def _insert_rows(raw: Raw, table: str, rows: Sequence[Cell]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        raw.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - our own names


def _sync_path(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
