"""A user's secret covers all of the user's spaces, on every route that the server describes.

Each route that accepts text gets text with a canary, by its own schema. After a lock, no byte of the store and no
answer of any readable route contains the canary, for any kind of key. While the user has the spaces open, only the key
that unlocked them can read them.
"""

import json
import logging
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.service.served import echo
from tests.gateway.asking import said
from tests.models.fake_server import serving
from tests.transports.serving import Served, served

from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_mcp_shell import ToolSet
from elytron_proxy import ModelUpstream, ProxySettings

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
CANARY = "heronsnest"
SENTENCE = f"The {CANARY} key of the boat is under the oar."
WAIT_S = 100
TEXTLESS = {
    "/v1/secret": "its texts are the secret itself",
    "/v1/shutdown": "an operator ends the server",
    "/console": "an operator's pages, which send what is written here to the same operations",
    "/mcp": "speaks its own protocol, walked in test_locked_spaces",
    "/v1/ws": "speaks its own protocol, walked in test_locked_spaces",
}
"""Routes that are not tested, by path prefix, with the reason."""
READING = ("search", "recall", "project", "list", "edits", "inspect")
SPACES = ("ada", "ada/garden/spring")
APPS: tuple[dict[str, str], ...] = ({}, {"app_id": "garden", "project_id": "spring"})


@dataclass
class Route:
    """A route of the server's description."""

    method: str
    path: str
    schema: dict[str, Any] | None
    parts: Sequence[str] = ()


@dataclass
class Walls:
    """A server with ada's data in several spaces, and the routes of its description."""

    server: Served
    folder: Path
    user_key: str
    keys: dict[str, str]
    routes: list[Route] = field(default_factory=list[Route])
    schemas: dict[str, Any] = field(default_factory=dict[str, Any])
    ids: set[str] = field(default_factory=set[str])

    def http(self, key: str) -> httpx.AsyncClient:
        headers = (
            {"Authorization": f"Bearer {key}", "X-User-Id": "ada"}
            if key == self.user_key
            else {"Authorization": f"Bearer {key}"}
        )
        return httpx.AsyncClient(base_url=self.server.url, headers=headers, trust_env=False, timeout=WAIT_S)

    async def describe(self) -> None:
        async with self.http(self.keys["operator"]) as client:
            found = (await client.get("/openapi/all.json")).json()
        self.schemas = found["components"]["schemas"]
        for path, methods in found["paths"].items():
            if any(path.startswith(begin) for begin in TEXTLESS):
                continue
            for method, about in methods.items():
                content = about.get("requestBody", {}).get("content", {}).get("application/json", {})
                self.routes.append(
                    Route(method.upper(), path, content.get("schema"), re.findall(r"{(\w+)[^}]*}", path))
                )

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        """Return a value that fits a schema, with the canary in each free text."""
        if "$ref" in schema:
            return self.value(self.schemas[schema["$ref"].rpartition("/")[2]], name, depth + 1)
        if name in {"user_id", "space"}:
            return "ada"
        for word in ("const", "default"):
            if word in schema and not (word == "default" and schema[word] is None):
                return schema[word]
        if schema.get("enum"):
            return schema["enum"][0]
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            return self.value(options[0], name, depth + 1)
        match schema.get("type"):
            case "object":
                properties, required = schema.get("properties", {}), schema.get("required", [])
                named = [each for each in properties if each in required or each in {"text", "content", "description"}]
                return {each: self.value(properties[each], each, depth + 1) for each in named if depth < 8}
            case "array":
                return [self.value(schema.get("items", {"type": "string"}), name, depth + 1)] if depth < 8 else []
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case _:
                return SENTENCE[: schema.get("maxLength", 1_000)]

    def paths(self, route: Route) -> Iterator[str]:
        """Yield the route's paths, with each seen id as a parameter."""
        choices = sorted(self.ids)[:: max(1, len(self.ids) // 2)][:2] if route.parts else [""]
        for id_ in choices:
            yield re.sub(r"{\w+[^}]*}", id_, route.path)

    async def readings(self, client: httpx.AsyncClient, *, is_operator: bool) -> AsyncIterator[tuple[str, str]]:
        """Yield the answers of every route to a caller searching for the boat's key, in each space that it may name."""
        spaces = SPACES if is_operator else ()
        asked = {"query": "where is the key of the boat?"}
        bodies = [asked | {"scope": {"space": space}} for space in spaces] or [asked]
        for route in self.routes:
            for path in self.paths(route):
                if route.method == "GET" and "/events" not in path:  # streams are tested separately
                    for query in [f"?space={space}" for space in spaces] or [""]:
                        yield path, (await client.get(path + query)).text
                elif route.method == "POST" and any(word in path for word in READING):
                    places = APPS if path.startswith("/memories") else APPS[:1]
                    for body in [body | place for body in bodies for place in places]:
                        yield path, (await client.post(path, json=body)).text


@pytest.fixture
async def walls(tmp_path: Path) -> AsyncIterator[Walls]:
    sets = frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE, ToolSet.SIMPLE, ToolSet.REFERENCE})
    async with serving() as model:
        model.reply = echo
        wanted = SurfaceOptions(
            tools=sets,
            mcp_private=True,
            llm=ProxySettings(upstreams=(ModelUpstream(model.url),)),
            agent=ServiceSettings(models=(f"chat:scripted@{model.url}/v1",)),
        )
        folder = tmp_path / "store"
        folder.mkdir()
        async with served(wanted, store=f"sqlite:///{folder}/m.db") as server:
            operator = await server.key(PrincipalKind.OPERATOR, None)
            keys = {
                "operator": operator,
                "device": await server.key(PrincipalKind.DEVICE, "ada"),
                "another key of hers": await server.key(PrincipalKind.USER, "ada"),
                "another user": await server.key(PrincipalKind.USER, "bob"),
            }
            async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=WAIT_S) as client:
                made = await client.post(
                    "/users", json={"user_id": "ada"}, headers={"Authorization": f"Bearer {operator}"}
                )
            walls = Walls(server, folder, made.json()["user_key"], keys)
            await walls.describe()
            yield walls


