"""The gateway over an EverOS server: search, edits, buffering while it is down, and pauses while it fails."""

import base64
import socket
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest
from tests.gateway.everos import EverOs

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.clock import FrozenClock
from elytron_core.errors import GatewayRefused, InvalidInput, Unreachable, Unsupported, UnsupportedMedia
from elytron_core.ids import SpaceId
from elytron_core.ports.store import ErasureTarget
from elytron_gateway import wire
from elytron_gateway.messages import MessageUpload
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import GatewayOptions, MemoryGateway
from elytron_gateway.upstream.everos import EverOsUpstream, RetryPolicy
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

CHAT = "chat:c"
PATIENCE = RetryPolicy(attempts=3, failures=2, pause_ms=1_000)


class Waits:
    """Records requested waits without waiting."""

    def __init__(self) -> None:
        self.told: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.told.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def upstream(server: EverOs, clock: FrozenClock, waits: Waits) -> AsyncIterator[EverOsUpstream]:
    made = EverOsUpstream(server.url, clock=clock, patience=PATIENCE, wait=waits)
    yield made
    await made.close()


@pytest.fixture
def gateway(memory: elytron.MemoryRuntime, upstream: EverOsUpstream) -> MemoryGateway:
    return MemoryGateway(memory, upstream=upstream)


def add(who: dict[str, str], text: str) -> wire.GatewayAddRequest:
    said = {"sender_id": "x", "role": "user", "timestamp": 1, "content": text}
    return wire.GatewayAddRequest.model_validate({**who, "session_id": CHAT, "messages": [said]})


def asked(who: dict[str, str], query: str, *scope: str) -> wire.GatewaySearchRequest:
    return wire.GatewaySearchRequest.model_validate({**who, "query": query, "scope": scope, "conversation_id": "c"})


async def test_flushed_messages_are_found_upstream_with_their_raw_answer(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    await gateway.add(add(ada, "the boiler code"))
    waiting = await gateway.search(asked(ada, "boiler", "current_chat"))
    assert [(one.text, one.session_id) for one in waiting.results] == [("the boiler code", CHAT)]
    assert (await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))).status == "extracted"
    for scope in ("current_chat", "all_user_memory"):
        (hit,) = (await gateway.search(asked(ada, "boiler", scope))).results
        assert (hit.text, hit.session_id, hit.source_scope) == ("the boiler code", CHAT, scope)
        assert hit.raw["summary"] == "the boiler code"
    assert server.buffered == []
    assert server.episodes[0]["session_id"] == f"ada~{CHAT}"


async def test_the_upstream_is_queried_for_all_scopes_at_once(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    await gateway.add(add(ada, "the boiler code"))
    await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
    server.together = 2
    with anyio.fail_after(100):
        found = await gateway.search(asked(ada, "boiler", "all_user_memory", "current_chat"))
    assert [one.source_scope for one in found.results] == ["all_user_memory"]


async def test_edits_override_upstream_results(gateway: MemoryGateway, ada: dict[str, str]) -> None:
    await gateway.add(add(ada, "the boiler code"))
    await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
    (hit,) = (await gateway.search(asked(ada, "boiler", "current_chat"))).results
    edit = {**ada, "memory_id": hit.id, "session_id": CHAT}
    await gateway.override(wire.OverrideRequest(**edit, text="the heater secret"))
    for query in ("boiler", "heater"):
        (shown,) = (await gateway.search(asked(ada, query, "current_chat"))).results
        assert (shown.id, shown.text) == (hit.id, "the heater secret")
    await gateway.delete(wire.DeleteRequest.model_validate(edit))
    assert (await gateway.search(asked(ada, "boiler", "current_chat"))).results == ()
    with pytest.raises(Unsupported):
        await gateway.delete(wire.DeleteRequest.model_validate({**edit, "purge": True}))


async def test_a_resource_is_sent_upstream_and_found_there(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    made = await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(b"payment in thirty days", file_name="t.txt"))
    (hit,) = (await gateway.search(asked(ada, "payment", "resources"))).results
    assert (made.status, hit.resource_id) == ("extracted", made.resource_id)
    await gateway.delete_resource(wire.PlacedRequest(**ada), made.resource_id)
    assert (await gateway.search(asked(ada, "payment", "resources"))).results == ()
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    failed = await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(b"something else", file_name="t.txt"))
    assert failed.status in {"failed", "extracted"}


PICTURE = b"\x89PNG" + b"\0" * 60


def with_picture(who: dict[str, str]) -> wire.GatewayAddRequest:
    content = [
        {"type": "text", "text": "Our boiler:"},
        {"type": "image", "upload_id": "image_1", "name": "boiler.png"},
        {"type": "audio", "base64": base64.b64encode(b"RIFF").decode(), "ext": "wav"},
        {"type": "image", "uri": "https://inside.example/x.png"},
    ]
    said = {"sender_id": "x", "role": "user", "timestamp": 1, "content": content}
    return wire.GatewayAddRequest.model_validate({**who, "session_id": CHAT, "messages": [said]})


