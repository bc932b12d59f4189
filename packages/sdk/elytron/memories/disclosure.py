"""Disclosure of private memories: shown only to callers that ask for them by name."""

from typing import Final

from elytron.documents.plane_documents import KeptMemory
from elytron.memories.lookup import FactMemory, Memory, TurnMemory
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.errors import InvalidInput
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Fact, Privacy

SHOWN: Final = (Privacy.PUBLIC.value, Privacy.SHARED.value)
"""Planes that are disclosed unasked."""
_NAMED: Final = "names a private memory: ask with include_private"


def may_disclose(fact: Fact, /, *, include_private: bool) -> bool:
    """Return whether a fact may be shown to this request."""
    return include_private or fact.privacy is not long_term.Privacy.PRIVATE


def is_private(memory: Memory, /) -> bool:
    """Return whether a memory is shown only to a caller that asks for private ones."""
    match memory:
        case FactMemory(fact=fact):
            return fact.privacy is Privacy.PRIVATE
        case TurnMemory(turn=turn):
            return turn.is_private
        case KeptMemory(home=home, value=value):
            return home.privacy(value) is Privacy.PRIVATE or home.is_private(value)
        case _:
            return False


def require_disclosed(memory: Memory, /, *, include_private: bool) -> None:
    """Raise InvalidInput for a memory that the caller did not ask for by name, and for a private document always."""
    if memory.plane is Plane.PRIVATE_GARDEN:
        raise InvalidInput(field="id", problem="names a private document: read_garden reads those")
    if not include_private and is_private(memory):
        raise InvalidInput(field="id", problem=_NAMED)
