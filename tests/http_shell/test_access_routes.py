"""Operators create and revoke keys over HTTP; access is declared with the route."""

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer
from tests.transports.nodes import skip_over_nodes

from elytron import MemoryRuntime
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core import limits
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio


async def test_a_key_is_created_shown_once_used_rotated_and_revoked(server: httpx.AsyncClient, keys: Keys) -> None:
    operator = bearer(keys.operator)
    asked = {"kind": "user", "space": "eve", "label": "phone"}
    made = (await server.post("/v1/access", json=asked, headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).json()["space"] == "eve"
    listed = await server.get("/v1/access", headers=operator)
    assert made["key"] not in listed.text
    (item,) = [one for one in listed.json()["items"] if one["id"] == made["access"]["id"]]
    assert item.pop("last_used_at") > item["created_at"]
    assert item == made["access"]

    path = f"/v1/access/{made['access']['id']}"
    turned = (await server.post(f"{path}/rotate", headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 401
    assert (await server.post("/v1/list", json={}, headers=bearer(turned["key"]))).status_code == 200

    ended = await server.delete(path, headers=operator)
    assert ended.json()["revoked_at"]
    assert (await server.post("/v1/list", json={}, headers=bearer(turned["key"]))).status_code == 401


async def test_only_operators_manage_keys(server: httpx.AsyncClient, keys: Keys) -> None:
    asked = {"kind": "operator", "label": "me"}
    for key in (keys.user, keys.device):
        assert (await server.post("/v1/access", json=asked, headers=bearer(key))).status_code == 403
        assert (await server.get("/v1/access", headers=bearer(key))).status_code == 403
        assert (await server.get("/metrics", headers=bearer(key))).status_code == 403
    refused = await server.get("/v1/access")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/access/zz/rotate"), ("DELETE", "/v1/access/zz")])
async def test_invalid_ids_are_rejected(server: httpx.AsyncClient, keys: Keys, method: str, path: str) -> None:
    assert (await server.request(method, path, headers=bearer(keys.operator))).status_code == 422
    absent = path.replace("zz", "0" * 16)
    assert (await server.request(method, absent, headers=bearer(keys.operator))).status_code == 404


async def test_keys_are_listed_in_pages(server: httpx.AsyncClient, keys: Keys) -> None:
    page = (await server.get("/v1/access?limit=3", headers=bearer(keys.operator))).json()
    rest = (await server.get(f"/v1/access?limit=3&cursor={page['next_cursor']}", headers=bearer(keys.operator))).json()
    assert (len(page["items"]), len(rest["items"])) == (3, 1)
    for wrong in ("limit=x", "limit=0", "limit=99999999", "cursor=%00"):
        assert (await server.get(f"/v1/access?{wrong}", headers=bearer(keys.operator))).status_code == 422


async def test_a_key_for_invalid_spaces_is_rejected(server: httpx.AsyncClient, keys: Keys) -> None:
    for asked in ({"kind": "user", "label": "x"}, {"kind": "operator", "space": "a", "label": "x"}, {"kind": "root"}):
        response = await server.post("/v1/access", json=asked, headers=bearer(keys.operator))
        assert response.status_code == 422


@pytest.mark.parametrize("path", ["/v1/list", "/v1/access", "/webhook/report", "/memories/search"])
async def test_a_caller_guessing_keys_is_throttled_and_nobody_is_locked_out(
    runtime: MemoryRuntime, keys: Keys, path: str
) -> None:
    async with open_surfaces(runtime, SurfaceOptions()) as more:
        app = create_app(runtime, further=more.further)

        def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://localhost")

        sent = {"user_id": "ada", "user_key": "x", "query": "x"} if path.startswith("/memories") else {}
        wrong = bearer(keys.user[:-4] + "beef") | {"Webhook-Key": "0" * 16}
        async with client("192.0.2.1") as guessing, client("192.0.2.2") as other:
            told = [
                await guessing.post(path, json=sent, headers=wrong)
                for _ in range(limits.WRONG_CREDENTIALS_PER_MINUTE + 1)
            ]
            assert {answer.status_code for answer in told[:-1]} == {401}
            assert (told[-1].status_code, told[-1].json()["code"]) == (429, "rate_limited")
            assert 0 < int(told[-1].headers["retry-after"]) <= 60
            assert (await other.post(path, json=sent, headers=wrong)).status_code == 401
            assert (await guessing.post("/v1/list", json={}, headers=bearer(keys.user))).status_code == 200


async def test_callers_without_a_key_are_never_throttled(server: httpx.AsyncClient) -> None:
    for _ in range(limits.WRONG_CREDENTIALS_PER_MINUTE + 1):
        assert (await server.post("/v1/list", json={})).status_code == 401


async def test_headers_are_bounded(server: httpx.AsyncClient) -> None:
    response = await server.get("/livez", headers={"X-Long": "x" * limits.HTTP_HEADER_BYTES})
    assert (response.status_code, response.json()["code"]) == (431, "headers_too_large")


async def test_a_quota_applies_to_every_route_and_operators_set_and_remove_it(
    server: httpx.AsyncClient, keys: Keys
) -> None:
    skip_over_nodes("a quota is added up every few seconds")
    operator = bearer(keys.operator)
    asked = {"kind": "user", "space": "eve", "label": "phone", "quota": {"calls_per_day": 1}}
    made = (await server.post("/v1/access", json=asked, headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 200
    refused = await server.post("/v1/search", json={"query": "tea"}, headers=bearer(made["key"]))
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) > 0

    path = f"/v1/access/{made['access']['id']}/quota"
    assert (await server.put(path, json={"calls_per_day": 9}, headers=bearer(made["key"]))).status_code == 403
    assert (await server.put(path, json={"calls_per_day": 0}, headers=operator)).status_code == 422
    assert (await server.put(path, json={"calls_per_day": 2}, headers=operator)).json()["quota"] == {"calls_per_day": 2}
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 200
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 429
    assert "quota" not in (await server.delete(path, headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 200
