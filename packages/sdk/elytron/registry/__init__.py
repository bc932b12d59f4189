"""The operations, declared once, by family.

Faces, transports, the command line, OpenAPI and their tests are derived from this table.
"""

from elytron.registry.operations import (
    OPERATIONS,
    WIRE_OPERATIONS,
    AnyOperation,
    CallerRole,
    CallGravity,
    Operation,
    RepeatGuard,
    by_name,
    by_request,
    family_of,
)

__all__ = ["OPERATIONS", "WIRE_OPERATIONS", "AnyOperation", "CallGravity", "CallerRole", "Operation", "RepeatGuard",
           "by_name", "by_request", "family_of"]  # fmt: skip
