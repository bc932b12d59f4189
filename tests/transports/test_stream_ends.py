"""Every stream ends for every listed reason, before it sends another event."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.transports.serving import Served, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http import open_streams
from elytron_adapter.surface import Route, Surface, build_surfaces, own_app
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_console import ConsoleHost
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import PutChange
from elytron_store.secret.records import SECRET_SLOT, SecretRenewal, SecretSlotState, fresh_inner, secret_batch

pytestmark = pytest.mark.anyio
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
PART = b"a part\n"


class Caller:
    """A server, its operator, and a user whose streams are ended."""

    def __init__(self, server: Served, operator: str, user: str) -> None:
        self.server = server
        self.user = {"Authorization": f"Bearer {user}"}
        self.operator = {"Authorization": f"Bearer {operator}"}
        self.key_id = user.split("_")[2]

    async def send(self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> None:
        async with httpx.AsyncClient(base_url=self.server.url, trust_env=False, timeout=60) as client:
            answer = await client.request(method, path, json=body, headers=headers or self.operator)
            assert answer.is_success, answer.text

    async def quota(self, calls: int) -> None:
        await self.send("PUT", f"/v1/access/{self.key_id}/quota", {"calls_per_day": calls})


async def switch_off(caller: Caller) -> None:
    for transport in ("http", "wss"):
        await caller.send("PATCH", f"/console/transports/{transport}", {"enabled": False})


async def revoke(caller: Caller) -> None:
    await caller.send("DELETE", f"/console/devices/{caller.key_id}")


async def lower_quota(caller: Caller) -> None:
    await caller.quota(100)
    for _ in range(3):
        await caller.send("POST", "/v1/inspect", {}, headers=caller.user)
    await caller.quota(1)


async def lock(caller: Caller) -> None:
    await caller.send("POST", "/v1/secret/lock", {}, headers=caller.user)


async def reseal(caller: Caller) -> None:
    """Preserve the space while its content is sealed under a new data key."""
    store, space = caller.server.memory.context.secrets.store, SpaceId("ada")
    found = await store.slots.read(space)
    assert found is not None
    until = Instant(store.clock.now() + 3_600_000)
    renewal = {"state": SecretSlotState.RENEWING, "renewal": SecretRenewal(inner=fresh_inner()), "until": until}
    put = PutChange(SECRET_SLOT, found[0].model_copy(update=renewal).to_bytes(), found[1])
    await store.inner.commit(secret_batch(space, store.clock, put))


CAUSES: tuple[tuple[Any, Callable[[Caller], Awaitable[None]], str], ...] = (
    (open_streams.require_transport, switch_off, "transport_off"),
    (open_streams.require_caller, revoke, "unauthorized"),
    (open_streams.require_quota, lower_quota, "rate_limited"),
    (open_streams.require_space, lock, "space_locked"),
    (open_streams.require_space, reseal, "space_incomplete"),
)
STREAMS = ("/v1/agent/events", "/v1/events")


def family(_admission: CallerAdmission) -> Iterable[Surface]:
    """Return a stream that makes no calls itself."""

    async def endless(_scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": PART, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    return build_surfaces((Route("GET", "/endless", endless, "endless", "Never end."),), own_app)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    wanted = SurfaceOptions(console=ConsoleHost(), agent=ServiceSettings(models=("chat:m@http://127.0.0.1:1/v1",)))
    async with served(wanted, further=(family,)) as server, asyncio.timeout(120):
        keys = await server.key(PrincipalKind.OPERATOR, None), await server.key(PrincipalKind.USER, "ada")
        caller = Caller(server, *keys)
        await caller.send("POST", "/v1/add", {"text": "tea"}, headers=caller.user)
        await caller.send("POST", "/v1/agent/init", {}, headers=caller.user)
        await caller.send("POST", "/v1/secret", {"words": WORDS}, headers=caller.user)
        yield caller


def test_each_reason_has_a_cause_in_the_test() -> None:
    assert tuple(dict.fromkeys(reason for reason, *_ in CAUSES)) == open_streams.REASONS


async def test_each_described_stream_is_tested(caller: Caller) -> None:
    async with httpx.AsyncClient(base_url=caller.server.url, trust_env=False, timeout=60) as client:
        described = (await client.get("/openapi/all.json", headers=caller.operator)).json()["paths"]
    gets = {path: str(methods["get"]) for path, methods in described.items() if "get" in methods}
    assert tuple(sorted(path for path, told in gets.items() if "text/event-stream" in told)) == STREAMS


@asynccontextmanager
async def event_stream(caller: Caller, path: str) -> AsyncGenerator[Awaitable[str]]:
    """Open an event stream; yield a function that waits for its end and returns its last event's code."""
    async with (
        httpx.AsyncClient(base_url=caller.server.url, trust_env=False, timeout=100) as client,
        client.stream("GET", path, headers=caller.user) as answer,
    ):
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith("retry:")

        async def last_code() -> str:
            (last,) = [line async for line in lines if line.startswith("data: ")][-1:]
            return json.loads(last.removeprefix("data: "))["code"]

        yield last_code()


@asynccontextmanager
async def endless_stream(caller: Caller) -> AsyncGenerator[Awaitable[list[bytes]]]:
    """Open a stream that makes no calls itself; yield a function that waits for its end and returns the rest."""
    async with (
        httpx.AsyncClient(base_url=caller.server.url, trust_env=False, timeout=100) as client,
        client.stream("GET", "/endless", headers=caller.user) as answer,
    ):
        parts = answer.aiter_raw()
        assert await anext(parts) == PART

        async def further_parts() -> list[bytes]:
            return [part async for part in parts]

        yield further_parts()


@asynccontextmanager
async def subscription(caller: Caller) -> AsyncGenerator[Awaitable[str]]:
    """Subscribe on a socket; yield a function that waits for the end and returns its code."""
    address = caller.server.url.replace("http", "ws", 1) + "/v1/ws"
    async with connect(address, additional_headers=caller.user, proxy=None) as socket:
        await socket.send(json.dumps({"id": "s", "type": "subscribe.events"}))
        while json.loads(await socket.recv()).get("phase") != "subscribed":
            pass

        async def last_code() -> str:
            try:
                while "error" not in (frame := json.loads(await socket.recv())):
                    pass
            except ConnectionClosed:
                return socket.close_reason or ""
            return frame["error"]["code"]

        yield last_code()


@pytest.mark.parametrize(("cause", "code"), [(cause, code) for _, cause, code in CAUSES])
async def test_each_stream_ends_with_its_reason_and_passive_ones_are_cut(
    caller: Caller, cause: Callable[[Caller], Awaitable[None]], code: str
) -> None:
    async with AsyncExitStack() as stack:
        coded = [await stack.enter_async_context(event_stream(caller, path)) for path in STREAMS]
        coded.append(await stack.enter_async_context(subscription(caller)))
        endless = await stack.enter_async_context(endless_stream(caller))
        await cause(caller)
        assert await asyncio.gather(*coded) == [code] * len(coded)
        assert await endless == []
