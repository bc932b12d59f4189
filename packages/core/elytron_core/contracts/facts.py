"""Facts: read, change, forget. Also waiting candidates, profiles of persons, and rules of learning."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import ControlOutcome, Remaining
from elytron_core.evidence import TrustLevel
from elytron_core.model import Value
from elytron_core.planes import candidates, facts
from elytron_core.planes.facts import FactOperation, FreshnessHint, FreshnessState, LearningAction, LearningRules
from elytron_core.scope import Cursor, IncludePrivate, Name, PageLimit, Reason, ScopedRequest, ScrubbedCounts
from elytron_core.time_kinds import ClaimedTime, PlannedTime, ViewTime

__all__ = [
    "CandidateListReport",
    "CandidateListRequest",
    "CandidateResolution",
    "CandidateResolveReport",
    "CandidateResolveRequest",
    "CandidatesWrite",
    "FactAction",
    "FactChangeReport",
    "FactChangeRequest",
    "FactDetailReport",
    "FactDetailRequest",
    "FactDraft",
    "FactEntry",
    "FactForgetReport",
    "FactForgetRequest",
    "FactListReport",
    "FactListRequest",
    "LearningReport",
    "LearningRequest",
    "MemoryMergeReport",
    "MemoryMergeRequest",
    "ProfileBearing",
    "ProfileGroup",
    "ProfileLine",
    "ProfileReport",
    "ProfileRequest",
    "ProfileSentence",
    "ProfileWording",
]


class FactDraft(Value):
    """A proposed fact. It becomes a fact only after admission."""

    operation: FactOperation = FactOperation.UPSERT
    fact_kind: facts.FactKind = facts.FactKind.FACT
    topic: facts.Topic
    content: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    keywords: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    entities: Annotated[tuple[Name, ...], Field(max_length=limits.KEYWORDS)] = ()
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    privacy: facts.FactPrivacy = facts.FactPrivacy.SHARED
    authority: facts.FactAuthority = facts.FactAuthority.EXTRACTED
    claimed: facts.FactAuthority | None = None
    """Authority that its source claims, if it is only a claim."""
    confidence: facts.FactConfidence = facts.FactConfidence.MEDIUM
    tier: facts.FactTier | None = None
    """Intended duration; without `valid_to`, it decides when the fact ends."""
    certainty: facts.Certainty | None = None
    reach: facts.FactReach = facts.FactReach.USER
    observed_at: ClaimedTime | None = None
    valid_from: PlannedTime | None = None
    valid_to: PlannedTime | None = None
    reason: Reason = ""


FactKey = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
Query = Annotated[str, Field(max_length=limits.QUERY_CHARS)]
Person = Annotated[str, Field(max_length=limits.NAME_CHARS)]
Token = Annotated[str, Field(min_length=1, max_length=limits.KEY_CHARS)]


class FactEntry(Value):
    """A fact in full: its content, confidence, sources and history."""

    id: str
    kind: facts.FactKind
    topic: str
    content: str
    keywords: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    state: facts.FactState
    confidence: facts.FactConfidence
    tier: facts.FactTier | None = None
    certainty: float | None = None
    authority: facts.FactAuthority
    trust: TrustLevel
    privacy: facts.FactPrivacy
    reach: facts.FactReach
    channel: str | None = None
    chat: str | None = None
    """For a fact limited to one chat: the conversation that it applies to."""
    evidence: tuple[str, ...] = ()
    """Ids of the messages and other references that it is based on."""
    evidence_count: int
    observed_at: Instant
    recorded_at: Instant
    confirmed_at: Instant
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    last_used_at: Instant | None = None
    """When a recall or a block last returned it, if known."""
    freshness: FreshnessState
    hint: FreshnessHint
    closed_at: Instant | None = None
    closed_because: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    version: str
    """Changes with every change of the fact; a change can require it."""


class FactListRequest(ScopedRequest["FactListReport"]):
    """List facts a page at a time, oldest first: those that hold now, or those in the given states at any time.

    With `query`, only facts with each of its words in topic, content, keywords or entities.
    """

    query: Query = ""
    states: Annotated[tuple[facts.FactState, ...], Field(max_length=limits.TAGS)] | None = None
    """Without states: facts that hold now, as recall returns them. Empty: facts in every state."""
    kinds: Annotated[tuple[facts.FactKind, ...], Field(max_length=limits.TAGS)] = ()
    include_private: IncludePrivate = False
    limit: PageLimit = 100
    cursor: Cursor | None = None


class FactListReport(Value):
    """A page of facts; `next_cursor` continues after it. `learning` lists topics that are not learned."""

    space: str
    items: tuple[FactEntry, ...]
    withheld: int = 0
    """Number of private facts omitted from this page."""
    learning: LearningRules = LearningRules()
    next_cursor: str | None = None
    has_more: bool = False


class FactDetailRequest(ScopedRequest["FactDetailReport"]):
    """Read one fact in full, in any state."""

    id: FactKey
    include_private: IncludePrivate = False


class FactDetailReport(Value):
    """One fact."""

    space: str
    fact: FactEntry


class FactAction(StrEnum):
    """Change of a fact."""

    CORRECT = "correct"
    """The fact was wrong: `content` replaces it, and the old content is not believed for any time."""
    SUPERSEDE = "supersede"
    """The world changed at `at`: the fact held until then, and `content` holds from then on."""
    DELETE = "delete"
    """Remove the fact from recall and do not learn it again until its topic is allowed; history stays."""
    MARK_STALE = "mark_stale"
    """Require verification before the fact is used, until a caller confirms it."""
    INVALIDATE = "invalidate"
    """The fact held until `at`, and nothing replaces it."""
    CHANGE_PRIVACY = "change_privacy"
    """Set `privacy` from now on; a stricter value also applies to earlier versions."""
    CHANGE_SCOPE = "change_scope"
    """Set `reach` from now on; `chat` means the conversation of the request's scope."""


