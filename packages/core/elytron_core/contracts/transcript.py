"""The transcript: writes and governed commits, views of what was said, retention of its text, and repair."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.facts import CandidatesWrite, FactDraft
from elytron_core.contracts.tools import AgentToolUsageFeedbackWrite
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import FactId, TurnId
from elytron_core.model import Value
from elytron_core.planes import skills, transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.transcript import (
    ActorAttribution,
    DerivedMemoryRef,
    HostOpaqueRef,
    MessageAttribute,
    OpaqueItem,
    OpaqueItems,
)
from elytron_core.scope import (
    ConversationReport,
    FutureClaims,
    IdempotencyKey,
    Name,
    Reason,
    ReportClip,
    ScopedRequest,
    ScrubbedCounts,
)
from elytron_core.tags import Tags
from elytron_core.time_kinds import ClaimedTime

PAGE_ASKED: Final = 1_000_000
"""Largest page of a transcript that a request may ask for; it has at most `PAGE_MAX` turns, and says so."""


__all__ = [
    "CanonicalTurnDelta",
    "ComparedConversation",
    "ImportComparison",
    "LongTermExtraction",
    "MemoryTranscriptCommitReport",
    "MemoryTranscriptCommitRequest",
    "MemoryTranscriptExportReport",
    "MemoryTranscriptExportRequest",
    "MemoryTranscriptLifecycleReport",
    "MemoryTranscriptLifecycleRequest",
    "MemoryTranscriptRepairReport",
    "MemoryTranscriptRepairRequest",
    "MemoryTranscriptReplayReport",
    "MemoryTranscriptReplayRequest",
    "MemoryWriteReport",
    "MemoryWriteRequest",
    "ProcedureSource",
    "RedactedTranscriptSlice",
    "RuntimeSkillWrite",
    "TranscriptLifecycleTransition",
    "TranscriptReplayView",
    "TranscriptWrite",
    "TurnDraft",
]


class TurnDraft(Value):
    """Messages that belong together. With `host_id`, a turn sent repeatedly is committed once."""

    messages: Annotated[tuple[transcript.Message, ...], Field(min_length=1, max_length=limits.MESSAGES_PER_TURN)]
    host_id: Name | None = None
    delivery: transcript.TurnDelivery = transcript.TurnDelivery.DELIVERED
    tags: Tags = ()
    metadata: transcript.GivenMetadata = Field(default_factory=dict)
    source: transcript.TurnSource | None = None
    actor: ActorAttribution | None = None
    tool_observations: Annotated[
        tuple[transcript.ToolObservation, ...], Field(max_length=limits.TOOL_OBSERVATIONS)
    ] = ()
    host_refs: Annotated[tuple[HostOpaqueRef, ...], Field(max_length=limits.HOST_REFS)] = ()
    items: OpaqueItems = ()
    """The host's own items in addition to the words, as JSON texts; they are returned unchanged."""
    external_content_used: bool = False
    candidate_ids: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    attributes: Annotated[tuple[MessageAttribute, ...], Field(max_length=limits.ATTRIBUTES)] = ()


class ImportComparison(Value):
    """How an import compares its turns with stored ones (speaker, minute and text); for a dry run."""

    is_sample: bool = False
    """The turns are a sample of a file: only look for the conversation that contains them."""
    anywhere: bool = False
    """Search all conversations of the channel, not only the scope's."""
    offsets_ms: Annotated[tuple[int, ...], Field(min_length=1, max_length=limits.IMPORT_OFFSETS)] = (0,)
    """Known time differences; the first is the one already applied to the turns."""
    after: int = 0
    """Sequence after which turns without a time are compared."""
    repeats: Annotated[tuple[int, ...], Field(max_length=limits.TURNS_PER_COMMIT)] = ()
    """For each turn, the number of equal turns before it in the same minute."""
    is_swapped: bool = False
    """Day and month of the stored times are swapped: correct them."""


class ComparedConversation(Value):
    """The stored conversation that an import was compared with, and the difference between their times."""

    channel: str
    conversation: str
    title: str | None = None
    messages: int = 0
    """Number of the request's turns that it contains."""
    offsets_ms: tuple[int, ...] = (0,)
    last: int = 0
    """Highest sequence among them."""


