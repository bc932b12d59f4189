"""Payloads in every stored field of its schema: each page shows them as bounded text, and none runs."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.console.conftest import Watched, make_agent
from tests.console.route_walk import Body, resolve, schema_value
from tests.transports.serving import Served

from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import with_fingerprints

pytestmark = pytest.mark.anyio

RUN = "document.title='owned';alert(1)"
SHORT = (
    f'<img src=x onerror="{RUN}">',
    f"<script>{RUN}</script>",
    f"'\"><svg onload={RUN}>",
    f"<a href=javascript:{RUN} autofocus onfocus={RUN}>x</a>",
    "<b>\u05d0\u05d1</b>${" + RUN + "}",
)
HIDDEN = "\u202egnp.exe\u202c bell\u0007 escape\u001b[31m\u2066<i>x</i>\u2069"
"""Marks and control characters, which names may not contain."""
LONG = f"{SHORT[0]} {HIDDEN} " + "x" * 99_900
BOUND = 60_000
"""Maximum characters shown on a page while a store has texts of 100,000."""
WATCH = """addEventListener("securitypolicyviolation", (event) => console.warn(`policy: ${event.blockedURI}`));"""
FOREIGN = "main :is(script, img, b, i, u, iframe, object, embed, base, link, style, a[href^=javascript])"
OPEN = """() => document.querySelectorAll("main details").forEach((node) => { node.open = true; })"""
ATTRIBUTES = """() => [...document.querySelectorAll("body *")]
  .flatMap((node) => node.getAttributeNames()).filter((name) => name.startsWith("on"))"""
OWN = {"period": "2026-08-03"}
"""Values of fields without free text."""
PAGES = (
    *("overview", "people", "memories", "facts?states=all", "conversations", "timeline", "recall?q=owned&compare=1"),
    *("projection?q=owned", "review", "skills", "tools", "erasures", "transfer", "agents", "jobs", "spending"),
    *("journal", "spaces", "stores", "devices", "gateway", "server", "docs"),
)


def variants(components: Mapping[str, Body], schema: Body, value: Any, texts: Iterator[str]) -> Iterator[Any]:
    """Yield `value` with each further field of `schema`, at every depth, one at a time."""
    schema = resolve(components, schema)
    if isinstance(value, list):
        yield from ([inner] for inner in variants(components, schema.get("items", {}), value[0], texts))
    elif isinstance(value, dict):
        for name, below in schema.get("properties", {}).items():
            if name in value:
                found = variants(components, below, value[name], texts)
                yield from ({**value, name: inner} for inner in found)
            else:
                yield {**value, name: schema_value(components, below, next(texts), OWN)}


def payloads() -> Iterator[str]:
    while True:
        yield from (*SHORT, f"{SHORT[0]} {HIDDEN}")


class PlantedStore:
    """Stored objects: the ids of memories, and the kinds of writes that accepted payloads."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.taken = Counter[str]()
        self.refused: list[str] = []

    async def write(self, write: Body, **scope: str) -> bool:
        answer = await self.client.post("/v1/write", json={"write": write, "scope": {"space": "ada", **scope}})
        assert answer.status_code in {200, 422}, answer.text
        self.refused += [answer.text] if answer.status_code == 422 else []
        return answer.status_code == 200

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = await self.client.request(method, path, json=body, **more)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    async def fill(self) -> None:
        """Store payloads in every field of every kind of write, and through dedicated routes."""
        description = (await self.client.get("/openapi/all.json")).json()
        components = description["components"]["schemas"]
        kinds = components["MemoryWriteRequest"]["properties"]["write"]["discriminator"]["mapping"]
        texts = payloads()
        for kind, reference in kinds.items():
            plain = {**schema_value(components, {"$ref": reference}, next(texts), OWN), "kind": kind}
            for write in (plain, *variants(components, {"$ref": reference}, plain, texts)):
                self.taken[kind] += await self.write(write, conversation=SHORT[0])
        for text in (LONG, HIDDEN):
            await self.write_turn(text)
            fact = {"topic": SHORT[1], "fact_kind": "profile", "content": text[:3_900], "authority": "user_asserted"}
            assert await self.write({"kind": "long_term", "facts": [fact]})
        await self._fill_routes()

    async def write_turn(self, text: str) -> None:
        """Store a message with payloads around its text."""
        turn = {"messages": [{"text": text, "speaker": SHORT[1]}], "tags": [SHORT[2]]}
        assert await self.write({"kind": "transcript", "turns": [turn], "title": SHORT[3]}, conversation=SHORT[4])

    async def _fill_routes(self) -> None:
        scope = {"space": "ada"}
        place = {"namespace": [SHORT[0], SHORT[1]], "key": SHORT[2], "scope": scope}
        await self.send("POST", "/v1/put_record", place | {"value": {SHORT[3]: HIDDEN}, "text": LONG[:10_000]})
        tool = {"tool_id": SHORT[0], "display_name": SHORT[1], "schema_fingerprint": "a" * 16, "risk_tags": [SHORT[2]]}
        draft = {"registry_id": SHORT[0], "namespace": SHORT[1], "tools": [tool]}
        registry = with_fingerprints(AgentToolRegistrySnapshot.model_validate(draft))
        await self.send(
            "POST", "/v1/upsert_agent_tool_registry", {"snapshot": registry.model_dump(mode="json"), "scope": scope}
        )
        await self.send("PUT", "/v1/agent/memory/blocks/human", {"value": SHORT[0], "description": SHORT[1]})
        await self.send("POST", "/v1/agent/subagents", {"name": SHORT[2], "purpose": SHORT[3]})
        await self.send("POST", "/v1/agent/memory/archival", {"content": LONG, "tags": [SHORT[1]]})
        token = {"X-Console-Token": (await self.client.get("/console/session")).json()["token"]}
        await self.send("POST", "/console/devices", {"label": SHORT[0], "space": "ada"}, headers=token)
        await self.client.put(
            f"/console/transcripts?space=ada&name={quote(SHORT[0])}.txt",
            content=f"user: {SHORT[1]}\n".encode(),
            headers=token | {"Content-Type": "application/octet-stream"},
        )
        listed = (await self.send("POST", "/v1/list", {"scope": scope, "limit": 1000}))["items"]
        first, second = [item["id"] for item in listed if item["plane"] == "transcript"][:2]
        await self.send("POST", "/v1/forget", {"ids": [first], "reason": SHORT[0], "scope": scope})
        await self.send("POST", "/v1/erase", {"ids": [second], "reason": SHORT[1], "scope": scope})

    async def addresses(self) -> list[str]:
        """Return the page of every existing memory, fact, and skill."""
        asked = {"scope": {"space": "ada"}, "limit": 1000, "hidden": "listed", "include_private": True}
        listed = (await self.send("POST", "/v1/list", asked))["items"]
        facts = (await self.send("POST", "/v1/list_facts", {"scope": {"space": "ada"}, "states": []}))["items"]
        skills = (await self.client.get("/console/skills?space=ada")).json()["runtime_skills"]
        return [
            *(f"memories?id={quote(item['id'], safe='')}" for item in listed),
            *(f"facts?states=all&id={quote(item['id'], safe='')}" for item in facts[:4]),
            *(f"skills?name={quote(item['name'], safe='')}" for item in skills[:2]),
            *(f"conversations?conversation={quote(text, safe='')}" for text in (SHORT[0], SHORT[4])),
            f"people?person={quote(SHORT[1], safe='')}",
            f"memories?q={quote(SHORT[0], safe='')}",
        ]


