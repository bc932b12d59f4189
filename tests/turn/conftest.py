"""A memory in this process."""

from collections.abc import AsyncIterator

import pytest

import elytron
from elytron.api import MemoryFace


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as opened:
        yield opened
