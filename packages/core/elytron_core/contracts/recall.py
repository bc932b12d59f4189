"""Recall: the memories that answer a query, best first, with reasons."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from elytron_core import limits
from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint, RegistryRefs, ToolExperienceStatus
from elytron_core.evidence import EvidenceRole, TrustLevel
from elytron_core.model import Value, no_item
from elytron_core.planes import facts, transcript
from elytron_core.planes.facts import FreshnessHint, FreshnessState
from elytron_core.planes.records import NamespacePrefix
from elytron_core.profiles import SpaceLoss
from elytron_core.scope import IncludePrivate, Name, Query, ReportClip, ScopedRequest
from elytron_core.tags import TagFilter
from elytron_core.time_kinds import ViewTime

WHY_NOT_IDS: Final = 20


__all__ = [
    "AnyOf",
    "ComparisonOperator",
    "FieldCondition",
    "HitDiversity",
    "MemoryRecallReport",
    "MemoryRecallRequest",
    "NothingReason",
    "RecallExtent",
    "RecallFilters",
    "RecallGate",
    "RecallGateNumbers",
    "RecallGateReport",
    "RecallHit",
    "RecallOutcome",
    "RecallPlane",
]

Scalar = StrictBool | StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=limits.CONDITION_CHARS)] | None


class ComparisonOperator(StrEnum):
    """Comparison of a value."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    EXISTS = "exists"


class FieldCondition(Value):
    """One comparison of the metadata under `field` with `values`: one of them, for `in` and `nin` any number.

    Items without the field pass only `ne` and `nin`; `negated` inverts the outcome. Values of different types are
    never equal and have no order, but integers and floats are one type.
    """

    field: Name
    comparison: ComparisonOperator = ComparisonOperator.EQ
    values: Annotated[tuple[Scalar, ...], Field(max_length=limits.FILTER_VALUES)] = ()
    negated: bool = False


class AnyOf(Value):
    """Conditions of which at least one must hold."""

    conditions: Annotated[tuple[FieldCondition, ...], Field(min_length=1, max_length=limits.CONDITION_TESTS)]


Where = Annotated[tuple[AnyOf, ...], Field(max_length=limits.CONDITION_TESTS)]


Values = Annotated[tuple[Name, ...], Field(max_length=limits.FILTER_VALUES)]

MemoryId = Annotated[str, Field(max_length=2 * limits.KEY_CHARS)]


class RecallPlane(StrEnum):
    """The kinds of memory. Private garden, subjects and candidates are read only by id and by their own operations."""

    TRANSCRIPT = "transcript"
    LONG_TERM = "long_term"
    PROCEDURAL = "procedural"
    CONTINUITY = "continuity"
    EXECUTION = "execution"
    SUMMARY = "summary"
    ARCHIVE = "archive"
    """Daily and monthly notes."""
    PRIVATE_GARDEN = "private_garden"
    SUBJECT = "subject"
    CANDIDATE = "candidate"
    TOOL_EXPERIENCE = "tool_experience"
    RECORDS = "records"
    """A host's values under namespaces and keys; recalled only if the filters request it."""


class RecallFilters(Value):
    """Narrow recall before ranking. Every given part must match; several values of one part are alternatives."""

    planes: tuple[RecallPlane, ...] = ()
    agents: Values = ()
    apps: Values = ()
    projects: Values = ()
    channels: Values = ()
    conversations: Values = ()
    speakers: Values = ()
    roles: tuple[EvidenceRole, ...] = ()
    tags_any: TagFilter = ()
    tags_all: TagFilter = ()
    since: ViewTime | None = None
    until: ViewTime | None = None
    as_of: ViewTime | None = None
    """Memories that held at that time; defaults to those that hold now."""
    known_at: ViewTime | None = None
    """Memories that were believed at that time."""
    kinds: tuple[facts.FactKind, ...] = ()
    """Only facts of these kinds."""
    authorities: tuple[facts.FactAuthority, ...] = ()
    """Only facts from one of these authorities."""
    confidences: tuple[facts.FactConfidence, ...] = ()
    trust: TrustLevel | None = None
    """Minimum trust by origin."""
    where: Where = ()
    """Conditions on a turn's metadata and a record's fields; memories without either pass only negative conditions."""
    namespace: NamespacePrefix = ()
    """Only records of namespaces with this prefix."""


class HitDiversity(StrEnum):
    """Spread of hits over conversations."""

    AUTO = "auto"
    """If the query asks for a list, a count or a common property."""
    OFF = "off"
    WIDE = "wide"


