"""Two nodes over one store in one process, with requests alternating between them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from starlette.applications import Starlette

import elytron
from elytron import MemoryRuntime
from elytron_adapter import access_keys
from elytron_adapter.access_keys import AccessKeys, AnyAuthenticator, DevelopmentCallers
from elytron_adapter.admission_control import FairPlaces
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.key_quotas import WrongAttempts
from elytron_adapter.surface import Family
from elytron_cli.server.optional_surfaces import OptionalSurfaces
from elytron_http_shell import create_app
from elytron_http_shell.server import ServingSettings, StartedServer, serve_app

VARIABLE = "ELYTRON_TEST_NODES"
"""With any value, server tests alternate requests between two nodes over a database file."""


class AlternatingApp:
    """An application that passes each request and socket to the next of several applications in turn."""

    def __init__(self, apps: Sequence[Starlette], /) -> None:
        self._apps = apps
        self._turns = cycle(apps)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await next(self._turns)(scope, receive, send)
            return
        await receive()
        async with AsyncExitStack() as stack:
            for app in self._apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def node_count() -> int:
    """Return the number of nodes that the environment requests."""
    return 2 if os.environ.get(VARIABLE) else 1


def skip_over_nodes(reason: str, /) -> None:
    """Skip the test over several nodes, because its subject belongs to one process."""
    if node_count() > 1:
        pytest.skip(reason)


@asynccontextmanager
async def opened_nodes(folder: Path, store: str = "memory:", **options: Any) -> AsyncGenerator[Sequence[MemoryRuntime]]:
    """Open the memories of the requested nodes: one in this process, or several over a file."""
    count = node_count()
    async with AsyncExitStack() as stack:
        if count > 1:
            stack.enter_context(known_at_once())
        shared = folder / "nodes.db" if count > 1 and store == "memory:" else store
        yield [await stack.enter_async_context(elytron.open(shared, **options)) for _ in range(count)]


def known_at_once() -> Any:
    """Let nodes look up keys at each call; usually each caches one for a second."""
    return patch.object(access_keys, "ACCESS_CACHE_MS", 0)


@asynccontextmanager
async def served_nodes(
    memories: Sequence[MemoryRuntime],
    beside: Sequence[OptionalSurfaces],
    serving: ServingSettings,
    /,
    *,
    further: Sequence[Family] = (),
) -> AsyncGenerator[StartedServer]:
    """Serve several nodes at one address within the block."""
    admissions, apps = list[CallerAdmission](), list[Starlette]()
    for memory, more in zip(memories, beside, strict=True):
        keys = AccessKeys(memory.context)
        admission = CallerAdmission(
            OperationDispatcher(memory),
            authenticator=DevelopmentCallers() if serving.development else AnyAuthenticator(keys, *more.authenticators),
            keys=keys,
            shedding=FairPlaces(serving.bounds),
            attempts=WrongAttempts(memory.context.clock),
        )
        admissions.append(admission)
        apps.append(create_app(admission, further=(*more.further, *further)))
    for admission in admissions[1:]:
        admission.closing = admissions[0].closing
        admission.end = lambda: admissions[0].end() if admissions[0].end is not None else None
    told: asyncio.Future[StartedServer] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(
        serve_app(AlternatingApp(apps), admissions[0], serving, started=told.set_result, mode="nodes", signals=())
    )
    try:
        await asyncio.wait([told, server], return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            yield told.result()
    finally:
        told.add_done_callback(lambda done: done.result().end())
        await server
