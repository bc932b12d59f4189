"""Disclosure of private memories: shown only to callers that ask for them by name."""

from typing import Final

from elytron.documents.plane_documents import KeptMemory
from elytron.memories.lookup import FactMemory, Memory
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.errors import InvalidInput
from elytron_core.planes.conversation import candidates
from elytron_core.planes.knowledge import long_term, records, subjects
from elytron_core.planes.knowledge.long_term import Fact, Privacy

SHOWN: Final = (Privacy.PUBLIC.value, Privacy.SHARED.value)
"""Planes that are disclosed unasked."""
_NAMED: Final = "names a private memory: ask with include_private"


def may_disclose(fact: Fact, /, *, include_private: bool) -> bool:
    """Return whether a fact may be shown to this request."""
    return include_private or fact.privacy is not long_term.Privacy.PRIVATE


def is_private_candidate(candidate: candidates.Candidate, /) -> bool:
    """Return whether a proposal is private, or is to become a private document."""
    draft = candidate.draft
    return draft.privacy is Privacy.PRIVATE or isinstance(draft.proposal, candidates.GardenProposal)


def is_private(memory: Memory, /) -> bool:
    """Return whether a memory is shown only to a caller that asks for private ones."""
    match memory:
        case FactMemory(fact=fact):
            return fact.privacy is Privacy.PRIVATE
        case KeptMemory(value=candidates.Candidate() as candidate):
            return is_private_candidate(candidate)
        case KeptMemory(value=subjects.Subject(visibility=visibility)):
            return visibility is not subjects.SubjectVisibility.VISIBLE
        case KeptMemory(value=records.Record(privacy=privacy)):
            return privacy is Privacy.PRIVATE
        case _:
            return False


def require_disclosed(memory: Memory, plane: Plane, /, *, include_private: bool) -> None:
    """Raise InvalidInput for a memory that the caller did not ask for by name, and for a private document always."""
    if plane is Plane.PRIVATE_GARDEN:
        raise InvalidInput(field="id", problem="names a private document: read_garden reads those")
    if not include_private and is_private(memory):
        raise InvalidInput(field="id", problem=_NAMED)
