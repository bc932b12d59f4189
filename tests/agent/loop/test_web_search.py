"""Web search providers, over a server that answers like SearXNG."""

import json
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.models.fake_server import Sent, serving

from elytron_agent import SearxngSearch, WebResult, open_web_search
from elytron_agent.loop.tools import WEB_ANSWER_BYTES
from elytron_core.errors import ElytronError, InvalidInput

pytestmark = pytest.mark.anyio
JSON = "application/json"


def pages(*found: Mapping[str, object]) -> Sent:
    return Sent((json.dumps({"query": "ferry", "results": found, "answers": []}).encode(),), media_type=JSON)


async def test_searxng_results_are_requested_as_json_and_returned_best_first() -> None:
    first = {"url": "https://a.example/", "title": "Ferries", "content": "At six.", "engine": "any", "score": 1.0}
    second = {"url": "https://b.example/", "title": None}
    async with serving(pages(first, second), pages(first, second)) as server:
        search = open_web_search(f"searxng={server.url}/")
        found = await search.search("ferry & boat", count=5, freshness="week", location="Lisbon")
        assert found == [
            WebResult(title="Ferries", url="https://a.example/", text="At six."),
            WebResult(title="https://b.example/", url="https://b.example/"),
        ]
        assert len(await search.search("ferry", count=1, freshness=None, location=None)) == 1
        target = urlsplit(server.asked[0].path)
        assert target.path == "/search"
        assert parse_qs(target.query) == {"q": ["ferry & boat"], "format": ["json"], "time_range": ["week"]}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Sent((b"no",), status=403, media_type=JSON), "search.formats"),
        (Sent((b"no",), status=502, media_type=JSON), "502"),
        (Sent((b"<html>",)), "like SearXNG"),
        (Sent((b'{"results":[{"title":"no address"}]}',), media_type=JSON), "like SearXNG"),
        (Sent((b" " * (WEB_ANSWER_BYTES + 1),), media_type=JSON), "that is too long"),
    ],
)
async def test_a_failed_search_reports_the_reason(answer: Sent, problem: str) -> None:
    async with serving(answer) as server:
        with pytest.raises(ElytronError, match=problem):
            await SearxngSearch(server.url).search("ferry", count=5, freshness=None, location=None)


async def test_an_unavailable_search_says_so() -> None:
    async with serving() as server:
        url = server.url
    with pytest.raises(ElytronError, match="is unreachable"):
        await SearxngSearch(url).search("ferry", count=5, freshness=None, location=None)


@pytest.mark.parametrize("text", ["searxng", "searxng=", "searxng=ftp://a.example", "other=https://a.example"])
def test_a_provider_is_configured_by_name_and_address(text: str) -> None:
    with pytest.raises(InvalidInput):
        open_web_search(text)
