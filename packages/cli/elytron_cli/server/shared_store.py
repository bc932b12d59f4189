"""A store behind a server, for replayed fixtures: each opening serves it in this process and calls it over HTTP."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import elytron
from elytron import MemoryRuntime
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import MissingExtra
from elytron_core.ids import IdSource
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay.engines import SEALED, ReplayEngine, passing_key

_LOOPBACK = "127.0.0.1"


SHARED = "gateway"
"""A store behind a server, which the command starts; also `+sealed`, so that the server sees no word."""


def is_shared(name: str, /) -> bool:
    """True if `name` is a store behind a server."""
    return name.removesuffix(SEALED) == SHARED


def shared_engine(name: str, /, *, keys: KeyProvider | None = None) -> ReplayEngine:
    """Return the engine called `name`: a runtime here whose store is an SQLite file behind a server that shares it.

    A sealed one is sealed here with `keys`, else with a random key that is thrown away.
    """
    sealing = (keys or passing_key()) if name.endswith(SEALED) else None
    return ReplayEngine(name, partial(_open_shared, keys=sealing), kind=SHARED)


@asynccontextmanager
async def _open_shared(
    folder: Path,
    /,
    *,
    keys: KeyProvider | None,
    scope: Scope | None,
    clock: Clock,
    ids: IdSource,
    language_model: LanguageModel | None = None,
    profile: ProfileName | None = None,
) -> AsyncGenerator[MemoryRuntime]:
    async with (
        elytron.open(f"sqlite:///{folder}/store.db", space=None, clock=clock) as behind,
        _serve_shared(behind) as port,
        elytron.open(
            f"gateway+http://{_LOOPBACK}:{port}",
            space=None,
            scope=scope,
            keys=keys,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        ) as memory,
    ):
        yield memory


@asynccontextmanager
async def _serve_shared(memory: MemoryRuntime) -> AsyncGenerator[int]:
    """Share the store of `memory` on a port of its own, and give the port."""
    try:
        import uvicorn

        from elytron_adapter.http.store import store_surfaces
        from elytron_adapter.identity.access_keys import DevelopmentCallers
        from elytron_http_shell import create_app
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="stories on a store behind a server") from error

    app = create_app(memory, authenticator=DevelopmentCallers(), further=(store_surfaces,))
    # Named as TCP: asyncio lets answers out at once only on sockets that say so.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind((_LOOPBACK, 0))
        listening.listen()
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=limits.HTTP_IDLE_S)
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            # Connections are queued from here on, and answered when the server has started.
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
