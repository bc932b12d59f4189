"""The fixtures of the shared suites on top of `opener`, which opens a test's store, and reopens it at each call."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from elytron_conformance import Reopen
from elytron_core.ports.store import Store

Opener = Callable[[], Awaitable[Store]]


class Handles:
    """Base of a test class next to the suites that it passes."""

    @pytest.fixture
    async def store(self, opener: Opener) -> AsyncIterator[Store]:
        store = await opener()
        yield store
        await store.close()

    @pytest.fixture
    async def second(self, store: Store, opener: Opener) -> AsyncIterator[Store]:
        second = await opener()
        yield second
        await second.close()

    @pytest.fixture
    async def reopen(self, store: Store, opener: Opener) -> AsyncIterator[Reopen]:
        opened = [store]

        async def again() -> Store:
            await opened[-1].close()
            opened.append(await opener())
            return opened[-1]

        yield again
        await opened[-1].close()
