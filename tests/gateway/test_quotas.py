"""A user cannot exceed the quota, over all apps and any of several servers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.gateway.test_usage_counts import add, given

import elytron
from elytron_core.clock import SystemClock
from elytron_core.errors import LimitExceeded
from elytron_core.planes.servers.gateway import COUNTS, USERS
from elytron_core.ports.store import Batch, CommitReceipt, Store
from elytron_gateway import quotas, wire
from elytron_gateway.service import GatewayOptions, MemoryGateway, QuotaSettings
from elytron_store import open_store
from elytron_store.engine import PassingStore

pytestmark = pytest.mark.anyio


class Pausing(PassingStore):
    """A store whose next counted commit in `space` waits for `going_on`."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.space = ""
        self.reached = asyncio.Event()
        self.going_on = asyncio.Event()
        self.written: list[str] = []

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if batch.space == self.space and any(put.ref.collection == COUNTS for put in batch.puts):
            self.space = ""
            self.reached.set()
            await self.going_on.wait()
        self.written += [put.ref.collection for put in batch.puts]
        return await super().commit(batch)


class Server:
    """One of several processes over a store: its gateway, and its view of the store."""

    def __init__(self, memory: elytron.MemoryRuntime, store: Pausing, most: QuotaSettings, /) -> None:
        self.gateway = MemoryGateway(memory, options=GatewayOptions(quota=most))
        self.store = store

    async def add(self, who: dict[str, str], app: str, *texts: str) -> None:
        await self.gateway.add(add(who, *texts, app_id=app))


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers with a quota of 16 messages over one file."""
    opened: list[Server] = []
    async with asyncio.timeout(100):
        stores = [Pausing(await open_store(str(tmp_path / "memory.db"), clock=SystemClock())) for _ in range(2)]
        async with elytron.open(stores[0], space=None) as one, elytron.open(stores[1], space=None) as other:
            opened += [
                Server(one, stores[0], QuotaSettings(messages=16)),
                Server(other, stores[1], QuotaSettings(messages=16)),
            ]
            yield opened[0], opened[1]
        for store in stores:
            await store.close()


@pytest.fixture
async def ada(servers: tuple[Server, Server]) -> dict[str, str]:
    return (await servers[0].gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()


async def messages(server: Server) -> int:
    return (await server.gateway.usage("ada")).messages


async def test_two_servers_adding_to_two_apps_never_exceed_a_quota(
    servers: tuple[Server, Server], ada: dict[str, str]
) -> None:
    added = await asyncio.gather(
        *(servers[number % 2].add(ada, f"app{number % 3}", f"message {number}") for number in range(24)),
        return_exceptions=True,
    )
    refused = [one for one in added if one is not None]
    assert all(isinstance(one, LimitExceeded) for one in refused)
    assert (await messages(servers[0]), len(refused)) == (16, 8)


async def test_an_addition_under_a_withdrawn_allotment_is_refused(
    servers: tuple[Server, Server], ada: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "SHARES", 1)
    one, other = servers
    await one.add(ada, "tea", "first")
    one.store.space = "ada/tea/default"
    late = asyncio.create_task(one.add(ada, "tea", *("late",) * 8))
    await one.store.reached.wait()
    await other.add(ada, "milk", *("early",) * 10)
    one.store.going_on.set()
    with pytest.raises(LimitExceeded, match="messages of a user"):
        await late
    assert await messages(other) == 11
    await one.add(ada, "tea", *("then",) * 5)
    assert await messages(other) == 16


async def test_an_addition_just_before_an_allotment_is_withdrawn_counts(
    servers: tuple[Server, Server], ada: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "SHARES", 1)
    one, other = servers
    await one.add(ada, "tea", "first")
    # The other has reduced the allotment of `tea`, and is about to rewrite its count.
    other.store.space = "ada/tea/default"
    late = asyncio.create_task(other.add(ada, "milk", *("late",) * 10))
    await other.store.reached.wait()
    await one.add(ada, "tea", *("early",) * 8)
    other.store.going_on.set()
    with pytest.raises(LimitExceeded):
        await late
    assert await messages(one) == 9


async def test_an_interrupted_server_leaves_no_reservation(
    servers: tuple[Server, Server], ada: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "SHARES", 1)
    one, other = servers
    await one.add(ada, "tea", "first")
    other.store.space = "ada/tea/default"
    stopped = asyncio.create_task(other.add(ada, "milk", "never"))
    await other.store.reached.wait()
    stopped.cancel()
    await asyncio.wait([stopped])
    await one.add(ada, "milk", *("all",) * 15)
    assert await messages(one) == 16


async def test_a_refusal_writes_nothing_and_a_space_with_room_checks_no_other(
    servers: tuple[Server, Server], ada: dict[str, str]
) -> None:
    one, _ = servers
    for app in ("tea", "milk"):
        await one.add(ada, app, "one", "two")
    one.store.written.clear()
    await one.add(ada, "tea", "three")
    assert USERS not in one.store.written
    with pytest.raises(LimitExceeded):
        await one.add(ada, "milk", *("more",) * 12)
    one.store.written.clear()
    with pytest.raises(LimitExceeded):
        await one.add(ada, "milk", *("more",) * 12)
    assert one.store.written == []


async def test_a_smaller_quota_applies_to_earlier_allotments(memory: elytron.MemoryRuntime) -> None:
    large, small = (
        MemoryGateway(memory, options=GatewayOptions(quota=QuotaSettings(messages=most))) for most in (64, 8)
    )
    ada = (await large.create_user(wire.UserRequest(user_id="ada"))).model_dump()
    for app in ("tea", "milk"):
        await large.add(add(ada, "one", "two", "three", app_id=app))
    await small.add(add(ada, "four", app_id="tea"))
    await small.add(add(ada, "four", app_id="milk"))
    for app in ("tea", "milk"):
        with pytest.raises(LimitExceeded):
            await small.add(add(ada, "five", app_id=app))
    await large.add(add(ada, "five", app_id="tea"))


async def test_bytes_are_allotted_in_addition_to_messages(memory: elytron.MemoryRuntime) -> None:
    gateway = MemoryGateway(memory, options=GatewayOptions(quota=QuotaSettings(messages=2, resource_bytes=20)))
    ada = (await gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()
    for project in ("tea", "milk"):
        await gateway.add(add(ada, "one", project_id=project))
        await gateway.upload(wire.PlacedRequest(**ada, project_id=project), given(f"10 of {project:>4}"))
    with pytest.raises(LimitExceeded, match="bytes in a user's resources"):
        await gateway.upload(wire.PlacedRequest(**ada, project_id="tea"), given("one more"))
    usage = await gateway.usage("ada")
    assert (usage.messages, usage.resource_bytes) == (2, 20)
