"""Which tools a host is shown. Every tool is an operation, or a plain way to one."""

from enum import StrEnum

from elytron.registry import OPERATIONS, AnyOperation, Role

PREFIX = "memory_"


class ToolSet(StrEnum):
    """A set of tools; a server may show several."""

    CORE = "core"
    """What an assistant needs from turn to turn."""
    ALL = "all"
    """Every operation."""
    REFERENCE = "reference"
    """The nine tools of the MCP project's own memory server, kept as facts."""
    MEM0 = "mem0"
    """The tools by which mem0's hosts know a memory."""


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
        "export",
        "import",
    }
)


def operations_of(sets: frozenset[ToolSet], /, *, is_operator: bool) -> tuple[AnyOperation, ...]:
    """Return the operations that are tools in `sets`, an operator's own only for operators."""
    shown = (
        OPERATIONS
        if ToolSet.ALL in sets
        else tuple(operation for operation in OPERATIONS if ToolSet.CORE in sets and operation.name in _CORE)
    )
    return tuple(operation for operation in shown if is_operator or operation.role is Role.MEMBER)


def tool_name(operation: AnyOperation, /) -> str:
    """Return the name under which an operation is a tool."""
    return PREFIX + operation.name