class TranscriptWrite(Value):
    """Commit turns as evidence to the scope's conversation, in this order.

    An imported turn whose text has changed under its host id, or that names another message as `edit_of` in its
    metadata, replaces the stored one, which stays in history. One that was erased is skipped, unless `restore_erased`
    is set.
    """

    kind: Literal["transcript"] = "transcript"
    turns: Annotated[tuple[TurnDraft, ...], Field(min_length=1, max_length=limits.TURNS_PER_COMMIT)]
    origin: transcript.TurnOrigin = transcript.TurnOrigin.HOST
    title: Name | None = None
    comparison: ImportComparison | None = None
    restore_erased: bool = False


class LongTermExtraction(Value):
    """Facts that an extraction pipeline, a program or a user proposes."""

    kind: Literal["long_term"] = "long_term"
    facts: Annotated[tuple[FactDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]


class RuntimeSkillWrite(Value):
    """A procedure to store. Its stored name gets the prefix `runtime_skill__` if missing."""

    name: Name
    topic: skills.Title
    title: skills.Title
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)]
    content: Annotated[str, Field(max_length=limits.SKILL_CHARS)]
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    source_chat_id: Name | None = None
    observed_at: ClaimedTime | None = None


class ProcedureSource(Value):
    """Procedures learned by a program, a person or an extraction."""

    kind: Literal["procedural"] = "procedural"
    writes: Annotated[tuple[RuntimeSkillWrite, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]
    source: skills.SkillSource = skills.SkillSource.MANUAL


PlaneWrite = CapsulesWrite | ExecutionWrite | SummaryWrite | NotesWrite | GardenWrite | SubjectsWrite
"""Planes with one document per matter, conversation or name: writes replace it and never duplicate it."""

MemoryWrite = (
    TranscriptWrite | LongTermExtraction | ProcedureSource | AgentToolUsageFeedbackWrite | CandidatesWrite | PlaneWrite
)
"""Everything that can be written."""


class MemoryWriteRequest(ScopedRequest["MemoryWriteReport"]):
    """Store evidence, beliefs, candidates, or items of the other planes.

    With `idempotency_key`, a repeat returns the first answer and changes nothing.
    """

    write: Annotated[MemoryWrite, Field(discriminator="kind")]
    idempotency_key: IdempotencyKey | None = None
    dry_run: bool = False
    """Evaluate everything and store nothing: the report says what a real write would do now, except for the ids."""


class WriteOutcome(StrEnum):
    """Outcome of one written item."""

    STORED = "stored"
    UPDATED = "updated"
    CONFIRMED = "confirmed"
    """The same fact again: counted as more evidence, otherwise unchanged."""
    DELETED = "deleted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    DEFERRED = "deferred"
    SKIPPED = "skipped"


class WriteDecision(Value):
    """One written item: its id, what was done, and why."""

    plane: str
    id: str | None = None
    """The id for reading, forgetting and erasing the memory: a turn's id, a fact's id, or a skill's name."""
    outcome: WriteOutcome
    verdict: AdmissionVerdict = AdmissionVerdict.ACCEPT
    reason: str = ""
    supersedes: FactId | None = None
    name: str | None = None


class MemoryWriteReport(Value):
    """The receipt of a write. `sequence` is the space's journal sequence after it; the write is durable."""

    space: str
    decisions: tuple[WriteDecision, ...]
    sequence: int
    changed: bool
    duplicated: bool = False
    """The idempotency key was used before: this repeats the first answer."""
    dry_run: bool = False
    scrubbed: ScrubbedCounts = {}
    future_claims: FutureClaims = ()
    compared: ComparedConversation | None = None
    """The answer to the write's `comparison`."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of what is now stored, in request order."""
        return tuple(decision.id for decision in self.decisions if decision.id is not None)

    def count(self, outcome: WriteOutcome, /) -> int:
        """Return the number of decisions with `outcome`."""
        return sum(1 for decision in self.decisions if decision.outcome is outcome)


TurnCursor = Annotated[str, Field(max_length=limits.KEY_CHARS)]
"""`sequence:turn_id`, as returned in a report."""
TurnIdText = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class CanonicalTurnDelta(Value):
    """One finished turn, as the host saw it: only what is new, never earlier history.

    `turn_id` is the host's own; a turn sent repeatedly is committed once. With `sequence`, the turn
    must get that number in its conversation.
    """

    turn_id: Name
    sequence: Annotated[int, Field(ge=1)] | None = None
    delivery: transcript.TurnDelivery = transcript.TurnDelivery.DELIVERED
    source: transcript.TurnSource | None = None
    actor: ActorAttribution | None = None
    input_messages: Annotated[tuple[transcript.Message, ...], Field(max_length=limits.MESSAGES_PER_TURN - 1)] = ()
    assistant_message: transcript.Message | None = None
    tool_observations: Annotated[
        tuple[transcript.ToolObservation, ...], Field(max_length=limits.TOOL_OBSERVATIONS)
    ] = ()
    host_refs: Annotated[tuple[HostOpaqueRef, ...], Field(max_length=limits.HOST_REFS)] = ()
    items: OpaqueItems = ()
    external_content_used: bool = False
    candidate_ids: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    attributes: Annotated[tuple[MessageAttribute, ...], Field(max_length=limits.ATTRIBUTES)] = ()
    tags: Tags = ()
    metadata: transcript.GivenMetadata = {}

    @field_validator("assistant_message", mode="before")
    @classmethod
    def _answering(cls, value: Any) -> Any:
        """Set the assistant role on a message that has none, because its field says whose it is."""
        if isinstance(value, transcript.Message) and "role" not in value.model_fields_set:
            return value.model_copy(update={"role": EvidenceRole.ASSISTANT})
        if isinstance(value, dict) and "role" not in value:
            return {**value, "role": EvidenceRole.ASSISTANT}  # pyright: ignore[reportUnknownVariableType]
        return value  # pyright: ignore[reportUnknownVariableType]

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.input_messages and self.assistant_message is None:
            raise ValueError("has neither input messages nor an assistant message")
        if self.assistant_message is not None and self.assistant_message.role is not EvidenceRole.ASSISTANT:
            raise ValueError("has an assistant message with another role")
        return self

    @property
    def messages(self) -> tuple[transcript.Message, ...]:
        """All messages of the turn, the answer last."""
        answer_messages = (self.assistant_message,) if self.assistant_message is not None else ()
        return (*self.input_messages, *answer_messages)

    def message_ids(self, turn: TurnId | None, /) -> tuple[str, ...]:
        """Return the ids of the messages stored for this turn id; none for a turn that leaves no evidence."""
        if turn is None:
            return ()
        evidence_messages = transcript.evidence_of(self.messages, self.delivery)
        return tuple(transcript.message_id(turn, part) for part in range(len(evidence_messages)))

    def draft(self) -> TurnDraft:
        """Return the turn as a draft for a write."""
        return TurnDraft(
            messages=self.messages,
            host_id=self.turn_id,
            delivery=self.delivery,
            tags=self.tags,
            metadata=self.metadata,
            source=self.source,
            actor=self.actor,
            tool_observations=self.tool_observations,
            host_refs=self.host_refs,
            items=self.items,
            external_content_used=self.external_content_used,
            candidate_ids=self.candidate_ids,
            attributes=self.attributes,
        )


class MemoryTranscriptCommitRequest(ScopedRequest["MemoryTranscriptCommitReport"]):
    """Commit a delivered turn as evidence to the scope's conversation.

    If the scope names a chat and a conversation, the chat means that conversation for this subject from now on.
    """

    delta: CanonicalTurnDelta
    title: Name | None = None
    idempotency_key: IdempotencyKey | None = None
    dry_run: bool = False


class MemoryTranscriptCommitReport(ConversationReport):
    """The receipt of a commit. `committed` is true if this call or an earlier one stored the turn."""

    host_turn_id: str
    turn_id: TurnId | None = None
    sequence: int = 0
    """The turn's place in its conversation."""
    message_ids: tuple[str, ...] = ()
    committed: bool
    changed: bool
    duplicated: bool = False
    dry_run: bool = False
    skipped_reason: str = ""
    scrubbed: dict[str, int] = {}
    future_claims: FutureClaims = ()
    journal_sequence: int = 0


class TranscriptReplayView(StrEnum):
    """The audience that a transcript is redacted for."""

    RAW_OWNER_ONLY = "raw_owner_only"
    MODEL_CONTEXT = "model_context"
    HOST_UI = "host_ui"
    OPERATOR_AUDIT = "operator_audit"
    EXPORT = "export"


class TranscriptRedactionReason(StrEnum):
    """Why content is not shown."""

    LIFECYCLE_MASKED = "lifecycle_masked"
    RAW_DELETED = "raw_deleted"
    PRIVATE_AUTHORITY = "private_authority"
    HOST_REF_VISIBILITY = "host_ref_visibility"
    HOST_REF_LABEL = "host_ref_label"
    ATTR_VISIBILITY = "attr_visibility"
    ATTR_VALUE_BUDGET = "attr_value_budget"
    ATTR_LIFECYCLE_POLICY = "attr_lifecycle_policy"
    PROFILE_BUDGET = "profile_budget"
    OPERATOR_ONLY = "operator_only"
    MODEL_CONTEXT_POLICY = "model_context_policy"


class TranscriptRedactionReportItem(Value):
    """One thing that a view omitted, named without its content: by message, reference, attribute or observation."""

    turn_id: TurnId
    view: TranscriptReplayView
    reason: TranscriptRedactionReason
    message_id: str | None = None
    host_ref_index: int | None = None
    attr_key: str | None = None
    observation_index: int | None = None
    source_authority: EvidenceAuthority | None = None


class RedactedTranscriptMessage(Value):
    """A message as a view shows it; a redacted one has no text."""

    id: str
    role: EvidenceRole
    authority: EvidenceAuthority
    redacted: bool = False
    text: str | None = None
    at: Instant | None = None
    actor: ActorAttribution = ActorAttribution()
    attributes: tuple[MessageAttribute, ...] = ()


class RedactedTranscriptTurn(Value):
    """A turn as a view shows it; parts that the view excludes are empty."""

    id: TurnId
    sequence: int
    recorded_at: Instant
    delivery: transcript.TurnDelivery
    lifecycle: transcript.TurnLifecycle
    redaction: transcript.TextRedaction
    host_turn_id: str | None = None
    actor: ActorAttribution = ActorAttribution()
    source: transcript.TurnSource | None = None
    external_content_used: bool = False
    messages: tuple[RedactedTranscriptMessage, ...] = ()
    tool_observations: tuple[transcript.ToolObservation, ...] = ()
    host_refs: tuple[HostOpaqueRef, ...] = ()
    items: tuple[OpaqueItem, ...] = ()
    """The host's own items: only in the owner's view, while the raw text exists."""
    attributes: tuple[MessageAttribute, ...] = ()
    candidate_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: transcript.Metadata = {}


class TranscriptReplayAudit(Value):
    """Counts of a view: its input and what it shows."""

    view: TranscriptReplayView
    source_turns: int = 0
    returned_turns: int = 0
    redacted_messages: int = 0
    redacted_host_refs: int = 0
    redacted_attributes: int = 0
    redacted_tool_observations: int = 0
    redaction_reasons: tuple[TranscriptRedactionReason, ...] = ()


class RedactedTranscriptSlice(ConversationReport):
    """Turns of one conversation, redacted for one view; `redactions` lists what was omitted."""

    view: TranscriptReplayView
    turns: tuple[RedactedTranscriptTurn, ...] = ()
    redactions: tuple[TranscriptRedactionReportItem, ...] = ()
    audit: TranscriptReplayAudit


PageSize = Annotated[int, Field(ge=1, le=PAGE_ASKED)]


class MemoryTranscriptReplayRequest(ScopedRequest["MemoryTranscriptReplayReport"]):
    """Read the scope's conversation through one view, a page at a time; reading changes nothing."""

    view: TranscriptReplayView = TranscriptReplayView.HOST_UI
    limit: PageSize = 100
    cursor: TurnCursor | None = None


class MemoryTranscriptReplayReport(Value):
    """A page of a conversation. `profile_budget_applied` is true if the profile's budget cut what `clipped` lists.

    With an untrusted alias nothing is shown.
    """

    slice: RedactedTranscriptSlice
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    next_cursor: str | None = None
    has_more: bool = False
    profile_budget_applied: bool = False
    clipped: tuple[ReportClip, ...] = ()


class MemoryTranscriptExportRequest(ScopedRequest["MemoryTranscriptExportReport"]):
    """Read the scope's conversation in the export view, a page at a time: only content that may be exported."""

    limit: PageSize = 100
    cursor: TurnCursor | None = None


class MemoryTranscriptExportReport(MemoryTranscriptReplayReport):
    """A page of a conversation in the export view."""


class TranscriptLifecycleTransition(StrEnum):
    """Requested state of the raw text of turns."""

    ARCHIVE = "archive"
    """Excluded from recall and projection, but still readable."""
    RESTORE = "restore"
    """Restored to its former state if its text still exists."""
    MASK = "mask"
    """Excluded from every view, but stored."""
    DELETE_RAW = "delete_raw"
    """Physically removed; what was accepted from it stays."""
    REVIEW = "review"
    """Change nothing; only report what would be affected."""


class MemoryTranscriptLifecycleRequest(ScopedRequest["MemoryTranscriptLifecycleReport"]):
    """Change the lifecycle of turns of the scope's conversation: those in `turn_ids`, or all.

    A turn is named by its id or the host's own. History records reason and requester.
    """

    transition: TranscriptLifecycleTransition
    turn_ids: Annotated[tuple[TurnIdText, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    view: TranscriptReplayView = TranscriptReplayView.HOST_UI
    """The audience for which the report names host references."""
    reason: Reason = ""
    requested_by: Name | None = None


class DerivedMemoryLink(DerivedMemoryRef):
    """A memory based on a transcript, as reports show it."""

    citation: str
    """The evidence as text: `transcript:space/channel/conversation#turn=...`."""

    @classmethod
    def of(cls, ref: DerivedMemoryRef, /) -> "DerivedMemoryLink":
        """Return `ref` with its citation."""
        return cls(**dict(ref), citation=ref.source.citation)


class MemoryTranscriptLifecycleReport(ConversationReport):
    """Result of a lifecycle request. One that matched nothing succeeds and changes nothing."""

    transition: TranscriptLifecycleTransition
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    affected_turns: int = 0
    affected_turn_ids: tuple[TurnId, ...] = ()
    affected_message_ids: tuple[str, ...] = ()
    affected_host_refs: tuple[HostOpaqueRef, ...] = ()
    redacted_host_refs: int = 0
    host_ref_redactions: tuple[TranscriptRedactionReportItem, ...] = ()
    derived_memory_refs: tuple[DerivedMemoryLink, ...] = ()
    profile_budget_applied: bool = False
    clipped: tuple[ReportClip, ...] = ()
    changed: bool = False
    reason: str = ""
    requested_by: str | None = None
    sequence: int = 0


class TranscriptRepairIssueKind(StrEnum):
    """Kind of a broken link of a transcript."""

    MISSING_SOURCE_TURN = "missing_source_turn"
    MISSING_SOURCE_MESSAGE = "missing_source_message"
    MISSING_ATTR_TARGET_TURN = "missing_attr_target_turn"
    MISSING_ATTR_TARGET_MESSAGE = "missing_attr_target_message"
    ORPHAN_DERIVED_REF = "orphan_derived_ref"
    MISMATCHED_SOURCE_KEY = "mismatched_source_key"
    MISMATCHED_ATTR_SOURCE_KEY = "mismatched_attr_source_key"
    OVERSIZED_ATTR_VALUE = "oversized_attr_value"
    INVALID_ATTR_KEY = "invalid_attr_key"
    INVALID_ATTR_VISIBILITY = "invalid_attr_visibility"
    CORRUPT_TRANSCRIPT_ATTR_RECORD = "corrupt_transcript_attr_record"
    DUPLICATE_TURN_CURSOR = "duplicate_turn_cursor"
    CORRUPT_RECORD = "corrupt_record"


class TranscriptRepairIssue(Value):
    """One broken link, named without content. `key` is the document that is wrong."""

    kind: TranscriptRepairIssueKind
    collection: str
    key: str
    turn_id: TurnId | None = None
    message_id: str | None = None
    derived_ref: DerivedMemoryLink | None = None


class MemoryTranscriptRepairRequest(ScopedRequest["MemoryTranscriptRepairReport"]):
    """Check every link of the scope's conversation. Nothing is changed, and no host is contacted."""


class MemoryTranscriptRepairReport(ConversationReport):
    """Result of a link check. If there are issues, memories based on the conversation cannot be trusted."""

    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    checked_turns: int = 0
    checked_derived_refs: int = 0
    checked_attributes: int = 0
    issues: tuple[TranscriptRepairIssue, ...] = ()
    profile_budget_applied: bool = False
    clipped: tuple[ReportClip, ...] = ()
    fail_closed: bool = False
