"""Access keys over HTTP, for operators: create, list, rotate, revoke; and stopping the server."""

import ipaddress
import os

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

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
from elytron_adapter.http.requests import read_value
from elytron_adapter.http.responses import request_app, value_response
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core.contracts.inspection import ShutdownReport, ShutdownRequest
from elytron_core.errors import InvalidInput, PermissionRefused, Unsupported
from elytron_core.model import Value
from elytron_core.planes.space import KeyQuota

KEYS_PATH = "/v1/access"


def access_surfaces(keys: AccessKeys, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return the surfaces over `keys`."""

    async def add(request: Request) -> Value:
        return await keys.add(await read_value(request, AccessAddRequest, limit=body_bytes))

    async def list_keys(request: Request) -> Value:
        query = request.query_params
        limit = query.get("limit", "100")
        if not limit.isascii() or not limit.isdecimal() or len(limit) > 6:
            raise InvalidInput(field="limit", problem="is not a number")
        return await keys.list(AccessListRequest(limit=int(limit), cursor=query.get("cursor")))

    async def rotate(request: Request) -> Value:
        return await keys.rotate(_named_key(request))

    async def revoke(request: Request) -> Value:
        return await keys.revoke(_named_key(request))

    async def set_quota(request: Request) -> Value:
        quota = await read_value(request, KeyQuota, limit=body_bytes)
        return await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"], quota=quota))

    async def end_quota(request: Request) -> Value:
        return await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"]))

    one, operator = f"{KEYS_PATH}/{{id}}", SurfaceAccess.OPERATOR
    once = "The key, shown only once."
    routes = (
        Route("POST", KEYS_PATH, add, "add_access", "Create an access key.", AccessAddRequest, AccessKeyIssued,
              operator, outcome=once),
        Route("GET", KEYS_PATH, list_keys, "list_access", "List the access keys.", None, AccessKeyList, operator,
              query=("limit", "cursor"), outcome="A page of access keys."),
        Route("POST", f"{one}/rotate", rotate, "rotate_access", "Rotate the secret of an access key.", None,
              AccessKeyIssued, operator, outcome=once),
        Route("PUT", f"{one}/quota", set_quota, "set_access_quota", "Set the quota of an access key.", KeyQuota,
              AccessKeyReport, operator),
        Route("DELETE", f"{one}/quota", end_quota, "end_access_quota", "Remove the quota of an access key.", None,
              AccessKeyReport, operator),
        Route("DELETE", one, revoke, "revoke_access", "Revoke an access key.", None, AccessKeyReport, operator),
    )  # fmt: skip
    return build_surfaces(routes, request_app, group="access keys")


def _named_key(request: Request) -> AccessKeyRequest:
    return AccessKeyRequest(id=request.path_params["id"])


SHUTDOWN_PATH = "/v1/shutdown"
SHUTDOWN_BODY_BYTES = 16_384
"""Bytes of a request that ends the server."""
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def shutdown_surfaces(admission: CallerAdmission, /) -> tuple[Surface, ...]:
    """Return the surface at which an operator on this machine ends the server."""

    async def end_server(request: Request) -> Response:
        _require_local(request)
        shutdown = await read_value(request, ShutdownRequest, limit=SHUTDOWN_BODY_BYTES)
        if admission.end is None:
            raise Unsupported("this memory is served by another program: stop that program")
        answer = value_response(ShutdownReport(pid=os.getpid(), reason=shutdown.reason))
        # The server shuts down after its answer, so that the caller receives it.
        answer.background = BackgroundTask(admission.end)
        return answer

    route = Route(
        "POST", SHUTDOWN_PATH, end_server, "shutdown", "Shut down the server; for operators on its machine.",
        ShutdownRequest, ShutdownReport, SurfaceAccess.OPERATOR, outcome="The server is shutting down.",
    )  # fmt: skip
    return build_surfaces((route,), request_app)


def _require_local(request: Request) -> None:
    """Raise PermissionRefused for a caller from another machine, or behind a proxy."""
    address = request.client.host if request.client is not None else ""
    try:
        is_here = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_here = False
    # Behind a proxy every caller seems to be on this machine.
    if not is_here or any(name in request.headers for name in _FORWARDED):
        raise PermissionRefused("a server can be shut down only from its own machine, not through a proxy")
