"""The file engine keeps the port's promises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elytron_core.clock import FrozenClock
from elytron_core.ports.store import Store
from elytron_store.conformance import Reopen, ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_store.file import FileStore


class TestFileStore(StoreSuite, ReopenSuite, SecondHandleSuite):
    @pytest.fixture
    async def opened(self, tmp_path: Path) -> AsyncIterator[list[Store]]:
        """Every handle a test gets, the first one opened."""
        handles: list[Store] = [await FileStore.open(tmp_path / "store", clock=FrozenClock())]
        yield handles
        for handle in handles:
            await handle.close()

    @pytest.fixture
    async def store(self, opened: list[Store]) -> Store:
        return opened[0]

    @pytest.fixture
    async def second(self, opened: list[Store], tmp_path: Path) -> Store:
        opened.append(await FileStore.open(tmp_path / "store", clock=FrozenClock()))
        return opened[-1]

    @pytest.fixture
    def reopen(self, opened: list[Store], tmp_path: Path) -> Reopen:
        async def reopen() -> Store:
            await opened[-1].close()
            opened.append(await FileStore.open(tmp_path / "store", clock=FrozenClock()))
            return opened[-1]

        return reopen
