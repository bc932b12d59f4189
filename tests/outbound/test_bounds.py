"""Every client enforces its own limits on a server, whatever the server answers."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.models.fake_server import FakeServer, Sent, serving, serving_apart

import elytron
from elytron.embedding.embedders import OpenAIEmbedder
from elytron_agent import CallKey, GatewayPlace, GatewayStrategy, RunEvent
from elytron_agent.loop.tools import SearxngSearch, web_search_tool
from elytron_agent.strategies.gateway import REFERENCES_CHARS
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.recall import MemoryRecallReport, RecallHit, RecallOutcome, RecallPlane
from elytron_core.errors import ModelRefused, Unreachable, Unsupported
from elytron_gateway import limits as gateway_limits
from elytron_gateway.client import MemoryGatewayClient, SyncMemoryGatewayClient
from elytron_gateway.names import MemoryOwner
from elytron_gateway.upstream.everos import EverOsUpstream, RetryPolicy
from elytron_gateway.upstream.port import SearchWhere

pytestmark = pytest.mark.anyio
ASKED, ANSWERED, LONG = 8, 200, "x" * 3_000
ACCOUNT: dict[str, Any] = {"user_id": "ada", "user_key": "uk_1"}
Texts = list[str]


def result(number: int) -> dict[str, Any]:
    return {"id": f"m{number}" + LONG, "text": f"{number} {LONG}", "score": 0.9, "source_scope": "resources",
            "session_id": LONG, "resource_uri": LONG}  # fmt: skip


async def gateway(server: FakeServer) -> Texts:
    async with MemoryGatewayClient(server.url, **ACCOUNT) as client:
        return [found.text for found in (await client.search("boat", top_k=ASKED)).results]


async def strategy(server: FakeServer) -> Texts:
    async def tell(_conversation: str, _event: RunEvent, /) -> None: ...

    place = GatewayPlace(base_url=server.url, top_k=ASKED, **ACCOUNT)
    runs = GatewayStrategy(place, tell=tell)
    reference = (await runs.before_run("c", "boat")).reference or ""
    await runs.close()
    assert len(reference) < REFERENCES_CHARS + 1_000
    return [line for line in reference.splitlines() if line.startswith('{"')]


async def everos(server: FakeServer) -> Texts:
    upstream = EverOsUpstream(server.url, clock=FrozenClock(Instant(0)), patience=RetryPolicy(attempts=1))
    found = await upstream.search(MemoryOwner("ada"), "boat", SearchWhere(), limit=ASKED)
    await upstream.close()
    return [memory.text for memory in found]


async def web(server: FakeServer) -> Texts:
    tool = web_search_tool(SearxngSearch(server.url))
    answer = await tool.act({"query": "boat", "count": ASKED}, CallKey("r", 1, "c"))
    return (answer if isinstance(answer, str) else answer.text).split("\n\n")


RESULTS = {"results": [result(number) for number in range(ANSWERED)]}
EPISODES = [{"id": str(n), "session_id": "ada~s", "episode": LONG} for n in range(ANSWERED)]
PAGES = [{"url": f"http://a.example/{number}", "title": LONG, "content": LONG} for number in range(ANSWERED)]
CLIENTS: dict[str, tuple[Callable[[FakeServer], Awaitable[Texts]], object]] = {
    "gateway": (gateway, RESULTS),
    "strategy": (strategy, RESULTS),
    "everos": (everos, {"data": {"episodes": EPISODES}}),
    "web search": (web, {"results": PAGES}),
}


def answer(body: object) -> Sent:
    return Sent((json.dumps(body).encode(),), media_type="application/json")


@pytest.mark.parametrize("name", CLIENTS)
async def test_no_more_results_are_used_than_requested(name: str) -> None:
    search, body = CLIENTS[name]
    async with serving(answer(body)) as server:
        texts = await search(server)
    assert 0 < len(texts) <= ASKED
    assert sum(map(len, texts)) <= ASKED * 4_000


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_endless_answer_is_not_read_completely(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_limits, "UPSTREAM_ANSWER_BYTES", 100_000)
    monkeypatch.setattr("elytron_agent.loop.tools.WEB_ANSWER_BYTES", 100_000)
    search, body = CLIENTS[name]
    async with serving(answer(body)) as server:
        if name == "strategy":
            assert await search(server) == []  # a run continues without memory
        else:
            with pytest.raises(Unreachable):
                await search(server)


def test_a_blocking_client_applies_the_same_limits() -> None:
    with serving_apart(answer(RESULTS)) as server, SyncMemoryGatewayClient(server.url, **ACCOUNT) as client:
        assert len(client.search("boat", top_k=ASKED).results) == ASKED


async def test_the_total_text_of_results_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_limits, "SEARCH_CHARS", 5_000)
    async with serving(answer({"results": [{**result(1), "id": "m", "session_id": "s"}] * 9})) as server:
        assert sum(map(len, await gateway(server))) <= 5_000


async def test_a_remote_memory_rejects_a_page_longer_than_requested() -> None:
    hits = tuple(RecallHit(id=str(n), plane=RecallPlane.TRANSCRIPT, text="x", score=0.5) for n in range(ANSWERED))
    report = MemoryRecallReport(space="ada", query="boat", outcome=RecallOutcome.FOUND, hits=hits)
    body = Sent((report.model_dump_json(exclude_none=True).encode(),), media_type="application/json")
    async with serving(body) as server, elytron.connect(server.url, space="ada") as memory:
        with pytest.raises(Unsupported, match="more than was requested"):
            await memory.recall("boat", limit=ASKED)


async def test_an_embedder_rejects_vectors_that_it_did_not_request() -> None:
    vectors = [{"index": number, "embedding": [0.1, 0.2]} for number in range(ANSWERED)]
    async with serving(answer({"data": vectors})) as server:
        embedder = OpenAIEmbedder("m", dimensions=2, base_url=server.url, attempts=1)
        with pytest.raises(ModelRefused):
            await embedder.embed_documents(["one", "two"])
        await embedder.close()
