"""Tool sets offered to a host: operations, simple calls of one, and tools that answer in short lines."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from elytron.api.line_tools import LineTool
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, RepeatGuard, by_name
from elytron_adapter import envelope
from elytron_core import limits
from elytron_core.contracts.memories import MemoryControlReport, MemoryListReport
from elytron_core.contracts.recall import MemoryRecallReport, RecallHit
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_core.model import Request, Value
from elytron_core.tags import Tags

if TYPE_CHECKING:
    import mcp_types as types


Perform = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Performs an operation by its name with a request in JSON and returns its report as JSON. Raises its errors."""


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
    """Find memories that answer a query."""

    query: str
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT


class PlainListing(Request):
    """List memories in the order they were stored."""

    limit: Annotated[int, Field(ge=1, le=limits.PAGE_MAX)] = 100
    cursor: str | None = None


class OneMemory(Request):
    """Name one memory by its id."""

    memory_id: str


class UpdateMemory(Request):
    """Replace the content of a fact or message."""

    memory_id: str
    text: str


@dataclass(frozen=True, slots=True)
class PlainTool:
    """A tool that is no operation's own: its name, what it takes and gives, and the call that it makes."""

    name: str
    description: str
    request_type: type[Request]
    answer_type: type[Value]
    call: Callable[[Perform, Any], Awaitable[Any]]
    mutates: bool = False
    destroys: bool = False

    @property
    def adds_only(self) -> bool:
        """Return whether a call only reads or adds, and changes nothing stored."""
        return not self.mutates or (not self.destroys and self.answer_type is not MemoryControlReport)


async def _add_memory(perform: Perform, memory: AddText) -> Any:
    message = {"text": memory.text} | ({"speaker": memory.speaker} if memory.speaker else {})
    turn = {"messages": [message], "tags": list(memory.tags)}
    request: dict[str, Any] = {"write": {"kind": "transcript", "turns": [turn]}}
    if memory.conversation is not None:
        request["conversation"] = memory.conversation
    return await perform("write", request)


async def _propose_fact(perform: Perform, proposal: PlainProposal) -> Any:
    fact = {"topic": proposal.topic, "content": proposal.content, "reason": proposal.reason}
    return await perform("write", {"write": {"kind": "long_term", "facts": [fact]}})


async def _recall_memories(perform: Perform, query: PlainQuery) -> Any:
    return await perform("recall", {"query": query.query, "limit": query.limit})


async def _list_memories(perform: Perform, listing: PlainListing) -> Any:
    return await perform("list", {"limit": listing.limit} | ({"cursor": listing.cursor} if listing.cursor else {}))


async def _get_memory(perform: Perform, request: OneMemory) -> Any:
    return await perform("get", {"id": request.memory_id})


async def _delete_memory(perform: Perform, request: OneMemory) -> Any:
    return await perform("erase", {"ids": [request.memory_id]})


async def _update_memory(perform: Perform, update: UpdateMemory) -> Any:
    return await perform("correct", {"id": update.memory_id, "content": update.text})


async def _memory_history(perform: Perform, request: OneMemory) -> Any:
    return await perform("history", {"id": request.memory_id})


def everyday_tools() -> tuple[PlainTool, ...]:
    """Return the two tools in the sets `core` and `all`: store a text, propose a fact."""
    return (
        PlainTool("memory_add", "Store a text as evidence; it can be recalled immediately.", AddText, MemoryWriteReport,
                  _add_memory, mutates=True),
        PlainTool("memory_write_candidate", "Propose a fact; admission decides and gives its reason.", PlainProposal,
                  MemoryWriteReport, _propose_fact, mutates=True),
    )  # fmt: skip


def mem0_tools() -> tuple[PlainTool, ...]:
    """Return the tools that mem0's hosts use."""
    from elytron_core.contracts.memories import MemoryHistoryReport

    return (
        PlainTool("add_memory", "Store a text as a memory.", AddText, MemoryWriteReport, _add_memory, mutates=True),
        PlainTool("search_memories", "Find memories that answer a query.", PlainQuery, MemoryRecallReport,
                  _recall_memories),
        PlainTool("get_memories", "List memories.", PlainListing, MemoryListReport, _list_memories),
        PlainTool("get_memory", "Read one memory.", OneMemory, RecallHit, _get_memory),
        PlainTool("update_memory", "Replace a fact's content.", UpdateMemory, MemoryControlReport, _update_memory,
                  mutates=True),
        PlainTool("get_memory_history", "Read a memory's history.", OneMemory, MemoryHistoryReport,
                  _memory_history),
        PlainTool("delete_memory", "Permanently erase one memory.", OneMemory, MemoryControlReport, _delete_memory,
                  mutates=True, destroys=True),
    )  # fmt: skip


def text_of(value: Any, /) -> str:
    """Return a JSON value as text for a model."""
    return json.dumps(value, ensure_ascii=False)


TOOLS_LISTED_CHARS = 6_000
"""Maximum characters of the whole list of tools shown by default."""
PREFIX = "memory_"


