"""The SQLite engine: the shared suite, and what only a database file can show."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elytron_core.clock import FrozenClock
from elytron_core.ports.store import Store
from elytron_store.conformance import Reopen, ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_store.sqlite import SqliteStore


class TestSqliteStore(StoreSuite, ReopenSuite, SecondHandleSuite):
    """Every claim of the suite, on a file."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock())
        yield store
        await store.close()

    @pytest.fixture
    async def reopen(self, store: Store, tmp_path: Path) -> AsyncIterator[Reopen]:
        opened: list[Store] = [store]

        async def again() -> Store:
            await opened[-1].close()
            opened.append(await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock()))
            return opened[-1]

        yield again
        await opened[-1].close()

    @pytest.fixture
    async def second(self, store: Store, tmp_path: Path) -> AsyncIterator[Store]:
        second = await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock())
        yield second
        await second.close()
