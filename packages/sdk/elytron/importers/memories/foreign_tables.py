"""Other programs' SQLite files: opened read-only, with limits per cell and on the work. Damage is reported."""

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elytron_core.errors import InvalidInput, UnreadableFile

SQLITE_MAGIC: Final = b"SQLite format 3\0"
IMPORT_CELL_CHARS: Final = 4 * 1024 * 1024
"""Maximum number of characters read from one cell."""
_BUSY_S: Final = 5.0
_STEPS: Final = 10_000
"""Number of SQLite's instructions after which it asks whether to continue."""
_FREE_CALLS: Final = 1_000
_STEPS_PER_BYTE: Final = 64
"""Maximum number of instructions for each byte of a file, several times what sorting tiny rows takes."""
_CHARS_PER_BYTE: Final = 4
"""Maximum number of characters of the cells for each byte of a file. A small integer takes as many."""
Cell = int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row's number and its requested cells."""

    number: int
    cells: dict[str, Cell]

    def value(self, column: str, /) -> int | float | str | None:
        """Return a cell, with UTF-8 bytes decoded. Raises InvalidInput for other bytes and cells over the limit."""
        cell = self._cell(column)
        if not isinstance(cell, bytes):
            return cell
        try:
            return cell.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(field=column, problem="is not UTF-8") from None

    def text(self, column: str, /) -> str:
        """Return a cell as text; NULL is an empty string."""
        value = self.value(column)
        return "" if value is None else str(value)

    def data(self, column: str, /) -> bytes:
        """Return a cell as bytes."""
        cell = self._cell(column)
        return cell if isinstance(cell, bytes) else str(cell or "").encode("utf-8", "replace")

    def _cell(self, column: str) -> Cell:
        cell = self.cells.get(column)
        if isinstance(cell, str | bytes) and len(cell) > IMPORT_CELL_CHARS:
            raise InvalidInput(field=column, problem=f"is longer than {IMPORT_CELL_CHARS} characters")
        return cell


class WorkLimit:
    """Limits the work on a connection to another program's database by the size of its file.

    A query beyond it ends with `sqlite3.OperationalError`, as does one for which `must_end` is true meanwhile. One that
    reads a view, which runs whatever the file's author wrote, ends with `sqlite3.DatabaseError`.
    """

    def __init__(
        self, connection: sqlite3.Connection, size_bytes: int, /, *, must_end: Callable[[], bool] = lambda: False
    ) -> None:
        self.is_reached = False
        self._remaining = _FREE_CALLS + size_bytes * _STEPS_PER_BYTE // _STEPS
        self._must_end = must_end
        connection.set_progress_handler(self._step, _STEPS)
        connection.set_authorizer(_refuse_views)
        # Functions in a schema are not run unless SQLite knows them as harmless.
        connection.execute("PRAGMA trusted_schema = OFF")

    def _step(self) -> bool:
        self._remaining -= 1
        self.is_reached = self._must_end() or self._remaining < 0
        return self.is_reached


@dataclass(slots=True)
class ForeignDatabase:
    """A SQLite file and the columns of its tables."""

    path: Path
    name: str
    tables: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    is_closed: bool = False

    def close(self) -> None:
        """End a query that another thread is running."""
        self.is_closed = True

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table with these columns exists."""
        return {*columns} <= self.tables.get(table, frozenset())

    def rows(self, table: str, columns: Sequence[str], /, *, order: Sequence[str]) -> Iterator[TableRow]:
        """Yield a table's rows; missing columns are empty. Raises UnreadableFile for a damaged file."""
        present = [column for column in columns if column in self.tables[table]]
        # All names are constants of this program. One extra character reveals that a cell is over the limit.
        cut = ", ".join(
            f"CASE WHEN typeof({one}) IN ('text', 'blob') THEN substr({one}, 1, {IMPORT_CELL_CHARS + 1}) ELSE {one} END"
            for one in present
        )
        lengths = " + ".join(f"ifnull(length({one}), 0)" for one in present)
        query = f"SELECT {cut} FROM {table} ORDER BY {', '.join(order)}"  # noqa: S608
        with self.open() as connection:
            self._require_contained(connection.execute(f"SELECT {lengths} FROM {table}"))  # noqa: S608
            for number, cells in enumerate(connection.execute(query), start=1):
                yield TableRow(number, dict(zip(present, cells, strict=True)))

    def _require_contained(self, lengths: sqlite3.Cursor) -> None:
        """Raise UnreadableFile for cells that exceed the file: in a crafted file, rows without end share a page.

        This comes before sorting, which would write them all to the disk.
        """
        remaining = _CHARS_PER_BYTE * self._size_bytes()
        for (length,) in lengths:
            remaining -= _CHARS_PER_BYTE + length
            if remaining < 0:
                raise UnreadableFile(name=self.name, problem="is a SQLite file with more rows than fit into it")

    def _size_bytes(self) -> int:
        paths = (self.path, Path(f"{self.path}-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    @contextmanager
    def open(self) -> Generator[sqlite3.Connection]:
        """Open the file read-only until the block ends. The work is limited by the file's size.

        Raises UnreadableFile, also within the block.
        """
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        work: WorkLimit | None = None
        try:
            # Successive rows may be read in different threads.
            with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S, check_same_thread=False)) as connection:
                work = WorkLimit(connection, self._size_bytes(), must_end=lambda: self.is_closed)
                # Text that is not UTF-8 must not end the whole table.
                connection.text_factory = _decoded_text
                yield connection
        # SQLite's error message may contain bytes of the file, so it is not passed on.
        except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError):
            problem = (
                "takes too much work for its size"
                if work is not None and work.is_reached
                else "is a damaged or locked SQLite file"
            )
            raise UnreadableFile(name=self.name, problem=problem) from None


def _decoded_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refuse_views(
    _action: int, _first: str | None, _second: str | None, _database: str | None, view: str | None
) -> int:
    return sqlite3.SQLITE_OK if view is None else sqlite3.SQLITE_DENY


def plain_columns(connection: sqlite3.Connection, table: str, /) -> frozenset[str]:
    """Return the columns of a plain table, or none.

    Views, virtual tables and tables with computed columns are none: they run whatever the file's author wrote.
    """
    # SQLite writes this prefix for plain tables only, and refuses a schema with other names than these.
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE %' AND name = ?"
    if connection.execute(query, (table,)).fetchone() is None:
        return frozenset()
    query = "SELECT name, hidden FROM pragma_table_xinfo(?) LIMIT 1000"
    columns = connection.execute(query, (table,)).fetchall()
    return frozenset() if any(hidden for _, hidden in columns) else frozenset(str(name) for name, _ in columns)


def open_database(path: Path, /, *, name: str) -> ForeignDatabase:
    """Return the database at `path` with its plain tables. Raises UnreadableFile."""
    database = ForeignDatabase(path, name)
    with database.open() as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master LIMIT 1000").fetchall():
            if columns := plain_columns(connection, str(table)):
                database.tables[str(table)] = columns
    return database
