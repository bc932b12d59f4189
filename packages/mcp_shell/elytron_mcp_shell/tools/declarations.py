"""Declarations of tools as MCP lists them: name, description, and JSON schemas that every host reads."""

from functools import cache
from typing import Any, cast

import mcp_types as types

from elytron.registry import Repeat, by_name
from elytron_adapter import codec
from elytron_mcp_shell.tools.confirmation import asked_for
from elytron_mcp_shell.tools.line_tools import LineTool
from elytron_mcp_shell.tools.plain_tools import PlainTool
from elytron_mcp_shell.tools.tool_sets import tool_name


@cache
def operation_tool(name: str) -> types.Tool:
    """Return the operation as a tool, with the schemas of its request and report."""
    operation = by_name(name)
    schema = codec.schema(operation)
    return types.Tool(
        name=tool_name(operation),
        description=operation.summary,
        input_schema=_object(asked_for(operation, schema["request"])),
        output_schema=_object(schema["report"]),
        annotations=types.ToolAnnotations(
            read_only_hint=not operation.mutates,
            destructive_hint=operation.mutates and operation.repeat is not Repeat.STORE,
            idempotent_hint=operation.repeat is not Repeat.HARMLESS or not operation.mutates,
            open_world_hint=False,
        ),
    )


@cache
def plain_tool(tool: PlainTool) -> types.Tool:
    """Return the tool with the schemas of what it takes and gives."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=_object(tool.taken.model_json_schema(mode="validation")),
        output_schema=_object(tool.given.model_json_schema(mode="serialization")),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.mutates, destructive_hint=tool.destroys, open_world_hint=False
        ),
    )


@cache
def line_tool(tool: LineTool) -> types.Tool:
    """Return the tool without what a model can do without: titles, bounds, and the shape of its answer."""
    schema = tool.taken.model_json_schema(mode="validation")
    fields = {name: _brief(field) for name, field in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", "properties": fields, **required, "additionalProperties": False},
        annotations=types.ToolAnnotations(
            read_only_hint=not by_name(tool.operation).mutates, destructive_hint=False, open_world_hint=False
        ),
    )


def _brief(field: dict[str, Any]) -> dict[str, Any]:
    found = next((form for form in field.get("anyOf", ()) if form.get("type") != "null"), field)
    kept = {name: found[name] for name in ("type", "minimum", "maximum", "default") if name in found}
    return kept | {"items": {"type": "string"}} if kept["type"] == "array" else kept


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as one of an object, without patterns of Unicode classes, which some clients cannot read."""
    found = _portable(schema)
    return found if found.get("type") == "object" else found | {"type": "object"}


def _portable(schema: Any) -> Any:
    match schema:
        case dict():
            found = dict(cast("dict[str, Any]", schema))
            if r"\p{" in str(found.get("pattern")):
                del found["pattern"]
            for value in found.pop("patternProperties", {}).values():
                found["additionalProperties"] = value
            return {name: _portable(value) for name, value in found.items()}
        case list():
            return [_portable(item) for item in cast("list[Any]", schema)]
        case _:
            return schema
