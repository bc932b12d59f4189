"""Messages of all wires: a call out, a report or a problem back; and calls over HTTP.

A call over HTTP is one request. Connections are reused.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from elytron.registry import AnyOperation
from elytron_core import limits
from elytron_core.contracts.events import EventId, StreamItem
from elytron_core.errors import ElytronError, InvalidInput, Unreachable, Unsupported
from elytron_core.errors.tree import error_of
from elytron_core.model import Value
from elytron_core.scope import Scope, ScopedRequest
from elytron_outbound.answers import read_body, request_within
from elytron_outbound.clients import ClientSettings, http_client

if TYPE_CHECKING:
    import httpx


ReportT = TypeVar("ReportT", bound=Value)


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One operation to be performed elsewhere. `may_repeat`: sent twice, it acts once.

    `space` is the one that it names, None if it leaves that to the credential.
    """

    operation: AnyOperation
    payload: bytes
    idempotency_key: str | None
    may_repeat: bool
    space: str | None = None


@dataclass(frozen=True, slots=True)
class BegunStream:
    """A stream is open and has begun at `place`, from which it resumes if it breaks before the first item."""

    place: EventId


class RemoteTransport(Protocol):
    """Sends calls to one server and receives their answers. Many may run concurrently."""

    async def call(self, call: RemoteCall, /) -> bytes:
        """Send `call` once and return its report as JSON. Raises the server's error, or Unreachable."""
        ...

    def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        """Yield what is committed after `after` (None: from now on) until the connection ends, with Unreachable."""
        ...

    def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:
        """Yield the report of `call` each time its space has grown. Raises Unsupported if this wire cannot."""
        ...

    async def close(self) -> None:
        """Release the connections; a second close does nothing."""
        ...


class RemoteProblem(Value):
    """A problem document, read leniently: a proxy or a newer server may add fields."""

    model_config = ConfigDict(extra="ignore")

    code: str = Field(max_length=200)
    detail: str = ""
    details: dict[str, str | int] = {}


def call_of(operation: AnyOperation, request: Value, /, *, idempotency_key: str | None) -> RemoteCall:
    """Return `request` as a call. A change may be repeated if the request or the call has an idempotency key."""
    request_key: Any = getattr(request, "idempotency_key", None)
    scope = space_of(request, None)
    return RemoteCall(
        operation=operation,
        payload=request.__pydantic_serializer__.to_json(request, exclude_none=True),
        idempotency_key=idempotency_key,
        may_repeat=not operation.mutates or idempotency_key is not None or request_key is not None,
        space=scope.space if scope is not None else None,
    )


def report_of(report_bytes: bytes, report: type[ReportT], /) -> ReportT:
    """Return the report in `report_bytes`, read strictly. Raises Unsupported if this version does not know it."""
    try:
        return report.__pydantic_validator__.validate_json(
            report_bytes, strict=True, self_instance=report.__new__(report)
        )
    except ValidationError as error:
        fields = ".".join(str(part) for part in error.errors(include_input=False, include_url=False)[0]["loc"])
        raise Unsupported(
            f"the server's {report.__name__} is unknown to this version (at {fields or 'its start'!r}): use the "
            "same version on both sides"
        ) from None


def require_within(report: ReportT, request: Value, /) -> ReportT:
    """Return `report`. Raises Unsupported for one with more hits or items than its request asked for."""
    limit = getattr(request, "limit", None)
    counts = (len(getattr(report, name, ())) for name in ("hits", "items"))
    if isinstance(limit, int) and any(count > limit for count in counts):
        raise Unsupported("the server returned more than was requested: use the same version on both sides")
    return report


def told_of(event_bytes: bytes, /) -> ElytronError | None:
    """Return the error of a problem document, or None if `event_bytes` is not one."""
    try:
        problem = RemoteProblem.model_validate_json(event_bytes)
    except ValidationError:
        return None
    return error_of(problem.code, problem.detail, problem.details)


def unreachable_server(origin: str, cause: str, /) -> Unreachable:
    """Return the error for a server that gave no answer; it names neither key nor content."""
    return Unreachable(f"the server at {origin} does not answer ({cause}): check that it is running, and try again")


def space_of(request: Value, scope: Scope | None, /) -> Scope | None:
    """Return the scope that `request` is about."""
    return (request.scope if isinstance(request, ScopedRequest) else None) or scope


