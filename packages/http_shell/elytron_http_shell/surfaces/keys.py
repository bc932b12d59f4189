"""Access keys over HTTP, for operators: made, listed, rotated, revoked."""

import ipaddress
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.dispatch import Entrance
from elytron_adapter.http.requests import body, require_json
from elytron_adapter.http.responses import shown
from elytron_adapter.identity.access_keys import (
    AccessAddRequest,
    AccessKeyIssued,
    AccessKeyList,
    AccessKeyReport,
    AccessKeyRequest,
    AccessKeys,
    AccessListRequest,
    AccessQuotaRequest,
)
from elytron_adapter.surface import Access, Surface, Told
from elytron_core.contracts.inspection import ShutdownReport, ShutdownRequest
from elytron_core.errors import InvalidInput, PermissionRefused, Unsupported
from elytron_core.model import Value
from elytron_core.planes.space import KeyQuota
from elytron_http_shell.limits import SHUTDOWN_BODY_BYTES

KEYS_PATH = "/v1/access"


def access_routes(keys: AccessKeys, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return the surfaces over `keys`."""

    async def add(request: Request) -> Response:
        require_json(request.headers)
        sent = await body(request.scope, request.receive, limit=body_bytes)
        return _told(await keys.add(envelope.decode_as(AccessAddRequest, sent)))

    async def listed(request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "100")
        if not limit.isascii() or not limit.isdecimal() or len(limit) > 6:
            raise InvalidInput(field="limit", problem="is not a number")
        return _told(await keys.list(AccessListRequest(limit=int(limit), cursor=query.get("cursor"))))

    async def rotate(request: Request) -> Response:
        return _told(await keys.rotate(_named(request)))

    async def revoke(request: Request) -> Response:
        return _told(await keys.revoke(_named(request)))

    async def set_quota(request: Request) -> Response:
        require_json(request.headers)
        sent = await body(request.scope, request.receive, limit=body_bytes)
        quota = envelope.decode_as(KeyQuota, sent)
        return _told(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"], quota=quota)))

    async def end_quota(request: Request) -> Response:
        return _told(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"])))

    one = f"{KEYS_PATH}/{{id}}"
    once = "The key, shown this once."
    return (
        _shown(KEYS_PATH, "POST", add,
               Told("add_access", "Make an access key.", AccessAddRequest, AccessKeyIssued, answer=once)),
        _shown(KEYS_PATH, "GET", listed,
               Told("list_access", "List the access keys.", None, AccessKeyList, (), ("limit", "cursor"), "A page.")),
        _shown(f"{one}/rotate", "POST", rotate,
               Told("rotate_access", "Give an access key a new secret.", None, AccessKeyIssued, answer=once)),
        _shown(f"{one}/quota", "PUT", set_quota,
               Told("set_access_quota", "Set the quota of an access key.", KeyQuota, AccessKeyReport)),
        _shown(f"{one}/quota", "DELETE", end_quota,
               Told("end_access_quota", "End the quota of an access key.", None, AccessKeyReport)),
        _shown(one, "DELETE", revoke,
               Told("revoke_access", "Let an access key open nothing more.", None, AccessKeyReport)),
    )  # fmt: skip


def _shown(path: str, method: str, handler: Callable[[Request], Awaitable[Response]], told: Told) -> Surface:
    return shown(path, handler, access=Access.OPERATOR, methods=(method,), told=replace(told, group="access keys"))


def _named(request: Request) -> AccessKeyRequest:
    return AccessKeyRequest(id=request.path_params["id"])


def _told(report: Value) -> Response:
    return Response(envelope.encode(report), media_type="application/json")


SHUTDOWN_PATH = "/v1/shutdown"
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def shutdown_route(entrance: Entrance, /) -> Surface:
    """Return the surface at which an operator on this machine ends the server."""

    async def end(request: Request) -> Response:
        _require_local(request)
        require_json(request.headers)
        sent = await body(request.scope, request.receive, limit=SHUTDOWN_BODY_BYTES)
        asked = envelope.decode_as(ShutdownRequest, sent)
        if entrance.end is None:
            raise Unsupported("another program serves this memory: end that program")
        report = ShutdownReport(pid=os.getpid(), reason=asked.reason)
        # The server ends behind its answer, so that the caller hears of it.
        return Response(envelope.encode(report), media_type="application/json", background=BackgroundTask(entrance.end))

    told = Told("shutdown", "End the server. For operators on its machine.", ShutdownRequest, ShutdownReport,
                answer="It ends.")  # fmt: skip
    return shown(SHUTDOWN_PATH, end, access=Access.OPERATOR, methods=("POST",), told=told)


def _require_local(request: Request) -> None:
    """Raise PermissionRefused for a caller of another machine, or one behind a proxy."""
    address = request.client.host if request.client is not None else ""
    try:
        is_here = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_here = False
    if not is_here or any(name in request.headers for name in _FORWARDED):
        raise PermissionRefused("a server is ended from its own machine alone, and not through a proxy")
