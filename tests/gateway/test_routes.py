"""A client handwritten from the API reference, against the application."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.admission_control import FairPlaces, LoadBounds
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

MESSAGES = [
    {
        "sender_id": "u_123",
        "role": "user",
        "timestamp": 1_781_172_177_000,
        "content": [{"type": "text", "text": "Remember this note about the harbour"}],
    }
]
PDF = b"%PDF-1.4 not one"


@pytest.fixture
async def client(memory: elytron.MemoryRuntime, gateway: MemoryGateway) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(memory, authenticator=DevelopmentCallers(), further=(gateway_surfaces(gateway),))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8010") as connected:
        yield connected


@pytest.fixture
async def me(client: httpx.AsyncClient) -> dict[str, str]:
    answer = await client.post("/users", json={"user_id": "u_123"})
    assert answer.status_code == 200
    return answer.json()


async def test_the_calls_of_the_reference_work_as_written(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    health = await client.get("/health")
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    place = {**me, "session_id": "chat:c_456", "app_id": "default", "project_id": "default"}
    added = await client.post("/memories/add", json={**place, "messages": MESSAGES})
    assert (added.status_code, added.json()["status"]) == (200, "accumulated")
    flushed = await client.post("/memories/flush", json=place)
    assert flushed.json()["status"] == "extracted"
    asked = {**me, "query": "harbour note", "conversation_id": "c_456", "scope": ["current_chat"], "top_k": 8}
    found = (await client.post("/memories/search", json=asked)).json()["results"]
    assert [(one["text"], one["source_scope"]) for one in found] == [
        ("Remember this note about the harbour", "current_chat")
    ]
    assert found[0]["raw"]["id"] == found[0]["id"]
    edit = {**me, "memory_id": found[0]["id"], "session_id": found[0]["session_id"]}
    overridden = await client.post("/memories/override", json={**edit, "text": "Corrected memory text"})
    assert overridden.status_code == 200
    assert (await client.post("/memories/search", json=asked | {"query": "corrected"})).json()["results"][0][
        "text"
    ] == "Corrected memory text"
    deleted = await client.post("/memories/delete", json={**edit, "reason": "User requested deletion"})
    assert deleted.json()["kind"] == "tombstone"
    assert (await client.post("/memories/search", json=asked)).json()["results"] == []


async def test_files_are_sent_in_a_form(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    image = [{**MESSAGES[0], "content": [{"type": "image", "upload_id": "image_1", "name": "image.png", "ext": "png"}]}]
    place = {"session_id": "chat:c_456", "app_id": "default", "project_id": "default"}
    form = {**me, **place, "messages": json.dumps(image)}
    added = await client.post(
        "/memories/add/multipart", data=form, files={"image_1": ("image.png", b"\x89PNG", "image/png")}
    )
    assert added.status_code == 200
    assert [(one["upload_id"], one["size"]) for one in added.json()["attachments"]] == [("image_1", 4)]


async def test_a_resource_passes_through_its_whole_lifecycle(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    files = {"file": ("terms.md", b"# Terms\n\nPayment is due in thirty days.", "text/markdown")}
    made = (await client.post("/resources", data={**me, "title": "Terms"}, files=files)).json()
    assert made["status"] == "extracted"
    proof = {"Authorization": f"Bearer {me['user_key']}", "X-User-Id": "u_123"}
    listed = (await client.get("/resources", headers=proof)).json()
    one = (await client.get(f"/resources/{made['resource_id']}", params=me)).json()
    assert [found["resource_id"] for found in listed["resources"]] == [made["resource_id"]]
    assert one == listed
    search = {**me, "query": "payment due"}
    found = (await client.post("/memories/search", json=search)).json()["results"]
    assert (found[0]["resource_uri"], found[0]["title"]) == (f"resource://u_123/{made['resource_id']}", "Terms")
    assert (await client.delete(f"/resources/{made['resource_id']}", headers=proof)).json()["deleted"] is True
    assert (await client.delete(f"/resources/{made['resource_id']}", headers=proof)).status_code == 404
    assert (await client.get(f"/resources/{made['resource_id']}", headers=proof)).json() == {"resources": []}
    assert (await client.post("/memories/search", json=search)).json()["results"] == []


async def test_unreadable_files_are_recorded_as_failed(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    made = await client.post("/resources", data=me, files={"file": ("x.pdf", PDF, "application/pdf")})
    assert (made.status_code, made.json()["status"]) == (200, "failed")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/memories/search", {"query": "x", "user_id": "u_123", "user_key": "uk_wrong"}, 401),
        ("/memories/search", {"query": "x"}, 401),
        ("/memories/search", {"query": "x", "scope": ["current_chat"]}, 422),
        ("/memories/search", {"query": "x", "top_k": 0}, 422),
        ("/memories/search", {"query": "x", "scope": ["everything"]}, 422),
        ("/memories/add", {"session_id": "chat:c", "messages": []}, 422),
        ("/memories/add", {"session_id": "nonsense", "messages": MESSAGES}, 422),
        ("/memories/add", {"session_id": "memory_edit:u_9", "messages": MESSAGES}, 403),
        ("/memories/override", {"session_id": "chat:c", "memory_id": "0" * 24 + "." + "0" * 12, "text": "x"}, 403),
        ("/memories/override", {"session_id": "memory_edit:u_123", "memory_id": "x" * 24, "text": "x"}, 404),
        ("/resources/external", {"uri": "file:///etc/passwd"}, 403),
        ("/resources/external", {"uri": "http://localhost/x"}, 403),
    ],
)
async def test_invalid_requests_get_the_reference_statuses(
    client: httpx.AsyncClient, me: dict[str, str], path: str, body: dict[str, Any], status: int
) -> None:
    given = body if status == 401 else me | body
    answer = await client.post(path, json=given)
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert me["user_key"] not in answer.text


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ([{"type": "text", "text": "x"}, {"type": "image", "base64": "AA=="}], "content.1 is not valid: with base64"),
        ([{"type": "image"}], "content.0 is not valid: must have exactly one of"),
        (7, "content is not valid: input should be a valid array"),
    ],
)
async def test_errors_name_the_item_that_they_concern(
    client: httpx.AsyncClient, me: dict[str, str], content: object, detail: str
) -> None:
    said = me | {"session_id": "chat:c", "messages": [{**MESSAGES[0], "content": content}]}
    answer = await client.post("/memories/add", json=said)
    assert answer.status_code == 422
    assert f"messages.0.{detail}" in answer.json()["detail"]


async def test_uploads_of_unsupported_kinds_and_sizes_are_rejected(
    client: httpx.AsyncClient, me: dict[str, str]
) -> None:
    png = await client.post("/resources", data=me, files={"file": ("x.png", b"\x89PNG\r\n\x1a\n\0\0", "image/png")})
    large = await client.post("/resources", data=me, files={"file": ("x.txt", b"x" * (52 * 1024 * 1024), "text/plain")})
    none = await client.post("/resources", data=me)
    assert (png.status_code, large.status_code, none.status_code) == (415, 413, 422)


async def test_missing_and_invalid_fields_get_the_reference_status(
    client: httpx.AsyncClient, me: dict[str, str]
) -> None:
    form = me | {"session_id": "chat:c_456"}
    file = {"image_1": ("image.png", b"\x89PNG", "image/png")}
    answers = [
        await client.post("/memories/add/multipart", data=form, files=file),
        await client.post("/memories/add/multipart", data=form | {"messages": "[{"}, files=file),
        await client.post(
            "/memories/search", content=json.dumps(me)[:-1], headers={"Content-Type": "application/json"}
        ),
        await client.post("/resources", data=me),
        await client.post("/resources", data=me | {str(number): "x" for number in range(65)}),
        await client.post("/resources", data=me, files={"another": ("x.md", b"x", "text/markdown")}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(422, "invalid_input")] * 6
    assert [answer.json()["detail"].partition(" ")[0] for answer in answers[:2]] == ["messages", "messages"]
    no_form = await client.post("/resources", json=me)
    assert (no_form.status_code, no_form.headers["accept"]) == (415, "multipart/form-data")


async def test_a_form_may_be_sent_without_files(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    form = me | {"session_id": "chat:c_456", "messages": json.dumps(MESSAGES)}
    added = await client.post("/memories/add/multipart", data=form)
    assert (added.status_code, added.json()["message_count"]) == (200, 1)


@pytest.mark.parametrize("unsaid", [{"scope": None, "conversation_id": None}, {"scope": [], "conversation_id": ""}])
async def test_a_client_may_send_null_for_scope_and_chat(
    client: httpx.AsyncClient, me: dict[str, str], unsaid: dict[str, Any]
) -> None:
    files = {"file": ("terms.md", b"# Terms\n\nPayment is due in thirty days.", "text/markdown")}
    await client.post("/resources", data=me, files=files)
    found = await client.post("/memories/search", json={**me, **unsaid, "query": "payment due"})
    assert [one["source_scope"] for one in found.json()["results"]] == ["resources"]
    unnamed = await client.post("/memories/search", json={**me, **unsaid, "query": "x", "scope": ["current_chat"]})
    assert unnamed.status_code == 422


async def test_null_fields_count_as_absent(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    said: dict[str, Any] = MESSAGES[0] | {"sender_name": None, "tool_calls": None, "tool_call_id": None}
    said["content"] = [{"type": "text", "text": "The boiler code is 4417.", "uri": None, "base64": None, "ext": None}]
    place = me | {"session_id": "chat:c_456"}
    assert (await client.post("/memories/add", json={**place, "messages": [said]})).status_code == 200
    (hit,) = (await client.post("/memories/search", json={**me, "query": "boiler", "conversation_id": "c_456"})).json()[
        "results"
    ]
    deleted_answer = await client.post("/memories/delete", json={**place, "memory_id": hit["id"], "reason": None})
    assert (deleted_answer.status_code, deleted_answer.json()["kind"]) == (200, "tombstone")


async def test_credentials_may_be_in_the_body_of_a_deletion_too(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    made = (await client.post("/resources", data=me, files={"file": ("t.txt", b"Thirty days.", "text/plain")})).json()
    path = f"/resources/{made['resource_id']}"
    assert (await client.request("DELETE", path, json={**me, "user_key": "uk_wrong"})).status_code == 401
    assert (await client.request("DELETE", path, json=me)).json()["deleted"] is True


async def test_a_user_over_the_rate_is_limited_and_others_are_served(
    memory: elytron.MemoryRuntime, gateway: MemoryGateway
) -> None:
    admission = CallerAdmission(
        OperationDispatcher(memory),
        authenticator=DevelopmentCallers(),
        shedding=FairPlaces(LoadBounds(calls_per_minute=2)),
    )
    app = create_app(admission, further=(gateway_surfaces(gateway),))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as caller:
        ada, bob = [(await caller.post("/users", json={"user_id": name})).json() for name in ("ada", "bob")]
        found = [await caller.post("/memories/search", json={**ada, "query": "x"}) for _ in range(3)]
        assert [answer.status_code for answer in found] == [200, 200, 429]
        assert "Retry-After" in found[2].headers
        stolen = [await caller.post("/memories/search", json={**bob, "user_key": "no", "query": "x"}) for _ in range(3)]
        assert {answer.status_code for answer in stolen} == {401}
        listed = await caller.get("/resources", params=bob)
        assert listed.status_code == 200


async def test_an_endless_upload_is_aborted(
    client: httpx.AsyncClient, me: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_gateway.routes.forms.HTTP_UPLOAD_WAIT_S", 0.02)

    async def drips() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n'
        while True:
            yield b"x"
            await asyncio.sleep(0)

    key = {"Authorization": f"Bearer {me['user_key']}", "X-User-Id": me["user_id"]}
    headers = {"Content-Type": "multipart/form-data; boundary=x", **key}
    assert (await client.post("/resources", content=drips(), headers=headers)).status_code == 408


@pytest.mark.parametrize("name", ["../../etc/cron.d/x.txt", "..\\..\\x.txt", "/etc/x.txt", "C:\\x.txt"])
async def test_a_file_name_with_a_path_is_only_a_name(client: httpx.AsyncClient, me: dict[str, str], name: str) -> None:
    made = await client.post("/resources", data=me, files={"file": (name, b"Thirty days.", "text/plain")})
    assert made.json()["file_name"] == "x.txt"


async def test_creating_users_needs_the_provisioning_credential(
    memory: elytron.MemoryRuntime, gateway: MemoryGateway
) -> None:
    app = create_app(memory, further=(gateway_surfaces(gateway),))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as stranger:
        answer = await stranger.post("/users", json={"user_id": "u_1"})
        assert (answer.status_code, "provisioning credential" in answer.text) == (401, True)
        assert (await stranger.get("/users")).status_code == 401


async def test_an_operator_lists_and_erases_users(client: httpx.AsyncClient, me: dict[str, str]) -> None:
    await client.post("/memories/add", json={**me, "session_id": "chat:c", "messages": MESSAGES})
    assert (await client.get("/users")).json() == {"users": ["u_123"]}
    assert (await client.get("/users/u_123")).json()["messages"] == 1
    assert (await client.post("/backlog/drain")).json() == {"told": 0, "backlog": 0}
    rotated = (await client.post("/users/u_123/rotate")).json()
    assert rotated["user_key"] != me["user_key"]
    assert (await client.post("/users/u_123/revoke")).json()["revoked"] is True
    assert (await client.post("/memories/search", json={**rotated, "query": "x"})).status_code == 401
    signed = (await client.delete("/users/u_123")).json()
    assert signed["report"]["user_id"] == "u_123"
    assert (await client.get("/users/u_123")).status_code == 404
