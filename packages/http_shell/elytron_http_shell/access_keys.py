"""Access keys over HTTP, for operators: create, list, rotate and revoke."""

from starlette.requests import Request

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
from elytron_adapter.http.requests import read_value
from elytron_adapter.http.responses import request_app
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import KeyQuota

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

    key_path, operator = f"{KEYS_PATH}/{{id}}", SurfaceAccess.OPERATOR
    once_note = "The key, shown only once."
    routes = (
        Route("POST", KEYS_PATH, add, "add_access", "Create an access key.", AccessAddRequest, AccessKeyIssued,
              operator, outcome=once_note),
        Route("GET", KEYS_PATH, list_keys, "list_access", "List the access keys.", None, AccessKeyList, operator,
              query=("limit", "cursor"), outcome="A page of access keys."),
        Route("POST", f"{key_path}/rotate", rotate, "rotate_access", "Rotate the secret of an access key.", None,
              AccessKeyIssued, operator, outcome=once_note),
        Route("PUT", f"{key_path}/quota", set_quota, "set_access_quota", "Set the quota of an access key.", KeyQuota,
              AccessKeyReport, operator),
        Route("DELETE", f"{key_path}/quota", end_quota, "end_access_quota", "Remove the quota of an access key.", None,
              AccessKeyReport, operator),
        Route("DELETE", key_path, revoke, "revoke_access", "Revoke an access key.", None, AccessKeyReport, operator),
    )  # fmt: skip
    return build_surfaces(routes, request_app, group="access keys")


def _named_key(request: Request) -> AccessKeyRequest:
    return AccessKeyRequest(id=request.path_params["id"])
