"""The operations, declared once, by family.

Faces, transports, the command line, OpenAPI and their tests are derived from it.
"""

from elytron.registry.declaring import AnyOperation, Grave, Operation, Repeat, Role
from elytron.registry.finding import OPERATIONS, by_name, by_request, family_of

__all__ = ["OPERATIONS", "AnyOperation", "Grave", "Operation", "Repeat", "Role", "by_name", "by_request", "family_of"]
