"""A real server on its own loopback port, in its own thread."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar
from unittest.mock import patch

import elytron
from elytron_adapter.access_keys import Authenticator, DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.surface import Family
from elytron_core.ports.models import LanguageModel
from elytron_http_shell import application, create_app
from elytron_http_shell.events import StreamBounds
from elytron_http_shell.server import server_of
from elytron_http_shell.websocket import stream_surfaces

T = TypeVar("T")


class Live:
    """Serves one runtime during the block."""

    def __init__(
        self,
        store: str | Path = "memory:",
        *,
        authenticator: Authenticator | None = None,
        bounds: StreamBounds | None = None,
        further: Iterable[Family] = (),
        language_model: LanguageModel | None = None,
    ) -> None:
        self._store = store
        self._language_model = language_model
        self._authenticator = authenticator or DevelopmentCallers()
        self._families = (partial(stream_surfaces, bounds=bounds),)
        self._further = further
        self._begun: Future[None] = Future()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), name="live server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return the result of `work`, run in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=100)

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.result(timeout=100)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop the server like a signal: streams are closed properly, and accepted requests finish."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._end)
            self._thread.join(timeout=100)
        assert not self._thread.is_alive()

    def ended(self) -> bool:
        """Wait for a server that is stopped otherwise, and return whether it did."""
        self._thread.join(timeout=100)
        return not self._thread.is_alive()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        try:
            async with elytron.open(self._store, space="ada", language_model=self._language_model) as self.runtime:
                self.admission = CallerAdmission(OperationDispatcher(self.runtime), authenticator=self._authenticator)
                with patch.object(application, "FAMILIES", self._families):
                    app = create_app(self.admission, further=self._further)
                listening = _listening()
                self.port: int = listening.getsockname()[1]
                await server_of(app, self.admission, self._told).serve(sockets=[listening])
        except BaseException as error:
            if not self._begun.done():
                self._begun.set_exception(error)
            raise

    def _told(self, end: Callable[[], None]) -> None:
        self._end = end
        self._begun.set_result(None)


def _listening() -> socket.socket:
    # Named as TCP: asyncio sends answers immediately only on sockets that say so.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening
