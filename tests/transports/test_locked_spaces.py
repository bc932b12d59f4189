"""A space locked by its user's secret, on every endpoint of a server: no answer contains its content until unlocked.

HTTP is in `tests/http_shell/test_secret_routes.py`.
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
from tests.http_shell.test_tenants import MEMBERS
from tests.models.fake_server import FakeServer, serving
from tests.proxy.proxy_setup import PATHS, asked, recorded
from tests.transports.bodies import BODIES
from tests.transports.serving import Served, served
from websockets.asyncio.client import ClientConnection, connect

from elytron.registry import AnyOperation
from elytron_a2a_shell import MessageName
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.contracts.events import StreamKind
from elytron_core.errors import SpaceLocked
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.server import ERROR
from elytron_mcp_shell.tools import CONFIRM, tool_name
from elytron_proxy import ModelUpstream, ProxySettings
from elytron_proxy.prompts import DIALECTS
from elytron_proxy.settings import PASS_ROUTES
from elytron_replay import comparison

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
CONTENT = "heronsnest"
LOCKED = SpaceLocked.key
ELSEWHERE = {"capabilities", "import_continuity"}
"""Operations that read no space: they report what the server can do, and that a bundle is invalid."""
WAIT_S = 100


class LockedServer:
    """A server over a locked space with content, with its user's key, and the model server behind its proxy."""

    def __init__(self, server: Served, key: str, upstream: FakeServer) -> None:
        self.server = server
        self.upstream = upstream
        self.headers = {"Authorization": f"Bearer {key}"}

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.server.url, headers=self.headers, trust_env=False, timeout=WAIT_S)

    async def unlock(self) -> None:
        """Unlock the space through its route."""
        async with self.http() as hers:
            answer = await hers.post("/v1/secret/unlock", json={"words": WORDS})
            assert answer.status_code == 200


@pytest.fixture
async def locked() -> AsyncIterator[LockedServer]:
    sets = frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE, ToolSet.SIMPLE, ToolSet.REFERENCE})
    async with serving(recorded("chat"), recorded("chat")) as upstream:
        llm = ProxySettings(upstreams=(ModelUpstream(upstream.url),))
        async with served(SurfaceOptions(tools=sets, llm=llm, mcp_private=True)) as server:
            found = LockedServer(server, await server.key(PrincipalKind.USER, "ada"), upstream)
            async with found.http() as hers:
                said = {"text": f"the {CONTENT} key is under the oar", "conversation": CONTENT}
                for path, body in (("add", said), ("secret", {"words": WORDS}), ("secret/lock", {})):
                    assert (await hers.post(f"/v1/{path}", json=body)).status_code == 200
            yield found


class KnownNames(dict[str, Any]):
    """Values of references in a body: an id for each without one."""

    def __missing__(self, name: str) -> str:
        return "018f0000-0000-7000-8000-000000000000"

    def __contains__(self, name: object) -> bool:
        return True


def body_of(operation: AnyOperation, folder: str) -> dict[str, Any]:
    """Return a valid request of `operation` in the key's own space."""
    (step, *_) = [step for step in BODIES[operation.name] if step["op"] == operation.name]
    found = comparison.resolve_references(step.get("request", {}), KnownNames({"space": "ada", comparison.TMP: folder}))
    assert isinstance(found, dict)
    return found


def require_shut(said: object) -> None:
    """Require that an answer contains nothing of the space or its secret."""
    assert CONTENT not in str(said)
    assert "sausage" not in str(said)


@asynccontextmanager
async def socket_of(locked: LockedServer) -> AsyncGenerator[ClientConnection]:
    url = locked.server.url.replace("http://", "ws://") + "/v1/ws"
    async with connect(url, additional_headers=locked.headers, proxy=None) as socket:
        await asyncio.wait_for(socket.recv(), WAIT_S)
        yield socket


