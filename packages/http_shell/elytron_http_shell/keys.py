"""Access keys over HTTP, for operators: create, list, rotate, revoke; and stopping the server."""

import ipaddress
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.access_keys import (
    AccessAddRequest,
    AccessKeyIssued,
    AccessKeyList,
    AccessKeyReport,
    AccessKeyRequest,
    AccessKeys,
    AccessListRequest,
    AccessQuotaRequest,
)
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import read_body, require_json
from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core.contracts.inspection import ShutdownReport, ShutdownRequest
from elytron_core.errors import InvalidInput, PermissionRefused, Unsupported
from elytron_core.model import Value
from elytron_core.planes.space import KeyQuota

KEYS_PATH = "/v1/access"


def access_routes(keys: AccessKeys, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return the surfaces over `keys`."""

    async def add(request: Request) -> Response:
        require_json(request.headers)
        body = await read_body(request.scope, request.receive, limit=body_bytes)
        return _key_response(await keys.add(envelope.decode_as(AccessAddRequest, body)))

    async def listed(request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "100")
        if not limit.isascii() or not limit.isdecimal() or len(limit) > 6:
            raise InvalidInput(field="limit", problem="is not a number")
        return _key_response(await keys.list(AccessListRequest(limit=int(limit), cursor=query.get("cursor"))))

    async def rotate(request: Request) -> Response:
        return _key_response(await keys.rotate(_named_key(request)))

    async def revoke(request: Request) -> Response:
        return _key_response(await keys.revoke(_named_key(request)))

    async def set_quota(request: Request) -> Response:
        require_json(request.headers)
        body = await read_body(request.scope, request.receive, limit=body_bytes)
        quota = envelope.decode_as(KeyQuota, body)
        return _key_response(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"], quota=quota)))

    async def end_quota(request: Request) -> Response:
        return _key_response(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"])))

    one = f"{KEYS_PATH}/{{id}}"
    once = "The key, shown only once."
    added = SurfaceDescription("add_access", "Create an access key.", AccessAddRequest, AccessKeyIssued, answer=once)
    return (
        _key_surface(KEYS_PATH, "POST", add, added),
        _key_surface(KEYS_PATH, "GET", listed,
               SurfaceDescription("list_access", "List the access keys.", None, AccessKeyList, (),
                                  ("limit", "cursor"), "A page of access keys.")),
        _key_surface(f"{one}/rotate", "POST", rotate,
               SurfaceDescription("rotate_access", "Rotate the secret of an access key.", None, AccessKeyIssued,
                                  answer=once)),
        _key_surface(f"{one}/quota", "PUT", set_quota,
               SurfaceDescription("set_access_quota", "Set the quota of an access key.", KeyQuota, AccessKeyReport)),
        _key_surface(f"{one}/quota", "DELETE", end_quota,
               SurfaceDescription("end_access_quota", "Remove the quota of an access key.", None, AccessKeyReport)),
        _key_surface(one, "DELETE", revoke,
               SurfaceDescription("revoke_access", "Revoke an access key.", None, AccessKeyReport)),
    )  # fmt: skip


def _key_surface(
    path: str, method: str, handler: Callable[[Request], Awaitable[Response]], description: SurfaceDescription
) -> Surface:
    return shown_surface(
        path,
        handler,
        access=SurfaceAccess.OPERATOR,
        methods=(method,),
        description=replace(description, group="access keys"),
    )


def _named_key(request: Request) -> AccessKeyRequest:
    return AccessKeyRequest(id=request.path_params["id"])


def _key_response(report: Value) -> Response:
    return Response(envelope.encode_value(report), media_type="application/json")


SHUTDOWN_PATH = "/v1/shutdown"
SHUTDOWN_BODY_BYTES = 16_384
"""Bytes of a request that ends the server."""
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def shutdown_route(entrance: CallerAdmission, /) -> Surface:
    """Return the surface at which an operator on this machine ends the server."""

    async def end(request: Request) -> Response:
        _require_local(request)
        require_json(request.headers)
        body = await read_body(request.scope, request.receive, limit=SHUTDOWN_BODY_BYTES)
        shutdown = envelope.decode_as(ShutdownRequest, body)
        if entrance.end is None:
            raise Unsupported("this memory is served by another program: stop that program")
        report = ShutdownReport(pid=os.getpid(), reason=shutdown.reason)
        # The server ends behind its answer, so that the caller hears of it.
        return Response(
            envelope.encode_value(report), media_type="application/json", background=BackgroundTask(entrance.end)
        )

    description = SurfaceDescription("shutdown", "Shut down the server; for operators on its machine.", ShutdownRequest,
                              ShutdownReport,
                answer="The server is shutting down.")  # fmt: skip
    return shown_surface(SHUTDOWN_PATH, end, access=SurfaceAccess.OPERATOR, methods=("POST",), description=description)


def _require_local(request: Request) -> None:
    """Raise PermissionRefused for a caller of another machine, or one behind a proxy."""
    address = request.client.host if request.client is not None else ""
    try:
        is_here = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_here = False
    # Behind a proxy each caller seems to be on this machine.
    if not is_here or any(name in request.headers for name in _FORWARDED):
        raise PermissionRefused("a server can be shut down only from its own machine, not through a proxy")
