"""Concurrent calls over one WebSocket, matched by id. Each stream has a socket of its own.

A stream can therefore be read at any pace: the server waits for it, and no call does.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from elytron.remote.wire import BegunStream, RemoteCall, ServerAddress, report_of, told_of, unreachable_server
from elytron_core import limits
from elytron_core.contracts.events import (
    CloseCode,
    ErrorEvent,
    EventId,
    JournalEvent,
    LifecycleEvent,
    OutFrame,
    ReportEvent,
    StreamItem,
    StreamKind,
    SubscriptionPhase,
)
from elytron_core.errors import ElytronError, MissingExtra, StoreClosed, Unauthorized, Unsupported
from elytron_core.errors.tree import error_of
from elytron_core.scope import Scope

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed

_KINDS = {
    "project": StreamKind.PROJECTION,
    "inspect": StreamKind.INSPECTION,
    "replay": StreamKind.REPLAY,
    "capabilities": StreamKind.CAPABILITY,
}
_FRAME: TypeAdapter[OutFrame] = TypeAdapter(OutFrame)
# At its most detailed level, the library's log shows headers, and with them the key.
_quiet = logging.getLogger("elytron.remote.websocket")
_quiet.setLevel(logging.INFO)


_BEGINS, _MARK, _NO_REPORT = b'{"type": "event.report"', b', "report": ', b', "report": null}'


@dataclass(frozen=True, slots=True)
class _ReportFrame:
    """A report's frame; the report is JSON."""

    id: str
    report: bytes


class WebSocketTransport:
    """One socket to the server for calls, opened on demand and reopened when it breaks."""

    def __init__(self, address: ServerAddress, /, *, timeout_s: float) -> None:
        try:
            # Loaded now, so that its absence is reported at once and not at the first call.
            from websockets.asyncio.client import connect
        except ImportError as error:
            raise MissingExtra(extra="client", purpose="a memory on a server") from error

        self._connect = connect
        self._address = address
        self._timeout_s = timeout_s
        self._opening = asyncio.Lock()
        self._line: _SocketLine | None = None
        self._streams: set[ClientConnection] = set()
        self._is_closed = False

    async def call(self, call: RemoteCall, /) -> bytes:
        line = await self._connected()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await line.ask(f"command.{call.operation.name}", call)
        except TimeoutError:
            raise unreachable_server(self._address.url, "no answer in time") from None

    async def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        frame: dict[str, Any] = {"type": f"subscribe.{StreamKind.EVENTS}", "id": "events"}
        if scope is not None:
            frame["scope"] = scope.model_dump(mode="json", exclude_defaults=True)
        if after is not None:
            frame["after"] = after
        async with aclosing(self._subscribed(json.dumps(frame))) as events:
            async for event in events:
                match event:
                    case LifecycleEvent(phase=SubscriptionPhase.SUBSCRIBED, after=place) if place is not None:
                        yield BegunStream(place)
                    case LifecycleEvent(phase=SubscriptionPhase.GAP, gap=gap) if gap is not None:
                        yield gap
                    case _ReportFrame():
                        yield report_of(event.report, JournalEvent)
                    case _:
                        continue

    async def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:
        kind = _KINDS.get(call.operation.name)
        if kind is None:
            raise Unsupported(f"reports of {call.operation.name!r} are not streamed: {', '.join(_KINDS)} are")
        async with aclosing(self._subscribed(_encode_frame(f"subscribe.{kind}", "watch", call, after=after))) as events:
            async for event in events:
                if isinstance(event, _ReportFrame):
                    yield event.report

    async def close(self) -> None:
        self._is_closed = True
        line, self._line = self._line, None
        if line is not None:
            await line.close()
        await asyncio.gather(*(socket.close() for socket in tuple(self._streams)))

    async def _connected(self) -> "_SocketLine":
        async with self._opening:
            if self._is_closed:
                raise StoreClosed
            if self._line is None or self._line.is_broken:
                self._line = _SocketLine(await self._open(), self._address)
            return self._line

    async def _open(self) -> "ClientConnection":
        from websockets.exceptions import InvalidHandshake, InvalidStatus

        try:
            return await self._connect(
                f"{self._address.url}/v1/ws",
                additional_headers=self._address.headers,
                open_timeout=min(self._timeout_s, limits.REMOTE_CONNECT_S),
                max_size=limits.REMOTE_REPORT_BYTES,
                compression=None,
                proxy=self._address.proxy,
                logger=_quiet,
            )
        except InvalidStatus as error:
            problem = told_of(bytes(error.response.body or b""))
            if problem is not None:
                raise problem from None
            raise unreachable_server(self._address.url, f"status {error.response.status_code}") from None
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            raise unreachable_server(self._address.url, type(error).__name__) from None

    async def _subscribed(self, frame: str) -> AsyncGenerator["_ReportFrame | LifecycleEvent"]:
        """Yield what a subscription on a separate socket sends, until the connection ends, with Unreachable."""
        from websockets.exceptions import ConnectionClosed

        socket = await self._open()
        self._streams.add(socket)
        try:
            await socket.send(frame)
            while True:
                match _decode_frame(await socket.recv(decode=False)):
                    case ErrorEvent(error=problem):
                        raise error_of(problem.code, problem.detail, problem.details)
                    case event:
                        yield event
        except ConnectionClosed as error:
            raise _closed_error(error, self._address) from None
        finally:
            self._streams.discard(socket)
            await socket.close()


