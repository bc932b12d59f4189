"""A memory in this process, or at each location that agents use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.agent.places import Place, opened

from elytron.api import MemoryFace


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return getattr(request, "param", "memory")


@pytest.fixture
async def memory(place: Place, tmp_path: Path) -> AsyncIterator[MemoryFace]:
    async with opened(place, tmp_path) as opened_memory:
        yield opened_memory
