"""Isolation over two nodes: a second user with the first one's ids asks another node, and sees nothing."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import httpx
import pytest
from tests.console.test_walls import PLANTED, SECRET
from tests.http_shell.conftest import bearer
from tests.http_shell.test_tenants import example, request_of
from tests.store.postgres_rig import open_tables
from tests.store.postgres_server import PostgresServer
from tests.store.served_nodes import served_nodes

from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, by_name
from elytron_http_shell.operations import path_of
from elytron_store.sealed.providers import FileKeys

pytestmark = pytest.mark.anyio

NAMED = re.compile(r'"(id|name|key|chat_id|conversation|turn_id|cursor|next_cursor|registry_id|head)": ?"([^"]+)"')
EACH = 2
"""The number of ids used per kind: more have the same form."""
AT_ONCE = 8
ENOUGH = 50
BEGINNING_S = 2.0


@dataclass(frozen=True)
class TwoNodes:
    """Two servers over one sealed database; bob stores a secret through the first, ada asks the second."""

    first: httpx.AsyncClient
    second: httpx.AsyncClient
    operator: dict[str, str]
    bob: dict[str, str]
    ada: dict[str, str]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def addresses(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("nodes")
    FileKeys.create(folder / "keys.json")
    database = postgres.make_database()

    async def made() -> None:
        await (await open_tables(database, sealed=True)).close()

    asyncio.run(made())
    node = ("--store", database, "--key-file", "keys.json", "--mcp-tools", "all", "--share-store")
    agent = ("--agent-model", "ollama:none@http://127.0.0.1:9", "--no-schedules")
    with served_nodes(folder, [(*node, *agent, "--operator-key"), (*node, *agent)]) as reports:
        yield reports


@pytest.fixture(scope="module")
async def nodes(addresses: Sequence[Mapping[str, Any]]) -> AsyncIterator[TwoNodes]:
    operator = bearer(addresses[0]["operator_key"])
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=one["address"], trust_env=False, timeout=60))
            for one in addresses
        ]

        async def key(space: str) -> dict[str, str]:
            made = await first.post(
                "/v1/access", json={"kind": "user", "space": space, "label": space}, headers=operator
            )
            return bearer(made.json()["key"])

        found = TwoNodes(first, second, operator, await key("bob"), await key("ada"))
        for write in PLANTED:
            written = await first.post(
                "/v1/write",
                json={"write": write, "scope": {"space": "bob", "conversation": "vault"}},
                headers=found.bob,
            )
            assert written.json().get("changed"), written.text
        record = {"namespace": ["vault"], "key": "safe", "value": {"opens": SECRET}, "text": SECRET}
        assert (await first.post("/v1/put_record", json=record, headers=found.bob)).status_code == 200
        # Through the second node too, so its indexes contain what must not be shown.
        recalled = await second.post("/v1/recall", json={"query": SECRET}, headers=found.bob)
        assert SECRET in recalled.text
        yield found


async def state_of(nodes: TwoNodes) -> tuple[str, ...]:
    """Return the state of bob's space, from each node."""
    answers = [
        (await node.post("/v1/inspect", json={"fingerprints": True}, headers=nodes.bob)).json()
        for node in (nodes.first, nodes.second)
    ]
    return tuple(answer["state_fingerprint"] for answer in answers)


async def harvest(nodes: TwoNodes) -> list[str]:
    """Return ids that bob sees, some of each kind."""
    found: dict[str, list[str]] = {}
    for operation in WIRE_OPERATIONS:
        if operation.role is not CallerRole.MEMBER or operation.mutates:
            continue
        asked = {"query": SECRET, "chat_id": "vault", "namespace": ["vault"], "key": "safe", "limit": 1}
        fields = operation.request.model_fields
        given = {name: value for name, value in asked.items() if name in fields}
        answer = await nodes.first.post(
            path_of(operation), json=request_of(operation.request, None) | given, headers=nodes.bob
        )
        for kind, one in NAMED.findall(answer.text):
            ids = found.setdefault(f"{kind} {one[:6]}", [])
            if one not in ids and len(ids) < EACH:
                ids.append(one)
    return sorted({*chain.from_iterable(found.values())})


