"""Nodes over one Postgres database: equal answers in equal order, read your writes, and separate servers."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from tests.store.postgres_proxy import proxied
from tests.store.postgres_rig import CLOCK, empty_store
from tests.store.postgres_server import free_port
from tests.store.served_nodes import served_nodes

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.http.store import lease_kept, leases_of
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.errors import SequenceAhead
from elytron_core.ids import RandomIds
from elytron_http_shell import create_app
from elytron_store.store_urls import open_store

pytestmark = pytest.mark.anyio
PLACES = ("harbour", "station", "market", "library", "mill")


@pytest.fixture
async def url(database: str) -> str:
    """Return the URL of an empty store that nodes share."""
    return await empty_store(database)


@pytest.fixture
async def nodes(url: str) -> AsyncIterator[list[MemoryRuntime]]:
    async with AsyncExitStack() as stack:
        opened = [elytron.open(url, space="ada", clock=CLOCK, ids=RandomIds(CLOCK)) for _ in range(3)]
        yield [await stack.enter_async_context(node) for node in opened]


async def test_every_node_gives_the_same_answers_whoever_wrote(nodes: list[MemoryRuntime]) -> None:
    chance = random.Random(1)
    for number in range(30):
        place = PLACES[number % len(PLACES)]
        await chance.choice(nodes).add(f"On day {number} Ada was at the {place}.", conversation=f"talk {number % 3}")
    gone = await nodes[0].recall("day 7 station")
    await nodes[1].erase([gone.hits[0].id])
    for place in PLACES:
        left, *others = [await node.recall(f"When was Ada at the {place}?") for node in nodes]
        assert len(left.hits) > 2
        assert all(other.hits == left.hits and other.sequence == left.sequence for other in others)
    (state,) = {(await node.inspect(fingerprints=True)).state_fingerprint for node in nodes}
    assert state


async def test_a_node_immediately_shows_commits_of_another(nodes: list[MemoryRuntime]) -> None:
    for number in range(10):
        writer, reader = nodes[number % 3], nodes[(number + 1) % 3]
        written = await writer.add(f"The code of door {number} is {number}{number}.")
        found = await reader.recall(MemoryRecallRequest(query=f"door {number}", min_sequence=written.sequence))
        assert found.sequence >= written.sequence
        assert f"door {number}" in found.hits[0].text


async def test_a_future_sequence_is_refused_and_never_answered_from_an_older_state(
    nodes: list[MemoryRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron.journal.follower.MIN_SEQUENCE_WAIT_S", 0.05)
    written = await nodes[0].add("tea")
    with pytest.raises(SequenceAhead) as refused:
        await nodes[1].recall(MemoryRecallRequest(query="tea", min_sequence=written.sequence + 1))
    assert refused.value.expected == written.sequence + 1


async def test_a_fold_stored_by_another_node_is_read_and_not_recomputed(url: str, nodes: list[MemoryRuntime]) -> None:
    for number in range(40):
        await nodes[0].add(f"Note {number} of the ferry.")
    await nodes[0].recall("ferry")
    await nodes[0].close()
    seen: list[tuple[int, int]] = []
    async with elytron.open(
        url, space="ada", clock=CLOCK, progress=lambda done, total: seen.append((done, total))
    ) as late:
        assert (await late.recall("ferry")).hits == (await nodes[1].recall("ferry")).hits
    assert seen == []


async def test_a_space_recreated_by_another_node_is_the_new_one(nodes: list[MemoryRuntime]) -> None:
    one, other = nodes[:2]
    for number, node in enumerate((one, other)):
        await node.put_record(("notes",), "key", {"life": number})
    await one.erase(whole_space="ada")
    await one.put_record(("notes",), "key", {"life": "second"})
    assert (await other.get_record(("notes",), "key")).record.value == {"life": "second"}
    await one.erase(whole_space="ada")
    await one.add("The boat leaves at nine.", conversation="old")
    await other.add("The ferry leaves at six.", conversation="new")
    assert (await one.inspect(fingerprints=True)) == (await other.inspect(fingerprints=True))
    assert [len((await one.recall(word)).hits) > 0 for word in ("boat", "ferry")] == [True, True]


@pytest.fixture
def servers(database: str, tmp_path: Path, whole_starts: None) -> Iterator[list[str]]:
    """Run two servers over one database, each a separate process in its own list; return their addresses.

    Each has a different set order, on which no answer may depend.
    """
    ports = [f"{free_port()}" for _ in range(2)]
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    shared = ("--store", f"{database}?sealed=no", "--development")
    nodes = [(*shared, "--port", port, "--node-url", url) for port, url in zip(ports, addresses, strict=True)]
    with served_nodes(tmp_path, nodes) as reports:
        assert [report["address"] for report in reports] == addresses
        yield addresses


async def call(address: str, operation: str, **request: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(f"{address}/v1/{operation}", json={"scope": {"space": "eve"}, **request})


async def test_two_servers_give_the_same_answers_and_list_each_other(url: str, servers: list[str]) -> None:
    turn = {"messages": [{"role": "user", "text": "The ferry leaves at six."}]}
    written = await call(servers[0], "write", write={"kind": "transcript", "turns": [turn]})
    assert written.status_code == 200
    sequence = int(written.headers["Elytron-Sequence"])
    answers = [await call(server, "recall", query="ferry", min_sequence=sequence) for server in reversed(servers)]
    assert [answer.headers["Elytron-Sequence"] for answer in answers] == [str(sequence)] * 2
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["hits"][0]["text"] == "The ferry leaves at six."
    async with httpx.AsyncClient(timeout=30) as client:
        shown = [(await client.get(f"{server}/metrics")).text for server in servers]
    own = [dict(re.findall(r"^elytron_store_(\w+) ([0-9.]+)$", text, re.MULTILINE)) for text in shown]
    assert all(float(each["connections"]) >= 1 for each in own)
    assert float(own[0]["batches_total"]) > float(own[1]["batches_total"])
    assert all(float(each["ready"]) == 1 and float(each["silences_total"]) == 0 for each in own)
    async with httpx.AsyncClient(timeout=30) as client:
        listed = [(await client.get(f"{server}/v1/nodes")).json() for server in servers]
    assert listed == [{"nodes": sorted(servers)}] * 2
    async with elytron.connect(servers[0], nodes="leased", space="eve") as memory:
        await memory.put_record(("rig",), "who", {"is": "tea"})
        assert (await memory.get_record(("rig",), "who")).record.value == {"is": "tea"}


async def test_a_node_leaves_the_list_when_it_ends_or_expires(url: str) -> None:
    store = await open_store(url, clock=CLOCK)
    leases = leases_of(store)
    async with lease_kept(leases, "http://a:8010"):
        while not await leases.list_nodes():
            await asyncio.sleep(0)
        await leases.note_node("http://b:8010", lease_ms=60_000)
        await leases.note_node("http://c:8010", lease_ms=0)
        assert await leases.list_nodes() == ["http://a:8010", "http://b:8010"]
    assert await leases.list_nodes() == ["http://b:8010"]
    await leases.note_node("http://b:8010", lease_ms=0)
    assert await leases.list_nodes() == []
    await store.close()


async def test_a_server_that_loses_its_database_says_so_and_stays_alive(url: str) -> None:
    async with proxied(url) as (proxy, through), elytron.open(through, space="ada", clock=CLOCK) as memory:
        await memory.add("tea")
        app = create_app(CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers()))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            proxy.is_up = False
            proxy.cut_all()
            asked = await client.post("/v1/recall", json={"query": "tea"})
            assert (asked.status_code, asked.json()["code"]) == (503, "store_unavailable")
            assert "Retry-After" in asked.headers
            assert (await client.get("/livez")).status_code == 200
            assert (await client.get("/readyz")).status_code == 503
            proxy.is_up = True
            while (await client.get("/readyz")).status_code != 200:
                pass
            assert (await client.post("/v1/recall", json={"query": "tea"})).status_code == 200
