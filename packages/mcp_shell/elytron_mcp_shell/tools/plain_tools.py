"""Tools with plain arguments, each one call of an operation: the simple ones, and those of mem0's hosts."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.control import MemoryControlReport, MemoryListReport
from elytron_core.contracts.recall import MemoryRecallReport
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.model import Request, Value
from elytron_core.scope import Tags

Perform = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Performs an operation by its name with a request in JSON and returns its report as JSON. Raises what it raises."""


class AddText(Request):
    """Store a text as evidence."""

    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
    speaker: str | None = None
    conversation: str | None = None
    tags: Tags = ()


class PlainProposal(Request):
    """Propose a fact; admission judges it."""

    topic: str
    content: str
    reason: str = ""


class PlainQuery(Request):
    """Find what answers a question."""

    query: str
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT


class PlainListing(Request):
    """Read memories in the order in which they were stored."""

    limit: Annotated[int, Field(ge=1, le=limits.PAGE_MAX)] = 100
    cursor: str | None = None


class OneMemory(Request):
    """Name one memory by its id."""

    memory_id: str


class UpdateMemory(Request):
    """Replace a fact's content."""

    memory_id: str
    text: str


@dataclass(frozen=True, slots=True)
class PlainTool:
    """A tool that is no operation's own: its name, what it takes and gives, and the call that it makes."""

    name: str
    description: str
    taken: type[Request]
    given: type[Value]
    call: Callable[[Perform, Any], Awaitable[Any]]
    mutates: bool = False
    destroys: bool = False


async def _add_memory(perform: Perform, asked: AddText) -> Any:
    message = {"text": asked.text} | ({"speaker": asked.speaker} if asked.speaker else {})
    turn = {"messages": [message], "tags": list(asked.tags)}
    request: dict[str, Any] = {"write": {"kind": "transcript", "turns": [turn]}}
    if asked.conversation is not None:
        request["conversation"] = asked.conversation
    return await perform("write", request)


async def _propose_fact(perform: Perform, asked: PlainProposal) -> Any:
    fact = {"topic": asked.topic, "content": asked.content, "reason": asked.reason}
    return await perform("write", {"write": {"kind": "long_term", "facts": [fact]}})


async def _recall_memories(perform: Perform, asked: PlainQuery) -> Any:
    return await perform("recall", {"query": asked.query, "limit": asked.limit})


async def _list_memories(perform: Perform, asked: PlainListing) -> Any:
    return await perform("list", {"limit": asked.limit} | ({"cursor": asked.cursor} if asked.cursor else {}))


async def _get_memory(perform: Perform, asked: OneMemory) -> Any:
    return await perform("get", {"id": asked.memory_id})


async def _delete_memory(perform: Perform, asked: OneMemory) -> Any:
    return await perform("erase", {"ids": [asked.memory_id]})


async def _update_memory(perform: Perform, asked: UpdateMemory) -> Any:
    return await perform("correct", {"id": asked.memory_id, "content": asked.text})


async def _memory_history(perform: Perform, asked: OneMemory) -> Any:
    return await perform("history", {"id": asked.memory_id})


def everyday_tools() -> tuple[PlainTool, ...]:
    """Return the two that the sets `core` and `all` have: store a text, propose a fact."""
    return (
        PlainTool("memory_add", "Store a text as evidence; it can be recalled at once.", AddText, MemoryWriteReport,
                  _add_memory, mutates=True),
        PlainTool("memory_write_candidate", "Propose a fact; admission judges it and says why.", PlainProposal,
                  MemoryWriteReport, _propose_fact, mutates=True),
    )  # fmt: skip


def mem0_tools() -> tuple[PlainTool, ...]:
    """Return the tools that mem0's hosts know."""
    from elytron_core.contracts.control import MemoryHistoryReport
    from elytron_core.contracts.recall import RecallHit

    return (
        PlainTool("add_memory", "Store a text as a memory.", AddText, MemoryWriteReport, _add_memory, mutates=True),
        PlainTool("search_memories", "Find memories that answer a query.", PlainQuery, MemoryRecallReport,
                  _recall_memories),
        PlainTool("get_memories", "List memories.", PlainListing, MemoryListReport, _list_memories),
        PlainTool("get_memory", "Read one memory.", OneMemory, RecallHit, _get_memory),
        PlainTool("update_memory", "Replace a fact's content.", UpdateMemory, MemoryControlReport, _update_memory,
                  mutates=True),
        PlainTool("get_memory_history", "Read what happened to a memory.", OneMemory, MemoryHistoryReport,
                  _memory_history),
        PlainTool("delete_memory", "Erase one memory for good.", OneMemory, MemoryControlReport, _delete_memory,
                  mutates=True, destroys=True),
    )  # fmt: skip


def text_of(value: Any, /) -> str:
    """Return a JSON value as the text that a model reads."""
    return json.dumps(value, ensure_ascii=False)
