"""A memory for agents: in this process, in a file, and on a server over HTTP."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import elytron
from elytron.faces import MemoryFace
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_http_shell.serving import Serving
from elytron_http_shell.serving import served as serving_of

STORES = ("memory", "sqlite", "remote")


@pytest.fixture(params=STORES)
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[MemoryFace]:
    clock, ids = FrozenClock(step_ms=1), SeededIds()
    if request.param != "remote":
        address = "memory:" if request.param == "memory" else tmp_path / "memory.db"
        async with elytron.open(address, space="ada", clock=clock, ids=ids) as opened:
            yield opened
        return
    async with (
        elytron.open("memory:", space="ada", clock=clock, ids=ids) as behind,
        serving_of(behind, Serving(port=0, development=True)) as started,
        elytron.connect(started.address, space="ada") as remote,
    ):
        yield remote
