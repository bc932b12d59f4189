"""A space's journal as server-sent events: ordered, resumable, kept alive, and only for its own readers."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.http_shell.test_websocket import TEA, Doormen
from tests.transports.live import Live

from elytron_http_shell.events import COOKIE, EVENT_SESSION_S, EVENTS_RETRY_MS, StreamBounds

pytestmark = pytest.mark.anyio

Event = dict[str, str]


@pytest.fixture(scope="module")
def doormen() -> Doormen:
    return Doormen()


@pytest.fixture(scope="module")
def live(doormen: Doormen) -> Iterator[Live]:
    bounds = StreamBounds(recheck_s=0.02, heartbeat_s=0.02, each=2)
    with Live(authenticator=doormen, bounds=bounds) as server:
        yield server


@pytest.fixture
async def client(live: Live) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer ada"}
    async with httpx.AsyncClient(base_url=live.url, headers=headers, trust_env=False, timeout=60) as connected:
        await connected.post("/v1/erase", json={"whole_space": "ada"})
        yield connected


@asynccontextmanager
async def reading(client: httpx.AsyncClient, **more: Any) -> AsyncGenerator[AsyncIterator[Event]]:
    async with client.stream("GET", "/v1/events", **more) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        yield parsed(response)


async def parsed(response: httpx.Response) -> AsyncIterator[Event]:
    """Yield the events and comments of a response by the standard's rules."""
    event: Event = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            yield event
            event = {}


async def taken(events: AsyncIterator[Event], count: int) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(100):
        async for event in events:
            if "data" in event:
                found.append(event)
            if len(found) == count:
                break
    return found


def sequences(events: list[Event]) -> list[int]:
    return [json.loads(event["data"])["sequence"] for event in events]


async def test_entries_are_events_in_order_without_content(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.post("/v1/write", json=TEA)
    async with reading(client, params={"after": "0"}) as events:
        assert await anext(events) == {"retry": str(EVENTS_RETRY_MS), "id": "0"}
        found = await taken(events, 4)
        assert sequences(found) == [1, 2, 3, 4]
        assert {event["event"] for event in found} == {"entry"}
        assert "tea" not in str(found)
        await client.post("/v1/write", json=TEA)
        assert sequences(await taken(events, 1)) == [5]


async def test_a_browser_resumes_after_its_last_event(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.post("/v1/write", json=TEA)
    async with reading(client, params={"after": "0"}) as events:
        seen = await taken(events, 2)
    # The header is the browser's and newer than the page's parameter.
    async with reading(client, params={"after": "0"}, headers={"Last-Event-ID": seen[-1]["id"]}) as events:
        assert sequences(await taken(events, 2)) == [3, 4]


async def test_without_a_position_a_stream_starts_now(client: httpx.AsyncClient) -> None:
    await client.post("/v1/write", json=TEA)
    async with reading(client) as events:
        await anext(events)
        await client.post("/v1/write", json=TEA)
        assert sequences(await taken(events, 1)) == [3]


async def test_an_erased_space_is_an_explicit_gap(client: httpx.AsyncClient) -> None:
    await client.post("/v1/write", json=TEA)
    async with reading(client, params={"after": "0"}) as events:
        last = (await taken(events, 2))[-1]["id"]
        await client.post("/v1/erase", json={"whole_space": "ada"})
        await client.post("/v1/write", json=TEA)
        (gap, *again) = await taken(events, 3)
        assert (gap["event"], gap["id"], json.loads(gap["data"])["reason"]) == ("gap", "0", "erased")
        assert sequences(again) == [1, 2]
    async with reading(client, headers={"Last-Event-ID": last}) as events:
        assert [event["event"] for event in await taken(events, 3)] == ["gap", "entry", "entry"]


async def test_a_quiet_stream_sends_keepalives(client: httpx.AsyncClient) -> None:
    async with reading(client) as events:
        assert [await anext(events) for _ in range(3)][1:] == [{"": "still here"}] * 2


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"headers": {"Authorization": ""}}, 401, "unauthorized"),
        ({"params": {"space": "bob"}}, 403, "permission_refused"),
        ({"params": {"space": "s3cret\n"}}, 422, "invalid_input"),
        ({"params": {"after": "s3cret"}}, 422, "invalid_input"),
        ({"headers": {"Last-Event-ID": "1; s3cret"}}, 422, "invalid_input"),
        ({"headers": {"Origin": "https://evil.example"}}, 403, "permission_refused"),
        ({"params": {"access_token": "ada"}, "headers": {"Authorization": ""}}, 401, "unauthorized"),
    ],
)
async def test_unauthorized_readers_are_refused(
    client: httpx.AsyncClient, more: dict[str, Any], status: int, code: str
) -> None:
    response = await client.get("/v1/events", **more)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert "s3cret" not in response.text


