"""A local relay to the console of a remote server, so that the browser treats the page as its own origin.

Only the console is relayed, and only to this machine: each request must name this machine as host and this page as
origin.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import request_response
from starlette.types import ASGIApp

from elytron_adapter.http.requests import (
    heads_of,
    is_host_allowed,
    is_own_page,
    is_plain_path,
    raw_path,
    read_body,
)
from elytron_console import limits
from elytron_console.routes.memory_routes import ARCHIVE, TRANSCRIPTS
from elytron_console.sessions import ROOT
from elytron_core.errors import InvalidInput, PayloadTooLarge

RELAYED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file that a relay passes on, which holds it as a whole."""


HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PASSED: Final = (
    *(
        "accept",
        "authorization",
        "content-type",
        "cookie",
        "if-match",
        "if-none-match",
        "x-audit-id",
        "x-console-token",
    ),
)
_CONNECTION_HEADERS: Final = frozenset(
    {"content-encoding", "content-length", "connection", "date", "server", "transfer-encoding"}
)
"""Headers of an answer that belong to its own connection."""
_SECURE: Final = "secure"


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """The answer of the server."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


Sender = Callable[[str, str, Mapping[str, str], bytes], Awaitable[UpstreamAnswer | None]]
"""Sends a request to the server: method, path, headers, body. None if it does not answer."""


def console_relay(url: str, send: Sender, /) -> ASGIApp:
    """Return the application that relays the console of the server at `url`. Raises InvalidInput for an invalid
    address."""
    url_parts = urlsplit(url)
    if (
        url_parts.scheme not in {"http", "https"}
        or not url_parts.hostname
        or url_parts.path.strip("/")
        or url_parts.query
    ):
        raise InvalidInput(field="--url", problem="is not the address of a server: write http://HOST:PORT")
    # Without a name and password in the address.
    origin = f"{url_parts.scheme}://{url_parts.netloc.rpartition('@')[2]}"

    async def relayed(request: Request) -> Response:
        headers = heads_of(request.scope)
        if not is_host_allowed(headers, HOSTS) or not is_own_page(request.scope, headers):
            return _relay_problem(403, "permission_refused", "this page is only for this machine")
        path = raw_path(request.scope)
        if path == "/":
            return RedirectResponse(ROOT)
        if not is_plain_path(path) or (path != ROOT and not path.startswith(f"{ROOT}/")):
            return _relay_problem(404, "not_found", "only the console is relayed")
        try:
            body = await read_body(request.scope, request.receive, limit=_body_limit(path))
        except PayloadTooLarge as error:
            return _relay_problem(413, error.key, error.message)
        passed_headers = {name: headers[name] for name in _PASSED if name in headers}
        # The server only knows its own origin. That of this page was checked above.
        if "origin" in headers:
            passed_headers["origin"] = origin
        query = f"?{request.url.query}" if request.url.query else ""
        answer = await send(request.method, f"{path}{query}", passed_headers, body)
        if answer is None:
            return _relay_problem(503, "unreachable", "the server of this console does not respond")
        return _relayed_response(answer)

    return request_response(relayed)


def _body_limit(path: str) -> int:
    return RELAYED_BYTES if path in {ARCHIVE, TRANSCRIPTS} else limits.BODY_BYTES


def _relayed_response(answer: UpstreamAnswer) -> Response:
    response = Response(answer.body, status_code=answer.status)
    for name, value in answer.headers:
        lowered_name = name.lower()
        if lowered_name not in _CONNECTION_HEADERS:
            response.headers.append(name, _plain_cookie(value) if lowered_name == "set-cookie" else value)
    return response


def _plain_cookie(value: str) -> str:
    """Return a cookie that a browser sends without TLS, which is not used between it and this relay."""
    return "; ".join(part for part in value.split("; ") if part.lower() != _SECURE)


def _relay_problem(status: int, code: str, detail: str) -> Response:
    problem: dict[str, Any] = {"title": "Not relayed", "status": status, "code": code, "detail": detail}
    return JSONResponse(problem, status_code=status, media_type="application/problem+json")
