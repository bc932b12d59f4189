"""A server describes itself: valid OpenAPI, a self-contained page, metrics, log lines."""

import json
import logging
import re
from typing import Any

import httpx
import pytest
import structlog
from tests.http_shell.conftest import Keys, bearer
from tests.transports.nodes import skip_over_nodes

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import registry_fingerprint
from elytron_http_shell import create_app
from elytron_http_shell.telemetry.logs import LOG_TEXTS_KNOWN, LogLines, LogStyle, RepeatFilter, configure_logs

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"


class TestOpenApi:
    async def test_the_document_is_valid(self, client: httpx.AsyncClient) -> None:
        from jsonschema_rs import meta

        document = (await client.get("/openapi/all.json")).json()
        for schema in document["components"]["schemas"].values():
            meta.validate(schema)
        for path, item in document["paths"].items():
            for method in item.values():
                told = {one["name"] for one in method.get("parameters", ()) if one.get("in") == "path"}
                assert told == set(re.findall(r"\{(\w+)\}", path))
                assert {"200", "204", "307"} & set(method["responses"])
                assert "default" in method["responses"]

    async def test_every_endpoint_declares_its_security(self, client: httpx.AsyncClient) -> None:
        document = (await client.get("/openapi/all.json")).json()
        assert document["paths"]["/livez"]["get"]["security"] == []
        assert document["security"] == [{"bearer": []}]
        assert "security" not in document["paths"]["/v1/recall"]["post"]
        assert document["paths"]["/webhook/report"]["post"]["security"] == [{"signature": []}]
        assert set(document["components"]["securitySchemes"]) == {"bearer", "signature"}

    async def test_a_cached_document_is_not_sent_again(self, client: httpx.AsyncClient) -> None:
        first = await client.get("/openapi.json")
        again = await client.get("/openapi.json", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    async def test_the_routes_known_to_hosts_exist(self, client: httpx.AsyncClient) -> None:
        paths = (await client.get("/openapi/all.json")).json()["paths"]
        posted = {"write", "recall", "project", "inspect", "recover", "replay", "export", "import"}
        assert {f"/memory/{name}" for name in posted} <= set(paths)


@pytest.mark.parametrize("path", ["/openapi.json", "/openapi/all.json", "/v1/operations"])
async def test_the_description_requires_a_key_unless_it_is_public(
    runtime: MemoryRuntime, server: httpx.AsyncClient, keys: Keys, path: str
) -> None:
    assert (await server.get(path)).status_code == 401
    assert (await server.get(path, headers=bearer(keys.user))).status_code == 200
    opened = httpx.ASGITransport(create_app(runtime, is_described_to_all=True))
    async with httpx.AsyncClient(transport=opened, base_url="http://localhost") as anybody:
        assert (await anybody.get(path)).status_code == 200


class TestPage:
    async def test_the_page_loads_nothing_from_elsewhere(self, client: httpx.AsyncClient) -> None:
        page = await client.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert set(parts) == {"/docs/docs.css", "/docs/docs.js", "/docs/icon.svg", "/openapi.json", "/openapi/all.json"}
        for part in parts:
            found = await client.get(part)
            assert found.status_code == 200
            if not part.endswith(".json"):
                assert "//" not in re.sub(r"//.*", "", found.text).replace("://", "//")

    async def test_the_pages_script_never_turns_text_into_markup(self, client: httpx.AsyncClient) -> None:
        script = (await client.get("/docs/docs.js")).text
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", script)


class TestSeedRoutes:
    async def test_the_older_paths_lead_to_the_same_operations(self, client: httpx.AsyncClient) -> None:
        said = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}
        assert (await client.post("/memory/write", json=said)).json()["changed"]
        found = await client.post("/memory/recall", json={"query": "tea"})
        assert [hit["text"] for hit in found.json()["hits"]] == ["Ada likes tea."]

    async def test_a_hosts_tools_are_registered_by_their_path(self, server: httpx.AsyncClient, keys: Keys) -> None:
        path, user = "/agent-tool-registries/host-tools", bearer(keys.user)
        tools = {"namespace": "host", "fingerprint": "0", "tools": [{"tool_id": "mail", "schema_fingerprint": "1"}]}
        draft = AgentToolRegistrySnapshot.model_validate({"registry_id": "host-tools"} | tools)
        snapshot = draft.model_copy(update={"fingerprint": registry_fingerprint(draft)}).model_dump(
            mode="json", exclude_none=True
        )
        assert (await server.put(path, json=snapshot, headers=user)).json()["accepted"]
        assert (await server.get(path, headers=user)).json()["registry"]["registry_id"] == "host-tools"
        other = await server.put("/agent-tool-registries/other", json=snapshot, headers=user)
        assert other.json()["details"]["field"] == "registry_id"
        listed = await server.get("/agent-tool-registries?space=ada", headers=bearer(keys.operator))
        assert [found["registry_id"] for found in listed.json()["registries"]] == ["host-tools"]
        assert (await server.get("/agent-tool-registries?space=bob", headers=user)).status_code == 403
        assert (await server.delete(path, headers=user)).json()["changed"]
        assert (await server.get(path, headers=user)).status_code == 404

    async def test_capabilities_are_requested_without_a_body(self, client: httpx.AsyncClient) -> None:
        from elytron.registry import OPERATIONS

        there = "capabilities" in {operation.name for operation in OPERATIONS}
        response = await client.get("/memory/profile/capabilities")
        assert response.status_code == (200 if there else 404)


