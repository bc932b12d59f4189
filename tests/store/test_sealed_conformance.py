"""The sealed store keeps every guarantee of the port, over each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.handles import Handles, Opener

from elytron_conformance import ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.ports.store import Store
from elytron_store.file.store import FileStore
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.store import SealedStore
from elytron_store.sqlite import SqliteStore

# Ids repeat in each handle, as in fixtures: nothing may depend on their uniqueness.
KEYS = LocalKeys({"k": bytes(range(32))}, current="k")


async def seal(inner: Store) -> Store:
    return await SealedStore.open(inner, keys=KEYS, ids=SeededIds(), clock=FrozenClock())


class TestSealedMemoryStore(StoreSuite):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = await seal(MemoryStore())
        yield store
        await store.close()


class TestSealedSqliteStore(Handles, StoreSuite, ReopenSuite, SecondHandleSuite):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        async def open_store() -> Store:
            return await seal(await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock(), sealed=True))

        return open_store


class TestSealedFileStore(Handles, StoreSuite, ReopenSuite, SecondHandleSuite):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        async def open_store() -> Store:
            return await seal(await FileStore.open(tmp_path / "store", clock=FrozenClock(), sealed=True))

        return open_store