UPLOADS = {"image_1": MessageUpload("x.png", "image/png", PICTURE)}
IN_ITEMS = [
    {"type": "text", "text": "Our boiler:"},
    {"type": "image", "base64": base64.b64encode(PICTURE).decode(), "ext": "png", "name": "boiler.png"},
    {"type": "audio", "base64": base64.b64encode(b"RIFF").decode(), "ext": "wav"},
    {"type": "text", "text": "[image: https://inside.example/x.png]"},
]
IN_WORDS = "Our boiler:\n[image: boiler.png]\n[audio]\n[image: https://inside.example/x.png]"


async def test_files_are_sent_as_received_without_their_address(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    answer = await gateway.add(with_picture(ada), uploads=UPLOADS)
    assert [(one.type, one.size) for one in answer.attachments] == [("image", 64), ("audio", 4), ("image", 0)]
    assert [one["content"] for one in server.buffered] == [IN_ITEMS]


@pytest.mark.parametrize("status", [415, 422])
async def test_an_upstream_without_file_support_gets_text(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, status: int
) -> None:
    server.reads_no_files = status
    assert (await gateway.add(with_picture(ada), uploads=UPLOADS)).status == "accumulated"
    assert [one["content"] for one in server.buffered] == [IN_WORDS]


async def test_files_wait_with_their_message_while_the_upstream_is_down(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    assert (await gateway.add(with_picture(ada), uploads=UPLOADS)).status == "queued"
    server.refusing = None
    assert (await gateway.drain()).told == 1
    assert [one["content"] for one in server.buffered] == [IN_ITEMS]


async def test_a_message_whose_files_are_gone_is_sent_as_text(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, memory: elytron.MemoryRuntime
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    await gateway.add(with_picture(ada), uploads=UPLOADS)
    space, ctx = SpaceId("ada"), memory.context
    keys = tuple(found.ref.key for found in await ctx.store.scan(space, "gateway_attachments", limit=10))
    await ctx.store.erase(ErasureTarget(space=space, at=ctx.clock.now(), blobs=keys))
    server.refusing = None
    assert (await gateway.drain()).told == 1
    assert [one["content"] for one in server.buffered] == [IN_WORDS]


async def test_a_refused_message_leaves_no_file(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, memory: elytron.MemoryRuntime
) -> None:
    server.refusing = (400, "BAD_REQUEST")
    with pytest.raises(GatewayRefused):
        await gateway.add(with_picture(ada), uploads=UPLOADS)
    assert not await memory.context.store.scan(SpaceId("ada"), "gateway_attachments", limit=10)
    assert (await gateway.usage("ada")).messages == 0


async def test_messages_the_upstream_cannot_accept_are_stored_and_sent_in_order(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, clock: FrozenClock
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    first = await gateway.add(add(ada, "one"))
    second = await gateway.add(add(ada, "two"))
    assert (first.status, second.status) == ("queued", "queued")
    health = await gateway.health()
    assert (health.status, health.backlog, health.upstream) == ("degraded", 2, "remote")
    server.refusing = None
    clock.advance(PATIENCE.pause_ms)
    assert (await gateway.add(add(ada, "three"))).status == "accumulated"
    assert [one["content"] for one in server.buffered] == ["one", "two", "three"]
    assert (await gateway.health()).backlog == 0
    assert await gateway.drain() == wire.DrainAnswer(told=0, backlog=0)


async def test_an_operator_drains_the_backlog_without_another_message(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, clock: FrozenClock
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    await gateway.add(add(ada, "one"))
    with pytest.raises(Unreachable):
        await gateway.drain()
    server.refusing = None
    clock.advance(PATIENCE.pause_ms)
    assert await gateway.drain() == wire.DrainAnswer(told=1, backlog=0)
    assert [one["content"] for one in server.buffered] == ["one"]


async def test_an_operator_can_drain_during_the_pause(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    for text in ("one", "two"):
        await gateway.add(add(ada, text))
    server.refusing = None
    with pytest.raises(Unreachable, match="will not be called"):
        await gateway.search(asked(ada, "one", "all_user_memory"))
    assert (await gateway.health()).status == "degraded"
    assert await gateway.drain() == wire.DrainAnswer(told=2, backlog=0)
    assert (await gateway.search(asked(ada, "one", "current_chat"))).results
    assert (await gateway.health()).status == "ok"


async def test_the_upstream_is_unhealthy_while_it_is_paused(
    upstream: EverOsUpstream, gateway: MemoryGateway, ada: dict[str, str], server: EverOs, clock: FrozenClock
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    for _ in range(PATIENCE.failures):
        with pytest.raises(Unreachable):
            await gateway.search(asked(ada, "x", "all_user_memory"))
    server.refusing = None
    assert not await upstream.healthy()
    clock.advance(PATIENCE.pause_ms)
    assert await upstream.healthy()


async def test_a_failed_upstream_flush_is_done_by_the_next_one(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, clock: FrozenClock
) -> None:
    await gateway.add(add(ada, "the boiler code"))
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    with pytest.raises(Unreachable):
        await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
    server.refusing = None
    clock.advance(PATIENCE.pause_ms)
    assert (await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))).status == "extracted"


async def test_transient_failures_are_retried_a_few_times_and_refusals_never(
    upstream: EverOsUpstream, server: EverOs, waits: Waits, gateway: MemoryGateway, ada: dict[str, str]
) -> None:
    server.refusing = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
    with pytest.raises(Unreachable):
        await gateway.search(asked(ada, "x", "all_user_memory"))
    assert (server.calls, waits.told) == (["search"] * 3, [0.2, 0.8])
    server.calls.clear()
    for refusing in ((422, "INVALID_INPUT"), (503, "CAPABILITY_UNAVAILABLE")):
        server.refusing = refusing
        with pytest.raises(GatewayRefused, match=refusing[1]) as refused:
            await gateway.search(asked(ada, "x", "all_user_memory"))
        assert "said" not in refused.value.message
    assert server.calls == ["search"] * 2


async def test_after_repeated_failures_the_upstream_is_not_called_for_a_while(
    server: EverOs, clock: FrozenClock, gateway: MemoryGateway, ada: dict[str, str]
) -> None:
    server.refusing = (502, "")
    for _ in range(PATIENCE.failures + 1):
        with pytest.raises(Unreachable):
            await gateway.search(asked(ada, "x", "all_user_memory"))
    assert len(server.calls) == PATIENCE.failures * PATIENCE.attempts
    server.refusing = None
    clock.advance(PATIENCE.pause_ms)
    assert (await gateway.search(asked(ada, "x", "all_user_memory"))).results == ()


async def test_a_missing_upstream_is_unhealthy_and_invalid_addresses_are_rejected(clock: FrozenClock) -> None:
    gone = EverOsUpstream("http://127.0.0.1:9", clock=clock, wait=Waits())
    assert not await gone.healthy()
    await gone.close()
    for url in ("ftp://x", "nonsense"):
        with pytest.raises(InvalidInput):
            EverOsUpstream(url, clock=clock)


async def test_an_upstream_without_a_health_answer_is_not_awaited(
    clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_gateway.upstream.everos.HEALTH_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = EverOsUpstream(f"http://127.0.0.1:{silent.getsockname()[1]}", clock=clock)
        with anyio.fail_after(100):
            assert not await upstream.healthy()
        await upstream.close()


MEDIA = {
    "boiler.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 60, "image", "png"),
    "boiler.jpg": (b"\xff\xd8\xff\xe0" + b"\0" * 60, "image", "jpg"),
    "call.mp3": (b"ID3\x04" + b"\xff\x00" * 30, "audio", "mp3"),
    "call.wav": (b"RIFF\x24\xf0\x00\x00WAVEfmt " + b"\0\xff" * 30, "audio", "wav"),
    "call.m4a": (b"\0\0\0\x20ftypM4A " + b"\0\xff" * 30, "audio", "m4a"),
}


@pytest.mark.parametrize("name", MEDIA)
async def test_with_a_capable_upstream_pictures_and_sounds_are_resources(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, name: str
) -> None:
    data, kind, ending = MEDIA[name]
    made = await gateway.upload(
        wire.PlacedRequest(**ada), UploadedFile(data, file_name=name, title="Our boiler at home")
    )
    assert (made.status, made.chunks) == ("extracted", 1)
    (hit,) = (await gateway.search(asked(ada, "boiler", "resources"))).results
    assert hit.resource_id == made.resource_id
    sent = {"type": kind, "base64": base64.b64encode(data).decode(), "ext": ending, "name": name}
    assert str([{"type": "text", "text": "Our boiler at home"}, sent]) in server.episodes[0]["episode"]


async def test_a_picture_refused_by_the_upstream_is_a_failed_resource(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    server.reads_no_files = 415
    made = await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(MEDIA["boiler.png"][0], file_name="boiler.png"))
    assert (made.status, server.buffered) == ("failed", [])
    server.reads_no_files = None
    assert (await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(MEDIA["boiler.png"][0]))).status == "extracted"


async def test_without_a_capable_upstream_a_picture_is_not_a_resource(
    memory: elytron.MemoryRuntime, ada: dict[str, str]
) -> None:
    wanted = GatewayOptions(resource_types=frozenset({"image/png", "text/plain"}))
    for options in (None, wanted):
        alone = MemoryGateway(memory, options=options)
        with pytest.raises(UnsupportedMedia):
            await alone.upload(wire.PlacedRequest(**ada), UploadedFile(MEDIA["boiler.png"][0], file_name="boiler.png"))


async def test_a_server_accepts_the_picture_types_its_operator_names(
    memory: elytron.MemoryRuntime, ada: dict[str, str], server: EverOs
) -> None:
    async with open_surfaces(memory, SurfaceOptions(upstream=server.url, types=("image/png",))) as told:
        app = create_app(memory, authenticator=DevelopmentCallers(), further=told.further)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            files = {"a.png": MEDIA["boiler.png"][0], "a.jpg": MEDIA["boiler.jpg"][0], "a.txt": b"words"}
            sent = [await client.post("/resources", data=ada, files={"file": item}) for item in files.items()]
    assert [answer.status_code for answer in sent] == [200, 415, 415]
