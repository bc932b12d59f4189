"""Reading request bodies within bounds of size and time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, TypeVar, overload
from urllib.parse import quote, unquote, urlsplit

from pydantic import ValidationError
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter import envelope
from elytron_adapter.idempotency import key_in
from elytron_core import limits, strict_json
from elytron_core import scope as elytron_scope
from elytron_core.errors import InvalidInput, PayloadTooLarge
from elytron_core.model import Value, invalid_input
from elytron_core.scope import SpaceId
from elytron_core.strict_json import Json

AUDIT_ID = "X-Audit-ID"
IDEMPOTENCY_KEY = "Idempotency-Key"
ADMITTED: Final = "admitted"
"""Key in a request's state of the callback that reports a valid credential on its connection."""
_INDEX_FIELD = "elytron.headers"
T = TypeVar("T")
ValueT = TypeVar("ValueT", bound=Value)


class HeaderIndex(Headers):
    """Headers indexed by name; for repeated names the first, as `Headers` does."""

    def __init__(self, scope: Scope, /) -> None:
        super().__init__(scope=scope)
        self._first = dict(reversed(self.raw))

    @overload
    def get(self, key: str, default: None = None, /) -> str | None: ...
    @overload
    def get(self, key: str, default: str | T, /) -> str | T: ...
    def get(self, key: str, default: object = None, /) -> object:
        value = self._first.get(key.lower().encode("latin-1"))
        return value.decode("latin-1") if value is not None else default


def admit_connection(scope: Scope, /) -> None:
    """Tell the server that the connection has a valid credential, if the server counts connections."""
    report_admission = scope.get("state", {}).get(ADMITTED)
    if report_admission is not None:
        report_admission()


def heads_of(scope: Scope, /) -> Headers:
    """Return the headers of a request."""
    headers = scope.get(_INDEX_FIELD)
    if headers is None:
        headers = scope[_INDEX_FIELD] = HeaderIndex(scope)
    assert isinstance(headers, HeaderIndex)
    return headers


def idempotency_key(headers: Headers, /) -> str | None:
    """Return the key in the header. Raises InvalidInput for one that is empty or too long."""
    return key_in(headers.get(IDEMPOTENCY_KEY))


def query_scope(query: QueryParams, /) -> elytron_scope.Scope | None:
    """Return the scope of the space that `query` names, None without one. Raises InvalidInput."""
    space = query.get("space")
    if space is None:
        return None
    try:
        return elytron_scope.Scope(space=SpaceId(space))
    except ValidationError as error:
        raise invalid_input(error) from None


_JSON = "application/json"
_DISCONNECT = "http.disconnect"


async def read_body(scope: Scope, receive: Receive, /, *, limit: int) -> bytes:
    """Return the body, but stop reading at its limit; the declared length is not trusted.

    Raises PayloadTooLarge, and HTTPException for a body that takes too long.
    """
    require_length(scope, limit=limit)
    try:
        async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
            return await whole_body(receive, limit=limit)
    except TimeoutError:
        raise HTTPException(408) from None


def raw_path(scope: Scope, /) -> str:
    """Return the path as received, with its escapes."""
    escaped_path: bytes | None = scope.get("raw_path")
    return escaped_path.partition(b"?")[0].decode("latin-1") if escaped_path else quote(scope["path"])


def is_plain_path(path: str, /) -> bool:
    """Return whether an escaped path stays below itself, however often it is decoded and rewritten."""
    parts = unquote(path).split("/")
    return not any(part in {".", ".."} or "\\" in part or not part.isprintable() for part in parts)


async def next_message(receive: Receive, /) -> Message:
    """Return the next message of the body. Raises ClientDisconnect."""
    message = await receive()
    if message["type"] == _DISCONNECT:
        raise ClientDisconnect
    return message


async def whole_body(receive: Receive, /, *, limit: int) -> bytes:
    """Return the body. Raises PayloadTooLarge at its limit, ClientDisconnect."""
    body = bytearray()
    while True:
        message = await next_message(receive)
        body += message.get("body", b"")
        if len(body) > limit:
            raise PayloadTooLarge(limit=limit, what="the body")
        if not message.get("more_body", False):
            return bytes(body)


def repeat_body(data: bytes, receive: Receive, /) -> Receive:
    """Return a receiver that repeats the body that was already read, and then each later message."""
    unread_bodies = [data]

    async def again() -> Message:
        if unread_bodies:
            return {"type": "http.request", "body": unread_bodies.pop(), "more_body": False}
        return await receive()

    return again


async def body_pieces(scope: Scope, receive: Receive, /, *, limit: int) -> AsyncIterator[bytes]:
    """Yield the body in pieces, each within the body timeout. Raises as `read_body` does."""
    require_length(scope, limit=limit)
    size_bytes, has_more = 0, True
    while has_more:
        try:
            async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
                message = await next_message(receive)
        except TimeoutError:
            raise HTTPException(408) from None
        piece: bytes = message.get("body", b"")
        size_bytes += len(piece)
        if size_bytes > limit:
            raise PayloadTooLarge(limit=limit, what="the body")
        yield piece
        has_more = message.get("more_body", False)


