"""A row whose columns have other types than ever written is damage, and not a Python error."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

import elytron
from elytron_core.clock import SystemClock
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef
from elytron_store import open_store
from elytron_store.sqlite.schema import TABLES

pytestmark = pytest.mark.anyio
ODD = (None, -5, 1.5, "text", b"\xff\xfe", "")
COLUMNS = [
    (table, column)
    for table, columns in {
        "documents": ("space", "collection", "key", "revision", "body", "check"),
        "journal": ("space", "sequence", "at", "action", "collection", "key", "digest", "covers", "check"),
        "heads": ("space", "sequence", "check"),
        "idempotency": ("space", "key", "digest", "answer", "first", "last", "at", "check"),
        "blobs": ("space", "key", "upload", "parts", "size", "check"),
    }.items()
    for column in columns
]


def spoil(place: Path, table: str, column: str, value: object) -> None:
    """Set a column to a value that the table's schema forbids."""
    with closing(sqlite3.connect(place)) as raw:
        schemas = raw.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        raw.execute("PRAGMA writable_schema = ON")
        loose = "replace(replace(replace(sql, 'STRICT, ', ''), ' STRICT', ''), 'NOT NULL', '')"
        raw.execute(f"UPDATE sqlite_schema SET sql = {loose}")
        raw.commit()
    with closing(sqlite3.connect(place)) as raw:
        raw.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (value,))  # a key stays unique
        raw.execute("PRAGMA writable_schema = ON")
        raw.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", [(sql, name) for name, sql in schemas])
        raw.commit()


async def look(place: Path) -> None:
    """Make every read, a check, and a repair; each answers or raises one of our errors."""
    with suppress(ElytronError):
        store = await open_store(f"sqlite:{place}", clock=SystemClock())
        try:
            ada = SpaceId("ada")
            for read in (
                store.spaces(limit=9), store.journal(ada, after=0, limit=99), store.scan(ada, "turns", limit=99),
                store.get(ada, [DocumentRef("turns", "1")]), store.count(ada, "turns"), store.check(), store.repair(),
            ):  # fmt: skip
                with suppress(ElytronError):
                    await read
        finally:
            await store.close()
    with suppress(ElytronError):
        async with elytron.open(place, space="ada") as memory:
            await memory.list()
            await memory.add("once more")


def test_the_tested_columns_match_the_tables() -> None:
    assert {table for table, _ in COLUMNS} <= set(TABLES)
    assert all(f"{column} " in TABLES[table].replace('"', "") for table, column in COLUMNS)


@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_a_value_of_any_type_is_damage(tmp_path: Path, table: str, column: str) -> None:
    for number, value in enumerate(ODD):
        place = tmp_path / f"{number}.db"
        async with elytron.open(place, space="ada") as memory:
            await memory.add("The boat lies at berth 7.")
        spoil(place, table, column, value)
        await look(place)
