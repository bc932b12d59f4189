"""Anything in an answer that a later request repeats is valid on every node of a store, not only where it was made.

All server tests run like this too, if the environment requests it (`tests/transports/nodes.py`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.console.conftest import HOST
from tests.transports.nodes import known_at_once, served_nodes

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings

pytestmark = pytest.mark.anyio
ROUNDS = 4


class Nodes:
    """Two nodes at one address, which take turns, and keys of their store."""

    def __init__(self, url: str, operator: str, user: str) -> None:
        self.url = url
        self.operator = {"Authorization": f"Bearer {operator}"}
        self.user = {"Authorization": f"Bearer {user}"}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=100)


@pytest.fixture(params=["sqlite", "postgres"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Nodes]:
    store: str | Path = tmp_path / "m.db"
    if request.param == "postgres":
        store = f"{request.getfixturevalue('postgres').make_database()}?sealed=no"
    async with AsyncExitStack() as stack:
        stack.enter_context(known_at_once())
        memories = [await stack.enter_async_context(elytron.open(store)) for _ in range(2)]
        wanted = SurfaceOptions(console=HOST)
        beside = [await stack.enter_async_context(open_surfaces(memory, wanted)) for memory in memories]
        keys = AccessKeys(memories[0].context)
        operator = await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="operator"))
        user = await keys.add(AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="ada"))
        started = await stack.enter_async_context(served_nodes(memories, beside, ServingSettings(port=0)))
        yield Nodes(started.address, operator.key, user.key)


async def sent(client: httpx.AsyncClient, method: str, path: str, count: int = ROUNDS, **more: Any) -> list[int]:
    """Send a request several times, so to each node, and return the statuses."""
    return [(await client.request(method, path, **more)).status_code for _ in range(count)]


async def test_a_console_session_works_and_ends_on_all_nodes(nodes: Nodes) -> None:
    async with nodes.client() as page:
        begun = await page.post("/console/session", headers=nodes.user)
        token = {"X-Console-Token": begun.json()["token"]}
        cookie = {"Cookie": f"elytron_console={page.cookies['elytron_console']}"}
        for path in ("/console/session", "/console/journal", "/console/operations"):
            assert set(await sent(page, "GET", path, headers=token)) <= {200, 404}
        assert await sent(page, "GET", "/console/session", headers=token) == [200] * ROUNDS
        named = {"name": "nothing", "enabled": False}
        assert 403 not in await sent(page, "PATCH", "/console/skills/nothing/enabled", headers=token, json=named)
        assert (await page.delete("/console/session", headers=token)).status_code == 204
        assert await sent(page, "GET", "/console/session", headers=token | cookie) == [401] * ROUNDS


async def test_an_event_session_resumes_on_every_node_at_the_readers_position(nodes: Nodes) -> None:
    async with nodes.client() as page:
        assert (await page.post("/v1/events/session", headers=nodes.user)).status_code == 204
        for text in ("one", "two", "three"):
            await page.post("/v1/add", json={"text": text}, headers=nodes.user)
        seen: list[str] = []
        for _ in range(ROUNDS):
            after = {"Last-Event-ID": seen[-1]} if seen else {}
            async with asyncio.timeout(60), page.stream("GET", "/v1/events?after=0", headers=after) as answer:
                assert answer.status_code == 200
                lines = (line async for line in answer.aiter_lines() if line.startswith("id: "))
                _, seen_id = await anext(lines), await anext(lines)
                seen.append(seen_id.removeprefix("id: "))
        assert [int(each.partition("-")[0]) for each in seen] == [1, 2, 3, 4]


@pytest.mark.parametrize("route", ["console", "access"])
async def test_a_renewed_key_opens_every_node_and_the_former_one_none(nodes: Nodes, route: str) -> None:
    key_id = nodes.user["Authorization"].split("_")[2]
    async with nodes.client() as client:
        path = f"/console/devices/{key_id}/rotate-key" if route == "console" else f"/v1/access/{key_id}/rotate"
        answer = (await client.post(path, headers=nodes.operator)).json()
        renewed = {"Authorization": f"Bearer {answer.get('appKeyOnce') or answer['key']}"}
        assert await sent(client, "POST", "/v1/inspect", headers=renewed, json={}) == [200] * ROUNDS
        assert await sent(client, "POST", "/v1/inspect", headers=nodes.user, json={}) == [401] * ROUNDS


async def test_previews_pages_and_repeats_of_one_node_are_valid_on_the_other(nodes: Nodes) -> None:
    async with nodes.client() as client:
        client.headers.update(nodes.user)
        for number in range(6):
            await client.post("/v1/add", json={"text": f"cup {number} of green tea"})
        texts: list[str] = []
        cursor = None
        for _ in range(3):
            page = (await client.post("/v1/list", json={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
            texts += [item["text"] for item in page["items"]]
            cursor = page.get("next_cursor")
        assert sorted(texts) == [f"cup {number} of green tea" for number in range(6)]
        repeated = {"Idempotency-Key": "once"}
        answers = [await client.post("/v1/add", json={"text": "one more"}, headers=repeated) for _ in range(ROUNDS)]
        assert len({answer.text for answer in answers}) == 1
        ids = [item["id"] for item in (await client.post("/v1/list", json={"limit": 1})).json()["items"]]
        preview = (await client.post("/console/erasures", json={"ids": ids})).json()
        done = (await client.post("/console/erasures", json={"ids": ids, "count": preview["count"]})).json()
        assert (preview["report"]["dry_run"], done["report"]["dry_run"]) == (True, False)


async def test_a_transport_that_one_node_switches_off_is_off_at_the_other(nodes: Nodes) -> None:
    async with nodes.client() as client:
        change = {"enabled": False, "endpoint": "https://memory.example.org/mcp"}
        answer = await client.patch("/console/transports/mcp", headers=nodes.operator, json=change)
        assert answer.json()["endpoint"] == change["endpoint"]
        async with asyncio.timeout(60):
            # Each node adopts another's switch within a second.
            while set(await _transports(client, nodes)) != {(False, change["endpoint"])}:
                pass


async def _transports(client: httpx.AsyncClient, nodes: Nodes) -> list[tuple[bool, str | None]]:
    answers = [await client.get("/console/transports", headers=nodes.operator) for _ in range(ROUNDS)]
    rows = [row for answer in answers for row in answer.json()["items"] if row["id"] == "mcp"]
    return [(row["enabled"], row.get("endpoint")) for row in rows]