class FactChangeRequest(ScopedRequest["FactChangeReport"]):
    """Change one fact that holds now, held earlier, or will hold later."""

    id: FactKey
    action: FactAction
    content: facts.Content | None = None
    privacy: facts.FactPrivacy | None = None
    reach: facts.FactReach | None = None
    at: PlannedTime | None = None
    expected_version: Token | None = None
    """Change the fact only if this is still its version."""
    reason: Reason = ""
    dry_run: bool = False


class FactChangeReport(Value):
    """Outcome of the fact. `new_id` is the version that replaced it.

    After a deletion, `remaining` are the versions that recall gives for other times. Each can be deleted too.
    """

    space: str
    id: str
    action: FactAction
    outcome: ControlOutcome
    reason: str | None = None
    """Why the fact is unchanged; always set if the outcome is `unchanged`."""
    new_id: str | None = None
    remaining: Remaining = ()
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    scrubbed: ScrubbedCounts = {}


class FactForgetRequest(ScopedRequest["FactForgetReport"]):
    """Forget every fact that recall may return, at any time, and that contains each word of `query`.

    They are not relearned until allowed.

    A dry run lists the facts and returns a token. The real call takes the token and forgets all of these or none.
    """

    query: Annotated[str, Field(min_length=1, max_length=limits.QUERY_CHARS)]
    kinds: Annotated[tuple[facts.FactKind, ...], Field(max_length=limits.TAGS)] = ()
    """Without kinds: facts of every kind."""
    include_private: IncludePrivate = False
    dry_run: bool = False
    token: Token | None = None
    reason: Reason = ""


class FactForgetReport(Value):
    """The forgotten facts, or with a dry run those to forget, as they were; at most as many as one call takes."""

    space: str
    items: tuple[FactEntry, ...]
    withheld: int = 0
    """Private facts that match and were not changed."""
    has_more: bool = False
    token: str | None = None
    """From a dry run: the token that the real call requires."""
    changed: bool
    dry_run: bool = False
    sequence: int = 0


class LearningRequest(ScopedRequest["LearningReport"]):
    """Pause or resume learning, wholly or for one topic; suppress or allow one topic."""

    action: LearningAction
    topic: facts.Topic | None = None
    reason: Reason = ""
    dry_run: bool = False


class LearningReport(Value):
    """Rules that now suppress learning, and the number of removed tombstones."""

    space: str
    learning: LearningRules
    tombstones: int = 0
    changed: bool
    dry_run: bool = False
    sequence: int = 0


class ProfileWording(StrEnum):
    """Author of a profile's wording."""

    RULES = "rules"
    """No author: the text lists the facts, one per line."""
    MODEL = "model"
    """The language model, within the day's budget; sentences that their facts do not support are dropped."""


class ProfileBearing(StrEnum):
    """Relation of a fact to a person."""

    SUBJECT = "subject"
    """The fact is about that person."""
    NAMED = "named"
    """The fact is about another person or thing and names that person."""


class ProfileRequest(ScopedRequest["ProfileReport"]):
    """Return the current facts about a person.

    Without a name, it is the space's user: every fact that applies to the user. `as_of` selects facts that held at a
    time, `known_at` those believed then. A chat's own facts are shown only in that chat.
    """

    person: Person = ""
    as_of: ViewTime | None = None
    known_at: ViewTime | None = None
    include_private: IncludePrivate = False
    wording: ProfileWording = ProfileWording.RULES
    limit: Annotated[int, Field(ge=1, le=limits.PROFILE_LINES_MAX)] = limits.PROFILE_LINES