def texts_of(operation: AnyOperation) -> Iterator[tuple[str, bool]]:
    """Yield the fields of an operation's request that accept text, or a list of texts."""
    properties: Mapping[str, Any] = operation.request.model_json_schema(mode="validation").get("properties", {})
    for name, schema in properties.items():
        forms = [schema, *schema.get("anyOf", ())]
        if any(form.get("type") == "string" and "enum" not in form for form in forms):
            yield name, False
        elif any(form.get("type") == "array" and form["items"].get("type") == "string" for form in forms):
            yield name, True


def requests_of(operation: AnyOperation, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield requests for ada's own space with each id in each field, and plain ones for bob's."""
    least = request_of(operation.request, None)
    yield least | {"scope": {"space": "bob"}}
    yield least | ({"query": "how does the safe open?"} if "query" in operation.request.model_fields else {})
    for name, is_list in texts_of(operation):
        for one in ids:
            yield least | {name: [one] if is_list else one}


async def shown_to(client: httpx.AsyncClient, headers: dict[str, str], calls: Iterator[tuple[str, Any]]) -> list[str]:
    """Make all `calls`, some concurrently; return those answered with the secret, or with an internal error."""
    shown: list[str] = []

    async def ask() -> None:
        for path, request in calls:
            answer = await client.post(path, json=request, headers=headers)
            if SECRET in answer.text or answer.status_code == 500:
                shown.append(f"{path} {request}: {answer.text}")

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return shown


async def test_no_operation_on_another_node_reveals_harvested_ids(nodes: TwoNodes) -> None:
    before = await state_of(nodes)
    ids = await harvest(nodes)
    assert len(ids) >= 12
    calls = ((path_of(operation), request) for operation in WIRE_OPERATIONS for request in requests_of(operation, ids))
    assert await shown_to(nodes.second, nodes.ada, calls) == []
    assert await state_of(nodes) == before
    assert before[0] == before[1]
    read = by_name("get")
    assert await shown_to(nodes.second, nodes.bob, ((path_of(read), {"id": one}) for one in ids)) != []


def routes_of(document: Mapping[str, Any], ids: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield a call of each method of each route, with each of the first ids in its path, and a body of its form."""
    known: dict[str, Any] = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {})
            schema = next((form.get("schema") for form in content.values()), None)
            body = example(schema, json.loads(json.dumps(known))) if schema is not None else None
            for one in ids if "{" in path else ids[:1]:
                yield method.upper(), re.sub(r"\{[^}]+\}", one, path), body


async def walked(client: httpx.AsyncClient, headers: dict[str, str], call: tuple[str, str, Any]) -> str:
    """Return the answer; of an event stream, its beginning."""
    method, path, body = call
    text = ""
    async with client.stream(method, path, json=body, headers=headers, params={"space": "bob"}) as answer:
        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGINNING_S if is_stream else None):
                async for part in answer.aiter_text():
                    text += part
    return text


async def test_no_route_of_another_node_reveals_the_first_users_data(nodes: TwoNodes) -> None:
    before = await state_of(nodes)
    ids = (await harvest(nodes))[::4]
    document = (await nodes.second.get("/openapi/all.json", headers=nodes.operator)).json()
    assert len(document["paths"]) >= ENOUGH
    calls = iter([*routes_of(document, ids)])
    shown: list[str] = []

    async def ask() -> None:
        for call in calls:
            text = await walked(nodes.second, nodes.ada, call)
            shown.extend([f"{call}: {text}"] if SECRET in text else [])

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    assert shown == []
    assert await state_of(nodes) == before


async def test_a_transport_disabled_on_one_node_is_off_on_the_other_within_two_seconds(nodes: TwoNodes) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for is_on in (False, True):
        changed = await nodes.first.patch("/console/transports/mcp", json={"enabled": is_on}, headers=nodes.operator)
        assert changed.status_code == 200, changed.text
        async with asyncio.timeout(30):
            while ((await nodes.second.post("/mcp", json=asked, headers=nodes.ada)).status_code == 503) == is_on:
                pass
