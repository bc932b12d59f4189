"""Flat HTTP: a curl user adds, searches, states a fact, and gets a block without knowing planes."""

from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

pytestmark = pytest.mark.anyio


async def posted(client: httpx.AsyncClient, path: str, /, *, key: str | None = None, **body: Any) -> Any:
    """Return the answer of `path` to `body`."""
    answer = await client.post(path, json=body, headers=bearer(key) if key is not None else {})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_added_memories_are_searched_and_shown(client: httpx.AsyncClient) -> None:
    added = await posted(
        client,
        "/v1/add",
        text="The boiler code is 4417.",
        speaker="Ada",
        conversation="home",
        at="2026-05-03",
        tags=["x"],
    )
    (memory_id,) = added["ids"]
    found = await posted(client, "/v1/search", query="boiler code", limit=3)
    (hit,) = found["hits"]
    assert hit.pop("score") > 0
    assert hit == {
        "id": memory_id,
        "text": "The boiler code is 4417.",
        "at": "2026-05-03T00:00:00Z",
        "speaker": "Ada",
        "conversation": "home",
    }
    assert (await posted(client, "/v1/search", query="boiler code", conversation="away"))["hits"] == []
    block = await posted(client, "/v1/context", query="boiler code", max_chars=2_000)
    assert "4417" in block["text"]
    assert len(block["text"]) <= 2_000


async def test_messages_are_added_individually(client: httpx.AsyncClient) -> None:
    messages = [
        {"role": "user", "content": "Where is the ferry?", "name": "Ada"},
        {"role": "assistant", "content": "At pier nine.", "timestamp": 1_767_225_600},
    ]
    added = await posted(client, "/v1/add", messages=messages, conversation="trip")
    assert len(added["ids"]) == 2
    hit = (await posted(client, "/v1/search", query="pier nine"))["hits"][0]
    assert (hit["text"], hit["at"]) == ("At pier nine.", "2026-01-01T00:00:00Z")


async def test_a_fact_replaces_the_earlier_one_of_its_topic(client: httpx.AsyncClient) -> None:
    first = await posted(client, "/v1/facts", topic="home town", content="Porto")
    assert first["outcome"] == "stored"
    second = await posted(client, "/v1/facts", topic="home town", content="Lisbon")
    assert second["id"] != first["id"]
    listed = await posted(client, "/v1/list", filters={"planes": ["long_term"]})
    assert [item["text"] for item in listed["items"]] == ["Lisbon"]


async def test_each_key_has_its_own_memory(server: httpx.AsyncClient, keys: Keys) -> None:
    await posted(server, "/v1/add", key=keys.user, text="The boiler code is 4417.", conversation="home")
    assert (await posted(server, "/v1/search", key=keys.stranger, query="boiler"))["hits"] == []
    assert len((await posted(server, "/v1/search", key=keys.user, query="boiler"))["hits"]) == 1
    asked = {"query": "boiler", "space": "ada"}
    assert len((await posted(server, "/v1/search", key=keys.operator, **asked))["hits"]) == 1
    foreign = await server.post("/v1/search", json=asked, headers=bearer(keys.stranger))
    assert foreign.status_code == 403
    assert (await server.post("/v1/add", json={"text": "x"})).status_code == 401


async def test_a_repeat_under_one_key_is_done_once(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = [await client.post("/v1/add", json={"text": "Once."}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("add", {}),
        ("add", {"text": "x", "messages": [{"content": "y"}]}),
        ("add", {"text": ""}),
        ("add", {"text": "x", "s3cret": 1}),
        ("add", {"text": "x", "at": "s3cret"}),
        ("search", {"query": "x", "limit": 0}),
        ("search", {"question": "s3cret"}),
        ("facts", {"topic": "x"}),
        ("context", {"max_chars": 5}),
    ],
)
async def test_errors_name_the_field_without_echoing_the_value(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    answer = await client.post(f"/v1/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "s3cret" not in answer.text


async def test_the_root_redirects_to_the_page_and_a_wrong_type_names_the_right_one(client: httpx.AsyncClient) -> None:
    home = await client.get("/")
    assert (home.status_code, home.headers["location"]) == (307, "/docs")
    wrong = await client.post("/v1/add", content=b"text=x", headers={"Content-Type": "text/plain"})
    assert wrong.status_code == 415
    assert "Content-Type: application/json" in wrong.json()["detail"]
