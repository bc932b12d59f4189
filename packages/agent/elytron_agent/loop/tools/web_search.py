"""The port to a web search, and the tool over it."""

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from elytron_agent.context.guard import clipped
from elytron_agent.runs import limits
from elytron_agent.tool import CallKey, Tool, ToolArguments, typed_tool
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
            f"{number}. {page.title}\n{page.url}\n{clipped(page.text, limits.WEB_TEXT_CHARS)}".rstrip()
            for number, page in enumerate(found[: given.count], 1)
        ]
        return "\n\n".join(pages) or "No page was found."

    return typed_tool("web_search", "Search the web.", WebSearchArguments, act, is_outside=True, read_only=True)