def strict_json_app(app: ASGIApp, /, *, limit: int, require: Callable[[Json], None]) -> ASGIApp:
    """Return `app` with bodies restricted to complete, strict JSON: in time, within `limit`, and checked by `require`.

    For protocols whose libraries enforce none of that, or repeat what they could not read.
    """

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        require_json(heads_of(scope))
        data = await read_body(scope, receive, limit=limit)
        require(strict_json.parse_json(data, limit=limit))
        await app(scope, repeat_body(data, receive), send)

    return read


def require_length(scope: Scope, /, *, limit: int) -> None:
    """Raise PayloadTooLarge if the declared length is beyond `limit`, or invalid."""
    declared = heads_of(scope).get("content-length", "0")
    # Limited before `int`, which rejects thousands of digits with an error of its own.
    if not declared.isascii() or not declared.isdecimal() or len(declared) > 18 or int(declared) > limit:
        raise PayloadTooLarge(limit=limit, what="the body")


def is_json(headers: Headers, /) -> bool:
    """Return whether the body is declared as JSON."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


def require_json(headers: Headers, /) -> None:
    """Raise HTTPException unless the body is declared as JSON."""
    if not is_json(headers):
        raise HTTPException(415, headers={"Accept": _JSON})


async def json_body(request: Request, /, *, limit: int) -> bytes:
    """Return the body of a request declared as JSON. Raises as `require_json` and `read_body` do."""
    require_json(request.headers)
    return await read_body(request.scope, request.receive, limit=limit)


async def read_value(request: Request, model: type[ValueT], /, *, limit: int) -> ValueT:
    """Return the `model` in the body. Raises as `json_body` does, and InvalidInput for another form."""
    return envelope.decode_as(model, await json_body(request, limit=limit))


def query_flag(query: QueryParams, name: str, /) -> bool:
    """Return a yes or no of the query; the default is no. Raises InvalidInput for another word."""
    flag = query.get(name, "false")
    if flag not in {"true", "false"}:
        raise InvalidInput(field=name, problem="must be true or false")
    return flag == "true"


def query_number(query: QueryParams, name: str, default: int, /, *, most: int) -> int:
    """Return a number of the query. Raises InvalidInput for what is none from 1 to `most`."""
    text = query.get(name, str(default))
    # `int` would accept digits of other scripts, and rejects very long numbers with an error of its own.
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 1 <= int(text) <= most:
        raise InvalidInput(field=name, problem=f"must be a number from 1 to {most}")
    return int(text)


@dataclass(frozen=True, slots=True)
class RouteCall:
    """One call of a route by an authenticated caller. `raw_body` was read before the call got its slot."""

    request: Request
    raw_body: bytes

    def part(self, name: str, /) -> str:
        """Return a part of the path."""
        return self.request.path_params[name]

    async def body(self, model: type[ValueT], /) -> ValueT:
        """Return the request in the body; an empty body is a request without fields."""
        if self.raw_body:
            require_json(heads_of(self.request.scope))
        data = self.raw_body or b"{}"
        return await envelope.read_aside(len(data), partial(envelope.decode_as, model, data, limit=len(data)))

    def number(self, name: str, default: int, most: int, /) -> int:
        """Return a number of the query. Raises InvalidInput for what is none from 1 to `most`."""
        return query_number(self.request.query_params, name, default, most=most)

    def flag(self, name: str, /) -> bool:
        """Return a yes or no of the query. Raises InvalidInput for another word."""
        return query_flag(self.request.query_params, name)

    @property
    def idempotency_key(self) -> str | None:
        return idempotency_key(heads_of(self.request.scope))


SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_OWN_SITES = frozenset({"none", "same-origin"})
_SCHEMES = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}


def is_own_page(scope: Scope, headers: Headers, /) -> bool:
    """Return whether the request comes from no web page, or one of this server, by its scheme, host and port."""
    # Browsers name the requesting page's site here, even if they send no origin.
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and scope.get("method", "GET") not in SAFE_METHODS:
        return False
    origin = headers.get("origin")
    scheme = _SCHEMES.get(transport := scope.get("scheme", "http"), transport)
    if origin is None:
        return True
    page_address = _address_parts(origin)
    return page_address is not None and page_address == _address_parts(f"{scheme}://{headers.get('host', '')}")


def is_host_allowed(headers: Headers, hosts: frozenset[str], /) -> bool:
    """Return whether a request's host, and its origin if it has one, are among `hosts`."""
    origin = headers.get("origin")
    is_host_ours = _address_host(f"//{headers.get('host', '')}") in hosts
    return is_host_ours and (origin is None or _address_host(origin) in hosts)


@lru_cache(64)
def _address_parts(address: str) -> tuple[str, str, int] | None:
    """Return the scheme, host and port of an address; None if it has none."""
    try:
        url_parts = urlsplit(address)
        port = url_parts.port or _PORTS.get(url_parts.scheme)
    except ValueError:
        return None
    return (url_parts.scheme, url_parts.hostname, port) if url_parts.hostname and port else None


@lru_cache(64)
def _address_host(address: str) -> str | None:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return None
    return f"[{host}]" if host is not None and ":" in host else host
