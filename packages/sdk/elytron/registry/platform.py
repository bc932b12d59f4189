"""The operation that says what a memory can do."""

from elytron import ops
from elytron.registry.declaring import AnyOperation, Operation
from elytron_core.contracts import platform

PLATFORM: tuple[AnyOperation, ...] = (
    Operation("capabilities", platform.MemoryCapabilitiesRequest, platform.MemoryCapabilityCatalog, ops.capabilities,
              "Say what this memory can do here."),
)  # fmt: skip
"""The platform's operations."""
