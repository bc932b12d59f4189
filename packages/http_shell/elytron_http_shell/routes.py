"""The application, put together from surfaces. Loaded by `create_app` alone: here starlette is imported."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from elytron.registry import OPERATIONS, Role
from elytron_adapter.entry import Entrance
from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    PRECONDITION_FAILED,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
    failure,
    rejection,
)
from elytron_core.errors import ElytronError
from elytron_http_shell.doors import Access, Surface, request_id_of, route, shown
from elytron_http_shell.guard import Guard, standing
from elytron_http_shell.openapi import document, path_of
from elytron_http_shell.performing import Performing
from elytron_http_shell.responses import refused

Family = Callable[[Entrance], Iterable[Surface]]
"""Gives the surfaces of one kind over an entrance: sockets, streams, a mounted protocol."""

FAMILIES: tuple[Family, ...] = ()
"""The families of this shell that every application has."""

_STATUS_KEYS = {
    404: "not_found",
    405: METHOD_NOT_ALLOWED,
    408: REQUEST_TIMEOUT,
    412: PRECONDITION_FAILED,
    415: UNSUPPORTED_MEDIA_TYPE,
}


def application(
    entrance: Entrance, /, *, hosts: frozenset[str], body_bytes: int, further: Iterable[Family] = ()
) -> Starlette:
    """Return the application with a route for each operation, those that describe and watch it, and `further` ones."""
    surfaces = [
        *(
            Surface(
                path_of(operation),
                Performing(entrance, operation, body_bytes=body_bytes),
                Access.OPERATOR if operation.role is Role.OPERATOR else Access.MEMBER,
                ("POST",),
            )
            for operation in OPERATIONS
        ),
        *_watching(entrance),
        *(surface for family in (*FAMILIES, *further) for surface in family(entrance)),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for surface in surfaces:
                if surface.running is not None:
                    await stack.enter_async_context(surface.running())
            yield

    return Starlette(
        routes=[route(surface, entrance) for surface in surfaces],
        middleware=[Middleware(Guard, hosts=hosts, ids=entrance.dispatcher.runtime.context.ids)],
        exception_handlers={
            ElytronError: _known,
            HTTPException: _http,
            ClientDisconnect: _gone,
            Exception: _unknown,
        },
        lifespan=lifespan,
    )


def _watching(entrance: Entrance) -> tuple[Surface, ...]:
    described = document()

    async def openapi(_request: Request) -> Response:
        return JSONResponse(described)

    async def ready(request: Request) -> Response:
        problem = await entrance.dispatcher.unready(request_id_of(request.scope))
        return JSONResponse({"status": "ready"}) if problem is None else refused(problem)

    return tuple(
        shown(path, handler, access=Access.PUBLIC, methods=("GET",))
        for path, handler in {
            "/v1/operations": _operations,
            "/openapi.json": openapi,
            "/livez": _live,
            "/readyz": ready,
        }.items()
    )


async def _operations(_request: Request) -> Response:
    listed = [
        {
            "name": operation.name,
            "path": path_of(operation),
            "summary": operation.summary,
            "mutates": operation.mutates,
            "role": operation.role,
        }
        for operation in OPERATIONS
    ]
    return JSONResponse({"operations": listed})


async def _live(_request: Request) -> Response:
    return JSONResponse({"status": "live"})


async def _known(request: Request, error: Exception) -> Response:
    return refused(rejection(error, request_id=request_id_of(request.scope)))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key = _STATUS_KEYS.get(error.status_code, INTERNAL)
    told = Rejected(request_id=request_id_of(request.scope), error_key=key, reason=failure(key).title)
    return refused(told, headers=dict(error.headers or {}))


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


async def _unknown(request: Request, error: Exception) -> Response:
    # Starlette answers these outside the guard, which so cannot add its headers.
    request_id = request_id_of(request.scope)
    return refused(rejection(error, request_id=request_id), headers=standing(request_id))
