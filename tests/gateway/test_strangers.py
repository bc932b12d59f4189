"""A stranger's body is not read, decoded, or stored: its first bytes identify the sender, and the rest stays unread."""

import json
import tempfile
import tracemalloc
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Message

import elytron
from elytron_adapter import envelope
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.admission_control import FairPlaces, LoadBounds
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.errors import InvalidInput, InvalidJson
from elytron_gateway import wire
from elytron_gateway.routes.forms import CREDENTIAL_BYTES
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

PIECE = 64 * 1024
BODY = 16 * 1024 * 1024 - 1
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n'
ROUTES = [
    ("/memories/search", JSON, b'{"scope":[' + b"1," * 100),
    ("/memories/add", JSON, b'{"user_id":"ada","user_key":"uk_wrong","messages":[' + b"{}," * 100),
    ("/memories/add", JSON, b'{"messages":[' + b"{}," * 22_000),
    ("/memories/flush", JSON, b"[" * 1000),
    ("/memories/add/multipart", FORM, FILE),
    ("/memories/add/multipart", FORM + "; charset=punycode", FILE),
    ("/resources", FORM, FILE),
    ("/resources", "application/x-www-form-urlencoded", b"user_id=ada&user_key=x&" + b"y=z&" * 100),
]


class Stranger:
    """Sends `begins`, and then as much as requested. `read` counts the bytes read."""

    def __init__(self, path: str, kind: str, begins: bytes, /, *, size: int = BODY) -> None:
        told = [(b"host", b"localhost"), (b"content-type", kind.encode()), (b"content-length", b"%d" % size)]
        self.scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "query_string": b""}
        self.scope |= {"headers": told, "client": ("198.51.100.7", 1), "http_version": "1.1", "scheme": "http"}
        self._begins = begins
        self._left = size
        self.read = 0
        self.status = 0

    async def receive(self) -> Message:
        piece = (self._begins + b"1," * PIECE)[: min(PIECE, self._left)]
        self._begins = b""
        self._left -= len(piece)
        self.read += len(piece)
        return {"type": "http.request", "body": piece, "more_body": self._left > 0}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


@pytest.fixture
def app(memory: elytron.MemoryRuntime, gateway: MemoryGateway) -> Starlette:
    admission = CallerAdmission(
        OperationDispatcher(memory),
        authenticator=DevelopmentCallers(),
        shedding=FairPlaces(LoadBounds(calls_per_minute=3)),
    )
    return create_app(admission, further=(gateway_surfaces(gateway),))


@pytest.mark.parametrize(("path", "kind", "begins"), ROUTES)
async def test_only_the_first_bytes_of_a_strangers_body_are_read(
    app: Starlette, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, begins: bytes
) -> None:
    def spools(*_: object, **__: object) -> None:
        raise AssertionError("a file was made for a stranger")

    async def ask() -> None:
        stranger = Stranger(path, kind, begins)
        await app(stranger.scope, stranger.receive, stranger.send)
        assert stranger.status in {401, 415, 429}
        assert stranger.read <= CREDENTIAL_BYTES + PIECE

    monkeypatch.setattr(tempfile, "TemporaryFile", spools)
    await ask()
    tracemalloc.start()
    try:
        for _ in range(10):
            await ask()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # List values create no objects, whose garbage collection would stop all callers.
    assert most < 8 * PIECE
    assert held < 2 * PIECE


async def test_a_known_users_body_counts_against_the_rate_before_it_is_read(
    app: Starlette, ada: dict[str, str]
) -> None:
    begins = json.dumps(ada).encode()[:-1] + b',"messages":['
    for status in (413, 413, 413, 429):
        stranger = Stranger("/memories/search", JSON, begins, size=BODY * 2)
        await app(stranger.scope, stranger.receive, stranger.send)
        assert (stranger.status, stranger.read <= CREDENTIAL_BYTES + PIECE) == (status, True)


@pytest.mark.parametrize("content", [lambda: "x" * CREDENTIAL_BYTES, lambda: [{"type": "text", "text": "Tea."}]])
async def test_credentials_after_a_long_body_are_not_waited_for(
    app: Starlette, ada: dict[str, str], content: Callable[[], object]
) -> None:
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": content()}
    last = {"session_id": "chat:c", "messages": [said], **ada}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answer = await client.post("/memories/add", json=last)
    if isinstance(said["content"], list):
        assert answer.status_code == 200
    else:
        assert (answer.status_code, "before other fields" in answer.json()["detail"]) == (401, True)


@pytest.mark.parametrize("at", [0, 1])
async def test_a_key_in_the_headers_lets_no_other_user_in(
    app: Starlette, ada: dict[str, str], bob: dict[str, str], at: int
) -> None:
    key = {"Authorization": f"Bearer {ada['user_key']}"} | ({"X-User-Id": "ada"} if at else {})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        own = await client.post("/memories/search", json={"query": "tea"}, headers=key)
        other = await client.post("/memories/search", json={"query": "tea", **bob}, headers=key)
    assert (own.status_code, other.status_code) == (200, 401)


@pytest.mark.parametrize("wrong", [b"[1],", b"{},", b'"x",'])
def test_many_invalid_items_yield_few_problems(wrong: bytes) -> None:
    items = (wrong * 150_000)[:-1]
    with pytest.raises(InvalidInput) as refused:
        envelope.decode_as(wire.GatewayAddRequest, b'{"session_id":"chat:c","messages":[' + items + b"]}")
    assert "messages.0" in str(refused.value)


@pytest.mark.parametrize(
    "many", [b"[" + b"1," * 600_000 + b"1]", b"{" + b",".join(b'"k%d":1' % number for number in range(10_001)) + b"}"]
)
def test_bodies_with_too_many_values_are_rejected(many: bytes) -> None:
    with pytest.raises(InvalidJson, match="more than"):
        envelope.decode_as(wire.GatewayAddRequest, many)


def test_commas_in_a_text_separate_no_values() -> None:
    told = json.dumps({"note": ',"[{' * 1_000_000}).encode()
    with pytest.raises(InvalidInput, match="unknown field"):
        envelope.decode_as(wire.GatewaySearchRequest, told)
