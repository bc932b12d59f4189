"""Headers of a call are honoured, recorded, or rejected on every path."""

import logging
from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

from elytron import MemoryRuntime
from elytron.registry import WIRE_OPERATIONS, RepeatGuard
from elytron_a2a_shell.app import a2a_surfaces
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import AuthKind, CallAuth, CallSource, CallTransport, Envelope, RejectedAnswer
from elytron_adapter.http.store import store_surfaces
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_http_shell import create_app
from elytron_mcp_shell import DEFAULT_SETS
from elytron_mcp_shell.app import mcp_surfaces

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "k1"}
READS = {operation.name for operation in WIRE_OPERATIONS if not operation.mutates} | {"search", "context"}
"""Operations whose repeat changes nothing, including the paths that other hosts use."""


async def mutating(client: httpx.AsyncClient, keys: Keys) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the method, path, and description of every route that may change something."""
    document = (await client.get("/openapi/all.json", headers=bearer(keys.operator))).json()
    found = [(method.upper(), path, told) for path, item in document["paths"].items() for method, told in item.items()]
    return [(method, path, told) for method, path, told in found if method not in {"GET", "HEAD"}]


def takes_key(told: dict[str, Any]) -> bool:
    return any("IdempotencyKey" in parameter.get("$ref", "") for parameter in told.get("parameters", ()))


def reads(told: dict[str, Any]) -> bool:
    return told["operationId"].removeprefix("memory_").removeprefix("named_") in READS


async def test_every_mutating_path_honours_or_rejects_an_idempotency_key(runtime: MemoryRuntime, keys: Keys) -> None:
    further = (gateway_surfaces(), mcp_surfaces(DEFAULT_SETS), a2a_surfaces(None), store_surfaces)
    transport = httpx.ASGITransport(create_app(runtime, further=further))
    server = httpx.AsyncClient(transport=transport, base_url="http://localhost")
    unheeded: list[str] = []
    paths = await mutating(server, keys)
    for method, path, told in paths:
        if takes_key(told) or reads(told):
            continue
        answer = await server.request(
            method, path.replace("{", "").replace("}", ""), headers=bearer(keys.operator) | KEY
        )
        if answer.status_code != 422 or "idempotency_key" not in answer.text:
            unheeded.append(f"{method} {path}: {answer.status_code}")
    assert unheeded == []
    assert len(paths) > len(WIRE_OPERATIONS)


@pytest.mark.parametrize(
    "operation",
    [found.name for found in WIRE_OPERATIONS if found.mutates and found.repeat is RepeatGuard.HARMLESS],
)
async def test_in_process_an_ineffective_key_is_rejected(runtime: MemoryRuntime, operation: str) -> None:
    envelope = Envelope(
        request_id="r", transport=CallTransport.SDK, operation=operation, idempotency_key="k", payload=b"{}"
    )
    answer = await OperationDispatcher(runtime).dispatch(envelope)
    assert isinstance(answer, RejectedAnswer)
    assert "idempotency_key" in answer.reason


async def test_an_audit_id_is_in_the_log_and_in_the_audit_trail(
    server: httpx.AsyncClient, runtime: MemoryRuntime, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    (turn,) = (await runtime.add("Ada likes tea.")).ids
    headers = bearer(keys.user) | {"X-Audit-ID": "case 17/b"}
    with caplog.at_level(logging.INFO):
        await server.post("/v1/recall", json={"query": "tea"}, headers=headers)
        await server.post("/v1/forget", json={"ids": [turn], "reason": "asked"}, headers=headers)
    logged = [(record.name, getattr(record, "audit_id", None)) for record in caplog.records if record.name != "httpx"]
    assert logged == [("elytron.memories.audit_trail", "case 17/b"), ("elytron.access", "case 17/b")] * 2
    done = (await runtime.history(turn)).items[-1]
    assert (done.event, done.audit_id, done.source) == ("forgotten", "case 17/b", None)


@pytest.mark.parametrize("given", ["", "x" * 201, "a\tb", "é".encode().decode("latin-1")])
async def test_an_audit_id_that_cannot_be_recorded_is_rejected(server: httpx.AsyncClient, given: str) -> None:
    answer = await server.get("/livez", headers=[(b"X-Audit-ID", given.encode("latin-1"))])
    assert answer.status_code == 422


async def test_the_callers_stated_source_is_in_the_audit_trail(
    runtime: MemoryRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    (turn,) = (await runtime.add("Ada likes tea.")).ids
    envelope = Envelope(
        request_id="r1",
        transport=CallTransport.SDK,
        operation="forget",
        source=CallSource(id="planner", chat="c1"),
        auth=CallAuth(authenticated=True, kind=AuthKind.LOCAL, principal="host", role=PrincipalKind.OPERATOR),
        payload=f'{{"ids": ["{turn}"]}}'.encode(),
    )
    with caplog.at_level(logging.INFO, "elytron.memories.audit_trail"):
        await OperationDispatcher(runtime).dispatch(envelope)
    assert (await runtime.history(turn)).items[-1].source == "host, id 'planner', chat 'c1'"
    (line,) = caplog.records
    assert (line.getMessage(), vars(line)["source"]) == ("call", "host, id 'planner', chat 'c1'")
