"""On whose word a call proposes beliefs: a member speaks for himself and for what he was told, not for the machine."""

from collections.abc import Iterable

from elytron_core.contracts.continuity import ContinuityImportRequest
from elytron_core.contracts.governing import CandidatesWrite
from elytron_core.contracts.writing import LongTermExtraction, MemoryWriteRequest
from elytron_core.model import Value
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.planes.long_term import Authority

_MACHINES = frozenset(
    {
        Authority.OPERATOR,
        Authority.PROGRAM,
        Authority.RUNTIME,
        EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
        EvidenceAuthority.RUNTIME_OBSERVATION,
    }
)
"""Their word overrules a user's doubt about what a tool or a page said, so that nobody lends it to himself."""


def borrowed_words(request: Value, /) -> tuple[str, ...]:
    """Return on whose word, beyond a member's own, `request` proposes beliefs."""
    return tuple(sorted({authority.value for authority in _claimed(request) if authority in _MACHINES}))


def _claimed(request: Value) -> Iterable[Authority | EvidenceAuthority]:
    match request:
        case MemoryWriteRequest(write=LongTermExtraction(facts=facts)):
            return {fact.authority for fact in facts}
        case MemoryWriteRequest(write=CandidatesWrite(candidates=drafts)):
            return {draft.authority for draft in drafts}
        case ContinuityImportRequest():
            return {fact.authority for fact in request.snapshot.layers.facts}
        case _:
            return ()
