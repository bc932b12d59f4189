"""A client of the application, in this process and without a socket."""

from collections.abc import AsyncIterator

import httpx
import pytest

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_http_shell import create_app


@pytest.fixture
async def runtime() -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        yield memory


@pytest.fixture
async def client(runtime: MemoryRuntime) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(runtime))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as connected:
        yield connected
