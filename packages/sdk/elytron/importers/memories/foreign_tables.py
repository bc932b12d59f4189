"""Other programs' SQLite files: opened read-only, with a size limit per cell. Damage is reported."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elytron_core.errors import InvalidInput, UnreadableFile

SQLITE_MAGIC: Final = b"SQLite format 3\0"
IMPORT_CELL_CHARS: Final = 4 * 1024 * 1024
"""Maximum number of characters read from one cell."""
_BUSY_S: Final = 5.0
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


@dataclass(slots=True)
class ForeignDatabase:
    """A SQLite file and the columns of its tables."""

    path: Path
    name: str
    tables: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

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
        query = f"SELECT {cut} FROM {table} ORDER BY {', '.join(order)}"  # noqa: S608
        try:
            with closing(_open_connection(self.path)) as connection:
                for number, cells in enumerate(connection.execute(query), start=1):
                    yield TableRow(number, dict(zip(present, cells, strict=True)))
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            raise UnreadableFile(name=self.name, problem="is a damaged or locked SQLite file") from None


def _open_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
    connection.execute("PRAGMA trusted_schema = OFF")
    # Text that is not UTF-8 must not end the whole table.
    connection.text_factory = _decoded_text
    return connection


def _decoded_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def open_database(path: Path, /, *, name: str) -> ForeignDatabase:
    """Return the database at `path` with its tables but not its views. Raises UnreadableFile."""
    database = ForeignDatabase(path, name)
    try:
        with closing(_open_connection(path)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000").fetchall()
            for (table,) in names:
                columns = connection.execute("SELECT name FROM pragma_table_info(?) LIMIT 1000", (table,)).fetchall()
                database.tables[str(table)] = frozenset(str(column) for (column,) in columns)
    # SQLite's error message may contain bytes of the file, so it is not passed on.
    except (sqlite3.Error, UnicodeDecodeError):
        raise UnreadableFile(name=name, problem="is a damaged or locked SQLite file") from None
    return database