async def plant(walls: Walls) -> set[str]:
    """Send text to every route that accepts some, in every space of the user; return the accepting routes."""
    taken: set[str] = set()
    async with walls.http(walls.user_key) as hers:

        async def send(method: str, path: str, body: Any) -> None:
            async with hers.stream(method, path, json=body) as answer:
                text = (await answer.aread()).decode("utf-8", "replace")
            walls.ids.update(re.findall(r'"(?:\w*id|name)": ?"([\w:.-]{4,80})"', text))
            if answer.status_code < 300 and CANARY in json.dumps(body):
                taken.add(f"{method} {path}")

        await send("POST", "/v1/agent/init", {})
        messages = [said(SENTENCE)]
        for place in APPS:
            await send("POST", "/memories/add", {"user_id": "ada", "user_key": walls.user_key, "session_id": "chat:one",
                                                 "messages": messages, **place})  # fmt: skip
            files = {"file": (f"{CANARY}.txt", SENTENCE.encode(), "text/plain")}
            fields = {"user_id": "ada", "user_key": walls.user_key, "title": CANARY, **place}
            uploaded = await hers.post("/resources", data=fields, files=files)
            assert uploaded.status_code == 200, uploaded.text
            walls.ids.add(uploaded.json()["resource_id"])
        await send("POST", "/v1/agent/chat", {"input": SENTENCE})
        await send("POST", "/v1/add", {"text": SENTENCE, "conversation": CANARY, "tags": [CANARY]})
        await send("POST", "/v1/facts", {"topic": "key", "content": SENTENCE})
        await send("POST", "/llm/v1/chat/completions",
                   {"model": "m", "stream": True, "messages": [{"role": "user", "content": SENTENCE}]})  # fmt: skip
        await send("POST", "/a2a/message", {"name": "MemoryWriteCandidate", "hops": 0,
                                            "payload": {"topic": "key", "content": SENTENCE}})  # fmt: skip
        for route in walls.routes:
            if route.schema is None or route.method == "DELETE" or "erase" in route.path or "delete" in route.path:
                continue
            for path in list(walls.paths(route))[:2]:
                await send(route.method, path, walls.value(route.schema))
    return taken


