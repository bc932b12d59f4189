"""Additions that an upstream missed are sent once, in order, by one of several servers, and nothing blocks them."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.gateway import draining
from tests.gateway.everos import EverOs

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Unreachable
from elytron_gateway import wire
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import MemoryGateway, UpstreamCatchUp
from elytron_gateway.upstream.everos import EverOsUpstream, RetryPolicy

pytestmark = pytest.mark.anyio

CHAT = "chat:c"
DOWN = (503, "EXTERNAL_SERVICE_UNAVAILABLE")
LATER = Instant(4_000_000_000_000)
PATIENCE = RetryPolicy(attempts=1, failures=10_000)


@pytest.fixture
async def gateway(server: EverOs, clock: FrozenClock, tmp_path: Path) -> AsyncIterator[MemoryGateway]:
    upstream = EverOsUpstream(server.url, clock=clock, patience=PATIENCE)
    async with elytron.open(tmp_path / "memory.db", space=None, clock=clock) as memory:
        yield MemoryGateway(memory, upstream=upstream)
    await upstream.close()


def add(who: dict[str, str], *texts: str) -> wire.GatewayAddRequest:
    said = [{"sender_id": "x", "role": "user", "timestamp": 1, "content": text} for text in texts]
    return wire.GatewayAddRequest.model_validate({**who, "session_id": CHAT, "messages": said})


def told(server: EverOs) -> list[str]:
    return [str(one["content"]) for one in server.buffered]


async def process(store: Path, server: EverOs) -> asyncio.subprocess.Process:
    root = Path(__file__).parents[2]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", draining.__name__, store, server.url, cwd=root, stdout=asyncio.subprocess.PIPE
    )


async def test_two_draining_servers_send_each_message_once_and_in_order(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, tmp_path: Path
) -> None:
    server.refusing = DOWN
    texts = [f"message {number}" for number in range(10)]
    for text in texts:
        assert (await gateway.add(add(ada, text))).status == "queued"
    server.refusing = None
    both = [await process(tmp_path / "memory.db", server) for _ in range(2)]
    counts = [int((await one.communicate())[0]) for one in both]
    assert told(server) == texts
    assert len(server.keys) == len(set(server.keys)) == sum(counts) == len(texts)
    assert (await gateway.health()).backlog == 0


async def test_a_killed_servers_messages_are_resent_under_the_same_key_after_its_lease(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, clock: FrozenClock, tmp_path: Path
) -> None:
    server.refusing = DOWN
    for text in ("one", "two"):
        await gateway.add(add(ada, text))
    server.refusing, server.holding = None, True
    killed = await process(tmp_path / "memory.db", server)
    assert await asyncio.to_thread(server.reached.wait, 60)
    killed.kill()
    await killed.communicate()
    server.holding = False
    assert await gateway.drain() == wire.DrainAnswer(told=0, backlog=2)
    assert (await gateway.add(add(ada, "three"))).status == "queued"
    with pytest.raises(Unreachable, match="flush again"):
        await gateway.flush(wire.FlushRequest(**ada, session_id=CHAT))
    clock.advance(LATER)
    assert await gateway.drain() == wire.DrainAnswer(told=3, backlog=0)
    assert told(server) == ["one", "two", "three"]
    assert server.keys[0] == server.keys[1]


async def test_a_permanently_refused_message_blocks_nothing_and_can_be_resent_by_an_operator(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    server.refusing = DOWN
    await gateway.add(add(ada, "one"))
    server.refusing, server.answering = (422, "INVALID_INPUT"), None
    assert await gateway.drain() == wire.DrainAnswer(told=0, backlog=1)
    server.refusing = None
    assert (await gateway.add(add(ada, "two"))).status == "accumulated"
    assert (await gateway.health()).status == "degraded"
    assert await gateway.drain() == wire.DrainAnswer(told=1, backlog=0)
    assert told(server) == ["two", "one"]


async def test_only_unsent_messages_wait(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_gateway.upstream.backlog.TELL_MESSAGES", 2)
    monkeypatch.setattr("elytron_gateway.upstream.backlog.TELL_BYTES", 12)
    server.refusing, server.answering = DOWN, 1
    assert (await gateway.add(add(ada, "one", "two", "three", "a long message", "five"))).status == "queued"
    assert told(server) == ["one", "two"]
    server.refusing = None
    assert (await gateway.drain()).told == 3
    assert told(server) == ["one", "two", "three", "a long message", "five"]


async def test_an_answer_of_another_server_is_invalid(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    search = wire.GatewaySearchRequest.model_validate({**ada, "query": "one", "scope": ["all_user_memory"]})
    for rubbish in (b"<html>Welcome</html>", b"{}", b'{"data": [1]}', b"\xff"):
        server.rubbish = rubbish
        assert (await gateway.add(add(ada, "one"))).status == "queued"
        with pytest.raises(Unreachable, match="not answer like an EverOS server"):
            await gateway.search(search)
    taken = await gateway.upload(wire.PlacedRequest(**ada), UploadedFile(b"thirty days", file_name="t.txt"))
    assert (taken.status, (await gateway.health()).backlog) == ("failed", 4)
    server.rubbish = None
    assert (await gateway.retry_resource(wire.PlacedRequest(**ada), taken.resource_id)).status == "extracted"
    assert (await gateway.drain()).told == 4


async def test_partly_invalid_upstream_results_are_tolerated(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    place = {"session_id": f"ada~{CHAT}", "user_id": "ada"}
    odd = [
        {"id": "1", "episode": "boiler one", "score": "high"},
        {"id": "2", "episode": "boiler two", "score": 0.5},
        {"id": "3", "episode": ["boiler"]},
        {"id": "4"},
    ]
    body = str([place | one for one in odd]).replace("'", '"')
    server.rubbish = f'{{"data": {{"episodes": {body}, "unprocessed_messages": 7}}}}'.encode()
    search = wire.GatewaySearchRequest.model_validate({**ada, "query": "boiler", "scope": ["all_user_memory"]})
    assert [one.text for one in (await gateway.search(search)).results] == ["boiler two", "boiler one"]


async def test_a_server_sends_its_backlog_when_the_upstream_returns(
    gateway: MemoryGateway, ada: dict[str, str], server: EverOs
) -> None:
    server.refusing = DOWN
    await gateway.add(add(ada, "one"))
    catching_up = UpstreamCatchUp(gateway, pause_s=0.01)
    catching_up.start()
    server.refusing = None
    assert await asyncio.to_thread(server.reached.wait, 60)
    while (await gateway.health()).backlog:
        await asyncio.sleep(0)
    await catching_up.stop()
    await catching_up.stop()
    assert told(server) == ["one"]


async def test_an_erased_user_leaves_no_byte_in_the_backlog(
    gateway: MemoryGateway, server: EverOs, tmp_path: Path
) -> None:
    name = "erased-user-4417"
    who = (await gateway.create_user(wire.UserRequest(user_id=name))).model_dump()
    server.refusing = DOWN
    await gateway.add(add(who, "the boiler code"))
    await gateway.erase_user(name)
    assert (await gateway.health()).backlog == 0
    assert [file.name for file in tmp_path.iterdir() if name.encode() in file.read_bytes()] == []
