"""The server's own description: its operations, its OpenAPI document, a page to read and try them, its health."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.http.responses import refused_response, request_id_of, shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_http_shell.description.openapi import client_document, openapi_document
from elytron_http_shell.surfaces.operations import path_of
from elytron_http_shell.telemetry.metrics import ServerMetrics

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
_PAGES_GROUP = "pages"
_PAGES = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs/icon.svg": ("icon.svg", "image/svg+xml"),
}


def watching_surfaces(
    entrance: CallerEntrance, metrics: ServerMetrics, /, *, told_to: SurfaceAccess
) -> tuple[Surface, ...]:
    """Return the surfaces of the server's health; its abilities are shown to callers that `told_to` lets in."""

    async def ready(request: Request) -> Response:
        problem = await entrance.dispatcher.unready(request_id_of(request.scope))
        return JSONResponse({"status": "ready", **metrics.losses()}) if problem is None else refused_response(problem)

    async def figures(_request: Request) -> Response:
        return await metrics.shown()

    is_so = "It is so."
    return (
        shown_surface("/livez", _live_page, access=SurfaceAccess.PUBLIC, methods=("GET",),
              told=SurfaceDescription("live", "Say that the process answers.", answer=is_so)),
        shown_surface("/readyz", ready, access=SurfaceAccess.PUBLIC, methods=("GET",),
              told=SurfaceDescription("ready", "Say whether the store answers.", answer=is_so)),
        shown_surface("/metrics", figures, access=SurfaceAccess.OPERATOR, methods=("GET",),
              told=SurfaceDescription("metrics", "Give the figures, as Prometheus reads them.", None, "text/plain",
                        answer="The figures.")),
        shown_surface("/v1/operations", _operations_page, access=told_to, methods=("GET",),
              told=SurfaceDescription("operations", "List the operations.", answer="The operations.")),
    )  # fmt: skip


def describing_surfaces(surfaces: Sequence[Surface], /, *, told_to: SurfaceAccess) -> tuple[Surface, ...]:
    """Return the surfaces that describe `surfaces` and themselves; the page is public, its content is not."""
    here = [
        shown_surface(path, _static_page(name, media_type), access=SurfaceAccess.PUBLIC, methods=("GET",),
              told=SurfaceDescription(name.replace(".", "_"), "The page on which operations are read and tried.", None,
                        media_type.partition(";")[0], ("If-None-Match",), answer="The page.", group=_PAGES_GROUP))
        for path, (name, media_type) in _PAGES.items()
    ]  # fmt: skip

    @cache
    def body(make: Callable[[Iterable[Surface]], dict[str, Any]]) -> bytes:
        # Made when it is first asked for: it takes longer than everything else that a server does to start.
        return json.dumps(make([*surfaces, *here, *own, home]), separators=(",", ":"), ensure_ascii=False).encode()

    async def for_clients(request: Request) -> Response:
        return _unless_known(request, await asyncio.to_thread(body, client_document), "application/json")

    async def whole(request: Request) -> Response:
        return _unless_known(request, await asyncio.to_thread(body, openapi_document), "application/json")

    own = (
        shown_surface("/openapi.json", for_clients, access=told_to, methods=("GET",),
              told=SurfaceDescription("openapi", "Give the description that clients are generated from.",
                                      headers=("If-None-Match",),
                        answer="The document.", group=_PAGES_GROUP)),
        shown_surface("/openapi/all.json", whole, access=told_to, methods=("GET",),
              told=SurfaceDescription("openapi_all", "Describe every path, those of other protocols too.",
                                      headers=("If-None-Match",),
                        answer="The document.", group=_PAGES_GROUP)),
    )  # fmt: skip
    home = shown_surface(
        "/", _home_page, access=SurfaceAccess.PUBLIC, methods=("GET",),
        told=SurfaceDescription("home", "Lead to the page of the operations.", status=307, answer="It is there.",
                  group=_PAGES_GROUP),
    )  # fmt: skip
    return (*here, *own, home)


async def _home_page(_request: Request) -> Response:
    return RedirectResponse("/docs")


def _static_page(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        answer = _unless_known(request, _read_asset(name), media_type)
        answer.headers["Content-Security-Policy"] = _PAGE_POLICY
        answer.headers["X-Frame-Options"] = "DENY"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    return page


@cache
def _read_asset(name: str) -> bytes:
    return (files("elytron_http_shell") / "pages" / name).read_bytes()


def _unless_known(request: Request, body: bytes, media_type: str) -> Response:
    """Return `body` under its ETag, or 304 where the caller has it."""
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"ETag": etag})
    return Response(body, media_type=media_type, headers={"ETag": etag})


async def _operations_page(_request: Request) -> Response:
    listed = [
        {
            "name": operation.name,
            "path": path_of(operation),
            "summary": operation.summary,
            "mutates": operation.mutates,
            "role": operation.role,
        }
        for operation in WIRE_OPERATIONS
    ]
    return JSONResponse({"operations": listed})


async def _live_page(_request: Request) -> Response:
    return JSONResponse({"status": "live"})