async def test_a_lock_leaves_no_user_content_in_bytes_answers_or_logs(
    walls: Walls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    taken = await plant(walls)
    assert {"POST /memories/add", "POST /v1/agent/chat", "POST /v1/add", "POST /v1/facts"} <= taken
    assert len(taken) >= 20, sorted(taken)
    async with walls.http(walls.user_key) as hers:
        sealed = await hers.post("/v1/secret", json={"words": WORDS})
        assert (sealed.status_code, sealed.json()["spaces"]) == (
            200, {"ada": "unlocked", "ada/garden/spring": "unlocked"}
        )  # fmt: skip
        # A new space starts sealed while the user's others are open.
        messages = [said(SENTENCE)]
        credentials = {"user_id": "ada", "user_key": walls.user_key, "session_id": "chat:two", "messages": messages}
        added = await hers.post("/memories/add", json=credentials | {"app_id": "kitchen"})
        assert added.status_code == 200, added.text
        locked = (await hers.post("/v1/secret/lock")).json()
        assert set(locked["spaces"].values()) == {"locked"}
        assert len(locked["spaces"]) == 3
        refused = await hers.post("/memories/add", json=credentials | {"app_id": "cellar"})
        assert (refused.status_code, refused.json()["code"]) == (423, "space_locked")
    copy = tmp_path / "copy"
    shutil.copytree(walls.folder, copy)
    leaks = [str(path) for path in copy.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert leaks == []
    for name, key in {**walls.keys, "her own key": walls.user_key}.items():
        async with walls.http(key) as client:
            async for path, text in walls.readings(client, is_operator=name == "operator"):
                assert CANARY not in text, (name, path)
    assert CANARY not in "\n".join(record.getMessage() for record in caplog.records if "httpx" not in record.name)


async def test_only_the_key_that_unlocked_a_users_spaces_reads_them(walls: Walls) -> None:
    await plant(walls)
    async with walls.http(walls.user_key) as hers:
        await hers.post("/v1/secret", json={"words": WORDS})
        read = [path async for path, text in walls.readings(hers, is_operator=False) if CANARY in text]
        assert {"/v1/search", "/v1/recall", "/memories/search", "/v1/agent/items"} <= set(read)
        for name, key in walls.keys.items():
            async with walls.http(key) as client:
                async for path, text in walls.readings(client, is_operator=name == "operator"):
                    assert CANARY not in text, (name, path)
                if "user" not in name and "operator" not in name:
                    status = (await client.get("/v1/secret")).json()
                    assert status.get("state", "locked") == "locked"
        assert CANARY in (await hers.post("/v1/search", json={"query": "key of the boat"})).text


async def test_spaces_left_plain_are_reported_and_sealed_by_the_next_unlock(walls: Walls) -> None:
    async with walls.http(walls.user_key) as hers:
        await hers.post("/v1/secret", json={"words": WORDS})
        messages = [said(SENTENCE)]
        body = {"user_id": "ada", "user_key": walls.user_key, "session_id": "chat:one", "messages": messages}
        await hers.post("/memories/add", json=body | {"app_id": "garden"})
        # As left by a version that sealed only one space.
        space = "ada/garden/default"
        await walls.server.memory.erase(whole_space=space, user_id=space)
        await walls.server.memory.add(SENTENCE, user_id=space)
        status = (await hers.get("/v1/secret")).json()
        assert status["spaces"][space] == "plain"
        await hers.post("/v1/secret/lock")
        searched = await hers.post(
            "/memories/search", json={"user_id": "ada", "user_key": walls.user_key, "query": "key", "app_id": "garden"}
        )
        assert searched.status_code == 423
        opened = (await hers.post("/v1/secret/unlock", json={"words": WORDS})).json()
        assert opened["spaces"][space] == "unlocked"
        assert all(CANARY.encode() not in path.read_bytes() for path in walls.folder.rglob("*") if path.is_file())
