"""An application on a port of this machine, in the test's own loop."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def listening(app: Any, /) -> AsyncGenerator[str]:
    """Yield the address of `app`. It ends without the pauses of a separate server."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Named as TCP: asyncio sends answers immediately only on sockets that say so.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as opened:
        opened.bind(("127.0.0.1", 0))
        await server.startup(sockets=[opened])
        try:
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            for each in server.servers:
                each.close()
            state = server.server_state
            for connection in list(state.connections):
                connection.shutdown()
            while state.tasks or state.connections:
                await asyncio.sleep(0)
            await server.lifespan.shutdown()
