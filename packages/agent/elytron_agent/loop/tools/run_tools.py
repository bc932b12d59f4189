"""The tools that belong to the loop itself: the end of a run, preferences, and subagents."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from elytron_agent.loop.tool_call import DONE
from elytron_agent.loop.tools.subagents import Creator, Subagent, SubagentShelf
from elytron_agent.runs import limits
from elytron_agent.runs.settings import Preferences
from elytron_agent.tool import CallKey, Tool, ToolArguments, typed_tool


class DoneArguments(ToolArguments):
    """Arguments of `done`: none."""


class PreferenceArguments(ToolArguments):
    """Arguments of `set_preference`; what is left out stays."""

    timezone: Annotated[str | None, Field(description="Time zone, such as Europe/Lisbon.")] = None
    locale: Annotated[str | None, Field(description="Language, such as pt-PT.")] = None


class SubagentArguments(ToolArguments):
    """Arguments of `spawn_subagent`."""

    purpose: Annotated[str, Field(min_length=1, max_length=limits.SUBAGENT_PURPOSE_CHARS)]
    name: Annotated[str, Field(min_length=1, max_length=limits.SUBAGENT_NAME_CHARS)]


def done_tool() -> Tool:
    """Return the tool that ends a run. The loop reads its call; it is never made."""

    async def act(_given: DoneArguments, _key: CallKey, /) -> str:
        return "ok"

    about = "End the turn, if nothing is left to say or do. Call it alone."
    return typed_tool(DONE, about, DoneArguments, act, may_repeat=True)


def preference_tool(change: Callable[[str | None, str | None], Awaitable[Preferences]], /) -> Tool:
    """Return the tool by which a model stores the person's time zone or language."""

    async def act(given: PreferenceArguments, _key: CallKey, /) -> str:
        made = await change(given.timezone, given.locale)
        return f"Time zone {made.timezone}, language {made.locale or 'not set'}."

    about = "Store the user's time zone or language, if they say it."
    return typed_tool("set_preference", about, PreferenceArguments, act, may_repeat=True)


def subagent_tool(shelf: SubagentShelf, /) -> Tool:
    """Return the tool by which a model makes a subagent."""

    async def act(given: SubagentArguments, _key: CallKey, /) -> str:
        await shelf.create(Subagent(name=given.name, purpose=given.purpose, created_by=Creator.AGENT))
        return f"The subagent {given.name!r} is there. The user can talk with it in a thread of its own."

    about = "Make a subagent for a lasting purpose, with a conversation of its own with the user."
    return typed_tool("spawn_subagent", about, SubagentArguments, act, may_repeat=True)
