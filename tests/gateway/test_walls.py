"""Nothing is read across users, apps, and projects, whatever their ids; no error reveals a secret or content."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_gateway import names, wire
from elytron_gateway.client import MemoryGatewayClient
from elytron_gateway.names import MemoryOwner, SessionKind
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_http_shell import create_app

LOOK_ALIKE = "aA\u0430\u00e5\u0061\u030a0Oo1lI./:@-_%~\\ \u200b\u202e\uff41\x00"
IDS = st.from_regex(names.ID_PATTERN, fullmatch=True).filter(lambda text: len(text) <= 20 and text.isascii())
NAMES = st.text(LOOK_ALIKE, min_size=1, max_size=12)
EVERY = ("current_chat", "resources", "all_user_memory")


@given(user=NAMES, rest=NAMES)
def test_unusual_ids_are_rejected_everywhere(user: str, rest: str) -> None:
    for text in (user, f"{user}/{rest}", f"{user}:{rest}"):
        try:
            names.require_user_id(text)
        except InvalidInput:
            continue
        assert text.isascii()
        assert not set(text) & set("/:\\%~ \x00\n")
        assert not text.startswith((".", "@"))


@given(first=st.tuples(IDS, IDS, IDS), second=st.tuples(IDS, IDS, IDS))
def test_two_owners_never_share_a_space(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    assert (MemoryOwner(*first).space == MemoryOwner(*second).space) is (first == second)


@given(text=st.text(LOOK_ALIKE + "chatresoumy_di", max_size=40) | st.builds("chat:{}".format, NAMES))
def test_a_session_id_is_refused_or_means_itself(text: str) -> None:
    try:
        parsed = names.parse_session(text)
    except InvalidInput:
        return
    assert str(parsed) == text
    assert (parsed.user is None) is (parsed.kind is SessionKind.CHAT)


@given(user=IDS, other=IDS, key=st.from_regex(r"r_[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_a_session_that_names_a_user_belongs_only_to_that_user(user: str, other: str, key: str) -> None:
    for session in (names.resource_session(user, key), names.memory_edit(user)):
        assert names.owned_session(session, MemoryOwner(user)).user == user
        if other != user:
            with pytest.raises(PermissionRefused):
                names.owned_session(session, MemoryOwner(other))


@settings(max_examples=10)
@given(
    owners=st.lists(
        st.tuples(
            st.sampled_from(["ada", "Ada", "ada.", "ada-default", "ada.default"]),
            st.sampled_from(["default", "Default", "ada"]),
            st.sampled_from(["default", "default.", "ada"]),
        ),
        min_size=2,
        max_size=4,
        unique=True,
    ),
    chat=st.text(LOOK_ALIKE.replace("\x00", ""), min_size=1, max_size=6).filter(lambda text: text.strip() == text),
)
def test_one_conversation_id_under_many_owners_is_many_conversations(
    owners: list[tuple[str, str, str]], chat: str
) -> None:
    asyncio.run(_many(owners, chat))


async def _many(owners: list[tuple[str, str, str]], chat: str) -> None:
    async with elytron.open("memory:", space=None) as memory:
        gateway = MemoryGateway(memory)
        placed: list[dict[str, str]] = []
        try:
            for number, (user, app, project) in enumerate(owners):
                made = (await gateway.create_user(wire.UserRequest(user_id=user))).model_dump()
                placed.append({**made, "app_id": app, "project_id": project})
                said = {"sender_id": user, "role": "user", "timestamp": 1, "content": f"harbour secret {number}"}
                place = {**placed[-1], "session_id": f"chat:{chat}", "messages": [said]}
                await gateway.add(wire.GatewayAddRequest.model_validate(place))
        except InvalidInput:
            return  # a conversation id that no server accepts
        for number, place in enumerate(placed):
            asked = {**place, "query": "harbour secret", "conversation_id": chat, "scope": EVERY}
            found = await gateway.search(wire.GatewaySearchRequest.model_validate(asked))
            assert {result.text for result in found.results} == {f"harbour secret {number}"}
            for result in found.results:
                for other in (other for other in placed if other is not place):
                    edit = {**other, "memory_id": result.id, "session_id": f"chat:{chat}"}
                    with pytest.raises(ElytronError):
                        await gateway.override(wire.OverrideRequest(**edit, text="stolen"))


CANARY = "canary-harbour-4417"


@pytest.fixture
async def caller(memory: elytron.MemoryRuntime, gateway: MemoryGateway) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(memory, further=(gateway_surfaces(gateway),))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8010") as connected:
        yield connected


def wrong(who: dict[str, str]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return failing requests with secrets and content in every place that might be echoed."""
    message = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": CANARY}
    memory = {"memory_id": CANARY, "session_id": "chat:c"}
    stranger = {**who, "user_id": "bob"}
    bodies: list[dict[str, Any]] = [
        {**stranger, "query": CANARY, "session_id": "chat:c", "messages": [message], **memory, "text": CANARY},
        {**who, CANARY: CANARY},
        {**who, "query": [CANARY], "session_id": CANARY, "messages": CANARY, "memory_id": [CANARY], "uri": CANARY},
        {**who, "query": CANARY * limits.QUERY_CHARS, "session_id": f"resource:{CANARY}:x", "messages": [message]},
        {**who, "session_id": "chat:c", "messages": [{**message, "role": CANARY, "timestamp": CANARY}]},
        {**who, "session_id": "chat:c", "messages": [{**message, "content": [{"type": "pdf", "base64": CANARY}]}]},
        {**who, "session_id": "chat:c", "messages": [{**message, "content": [{"type": "text", "uri": CANARY}]}]},
        {**who, "session_id": f"memory_edit:{CANARY}", "memory_id": CANARY, "text": CANARY, "messages": [message]},
        {**who, "uri": f"file:///{CANARY}"},
        {**who, "uri": f"http://{who['user_key']}:{CANARY}@localhost/"},
    ]
    paths = ("add", "flush", "search", "override", "delete", "undo", "edits")
    calls = [("POST", f"/memories/{path}", {"json": body}) for path in paths for body in bodies]
    calls += [("POST", path, {"json": body}) for path in ("/resources/external", "/users") for body in bodies]
    calls += [("POST", path, {"content": CANARY, "headers": {"Content-Type": "application/json"}})
              for path in ("/users", "/memories/add", "/memories/search", "/resources/external")]  # fmt: skip
    png = {"file": (f"{CANARY}.png", b"\x89PNG\r\n\x1a\n\0\0", "image/png")}
    calls += [
        ("POST", "/resources", {"data": who, "files": png}),
        ("POST", "/resources", {"data": {**who, CANARY: CANARY}, "files": png}),
        ("POST", "/resources", {"data": stranger, "files": png}),
        ("POST", "/resources", {"json": {**who, "query": CANARY}}),
        ("POST", "/memories/add/multipart", {"data": {**who, "messages": CANARY}, "files": png}),
        ("GET", "/resources", {"params": {**stranger, "app_id": CANARY}}),
        ("GET", "/resources", {"params": {**who, "app_id": f"/{CANARY}/"}}),
        ("DELETE", "/resources/r_x", {"params": stranger}),
        ("DELETE", "/users/ada", {"headers": {"Authorization": f"Bearer {who['user_key']}"}}),
        ("GET", "/users", {"headers": {"Authorization": f"Bearer {CANARY}"}}),
        ("POST", "/backlog/drain", {"headers": {"Authorization": f"Bearer {who['user_key']}"}}),
    ]  # fmt: skip
    return calls


