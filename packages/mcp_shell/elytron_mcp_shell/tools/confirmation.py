"""Confirmation of calls that a model may not make unasked: it repeats them with a token."""

from typing import Any

from elytron.registry import AnyOperation
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_mcp_shell.tools.tool_sets import ToolSet, tool_name

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
