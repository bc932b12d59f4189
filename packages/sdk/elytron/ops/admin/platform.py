"""Capabilities of this memory."""

from elytron.capabilities import catalog_of
from elytron.context import OperationContext
from elytron_core.contracts.admin.platform import MemoryCapabilitiesRequest, MemoryCapabilityCatalog


async def capabilities(ctx: OperationContext, request: MemoryCapabilitiesRequest, /) -> MemoryCapabilityCatalog:  # noqa: ARG001 - every operation takes both, and is awaited
    """Return what can be done here, by profile, by what is installed and by what is set up."""
    return catalog_of(ctx)
