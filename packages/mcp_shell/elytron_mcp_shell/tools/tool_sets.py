"""Sets of tools that a host is shown. Every tool is an operation, or a plain way to one."""

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, RepeatGuard, by_name
from elytron_adapter import envelope
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_mcp_shell.tools.line_tools import LineTool
from elytron_mcp_shell.tools.plain_tools import PlainTool

if TYPE_CHECKING:
    import mcp_types as types

PREFIX = "memory_"


class ToolSet(StrEnum):
    """A set of tools; a server may show several."""

    SIMPLE = "simple"
    """Seven flat tools that answer in short lines: a list of tools that costs a model little."""
    CORE = "core"
    """Tools that an assistant needs from turn to turn, with typed requests and whole reports."""
    ALL = "all"
    """Every operation but those that a model is not to call unasked."""
    DESTRUCTIVE = "destructive"
    """Tools that erase, export, or agree in the owner's place. Each such call needs a confirmation."""
    REFERENCE = "reference"
    """The nine tools of the MCP project's own memory server, kept as facts."""
    MEM0 = "mem0"
    """The tools by which mem0's hosts know a memory."""


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
    """Return the operations that are tools in `sets`, an operator's own only for operators."""
    return tuple(
        operation
        for operation in WIRE_OPERATIONS
        if _is_in(operation, sets) and (is_operator or operation.role is CallerRole.MEMBER)
    )


def _is_in(operation: AnyOperation, sets: frozenset[ToolSet]) -> bool:
    if operation.grave is not None and ToolSet.DESTRUCTIVE in sets:
        return True
    is_everyday = ToolSet.ALL in sets or (ToolSet.CORE in sets and operation.name in _CORE)
    return is_everyday and (operation.grave is None or bool(operation.grave_values))


def tool_name(operation: AnyOperation, /) -> str:
    """Return the name under which an operation is a tool."""
    return PREFIX + operation.name


CONFIRM = "confirm"


def asked_for(operation: AnyOperation, schema: dict[str, Any], /) -> dict[str, Any]:
    """Return the schema of what `operation` takes, with the confirmation that a grave call needs."""
    if operation.grave is None:
        return schema
    told = f"Needed where the call {operation.grave.value}. Ask the owner of the memory first."
    return schema | {
        "properties": schema.get("properties", {}) | {CONFIRM: {"const": operation.name, "description": told}}
    }


def require_confirmed(
    operation: AnyOperation, arguments: dict[str, Any], /, *, sets: frozenset[ToolSet]
) -> dict[str, Any]:
    """Return the request in `arguments`. Raises if a grave one is not shown here or not confirmed."""
    if operation.grave is None:
        return arguments
    request = {name: value for name, value in arguments.items() if name != CONFIRM}
    if operation.is_grave(request):
        told = f"it {operation.grave.value}"
        if ToolSet.DESTRUCTIVE not in sets:
            tool = tool_name(operation)
            raise PermissionRefused(f"{tool} is not called so here, for {told}: show the set of tools 'destructive'")
        if arguments.get(CONFIRM) != operation.name:
            problem = f"must be {operation.name!r}, for {told}: ask the owner of the memory first"
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
    """Return the tool with the schemas of what it takes and gives."""
    import mcp_types as types

    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=_object_schema(tool.taken.model_json_schema(mode="validation")),
        output_schema=_object_schema(tool.given.model_json_schema(mode="serialization")),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.mutates, destructive_hint=tool.destroys, open_world_hint=False
        ),
    )


@cache
def line_tool(tool: LineTool) -> "types.Tool":
    """Return the tool without what a model can do without: titles, bounds, and the shape of its answer."""
    import mcp_types as types

    schema = tool.taken.model_json_schema(mode="validation")
    fields = {name: _brief_field(field) for name, field in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", "properties": fields, **required, "additionalProperties": False},
        annotations=types.ToolAnnotations(
            read_only_hint=not by_name(tool.operation).mutates, destructive_hint=False, open_world_hint=False
        ),
    )


def _brief_field(field: dict[str, Any]) -> dict[str, Any]:
    found = next((form for form in field.get("anyOf", ()) if form.get("type") != "null"), field)
    kept = {name: found[name] for name in ("type", "minimum", "maximum", "default") if name in found}
    return kept | {"items": {"type": "string"}} if kept["type"] == "array" else kept


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as one of an object, without patterns of Unicode classes, which some clients cannot read."""
    found = _portable_schema(schema)
    return found if found.get("type") == "object" else found | {"type": "object"}


def _portable_schema(schema: Any) -> Any:
    match schema:
        case dict():
            found = dict(cast("dict[str, Any]", schema))
            if r"\p{" in str(found.get("pattern")):
                del found["pattern"]
            for value in found.pop("patternProperties", {}).values():
                found["additionalProperties"] = value
            return {name: _portable_schema(value) for name, value in found.items()}
        case list():
            return [_portable_schema(item) for item in cast("list[Any]", schema)]
        case _:
            return schema
