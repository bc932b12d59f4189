"""What a model has to say twice: a call that removes for good or takes the whole memory out."""

from typing import Any

from elytron.registry import AnyOperation
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_mcp_shell.toolsets import ToolSet, tool_name

CONFIRM = "confirm"


def asked_for(operation: AnyOperation, schema: dict[str, Any], /) -> dict[str, Any]:
    """Return the schema of what `operation` takes, with the confirmation that a grave call needs."""
    if not operation.may_be_grave:
        return schema
    told = f"Needed where the call {_doing(operation)}. Ask whoever the memory belongs to first."
    return schema | {
        "properties": schema.get("properties", {}) | {CONFIRM: {"const": operation.name, "description": told}}
    }


def require_confirmed(
    operation: AnyOperation, arguments: dict[str, Any], /, *, sets: frozenset[ToolSet]
) -> dict[str, Any]:
    """Return the request in `arguments`. Raises where a grave one is not shown here, or not confirmed."""
    if not operation.may_be_grave:
        return arguments
    request = {name: value for name, value in arguments.items() if name != CONFIRM}
    if operation.is_grave(request):
        if ToolSet.DESTRUCTIVE not in sets:
            reason = f"{tool_name(operation)} {_doing(operation)} only where the set of tools 'destructive' is shown"
            raise PermissionRefused(reason)
        if arguments.get(CONFIRM) != operation.name:
            problem = f"must be {operation.name!r}, for it {_doing(operation)}: ask whoever the memory belongs to first"
            raise InvalidInput(field=CONFIRM, problem=problem)
    return request


def _doing(operation: AnyOperation) -> str:
    return "removes for good" if operation.mutates else "takes the memory out"
