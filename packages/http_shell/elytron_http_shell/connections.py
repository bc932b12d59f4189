"""Connections of a server: deadlines for unauthenticated peers, a share per address, and space for new connections.

uvicorn only bounds the time between an answer and the next request. This module also bounds each wait for a peer that
has shown no credential: for its first byte, and for the head of each request. Bodies have their own deadlines where
they are read. When the limit is reached, the oldest unauthenticated connection is closed.
"""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from elytron_adapter.admission_control import ConnectionBounds
from elytron_adapter.http.requests import ADMITTED
from elytron_adapter.key_quotas import place_of

MAX_CONNECTIONS: Final = 65_536
"""Connections of a server, as far as it has descriptors."""


try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None

logger = logging.getLogger(__name__)

_LOOKS = 4
"""Checks of the deadlines within the shortest one."""
_SPARE_DESCRIPTORS = 64
"""Descriptors reserved for the store and for calls of other servers; a quarter, if that is more."""
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class PeerConnection:
    """One connection. `deadline` is monotonic; None while an answer is made, or an authenticated peer idles."""

    __slots__ = ("deadline", "has_spoken", "is_admitted", "is_answering", "place", "table", "transport")

    def __init__(self, table: "ConnectionTable", transport: asyncio.Transport, place: str | None) -> None:
        self.table = table
        self.transport = transport
        self.place = place
        self.deadline: float | None = time.monotonic() + table.bounds.silent_s
        self.has_spoken = False
        self.is_answering = False
        self.is_admitted = False

    def admit(self) -> None:
        """Record that the connection has a valid credential."""
        if not self.is_admitted:
            self.is_admitted = True
            self.table.forget(self)
        if self.is_answering:
            self.deadline = None

    def begin_head(self) -> None:
        """Record that bytes of a head arrived."""
        if not self.is_answering and (self.deadline is None or not self.has_spoken):
            self.deadline = time.monotonic() + self.table.bounds.head_s
        self.has_spoken = True

    def end_head(self) -> None:
        """Record that a request's head is complete, and that its answer is being made."""
        self.is_answering, self.deadline = True, None

    def end_answer(self) -> None:
        """Record that all received requests are answered."""
        self.is_answering = False

    def expire(self) -> None:
        """Close the connection, whose deadline has passed."""
        if self.has_spoken and not self.is_answering:
            self.transport.write(_TOO_SLOW)
        self.transport.close()


class ConnectionTable:
    """The open connections of one server, oldest first."""

    def __init__(self, bounds: ConnectionBounds | None = None, /, *, trusted: Sequence[str] = ()) -> None:
        self.bounds = bounds or ConnectionBounds()
        self._most = self.bounds.most or _descriptor_room()
        self._trusted = [ipaddress.ip_network(network) for network in trusted]
        self._open: dict[PeerConnection, None] = {}
        self._unadmitted: dict[str | None, dict[PeerConnection, None]] = {}

    def add(self, transport: asyncio.Transport, address: str | None, /) -> PeerConnection:
        """Return the new connection from `address`, for which an older one may be closed."""
        source_network = None if self._is_trusted(address) else place_of(address)
        connection = PeerConnection(self, transport, source_network)
        self._open[connection] = None
        siblings = self._unadmitted.setdefault(source_network, {})
        siblings[connection] = None
        if source_network is not None and len(siblings) > self.bounds.each:
            self._close_oldest(siblings, "from one address without a credential", self.bounds.each)
        elif len(self._open) > self._most:
            unadmitted_connections = {each: None for each in self._open if not each.is_admitted}
            self._close_oldest(unadmitted_connections, "for this process's file descriptors", self._most)
        return connection

    def remove(self, connection: PeerConnection, /) -> None:
        """Forget a closed connection."""
        self._open.pop(connection, None)
        self.forget(connection)

    def forget(self, connection: PeerConnection, /) -> None:
        """Do not count the connection as unauthenticated any more."""
        siblings = self._unadmitted.get(connection.place, {})
        siblings.pop(connection, None)
        if not siblings:
            self._unadmitted.pop(connection.place, None)

    def look(self) -> None:
        """Close the connections whose deadlines have passed, and forget closed ones."""
        now = time.monotonic()
        for connection in tuple(self._open):
            if connection.transport.is_closing():
                self.remove(connection)
            elif connection.deadline is not None and connection.deadline <= now:
                connection.expire()

    async def watch(self) -> None:
        """Check the deadlines as long as the server runs."""
        pause_s = min(self.bounds.silent_s, self.bounds.head_s) / _LOOKS
        while True:
            await asyncio.sleep(pause_s)
            self.look()

    def _close_oldest(self, connections: dict[PeerConnection, None], what: str, most: int) -> None:
        """Close the oldest of the connections, if possible one without a running answer.

        The newest may be a caller whose credential has not been read yet, so it is closed only if there is no other.
        """
        *older_connections, newest_connection = connections
        connection_to_close = next(
            (each for each in older_connections if not each.is_answering),
            older_connections[0] if older_connections else newest_connection,
        )
        logger.warning("connection limit reached %s (%d): closing the oldest", what, most)
        self.remove(connection_to_close)
        connection_to_close.transport.abort()

    def _is_trusted(self, address: str | None) -> bool:
        """Return whether the address is that of a trusted proxy, whose connections belong to many peers."""
        try:
            ip_address = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        return any(ip_address in network for network in self._trusted)


def _descriptor_room() -> int:
    """Return how many connections this process has descriptors for."""
    if resource is None:
        return MAX_CONNECTIONS
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft_limit - max(_SPARE_DESCRIPTORS, soft_limit // 4)))


def http_protocol(table: ConnectionTable, /) -> type[HttpToolsProtocol]:
    """Return the HTTP protocol class whose connections are in `table`."""

    class BoundedProtocol(HttpToolsProtocol):
        """Reports each connection's state to the table, and lets applications report that its peer is authenticated."""

        connection: PeerConnection
        answering: RequestResponseCycle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.connection = table.add(transport, self.client[0] if self.client is not None else None)
            self.app_state = {**self.app_state, ADMITTED: self.connection.admit}

        def connection_lost(self, exc: Exception | None) -> None:
            table.remove(self.connection)
            # uvicorn knows only the latest request, but a stream may be open before pipelined ones.
            for request_cycle in (self.answering, *(request_cycle for request_cycle, _ in self.pipeline)):
                if request_cycle is not None and not request_cycle.response_complete:
                    logger.debug("connection lost in an answer", exc_info=exc)
                    request_cycle.disconnected = True
                    request_cycle.message_event.set()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self.connection.begin_head()
            super().data_received(data)

        def on_headers_complete(self) -> None:
            self.connection.end_head()
            super().on_headers_complete()
            if not self.pipeline:
                self.answering = self.cycle

        def handle_websocket_upgrade(self) -> None:
            # Until its caller is authenticated, a socket has the time of another head.
            self.connection.deadline = time.monotonic() + table.bounds.head_s
            super().handle_websocket_upgrade()

        def on_response_complete(self) -> None:
            # Before a pipelined request is begun, which is answering again.
            if self.pipeline:
                self.answering, _ = self.pipeline[-1]
            else:
                self.connection.end_answer()
            super().on_response_complete()

    return BoundedProtocol
