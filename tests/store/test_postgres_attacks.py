"""An attacker who writes a sealed store's tables, checksums included, cannot show one space's content in another."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from tests.store.postgres_rig import FEW, empty_tables, open_tables

import elytron
from elytron_cli.app import elytron_group
from elytron_core.errors import ElytronError
from elytron_store.engine import row_checksum
from elytron_store.postgres import statements
from elytron_store.sealed.records import KEYRING, RECORDS, SPACE_SLOTS

pytestmark = pytest.mark.anyio
Row = tuple[str, str, str, int, bytes]
SECRET = "quokka"


class StoreTables:
    """The documents of a store, as an attacker sees them."""

    def __init__(self, url: str) -> None:
        self._url = url
        tables = [statements.table_name("elytron", "documents", number) for number in range(FEW.partitions)]
        self._all = " UNION ALL ".join(
            f"SELECT '{table}', space, collection, key, revision, body FROM {table}" for table in tables
        )

    def rows(self) -> list[tuple[str, Row]]:
        with psycopg.connect(self._url) as connection:
            return [(row[0], row[1:]) for row in connection.execute(self._all.encode()).fetchall()]

    def write(self, table: str, row: Row, body: bytes) -> None:
        """Put another body into a row, with a matching checksum."""
        *place, _ = row
        changed = f"UPDATE {table} SET body = %s, checksum = %s WHERE space = %s AND collection = %s AND key = %s"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(changed.encode(), (body, row_checksum(*place, body=body), *row[:3]))

    def exchange(self, collection: str) -> None:
        """Swap the bodies of two keyring documents, one of each space."""
        found = [(table, row) for table, row in self.rows() if row[:2] == (KEYRING, collection) and row[2] != "0"]
        for (table, row), (_, other) in zip(found, reversed(found), strict=True):
            self.write(table, row, other[4])


def exchange_content(tables: StoreTables) -> None:
    """Swap the bodies of the spaces' documents within each collection."""
    rows = [(table, row) for table, row in tables.rows() if row[0] != KEYRING]
    for table, row in rows:
        others = [other[4] for _, other in rows if other[0] != row[0] and other[1] == row[1]]
        if others:
            tables.write(table, row, others[0])


def exchange_keyring(tables: StoreTables) -> None:
    tables.exchange(SPACE_SLOTS)
    tables.exchange(RECORDS)


def cut_all(tables: StoreTables) -> None:
    for table, row in tables.rows():
        if row[:3] != (KEYRING, RECORDS, "0"):
            tables.write(table, row, row[4][:3])


ATTACKS: list[Callable[[StoreTables], None]] = [
    exchange_content,
    lambda tables: tables.exchange(SPACE_SLOTS),
    exchange_keyring,
    cut_all,
]


async def answers_of(url: str, keys: elytron.FileKeys, space: str) -> str:
    """Return everything that a space shows; our refusals show nothing."""
    shown = ""
    try:
        async with elytron.open(url, space=space, keys=keys) as memory:
            for call in (memory.recall("safe code home"), memory.list(), memory.list_facts(), memory.add("once more")):
                try:
                    shown += (await call).model_dump_json()
                except ElytronError as refused:
                    shown += refused.key
    except ElytronError as refused:
        shown += refused.key
    return shown


@pytest.mark.parametrize("attack", ATTACKS)
async def test_moved_or_changed_rows_are_refused_and_repaired(
    database: str, tmp_path: Path, attack: Callable[[StoreTables], None]
) -> None:
    keys = elytron.FileKeys.create(tmp_path / "keys.json")
    await (await open_tables(database, sealed=True)).close()
    empty_tables(database)
    await (await open_tables(database, sealed=True)).close()
    for space, text in (("ada", "The tea is green."), ("bob", f"The safe opens with {SECRET}.")):
        async with elytron.open(database, space=space, keys=keys) as memory:
            await memory.add(text)
            await memory.add_fact("home", text)
    attack(StoreTables(database))
    assert SECRET not in await answers_of(database, keys, "ada")

    def run_words(*words: str) -> int:
        store = ("--store", database, "--space", "ada", "--key-file", str(tmp_path / "keys.json"))
        done = CliRunner().invoke(elytron_group, [*store, *words])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert SECRET not in done.output
        return done.exit_code

    for words, code in (
        (("inspect", "--check"), 13), (("inspect", "--repair"), 0), (("list",), 0), (("add", "It was repaired."), 0),
        (("inspect", "--check"), 0),
    ):  # fmt: skip
        assert await asyncio.to_thread(run_words, *words) == code, words
