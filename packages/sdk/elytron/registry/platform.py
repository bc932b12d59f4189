"""The operations that say what a memory can do, and which spaces it has."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Operation, Role
from elytron_core.contracts.admin import platform, spaces

PLATFORM: tuple[AnyOperation, ...] = (
    Operation("capabilities", platform.MemoryCapabilitiesRequest, platform.MemoryCapabilityCatalog,
              lambda: ops.capabilities, "Say what this memory can do here."),
    Operation("list_spaces", spaces.MemorySpacesRequest, spaces.MemorySpacesReport, lambda: ops.list_spaces,
              "List the spaces of the store.", role=Role.OPERATOR),
)  # fmt: skip
"""The platform's operations."""
