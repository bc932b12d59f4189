"""A server with its keys, its protocols and a port of its own, run in the test's own loop and ended as a user does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access import AccessAddRequest, AccessKeys
from elytron_adapter.principals import PrincipalKind
from elytron_cli.beside import Wanted, beside
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_http_shell.serving import Serving, Started, serve


@dataclass(frozen=True)
class Served:
    """Where a server is, what it speaks, and the runtime behind it."""

    url: str
    protocols: tuple[str, ...]
    memory: MemoryRuntime

    async def key(self, kind: PrincipalKind, space: str | None) -> str:
        """Return a new access key."""
        asked = AccessAddRequest.model_validate({"kind": kind, "space": space, "label": "test"})
        return (await AccessKeys(self.memory.context).add(asked)).key


@asynccontextmanager
async def served(wanted: Wanted, /, *, development: bool = False) -> AsyncGenerator[Served]:
    """Serve an empty memory over everything that the command line serves it over."""
    async with (
        elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory,
        beside(memory, wanted) as more,
    ):
        told: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        serving = Serving(port=0, development=development)
        task = asyncio.create_task(
            serve(memory, serving, started=told.set_result, further=more.further, known=more.known)
        )
        await asyncio.wait([told, task], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        try:
            yield Served(told.result().address, more.protocols, memory)
        finally:
            told.result().end()
            await task
