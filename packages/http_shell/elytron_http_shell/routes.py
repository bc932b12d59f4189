"""The routes, derived from the registry. Loaded by `create_app` alone: here starlette is imported."""

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from elytron.registry import OPERATIONS, AnyOperation
from elytron_adapter.dispatch import Dispatcher
from elytron_adapter.envelope import Envelope, Rejected, Transport
from elytron_adapter.failures import INTERNAL, METHOD_NOT_ALLOWED, UNSUPPORTED_MEDIA_TYPE, failure, rejection
from elytron_core.errors import ElytronError, PayloadTooLarge
from elytron_http_shell.guard import Guard, standing
from elytron_http_shell.openapi import document, path_of
from elytron_http_shell.responses import refused, rendered

_STATUS_KEYS = {404: "not_found", 405: METHOD_NOT_ALLOWED, 415: UNSUPPORTED_MEDIA_TYPE}


def application(dispatcher: Dispatcher, /, *, hosts: frozenset[str], body_bytes: int) -> Starlette:
    """Return the application with a route for each operation, and those that describe and watch it."""
    described = document()

    async def openapi(_request: Request) -> Response:
        return JSONResponse(described)

    async def ready(request: Request) -> Response:
        problem = await dispatcher.unready(_request_id(request))
        return JSONResponse({"status": "ready"}) if problem is None else refused(problem)

    operations = [
        Route(path_of(operation), partial(_operate, dispatcher, operation, body_bytes), methods=["POST"])
        for operation in OPERATIONS
    ]
    return Starlette(
        routes=[
            *operations,
            Route("/v1/operations", _operations, methods=["GET"]),
            Route("/openapi.json", openapi, methods=["GET"]),
            Route("/livez", _live, methods=["GET"]),
            Route("/readyz", ready, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, hosts=hosts, ids=dispatcher.runtime.context.ids)],
        exception_handlers={ElytronError: _known, HTTPException: _http, Exception: _unknown},
    )


async def _operate(dispatcher: Dispatcher, operation: AnyOperation, body_bytes: int, request: Request) -> Response:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415)
    envelope = Envelope(
        request_id=_request_id(request),
        transport=Transport.HTTP,
        operation=operation.name,
        idempotency_key=_idempotency_key(request),
        payload=await _body(request, body_bytes),
    )
    return rendered(await dispatcher.dispatch(envelope))


async def _body(request: Request, limit: int) -> bytes:
    """Return the body, or stop reading at its bound; what the client says of its length is not trusted."""
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdecimal() or len(declared) > 18 or int(declared) > limit:
        raise PayloadTooLarge(limit=limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise PayloadTooLarge(limit=limit)
    return bytes(body)


def _idempotency_key(request: Request) -> str | None:
    """Return the key in the header, which the standard's draft writes in quotes and others do not."""
    given = request.headers.get("idempotency-key")
    if given is not None and len(given) >= 2 and given[0] == given[-1] == '"':
        return given[1:-1]
    return given


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


def _request_id(request: Request) -> str:
    request_id = request.state.request_id
    assert isinstance(request_id, str)
    return request_id


async def _known(request: Request, error: Exception) -> Response:
    return refused(rejection(error, request_id=_request_id(request)))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key = _STATUS_KEYS.get(error.status_code, INTERNAL)
    told = Rejected(request_id=_request_id(request), error_key=key, reason=failure(key).title)
    return refused(told, headers=dict(error.headers or {}))


async def _unknown(request: Request, error: Exception) -> Response:
    # Starlette answers these outside the guard, which so cannot add its headers.
    request_id = _request_id(request)
    return refused(rejection(error, request_id=request_id), headers=standing(request_id))