class ProfileLine(Value):
    """A fact of a profile."""

    id: str
    topic: str
    content: str
    bearing: ProfileBearing
    confidence: facts.FactConfidence
    trust: TrustLevel
    privacy: facts.FactPrivacy
    observed_at: Instant
    valid_to: Instant | None = None
    """When it stopped holding, if known."""
    hint: FreshnessHint
    evidence: tuple[str, ...] = ()
    """Ids of the messages and other references that it is based on."""


class ProfileGroup(Value):
    """The facts of one kind: first those about the person, then those that name the person."""

    kind: facts.FactKind
    lines: tuple[ProfileLine, ...]


class ProfileSentence(Value):
    """A sentence of a written profile, and the facts it rests on."""

    text: str
    citations: tuple[str, ...]


class ProfileReport(Value):
    """Current facts about a person. `names` are the names searched for."""

    space: str
    person: str
    names: tuple[str, ...] = ()
    groups: tuple[ProfileGroup, ...] = ()
    text: str = ""
    """The profile as bounded text without ids."""
    wording: ProfileWording = ProfileWording.RULES
    """Author of the wording."""
    sentences: tuple[ProfileSentence, ...] = ()
    """For a written profile: the sentences of the text."""
    sentences_dropped: int = 0
    """Number of sentences dropped because their cited facts do not support them."""
    not_written: str | None = None
    """Why the model wrote nothing."""
    withheld: int = 0
    """Number of private facts omitted."""
    left_out: int = 0
    """Number of facts beyond the limit."""


CandidateName = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class CandidatesWrite(Value):
    """Proposed beliefs. Each is accepted, rejected, deferred or handed over, with a reason in the report."""

    kind: Literal["candidates"] = "candidates"
    candidates: Annotated[
        tuple[candidates.CandidateDraft, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)
    ]


class CandidateListRequest(ScopedRequest["CandidateListReport"]):
    """List candidates a page at a time, oldest first; without `states`, those that are pending."""

    states: Annotated[tuple[candidates.CandidateState, ...], Field(max_length=limits.TAGS)] = (
        candidates.CandidateState.DEFERRED,
        candidates.CandidateState.HANDED_OFF,
    )
    targets: Annotated[tuple[candidates.CandidateTarget, ...], Field(max_length=limits.TAGS)] = ()
    include_private: bool = False
    """Include private candidates and private documents. Models never get this unless the server was started with it."""
    limit: PageLimit = 100
    cursor: Cursor | None = None


class CandidateListReport(Value):
    """A page of candidates; `next_cursor` continues after it."""

    space: str
    items: tuple[candidates.Candidate, ...]
    withheld: int = 0
    """Number of private candidates omitted from this page."""
    next_cursor: str | None = None
    has_more: bool = False


class CandidateResolution(StrEnum):
    """Decision on a pending candidate."""

    ACCEPT = "accept"
    """It becomes a belief where the merge guards allow it; a candidate handed over counts as accepted by its keeper."""
    REJECT = "reject"


class CandidateResolveRequest(ScopedRequest["CandidateResolveReport"]):
    """Resolve one pending candidate."""

    id: CandidateName
    resolution: CandidateResolution
    reason: Reason = ""
    dry_run: bool = False


class CandidateResolveReport(Value):
    """Outcome of the candidate. If a guard refused the acceptance, it stays pending and `reason` says why."""

    space: str
    id: str
    state: candidates.CandidateState
    changed: bool
    became: str | None = None
    reason: str = ""
    dry_run: bool = False
    sequence: int = 0


class MemoryMergeRequest(ScopedRequest["MemoryMergeReport"]):
    """Merge near-duplicate facts into the most certain one, or with `undo` restore merged ones.

    Without `undo`, one call merges at most `limit` pairs; repeat it until nothing changes.
    """

    undo: Annotated[tuple[CandidateName, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    limit: Annotated[int, Field(ge=1, le=limits.WRITES_PER_REQUEST)] = 100
    dry_run: bool = False


class MergedPair(Value):
    """One fact merged into another, or restored from it; `likeness` is 0 to 1."""

    kept: str
    folded: str
    likeness: float = 0.0
    changed: bool = True
    reason: str = ""


class MemoryMergeReport(Value):
    """Facts that were merged or restored."""

    space: str
    pairs: tuple[MergedPair, ...]
    changed: bool
    dry_run: bool = False
    sequence: int = 0
