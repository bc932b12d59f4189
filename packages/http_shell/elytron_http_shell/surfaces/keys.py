"""Access keys over HTTP, for operators: made, listed, rotated, revoked."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import codec
from elytron_adapter.http.bodies import body, require_json
from elytron_adapter.http.handlers import shown
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
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.planes.admin.access import KeyQuota

PATH = "/v1/access"


def access_routes(keys: AccessKeys, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return the surfaces over `keys`."""

    async def add(request: Request) -> Response:
        require_json(request.headers)
        sent = await body(request.scope, request.receive, limit=body_bytes)
        return _told(await keys.add(codec.decode_as(AccessAddRequest, sent)))

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
        quota = codec.decode_as(KeyQuota, sent)
        return _told(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"], quota=quota)))

    async def end_quota(request: Request) -> Response:
        return _told(await keys.set_quota(AccessQuotaRequest(id=request.path_params["id"])))

    one = f"{PATH}/{{id}}"
    once = "The key, shown this once."
    return (
        _shown(PATH, "POST", add,
               Told("add_access", "Make an access key.", AccessAddRequest, AccessKeyIssued, answer=once)),
        _shown(PATH, "GET", listed,
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
    return Response(codec.encode(report), media_type="application/json")
