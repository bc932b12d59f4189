"""Recall: what answers a query, best first, and why."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.scoped import Clip, ScopedRequest
from elytron_core.model import Value
from elytron_core.planes import long_term, transcript
from elytron_core.scope import Name

Values = Annotated[tuple[Name, ...], Field(max_length=limits.FILTER_VALUES)]


class Plane(StrEnum):
    """The kinds of memory that recall reads."""

    TRANSCRIPT = "transcript"
    LONG_TERM = "long_term"
    PROCEDURAL = "procedural"


class RecallFilters(Value):
    """Narrow recall before anything is ranked. Each part given must hold; several values of one part are any-of."""

    planes: tuple[Plane, ...] = ()
    agents: Values = ()
    apps: Values = ()
    projects: Values = ()
    channels: Values = ()
    conversations: Values = ()
    speakers: Values = ()
    roles: tuple[transcript.Role, ...] = ()
    tags_any: Values = ()
    tags_all: Values = ()
    since: transcript.At | None = None
    until: transcript.At | None = None
    as_of: transcript.At | None = None
    """What held at that time; without it, what holds now."""
    known_at: transcript.At | None = None
    """What was believed at that time."""


class MemoryRecallRequest(ScopedRequest):
    """Find up to `limit` memories that answer `query`, and no more than `max_tokens` of text where that is given."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)]
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    filters: RecallFilters = RecallFilters()


class RecallOutcome(StrEnum):
    """What recall came to."""

    FOUND = "found"
    NOTHING_RELEVANT = "nothing_relevant"
    EMPTY_QUERY = "empty_query"
    EMPTY_SPACE = "empty_space"


class RecallHit(Value):
    """One memory. `signals` say what spoke for it; `score` is comparable inside one report only."""

    id: str
    plane: Plane
    text: str
    score: float
    at: Instant | None = None
    speaker: str | None = None
    role: transcript.Role | None = None
    channel: str | None = None
    conversation: str | None = None
    title: str | None = None
    kind: long_term.Kind | None = None
    tags: tuple[str, ...] = ()
    metadata: transcript.Metadata = {}
    citations: tuple[str, ...] = ()
    """Where it comes from: the turns it rests on; for a turn, itself."""
    signals: dict[str, float] = {}


class MemoryRecallReport(Value):
    """Hits, best first. `considered` candidates passed the filters; `sequence` is the journal position recall saw."""

    space: str
    query: str
    outcome: RecallOutcome
    hits: tuple[RecallHit, ...] = ()
    considered: int = 0
    sequence: int = 0
    clipped: tuple[Clip, ...] = ()