async def test_a_caller_has_a_limited_number_of_streams(client: httpx.AsyncClient) -> None:
    async with reading(client), reading(client):
        assert (await client.get("/v1/events")).json()["code"] == "limit_exceeded"


async def test_a_revoked_key_ends_its_stream(client: httpx.AsyncClient, doormen: Doormen) -> None:
    async with reading(client) as events:
        doormen.revoked.add("ada")
        try:
            (last,) = await taken(events, 1)
        finally:
            doormen.revoked.clear()
        assert (last["event"], json.loads(last["data"])["code"]) == ("error", "unauthorized")
        with pytest.raises(StopAsyncIteration):
            await anext(events)


class TestSessions:
    """An EventSource sends no custom header, so a cookie authenticates it."""

    async def test_a_session_opens_the_stream_and_nothing_else(self, live: Live, client: httpx.AsyncClient) -> None:
        given = await client.post("/v1/events/session")
        cookie = given.headers["set-cookie"]
        assert given.status_code == 204
        for part in ("HttpOnly", "SameSite=strict", "Path=/v1/events", f"Max-Age={int(EVENT_SESSION_S)}"):
            assert part in cookie
        token = given.cookies[COOKIE]
        assert re.fullmatch(r"[0-9a-f]{64}", token), "says nothing of whose it is"
        async with httpx.AsyncClient(
            base_url=live.url, headers={"Cookie": f"theme=dark; {COOKIE}={token}"}, trust_env=False
        ) as page:
            async with reading(page) as events:
                await anext(events)
            assert (await page.post("/v1/recall", json={"query": "tea"})).status_code == 401

    async def test_a_session_ends_with_its_key(self, live: Live, client: httpx.AsyncClient, doormen: Doormen) -> None:
        token = (await client.post("/v1/events/session")).cookies[COOKIE]
        async with httpx.AsyncClient(base_url=live.url, cookies={COOKIE: token}, trust_env=False, timeout=60) as page:
            doormen.revoked.add("ada")
            try:
                assert (await page.get("/v1/events")).status_code == 401
            finally:
                doormen.revoked.clear()

    async def test_a_forged_session_opens_nothing(self, live: Live) -> None:
        async with httpx.AsyncClient(
            base_url=live.url, cookies={COOKIE: "0" * 64}, trust_env=False, timeout=60
        ) as page:
            assert (await page.get("/v1/events")).status_code == 401

    async def test_no_session_is_created_where_no_key_is_required(self) -> None:
        with Live() as open_server:
            async with httpx.AsyncClient(base_url=open_server.url, trust_env=False, timeout=60) as page:
                given = await page.post("/v1/events/session")
                assert (given.status_code, dict(given.cookies)) == (204, {})
                async with reading(page) as events:
                    await anext(events)


async def test_a_stopping_server_releases_its_readers() -> None:
    with Live() as live:
        async with (
            httpx.AsyncClient(base_url=live.url, trust_env=False, timeout=60) as client,
            reading(client) as events,
        ):
            await anext(events)
            await asyncio.to_thread(live.end)
            assert [event async for event in events if "data" in event] == []