class _SocketLine:
    """A socket, the calls that wait for their answers on it, and the task that receives them."""

    def __init__(self, socket: "ClientConnection", address: ServerAddress, /) -> None:
        self._socket = socket
        self._address = address
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self.is_broken = False
        self._reading = asyncio.create_task(self._read())

    async def ask(self, kind: str, call: RemoteCall, /) -> bytes:
        """Send `call` and return its report. Raises the server's error, or Unreachable if the socket breaks."""
        from websockets.exceptions import ConnectionClosed

        call_id = str(next(self._ids))
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = answer
        try:
            await self._socket.send(_encode_frame(kind, call_id, call))
            return await answer
        except ConnectionClosed as error:
            raise _closed_error(error, self._address) from None
        finally:
            self._waiting.pop(call_id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # read, in case no caller waits for it any more

    async def close(self) -> None:
        await self._socket.close()
        await self._reading

    async def _read(self) -> None:
        """Receive answers until the socket ends; then each open call gets an error."""
        from websockets.exceptions import ConnectionClosed

        connection_error: ElytronError = unreachable_server(self._address.url, "the connection was closed")
        try:
            while True:
                self._bring(_decode_frame(await self._socket.recv(decode=False)))
        except ConnectionClosed as error:
            connection_error = _closed_error(error, self._address)
        except Unsupported as error:
            connection_error = error
        # First, so that a caller that retries at once gets a new socket.
        self.is_broken = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(connection_error)
        with suppress(ConnectionClosed):
            await self._socket.close()

    def _bring(self, event: "_ReportFrame | ErrorEvent | LifecycleEvent") -> None:
        answer_future = self._waiting.get(event.id)
        if answer_future is None or answer_future.done():
            return  # the caller has stopped waiting
        match event:
            case _ReportFrame(report=report):
                answer_future.set_result(report)
            case ErrorEvent(error=problem):
                answer_future.set_exception(error_of(problem.code, problem.detail, problem.details))
            case LifecycleEvent():
                return


def _encode_frame(kind: str, frame_id: str, call: RemoteCall, /, *, after: int | None = None) -> str:
    """Return the frame that sends `call`; its payload is JSON already."""
    head: dict[str, str | int] = {"type": kind, "id": frame_id}
    if call.idempotency_key is not None:
        head["idempotency_key"] = call.idempotency_key
    if after is not None:
        head["after"] = after
    return f'{json.dumps(head)[:-1]}, "payload": {call.payload.decode()}}}'


def _decode_frame(frame_bytes: bytes) -> _ReportFrame | ErrorEvent | LifecycleEvent:
    """Return the frame in `frame_bytes`; a report stays JSON, so that its own type reads it."""
    # No part of a report's frame before its report contains an object or a quote, so the first mark is the frame's own.
    event_head, separator, report_bytes = frame_bytes.partition(_MARK)
    try:
        if separator and event_head.startswith(_BEGINS):
            report_event = ReportEvent.model_validate_json(event_head + _NO_REPORT, strict=True)
            return _ReportFrame(report_event.id, report_bytes[:-1])
        event = _FRAME.validate_json(frame_bytes, strict=True)
    except ValidationError:
        raise Unsupported("the server sent an unknown frame: use the same version on both sides") from None
    if isinstance(event, ReportEvent):
        return _ReportFrame(event.id, json.dumps(event.report).encode())
    return event


def _closed_error(error: "ConnectionClosed", address: ServerAddress) -> ElytronError:
    """Return the meaning of a closed socket: an expired credential, or a server to be retried."""
    close_code = error.rcvd.code if error.rcvd is not None else None
    if close_code == CloseCode.UNAUTHORIZED:
        return Unauthorized()
    return unreachable_server(
        address.url, f"connection closed with code {close_code}" if close_code else "connection closed"
    )
