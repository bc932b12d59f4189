"""Providers of web searches: SearXNG over HTTP, and those of other packages by their entry point."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_agent.loop.tools.web_search import Freshness, WebResult, WebSearch
from elytron_agent.runs import limits
from elytron_core.errors import InvalidInput, MissingExtra, Unreachable

_OK, _FORBIDDEN = 200, 403
GROUP: Final = "elytron.web_search"
"""Entry points of providers: each is called with the text after `NAME=`, and returns a WebSearch."""


class _Page(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    url: str
    title: str | None = None
    content: str | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    results: tuple[_Page, ...]


class SearxngSearch:
    """Asks the SearXNG at `url`, whose settings have `json` among `search.formats`. It knows no `location`."""

    def __init__(self, url: str, /) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(field="web search", problem="needs an address: searxng=http://127.0.0.1:8888")
        self._url = url.rstrip("/").removesuffix("/search") + "/search"

    async def search(
        self, query: str, /, *, count: int, freshness: Freshness | None, location: str | None
    ) -> Sequence[WebResult]:
        """Return what it finds. Raises Unreachable if it does not answer as SearXNG does."""
        del location
        try:
            import httpx
        except ImportError:
            raise MissingExtra(extra="llm", purpose="a web search") from None
        asked = {"q": query, "format": "json"} | ({"time_range": freshness} if freshness is not None else {})
        body = bytearray()
        try:
            async with (
                httpx.AsyncClient(timeout=limits.WEB_SEARCH_S) as client,
                client.stream("GET", self._url, params=asked) as response,
            ):
                if response.status_code == _FORBIDDEN:
                    raise Unreachable("the web search gives no JSON: add `json` to its `search.formats`")
                if response.status_code != _OK:
                    raise Unreachable(f"the web search cannot answer now ({response.status_code})")
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > limits.WEB_ANSWER_BYTES:
                        raise Unreachable("the web search answered more than is read")
            found = _Answer.model_validate(json.loads(body)).results
        except (httpx.HTTPError, httpx.InvalidURL):
            raise Unreachable("the web search cannot be reached: check its address") from None
        except (ValueError, ValidationError):
            raise Unreachable("the web search did not answer as SearXNG does: check its address") from None
        return [
            WebResult(title=page.title or page.url, url=page.url, text=page.content or "") for page in found[:count]
        ]


Opener = Callable[[str], WebSearch]
BUILT_IN: Final[Mapping[str, Opener]] = {"searxng": SearxngSearch}


def open_web_search(text: str, /) -> WebSearch:
    """Return the provider that `NAME=ADDRESS` says. Raises InvalidInput if no package has one of that name."""
    name, _, place = text.partition("=")
    opener = BUILT_IN.get(name)
    if opener is None:
        found = {each.name: each for each in entry_points(group=GROUP)}
        if name not in found:
            names = ", ".join(sorted({*BUILT_IN, *found}))
            raise InvalidInput(field="web search", problem=f"{name!r} is not installed: there are {names}")
        opener = cast("Opener", found[name].load())
    return opener(place)
