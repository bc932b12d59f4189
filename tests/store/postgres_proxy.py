"""A relay between a store and its Postgres server, which cuts connections on demand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

_KEY_DATA = b"K\x00\x00\x00\x0c"


class CuttingProxy:
    """Relays to one server. `cut_asking` cuts all before the next statement, `cut_answer` after it, before its answer.

    With `is_pooler` it assigns its own process numbers, like poolers. While not `is_up`, nothing is answered; while
    `is_silent`, connections stay open without answers.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._relays: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_asking = False
        self.cut_answer = False
        self.is_pooler = False
        self.is_up = True
        self.is_silent = False

    def lead_to(self, host: str, port: int) -> None:
        """Route new connections to another server."""
        self._server = (host, port)

    def cut_all(self) -> None:
        """Cut every connection immediately, on both sides."""
        for writer in self._writers:
            writer.transport.abort()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection until either side ends it."""
        if not self.is_up:
            writer.transport.abort()
            return
        try:
            upstream, down = await asyncio.open_connection(*self._server)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, down}
        pumps = [
            asyncio.ensure_future(self._pump(reader, down, is_asking=True)),
            asyncio.ensure_future(self._pump(upstream, writer, is_asking=False)),
        ]
        self._relays |= {*pumps}
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, down):
            one.close()
            self._writers.discard(one)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_asking: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.is_silent:
                    continue
                if (self.cut_asking and is_asking) or (self.cut_answer and not is_asking):
                    self.cut_asking = self.cut_answer = False
                    self.cut_all()
                    return
                if self.is_pooler and (place := data.find(_KEY_DATA)) >= 0:
                    own = place + len(_KEY_DATA)
                    data = data[:own] + b"\x00\x00\x00\x07" + data[own + 4 :]
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxied(url: str) -> AsyncGenerator[tuple[CuttingProxy, str]]:
    """Yield a proxy in front of the server of `url`, and the URL through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = CuttingProxy(parts.hostname, parts.port)
    server = await asyncio.start_server(proxy.relay, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, url.replace(f":{parts.port}/", f":{port}/")
    finally:
        server.close()
        proxy.cut_all()
