"""A change of a key or transport applies to the next call, whatever route made it: a server has one of each."""

import ast
import re
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from tests.gates.tree import ROOT, calls_of
from tests.transports.serving import Served, served

from elytron_adapter.access_keys import AccessKeys
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_console import ConsoleHost
from elytron_core.errors import Unauthorized
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio
OWNERS = {
    "AccessKeys": {
        "adapter/elytron_adapter/dispatch.py",
        "http_shell/elytron_http_shell/server.py",
        # Commands without a server, and one that looks up nothing.
        "cli/elytron_cli/commands/servers/access.py",
        "cli/elytron_cli/commands/servers/proxy.py",
        "gateway/elytron_gateway/service.py",
    },
    "KeyQuotas": {"adapter/elytron_adapter/dispatch.py"},
    "TransportSwitches": {"adapter/elytron_adapter/dispatch.py"},
}
BODIES: dict[str, Any] = {"quota": {"calls_per_day": 50}, "{id}": {"state": "revoked"}}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(SurfaceOptions(console=ConsoleHost())) as running:
        yield running


def test_no_surface_creates_its_own_registry() -> None:
    found: dict[str, set[str]] = {name: set() for name in OWNERS}
    for path, call in calls_of(*OWNERS):
        if isinstance(call.func, ast.Name):
            found[call.func.id].add(str(path.relative_to(ROOT / "packages")))
    assert found == OWNERS


async def test_changes_to_a_key_apply_to_the_next_call(server: Served) -> None:
    operator = {"Authorization": f"Bearer {await server.key(PrincipalKind.OPERATOR, None)}"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        description = (await client.get("/openapi/all.json", headers=operator)).json()["paths"]
        routes = [
            (method.upper(), path)
            for path, methods in description.items()
            for method in methods
            if re.search(r"/(access|devices)/\{\w+\}", path) and method != "get"
        ]
        assert len(routes) >= 7
        for method, path in routes:
            key = await server.key(PrincipalKind.USER, "ada")
            assert await status(client, key) == 200
            place = re.sub(r"\{\w+\}", key.split("_")[2], path)
            body = BODIES.get(path.rpartition("/")[2]) if method in {"PUT", "PATCH"} else None
            answer = await client.request(method, place, headers=operator, json=body)
            assert answer.is_success, (method, path, answer.text)
            assert await status(client, key) == await stored_status(server, key), (method, path)
            issued: dict[str, Any] = answer.json() if answer.content else {}
            if (renewed := issued.get("key") or issued.get("appKeyOnce")) is not None:
                assert await status(client, renewed) == 200, (method, path)


async def status(client: httpx.AsyncClient, key: str) -> int:
    return (await client.post("/v1/inspect", json={}, headers={"Authorization": f"Bearer {key}"})).status_code


async def stored_status(server: Served, key: str) -> int:
    """Return the status that the store's own state of a key produces."""
    try:
        await AccessKeys(server.memory.context).authenticate(f"Bearer {key}")
    except Unauthorized:
        return 401
    return 200


async def test_a_scope_without_a_space_uses_the_keys_space_over_every_transport(server: Served) -> None:
    key = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60, headers=key) as client:
        turn = {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}
        for scope in ({"conversation": "kitchen"}, {"channel": "mail"}, {}):
            answer = await client.post("/v1/write", json={"scope": scope, "write": turn})
            assert answer.status_code == 200, answer.text
            assert (await client.post("/v1/recall", json={"query": "tea", "scope": scope})).status_code == 200
        foreign = {"space": "bob", "conversation": "kitchen"}
        assert (await client.post("/v1/recall", json={"query": "tea", "scope": foreign})).status_code == 403


async def test_an_answer_without_a_role_belongs_to_the_assistant(server: Served) -> None:
    key = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
    delta = {"turn_id": "1", "input_messages": [{"text": "When?"}], "assistant_message": {"text": "In May."}}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60, headers=key) as client:
        answer = await client.post("/v1/finalize_turn_and_maintain", json={"delta": delta})
        assert answer.status_code == 200, answer.text
        refused = delta | {"assistant_message": {"text": "In May.", "role": "user"}}
        assert (await client.post("/v1/finalize_turn_and_maintain", json={"delta": refused})).status_code == 422


async def test_an_endpoint_is_listed_until_removed_and_shows_no_password(server: Served) -> None:
    operator = {"Authorization": f"Bearer {await server.key(PrincipalKind.OPERATOR, None)}"}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60, headers=operator) as client:
        path = "/console/transports/http"
        set_one = await client.patch(path, json={"endpoint": "https://memory.example.org"})
        assert (set_one.json()["endpoint"], set_one.json()["enabled"]) == ("https://memory.example.org", True)
        for wrong in ({}, {"endpoint": "memory.example.org"}, {"endpoint": "https://ada:pass@memory.example.org"}):
            answer = await client.patch(path, json=wrong)
            assert (answer.status_code, "pass@" in answer.text) == (422, False)
        assert "endpoint" not in (await client.patch(path, json={"endpoint": ""})).json()


async def test_a_path_without_its_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_cli.server.optional_surfaces.find_spec", Mock(return_value=None))
    async with served(SurfaceOptions()) as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        for path, extra in (("/mcp", "mcp"), ("/a2a", "a2a")):
            answer = await client.post(path, json={})
            assert (answer.status_code, f"the extra '{extra}'" in answer.json()["detail"]) == (404, True)
