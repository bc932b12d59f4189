"""A line to a server that can be cut: data on it is lost, and new connections wait until it is restored."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


class Line:
    """Passes bytes on, both ways, to the server at `port`."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = asyncio.Event()
        self._whole.set()
        self._heard = bytearray()
        self._more = asyncio.Event()
        self.port = 0

    async def heard(self, words: bytes) -> None:
        """Wait until the server has sent `words` since the last cut."""
        async with asyncio.timeout(30):
            while words not in self._heard:
                self._more.clear()
                await self._more.wait()

    def cut(self) -> None:
        """End every connection; new ones wait."""
        self._whole.clear()
        self._heard.clear()
        for writer in self._writers:
            writer.close()

    def mend(self) -> None:
        """Let waiting connections proceed."""
        self._whole.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        await self._whole.wait()
        behind, ahead = await asyncio.open_connection("127.0.0.1", self._server_port)
        ends = {writer, ahead}
        self._writers |= ends
        try:
            await asyncio.gather(self._pass(reader, ahead), self._pass(behind, writer, listening=True))
        finally:
            self._writers -= ends

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, listening: bool = False
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if listening:
                    self._heard += data
                    self._more.set()
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def line_to(port: int) -> AsyncGenerator[Line]:
    """Open a line to the server at `port` on this machine."""
    line = Line(port)
    async with await asyncio.start_server(line.take, "127.0.0.1", 0) as server:
        line.port = server.sockets[0].getsockname()[1]
        try:
            yield line
        finally:
            line.cut()
            line.mend()
