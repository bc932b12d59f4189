"""Operators make and end keys over HTTP; what is open to whom stands with the route."""

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

from elytron_core import limits

pytestmark = pytest.mark.anyio


async def test_a_key_is_made_shown_once_used_turned_and_ended(server: httpx.AsyncClient, keys: Keys) -> None:
    operator = bearer(keys.operator)
    asked = {"kind": "user", "space": "eve", "label": "phone"}
    made = (await server.post("/v1/access", json=asked, headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).json()["space"] == "eve"
    listed = await server.get("/v1/access", headers=operator)
    assert made["key"] not in listed.text
    assert made["access"] in listed.json()["items"]

    path = f"/v1/access/{made['access']['id']}"
    turned = (await server.post(f"{path}/rotate", headers=operator)).json()
    assert (await server.post("/v1/list", json={}, headers=bearer(made["key"]))).status_code == 401
    assert (await server.post("/v1/list", json={}, headers=bearer(turned["key"]))).status_code == 200

    ended = await server.delete(path, headers=operator)
    assert ended.json()["revoked_at"]
    assert (await server.post("/v1/list", json={}, headers=bearer(turned["key"]))).status_code == 401


async def test_keys_are_an_operators_business(server: httpx.AsyncClient, keys: Keys) -> None:
    asked = {"kind": "operator", "label": "me"}
    for key in (keys.user, keys.device):
        assert (await server.post("/v1/access", json=asked, headers=bearer(key))).status_code == 403
        assert (await server.get("/v1/access", headers=bearer(key))).status_code == 403
        assert (await server.get("/metrics", headers=bearer(key))).status_code == 403
    refused = await server.get("/v1/access")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/access/zz/rotate"), ("DELETE", "/v1/access/zz")])
async def test_what_is_no_id_is_refused(server: httpx.AsyncClient, keys: Keys, method: str, path: str) -> None:
    assert (await server.request(method, path, headers=bearer(keys.operator))).status_code == 422
    absent = path.replace("zz", "0" * 16)
    assert (await server.request(method, absent, headers=bearer(keys.operator))).status_code == 404


async def test_keys_are_listed_a_page_at_a_time(server: httpx.AsyncClient, keys: Keys) -> None:
    page = (await server.get("/v1/access?limit=3", headers=bearer(keys.operator))).json()
    rest = (await server.get(f"/v1/access?limit=3&cursor={page['next_cursor']}", headers=bearer(keys.operator))).json()
    assert (len(page["items"]), len(rest["items"])) == (3, 1)
    for wrong in ("limit=x", "limit=0", "limit=99999999", "cursor=%00"):
        assert (await server.get(f"/v1/access?{wrong}", headers=bearer(keys.operator))).status_code == 422


async def test_a_key_for_nothing_sensible_is_refused(server: httpx.AsyncClient, keys: Keys) -> None:
    for asked in ({"kind": "user", "label": "x"}, {"kind": "operator", "space": "a", "label": "x"}, {"kind": "root"}):
        response = await server.post("/v1/access", json=asked, headers=bearer(keys.operator))
        assert response.status_code == 422


async def test_headers_have_a_bound(server: httpx.AsyncClient) -> None:
    response = await server.get("/livez", headers={"X-Long": "x" * limits.HTTP_HEADER_BYTES})
    assert (response.status_code, response.json()["code"]) == (431, "headers_too_large")
