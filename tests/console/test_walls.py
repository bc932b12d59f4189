"""A second user's session sees nothing of the first by any route or id, and every count matches the store."""

import json
import random
import re
from collections import Counter

import httpx
import pytest
from tests.console.conftest import Keys, bearer
from tests.transports.serving import Served

import elytron
from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_console import console_surfaces
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

SECRET = "seven thirty-one"
SKILL = {
    "name": "safe",
    "topic": f"opening {SECRET}",
    "title": f"Open with {SECRET}",
    "summary": f"Turn to {SECRET}.",
    "content": f"1. Go to the safe.\n2. Turn the wheel to {SECRET}.\n3. Close the safe again afterwards.",
}
PLANTED = (
    {"kind": "transcript", "turns": [{"messages": [{"text": f"The safe opens with {SECRET}.", "speaker": "Ada"}]}]},
    {"kind": "long_term", "facts": [{"topic": "safe", "content": f"It is {SECRET}", "authority": "user_asserted"}]},
    {"kind": "procedural", "writes": [SKILL]},
)
ID = re.compile(r'"(?:id|name|key|conversation)":"([^"]+)"')
READS = ("", "?limit=200", "?actions=write", "?space=ada")


async def harvest(client: httpx.AsyncClient, key: str) -> set[str]:
    """Return every id that the first user's console shows."""
    found: set[str] = set()
    for path in ("/console/journal?limit=200", "/console/skills", "/console/session"):
        found |= set(ID.findall((await client.get(path, headers=bearer(key))).text))
    asked: dict[str, object] = {}
    for name, request in (("list", asked), ("list_facts", asked), ("inspect", asked), ("list_jobs", asked)):
        answer = await client.post(f"/console/operations/{name}", json=request, headers=bearer(key))
        found |= set(ID.findall(answer.text))
    return found


async def test_a_second_user_sees_nothing_of_the_first(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    for write in PLANTED:
        answer = await client.post("/console/operations/write", json={"write": write}, headers=bearer(keys.user))
        assert answer.json()["changed"]
    ids = await harvest(client, keys.user)
    assert len(ids) > 10
    session = await client.post("/console/session", headers=bearer(keys.stranger))
    headers = {"X-Console-Token": session.json()["token"]}
    told: list[str] = [session.text]
    learned = [f"skills/{name}" for name in ids if name.startswith("runtime")]
    for path in ("journal", "skills", "contents", "conversations", "spending", *learned):
        told += [(await client.get(f"/console/{path}{query}", headers=headers)).text for query in READS]
    for operation in WIRE_OPERATIONS:
        scopes: tuple[dict[str, object], ...] = ({}, {"scope": {"space": "ada"}})
        for scope in scopes:
            asked: list[dict[str, object]] = [{"query": SECRET} | scope, scope]
            asked += [{"id": one} | scope for one in ids] if operation.name in {"get", "history", "get_fact"} else []
            for request in asked:
                answer = await client.post(f"/console/operations/{operation.name}", json=request, headers=headers)
                told.append(answer.text)
    told += [(await client.post("/console/erasures", json={"ids": [one]}, headers=headers)).text for one in sorted(ids)]
    assert [text for text in told if SECRET in text.replace('"query":"seven thirty-one"', "")] == []
    assert (await client.get("/console/skills", headers=bearer(keys.user))).json()["total"] == 1


@pytest.mark.parametrize(
    "kinds", [[], ["transcript"], random.Random(7).choices(["transcript", "long_term", "procedural"], k=24)], ids=len
)
async def test_every_count_matches_the_store(kinds: list[str]) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        for place, kind in enumerate(kinds):
            match kind:
                case "transcript":
                    write: dict[str, object] = {"kind": kind, "turns": [{"messages": [{"text": f"text {place}"}]}]}
                case "long_term":
                    fact = {"topic": f"topic {place}", "content": f"fact {place} holds", "authority": "user_asserted"}
                    write = {"kind": kind, "facts": [fact]}
                case _:
                    write = {"kind": kind, "writes": [{**SKILL, "name": f"skill {place}", "title": f"Title {place}"}]}
            request = MemoryWriteRequest.model_validate({"write": write})
            await memory.operate(request)
        app = create_app(memory, authenticator=DevelopmentCallers(), further=(console_surfaces(),))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            token = {"X-Console-Token": (await client.get("/console/session")).json()["token"]}
            overview = (await client.get("/console/overview")).json()
            contents = (await client.get("/console/contents")).json()
            inspected = (await client.post("/console/operations/inspect", json={}, headers=token)).json()
            listed = (
                await client.post("/console/operations/list", json={"limit": 1000, "hidden": "listed"}, headers=token)
            ).json()
            skills = (await client.get("/console/skills")).json()
            journal = (await client.get("/console/journal?limit=200")).json()
    wanted = Counter(kinds)
    assert contents.get("planes", {}) == inspected["planes"]
    assert contents.get("conversations", 0) == len(inspected["conversations"])
    assert inspected["planes"] == dict(Counter(item["plane"] for item in listed["items"]))
    assert {plane: number for plane, number in inspected["planes"].items() if number} == dict(wanted)
    assert skills["total"] == wanted["procedural"]
    assert (
        overview["space"]["today"]["entries"] == inspected["sequence"] == journal["sequence"] == len(journal["items"])
    )
    assert json.dumps(journal).count('"action": "write"') == len(kinds)
