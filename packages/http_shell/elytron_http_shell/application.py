"""The application, put together from surfaces, each behind the check of its caller. Loaded by `create_app` alone."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Router, WebSocketRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.access_keys import OPERATORS, DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, acting_as
from elytron_adapter.envelope import (
    HEADERS_TOO_LARGE,
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
from elytron_adapter.http.open_streams import StreamGuard
from elytron_adapter.http.requests import (
    AUDIT_ID,
    IDEMPOTENCY_KEY,
    SAFE_METHODS,
    admit_connection,
    heads_of,
    is_host_allowed,
    is_own_page,
)
from elytron_adapter.http.responses import refused_response, request_id_of, turn_away
from elytron_adapter.surface import Family, Figures, Surface, SurfaceAccess, SurfaceProtocol
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused, RateLimited, TransportOff, Unauthorized
from elytron_core.ids import IdSource
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.access_keys import access_surfaces
from elytron_http_shell.description import describing_surfaces, watching_surfaces
from elytron_http_shell.operations import flat_surfaces, operation_surfaces, seed_surfaces
from elytron_http_shell.shutdown import shutdown_surfaces
from elytron_http_shell.telemetry.metrics import ServerMetrics
from elytron_http_shell.telemetry.spans import RequestSpans, RequestWatch
from elytron_http_shell.webhooks import webhook_surfaces
from elytron_http_shell.websocket import stream_surfaces

_FAILED, _UNAUTHORIZED = 400, 401
_LENGTH = b"content-length"


def surface_route(surface: Surface, admission: CallerAdmission, /) -> BaseRoute:
    """Return the route to `surface`, with authentication before it."""
    route, endpoint = surface.route, SurfaceEndpoint(surface, admission=admission)
    match route.protocol:
        case SurfaceProtocol.HTTP:
            return StarletteRoute(route.path, endpoint, methods=[route.method])
        case SurfaceProtocol.WEBSOCKET:
            return WebSocketRoute(route.path, endpoint)
        case SurfaceProtocol.MOUNT:
            return Mount(route.path, endpoint)


class SurfaceEndpoint:
    """Admits a request with its principal, or rejects it before anything of it is read."""

    def __init__(self, surface: Surface, /, *, admission: CallerAdmission) -> None:
        route = surface.route
        self._app = surface.app
        self._admission = admission
        self._credential = surface.credential
        self._path = route.path
        self._query = route.query if route.protocol is SurfaceProtocol.HTTP else None
        self._takes_keys = (
            route.is_repeatable or route.protocol is SurfaceProtocol.WEBSOCKET or IDEMPOTENCY_KEY in route.headers
        )
        self.access = route.access
        self._transport = surface.transport
        self._metadata = surface.metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = self._path
        if self._metadata is not None:
            scope["state"]["resource_metadata"] = self._metadata(scope)
        if self._transport is not None and not self._admission.transports.is_on(self._transport):
            transport_refusal = TransportOff(transport=self._transport)
            await turn_away(reject_error(transport_refusal, request_id=request_id_of(scope)), scope, receive, send)
            return
        match self.access:
            case SurfaceAccess.PUBLIC:
                await self._app(scope, receive, send)
            case SurfaceAccess.SIGNED | SurfaceAccess.CREDENTIALS:
                try:
                    self._require_heard(scope)
                except InvalidInput as error:
                    await turn_away(reject_error(error, request_id=request_id_of(scope)), scope, receive, send)
                    return
                await self._judged(scope, receive, send)
            case SurfaceAccess.MEMBER | SurfaceAccess.OWNER | SurfaceAccess.OPERATOR:
                try:
                    guard = await self._admitted(scope)
                    scope["state"].update(principal=guard.principal, guard=guard)
                    admit_connection(scope)
                    if scope["type"] == "http" and scope["query_string"]:
                        self._require_known(QueryParams(scope["query_string"]))
                    self._require_heard(scope)
                except ElytronError as error:
                    await turn_away(reject_error(error, request_id=request_id_of(scope)), scope, receive, send)
                    return
                client = scope.get("client")
                with acting_as(scope["state"]["principal"], address=client[0] if client else ""):
                    if scope["type"] == "http":
                        await self._while_it_holds(guard, scope, receive, send)
                    else:
                        await self._app(scope, receive, send)
            case _:
                assert_never(self.access)

    async def _while_it_holds(self, guard: StreamGuard, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a reason to end soon ends an answer in many parts, and no part follows it."""
        watch: asyncio.Task[None] | None = None
        is_sized = False
        event_loop = asyncio.get_running_loop()

        async def ended() -> None:
            if await guard.ended() is not None:
                # A stream that asks the guard itself sends no more events, reports why it ends, and is cut only if
                # stuck.
                deadline.reschedule(event_loop.time() + (limits.FRAME_SEND_S if guard.is_taken else 0))

        async def answer(message: Message) -> None:
            nonlocal watch, is_sized
            if message["type"] == "http.response.start":
                is_sized = any(name.lower() == _LENGTH for name, _ in message.get("headers", ()))
            # Only an answer in several parts can outlive its caller's admission.
            if watch is None and message.get("more_body"):
                watch = asyncio.ensure_future(ended())
            elif watch is not None and not guard.is_taken and await guard.ends() is not None:
                deadline.reschedule(event_loop.time())
                await asyncio.Event().wait()
            await send(message)

        deadline = asyncio.timeout(None)
        try:
            async with deadline:
                await self._app(scope, receive, answer)
        except TimeoutError:
            if not deadline.expired():
                raise
            if not is_sized:  # otherwise too few bytes, and the connection's end, show that it was cut
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)

    async def _judged(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the handler judge the credential, and count wrong ones."""
        refused: RateLimited | None = None

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                if message["status"] == _UNAUTHORIZED:
                    refused = self._too_many(scope)
                elif message["status"] < _FAILED:
                    admit_connection(scope)
            # The handler's own answer is held back, because only one can be sent.
            if refused is None:
                await send(message)

        await self._app(scope, receive, answer)
        if refused is not None:
            await turn_away(reject_error(refused, request_id=request_id_of(scope)), scope, receive, send)

    def _too_many(self, scope: Scope) -> RateLimited | None:
        """Count a wrong credential, and return the answer if there were too many from the same source."""
        attempts, client = self._admission.attempts, scope.get("client")
        wait_s = attempts.failed(client[0] if client else None)
        if wait_s is None:
            return None
        return RateLimited(limit=attempts.most, retry_after_s=wait_s, what="wrong credentials")

    async def _admitted(self, scope: Scope) -> StreamGuard:
        """Return the guard of an admitted caller."""
        headers = heads_of(scope)
        credential = await self._credential(headers)
        try:
            principal = await self._admission.authenticate(credential)
        except Unauthorized:
            # A request without a credential is not a guess.
            if credential is not None and (rate_refusal := self._too_many(scope)):
                raise rate_refusal from None
            raise
        if self.access is SurfaceAccess.OPERATOR and principal.kind not in OPERATORS:
            raise PermissionRefused("this requires an operator's key")
        if self.access is SurfaceAccess.OWNER and principal.kind is PrincipalKind.DEVICE:
            raise PermissionRefused("a device's key cannot erase in bulk: use the user's own key")
        return StreamGuard(
            self._admission,
            principal,
            partial(self._credential, headers),
            transport=self._transport,
            space=principal.space,
        )

    def _require_heard(self, scope: Scope) -> None:
        """Raise InvalidInput for an idempotency key if a repeat would act again."""
        if self._takes_keys or scope.get("method", "GET") in SAFE_METHODS or IDEMPOTENCY_KEY not in heads_of(scope):
            return
        problem = "is not supported at this path, where a repeated request acts again: omit the header"
        raise InvalidInput(field="idempotency_key", problem=problem)

    def _require_known(self, query: QueryParams) -> None:
        """Raise InvalidInput for an unknown parameter, which would otherwise be silently ignored."""
        if self._query is not None and not query.keys() <= {*self._query}:
            accepted_parameters = (
                f"use {', '.join(self._query)}" if self._query else "this path accepts no query parameters"
            )
            raise InvalidInput(field="query", problem=f"has an unknown parameter: {accepted_parameters}")


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


class HostGuard:
    """Admits a request whose host and origin are ours, under an id that the answer carries too."""

    def __init__(self, app: ASGIApp, /, *, hosts: frozenset[str], ids: IdSource, is_development: bool = False) -> None:
        self._app = app
        self._hosts = hosts
        self._ids = ids
        self._is_development = is_development

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = heads_of(scope)
        sent_id = headers.get(REQUEST_ID)
        request_id = sent_id if sent_id is not None and _TOKEN.fullmatch(sent_id) else self._ids.new()
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            if message["type"] in _STARTS:
                # An application's own values of these headers are replaced, so that none is sent twice.
                other_headers = _other_headers(message.get("headers", ()))
                message["headers"] = [*other_headers, (_REQUEST_ID, request_id.encode()), *_STANDING]
            await send(message)

        refusal = self._refusal(scope, headers, request_id)
        if refusal is not None:
            await turn_away(refusal, scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Headers, request_id: str) -> RejectedAnswer | None:
        if sum([len(name) + len(value) for name, value in headers.raw]) > limits.HTTP_HEADER_BYTES:
            reason = f"the headers have more than {limits.HTTP_HEADER_BYTES} bytes"
            return RejectedAnswer(request_id=request_id, error_key=HEADERS_TOO_LARGE, reason=reason)
        if not _AUDIT_ID.fullmatch(headers.get(AUDIT_ID, "-")):
            request_refusal = InvalidInput(
                field=AUDIT_ID, problem=f"needs 1 to {limits.NAME_CHARS} printable ASCII characters"
            )
            return reject_error(request_refusal, request_id=request_id)
        if AUDIT_ID in headers:
            scope["state"]["audit_id"] = headers[AUDIT_ID]
        if _is_told_twice(headers):
            request_refusal = PermissionRefused("duplicate `Host` or `Origin` headers are ambiguous: send one of each")
            return reject_error(request_refusal, request_id=request_id)
        if self._is_development and not is_own_page(scope, headers):
            request_refusal = PermissionRefused(
                "development mode requires no key, so pages from other origins are refused:"
                " open the page at the server's own scheme, host and port"
            )
            return reject_error(request_refusal, request_id=request_id)
        if not self._is_ours(headers):
            request_refusal = PermissionRefused("this host or origin is not allowed: add it with --allow-host")
            return reject_error(request_refusal, request_id=request_id)
        return None

    def _is_ours(self, headers: Headers) -> bool:
        if ANY_HOST in self._hosts:
            return True
        return is_host_allowed(headers, self._hosts)


def _host_guard(admission: CallerAdmission, hosts: frozenset[str]) -> Middleware:
    is_development = isinstance(admission.authenticator, DevelopmentCallers)
    return Middleware(
        HostGuard, hosts=hosts, ids=admission.dispatcher.runtime.context.ids, is_development=is_development
    )


def _is_told_twice(headers: Headers) -> bool:
    return any(sum(1 for key, _ in headers.raw if key.lower() == name) > 1 for name in _SINGLE)


def standing_headers(request_id: str, /) -> dict[str, str]:
    """Return the headers of every answer: its id, no caching and no type sniffing."""
    return {REQUEST_ID: request_id, **_PRIVATE}


def _other_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _OURS]


class DirectRouter:
    """Routes by method and path directly to the route that the router of `routes` would choose; the router gets the
    rest.

    So the router itself answers for a path that is known only with other methods, or that is below a mount.
    """

    def __init__(self, app: ASGIApp, /, *, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], StarletteRoute] = {}
        # The router would choose an earlier route that matches the same path: one of the same path, or one of these.
        pattern_routes: list[BaseRoute] = []
        for route in routes:
            if isinstance(route, StarletteRoute) and route.methods and not route.param_convertors:
                takes_path = partial(_takes_path, path=route.path)
                for method in route.methods:
                    if not any(takes_path(earlier_route, method) for earlier_route in pattern_routes):
                        self._routes.setdefault((method, route.path), route)
            elif not isinstance(route, WebSocketRoute):
                pattern_routes.append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        # Below a mount the path has another prefix, which only the router knows.
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
    "not_found": "unknown path: /docs and /openapi/all.json list the available ones",
    METHOD_NOT_ALLOWED: "this method is not allowed: the header `Allow` names those that are",
    REQUEST_TIMEOUT: "the request body took too long to arrive: send it without pauses",
    UNSUPPORTED_MEDIA_TYPE: "unsupported `Content-Type`: the header `Accept` names the expected one",
}


async def _known_error(request: Request, error: Exception) -> Response:
    return refused_response(reject_error(error, request_id=request_id_of(request.scope)))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key = _STATUS_KEYS.get(error.status_code, INTERNAL)
    reason = _WAYS_OUT.get(key, failure_of(key).title)
    if key == UNSUPPORTED_MEDIA_TYPE and error.headers is not None and "Accept" in error.headers:
        reason = f"send the body with the header `Content-Type: {error.headers['Accept']}`"
    answer = RejectedAnswer(request_id=request_id_of(request.scope), error_key=key, reason=reason)
    return refused_response(answer, headers=dict(error.headers or {}))


async def _gone_client(_request: Request, _error: Exception) -> Response:
    """Return the answer to a request whose client is gone; it reaches no client."""
    return Response(status_code=400)


async def _unknown_error(request: Request, error: Exception) -> Response:
    # Starlette answers these outside the guard, which therefore cannot add its headers.
    request_id = request_id_of(request.scope)
    return refused_response(reject_error(error, request_id=request_id), headers=standing_headers(request_id))


HANDLERS: dict[Any, Any] = {
    ElytronError: _known_error,
    HTTPException: _http_error,
    ClientDisconnect: _gone_client,
    Exception: _unknown_error,
}


WATCHED = frozenset({"/livez", "/readyz", "/metrics"})
"""The monitoring paths of a server with another application."""

FAMILIES: tuple[Family, ...] = (stream_surfaces,)
"""The surface families that every application has."""


def build_application(
    admission: CallerAdmission,
    /,
    *,
    hosts: frozenset[str],
    body_bytes: int,
    further: Iterable[Family] = (),
    spans: RequestSpans | None = None,
    is_described_to_all: bool = False,
    figures: Sequence[Figures] = (),
) -> Starlette:
    """Return the application with a route for each operation, those that describe and monitor it, and `further`
    ones."""
    metrics = ServerMetrics(admission, figures=figures)
    description_access = SurfaceAccess.PUBLIC if is_described_to_all else SurfaceAccess.MEMBER
    memory_routes = (
        *operation_surfaces(admission, body_bytes=body_bytes),
        *flat_surfaces(admission, body_bytes=body_bytes),
        *archive_surfaces(admission),
        *seed_surfaces(admission, body_bytes=body_bytes),
        *webhook_surfaces(admission, admission.keys, body_bytes=body_bytes),
    )
    families = (surface for family in (*FAMILIES, *further) for surface in family(admission))
    surfaces = [
        *(_switched_surface(surface) for surface in memory_routes),
        # Surfaces that end keys or the server, or monitor it, always answer.
        *access_surfaces(admission.keys, body_bytes=body_bytes),
        *shutdown_surfaces(admission),
        *watching_surfaces(admission, metrics, access=description_access),
        *(_switched_surface(surface) for surface in families),
    ]
    for surface_figures in (surface.figures for surface in surfaces if surface.figures is not None):
        metrics.bring(surface_figures)
    admission.transports.show(
        (surface.transport, surface.route.path) for surface in surfaces if surface.transport is not None
    )
    surfaces += describing_surfaces(tuple(surfaces), access=description_access)
    admission.transports.served = tuple(
        surface.route for surface in surfaces if surface.route.protocol is SurfaceProtocol.HTTP
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with admission.transports.followed(), AsyncExitStack() as stack:
            for surface in surfaces:
                if surface.running is not None:
                    await stack.enter_async_context(surface.running())
            yield

    routes = [surface_route(surface, admission) for surface in surfaces]
    app = Starlette(
        middleware=[
            Middleware(RequestWatch, metrics=metrics, spans=spans),
            _host_guard(admission, hosts),
        ],
        exception_handlers=HANDLERS,
    )
    app.router = Router(routes, lifespan=lifespan, middleware=[Middleware(DirectRouter, routes=routes)])
    return app


def _switched_surface(surface: Surface) -> Surface:
    """Return a surface as part of a transport that can be disabled: HTTP if it names no other."""
    return surface if surface.transport is not None else replace(surface, transport=CallTransport.HTTP.value)


class WatchedApplication:
    """An application with monitoring in front of it: its health, and its metrics for operators."""

    def __init__(
        self, app: ASGIApp, admission: CallerAdmission, /, *, hosts: frozenset[str], figures: Sequence[Figures] = ()
    ) -> None:
        metrics = ServerMetrics(admission, figures=figures)
        surfaces = {
            surface.route.path: surface
            for surface in watching_surfaces(admission, metrics, access=SurfaceAccess.MEMBER)
            if surface.route.path in WATCHED
        }
        host_guard = _host_guard(admission, hosts)
        routes = [surface_route(surface, admission) for surface in surfaces.values()]
        self._app = app
        self._own = Starlette(routes=routes, middleware=[host_guard], exception_handlers=HANDLERS)
        self._paths = surfaces.keys()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_watching_path = scope["type"] == "http" and scope["path"] in self._paths
        await (self._own if is_watching_path else self._app)(scope, receive, send)
