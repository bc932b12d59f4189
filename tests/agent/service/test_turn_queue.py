"""Turns of one thread through several processes, long turns, and limits on the command line."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click import BadParameter
from tests.agent.service.served import ServedUser, called, echo, said, served
from tests.agent.service.test_serve_agent import process
from tests.models.fake_server import Asked, Sent, serving

from elytron_agent import limits
from elytron_agent.runs.settings import RunBudget
from elytron_cli.input.server_options import RAG_LIMITS, NamedLimits, rag_settings, run_budget
from elytron_turn.sizes import tokens_of

pytestmark = pytest.mark.anyio

WINDOW = 20_000
CALLS, PAGES, PAGE_CHARS = 100, 8, 1_000
"""Long turns: each call finds pages of 2,000 tokens in total."""


async def test_turns_through_two_processes_are_queued_in_their_order(tmp_path: Path) -> None:
    async with serving() as model, httpx.AsyncClient(timeout=60) as http:
        model.reply = echo
        model.gate = asyncio.Event()
        options = ("--agent-model", f"chat:scripted@{model.url}/v1")
        async with process(tmp_path, *options) as (_, first), process(tmp_path, *options) as (_, second):
            users = [ServedUser(http, "none") for _ in range(2)]
            http.base_url = httpx.URL(first["address"])
            await users[0].made("POST", "/init")

            async def chat(at: int, begun: asyncio.Event) -> Any:
                address = (first, second)[at % 2]["address"]
                async with http.stream("POST", f"{address}/v1/agent/chat", json={"input": f"Turn {at}"}) as answer:
                    begun.set()
                    return answer.status_code, [line async for line in answer.aiter_lines()]

            async def waiting() -> int:
                return len((await users[0].items())["data"])

            turns = [asyncio.create_task(chat(0, asyncio.Event()))]
            while not model.asked:
                await asyncio.sleep(0.01)
            for at in range(1, limits.QUEUED_RUNS + 1):
                is_queued = asyncio.Event()
                turns.append(asyncio.create_task(chat(at, is_queued)))
                # Its answer starts once it is in the queue.
                await is_queued.wait()
            refused = await chat(limits.QUEUED_RUNS + 1, asyncio.Event())
            assert (refused[0], await waiting()) == (409, 1)
            model.gate.set()
            answers = await asyncio.gather(*turns)
            assert {status for status, _ in answers} == {200}
            items = (await users[0].items("?order=asc&limit=100"))["data"]
    assert [item["text"] for item in items if item["role"] == "user"] == [f"Turn {at}" for at in range(9)]


def page_of(number: int, place: int) -> dict[str, str]:
    """Return a page that a search finds, with unique words, so that no store compresses it."""
    words = " ".join(hashlib.sha256(f"{number}.{place}.{word}".encode()).hexdigest()[:9] for word in range(120))
    return {"title": f"Page {place}", "url": f"https://example.org/{number}/{place}", "content": words[:PAGE_CHARS]}


def found_pages(asked: Asked) -> Sent:
    """Answer like SearXNG."""
    number = int(asked.path.rpartition("matter+")[2].partition("&")[0])
    results = [page_of(number, place) for place in range(PAGES)]
    return Sent((json.dumps({"results": results}).encode(),), media_type="application/json")


async def test_a_turn_of_a_hundred_calls_works_over_http(tmp_path: Path) -> None:
    numbers = iter(range(CALLS))

    def reply(_: Asked) -> Sent:
        number = next(numbers, None)
        return said("All is read.") if number is None else called(("web_search", {"query": f"matter {number}"}))

    async with serving() as model, serving() as search, httpx.AsyncClient(timeout=60) as http:
        model.reply, search.reply = reply, found_pages
        options = (
            *("--agent-model", f"chat:scripted@{model.url}/v1", "--agent-context-tokens", str(WINDOW)),
            *("--web-search", f"searxng={search.url}", "--agent-limit", "steps=150", "--agent-limit", "calls=150"),
        )
        async with process(tmp_path, *options) as (_, shown):
            ada = ServedUser(http, "none")
            http.base_url = httpx.URL(shown["address"])
            await ada.made("POST", "/init")
            events = await ada.chat("Read all of it")
            items = (await ada.items())["data"]
        requests = [asked.body for asked in model.asked]
    stored = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("m.db"))
    sizes = [tokens_of(len(json.dumps([each["messages"], each["tools"]]).encode()), factor=1) for each in requests]
    assert (events[-1].kind, items[0]["text"], len(search.asked)) == ("agent.done", "All is read.", CALLS)
    assert events[-1].data["usage"]["calls"] == CALLS
    assert max(sizes) <= WINDOW
    assert stored <= 3 * CALLS * PAGES * PAGE_CHARS


async def test_a_turn_stops_at_the_operators_step_limit() -> None:
    async with served(lambda _: called(("web_search", {"query": "x"})), budget=RunBudget(steps=3)) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        events = await ada.chat("Go on")
    assert (events[-1].data["reason"], events[-1].data["total_steps"]) == ("steps", 3)


def test_limits_are_read_by_their_names() -> None:
    given = [
        NamedLimits(RAG_LIMITS).read(text) for text in ("user-rows=7", "cache-seconds=1.5", "alert-load-seconds=3")
    ]
    found = rag_settings(given, is_off=True)
    assert (found.quotas.user_rows, found.cache.ttl_ms, found.alerts.load_s, found.is_off) == (7, 1_500, 3, True)
    assert run_budget([("steps", 150), ("tool-seconds", 2.5)]) == RunBudget(steps=150, tool_seconds=2.5)


@pytest.mark.parametrize("text", ["rows=7", "user-rows", "user-rows=0", "user-rows=1.5", "user-rows=many"])
def test_an_invalid_limit_is_rejected(text: str) -> None:
    with pytest.raises(BadParameter):
        NamedLimits(RAG_LIMITS).read(text)
