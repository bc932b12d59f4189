"""Hosts written for the first protocol version are understood identically over HTTP, WebSocket, and A2A."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.transports.live import Live
from tests.transports.openers import OPENERS
from tests.transports.serving import Served, served
from websockets.asyncio.client import connect

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.contracts.facts import FactListRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import Scope
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.app import mcp_surfaces

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Json]]
"""Calls an operation and returns its report, or the error with its `seed_key`."""

WRITES: dict[str, tuple[Json, str]] = {
    "feedback": (
        {
            "tool_usage_feedback": {
                "registry_ref": {"registry_id": "host-tools", "fingerprint": "current", "scope": "global"},
                "observations": [],
                "reuse_outcome": "succeeded",
            }
        },
        "tool_experience",
    ),
    "writes": (
        {
            "writes": [
                {"name": "moor", "topic": "mooring", "title": "Moor", "summary": "How to moor", "content": "1. Stop."}
            ],
            "source": "manual",
        },
        "procedural",
    ),
    "extraction": ({"extraction": {"facts": [{"topic": "home town", "content": "Lisbon"}]}}, "long_term"),
}
A2A = {
    "write": "memory_write_candidate",
    "recall": "memory_recall_request",
    "project": "memory_projection_request",
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Served]:
    async with served(SurfaceOptions()) as running:
        yield running


@dataclass(frozen=True)
class Space:
    """A test's own space on the server, with a user's key."""

    server: Served
    name: str
    key: str


@pytest.fixture
async def space(running: Served, request: pytest.FixtureRequest) -> Space:
    name = request.node.name
    return Space(running, name, await running.key(PrincipalKind.USER, name))


@asynccontextmanager
async def over_http(space: Space) -> AsyncGenerator[Ask]:
    async with client(space) as http:

        async def ask(operation: str, request: Json) -> Json:
            return (await http.post(f"/memory/{operation}", json=request)).json()

        yield ask


@asynccontextmanager
async def over_websocket(space: Space) -> AsyncGenerator[Ask]:
    headers = {"Authorization": f"Bearer {space.key}"}
    address = space.server.url.replace("http", "ws", 1) + "/v1/ws"
    async with connect(address, additional_headers=headers, proxy=None) as socket:
        await socket.recv()

        async def ask(operation: str, request: Json) -> Json:
            await socket.send(json.dumps({"type": f"command.{operation}", "id": "1", "payload": request}))
            told = json.loads(await socket.recv())
            return told.get("report") or told["error"]

        yield ask


@asynccontextmanager
async def over_a2a(space: Space) -> AsyncGenerator[Ask]:
    async with client(space) as http:

        async def ask(operation: str, request: Json) -> Json:
            parts = [{"data": {"name": A2A[operation], "payload": request}}]
            said = {"role": "ROLE_USER", "parts": parts, "messageId": json.dumps(request)[:100]}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
            answer = (await http.post("/a2a", json=asked, headers={"A2A-Version": "1.0"})).json()
            (part,) = answer["result"]["message"]["parts"]
            payload = part["data"]["payload"]
            return payload.get("report") or payload

        yield ask


def client(space: Space) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {space.key}"}
    return httpx.AsyncClient(base_url=space.server.url, headers=headers, trust_env=False, timeout=100)


WIRES = {"HTTP": over_http, "WebSocket": over_websocket, "A2A": over_a2a}


@pytest.mark.parametrize("form", WRITES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_write_is_recognised_by_its_fields(space: Space, wire: str, form: str) -> None:
    body, plane = WRITES[form]
    async with WIRES[wire](space) as ask:
        told = await ask("write", body)
    assert [decision["plane"] for decision in told["decisions"]] == [plane]


@pytest.mark.parametrize("wire", WIRES)
async def test_query_and_limit_are_accepted_under_their_first_names(space: Space, wire: str) -> None:
    await space.server.memory.add("The boiler code is 4417.", user_id=space.name)
    async with WIRES[wire](space) as ask:
        found = await ask("recall", {"user_query": "boiler code"})
        block = await ask("project", {"user_query": "boiler code", "system_max_len": 1_500})
    assert [hit["text"] for hit in found["hits"]] == ["The boiler code is 4417."]
    assert "4417" in block["system_memory_block"]
    assert block["requested_chars"] == 1_500


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_carries_the_key_of_the_first_protocol_version(space: Space, wire: str) -> None:
    async with WIRES[wire](space) as ask:
        wrong = await ask("write", {"writes": "s3cret"})
        foreign = await ask("recall", {"query": "x", "scope": {"space": "bob"}})
    assert (wrong["seed_key"], foreign["seed_key"]) == ("operation_mismatch", "forbidden")
    assert "s3cret" not in json.dumps(wrong)


@pytest.mark.parametrize("wire", ["HTTP", "WebSocket"])
async def test_continuity_is_transferred_from_one_chat_to_another(space: Space, wire: str) -> None:
    async with WIRES[wire](space) as ask:
        await ask("write", WRITES["extraction"][0])
        taken = await ask("export", {"chat_id": "kitchen"})
        body = {"snapshot": taken["snapshot"], "target_chat_id": "office", "mode": "BootstrapImport"}
        told = await ask("import", body)
        refused = await ask("export", {"path": "x.elytron"})
    assert (told["mode"], told["conversation"]) == ("bootstrap", "office")
    assert refused["seed_key"] == "forbidden"


async def test_a_peers_proposal_in_the_first_form_speaks_for_no_user(space: Space) -> None:
    said = {"topic": "home town", "content": "Lisbon", "authority": "user_asserted"}
    async with over_a2a(space) as ask:
        await ask("write", {"extraction": {"facts": [said]}})
        refused = await ask("write", {"extraction": {"facts": [{"topic": "home town", "operation": "delete"}]}})
    listing = FactListRequest(scope=Scope(space=SpaceId(space.name)))
    (fact,) = (await space.server.memory.list_facts(listing)).items
    assert (fact.content, fact.authority) == ("Lisbon", "imported")
    assert refused["error_key"] == "invalid_input"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live(further=(mcp_surfaces(frozenset({ToolSet.ALL})),)) as server:
        yield server


@pytest.mark.parametrize("transport", OPENERS)
def test_typed_requests_accept_the_first_names_everywhere(live: Live, transport: str) -> None:
    own = {"scope": {"space": f"typed {transport}"}}
    with OPENERS[transport](live) as call:
        call("write", {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Tea is green."}]}]}, **own})
        assert call("recall", {"user_query": "tea", **own})["hits"]
        assert call("project", {"user_query": "tea", "system_max_len": 900, **own})["budget"] == 900


@pytest.mark.parametrize("transport", OPENERS)
def test_a_turn_is_committed_with_the_first_names_of_its_scope_fields(live: Live, transport: str) -> None:
    place = {"memory_space_id": f"placed {transport}", "channel_id": "phone", "conversation_id": "family"}
    said = {"text": "The ferry leaves at six.", "speaker": "Ada"}
    turn = {"turn_id": "t1", "input_messages": [said], "assistant_message": {"role": "assistant", "text": "Noted."}}
    with OPENERS[transport](live) as call:
        call("commit_transcript", {"scope": place, "delta": turn})
        (first, _) = call("list", {"scope": {"space": place["memory_space_id"]}})["items"]
    assert (first["channel"], first["conversation"]) == ("phone", "family")