class RecallExtent(StrEnum):
    """Number of hits that a recall returns."""

    LIMIT = "limit"
    """As many as the limit allows."""
    NEEDED = "needed"
    """If the query asks for several things, all that fit into the tokens, each once, up to 100; for an account of what
    was said, in chronological order. Otherwise as many as the limit allows."""


class RecallGate(StrEnum):
    """Whether memories must be worth showing to a model that did not request them."""

    AUTO = "auto"
    """Return nothing unless the query asks for remembered content; then only the best hits."""
    STRICT = "strict"
    """The same, and doubtful hits are returned only if the query quite likely asks for them."""
    OFF = "off"


class MemoryRecallRequest(ScopedRequest["MemoryRecallReport"]):
    """Find up to `limit` memories that answer `query`, and at most `max_tokens` of text if that is given."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    extent: RecallExtent = RecallExtent.LIMIT
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Only hits with at least this score."""
    filters: RecallFilters = RecallFilters()
    cursor: Annotated[str, Field(max_length=limits.KEY_CHARS)] | None = None
    """Continue after the page whose report returned this cursor, with the same query and filters."""
    diversity: HitDiversity = HitDiversity.AUTO
    neighbours: Annotated[int, Field(ge=0, le=limits.RECALL_NEIGHBOURS)] = 0
    """Number of turns to add before and after each message."""
    why_not: Annotated[tuple[MemoryId, ...], Field(max_length=WHY_NOT_IDS)] = ()
    """Ids of memories for which the report explains why they are not among the hits."""
    tool_registry_refs: RegistryRefs = ()
    """The host's tool registries to give hints for; defaults to all that the space knows."""
    include_private: IncludePrivate = False
    recall_gate: RecallGate = RecallGate.OFF
    """`auto` if the hits go to a model unasked; an explicit recall always answers."""


class RecallOutcome(StrEnum):
    """Whether one of the best hits answers the query, in words; by the estimate of decision 0015."""

    FOUND = "found"
    """One of them probably answers."""
    DOUBTFUL = "doubtful"
    """They are close to the query, but may not answer it."""
    NOTHING = "nothing"
    """Nothing here answers. Any hits are the nearest memories and are shown to no model."""


class NothingReason(StrEnum):
    """Why recall found nothing."""

    NO_ANSWER = "no_answer"
    """The nearest memories do not answer."""
    BELOW_MIN_SCORE = "below_min_score"
    """Memories pass the filters, but none reaches the requested score."""
    HELD_BACK = "held_back"
    """The query does not seem to ask for remembered content, and the gate was requested."""
    NOTHING_MATCHES_FILTERS = "nothing_matches_filters"
    """The space has memories, but the filters exclude all of them."""
    EMPTY_QUERY = "empty_query"
    EMPTY_SPACE = "empty_space"
    LOST = "lost"
    """Nothing is here because damage removed memories: see `losses`."""


class VectorUse(StrEnum):
    """Use of vectors in a recall."""

    NONE = "none"
    """The runtime has no embedder."""
    COMPARED = "compared"
    NOT_YET = "not_yet"
    """Nothing here has a vector yet."""
    FAILED = "failed"
    """The embedder did not return the query's vector in time; recall continued with words."""
    OTHER_MODEL = "other_model"
    """The vectors here are from a model for which the runtime has no embedder; recall continued with words."""
    OTHER_LANGUAGE = "other_language"
    """The embedder reads only English and the query is in another language; recall continued without it."""


class RerankUse(StrEnum):
    """Use of a reranker in a recall."""

    NONE = "none"
    """The runtime has no reranker, or there was nothing to reorder."""
    RANKED = "ranked"
    FAILED = "failed"
    """It did not answer in time; the order is unchanged."""


class NearbyTurn(Value):
    """A message next to a hit in its conversation."""

    id: str
    text: str
    speaker: str | None = None
    role: EvidenceRole | None = None
    at: Instant | None = None


class AbsenceReason(StrEnum):
    """Why a memory is not among the hits."""

    SHOWN = "shown"
    """It is among the hits."""
    UNKNOWN = "unknown"
    """There is no readable memory with this id here."""
    HIDDEN = "hidden"
    """It was forgotten, archived or replaced."""
    FILTERED = "filtered"
    """The filters exclude it."""
    NO_MATCH = "no_match"
    """Neither it nor its neighbours match the query."""
    MIN_SCORE = "min_score"
    """Its score is below the requested minimum."""
    HELD_BACK = "held_back"
    """The gate admits no memory of its kind for this query, or none so far behind the best."""
    EARLIER_PAGE = "earlier_page"
    LIMIT = "limit"
    """It matches, but the limit was reached first."""
    TOKENS = "tokens"
    """It matches, but the tokens were used up first."""


