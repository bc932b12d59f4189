"""The server's self-description: readable pages, its OpenAPI documents, and its health."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.responses import (
    cached_response,
    refused_response,
    request_app,
    request_id_of,
)
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_http_shell.openapi import client_document, openapi_document
from elytron_http_shell.operations import path_of
from elytron_http_shell.telemetry.metrics import ServerMetrics

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "Content-Security-Policy": _PAGE_POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_PAGES = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs/icon.svg": ("icon.svg", "image/svg+xml"),
}


def watching_surfaces(
    admission: CallerAdmission, metrics: ServerMetrics, /, *, access: SurfaceAccess
) -> tuple[Surface, ...]:
    """Return the surfaces of the server's health; callers with this `access` see its capabilities."""

    async def ready(request: Request) -> Response:
        problem = await admission.dispatcher.unready(request_id_of(request.scope))
        return JSONResponse({"status": "ready", **metrics.losses()}) if problem is None else refused_response(problem)

    async def figures(_request: Request) -> Response:
        return await metrics.render_all()

    public_access, health_description = SurfaceAccess.PUBLIC, "Healthy."
    routes = (
        Route("GET", "/livez", _live_page, "live", "Check that the process is running.", access=public_access,
              outcome=health_description),
        Route("GET", "/readyz", ready, "ready", "Check whether the store answers.", access=public_access,
              outcome=health_description),
        Route("GET", "/metrics", figures, "metrics", "Return metrics in the Prometheus format.", None, "text/plain",
              SurfaceAccess.OPERATOR, outcome="The metrics."),
        Route("GET", "/v1/operations", _operations_page, "operations", "List the operations.", access=access,
              outcome="The operations."),
    )  # fmt: skip
    return build_surfaces(routes, request_app)


def describing_surfaces(surfaces: Sequence[Surface], /, *, access: SurfaceAccess) -> tuple[Surface, ...]:
    """Return the surfaces that describe `surfaces` and themselves; the page is public, its content is not."""

    @cache
    def body(make: Callable[[Iterable[Surface]], dict[str, Any]]) -> bytes:
        # Built on first use, because it takes longer than everything else at the start of a server.
        return json.dumps(make([*surfaces, *page_surfaces]), separators=(",", ":"), ensure_ascii=False).encode()

    async def show_document(make: Callable[[Iterable[Surface]], dict[str, Any]], request: Request) -> Response:
        return cached_response(request.headers, await asyncio.to_thread(body, make), media_type="application/json")

    public_access, etag, document = SurfaceAccess.PUBLIC, ("If-None-Match",), "The document."
    routes = (
        *(Route("GET", path, _static_page(name, media_type), name.replace(".", "_"),
                "Serve the page for browsing operations.", None, media_type.partition(";")[0], public_access,
                headers=etag, outcome="The page.")
          for path, (name, media_type) in _PAGES.items()),
        Route("GET", "/openapi.json", partial(show_document, client_document), "openapi",
              "Return the OpenAPI document for client generators.",
              access=access, headers=etag, outcome=document),
        Route("GET", "/openapi/all.json", partial(show_document, openapi_document), "openapi_all",
              "Return the OpenAPI document of every path.",
              access=access, headers=etag, outcome=document),
        Route("GET", "/", _home_page, "home", "Redirect to the operations page.", access=public_access, status=307,
              outcome="Redirects to the page."),
    )  # fmt: skip
    page_surfaces = build_surfaces(routes, request_app, group="pages")
    return page_surfaces


async def _home_page(_request: Request) -> Response:
    return RedirectResponse("/docs")


def _static_page(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return cached_response(request.headers, _read_asset(name), media_type=media_type, more=_PAGE_HEADERS)

    return page


@cache
def _read_asset(name: str) -> bytes:
    return (files("elytron_http_shell") / "pages" / name).read_bytes()


async def _operations_page(_request: Request) -> Response:
    operation_items = [
        {
            "name": operation.name,
            "path": path_of(operation),
            "summary": operation.summary,
            "mutates": operation.mutates,
            "role": operation.role,
        }
        for operation in WIRE_OPERATIONS
    ]
    return JSONResponse({"operations": operation_items})


async def _live_page(_request: Request) -> Response:
    return JSONResponse({"status": "live"})
