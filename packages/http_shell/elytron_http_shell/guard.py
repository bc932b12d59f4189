"""The guard before every route: a request id, the right host and origin, and headers that keep answers private."""

import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import HEADERS_TOO_LARGE, rejection
from elytron_adapter.http.headers import AUDIT_ID, heads_of
from elytron_adapter.http.origins import is_host_allowed, is_own_page
from elytron_adapter.http.responses import turn_away
from elytron_core import limits
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_core.ids import Ids

REQUEST_ID = "X-Request-ID"
ANY_HOST = "*"
_TOKEN = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_AUDIT_ID = re.compile(rf"[!-~](?:[ -~]{{0,{limits.NAME_CHARS - 2}}}[!-~])?")
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_REQUEST_ID = REQUEST_ID.lower().encode()
_STANDING = [(name.lower().encode(), value.encode()) for name, value in _PRIVATE.items()]
_SINGLE = (b"host", b"origin")
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
        if self._is_development and not is_own_page(scope, headers):
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
        return is_host_allowed(headers, self._hosts)


def _is_told_twice(headers: Headers) -> bool:
    return any(sum(1 for key, _ in headers.raw if key.lower() == name) > 1 for name in _SINGLE)


def standing(request_id: str, /) -> dict[str, str]:
    """Return the headers of every answer: its id, no caching and no guessing of its type."""
    return {REQUEST_ID: request_id, **_PRIVATE}


def _others(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _OURS]