_KEY = re.compile(r"[\x21-\x7e]{1,500}")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address without a trailing slash, and the proxy to use.

    `headers` hold the credential, `proxy` perhaps another one: neither is shown.
    """

    url: str
    scheme: str
    headers: dict[str, str] = field(repr=False)
    proxy: str | None = field(default=None, repr=False)

    @property
    def is_websocket(self) -> bool:
        return self.scheme in {"ws", "wss"}


def address_of(url: str, /, *, api_key: str | None, proxy: str | None = None) -> ServerAddress:
    """Return the address in `url`. Raises InvalidInput, which repeats neither the key nor anything that may contain
    one."""
    try:
        url_parts = urlsplit(url)
        has_host = url_parts.hostname is not None and (url_parts.port is None or url_parts.port > 0)
    except ValueError:
        raise InvalidInput(field="url", problem="is not a URL") from None
    if url_parts.scheme not in {"http", "https", "ws", "wss"} or not has_host:
        raise InvalidInput(field="url", problem="names no server: use http://, https://, ws:// or wss:// with a host")
    if url_parts.username is not None or url_parts.password is not None or url_parts.query or url_parts.fragment:
        raise InvalidInput(field="url", problem="has more than a scheme, host, port and path: pass a key as api_key=")
    if api_key is not None and not _KEY.fullmatch(api_key):
        raise InvalidInput(field="api_key", problem="is not a valid key, which is printable ASCII without spaces")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    return ServerAddress(url=url.rstrip("/"), scheme=url_parts.scheme, headers=headers, proxy=proxy_of(proxy))


def addresses_of(urls: str, /, *, api_key: str | None, proxy: str | None = None) -> tuple[ServerAddress, ...]:
    """Return the addresses in `urls`, one or several separated by commas. Raises InvalidInput as `address_of` does."""
    addresses = tuple(address_of(url.strip(), api_key=api_key, proxy=proxy) for url in urls.split(","))
    if len(addresses) > 1 and any(address.is_websocket for address in addresses):
        raise InvalidInput(field="url", problem="lists several servers, which requires http:// or https://")
    return addresses


NodeSource = Literal["listed", "dns", "leased"]
"""Source of a store's nodes: given addresses, DNS, or the list in their database."""


def require_source(addresses: Sequence[ServerAddress], source: NodeSource, /) -> None:
    """Raise InvalidInput unless nodes can be found that way from `addresses`."""
    if source not in get_args(NodeSource):
        raise InvalidInput(field="nodes", problem=f"must be one of {', '.join(get_args(NodeSource))}")
    if source != "listed" and any(address.is_websocket for address in addresses):
        raise InvalidInput(field="nodes", problem="can only be discovered over http:// or https://")
    if source == "dns" and (len(addresses) > 1 or addresses[0].scheme != "http"):
        raise InvalidInput(
            field="nodes", problem="is 'dns', which requires one http:// URL: certificates do not cover IP addresses"
        )


def proxy_of(proxy: str | None, /) -> str | None:
    """Return `proxy`, None: no proxy. Raises InvalidInput, without repeating it, unless it is an HTTP proxy's
    address."""
    if proxy is None:
        return None
    try:
        url_parts = urlsplit(proxy)
        is_complete = (
            url_parts.scheme in {"http", "https"} and url_parts.hostname is not None and url_parts.port is not None
        )
    except ValueError:
        is_complete = False
    if not is_complete:
        raise InvalidInput(field="proxy", problem="is not an HTTP proxy: use http:// or https:// with host and port")
    return proxy


_ITEM: TypeAdapter[StreamItem] = TypeAdapter(StreamItem)


async def stream_items(lines: AsyncIterable[str], /) -> AsyncIterator[StreamItem | BegunStream]:
    """Yield the entries and gaps in `lines`, and a separate id; comments are heartbeats.

    Raises the error of an `error` event.
    """
    event_name, data_lines, event_id = "", list[str](), ""
    async for line in lines:
        if line:
            field, _, value = line.partition(":")
            match field:
                case "event":
                    event_name = value.removeprefix(" ")
                case "data":
                    data_lines.append(value.removeprefix(" "))
                case "id":
                    event_id = value.removeprefix(" ")
                case _:
                    pass
            continue
        if data_lines:
            yield _stream_item(event_name, "\n".join(data_lines).encode())
        elif event_id:
            yield BegunStream(event_id)
        event_name, data_lines, event_id = "", [], ""