class TestMetrics:
    async def test_requests_are_counted_by_route_and_status(self, server: httpx.AsyncClient, keys: Keys) -> None:
        skip_over_nodes("figures are of one process")
        await server.post("/v1/recall", json={"query": "x"}, headers=bearer(keys.user))
        await server.post("/v1/recall", json={"query": "x"})
        await server.get("/nowhere/s3cret")
        figures = (await server.get("/metrics", headers=bearer(keys.operator))).text
        assert 'elytron_requests_total{method="POST",route="/v1/recall",status="200"} 1.0' in figures
        assert 'elytron_requests_total{method="POST",route="/v1/recall",status="401"} 1.0' in figures
        assert 'elytron_requests_total{method="GET",route="none",status="404"} 1.0' in figures
        assert 'elytron_request_seconds_count{route="/v1/recall"} 2.0' in figures
        assert "elytron_requests_in_flight 1.0" in figures
        assert "elytron_store_ready 1.0" in figures
        assert "s3cret" not in figures

    async def test_a_missing_store_is_a_metric(self, client: httpx.AsyncClient, runtime: MemoryRuntime) -> None:
        await runtime.close()
        assert "elytron_store_ready 0.0" in (await client.get("/metrics")).text


class TestLogs:
    async def test_a_request_leaves_one_log_line_with_its_trace_id(
        self, server: httpx.AsyncClient, keys: Keys, caplog: pytest.LogCaptureFixture
    ) -> None:
        headers = bearer(keys.user) | {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Request-ID": "r1"}
        with caplog.at_level(logging.INFO, logger="elytron.access"):
            await server.post("/v1/recall?secret=s3cret", json={"query": "s3cret"}, headers=headers)
        (record,) = [found for found in caplog.records if found.name == "elytron.access"]
        told: dict[str, Any] = vars(record)
        assert (told["request_id"], told["route"], told["method"], told["status"]) == ("r1", "/v1/recall", "POST", 422)
        assert (told["trace_id"], told["parent_id"]) == (TRACE, "b7ad6b7169203331")
        assert told["principal"] == keys.user.split("_")[2]
        assert "s3cret" not in json.dumps({name: str(value) for name, value in told.items()})

    @pytest.mark.parametrize("given", ["", "00-x-y-01", f"00-{'0' * 32}-b7ad6b7169203331-01"])
    async def test_invalid_trace_headers_are_ignored(
        self, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, given: str
    ) -> None:
        with caplog.at_level(logging.INFO, logger="elytron.access"):
            await client.get("/livez", headers={"traceparent": given})
        assert "trace_id" not in vars(caplog.records[-1])

    async def test_no_key_reaches_a_log_line_at_debug_level(
        self, server: httpx.AsyncClient, keys: Keys, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": f"my key is {keys.user}"}]}]}}
        with caplog.at_level(logging.DEBUG):
            for headers in (bearer(keys.user), bearer(keys.user + "0"), {"Authorization": keys.user}):
                for path in ("/v1/write", "/v1/recall", "/v1/none", f"/{keys.user}", "/v1/archive"):
                    response = await server.post(path, json=body, headers=headers)
                    assert keys.user not in response.text
        lines = LogLines(structlog.processors.JSONRenderer())
        for record in (*caplog.records, *caplog.records):
            assert keys.user.rpartition("_")[2] not in lines.format(record)

    def test_errors_that_anyone_can_cause_are_rate_limited_in_the_log_and_counted(self) -> None:
        now = 0.0
        sparing = RepeatFilter(most=2, now=lambda: now)

        def heard(text: str) -> int | None:
            """Return the number of lines suppressed before this one, or None if it is suppressed itself."""
            record = logging.makeLogRecord({"msg": text, "name": "uvicorn.error"})
            return getattr(record, "left_out", 0) if sparing.filter(record) else None

        assert [heard("no HTTP") for _ in range(5)] == [0, 0, None, None, None]
        assert heard("another") == 0
        now = 59.9
        assert heard("no HTTP") is None
        now = 60.0
        assert [heard("no HTTP"), heard("no HTTP"), heard("another")] == [4, 0, 0]
        own = logging.makeLogRecord({"msg": "request", "name": "elytron.access"})
        assert all(sparing.filter(own) for _ in range(5))

    def test_log_lines_are_json_without_secrets(self, capsys: pytest.CaptureFixture[str]) -> None:
        root = logging.getLogger()
        before, level = root.handlers[:], root.level
        try:
            for style in LogStyle:
                configure_logs(style, level="info")
                key = f"ely_user_{'0' * 16}_{'1' * 64}"
                broken = (RuntimeError, RuntimeError(key), None)
                logging.getLogger("any").error("failed with %s", key, extra={"color_message": "x"}, exc_info=broken)
            configure_logs(LogStyle.JSON, level="debug")
            logging.getLogger("a2a.server").debug("Request body: %s", "what somebody said")
            logging.getLogger("uvicorn.error").info("/v1/ws?%s", "what somebody said")
        finally:
            root.handlers[:] = before
            root.setLevel(level)
        said = capsys.readouterr().err
        assert "what somebody said" not in said
        assert "1" * 64 not in said
        assert json.loads(said.splitlines()[0])["level"] == "error"

    @pytest.mark.parametrize("known", [1, LOG_TEXTS_KNOWN])
    def test_a_log_line_contains_its_fields_and_time(self, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("elytron_http_shell.telemetry.logs.LOG_TEXTS_KNOWN", known)
        told = {"name": "any", "levelname": "INFO", "msg": "request", "created": 1_781_172_177.0, "took_ms": 1.5}
        told |= {"key": "Bearer abcdefghijklmnop1234", "timestamp": "never", "stack_info": "where"}
        lines = LogLines(structlog.processors.JSONRenderer())
        first, again = (lines.format(logging.makeLogRecord(told)) for _ in range(2))
        assert first == again
        assert json.loads(first) == {
            "event": "request", "level": "info", "logger": "any", "took_ms": 1.5, "key": "Bearer [redacted:bearer]",
            "timestamp": "2026-06-11T10:02:57.000000Z", "stack_info": "where",
        }  # fmt: skip


class TestSpans:
    async def test_a_request_is_a_span_of_its_callers_trace(self, runtime: MemoryRuntime) -> None:
        trace = pytest.importorskip("opentelemetry.sdk.trace")
        export = pytest.importorskip("opentelemetry.sdk.trace.export")
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

        from elytron_http_shell.telemetry.spans import OtelSpans

        exporter = memory.InMemorySpanExporter()
        provider = trace.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(exporter))
        spans = OtelSpans(provider)
        app = create_app(runtime, authenticator=DevelopmentCallers(), spans=spans)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            await client.get("/livez", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
        spans.close()
        (span,) = exporter.get_finished_spans()
        assert (span.name, f"{span.context.trace_id:032x}") == ("GET /livez", TRACE)
        assert span.attributes["http.response.status_code"] == 200


async def test_the_gauges_count_what_is_in_use() -> None:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(), ids=SeededIds()) as runtime:
        await runtime.add("Ada likes tea.")
        await runtime.recall("tea")
        app = create_app(runtime, authenticator=DevelopmentCallers())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            figures = (await client.get("/metrics")).text
    assert "elytron_store_spaces 1.0" in figures
    assert "elytron_store_losses 0.0" in figures
    assert "elytron_index_spaces 1.0" in figures
