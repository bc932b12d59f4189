"""Runtimes for the SDK's tests: frozen time, seeded ids, nothing on disk unless asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(step_ms=1)


@pytest.fixture
async def memory(clock: FrozenClock) -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as runtime:
        yield runtime


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")