@pytest.mark.anyio
async def test_no_failure_reveals_a_key_or_content_in_body_or_log(
    caller: httpx.AsyncClient, memory: elytron.MemoryRuntime, ada: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provisioning = (await AccessKeys(memory.context).add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="x"))).key
    for method, path, sent in wrong(ada):
        headers = {"X-Provisioning": provisioning} | sent.pop("headers", {})
        answer = await caller.request(method, path, headers=headers, **sent)
        assert answer.status_code in {400, 401, 403, 404, 413, 415, 422}, (path, answer.status_code, answer.text)
        told = answer.text + json.dumps(dict(answer.headers))
        for secret in (ada["user_key"], provisioning, CANARY):
            assert secret not in told, (path, told)
    # The test's client logs its request addresses; only the server's log is checked.
    logged = "\n".join(
        f"{record.getMessage()} {record.__dict__}" for record in caplog.records if not record.name.startswith("httpx")
    )
    for secret in (ada["user_key"], provisioning, CANARY):
        assert secret not in logged


@pytest.mark.anyio
async def test_no_client_error_reveals_a_key_or_content(
    memory: elytron.MemoryRuntime,
    gateway: MemoryGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    transport = httpx.ASGITransport(create_app(memory, further=(gateway_surfaces(gateway),)))

    class Within(httpx.AsyncClient):
        def __init__(self, **options: Any) -> None:
            super().__init__(transport=transport, **options)

    monkeypatch.setattr(httpx, "AsyncClient", Within)
    keys = ("uk_canary", "ely_operator_canary")
    client = MemoryGatewayClient("http://localhost:8010", user_id="ada", user_key=keys[0], provisioning_key=keys[1])
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": CANARY}
    calls = [
        client.create_user("ada"),
        client.search(CANARY),
        client.add("chat:c", [said]),
        client.flush("chat:c"),
        client.override("x", session_id="chat:c", text=CANARY),
        client.delete("x", session_id="chat:c", reason=CANARY),
        client.list_resources(),
        client.delete_resource("r_x"),
        client.erase_user("ada"),
        client.list_users(),
    ]
    for call in calls:
        with pytest.raises(ElytronError) as failed:
            await call
        told = f"{failed.value!r} {failed.value} {failed.value.details()} {failed.value.__cause__}"
        assert not [secret for secret in (*keys, CANARY) if secret in told]
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert not [secret for secret in (*keys, CANARY) if secret in logged]
