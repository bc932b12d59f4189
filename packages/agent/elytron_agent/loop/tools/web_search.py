"""The port to a web search, and the tool over it."""

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Final, Literal, Protocol, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_agent import limits
from elytron_agent.context.request import clip_words
from elytron_agent.tool import CallKey, Tool, ToolArguments, typed_tool
from elytron_core.errors import InvalidInput, MissingExtra, Unreachable
from elytron_core.model import Value

Freshness = Literal["day", "week", "month", "year"]


class WebResult(Value):
    """A page that a search found."""

    title: str
    url: str
    text: str = ""


class WebSearch(Protocol):
    """Finds pages. What it returns is text from outside."""

    async def search(
        self, query: str, /, *, count: int, freshness: Freshness | None, location: str | None
    ) -> Sequence[WebResult]:
        """Return up to `count` pages, best first, not older than `freshness`, for a reader at `location`."""
        ...


class WebSearchArguments(ToolArguments):
    query: Annotated[str, Field(min_length=1, max_length=400, description="What to look for.")]
    count: Annotated[int, Field(ge=1, le=limits.WEB_RESULTS_MAX)] = limits.WEB_RESULTS
    freshness: Annotated[Freshness | None, Field(description="How old a page may be.")] = None
    location: Annotated[str | None, Field(max_length=100, description="Where the reader is.")] = None


def web_search_tool(provider: WebSearch, /) -> Tool:
    """Return the tool `web_search` over a provider."""

    async def act(given: WebSearchArguments, _: CallKey, /) -> str:
        found = await provider.search(
            given.query, count=given.count, freshness=given.freshness, location=given.location
        )
        pages = [
            f"{number}. {page.title}\n{page.url}\n{clip_words(page.text, limits.WEB_TEXT_CHARS)}".rstrip()
            for number, page in enumerate(found[: given.count], 1)
        ]
        return "\n\n".join(pages) or "No page was found."

    return typed_tool("web_search", "Search the web.", WebSearchArguments, act, is_outside=True, read_only=True)


_OK, _FORBIDDEN = 200, 403
GROUP: Final = "elytron.web_search"
"""Entry points of providers: each is called with the text after `NAME=`, and returns a WebSearch."""


class _SearchPage(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    url: str
    title: str | None = None
    content: str | None = None


class _WebAnswer(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    results: tuple[_SearchPage, ...]


class SearxngSearch:
    """Asks the SearXNG at `url`, whose settings have `json` among `search.formats`. It knows no `location`."""

    def __init__(self, url: str, /) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(field="web search", problem="needs an address: searxng=http://127.0.0.1:8888")
        self._url = url.rstrip("/").removesuffix("/search") + "/search"
        self._tls: ssl.SSLContext | None = None

    async def search(
        self, query: str, /, *, count: int, freshness: Freshness | None, location: str | None
    ) -> Sequence[WebResult]:
        """Return what it finds. Raises Unreachable if it does not answer as SearXNG does."""
        del location
        try:
            import httpx
        except ImportError:
            raise MissingExtra(extra="llm", purpose="a web search") from None
        # Made once: it takes longer than a search nearby.
        self._tls = self._tls or httpx.create_ssl_context()
        asked = {"q": query, "format": "json"} | ({"time_range": freshness} if freshness is not None else {})
        body = bytearray()
        try:
            async with (
                httpx.AsyncClient(timeout=limits.WEB_SEARCH_S, verify=self._tls) as client,
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
            found = _WebAnswer.model_validate(json.loads(body)).results
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
