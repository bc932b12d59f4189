"""The operations over HTTP: reports as JSON, errors as problems, without request content."""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

import elytron
from elytron import MemoryRuntime
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole
from elytron_a2a_shell.app import a2a_surfaces
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import FAILURES, Envelope, QueuedAnswer, reject_error
from elytron_core import limits
from elytron_core.contracts.maintenance.maintenance import MemoryMaintenanceReport
from elytron_core.errors import MissingExtra, StoreBusy
from elytron_core.model import Value
from elytron_core.planes.jobs import JobId
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import registry_fingerprint
from elytron_core.profiles import ProfileName
from elytron_http_shell import create_app
from elytron_http_shell.events import ServerStreams

pytestmark = pytest.mark.anyio

CANARY = "s3cret"
TEA: dict[str, Any] = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}


def open_to_all(_envelope: Envelope, _operation: AnyOperation, _request: Value, /) -> str | None:
    """Refuse nothing."""
    return None


def told(response: httpx.Response) -> tuple[int, str]:
    """Return status and code of a problem document, which must match its media type, ids, and table row."""
    document = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert document["status"] == response.status_code == FAILURES[document["code"]].status
    assert document["type"] == f"urn:elytron:error:{document['code']}"
    assert document["request_id"] == response.headers["x-request-id"]
    assert document["instance"].endswith(document["request_id"])
    return response.status_code, document["code"]


async def test_written_memories_are_recalled(client: httpx.AsyncClient) -> None:
    written = await client.post("/v1/write", json=TEA)
    assert written.status_code == 200
    assert written.headers["content-type"] == "application/json"
    assert written.json()["decisions"][0]["outcome"] == "stored"
    recalled = await client.post("/v1/recall", json={"query": "tea"})
    assert [hit["text"] for hit in recalled.json()["hits"]] == ["Ada likes tea."]
    assert "speaker" not in recalled.json()["hits"][0], "fields without a value are left out"


@pytest.mark.parametrize("operation", WIRE_OPERATIONS, ids=lambda operation: operation.name)
async def test_every_operation_has_its_route(client: httpx.AsyncClient, operation: AnyOperation) -> None:
    response = await client.post(f"/v1/{operation.name}", json={"s3cret": CANARY})
    assert told(response) == (422, "invalid_input")
    assert CANARY not in response.text
    listed = (await client.get("/v1/operations")).json()["operations"]
    assert {
        "name": operation.name,
        "path": f"/v1/{operation.name}",
        "summary": operation.summary,
        "mutates": operation.mutates,
        "role": operation.role.value,
    } in listed


@pytest.mark.parametrize(
    ("operation", "body"),
    [("export", {"path": "/nowhere/x"}), ("import", {"path": "/nowhere/x"}), ("recover", {})],
)
async def test_file_paths_and_runtime_lifecycle_are_not_exposed(
    server: httpx.AsyncClient, keys: Keys, operation: str, body: dict[str, str]
) -> None:
    for key in (keys.user, keys.device):
        response = await server.post(f"/v1/{operation}", json=body, headers=bearer(key))
        assert told(response) == (403, "permission_refused")
    assert {found.name for found in WIRE_OPERATIONS if found.role is CallerRole.OPERATOR} >= {operation}


async def test_a_dispatcher_uses_its_own_policy(runtime: MemoryRuntime) -> None:
    transport = httpx.ASGITransport(
        create_app(OperationDispatcher(runtime, policy=open_to_all), authenticator=DevelopmentCallers())
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.post("/v1/recover", json={})).status_code == 200


BODIES: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (b"s3cret", 400, "invalid_json"),
    "nothing": (b"", 400, "invalid_json"),
    "one key twice": (b'{"query": "a", "query": "s3cret"}', 400, "invalid_json"),
    "an unknown field": (b'{"query": "a", "s3cret": 1}', 422, "invalid_input"),
    "a missing field": (b"{}", 422, "invalid_input"),
    "too many bytes": (b" " * (limits.HTTP_BODY_BYTES + 1), 413, "payload_too_large"),
}


@pytest.mark.parametrize("case", BODIES)
async def test_an_invalid_body_is_a_problem_that_echoes_nothing(client: httpx.AsyncClient, case: str) -> None:
    body, status, code = BODIES[case]
    response = await client.post("/v1/recall", content=body, headers={"content-type": "application/json"})
    assert told(response) == (status, code)
    assert CANARY not in response.text


