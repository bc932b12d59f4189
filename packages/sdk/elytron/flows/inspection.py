"""Inspection, and beside it what a model would be shown for a query."""

from elytron import ops
from elytron.context import OperationContext
from elytron_core.contracts.admin.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.conversation.projection import MemoryProjectionRequest
from elytron_core.text import similarity


async def inspect(ctx: OperationContext, request: MemoryInspectionRequest, /) -> MemoryInspectionReport:
    """Report what the space holds, and with a `query` its projection. Raises as `ops.inspect`."""
    report = await ops.inspect(ctx, request)
    if similarity.is_blank(request.query):
        return report
    asked = MemoryProjectionRequest(
        scope=request.scope,
        query=request.query,
        max_chars=request.max_chars,
        pressure=request.pressure,
        mode_input=request.mode_input,
    )
    return report.model_copy(update={"projection": await ops.project(ctx, asked)})
