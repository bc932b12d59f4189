"""Exception handlers of the application: each error becomes a typed answer with its stable key."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
    failure,
    rejection,
)
from elytron_adapter.http.handlers import request_id_of
from elytron_adapter.http.responses import refused
from elytron_core.errors import ElytronError
from elytron_http_shell.guard import standing

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


async def _known(request: Request, error: Exception) -> Response:
    return refused(rejection(error, request_id=request_id_of(request.scope)))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key = _STATUS_KEYS.get(error.status_code, INTERNAL)
    reason = _WAYS_OUT.get(key, failure(key).title)
    if key == UNSUPPORTED_MEDIA_TYPE and error.headers is not None and "Accept" in error.headers:
        reason = f"send the body with the header `Content-Type: {error.headers['Accept']}`"
    told = Rejected(request_id=request_id_of(request.scope), error_key=key, reason=reason)
    return refused(told, headers=dict(error.headers or {}))


async def _nobody(_request: Request, _error: Exception) -> Response:
    """Return the answer to a request whose client is gone; it reaches no client."""
    return Response(status_code=400)


async def _unknown(request: Request, error: Exception) -> Response:
    # Starlette answers these outside the guard, which so cannot add its headers.
    request_id = request_id_of(request.scope)
    return refused(rejection(error, request_id=request_id), headers=standing(request_id))


HANDLERS: dict[Any, Any] = {
    ElytronError: _known,
    HTTPException: _http,
    ClientDisconnect: _nobody,
    Exception: _unknown,
}
