"""Signed deliveries are accepted once; unsigned, stale, and foreign ones never."""

import json
import logging
from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeyIssued, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell import create_app
from elytron_http_shell.webhooks import WEBHOOK_WINDOW_MS, webhook_signature

pytestmark = pytest.mark.anyio

REPORT = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}
CANDIDATE = {"write": {"kind": "long_term", "facts": [{"topic": "drink", "content": "Ada likes tea."}]}}


@pytest.fixture
async def issued(runtime: MemoryRuntime) -> AccessKeyIssued:
    request = AccessAddRequest(kind=PrincipalKind.DEVICE, space=SpaceId("ada"), label="host")
    return await AccessKeys(runtime.context).add(request)


def now_s(runtime: MemoryRuntime) -> int:
    return runtime.context.clock.now() // 1000


def signed(
    issued: AccessKeyIssued, body: dict[str, Any], at: int, *, message: str = "m1", secret: str | None = None
) -> dict[str, Any]:
    sent = json.dumps(body).encode()
    key = secret or issued.webhook_secret
    assert key is not None
    stamp = webhook_signature(sent, message_id=message, timestamp=at, secret=key)
    headers = {
        "Content-Type": "application/json",
        "Webhook-Key": issued.access.id,
        "Webhook-Id": message,
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": stamp,
    }
    return {"content": sent, "headers": headers}


async def test_a_report_is_accepted_once(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    sent = signed(issued, REPORT, now_s(runtime))
    first = await server.post("/webhook/report", **sent)
    again = await server.post("/webhook/report", **sent)
    assert (first.status_code, first.json()["kind"]) == (200, "accepted")
    assert (again.status_code, again.json()["kind"]) == (200, "duplicated")
    assert len((await runtime.list()).items) == 1


async def test_another_body_under_the_same_id_is_refused(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    await server.post("/webhook/report", **signed(issued, REPORT, now_s(runtime)))
    other = json.loads(json.dumps(REPORT).replace("tea", "coffee"))
    response = await server.post("/webhook/report", **signed(issued, other, now_s(runtime)))
    assert response.json()["code"] == "idempotency_conflict"


async def test_each_webhook_accepts_its_own_content(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    at = now_s(runtime)
    judged = await server.post("/webhook/write-candidate", **signed(issued, CANDIDATE, at))
    assert judged.json()["kind"] == "accepted", judged.text
    for path, body in (("/webhook/report", CANDIDATE), ("/webhook/write-candidate", REPORT)):
        response = await server.post(path, **signed(issued, body, at, message="m2"))
        assert response.json()["details"]["field"] == "write.kind"


async def test_a_delivery_without_a_current_signature_is_refused(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    at = now_s(runtime)
    late = at - WEBHOOK_WINDOW_MS // 1000 - 5
    cases = [
        signed(issued, REPORT, at, secret="0" * 64),
        signed(issued, REPORT, late),
        signed(issued, REPORT, at + 2 * WEBHOOK_WINDOW_MS // 1000),
    ]
    for name, value in (
        ("Webhook-Timestamp", str(at + 1)),
        ("Webhook-Timestamp", "now"),
        ("Webhook-Id", "m2"),
        ("Webhook-Id", ""),
        ("Webhook-Key", "0" * 16),
        ("Webhook-Key", "zz"),
        ("Webhook-Signature", ""),
    ):
        sent = signed(issued, REPORT, at)
        cases.append(sent | {"headers": sent["headers"] | {name: value}})
    changed = signed(issued, REPORT, at)
    cases.append(changed | {"content": changed["content"].replace(b"tea", b"gin")})
    for sent in cases:
        response = await server.post("/webhook/report", **sent)
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
        assert "the key that `Webhook-Key` names" in response.json()["detail"]
    assert (await runtime.list()).items == ()


async def test_one_of_several_signatures_is_enough(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    sent = signed(issued, REPORT, now_s(runtime))
    sent["headers"]["Webhook-Signature"] = f"v1,AAAA {sent['headers']['Webhook-Signature']}"
    assert (await server.post("/webhook/report", **sent)).status_code == 200


async def test_a_webhook_stays_in_its_keys_space(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued, keys: Keys
) -> None:
    body = REPORT | {"scope": {"space": "bob"}}
    response = await server.post("/webhook/report", **signed(issued, body, now_s(runtime)))
    assert response.status_code == 403
    assert (await server.post("/v1/list", json={}, headers=bearer(keys.stranger))).json()["items"] == []


async def test_a_delivery_without_a_write_is_reported(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued
) -> None:
    response = await server.post("/webhook/report", **signed(issued, {"s3cret": 1}, now_s(runtime)))
    assert response.status_code == 422
    assert "s3cret" not in response.text


async def test_a_development_server_accepts_signed_deliveries_too() -> None:
    from elytron_adapter.access_keys import DevelopmentCallers

    async with elytron.open("memory:", clock=FrozenClock(), ids=SeededIds()) as runtime:
        request = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="host")
        issued = await AccessKeys(runtime.context).add(request)
        transport = httpx.ASGITransport(create_app(runtime, authenticator=DevelopmentCallers()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.post("/webhook/report", **signed(issued, REPORT, now_s(runtime)))
    assert response.json()["kind"] == "accepted"


async def test_the_audit_id_of_a_delivery_is_recorded(
    server: httpx.AsyncClient, runtime: MemoryRuntime, issued: AccessKeyIssued, caplog: pytest.LogCaptureFixture
) -> None:
    sent = signed(issued, REPORT, now_s(runtime))
    sent["headers"] |= {"X-Audit-ID": "case 17/b"}
    with caplog.at_level(logging.INFO):
        await server.post("/webhook/report", **sent)
    logged = [(record.name, getattr(record, "audit_id", None)) for record in caplog.records if record.name != "httpx"]
    assert logged == [("elytron.memories.audit_trail", "case 17/b"), ("elytron.access", "case 17/b")]
