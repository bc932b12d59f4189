"""MCP on a real port: whose memory a key opens, and what is refused before the protocol starts."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.transports.serving import Served, served

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.app import mcp_surfaces

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(server: Served, key: str) -> AsyncGenerator[Client]:
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


async def called(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_two_users_keys_open_two_memories() -> None:
    async with served(SurfaceOptions(tools=frozenset({ToolSet.SIMPLE, ToolSet.CORE}))) as server:
        assert "mcp" in server.protocols
        ada = await server.key(PrincipalKind.USER, "ada")
        bob = await server.key(PrincipalKind.USER, "bob")
        async with connected(server, ada) as hers, connected(server, bob) as his:
            stored = await called(hers, "memory_add", text="The boiler code is 4417.", conversation="home")
            await called(his, "add", text="The boiler is new.", conversation="home")
            assert [hit["text"] for hit in (await called(hers, "memory_recall", query="boiler"))["hits"]] == [
                "The boiler code is 4417."
            ]
            assert "The boiler is new." in str(await his.call_tool("search", {"query": "boiler"}))
            assert "4417" not in str(await his.call_tool("search", {"query": "boiler", "conversation": "home"}))
            refused = await his.call_tool("memory_get", {"id": stored["decisions"][0]["id"]})
            assert refused.is_error
            foreign = await his.call_tool("memory_recall", {"query": "boiler", "scope": {"space": "ada"}})
            assert foreign.is_error
            assert "4417" not in str(foreign)


async def test_the_server_offers_the_configured_tools() -> None:
    async with served(SurfaceOptions(tools=frozenset({ToolSet.REFERENCE}))) as server:
        key = await server.key(PrincipalKind.USER, "ada")
        async with connected(server, key) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
    assert "read_graph" in names
    assert "memory_recall" not in names


async def test_a_users_erasure_over_http_needs_confirmation() -> None:
    async with served(SurfaceOptions(tools=frozenset({ToolSet.CORE, ToolSet.DESTRUCTIVE}))) as server:
        key = await server.key(PrincipalKind.USER, "ada")
        async with connected(server, key) as client:
            stored = await called(client, "memory_add", text="The boiler code is 4417.")
            ids = [stored["decisions"][0]["id"]]
            refused = await client.call_tool("memory_erase", {"ids": ids})
            assert "ask the owner of the memory" in str(refused.content)
            assert (await called(client, "memory_erase", ids=ids, confirm="erase"))["changed"] is True
            assert "memory_export" not in {tool.name for tool in (await client.list_tools()).tools}


async def test_requests_without_a_key_or_from_a_foreign_page_are_refused() -> None:
    async with (
        served(SurfaceOptions()) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client,
    ):
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await client.post("/mcp", json=asked)).status_code == 401
        key = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
        foreign = await client.post("/mcp", json=asked, headers={**key, "Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert (await client.get("/mcp", headers=key)).status_code == 405
        for sent, code in (
            (b" " * (limits.HTTP_BODY_BYTES + 1), "payload_too_large"),
            (b'{"s3cret": 1}', "invalid_input"),
            (b'{"s3cret": 1, "s3cret": 2}', "invalid_json"),
        ):
            answer = await client.post("/mcp", content=sent, headers={**key, "Content-Type": "application/json"})
            assert answer.json()["code"] == code
            assert "s3cret" not in answer.text
        assert (await client.post("/mcp", content=b"{}", headers=key)).status_code == 415
        described = (await client.get("/openapi/all.json", headers=key)).json()["paths"]
        assert {"/mcp", "/a2a", "/a2a/message", "/.well-known/agent-card.json"} <= set(described)


async def test_a_host_without_a_key_learns_where_to_sign_in_if_there_is_an_issuer() -> None:
    """RFC 9728, as far as it concerns the server."""
    places = ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource")
    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    issuers = ("https://id.example/realms/team",)
    async with served(SurfaceOptions(mcp_issuers=issuers)) as server, httpx.AsyncClient(base_url=server.url) as client:
        refused = await client.post("/mcp", json=call)
        challenge = f'Bearer realm="elytron", resource_metadata="{server.url}{places[0]}"'
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, challenge)
        assert (await client.get("/v1/inspect")).headers.get("WWW-Authenticate") in {None, 'Bearer realm="elytron"'}
        for place in places:
            assert (await client.get(place)).json() == {
                "resource": f"{server.url}/mcp",
                "authorization_servers": list(issuers),
                "bearer_methods_supported": ["header"],
                "resource_name": "Elytron",
            }
    public = SurfaceOptions(mcp_issuers=issuers, public_url="https://memory.example/")
    async with served(public) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get(places[0])).json()["resource"] == "https://memory.example/mcp"


@pytest.mark.parametrize("issuer", ["javascript:alert(1)", "id.example", 'https://id.example/"x', ""])
def test_an_invalid_issuer_address_is_rejected(issuer: str) -> None:
    with pytest.raises(InvalidInput, match="--mcp-issuer"):
        mcp_surfaces(issuers=(issuer,))


async def test_without_an_issuer_no_response_makes_a_host_open_a_browser() -> None:
    async with served(SurfaceOptions()) as server, httpx.AsyncClient(base_url=server.url) as client:
        refused = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="elytron"')
        assert (await client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404