def _stream_item(name: str, event_bytes: bytes) -> StreamItem:
    if name == "error" and (error := told_of(event_bytes)) is not None:
        raise error
    try:
        return _ITEM.validate_json(event_bytes, strict=True)
    except ValidationError:
        raise Unsupported("the server sent an unknown event: use the same version on both sides") from None


_DONE_STATUSES = frozenset({HTTPStatus.OK, HTTPStatus.ACCEPTED})
"""Done; or partly done, and the report names the job for the rest."""
_GATEWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


class NotConnected(Unreachable):
    """No connection was made, so nothing was sent."""


class HttpTransport:
    """Posts each operation to its route under `/v1`."""

    def __init__(self, address: ServerAddress, /, *, timeout_s: float) -> None:
        self._address = address
        self._client = http_client(
            ClientSettings(
                extra="client",
                purpose="a memory on a server",
                url=address.url,
                headers=address.headers,
                timeout_s=timeout_s,
                connect_s=limits.REMOTE_CONNECT_S,
                proxy=address.proxy,
            )
        )

    async def call(self, call: RemoteCall, /) -> bytes:
        key_header = {"Idempotency-Key": call.idempotency_key} if call.idempotency_key is not None else {}
        return await self._posted(f"/v1/{call.operation.name}", call.payload, key_header)

    async def post(self, path: str, request: Value, report: type[ReportT], /) -> ReportT:
        """Post `request` to a path outside the operations and return the answer."""
        return report_of(await self._posted(path, request.model_dump_json().encode(), {}), report)

    async def read(self, path: str, report: type[ReportT], /) -> ReportT:
        """Read from a path outside the operations."""
        return report_of(await self._send("GET", path, b"", {}), report)

    async def remove(self, path: str, report: type[ReportT], /) -> ReportT:
        """Delete at a path outside the operations and return the answer."""
        return report_of(await self._send("DELETE", path, b"", {}), report)

    async def _posted(self, path: str, payload: bytes, headers: dict[str, str]) -> bytes:
        return await self._send("POST", path, payload, {"Content-Type": "application/json", **headers})

    async def _send(self, method: str, path: str, payload: bytes, headers: dict[str, str]) -> bytes:
        import httpx

        try:
            bytes_max = limits.REMOTE_REPORT_BYTES
            response = await request_within(
                self._client, method, path, limit=bytes_max, content=payload, headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotConnected(unreachable_server(self._address.url, type(error).__name__).message) from None
        except (httpx.TransportError, httpx.StreamError) as error:
            raise unreachable_server(self._address.url, type(error).__name__) from None
        if response.status_code not in _DONE_STATUSES:
            raise self._error_of(response, response.content)
        return response.content

    async def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        import httpx

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        query_params = {"space": scope.space} if scope is not None else {}
        # Three missed heartbeats count as the end of the connection.
        stream_timeout = httpx.Timeout(limits.REMOTE_CONNECT_S, read=limits.EVENTS_HEARTBEAT_S * 3)
        try:
            async with self._client.stream(
                "GET", "/v1/events", params=query_params, headers=headers, timeout=stream_timeout
            ) as response:
                if response.status_code != HTTPStatus.OK:
                    raise self._error_of(response, await read_body(response, limit=limits.REMOTE_REPORT_BYTES))
                async for item in stream_items(response.aiter_lines()):
                    yield item
        except (httpx.TransportError, httpx.StreamError) as error:
            raise unreachable_server(self._address.url, type(error).__name__) from None
        raise unreachable_server(self._address.url, "the stream ended")

    async def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:  # noqa: ARG002 - the protocol's
        raise Unsupported(f"reports of {call.operation.name!r} are streamed over WebSocket: connect to a ws:// address")
        yield b""  # makes this the iterator that the protocol requires

    async def close(self) -> None:
        await self._client.aclose()

    def _error_of(self, response: "httpx.Response", error_bytes: bytes) -> ElytronError:
        """Return the error that the server, or a proxy in front of it, reports."""
        error = told_of(error_bytes)
        if error is None and response.status_code in _GATEWAY:
            error = unreachable_server(self._address.url, f"status {response.status_code}")
        if error is None:
            return Unsupported(
                f"{self._address.url} answered with status {response.status_code}, unlike an Elytron server: check the "
                "address"
            )
        retry_after = response.headers.get("retry-after", "")
        if retry_after.isascii() and retry_after.isdecimal():
            error.retry_after_s = int(retry_after[:6])
        return error
