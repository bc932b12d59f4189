"""A remote console, relayed only to this machine's browser."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.types import Message
from tests.console.conftest import Keys, bearer
from tests.transports.serving import Served

from elytron_cli.commands.servers.console import sender_of
from elytron_console.relay import console_relay
from elytron_core.errors import InvalidInput

pytestmark = pytest.mark.anyio

HERE = "http://127.0.0.1:8718"


@pytest.fixture
async def relay(server: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as behind:
        app = console_relay(server.url, sender_of(behind))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            yield client


async def test_the_page_signs_in_reads_and_writes_through_it(relay: httpx.AsyncClient, keys: Keys) -> None:
    page = await relay.get("/console")
    assert (page.status_code, "default-src 'none'" in page.headers["content-security-policy"]) == (200, True)
    assert (await relay.get("/console/static/app.mjs")).status_code == 200
    assert (await relay.get("/")).headers["location"] == "/console"
    begun = await relay.post("/console/session", headers=bearer(keys.user) | {"Origin": HERE})
    assert begun.json()["space"] == "ada"
    token = {"X-Console-Token": begun.json()["token"], "Origin": HERE}
    said = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}
    assert (await relay.post("/console/operations/write", json=said, headers=token)).json()["changed"]
    listed = (await relay.get("/console/conversations?space=ada", headers=token)).json()
    assert [(one["conversation"], one["turns"]) for one in listed["items"]] == [("default", 1)]


async def test_only_the_console_is_relayed(relay: httpx.AsyncClient, keys: Keys) -> None:
    for path in ("/v1/inspect", "/metrics", "/docs", "/consoles", "/console/../metrics"):
        assert (await relay.get(path, headers=bearer(keys.operator))).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/console/../livez", "/console/%2e%2e/livez", "/console/..%2flivez", "/console/%2E./livez", "/console/./session",
     "/console/static/../../livez", "/console/..\\livez",
     "/console/%5c..%5clivez", "/console/x%0d%0aA: b", "/%63onsole/x"],
)  # fmt: skip
async def test_no_path_leads_out_of_the_console(path: str) -> None:
    sent: list[str] = []

    async def send(_method: str, to: str, *_: object) -> None:
        sent.append(to)

    app = console_relay("http://127.0.0.1:9", send)
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "scheme": "http", "path": unquote(path), "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"host", b"127.0.0.1:8718")],
    }  # fmt: skip
    answers: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    await app(scope, receive, answer)
    assert (answers, sent) == ([404], [])


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "elsewhere.example"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_pages_of_other_origins_are_refused(
    relay: httpx.AsyncClient, keys: Keys, headers: dict[str, str]
) -> None:
    answer = await relay.post("/console/session", headers=bearer(keys.user) | headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_an_unresponsive_server_is_reported(relay: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url="http://127.0.0.1:9", trust_env=False) as nowhere:
        app = console_relay("http://127.0.0.1:9", sender_of(nowhere))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            answer = await client.get("/console/session")
    assert (answer.status_code, answer.json()["code"]) == (503, "unreachable")


async def test_an_oversized_body_is_rejected(relay: httpx.AsyncClient) -> None:
    answer = await relay.post("/console/operations/write", content=b"x" * (1024 * 1024 + 1), headers={"Origin": HERE})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize("url", ["", "8010", "ftp://host", "http://host/path", "http://host?x=1"])
def test_an_invalid_server_address_is_rejected(url: str) -> None:
    async def send(*_: object) -> None:
        return None

    with pytest.raises(InvalidInput):
        console_relay(url, send)
