"""The guard before every route: a request id, the right host and origin, and headers that keep answers private."""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import HEADERS_TOO_LARGE, rejection
from elytron_adapter.http.headers import AUDIT_ID, heads_of
from elytron_adapter.http.responses import turn_away
from elytron_core import limits
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_core.ids import Ids
from elytron_http_shell.doors import SAFE

REQUEST_ID = "X-Request-ID"
ANY_HOST = "*"
_TOKEN = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_AUDIT_ID = re.compile(rf"[!-~](?:[ -~]{{0,{limits.NAME_CHARS - 2}}}[!-~])?")
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_REQUEST_ID = REQUEST_ID.lower().encode()
_STANDING = [(name.lower().encode(), value.encode()) for name, value in _PRIVATE.items()]
_SINGLE = (b"host", b"origin")
_OWN_SITES = frozenset({"none", "same-origin"})
_SCHEMES = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}
_OURS = frozenset({_REQUEST_ID, *(name for name, _ in _STANDING)})


class Guard:
    """Lets a request on where its host and origin are ours, under an id that the answer bears too."""

    def __init__(self, app: ASGIApp, /, *, hosts: frozenset[str], ids: Ids, is_development: bool = False) -> None:
        self._app = app
        self._hosts = hosts
        self._ids = ids
        self._is_development = is_development

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = heads_of(scope)
        given = headers.get(REQUEST_ID)
        request_id = given if given is not None and _TOKEN.fullmatch(given) else self._ids.new()
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            if message["type"] in _STARTS:
                others = _others(message.get("headers", ()))
                message["headers"] = [*others, (_REQUEST_ID, request_id.encode()), *_STANDING]
            await send(message)

        refusal = self._refusal(scope, headers, request_id)
        if refusal is not None:
            await turn_away(refusal, scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Headers, request_id: str) -> Rejected | None:
        if sum([len(name) + len(value) for name, value in headers.raw]) > limits.HTTP_HEADER_BYTES:
            reason = f"bytes of headers: at most {limits.HTTP_HEADER_BYTES}"
            return Rejected(request_id=request_id, error_key=HEADERS_TOO_LARGE, reason=reason)
        if not _AUDIT_ID.fullmatch(headers.get(AUDIT_ID, "-")):
            refused = InvalidInput(field=AUDIT_ID, problem=f"has 1 to {limits.NAME_CHARS} printable ASCII characters")
            return rejection(refused, request_id=request_id)
        if AUDIT_ID in headers:
            scope["state"]["audit_id"] = headers[AUDIT_ID]
        if _is_told_twice(headers):
            refused = PermissionRefused("two `Host` or two `Origin` headers mean two things: send one")
            return rejection(refused, request_id=request_id)
        if self._is_development and not _is_own_page(scope, headers):
            refused = PermissionRefused(
                "development mode requires no key, so pages of other origins are refused:"
                " open the page at the server's own scheme, host and port"
            )
            return rejection(refused, request_id=request_id)
        if not self._is_ours(headers):
            refused = PermissionRefused("this host or origin is not served here: others need --allow-host")
            return rejection(refused, request_id=request_id)
        return None

    def _is_ours(self, headers: Headers) -> bool:
        if ANY_HOST in self._hosts:
            return True
        origin = headers.get("origin")
        is_host_ours = _host(f"//{headers.get('host', '')}") in self._hosts
        return is_host_ours and (origin is None or _host(origin) in self._hosts)


def _is_told_twice(headers: Headers) -> bool:
    return any(sum(1 for key, _ in headers.raw if key.lower() == name) > 1 for name in _SINGLE)


def _is_own_page(scope: Scope, headers: Headers) -> bool:
    """Return whether no web page asks, or one of this server, by its scheme, host and port."""
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and scope.get("method", "GET") not in SAFE:
        return False
    origin = headers.get("origin")
    scheme = _SCHEMES.get(told := scope.get("scheme", "http"), told)
    if origin is None:
        return True
    place = _place(origin)
    return place is not None and place == _place(f"{scheme}://{headers.get('host', '')}")


def standing(request_id: str, /) -> dict[str, str]:
    """Return the headers of every answer: its id, no caching and no guessing of its type."""
    return {REQUEST_ID: request_id, **_PRIVATE}


def _others(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _OURS]


@lru_cache(64)
def _place(address: str) -> tuple[str, str, int] | None:
    """Return the scheme, host and port of an address; None if it has none."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None


@lru_cache(64)
def _host(address: str) -> str | None:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return None
    return f"[{host}]" if host is not None and ":" in host else host
