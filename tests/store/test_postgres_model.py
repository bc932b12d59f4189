"""The Postgres engine matches a simple model, step by step: with its function, without it, and sealed."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import initialize
from tests.store.postgres_rig import empty_tables, open_tables
from tests.store.postgres_server import PostgresServer
from tests.store.sealing import seal
from tests.store.test_stateful import LONG, Engines

from elytron_core.ports.store import Store
from elytron_store.memory import MemoryStore

WAYS = ("function", "portable", "sealed")


@pytest.fixture(scope="module", autouse=True)
def made(postgres: PostgresServer) -> Iterator[None]:
    """Create a database for each mode."""
    PostgresEngines.databases = {way: postgres.make_database() for way in WAYS}
    yield
    PostgresEngines.databases.clear()


async def open_way(way: str, url: str) -> Store:
    """Open the tables at `url` in one of the modes."""
    store = await open_tables(url, sealed=way == "sealed", portable=way == "portable")
    return await seal(store) if way == "sealed" else store


class PostgresEngines(Engines):
    """Drives the model, and the engine in each mode."""

    databases: dict[str, str] = {}

    @initialize()
    def open(self) -> None:
        for url in self.databases.values():
            empty_tables(url)
        self.urls = list(WAYS)
        self.stores = [MemoryStore(), *(self.opened(way) for way in WAYS)]

    def opened(self, url: str) -> Store:
        return self.runner.run(open_way(url, self.databases[url]))


TestPostgresEngines = PostgresEngines.TestCase
TestPostgresEngines.settings = settings(max_examples=200 if LONG else 4, stateful_step_count=60 if LONG else 30)
