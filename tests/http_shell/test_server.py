"""A real server on a real port: who may start it, how it stops, and that nothing accepted is lost."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator

import httpx
import pytest
from tests.http_shell.conftest import bearer

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.admission_control import LoadBounds
from elytron_adapter.surface import Family
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, StartedServer, is_loopback, serve_http, served_http

pytestmark = pytest.mark.anyio

SAID = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}


async def test_a_server_listens_answers_and_stops(runtime: MemoryRuntime) -> None:
    async with served_http(runtime, ServingSettings(port=0, development=True)) as started:
        assert started.address.startswith("http://127.0.0.1:")
        assert "development" in started.mode
        async with httpx.AsyncClient(base_url=started.address, timeout=60) as client:
            assert (await client.post("/v1/write", json=SAID)).status_code == 200
            assert "server" not in (await client.get("/livez")).headers
    assert len((await runtime.list()).items) == 1, "the runtime is its opener's, and still open"


@pytest.mark.parametrize(("proxies", "is_secure"), [(["127.0.0.0/8"], True), ([""], False), (["192.0.2.1"], False)])
async def test_the_event_cookie_is_secure_behind_a_trusted_proxy(
    runtime: MemoryRuntime, proxies: list[str], is_secure: bool
) -> None:
    serving = ServingSettings(port=0, operator_key=True, trusted_proxies=frozenset(filter(None, proxies)))
    async with served_http(runtime, serving) as started:
        headers = bearer(started.operator_key or "") | {"X-Forwarded-Proto": "https"}
        async with httpx.AsyncClient(base_url=started.address, headers=headers, timeout=60) as client:
            cookie = (await client.post("/v1/events/session")).headers["set-cookie"]
    assert ("Secure" in cookie) is is_secure


async def test_an_invalid_address_is_not_a_trusted_proxy(runtime: MemoryRuntime) -> None:
    with pytest.raises(InvalidInput, match="trusted_proxies"):
        async with served_http(
            runtime, ServingSettings(port=0, development=True, trusted_proxies=frozenset({"proxy.local"}))
        ):
            pass


@pytest.mark.parametrize(("most", "told"), [(1, [401, 429]), (0, [401, 401])])
async def test_the_operator_limits_wrong_credentials(runtime: MemoryRuntime, most: int, told: list[int]) -> None:
    bounds = LoadBounds(wrong_credentials_per_minute=most)
    async with (
        served_http(runtime, ServingSettings(port=0, operator_key=True, bounds=bounds)) as started,
        httpx.AsyncClient(base_url=started.address, headers=bearer("ely_user_x_y"), timeout=60) as client,
    ):
        assert [(await client.post("/v1/list", json={})).status_code for _ in told] == told


async def test_a_signal_stops_the_server(runtime: MemoryRuntime) -> None:
    listening: asyncio.Future[StartedServer] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve_http(runtime, ServingSettings(port=0, development=True), started=listening.set_result)
    )
    await asyncio.wait([listening, task], return_when=asyncio.FIRST_COMPLETED)
    assert listening.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await task


async def test_an_embedded_server_leaves_signals_alone_and_ends_with_its_block(runtime: MemoryRuntime) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def failing() -> None:
        async with served_http(runtime, ServingSettings(port=0, development=True)) as started:
            assert signal.getsignal(signal.SIGTERM) is before
            raise LookupError(started.address)

    with pytest.raises(LookupError) as raised:
        await failing()
    port = int(str(raised.value).rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_cancelled_start_leaves_no_server_behind(runtime: MemoryRuntime) -> None:
    async def whole() -> None:
        async with served_http(runtime, ServingSettings(port=0, development=True)):
            raise AssertionError("it was given up before it began")

    before = asyncio.all_tasks()
    waiting = asyncio.create_task(whole())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == before


def test_a_server_in_another_thread_leaves_signals_alone() -> None:
    async def whole() -> None:
        async with elytron.open("memory:") as memory:
            await serve_http(memory, ServingSettings(port=0, development=True), started=lambda told: told.end())

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(whole()), daemon=True)
    thread.start()
    thread.join(timeout=100)
    assert not thread.is_alive()
    assert signal.getsignal(signal.SIGTERM) is before


async def test_the_first_operator_key_is_created_once(runtime: MemoryRuntime) -> None:
    async with served_http(runtime, ServingSettings(port=0, operator_key=True)) as started:
        assert started.operator_key is not None
        async with httpx.AsyncClient(base_url=started.address, timeout=60) as client:
            assert (await client.post("/v1/write", json=SAID)).status_code == 401
            listed = await client.get("/v1/access", headers=bearer(started.operator_key))
            assert [item["kind"] for item in listed.json()["items"]] == ["operator"]
    async with served_http(runtime, ServingSettings(port=0, operator_key=True)) as started:
        assert started.operator_key is None


async def test_a_server_beyond_this_machine_requires_a_key(runtime: MemoryRuntime) -> None:
    def started(_told: StartedServer) -> None:
        raise AssertionError("it listens")

    with pytest.raises(PermissionRefused, match="access add"):
        await serve_http(runtime, ServingSettings(host="0.0.0.0", port=0), started=started)
    with pytest.raises(PermissionRefused, match="development"):
        await serve_http(runtime, ServingSettings(host="0.0.0.0", port=0, development=True), started=started)
    with pytest.raises(PermissionRefused, match="development"):
        await serve_http(runtime, ServingSettings(host="memory.example", port=0, development=True), started=started)


async def test_with_a_key_a_server_answers_only_under_its_names(runtime: MemoryRuntime) -> None:
    request = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="laptop")
    key = (await AccessKeys(runtime.context).add(request)).key
    serving = ServingSettings(host="0.0.0.0", port=0, names=frozenset({"Memory.example"}))
    async with served_http(runtime, serving) as started:
        port = started.address.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=bearer(key), timeout=60) as client:
            for host, status in (("memory.example", 200), ("evil.example", 403), ("127.0.0.1", 200)):
                response = await client.post("/v1/list", json={}, headers={"Host": host})
                assert response.status_code == status


async def test_an_address_in_use_is_reported(runtime: MemoryRuntime) -> None:
    async with served_http(runtime, ServingSettings(port=0, development=True)) as started:
        port = int(started.address.rpartition(":")[2])
        with pytest.raises(InvalidInput, match="cannot be bound"):
            async with served_http(runtime, ServingSettings(port=port, development=True)):
                raise AssertionError("it listens")


async def test_accepted_requests_finish_before_the_server_stops(runtime: MemoryRuntime) -> None:
    body = json.dumps(SAID).encode()
    async with served_http(runtime, ServingSettings(port=0, development=True)) as started:
        host, _, port = started.address.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = "POST /v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
        async with httpx.AsyncClient(base_url=started.address, timeout=60) as client:
            await client.get("/livez")  # the first half has been read by now
        asyncio.get_running_loop().call_later(0.05, writer.write, body[10:])
    assert b" 200 " in await reader.readline()
    writer.close()
    assert len((await runtime.list()).items) == 1


async def test_a_slow_body_is_aborted(runtime: MemoryRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_BODY_WAIT_S", 0.05)
    async with served_http(runtime, ServingSettings(port=0, development=True)) as started:
        host, _, port = started.address.removeprefix("http://").rpartition(":")
        for path, media_type in (("POST /v1/recall", "application/json"), ("PUT /v1/archive", "application/zip")):
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: 9\r\n\r\n{{"
            writer.write(head.encode())
            assert b" 408 " in await reader.readline()
            writer.close()
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 9\r\n\r\n{")
        await writer.drain()
        writer.close()  # disconnected before sending everything


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.0.1", False), ("memory.example", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses_are_distinguished_from_others(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_spans_need_their_extra(runtime: MemoryRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ElytronError, match="otel"):
        await serve_http(runtime, ServingSettings(port=0, development=True, spans=True), started=lambda _: None)


async def test_an_interrupt_before_the_start_leaves_nothing_running(runtime: MemoryRuntime) -> None:
    def interrupted() -> Iterator[Family]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        yield from ()

    before = asyncio.all_tasks()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(
            serve_http(runtime, ServingSettings(port=0, development=True), started=print, further=interrupted())
        )
    assert asyncio.all_tasks() <= before