@pytest.fixture
async def empty(open_server: Served) -> AsyncIterator[PlantedStore]:
    async with httpx.AsyncClient(base_url=open_server.url, trust_env=False, timeout=60) as client:
        yield PlantedStore(client)


@pytest.fixture
async def planted(open_server: Served, empty: PlantedStore) -> PlantedStore:
    await make_agent(open_server, SHORT[0])
    await empty.fill()
    return empty


async def require_plain(page: Watched, address: str) -> None:
    """Raise AssertionError if a page shows stored content other than as bounded text."""
    found = page.page
    assert "owned" not in await found.title(), address
    assert await found.locator(FOREIGN).count() == 0, address
    assert await found.evaluate(ATTRIBUTES) == [], address
    assert len(await found.locator("body").inner_text()) < BOUND, address
    assert await page.beyond() <= 0, address


@pytest.mark.timeout(580)
async def test_no_payload_in_any_field_runs_on_any_page(planted: PlantedStore, page: Watched) -> None:
    assert min(planted.taken.values()) >= 1, planted.taken
    assert len(planted.refused) <= planted.taken.total() // 10, planted.refused
    await page.page.add_init_script(WATCH)
    page.page.on("dialog", lambda dialog: page.said.append(f"dialog: {dialog.message}"))
    await page.page.set_viewport_size({"width": 360, "height": 800})
    await page.go("overview")
    for address in (*PAGES, *await planted.addresses()):
        await page.turn(address)
        await page.page.evaluate(OPEN)
        await page.settled()
        await require_plain(page, address)
    assert (page.said, page.foreign) == ([], [])


async def test_a_long_text_with_payloads_is_shown_completely_on_demand(empty: PlantedStore, page: Watched) -> None:
    await empty.write_turn(LONG)
    listed = (await empty.send("POST", "/v1/list", {"scope": {"space": "ada"}, "limit": 1000}))["items"]
    made = next(item["id"] for item in listed if item["plane"] == "transcript" and len(item["text"]) == len(LONG))
    await page.go(f"memories?id={made}")
    detail = page.page.get_by_label("The memory")
    await detail.get_by_role("button", name="Show all").click()
    told = await detail.locator(".text").first.inner_text()
    assert told.startswith("<img src=x onerror=")
    assert "\u27e8U+202E\u27e9" in told
    assert "\u2407" in told
    assert len(told) >= len(LONG)
    assert page.said == []
