"""The application, put together from surfaces. Loaded by `create_app` alone: here starlette is imported."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from elytron_adapter.entry import Entrance
from elytron_adapter.identity.access_keys import AccessKeys
from elytron_adapter.identity.principals import Development
from elytron_adapter.surface import Access, Family, Figures
from elytron_http_shell.description.docs_pages import describing, watching
from elytron_http_shell.doors import route
from elytron_http_shell.exception_handlers import HANDLERS
from elytron_http_shell.guard import Guard
from elytron_http_shell.static_router import Direct
from elytron_http_shell.streams.surfaces import streams
from elytron_http_shell.surfaces.archives import archives
from elytron_http_shell.surfaces.compat_routes import seed_routes
from elytron_http_shell.surfaces.flat import flat_routes
from elytron_http_shell.surfaces.keys import access_routes
from elytron_http_shell.surfaces.operations import operations
from elytron_http_shell.surfaces.shutdown import shutdown_route
from elytron_http_shell.surfaces.webhooks import webhooks
from elytron_http_shell.telemetry.metrics import Metrics
from elytron_http_shell.telemetry.request_log import Spans, Watch

WATCHED = frozenset({"/livez", "/readyz", "/metrics"})
"""The paths of what watches a server that shows another application."""

FAMILIES: tuple[Family, ...] = (streams,)
"""The families of this shell that every application has."""


def application(
    entrance: Entrance,
    /,
    *,
    keys: AccessKeys,
    hosts: frozenset[str],
    body_bytes: int,
    further: Iterable[Family] = (),
    spans: Spans | None = None,
    is_described_to_all: bool = False,
    figures: Sequence[Figures] = (),
) -> Starlette:
    """Return the application with a route for each operation, those that describe and watch it, and `further` ones."""
    metrics = Metrics(entrance, figures=figures)
    told_to = Access.PUBLIC if is_described_to_all else Access.MEMBER
    surfaces = [
        *operations(entrance, body_bytes=body_bytes),
        *flat_routes(entrance, body_bytes=body_bytes),
        *archives(entrance),
        *seed_routes(entrance, body_bytes=body_bytes),
        *webhooks(entrance, keys, body_bytes=body_bytes),
        *access_routes(keys, body_bytes=body_bytes),
        shutdown_route(entrance),
        *watching(entrance, metrics, told_to=told_to),
        *(surface for family in (*FAMILIES, *further) for surface in family(entrance)),
    ]
    for surface in surfaces:
        if surface.figures is not None:
            metrics.bring(surface.figures)
    surfaces += describing(tuple(surfaces), told_to=told_to)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for surface in surfaces:
                if surface.running is not None:
                    await stack.enter_async_context(surface.running())
            yield

    routes = [route(surface, entrance) for surface in surfaces]
    app = Starlette(
        middleware=[
            Middleware(Watch, metrics=metrics, spans=spans),
            Middleware(
                Guard,
                hosts=hosts,
                ids=entrance.dispatcher.runtime.context.ids,
                is_development=isinstance(entrance.authenticator, Development),
            ),
        ],
        exception_handlers=HANDLERS,
    )
    app.router = Router(routes, lifespan=lifespan, middleware=[Middleware(Direct, routes=routes)])
    return app


class Watched:
    """An application with what says how its server is before it: its pulse, and its figures for operators."""

    def __init__(
        self, app: ASGIApp, entrance: Entrance, /, *, hosts: frozenset[str], figures: Sequence[Figures] = ()
    ) -> None:
        metrics = Metrics(entrance, figures=figures)
        surfaces = {
            surface.path: surface
            for surface in watching(entrance, metrics, told_to=Access.MEMBER)
            if surface.path in WATCHED
        }
        guard = Middleware(
            Guard,
            hosts=hosts,
            ids=entrance.dispatcher.runtime.context.ids,
            is_development=isinstance(entrance.authenticator, Development),
        )
        routes = [route(surface, entrance) for surface in surfaces.values()]
        self._app = app
        self._own = Starlette(routes=routes, middleware=[guard], exception_handlers=HANDLERS)
        self._paths = surfaces.keys()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] == "http" and scope["path"] in self._paths
        await (self._own if is_own else self._app)(scope, receive, send)
