"""Governance of beliefs: candidates that wait for a decision, and near duplicates brought together."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.scope_fields import Cursor, PageLimit, Reason, ScopedRequest
from elytron_core.model import Value
from elytron_core.planes.conversation import candidates

CandidateName = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class CandidatesWrite(Value):
    """Proposed beliefs. Each is accepted, rejected, deferred or handed over, and the report says why."""

    kind: Literal["candidates"] = "candidates"
    candidates: Annotated[
        tuple[candidates.CandidateDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)
    ]


class CandidateListRequest(ScopedRequest):
    """Read kept candidates a page at a time, oldest first; without `states`, those that still wait."""

    states: Annotated[tuple[candidates.CandidateState, ...], Field(max_length=limits.TAGS)] = (
        candidates.CandidateState.DEFERRED,
        candidates.CandidateState.HANDED_OFF,
    )
    targets: Annotated[tuple[candidates.Target, ...], Field(max_length=limits.TAGS)] = ()
    include_private: bool = False
    """Also private ones, and private documents. A model is never given it, unless the server was started so."""
    limit: PageLimit = 100
    cursor: Cursor | None = None


class CandidateListReport(Value):
    """A page of candidates; `next_cursor` continues behind it."""

    space: str
    items: tuple[candidates.Candidate, ...]
    withheld: int = 0
    """Private ones that were left out of this page."""
    next_cursor: str | None = None
    has_more: bool = False


class Resolution(StrEnum):
    """Decision on a candidate that waits."""

    ACCEPT = "accept"
    """It becomes a belief, where the merge guards let it; a handed over one counts as taken by its keeper."""
    REJECT = "reject"


class CandidateResolveRequest(ScopedRequest):
    """Decide on one candidate that waits."""

    id: CandidateName
    resolution: Resolution
    reason: Reason = ""
    dry_run: bool = False


class CandidateResolveReport(Value):
    """Outcome of the candidate. If a guard refused the acceptance, it still waits and `reason` says why."""

    space: str
    id: str
    state: candidates.CandidateState
    changed: bool
    became: str | None = None
    reason: str = ""
    dry_run: bool = False
    sequence: int = 0


class MemoryMergeRequest(ScopedRequest):
    """Fold facts that say nearly the same into the surest of them, or with `undo` bring folded ones back.

    Without `undo`, at most `limit` pairs are folded in one call; run it again until nothing changes.
    """

    undo: Annotated[tuple[CandidateName, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    limit: Annotated[int, Field(ge=1, le=limits.WRITES_PER_REQUEST)] = 100
    dry_run: bool = False


class MergedPair(Value):
    """One fact folded into another, or brought back from it; `likeness` is 0 to 1."""

    kept: str
    folded: str
    likeness: float = 0.0
    changed: bool = True
    reason: str = ""


class MemoryMergeReport(Value):
    """Facts that were folded or brought back."""

    space: str
    pairs: tuple[MergedPair, ...]
    changed: bool
    dry_run: bool = False
    sequence: int = 0