async def test_a_body_without_a_declared_length_is_cut_off_at_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536

    response = await client.post("/v1/recall", content=endless(), headers={"content-type": "application/json"})
    assert told(response) == (413, "payload_too_large")
    assert sent <= limits.HTTP_BODY_BYTES + 65_536


async def test_an_oversized_declared_length_is_rejected_before_the_body_is_read(runtime: MemoryRuntime) -> None:
    app = create_app(runtime, authenticator=DevelopmentCallers(), body_bytes=10)
    answers: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        answers.append(message)

    for length in (b"11", b"9" * 30, b"-1"):
        answers.clear()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", length)]
        scope = {"type": "http", "method": "POST", "path": "/v1/recall", "query_string": b"", "headers": headers}
        await app(scope, receive, send)
        assert answers[0]["status"] == 413


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_other_media_types_are_refused(client: httpx.AsyncClient, content_type: str) -> None:
    response = await client.post("/v1/recall", content=b'{"query": "x"}', headers={"content-type": content_type})
    assert told(response) == (415, "unsupported_media_type")


async def test_a_media_type_with_a_charset_is_json(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert (await client.post("/v1/recall", content=b'{"query": "x"}', headers=headers)).status_code == 200


async def test_unknown_paths_and_methods_are_problems(client: httpx.AsyncClient) -> None:
    assert told(await client.get("/v1/s3cret")) == (404, "not_found")
    refused = await client.get("/v1/write")
    assert told(refused) == (405, "method_not_allowed")
    assert refused.headers["allow"] == "POST"


async def test_a_missing_memory_is_not_found(client: httpx.AsyncClient) -> None:
    assert told(await client.post("/v1/get", json={"id": "s3cret"})) == (404, "not_found")


class TestRequestIds:
    async def test_a_request_id_is_returned(self, client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/recall", json={"query": "x"}, headers={"X-Request-ID": "trace-1.2:3_4"})
        assert response.headers["x-request-id"] == "trace-1.2:3_4"

    @pytest.mark.parametrize("given", ["", "s3cret with spaces", "x" * 201, "<script>"])
    async def test_an_unusable_request_id_is_replaced(self, client: httpx.AsyncClient, given: str) -> None:
        response = await client.get("/livez", headers={"X-Request-ID": given})
        assert response.headers["x-request-id"] not in {given, ""}

    async def test_each_request_gets_its_own_id(self, client: httpx.AsyncClient) -> None:
        ids = {(await client.get("/livez")).headers["x-request-id"] for _ in range(3)}
        assert len(ids) == 3


class TestIdempotency:
    async def test_a_repeat_gets_the_same_answer_and_is_marked(self, client: httpx.AsyncClient) -> None:
        first = await client.post("/v1/write", json=TEA, headers={"Idempotency-Key": "k1"})
        again = await client.post("/v1/write", json=TEA, headers={"Idempotency-Key": '"k1"'})
        assert "idempotent-replayed" not in first.headers
        assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
        assert again.json() == first.json() | {"duplicated": True}
        assert len((await client.post("/v1/list", json={})).json()["items"]) == 1

    async def test_another_body_under_the_key_is_refused(self, client: httpx.AsyncClient) -> None:
        await client.post("/v1/write", json=TEA, headers={"Idempotency-Key": "k1"})
        other = json.loads(json.dumps(TEA).replace("tea", "coffee"))
        response = await client.post("/v1/write", json=other, headers={"Idempotency-Key": "k1"})
        assert told(response) == (422, "idempotency_conflict")

    @pytest.mark.parametrize("key", ["", '""', "x" * 201])
    async def test_an_unusable_idempotency_key_is_rejected(self, client: httpx.AsyncClient, key: str) -> None:
        response = await client.post("/v1/write", json=TEA, headers={"Idempotency-Key": key})
        assert told(response) == (422, "invalid_input")


class TestHosts:
    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "[::2]:80", "[bad"])
    async def test_a_foreign_host_is_refused(self, client: httpx.AsyncClient, host: str) -> None:
        response = await client.post("/v1/recall", json={"query": "x"}, headers={"Host": host})
        assert told(response) == (403, "permission_refused")

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:9"])
    async def test_requests_from_this_machine_are_served(self, client: httpx.AsyncClient, host: str) -> None:
        assert (await client.get("/livez", headers={"Host": host})).status_code == 200

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://[bad"])
    async def test_a_web_page_of_another_origin_is_refused(self, client: httpx.AsyncClient, origin: str) -> None:
        response = await client.post("/v1/recall", json={"query": "x"}, headers={"Origin": origin})
        assert told(response) == (403, "permission_refused")

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("http://localhost:8080", 200),
            ("http://localhost:3000", 403),
            ("http://localhost", 403),
            ("https://localhost:8080", 403),
            ("http://127.0.0.1:8080", 403),
        ],
    )
    async def test_a_page_of_another_port_or_scheme_is_refused_in_development(
        self, client: httpx.AsyncClient, origin: str, status: int
    ) -> None:
        for path, body in (("/v1/recall", {"query": "x"}), ("/v1/erase", {"whole_space": "ada"})):
            assert (await client.post(path, json=body, headers={"Origin": origin})).status_code == status

    async def test_cross_site_browser_requests_change_nothing_in_development(self, client: httpx.AsyncClient) -> None:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            answer = await client.post("/v1/recall", json={"query": "x"}, headers={"Sec-Fetch-Site": site})
            assert answer.status_code == status

    @pytest.mark.parametrize("name", ["Host", "Origin"])
    async def test_a_second_host_or_origin_is_refused(self, server: httpx.AsyncClient, name: str) -> None:
        twice = [("Host", "localhost"), ("Origin", "http://localhost"), (name, "http://localhost")]
        assert told(await server.get("/livez", headers=twice[1:] if name == "Host" else twice)) == (
            403,
            "permission_refused",
        )

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
    async def test_requests_a_page_can_send_without_preflight_are_rejected(
        self, runtime: MemoryRuntime, kind: str
    ) -> None:
        app = create_app(runtime, authenticator=DevelopmentCallers(), further=(a2a_surfaces(None),))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            for path in ("/v1/write", "/memory/write", "/a2a", "/a2a/message", "/webhook/report"):
                answer = await client.post(path, content=b"{}", headers={"Content-Type": kind})
                assert answer.status_code == 415, path

    async def test_operators_name_the_allowed_hosts(self, runtime: MemoryRuntime) -> None:
        for hosts, expected in ((frozenset({"memory.example"}), 403), (frozenset({"*"}), 200)):
            transport = httpx.ASGITransport(create_app(runtime, hosts=hosts))
            async with httpx.AsyncClient(transport=transport, base_url="http://other.example") as client:
                assert (await client.get("/livez")).status_code == expected


