"""The one place that knows how an operation is called by its name: the adapter's registry and codec."""

import json

from pydantic import JsonValue

from elytron import MemoryRuntime
from elytron.registry import OPERATIONS, by_name
from elytron_adapter import codec
from elytron_core.model import Value

MANDATORY = ("write", "recall", "project", "inspect")
"""Operations that every set of fixtures must exercise."""
CLOSE = "close"


def names() -> tuple[str, ...]:
    """Return the names of all registered operations, in their order."""
    return tuple(operation.name for operation in OPERATIONS)


async def call(runtime: MemoryRuntime, name: str, request: dict[str, JsonValue], /) -> JsonValue:
    """Do the operation `name` as a transport would and return its report as JSON. Raises what the operation raises."""
    operation = by_name(name)
    decoded = codec.decode(operation, json.dumps(request).encode())
    report: Value = await runtime.operate(decoded, operation.report)
    return report.model_dump(mode="json")
