"""Every operation, and how one is found."""

from elytron.registry.candidates import GOVERNING
from elytron.registry.embedding import EMBEDDING
from elytron.registry.everyday import EVERYDAY
from elytron.registry.maintenance import MAINTAINING
from elytron.registry.operation import AnyOperation
from elytron.registry.platform import PLATFORM
from elytron.registry.records import RECORDS
from elytron.registry.skills import SKILLS
from elytron.registry.tools import TOOLS
from elytron.registry.transcript import TRANSCRIPT
from elytron_core.errors import Unsupported
from elytron_core.model import Value

FAMILIES: dict[str, tuple[AnyOperation, ...]] = {
    "everyday": EVERYDAY,
    "governing": GOVERNING,
    "embedding": EMBEDDING,
    "transcript": TRANSCRIPT,
    "platform": PLATFORM,
    "skills": SKILLS,
    "tools": TOOLS,
    "records": RECORDS,
    "maintaining": MAINTAINING,
}
OPERATIONS: tuple[AnyOperation, ...] = tuple(operation for family in FAMILIES.values() for operation in family)
WIRE_OPERATIONS: tuple[AnyOperation, ...] = tuple(operation for operation in OPERATIONS if not operation.is_local)
"""Those that transports over a wire show."""

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
_FAMILY_OF = {operation.name: name for name, family in FAMILIES.items() for operation in family}
_BY_REQUEST = {operation.request: operation for operation in OPERATIONS}


def by_name(name: str, /) -> AnyOperation:
    """Return the operation called `name`. Raises Unsupported."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise Unsupported(f"there is no such operation; there are {', '.join(_BY_NAME)}")
    return operation


def family_of(operation: AnyOperation, /) -> str:
    """Return the name of the family that `operation` was declared in."""
    return _FAMILY_OF[operation.name]


def by_request(request: Value, /) -> AnyOperation:
    """Return the operation that takes `request`. Raises Unsupported."""
    operation = _BY_REQUEST.get(type(request))
    if operation is None:
        raise Unsupported(f"no operation takes a {type(request).__name__}: give a request, such as MemoryRecallRequest")
    return operation
