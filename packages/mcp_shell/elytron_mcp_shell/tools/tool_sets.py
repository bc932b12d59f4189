"""Sets of tools that a host is shown. Every tool is an operation, or a plain way to one."""

from enum import StrEnum

from elytron.registry import WIRE_OPERATIONS, AnyOperation, Role

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
        if _is_in(operation, sets) and (is_operator or operation.role is Role.MEMBER)
    )


def _is_in(operation: AnyOperation, sets: frozenset[ToolSet]) -> bool:
    if operation.grave is not None and ToolSet.DESTRUCTIVE in sets:
        return True
    is_everyday = ToolSet.ALL in sets or (ToolSet.CORE in sets and operation.name in _CORE)
    return is_everyday and (operation.grave is None or bool(operation.grave_values))


def tool_name(operation: AnyOperation, /) -> str:
    """Return the name under which an operation is a tool."""
    return PREFIX + operation.name
