"""Any request, valid or not, is answered as OpenAPI describes, and never with an internal error."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import openapi
from tests.http_shell.conftest import bearer

import elytron
from elytron.registry import OPERATIONS
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, DevelopmentCallers
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell import create_app
from elytron_http_shell.operations import path_of

pytestmark = pytest.mark.anyio

IS_LONG = os.environ.get("ELYTRON_HYPOTHESIS") == "long"
EACH = 100 if IS_LONG else 3
PATHS = {path_of(operation) for operation in (OPERATIONS if IS_LONG else OPERATIONS[:5])}
"""In the short form, only the most used operations: building a strategy for each takes long."""
_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


async def description() -> dict[str, Any]:
    async with elytron.open("memory:") as memory:
        transport = httpx.ASGITransport(create_app(memory, authenticator=DevelopmentCallers()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            found: dict[str, Any] = (await client.get("/openapi/all.json")).json()
    return found


def client_of(memory: elytron.MemoryRuntime) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(memory), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_no_request_that_openapi_allows_is_a_servers_fault() -> None:
    document = await description()
    calls: list[tuple[str, dict[str, Any]]] = []
    asked = {path: {"post": document["paths"][path]["post"]} for path in PATHS}
    schema: Any = openapi.from_dict({**document, "paths": asked})
    for result in schema.get_all_operations():

        @settings(max_examples=EACH, deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET)
        @given(case=result.ok().as_strategy())
        def collect(case: Any) -> None:
            body: Any = case.body
            if isinstance(body, dict):
                calls.append((case.formatted_path, cast("dict[str, Any]", body)))

        collect()
    assert len(calls) >= len(PATHS)
    async with elytron.open("memory:", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        request = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="any")
        headers = bearer((await AccessKeys(memory.context).add(request)).key)
        async with client_of(memory) as client:
            for path, body in calls:
                response = await client.post(path, json=body, headers=headers)
                assert response.status_code < 500 or response.json()["code"] == "missing_extra", (path, body)
                told = document["paths"][path]["post"]["responses"]
                assert str(response.status_code) in told or (response.is_error and "default" in told)


Asking = tuple[Callable[[Coroutine[Any, Any, httpx.Response]], httpx.Response], httpx.AsyncClient]


@pytest.fixture
def asking() -> Iterator[Asking]:
    """Yield a function that runs a call, and the client that makes it."""

    async def opened() -> elytron.MemoryRuntime:
        return await elytron.open("memory:")

    with asyncio.Runner() as runner:
        memory = runner.run(opened())
        yield runner.run, client_of(memory)
        runner.run(memory.close())


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps),
    path=st.sampled_from(["/v1/write", "/v1/recall", "/memory/project", "/webhook/report", "/v1/access"]),
    header=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=60),
)
def test_arbitrary_bytes_are_answered_with_a_problem(asking: Asking, body: str | bytes, path: str, header: str) -> None:
    run, client = asking
    value = header.strip().encode("latin-1")
    headers: dict[str, Any] = {"Authorization": value, "X-Audit-ID": value, "Idempotency-Key": value}
    sent = client.post(path, content=body, headers=headers | {"Content-Type": "application/json"})
    assert 400 <= run(sent).status_code < 500