async def test_answers_are_private_and_not_sniffed(client: httpx.AsyncClient) -> None:
    headers = (await client.get("/livez")).headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


async def test_without_the_store_a_server_is_live_but_not_ready(
    client: httpx.AsyncClient, runtime: MemoryRuntime
) -> None:
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    await runtime.close()
    assert (await client.get("/livez")).json() == {"status": "live"}
    assert told(await client.get("/readyz")) == (503, "store_closed")


async def test_an_unexpected_error_reveals_nothing(runtime: MemoryRuntime) -> None:
    class Broken(OperationDispatcher):
        async def unready(self, request_id: str, /) -> None:
            raise RuntimeError("s3cret")

    transport = httpx.ASGITransport(create_app(Broken(runtime)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/readyz")
    assert told(response) == (500, "internal")
    assert CANARY not in response.text


def test_queued_work_is_202_and_names_its_job() -> None:
    from elytron_adapter.http.responses import render_answer

    report = MemoryMaintenanceReport(space="ada", channel="c", conversation="c", job=JobId("j1"))
    response = render_answer(QueuedAnswer(request_id="r", report=report, job="j1"))
    assert (response.status_code, json.loads(bytes(response.body))["job"]) == (202, "j1")


def test_a_busy_store_says_when_to_retry() -> None:
    from elytron_adapter.http.responses import render_answer

    response = render_answer(reject_error(StoreBusy(engine="sqlite", waited_s=30), request_id="r"))
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_without_the_extra_one_line_of_output_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elytron_http_shell.application", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[server\]'"):
        create_app(OperationDispatcher.__new__(OperationDispatcher))


async def test_the_guard_lets_a_server_start_and_stop_the_application(runtime: MemoryRuntime) -> None:
    told: list[str] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        return {"type": next(messages)}

    async def send(message: Any) -> None:
        told.append(message["type"])

    await create_app(runtime)({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_profile_bounds_bodies_and_subscriptions() -> None:
    async with elytron.open("memory:", space="ada", profile="esp-embedded-sdk") as memory:
        transport = httpx.ASGITransport(create_app(memory, authenticator=DevelopmentCallers()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
            sent = json.dumps({"query": "tea", "pad": "x" * 8_192})
            response = await client.post("/v1/recall", content=sent, headers={"content-type": "application/json"})
        assert told(response) == (413, "payload_too_large")
        admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
        bounds = ServerStreams(admission).bounds
        assert (bounds.subscriptions, bounds.frame_bytes) == (4, 8_192)


@pytest.mark.parametrize("name", ProfileName)
async def test_a_socket_allows_as_many_subscriptions_as_the_catalog_states(name: ProfileName) -> None:
    async with elytron.open("memory:", space="ada", profile=name.value) as memory:
        told = (await memory.capabilities()).budget
        bounds = ServerStreams(CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())).bounds
        assert (bounds.subscriptions, bounds.frame_bytes) == (told.subscriptions, told.http_body_bytes)


async def test_an_unknown_parameter_is_rejected(client: httpx.AsyncClient) -> None:
    for method, path in (
        ("POST", "/v1/recall?limit=s3cret"),
        ("GET", "/agent-tool-registries?spcae=ada"),
        ("GET", "/v1/archive?private=1"),
    ):
        answer = await client.request(method, path, json={"query": "x"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
        assert "unknown parameter" in answer.json()["detail"]
        assert "s3cret" not in answer.text


def registered() -> dict[str, Any]:
    """Return a registry under its fingerprint."""
    snapshot = AgentToolRegistrySnapshot(registry_id="host-tools", namespace="host", tools=())
    told = snapshot.model_copy(update={"fingerprint": registry_fingerprint(snapshot)})
    return told.model_dump(mode="json", exclude_none=True)


async def test_a_caller_with_several_spaces_names_the_one_of_a_registry(server: httpx.AsyncClient, keys: Keys) -> None:
    registry = registered()
    for key in (keys.user, keys.stranger):
        await server.post("/v1/add", json={"text": "x"}, headers=bearer(key))
    refused = await server.put("/agent-tool-registries/host-tools", json=registry, headers=bearer(keys.operator))
    assert (refused.status_code, refused.json()["code"]) == (422, "scope_missing")
    path = "/agent-tool-registries/host-tools?space=ada"
    assert (await server.put(path, json=registry, headers=bearer(keys.operator))).is_success
    own = await server.put("/agent-tool-registries/host-tools", json=registry, headers=bearer(keys.user))
    assert own.is_success


@pytest.mark.parametrize("path", ["/v1/search", "/v1/recall", "/memory/recall", "/v1/add", "/v1/events", "/v1/archive"])
async def test_an_operator_names_the_space(server: httpx.AsyncClient, keys: Keys, path: str) -> None:
    body = {"text": "x"} if path == "/v1/add" else {"query": "x"}
    method = "GET" if path in {"/v1/events", "/v1/archive"} else "POST"
    answer = await server.request(method, path, json=body if method == "POST" else None, headers=bearer(keys.operator))
    assert (answer.status_code, answer.json()["code"]) == (422, "scope_missing")


async def test_field_names_of_the_first_protocol_version_are_accepted(client: httpx.AsyncClient) -> None:
    await client.post("/v1/add", json={"text": "The boiler code is 4417."})
    for names in (("query", "max_chars"), ("user_query", "system_max_len")):
        asked = dict(zip(names, ("boiler code", 1_500), strict=True))
        for path in ("/v1/project", "/memory/project"):
            answer = (await client.post(path, json=asked)).json()
            assert "4417" in answer["system_memory_block"]
            assert answer["requested_chars"] == 1_500
    both = await client.post("/v1/project", json={"query": "x", "user_query": "y"})
    assert both.status_code == 422