class ToolSet(StrEnum):
    """A set of tools; a server may show several."""

    SIMPLE = "simple"
    """Seven flat tools that answer in short lines, so that listing them costs a model little."""
    CORE = "core"
    """Tools that an assistant needs in every turn, with typed requests and full reports."""
    ALL = "all"
    """Every operation except those that a model must not call unprompted."""
    DESTRUCTIVE = "destructive"
    """Tools that erase, export, or agree in the owner's place. Each such call needs a confirmation."""
    REFERENCE = "reference"
    """The nine tools of the MCP project's own memory server, stored as facts."""
    MEM0 = "mem0"
    """The tools that mem0's hosts use."""


DEFAULT_SETS = frozenset({ToolSet.SIMPLE})

_CORE = frozenset(
    {
        "write",
        "recall",
        "project",
        "inspect",
        "replay",
        "get",
        "list",
        "history",
        "forget",
        "correct",
        "capabilities",
        "import",
    }
)


def operations_of(sets: frozenset[ToolSet], /, *, is_operator: bool) -> tuple[AnyOperation, ...]:
    """Return the operations that are tools in `sets`, operators' own only for operators."""
    return tuple(
        operation
        for operation in WIRE_OPERATIONS
        if _is_in(operation, sets) and (is_operator or operation.role is CallerRole.MEMBER)
    )


def _is_in(operation: AnyOperation, sets: frozenset[ToolSet]) -> bool:
    if operation.grave is not None and ToolSet.DESTRUCTIVE in sets:
        return True
    is_in_core_or_all = ToolSet.ALL in sets or (ToolSet.CORE in sets and operation.name in _CORE)
    return is_in_core_or_all and (operation.grave is None or bool(operation.grave_values))


def tool_name(operation: AnyOperation, /) -> str:
    """Return the tool name of an operation."""
    return PREFIX + operation.name


CONFIRM = "confirm"


def asked_for(operation: AnyOperation, schema: dict[str, Any], /) -> dict[str, Any]:
    """Return the request schema of `operation`, with the confirmation that a grave call needs."""
    if operation.grave is None:
        return schema
    requirement = f"Required if the call {operation.grave.value}. Ask the owner of the memory first."
    return schema | {
        "properties": schema.get("properties", {}) | {CONFIRM: {"const": operation.name, "description": requirement}}
    }


def require_confirmed(
    operation: AnyOperation, arguments: dict[str, Any], /, *, sets: frozenset[ToolSet]
) -> dict[str, Any]:
    """Return the request in `arguments`. Raises if a grave one is not offered here or not confirmed."""
    if operation.grave is None:
        return arguments
    request = {name: value for name, value in arguments.items() if name != CONFIRM}
    if operation.is_grave(request):
        reason = f"it {operation.grave.value}"
        if ToolSet.DESTRUCTIVE not in sets:
            tool = tool_name(operation)
            raise PermissionRefused(f"{tool} is not allowed to do this, because {reason}: enable the set 'destructive'")
        if arguments.get(CONFIRM) != operation.name:
            problem = f"must be {operation.name!r}, because {reason}: ask the owner of the memory first"
            raise InvalidInput(field=CONFIRM, problem=problem)
    return request


@cache
def operation_tool(name: str) -> "types.Tool":
    """Return the operation as a tool, with the schemas of its request and report."""
    import mcp_types as types

    operation = by_name(name)
    schema = envelope.operation_schemas(operation)
    return types.Tool(
        name=tool_name(operation),
        description=operation.summary,
        input_schema=_object_schema(asked_for(operation, schema["request"])),
        output_schema=_object_schema(schema["report"]),
        annotations=types.ToolAnnotations(
            read_only_hint=not operation.mutates,
            destructive_hint=operation.mutates and operation.repeat is not RepeatGuard.STORE,
            idempotent_hint=operation.repeat is not RepeatGuard.HARMLESS or not operation.mutates,
            open_world_hint=False,
        ),
    )


@cache
def plain_tool(tool: PlainTool) -> "types.Tool":
    """Return the tool with the schemas of its request and answer."""
    import mcp_types as types

    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=_object_schema(tool.request_type.model_json_schema(mode="validation")),
        output_schema=_object_schema(tool.answer_type.model_json_schema(mode="serialization")),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.mutates, destructive_hint=tool.destroys, open_world_hint=False
        ),
    )


@cache
def line_tool(tool: LineTool) -> "types.Tool":
    """Return the tool without what a model does not need: titles, bounds, and the shape of its answer."""
    import mcp_types as types

    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=not by_name(tool.operation).mutates, destructive_hint=False, open_world_hint=False
        ),
    )


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as that of an object, without patterns of Unicode classes, which some clients cannot read."""
    portable_schema = _portable_schema(schema)
    return portable_schema if portable_schema.get("type") == "object" else portable_schema | {"type": "object"}


def _portable_schema(schema: Any) -> Any:
    match schema:
        case dict():
            portable_schema = dict(cast("dict[str, Any]", schema))
            if r"\p{" in str(portable_schema.get("pattern")):
                del portable_schema["pattern"]
            for value in portable_schema.pop("patternProperties", {}).values():
                portable_schema["additionalProperties"] = value
            return {name: _portable_schema(value) for name, value in portable_schema.items()}
        case list():
            return [_portable_schema(item) for item in cast("list[Any]", schema)]
        case _:
            return schema
