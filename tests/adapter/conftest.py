"""A runtime in memory, at a fixed time, and a dispatcher over it."""

from collections.abc import AsyncIterator

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_adapter.dispatch import OperationDispatcher
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(step_ms=1)


@pytest.fixture
async def runtime(clock: FrozenClock) -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        yield memory


@pytest.fixture
def dispatcher(runtime: MemoryRuntime) -> OperationDispatcher:
    return OperationDispatcher(runtime)