class WhyNot(Value):
    """Why one memory is not among the hits; its overall rank and score, if any."""

    id: str
    absence: AbsenceReason
    place: int | None = None
    score: float | None = None
    signals: dict[str, float] = {}


class RecallHit(Value):
    """One memory. `signals` explain why it matched.

    `score` estimates, from 0 to 1, that the memory answers; it is comparable across queries and spaces.
    """

    id: str
    plane: RecallPlane
    text: str
    score: float
    at: Instant | None = None
    recorded_at: Instant | None = None
    """When it was recorded, if `at` claims a later time; this time then decides its order."""
    speaker: str | None = None
    role: EvidenceRole | None = None
    channel: str | None = None
    conversation: str | None = None
    title: str | None = None
    kind: facts.FactKind | None = None
    reach: facts.FactReach | None = None
    """Scope of a fact; None for other memories."""
    trust: TrustLevel | None = None
    """Trust by its origin; None for planes without it."""
    privacy: facts.FactPrivacy | None = None
    """Privacy of a fact; None for other memories."""
    freshness: FreshnessState | None = None
    """Freshness; None for messages, and for a memory read by its id."""
    hint: FreshnessHint | None = None
    """Hint on what to do before using it."""
    tags: tuple[str, ...] = ()
    metadata: transcript.Metadata = {}
    citations: tuple[str, ...] = ()
    """Sources: the turns that it is based on; for a turn, itself."""
    citation: str | None = None
    """For a message: its citation as shown to people, `transcript:space/channel/conversation#turn=...`."""
    signals: dict[str, float] = {}
    before: tuple[NearbyTurn, ...] = ()
    after: tuple[NearbyTurn, ...] = ()
    newer: str | None = None
    """A newer message among the hits that mentions a change, if the query asks what holds now."""

    @property
    def when(self) -> datetime | None:
        """Return `at` as an aware datetime in UTC."""
        return as_datetime(self.at) if self.at is not None else None


class RecallGateNumbers(Value):
    """The numbers behind the gate's decision about one plane."""

    plane: RecallPlane
    evidence: float
    """Similarity of the best hit, as far as the signals agree on it."""
    searched: int
    """Number of memories searched; the more there are, the closer the nearest one is by chance."""
    asks: float
    """The prompt classifier's margin for the query; above 0 the query asks memory."""
    context: float
    """Largest share of the query's words in a memory and its neighbours."""
    chance: float
    """Estimated probability that the memories are wanted."""
    is_open: bool


class RecallGateReport(Value):
    """The gate's decision by plane. The gate is open if it is open for one of them."""

    is_open: bool = False
    planes: tuple[RecallGateNumbers, ...] = ()
    left_out: int = 0
    """Number of hits that it withheld."""


class MemoryRecallReport(Value):
    """Hits, best first. `considered` candidates passed the filters; `sequence` is the recall's journal position."""

    space: str
    query: str
    outcome: RecallOutcome
    hits: tuple[RecallHit, ...] = ()
    reason: NothingReason | None = None
    """Why the outcome is `nothing`; None otherwise."""
    considered: int = 0
    intent: str = "mixed"
    """Intent of the query: factual, procedural, continuity, evidence or mixed."""
    sequence: int = 0
    clipped: tuple[ReportClip, ...] = ()
    next_cursor: str | None = None
    """Continues after the last hit; None if there are no more."""
    cut: float | None = None
    """The best score that is not shown; None if all hits are."""
    rerank: RerankUse = RerankUse.NONE
    why_not: tuple[WhyNot, ...] = ()
    vectors: VectorUse = VectorUse.NONE
    unembedded: int = 0
    """Units without a vector from the compared model: only their words can match."""
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    """State of the scope's chat; if the chat names no conversation, no turn is recalled."""
    agent_skill_hits: tuple[AgentSkillHit, ...] = ()
    """Skills in the host's directories that match the query, best first; they are not memories and are never
    executed."""
    agent_tool_hints: tuple[AgentToolHint, ...] = ()
    """Tools that worked before; neither routing nor permission."""
    tool_experience_status: ToolExperienceStatus = ToolExperienceStatus()
    gate: RecallGateReport | None = None
    """The gate's decision, if the gate was requested."""
    losses: tuple[SpaceLoss, ...] = ()
    """What repairs could not save, until an operator acknowledges it."""

    def __iter__(self) -> Iterator[RecallHit]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Yield the hits, best first."""
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int, /) -> RecallHit:
        try:
            return self.hits[index]
        except TypeError:
            raise no_item(self, index) from None
