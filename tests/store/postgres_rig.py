"""Stores on the tests' Postgres server: tables created once per module, and emptied for each test."""

import atexit
from collections.abc import Sequence

import psycopg

from elytron_core.clock import FrozenClock
from elytron_store.postgres import statements
from elytron_store.postgres.address import parse_address
from elytron_store.postgres.store import PostgresStore
from elytron_store.postgres.tables import PostgresTarget, StoreLayout

CLOCK = FrozenClock()
FEW = StoreLayout(partitions=4)
"""Fewer partitions than usual: creating and emptying them takes time."""


async def open_tables(url: str, /, *, sealed: bool = False, portable: bool = False, options: str = "") -> PostgresStore:
    """Open the store in the database at `url`, created with few partitions if missing."""
    answers = f"sealed={'yes' if sealed else 'no'}&portable={'yes' if portable else 'no'}{options}"
    address = parse_address(f"{url}?{answers}")
    return await PostgresStore.open_unnoted(
        PostgresTarget(address, CLOCK.now(), sealed=sealed, layout=FEW), clock=CLOCK
    )


def empty_tables(url: str, /, *, schema: str = "elytron") -> None:
    """Remove all rows from the store's tables in the database at `url`, if there are any."""
    connection = _connection(url)
    ((is_there,),) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{schema}.manifest",)).fetchall()
    if is_there:
        connection.execute(";".join(f"DELETE FROM {table}" for table in _tables(schema)).encode())


_connections: dict[str, psycopg.Connection] = {}


def _connection(url: str) -> psycopg.Connection:
    """Return a connection to the last emptied database: a module's tests mostly empty the same one."""
    if url not in _connections or _connections[url].broken:
        _close_connections()
        _connections[url] = psycopg.connect(url, autocommit=True)
    return _connections[url]


@atexit.register
def _close_connections() -> None:
    while _connections:
        _connections.popitem()[1].close()


async def empty_store(url: str, /) -> str:
    """Return the URL of a plain store without rows in the database at `url`."""
    await (await open_tables(url)).close()
    empty_tables(url)
    return f"{url}?sealed=no"


def _tables(schema: str) -> Sequence[str]:
    return [
        statements.table_name(schema, table, partition)
        for table in statements.TABLES
        for partition in range(FEW.partitions)
    ]
