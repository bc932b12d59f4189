"""Calls over HTTP: one request each, connections kept and shared."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from elytron.remote.wire import BegunStream, RemoteCall, ReportT, ServerAddress, report_of, told_of, unreachable_server
from elytron_core import limits
from elytron_core.errors import ElytronError, LimitExceeded, MissingExtra, Unreachable, Unsupported
from elytron_core.events import EventId, StreamItem
from elytron_core.model import Value
from elytron_core.scope import Scope

if TYPE_CHECKING:
    import httpx


_ITEM: TypeAdapter[StreamItem] = TypeAdapter(StreamItem)


async def stream_items(lines: AsyncIterable[str], /) -> AsyncIterator[StreamItem | BegunStream]:
    """Yield the entries and gaps in `lines`, and an id that comes alone; comments are heartbeats.

    Raises the error of an `error` event.
    """
    name, data, place = "", list[str](), ""
    async for line in lines:
        if line:
            field, _, value = line.partition(":")
            match field:
                case "event":
                    name = value.removeprefix(" ")
                case "data":
                    data.append(value.removeprefix(" "))
                case "id":
                    place = value.removeprefix(" ")
                case _:
                    pass
            continue
        if data:
            yield _stream_item(name, "\n".join(data).encode())
        elif place:
            yield BegunStream(place)
        name, data, place = "", [], ""


def _stream_item(name: str, data: bytes) -> StreamItem:
    if name == "error" and (error := told_of(data)) is not None:
        raise error
    try:
        return _ITEM.validate_json(data, strict=True)
    except ValidationError:
        raise Unsupported("the server sent an event that this version does not know: use the same version") from None


_DONE = frozenset({HTTPStatus.OK, HTTPStatus.ACCEPTED})
"""Done; or done so far, and the report names the job that does the rest."""
_GATEWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


class NotConnected(Unreachable):
    """No connection was made, so nothing was sent."""


class HttpTransport:
    """Posts each operation to its route under `/v1`."""

    def __init__(self, address: ServerAddress, /, *, timeout_s: float) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra(extra="client", purpose="a memory on a server") from error

        self._address = address
        self._client = httpx.AsyncClient(
            base_url=address.url,
            headers=address.headers,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, limits.REMOTE_CONNECT_S)),
            limits=httpx.Limits(max_connections=limits.REMOTE_CONNECTIONS, keepalive_expiry=limits.REMOTE_IDLE_S),
            # No proxy, certificate or password from the environment, which may be meant for another program.
            trust_env=False,
            proxy=address.proxy,
            # Without encryption the system's certificates need not be read.
            verify=address.scheme != "http",
        )

    async def call(self, call: RemoteCall, /) -> bytes:
        keyed = {"Idempotency-Key": call.idempotency_key} if call.idempotency_key is not None else {}
        return await self._posted(f"/v1/{call.operation.name}", call.payload, keyed)

    async def post(self, path: str, asked: Value, report: type[ReportT], /) -> ReportT:
        """Post `asked` to a path that is no operation's and return what is reported."""
        return report_of(await self._posted(path, asked.model_dump_json().encode(), {}), report)

    async def read(self, path: str, report: type[ReportT], /) -> ReportT:
        """Return what is reported at a path that is no operation's."""
        return report_of(await self._sent("GET", path, b"", {}), report)

    async def remove(self, path: str, report: type[ReportT], /) -> ReportT:
        """Delete what is at a path that is no operation's and return what is reported."""
        return report_of(await self._sent("DELETE", path, b"", {}), report)

    async def _posted(self, path: str, payload: bytes, headers: dict[str, str]) -> bytes:
        return await self._sent("POST", path, payload, {"Content-Type": "application/json", **headers})

    async def _sent(self, method: str, path: str, payload: bytes, headers: dict[str, str]) -> bytes:
        import httpx

        try:
            request = self._client.build_request(method, path, content=payload, headers=headers)
            response = await self._client.send(request, stream=True)
            try:
                data = await _bounded_body(response)
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotConnected(unreachable_server(self._address.url, type(error).__name__).message) from None
        except (httpx.TransportError, httpx.StreamError) as error:
            raise unreachable_server(self._address.url, type(error).__name__) from None
        if response.status_code not in _DONE:
            raise self._told(response, data)
        return data

    async def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        import httpx

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        params = {"space": scope.space} if scope is not None else {}
        silence = httpx.Timeout(limits.REMOTE_CONNECT_S, read=limits.EVENTS_HEARTBEAT_S * 3)
        try:
            async with self._client.stream(
                "GET", "/v1/events", params=params, headers=headers, timeout=silence
            ) as response:
                if response.status_code != HTTPStatus.OK:
                    raise self._told(response, await _bounded_body(response))
                async for item in stream_items(response.aiter_lines()):
                    yield item
        except (httpx.TransportError, httpx.StreamError) as error:
            raise unreachable_server(self._address.url, type(error).__name__) from None
        raise unreachable_server(self._address.url, "the stream ended")

    async def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:  # noqa: ARG002 - the protocol's
        raise Unsupported(f"reports of {call.operation.name!r} are streamed over WebSocket: connect to a ws:// address")
        yield b""  # makes this the iterator that the protocol names

    async def close(self) -> None:
        await self._client.aclose()

    def _told(self, response: "httpx.Response", data: bytes) -> ElytronError:
        """Return what the server says went wrong, or a proxy before it."""
        error = told_of(data)
        if error is None and response.status_code in _GATEWAY:
            error = unreachable_server(self._address.url, f"status {response.status_code}")
        if error is None:
            return Unsupported(
                f"{self._address.url} answered with status {response.status_code}, not as an Elytron server does: "
                "see that the address is right"
            )
        named = response.headers.get("retry-after", "")
        if named.isascii() and named.isdecimal():
            error.retry_after_s = int(named[:6])
        return error


async def _bounded_body(response: "httpx.Response") -> bytes:
    """Return the body, or stop reading at its bound."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limits.REMOTE_REPORT_BYTES:
            raise LimitExceeded(what="bytes of an answer", limit=limits.REMOTE_REPORT_BYTES)
    return bytes(body)
