"""The tool `session_search`: earlier sessions, searched by words and meaning, with any strategy."""

from typing import Annotated

from pydantic import AliasChoices, Field

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.conversation_search import search_conversations
from elytron_agent.blocks.hit_lines import answer_of
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import limits as core_limits


class SessionSearchArguments(ToolArguments):
    """Arguments of `session_search`."""

    query: Annotated[str, Field(min_length=1, max_length=core_limits.QUERY_CHARS, description="What to look for.")]
    limit: Annotated[int, Field(ge=1, le=limits.SESSION_HITS_MAX)] = limits.SESSION_HITS
    session_id: Annotated[
        str | None,
        Field(
            default=None,
            validation_alias=AliasChoices("session_id", "conversation_id"),
            description="Search this session alone.",
        ),
    ]


def session_search(memory: MemoryFace, /) -> Tool:
    """Return the tool over the transcripts in `memory`. Each line has the time, the session and the words."""

    async def search(given: SessionSearchArguments, _key: CallKey, /) -> ToolAnswer:
        found = await search_conversations(memory, given.query, limit=given.limit, conversation=given.session_id)
        return answer_of(found)

    return typed_tool(
        "session_search",
        "Search past sessions: what was said, when, and in which session.",
        SessionSearchArguments,
        search,
        read_only=True,
    )
