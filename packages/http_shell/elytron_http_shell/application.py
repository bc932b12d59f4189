"""The application, put together from surfaces. Loaded by `create_app` alone: here starlette is imported."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from elytron_adapter.access_keys import AccessKeys, DevelopmentCallers
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
    CallTransport,
    RejectedAnswer,
    failure_of,
    reject_error,
)
from elytron_adapter.http.archives import archive_surfaces
from elytron_adapter.http.responses import refused_response, request_id_of
from elytron_adapter.surface import Family, Figures, Surface, SurfaceAccess, SurfaceProtocol
from elytron_adapter.transport_switches import ServedPath
from elytron_core.errors import ElytronError
from elytron_http_shell.description import describing_surfaces, watching_surfaces
from elytron_http_shell.doors import HostGuard, standing_headers, surface_route
from elytron_http_shell.keys import access_routes, shutdown_route
from elytron_http_shell.operations import flat_routes, operation_surfaces, seed_routes
from elytron_http_shell.telemetry import RequestSpans, RequestWatch, ServerMetrics
from elytron_http_shell.webhooks import webhook_surfaces
from elytron_http_shell.websocket import stream_surfaces


class DirectRouter:
    """Stands before a router of `routes` and goes where it would go, by method and path; the rest is the router's.

    So the router itself answers for a path that is known under other methods only, or that is below a mount.
    """

    def __init__(self, app: ASGIApp, /, *, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], Route] = {}
        for place, each in enumerate(routes):
            if isinstance(each, Route) and not each.param_convertors:
                for method in each.methods or ():
                    if not any(_takes_path(earlier, method, each.path) for earlier in routes[:place]):
                        self._routes[method, each.path] = each

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and not scope.get("root_path"):
            route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope.update(route=route, endpoint=route.endpoint, path_params={})
        await route.app(scope, receive, send)


def _takes_path(route: BaseRoute, method: str, path: str) -> bool:
    match, _ = route.matches({"type": "http", "method": method, "path": path, "root_path": "", "headers": []})
    return match is Match.FULL


_STATUS_KEYS = {
    404: "not_found",
    405: METHOD_NOT_ALLOWED,
    408: REQUEST_TIMEOUT,
    415: UNSUPPORTED_MEDIA_TYPE,
}
_WAYS_OUT = {
    "not_found": "there is nothing at this path: /docs and /openapi/all.json show what there is",
    METHOD_NOT_ALLOWED: "this path takes other methods: the header `Allow` names them",
    REQUEST_TIMEOUT: "the body took too long to arrive: send it without pauses",
    UNSUPPORTED_MEDIA_TYPE: "this path takes another `Content-Type`: the header `Accept` names it",
}


async def _known_error(request: Request, error: Exception) -> Response:
    return refused_response(reject_error(error, request_id=request_id_of(request.scope)))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key = _STATUS_KEYS.get(error.status_code, INTERNAL)
    reason = _WAYS_OUT.get(key, failure_of(key).title)
    if key == UNSUPPORTED_MEDIA_TYPE and error.headers is not None and "Accept" in error.headers:
        reason = f"send the body with the header `Content-Type: {error.headers['Accept']}`"
    told = RejectedAnswer(request_id=request_id_of(request.scope), error_key=key, reason=reason)
    return refused_response(told, headers=dict(error.headers or {}))


async def _gone_client(_request: Request, _error: Exception) -> Response:
    """Return the answer to a request whose client is gone; it reaches no client."""
    return Response(status_code=400)


async def _unknown_error(request: Request, error: Exception) -> Response:
    # Starlette answers these outside the guard, which so cannot add its headers.
    request_id = request_id_of(request.scope)
    return refused_response(reject_error(error, request_id=request_id), headers=standing_headers(request_id))


HANDLERS: dict[Any, Any] = {
    ElytronError: _known_error,
    HTTPException: _http_error,
    ClientDisconnect: _gone_client,
    Exception: _unknown_error,
}


WATCHED = frozenset({"/livez", "/readyz", "/metrics"})
"""The paths of what watches a server that shows another application."""

FAMILIES: tuple[Family, ...] = (stream_surfaces,)
"""The families of this shell that every application has."""


def build_application(
    entrance: CallerEntrance,
    /,
    *,
    keys: AccessKeys,
    hosts: frozenset[str],
    body_bytes: int,
    further: Iterable[Family] = (),
    spans: RequestSpans | None = None,
    is_described_to_all: bool = False,
    figures: Sequence[Figures] = (),
) -> Starlette:
    """Return the application with a route for each operation, those that describe and watch it, and `further` ones."""
    metrics = ServerMetrics(entrance, figures=figures)
    told_to = SurfaceAccess.PUBLIC if is_described_to_all else SurfaceAccess.MEMBER
    memory_routes = (
        *operation_surfaces(entrance, body_bytes=body_bytes),
        *flat_routes(entrance, body_bytes=body_bytes),
        *archive_surfaces(entrance),
        *seed_routes(entrance, body_bytes=body_bytes),
        *webhook_surfaces(entrance, keys, body_bytes=body_bytes),
    )
    families = (surface for family in (*FAMILIES, *further) for surface in family(entrance))
    surfaces = [
        *(_switched_surface(surface) for surface in memory_routes),
        # Surfaces that end keys or the server, or watch it, always answer.
        *access_routes(keys, body_bytes=body_bytes),
        shutdown_route(entrance),
        *watching_surfaces(entrance, metrics, told_to=told_to),
        *(_switched_surface(surface) for surface in families),
    ]
    for brought in (surface.figures for surface in surfaces if surface.figures is not None):
        metrics.bring(brought)
    entrance.transports.show((surface.transport, surface.path) for surface in surfaces if surface.transport is not None)
    surfaces += describing_surfaces(tuple(surfaces), told_to=told_to)
    entrance.transports.served = _served_paths(surfaces)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with entrance.transports.followed(), AsyncExitStack() as stack:
            for surface in surfaces:
                if surface.running is not None:
                    await stack.enter_async_context(surface.running())
            yield

    routes = [surface_route(surface, entrance) for surface in surfaces]
    app = Starlette(
        middleware=[
            Middleware(RequestWatch, metrics=metrics, spans=spans),
            Middleware(
                HostGuard,
                hosts=hosts,
                ids=entrance.dispatcher.runtime.context.ids,
                is_development=isinstance(entrance.authenticator, DevelopmentCallers),
            ),
        ],
        exception_handlers=HANDLERS,
    )
    app.router = Router(routes, lifespan=lifespan, middleware=[Middleware(DirectRouter, routes=routes)])
    return app


def _switched_surface(surface: Surface) -> Surface:
    """Return a surface as that of a transport that can be switched off: HTTP if it names no other."""
    return surface if surface.transport is not None else replace(surface, transport=CallTransport.HTTP.value)


def _served_paths(surfaces: Iterable[Surface]) -> tuple[ServedPath, ...]:
    """Return the paths that are described, for whom lists them."""
    return tuple(
        ServedPath(method, surface.path, told.group, told.summary, surface.access is SurfaceAccess.OPERATOR)
        for surface in surfaces
        if surface.kind is SurfaceProtocol.HTTP and (told := surface.told) is not None
        for method in surface.methods
    )


class WatchedApplication:
    """An application with what says how its server is before it: its pulse, and its figures for operators."""

    def __init__(
        self, app: ASGIApp, entrance: CallerEntrance, /, *, hosts: frozenset[str], figures: Sequence[Figures] = ()
    ) -> None:
        metrics = ServerMetrics(entrance, figures=figures)
        surfaces = {
            surface.path: surface
            for surface in watching_surfaces(entrance, metrics, told_to=SurfaceAccess.MEMBER)
            if surface.path in WATCHED
        }
        guard = Middleware(
            HostGuard,
            hosts=hosts,
            ids=entrance.dispatcher.runtime.context.ids,
            is_development=isinstance(entrance.authenticator, DevelopmentCallers),
        )
        routes = [surface_route(surface, entrance) for surface in surfaces.values()]
        self._app = app
        self._own = Starlette(routes=routes, middleware=[guard], exception_handlers=HANDLERS)
        self._paths = surfaces.keys()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] == "http" and scope["path"] in self._paths
        await (self._own if is_own else self._app)(scope, receive, send)
