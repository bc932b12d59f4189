"""Isolation of spaces on every transport of a server with keys: each operation, tool, resource, stream, message.

HTTP is covered by `tests/http_shell/test_tenants.py`, and the gateway by `tests/gateway/test_walls.py`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.http_shell.test_tenants import MEMBERS, OPERATORS, SECRET, request_of
from tests.transports.serving import Served, served
from websockets.asyncio.client import connect

from elytron.registry import AnyOperation
from elytron_a2a_shell import MessageName
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.contracts.events import StreamKind
from elytron_core.ids import SYSTEM_SPACE
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.tools import CONFIRM, tool_name

pytestmark = pytest.mark.anyio

FOREIGN = ("bob", "nobody", SYSTEM_SPACE)
WAIT_S = 100


class Walled:
    """A server where bob stores a secret, with ada's key and his."""

    def __init__(self, server: Served, ada: str, bob: str, memory: str) -> None:
        self.server = server
        self.ada = ada
        self.bob = bob
        self.memory = memory
        """The id of bob's secret."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def walled() -> AsyncIterator[Walled]:
    async with served(SurfaceOptions(tools=frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE}))) as server:
        ada = await server.key(PrincipalKind.USER, "ada")
        bob = await server.key(PrincipalKind.USER, "bob")
        async with http(server, bob) as his:
            said = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": SECRET}]}]}}
            assert (await his.post("/v1/write", json=said)).status_code == 200
            fact = {"write": {"kind": "long_term", "facts": [{"topic": "safe", "content": SECRET}]}}
            assert (await his.post("/v1/write", json=fact)).status_code == 200
            items = (await his.post("/v1/list", json={})).json()["items"]
            yield Walled(server, ada, bob, items[0]["id"])
            kept = (await his.post("/v1/list", json={})).json()["items"]
        assert [item["text"] for item in kept] == [SECRET, SECRET]


def http(server: Served, key: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=WAIT_S)


@asynccontextmanager
async def mcp(walled: Walled) -> AsyncGenerator[Client]:
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {walled.ada}"}) as client,
        Client(streamable_http_client(f"{walled.server.url}/mcp", http_client=client)) as connected,
    ):
        yield connected


def asked(operation: AnyOperation, space: str) -> dict[str, Any]:
    return request_of(operation.request, space)


async def test_every_websocket_command_is_limited_to_its_keys_space(walled: Walled) -> None:
    url = walled.server.url.replace("http://", "ws://") + "/v1/ws"
    headers = {"Authorization": f"Bearer {walled.ada}"}
    async with connect(url, additional_headers=headers, proxy=None) as socket:

        async def answer(frame: dict[str, Any]) -> dict[str, Any]:
            await socket.send(json.dumps(frame))
            told = await asyncio.wait_for(socket.recv(), WAIT_S)
            assert SECRET not in str(told)
            return json.loads(told)

        await asyncio.wait_for(socket.recv(), WAIT_S)
        for operation in MEMBERS:
            frames = [
                {"type": f"command.{operation.name}", "id": "1", "payload": asked(operation, space)}
                for space in FOREIGN
            ]
            answers = [await answer(frame) for frame in frames]
            assert answers[0] == answers[1] == answers[2], operation.name
            assert answers[0]["error"]["code"] in {"permission_refused", "invalid_input"}, operation.name
        for operation in OPERATORS:
            payload = request_of(operation.request, None)
            told = await answer({"type": f"command.{operation.name}", "id": "1", "payload": payload})
            assert told["error"]["code"] in {"permission_refused", "invalid_input"}, operation.name
        for kind in StreamKind:
            for space in FOREIGN:
                scope = {"scope": {"space": space}}
                more = scope if kind is StreamKind.EVENTS else {"payload": {**_watched(kind), **scope}}
                told = await answer({"type": f"subscribe.{kind}", "id": f"{kind}", **more})
                while told["type"] == "event.lifecycle":
                    told = json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))
                assert told["error"]["code"] in {"permission_refused", "invalid_input"}, kind
                assert SECRET not in str(told)


def _watched(kind: StreamKind) -> dict[str, Any]:
    return {"query": "safe"} if kind is StreamKind.PROJECTION else {}


async def test_every_mcp_tool_resource_and_prompt_is_limited_to_its_keys_space(walled: Walled) -> None:
    async with mcp(walled) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        operations = [operation for operation in MEMBERS if tool_name(operation) in tools]
        assert len(operations) >= 30
        for operation in operations:
            answers: list[str] = []
            for space in ("bob", "nobody"):
                confirmed = {CONFIRM: operation.name} if operation.grave is not None else {}
                told = await client.call_tool(tool_name(operation), asked(operation, space) | confirmed)
                assert told.is_error, operation.name
                assert SECRET not in str(told)
                answers.append(str(told.content))
            assert len(set(answers)) == 1, operation.name
        for name in sorted(tools - {tool_name(operation) for operation in MEMBERS}):
            told = await client.call_tool(name, _plain(walled.memory))
            assert SECRET not in str(told), name
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        (template,) = (await client.list_resource_templates()).resource_templates
        for uri in (*uris, template.uri_template.replace("{id}", walled.memory)):
            assert SECRET not in await _read(client, uri)
        for prompt in (await client.list_prompts()).prompts:
            assert SECRET not in str(await client.get_prompt(prompt.name, {"query": "how does the safe open?"}))


async def _read(client: Client, uri: str) -> str:
    try:
        return str(await client.read_resource(uri))
    except MCPError as refused:
        return str(refused)


def _plain(memory: str) -> dict[str, Any]:
    """Return arguments that fit any plain tool, or none: unknown ones are rejected."""
    return {"query": "safe", "memory_id": memory, "names": ["safe"]}


async def test_every_peer_message_is_limited_to_its_keys_space(walled: Walled) -> None:
    async with http(walled.server, walled.ada) as hers:
        for name in MessageName:
            for space in FOREIGN:
                payload = {"query": "safe", "text": "x", "scope": {"space": space}}
                told = await hers.post("/a2a/message", json={"name": name, "payload": payload, "hops": 0})
                assert SECRET not in told.text, name
        recalled = await hers.post(
            "/a2a/message", json={"name": "memory_recall_request", "payload": {"query": "safe"}, "hops": 0}
        )
        assert SECRET not in recalled.text


async def test_streams_and_archives_are_limited_to_their_keys_space(walled: Walled) -> None:
    async with http(walled.server, walled.ada) as hers:
        for space in FOREIGN:
            for path in ("/v1/events", "/v1/archive"):
                told = await hers.get(path, params={"space": space})
                assert told.status_code == 403, path
                assert SECRET not in told.text