async def told_by(socket: ClientConnection, frame: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a frame, after its progress events."""
    await socket.send(json.dumps(frame))
    while True:
        told = json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))
        require_shut(told)
        if told["type"] != "event.lifecycle":
            return told


async def test_every_command_and_stream_of_a_websocket_is_locked(locked: LockedServer, tmp_path: Any) -> None:
    async with socket_of(locked) as socket:
        codes: dict[str, object] = {}
        for operation in MEMBERS:
            frame = {"type": f"command.{operation.name}", "id": "1", "payload": body_of(operation, str(tmp_path))}
            told = await told_by(socket, frame)
            codes[operation.name] = told.get("error", {}).get("code")
        assert {name for name, code in codes.items() if code != LOCKED} == ELSEWHERE
        for kind in StreamKind:
            more = {"payload": {"query": "key"} if kind is StreamKind.PROJECTION else {}}
            frame = {"type": f"subscribe.{kind}", "id": f"{kind}", **(more if kind is not StreamKind.EVENTS else {})}
            assert (await told_by(socket, frame))["error"]["code"] == LOCKED, kind
        await locked.unlock()
        await socket.send(json.dumps({"type": "command.recall", "id": "2", "payload": {"query": "where is the key?"}}))
        while CONTENT not in str(await asyncio.wait_for(socket.recv(), WAIT_S)):
            pass


async def test_every_mcp_tool_resource_and_prompt_is_locked(locked: LockedServer, tmp_path: Any) -> None:
    async with (
        create_mcp_http_client(headers=locked.headers) as http,
        Client(streamable_http_client(f"{locked.server.url}/mcp", http_client=http)) as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        operations = [operation for operation in MEMBERS if tool_name(operation) in tools]
        assert len(operations) >= 30
        keys: dict[str, object] = {}
        for operation in operations:
            confirmed = {CONFIRM: operation.name} if operation.grave is not None else {}
            told = await client.call_tool(tool_name(operation), body_of(operation, str(tmp_path)) | confirmed)
            require_shut(told)
            keys[operation.name] = (told.meta or {}).get(ERROR, {}).get("key")
        assert {name for name, key in keys.items() if key != LOCKED} == ELSEWHERE
        for name in sorted(tools - {tool_name(operation) for operation in MEMBERS}):
            for arguments in ({}, {"query": "key"}, {"text": "more"}, {"names": ["key"]}):
                require_shut(await client.call_tool(name, arguments))
        for resource in (await client.list_resources()).resources:
            with pytest.raises(MCPError, match="is locked") as refused:
                await client.read_resource(str(resource.uri))
            require_shut(refused.value)
        await locked.unlock()
        assert CONTENT in str(await client.call_tool("search", {"query": "where is the key?"}))


async def test_every_message_of_a_peer_is_locked(locked: LockedServer) -> None:
    payloads: dict[MessageName, dict[str, Any]] = {
        MessageName.WRITE_CANDIDATE: {"topic": "key", "content": "The key is elsewhere."},
        MessageName.RECALL_REQUEST: {"query": "key"},
        MessageName.PROJECTION_REQUEST: {"query": "key"},
    }
    async with locked.http() as hers:

        async def answer(name: MessageName) -> str:
            sent = {"name": name, "payload": payloads.get(name, {}), "hops": 0}
            return (await hers.post("/a2a/message", json=sent)).text

        for name in MessageName:
            said = await answer(name)
            require_shut(said)
            assert name not in payloads or LOCKED in said, name
        await locked.unlock()
        assert CONTENT in await answer(MessageName.RECALL_REQUEST)


async def test_every_proxy_route_is_locked_before_a_model_is_called(locked: LockedServer) -> None:
    routes = {*(("POST", path) for path in DIALECTS), *((route.method, route.path) for route in PASS_ROUTES)}
    why = SpaceLocked(space="ada").message
    async with locked.http() as hers:
        for method, path in sorted(routes):
            where = f"/llm{path.replace('{id}', 'r1').replace('{name}', 'm')}"
            body = asked("chat", "where is the key?") if method == "POST" else None
            for use in ("on", "read", "write", "required"):
                answer = await hers.request(method, where, json=body, headers={"X-Elytron-Memory": use})
                assert (answer.status_code, why in str(answer.json())) == (423, True), (where, use)
                require_shut(answer.text)
        assert locked.upstream.asked == []


async def test_the_proxy_answers_in_full_once_the_space_is_unlocked_or_without_memory(locked: LockedServer) -> None:
    path, body = f"/llm{PATHS['chat']}", asked("chat", "where is the key?")
    async with locked.http() as hers:
        for use in ("off", "on"):
            answer = await hers.post(path, json=body, headers={"X-Elytron-Memory": use})
            assert (answer.status_code, answer.headers["x-elytron-memory"]) == (200, use)
            assert "[DONE]" in answer.text
            assert (CONTENT in str(locked.upstream.asked[-1].body)) is (use == "on")
            await locked.unlock()
