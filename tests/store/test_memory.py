"""The memory engine keeps the port's guarantees."""

from collections.abc import AsyncIterator

import pytest

from elytron_conformance import StoreSuite
from elytron_core.ports.store import Store
from elytron_store.memory import MemoryStore


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()
