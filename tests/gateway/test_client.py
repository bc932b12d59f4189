"""The client talks to the application; errors are typed and contain no key."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_core.errors import GatewayRefused, InvalidInput, PayloadTooLarge, Unreachable, UnreadableFile
from elytron_gateway.client import MemoryGatewayClient, SyncMemoryGatewayClient
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

SAID = [{"sender_id": "ada", "role": "user", "timestamp": 1, "content": "The boiler code is 4417."}]


@pytest.fixture
def client(memory: elytron.MemoryRuntime, gateway: MemoryGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Route the client's connections to the application, in this process."""
    app = create_app(memory, authenticator=DevelopmentCallers(), further=(gateway_surfaces(gateway),))

    class Within(httpx.AsyncClient):
        def __init__(self, **options: Any) -> None:
            super().__init__(transport=httpx.ASGITransport(app), **options)

    monkeypatch.setattr(httpx, "AsyncClient", Within)
    return iter(["http://localhost:8010"])


@pytest.fixture
async def mine(client: Iterator[str]) -> MemoryGatewayClient:
    url = next(client)
    made = await MemoryGatewayClient(url, provisioning_key="operator").create_user("ada")
    return MemoryGatewayClient(url, user_id=made.user_id, user_key=made.user_key)


async def test_every_call_returns_its_answer(mine: MemoryGatewayClient, tmp_path: Path) -> None:
    async with mine as client:
        assert (await client.health()).status == "ok"
        assert (await client.add("chat:c", SAID, idempotency_key="once")).message_count == 1
        assert (await client.flush("chat:c")).status == "extracted"
        (hit,) = (await client.search("boiler code", scope=["current_chat"], conversation_id="c")).results
        assert (hit.text, hit.raw) == ("The boiler code is 4417.", {})
        await client.override(hit.id, session_id="chat:c", text="It is 4430.")
        assert [edit.kind for edit in (await client.edits()).edits] == ["override"]
        await client.undo(hit.id, session_id="chat:c")
        await client.delete(hit.id, session_id="chat:c", purge=True)
        assert (await client.search("boiler code", scope=["all_user_memory"])).results == ()
        paper = tmp_path / "terms.md"
        paper.write_text("# Terms\n\nThirty days.")
        made = await client.upload_resource(paper, title="Terms")
        assert (await client.list_resources()).resources == (await client.get_resource(made.resource_id)).resources
        assert (await client.delete_resource(made.resource_id)).deleted
        picture = tmp_path / "x.png"
        picture.write_bytes(b"\x89PNG")
        shown = [SAID[0] | {"content": [{"type": "image", "upload_id": "one"}]}]
        assert (await client.add_with_files("chat:c", shown, {"one": picture})).attachments[0].size == 4
        with pytest.raises(GatewayRefused) as refused:
            await client.register_resource("http://localhost/x")
        assert refused.value.details() == {"status": 403}


async def test_a_refusal_shows_the_status_without_the_key(client: Iterator[str]) -> None:
    stranger = MemoryGatewayClient(next(client), user_id="ada", user_key="uk_secret")
    with pytest.raises(GatewayRefused, match="Memory Gateway returned HTTP 401: invalid user credentials") as refused:
        await stranger.search("x")
    assert "uk_secret" not in repr(refused.value) + repr(stranger.account)


def test_a_missing_server_is_unreachable() -> None:
    with SyncMemoryGatewayClient("http://127.0.0.1:9", timeout_s=2) as client, pytest.raises(Unreachable) as failed:
        client.health()
    assert failed.value.retryable


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (503, '{"detail": "uk_secret is busy"}', Unreachable),
        (500, "oops", Unreachable),
        (403, '{"error": ["x"]}', GatewayRefused),
        (200, "[]", Unreachable),
        (200, '{"results": 1}', Unreachable),
    ],
)
def test_strange_answers_are_typed_errors_without_the_key(status: int, text: str, error: type[Exception]) -> None:
    client = SyncMemoryGatewayClient("http://127.0.0.1:9", user_id="ada", user_key="uk_secret")
    client._http = httpx.Client(transport=httpx.MockTransport(lambda _request: httpx.Response(status, text=text)))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(error) as failed:
        client.search("x")
    assert "uk_secret" not in str(failed.value)


def test_missing_or_invalid_arguments_are_reported_before_sending(tmp_path: Path) -> None:
    client = SyncMemoryGatewayClient()
    with pytest.raises(InvalidInput, match="user_id and user_key"):
        client.list_resources()
    for url in ("ftp://x", "nonsense", "http://me:secret@host"):
        with pytest.raises(InvalidInput, match="base_url"):
            SyncMemoryGatewayClient(url)
    with pytest.raises(InvalidInput, match="timeout"):
        SyncMemoryGatewayClient(timeout_s=0)
    known = SyncMemoryGatewayClient(user_id="ada", user_key="k")
    with pytest.raises(UnreadableFile):
        known.upload_resource(tmp_path / "missing.md")
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    with pytest.raises(PayloadTooLarge):
        known.upload_resource(large)


async def test_only_a_named_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b'{"status": "ok", "upstream": "none"}'

    async def stand_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(answer)}\r\n\r\n"
        writer.write(head.encode() + answer)
        writer.close()

    async with await asyncio.start_server(stand_in, "127.0.0.1", 0) as proxy:
        there = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("http_proxy", there)
        async with MemoryGatewayClient("http://memory.invalid:9") as client:
            with pytest.raises(Unreachable):
                await client.health()
        async with MemoryGatewayClient("http://memory.invalid:9", proxy=there) as client:
            assert (await client.health()).status == "ok"
        with SyncMemoryGatewayClient("http://memory.invalid:9", proxy=there) as blocking:
            assert (await asyncio.to_thread(blocking.health)).status == "ok"
