"""Writing: evidence, long-term extractions, procedures. One request, one batch, one receipt."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.conversation.candidates import CandidatesWrite
from elytron_core.contracts.planes import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.scope_fields import IdempotencyKey, Reason, ScopedRequest, ScrubbedCounts
from elytron_core.contracts.tools import AgentToolUsageFeedbackWrite
from elytron_core.ids import FactId
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.planes.conversation.actors import ActorAttribution
from elytron_core.planes.conversation.attributes import Attribute
from elytron_core.planes.conversation.candidates import Verdict
from elytron_core.planes.conversation.host_refs import HostOpaqueRef, OpaqueItems
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.planes.knowledge.long_term import FactOperation
from elytron_core.scope import Name, Tags


class TurnDraft(Value):
    """Messages that belong together. With `host_id`, the same turn is committed once, however often it is sent."""

    messages: Annotated[tuple[transcript.Message, ...], Field(min_length=1, max_length=limits.MESSAGES_PER_TURN)]
    host_id: Name | None = None
    delivery: transcript.Delivery = transcript.Delivery.DELIVERED
    tags: Tags = ()
    metadata: transcript.GivenMetadata = Field(default_factory=dict)
    source: transcript.TurnSource | None = None
    actor: ActorAttribution | None = None
    tool_observations: Annotated[
        tuple[transcript.ToolObservation, ...], Field(max_length=limits.TOOL_OBSERVATIONS)
    ] = ()
    host_refs: Annotated[tuple[HostOpaqueRef, ...], Field(max_length=limits.HOST_REFS)] = ()
    items: OpaqueItems = ()
    """The host's own items beside the words, as JSON texts; they come back as they are."""
    external_content_used: bool = False
    candidate_ids: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    attributes: Annotated[tuple[Attribute, ...], Field(max_length=limits.ATTRIBUTES)] = ()


class TranscriptWrite(Value):
    """Commit turns as evidence to the scope's conversation, in this order."""

    kind: Literal["transcript"] = "transcript"
    turns: Annotated[tuple[TurnDraft, ...], Field(min_length=1, max_length=limits.TURNS_PER_COMMIT)]
    origin: transcript.Origin = transcript.Origin.HOST
    title: Name | None = None


class FactDraft(Value):
    """A proposed fact. Admission judges it; it is not a fact before."""

    operation: FactOperation = FactOperation.UPSERT
    fact_kind: long_term.Kind = long_term.Kind.FACT
    topic: long_term.Topic
    content: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    keywords: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    entities: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    privacy: long_term.Privacy = long_term.Privacy.SHARED
    authority: long_term.Authority = long_term.Authority.EXTRACTED
    claimed: long_term.Authority | None = None
    """Authority that its source claims, if it is only a claim."""
    confidence: long_term.Confidence = long_term.Confidence.MEDIUM
    tier: long_term.Tier | None = None
    """Intended duration; without `valid_to`, it decides when the fact ends."""
    certainty: long_term.Certainty | None = None
    reach: long_term.Reach = long_term.Reach.USER
    observed_at: transcript.At | None = None
    valid_from: transcript.At | None = None
    valid_to: transcript.At | None = None
    reason: Reason = ""


class LongTermExtraction(Value):
    """Facts that an extraction pipeline, a program or a user proposes."""

    kind: Literal["long_term"] = "long_term"
    facts: Annotated[tuple[FactDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]


class RuntimeSkillWrite(Value):
    """A procedure to keep. The stored name gets the prefix `runtime_skill__` where it lacks it."""

    name: Name
    topic: procedural.Title
    title: procedural.Title
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)]
    content: Annotated[str, Field(max_length=limits.SKILL_CHARS)]
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    source_chat_id: Name | None = None
    observed_at: transcript.At | None = None


class Procedural(Value):
    """Procedures learned by a program, a person or an extraction."""

    kind: Literal["procedural"] = "procedural"
    writes: Annotated[tuple[RuntimeSkillWrite, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]
    source: procedural.SkillSource = procedural.SkillSource.MANUAL


PlaneWrite = CapsulesWrite | ExecutionWrite | SummaryWrite | NotesWrite | GardenWrite | SubjectsWrite
"""Planes with one document per matter, conversation or name: replaced, never doubled."""

MemoryWrite = (
    TranscriptWrite | LongTermExtraction | Procedural | AgentToolUsageFeedbackWrite | CandidatesWrite | PlaneWrite
)
"""Everything that can be written."""


class MemoryWriteRequest(ScopedRequest):
    """Store evidence, beliefs, candidates, or what the other planes keep.

    With `idempotency_key`, a repeat gets the first answer, no change.
    """

    write: Annotated[MemoryWrite, Field(discriminator="kind")]
    idempotency_key: IdempotencyKey | None = None
    dry_run: bool = False
    """Judge everything, store nothing: the report says what a write now would do, but for the ids."""


class Outcome(StrEnum):
    """Outcome of one written item."""

    STORED = "stored"
    UPDATED = "updated"
    CONFIRMED = "confirmed"
    """The same fact again: counted as more evidence, nothing else changed."""
    DELETED = "deleted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    DEFERRED = "deferred"
    SKIPPED = "skipped"


class WriteDecision(Value):
    """One written thing: what it is known by now, what was done, and why."""

    plane: str
    id: str | None = None
    """By which the memory is read, forgotten and erased: a turn's id, a fact's id, a skill's name."""
    outcome: Outcome
    verdict: Verdict = Verdict.ACCEPT
    reason: str = ""
    supersedes: FactId | None = None
    name: str | None = None


class MemoryWriteReport(Value):
    """The receipt of a write. `sequence` is the space's journal sequence after it; durable when you hold it."""

    space: str
    decisions: tuple[WriteDecision, ...]
    sequence: int
    changed: bool
    duplicated: bool = False
    """The idempotency key had been used: this is the first answer again."""
    dry_run: bool = False
    scrubbed: ScrubbedCounts = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of what is now stored, in the order of the request."""
        return tuple(decision.id for decision in self.decisions if decision.id is not None)

    def count(self, outcome: Outcome, /) -> int:
        """Return how many things had `outcome`."""
        return sum(1 for decision in self.decisions if decision.outcome is outcome)
