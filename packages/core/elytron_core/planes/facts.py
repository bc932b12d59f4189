"""The plane of facts: accepted beliefs, at most one current value per slot, with history; and the learning rules.

A fact holds for a period, is replaced by a new value, and becomes less fresh with age.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant, order_time
from elytron_core.evidence import TrustLevel
from elytron_core.ids import FactId
from elytron_core.model import Value
from elytron_core.scope import ConversationKey, Name
from elytron_core.text import similarity

TIER_L1_DAYS: Final = 1
TIER_L2_DAYS: Final = 7
"""Days for which a fact holds that is meant for the day, and for the week."""


FACTS = "facts"
SLOTS = "slots"
FACT_USES = "fact_uses"

Topic = Annotated[str, Field(min_length=1, max_length=limits.TOPIC_CHARS)]
Content = Annotated[str, Field(min_length=1, max_length=limits.FACT_CHARS)]
Certainty = Annotated[float, Field(ge=0, le=1)]


class FactKind(StrEnum):
    """Kind of a fact."""

    PREFERENCE = "preference"
    PROFILE = "profile"
    RELATIONSHIP = "relationship"
    PROJECT = "project"
    TASK = "task"
    CONSTRAINT = "constraint"
    FACT = "fact"


class FactPrivacy(StrEnum):
    """Privacy of a fact: who may see it."""

    PUBLIC = "public"
    SHARED = "shared"
    PRIVATE = "private"


class FactTier(StrEnum):
    """Intended duration of a fact, as its proposer states it."""

    L0 = "L0"
    """Until replaced."""
    L1 = "L1"
    """For one day."""
    L2 = "L2"
    """For one week."""


TIER_DAYS: Final = {FactTier.L0: None, FactTier.L1: TIER_L1_DAYS, FactTier.L2: TIER_L2_DAYS}
"""Days that a fact of a tier holds, including the day of its observation; None: no end."""


class FactAuthority(StrEnum):
    """Authority of a fact, weakest first to last. An assistant's word about itself or the user is no fact."""

    USER_ASSERTED = "user_asserted"
    OPERATOR = "operator"
    PROGRAM = "program"
    RUNTIME = "runtime"
    EXTRACTED = "extracted"
    IMPORTED = "imported"
    ASSISTANT_SELF_CLAIM = "assistant_self_claim"


_MODEL_AUTHORITIES = frozenset({FactAuthority.EXTRACTED, FactAuthority.ASSISTANT_SELF_CLAIM})


class FactReach(StrEnum):
    """Scope of a fact: where it applies."""

    CHAT = "chat"
    """Only in the conversation in which it was written."""
    USER = "user"
    """In the whole space: it is about the space's owner."""
    WORLD = "world"
    """In the whole space: it is about the world."""


class FactOperation(StrEnum):
    """Action of a proposal."""

    UPSERT = "upsert"
    DELETE = "delete"


class FactConfidence(StrEnum):
    """Confidence of the writer."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class FactState(StrEnum):
    """State of a fact."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """The world changed: it held until `valid_to`, and is still believed to have held."""
    INVALIDATED = "invalidated"
    """It held until `valid_to`, and nothing replaced it."""
    CORRECTED = "corrected"
    """It was wrong: believed until `closed_at`, and no longer."""
    FORGOTTEN = "forgotten"
    DELETED = "deleted"
    MERGED = "merged"
    """Merged into another fact that says nearly the same; it can be restored."""


PAST_STATES = frozenset({FactState.SUPERSEDED, FactState.INVALIDATED})
"""States of facts that are still believed to have held until `valid_to`."""


class FactClosing(Value):
    """First closing of a fact that was closed again later."""

    state: FactState
    at: Instant
    because: str | None = None


class Fact(Value):
    """One version of a slot's value. Valid time says when it held, recorded time when it was believed."""

    id: FactId
    kind: FactKind
    topic: Topic
    content: Content
    keywords: tuple[Name, ...] = ()
    entities: tuple[Name, ...] = ()
    citations: tuple[Name, ...] = ()
    """Ids of the turns or other references that it is based on."""
    privacy: FactPrivacy = FactPrivacy.SHARED
    authority: FactAuthority = FactAuthority.EXTRACTED
    claimed: FactAuthority | None = None
    """Authority that an archive claimed for it; nothing relies on it."""
    confidence: FactConfidence = FactConfidence.MEDIUM
    tier: FactTier | None = None
    certainty: Certainty | None = None
    """The writer's confidence as a number, if given."""
    evidence_count: int = 1
    observed_at: Instant
    recorded_at: Instant
    confirmed_at: Instant
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    stale_at: Instant | None = None
    """Since when a control call marked it stale; the next confirmation ends that."""
    closed_at: Instant | None = None
    closed_because: str | None = None
    closed_before: FactClosing | None = None
    """For an earlier version that was closed again, such as by forgetting: how it was first closed."""
    gone_at: Instant | None = None
    """For a fact that a proposal deleted: when that was observed. Defaults to when the fact was closed."""
    state: FactState = FactState.ACTIVE
    supersedes: FactId | None = None
    superseded_by: FactId | None = None
    reach: FactReach = FactReach.USER
    channel: Name | None = None
    """For a fact that applies only in its chat: that chat's channel."""
    chat: Name | None = None
    lent: tuple[Name, ...] = ()
    """For a merged fact: the citations that the other fact has only from it."""
    confirmed_before: Instant | None = None
    """For a merged fact: when the other fact had last been confirmed."""

    @property
    def trust(self) -> TrustLevel:
        """Return its trust by who vouches for it."""
        if self.authority is FactAuthority.IMPORTED:
            return TrustLevel.OUTSIDE
        return TrustLevel.DRAWN if self.authority in _MODEL_AUTHORITIES else TrustLevel.VOUCHED

    @property
    def ordered_at(self) -> Instant:
        """Return the observation time that orders it: as claimed, but not after its recording."""
        return order_time(self.observed_at, recorded_at=self.recorded_at)

    @property
    def last_confirmed_at(self) -> Instant:
        """Return when it was last observed or confirmed."""
        if self.confirmed_at == self.observed_at:
            return self.ordered_at
        return max(self.ordered_at, self.confirmed_at)

    @property
    def is_current(self) -> bool:
        """Return whether no other version follows it; it may not have started to hold yet."""
        return self.state is FactState.ACTIVE

    @property
    def is_believed(self) -> bool:
        """Return whether it is believed to hold at some time, so that a recall for that time returns it."""
        return self.is_current or self.state in PAST_STATES

    @property
    def end_known_at(self) -> Instant | None:
        """Return since when its end is known; None if it was known from the beginning."""
        if self.closed_before is not None:
            return self.closed_before.at
        return self.closed_at if self.state in PAST_STATES else None

    @property
    def home(self) -> ConversationKey | None:
        """Return the only conversation that it applies to; None if it applies everywhere."""
        if self.reach is not FactReach.CHAT or self.channel is None or self.chat is None:
            return None
        return ConversationKey(self.channel, self.chat)

    def counts_in(self, key: ConversationKey | None, /) -> bool:
        """Return whether it applies to a conversation; None is one that cannot be trusted."""
        return self.home is None or self.home == key


class FactSlot(Value):
    """Facts that have held one (kind, topic), oldest first; the last may be the current one."""

    kind: FactKind
    topic: Topic
    facts: tuple[FactId, ...]


class FactUse(Value):
    """When a recall or block last showed a fact, and how often; uses within six hours count as one."""

    last_used_at: Instant
    uses: int = 1


def topic_key(topic: str, /) -> str:
    """Return the normalised topic: case, width, white space and invisible characters do not count."""
    return similarity.plain_text(topic)


def earlier_topic_keys(topic: str, /) -> tuple[str, ...]:
    """Return the forms under which earlier builds stored this topic, where they differ: one for each spelling."""
    if topic.isascii():
        return ()
    spellings = dict.fromkeys(
        (topic, *(unicodedata.normalize(unicode_form, topic) for unicode_form in ("NFC", "NFD", "NFKC", "NFKD")))
    )
    keys = dict.fromkeys(" ".join(spelling.casefold().split()) for spelling in spellings)
    return tuple(key for key in keys if key != topic_key(topic))


def end_of(tier: FactTier | None, observed_at: Instant, /) -> Instant | None:
    """Return when a fact of `tier` observed at that time ends: midnight UTC; None: no end."""
    lifetime_days = TIER_DAYS[tier] if tier is not None else None
    return end_after(lifetime_days, observed_at) if lifetime_days is not None else None


def end_after(days: int, observed_at: Instant, /) -> Instant:
    """Return the midnight UTC after `days` days, counting the day of `observed_at`."""
    return Instant((observed_at // DAY_MS + days) * DAY_MS)


def newest_citations(citations: Iterable[str], /) -> tuple[str, ...]:
    """Return which of these citations, oldest first, a fact stores."""
    return tuple(dict.fromkeys(citations))[-limits.FACT_CITATIONS :]


def close_fact(fact: Fact, *, at: Instant, because: str, state: FactState, by: FactId | None = None) -> Fact:
    """Return `fact` closed at `at`; one that is no longer believed is returned unchanged.

    A version that had been closed keeps its end, and how it was closed.
    """
    if not fact.is_believed:
        return fact
    changed_fields: dict[str, object] = {"state": state, "closed_at": at, "closed_because": because}
    if fact.is_current:
        # Other states say nothing about the world, so they do not change the validity.
        ends_now = state in PAST_STATES and fact.valid_to is None
        changed_fields |= {"superseded_by": by, "valid_to": at if ends_now else fact.valid_to}
    else:
        changed_fields |= {
            "superseded_by": by or fact.superseded_by,
            "closed_before": fact.closed_before or _fact_closing(fact),
        }
    return fact.model_copy(update=changed_fields)


def reopen_fact(fact: Fact, /) -> Fact:
    """Return a forgotten fact as it was before."""
    earlier_closing = fact.closed_before
    if earlier_closing is None:
        return fact.model_copy(update={"state": FactState.ACTIVE, "closed_at": None, "closed_because": None})
    return fact.model_copy(
        update={
            "state": earlier_closing.state,
            "closed_at": earlier_closing.at,
            "closed_because": earlier_closing.because,
            "closed_before": None,
        }
    )


def _fact_closing(fact: Fact) -> FactClosing:
    closed_at = fact.closed_at if fact.closed_at is not None else fact.recorded_at
    return FactClosing(state=fact.state, at=closed_at, because=fact.closed_because)


class FreshnessState(StrEnum):
    """Freshness of a memory."""

    FRESH = "fresh"
    AGING = "aging"
    STALE = "stale"


class FreshnessHint(StrEnum):
    """Hint on what a reader should do before using the memory."""

    NONE = "none"
    REVIEW = "review"
    VERIFY = "verify"


TOMBSTONES = "tombstones"
LEARNING = "learning"
KEY = "0"
"""A space has one document of learning rules."""


class FactTombstone(Value):
    """Marks a fact as forgotten or deleted. Its key is a keyed tag of the content not to be learned again."""

    fact: FactId
    topic: str
    """The keyed tag of the fact's topic."""
    at: Instant


class LearningAction(StrEnum):
    """Effect of a rule on learning."""

    PAUSE = "pause"
    """Learn nothing until resumed; messages in the meantime are stored as evidence but not learned later."""
    RESUME = "resume"
    SUPPRESS = "suppress"
    """Do not learn the topic until it is allowed."""
    ALLOW = "allow"
    """Ends the suppression of the topic, and removes the tombstones of its facts."""


class LearningState(StrEnum):
    """Why a topic is not learned."""

    PAUSED = "paused"
    SUPPRESSED = "suppressed"


class LearningRule(Value):
    """A topic that is not learned; without a topic, nothing is learned."""

    state: LearningState
    topic: Topic | None = None
    since: Instant
    by: str
    reason: str = ""


class LearningEvent(Value):
    """One call that changed what is learned."""

    action: LearningAction
    topic: Topic | None = None
    at: Instant
    by: str
    reason: str = ""


class LearningRules(Value):
    """The current rules, and the latest calls that added or removed rules, oldest first."""

    rules: Annotated[tuple[LearningRule, ...], Field(max_length=limits.LEARNING_RULES)] = ()
    log: Annotated[tuple[LearningEvent, ...], Field(max_length=limits.AUDIT_EVENTS)] = ()


def fact_holds(fact: Fact, /, *, as_of: Instant, known_at: Instant | None = None) -> bool:
    """Return whether a fact is valid at `as_of` and was believed at `known_at` (default: is believed now)."""
    valid_to = fact.valid_to
    if known_at is None:
        is_believed = fact.is_believed
    else:
        was_closed = not fact.is_believed and fact.closed_at is not None and fact.closed_at <= known_at
        is_believed = fact.recorded_at <= known_at and not was_closed
        # At that time the fact's end was not known yet.
        if fact.end_known_at is not None and known_at < fact.end_known_at:
            valid_to = None
    # Without a start it has always held.
    return is_believed and (fact.valid_from or as_of) <= as_of and (valid_to is None or as_of < valid_to)


def is_replaceable(fact: Fact, /, *, at: Instant) -> bool:
    """Return whether a new value of its slot replaces the fact.

    That is the current one, or an earlier one that still holds at `at`, because the one that follows has not begun.
    """
    return fact.is_current or (fact.is_believed and fact.valid_to is not None and at < fact.valid_to)


def replaceable_versions(versions: Sequence[Fact], /, *, at: Instant) -> tuple[Fact, ...]:
    """Return the versions that a new value replaces at `at`, newest first; `versions` are oldest first."""
    return tuple(fact for fact in reversed(versions) if is_replaceable(fact, at=at))


def replace_version(fact: Fact, /, *, began: Instant, at: Instant, because: str, by: FactId) -> Fact | None:
    """Return a version as it remains after a value that holds since `began`; None if it ends before that."""
    # A version that had ended by then is history, and a new value changes none of it.
    if not fact.is_current and fact.valid_to is not None and fact.valid_to <= began:
        return None
    closed_fact = close_fact(fact, at=at, because=because, state=FactState.SUPERSEDED, by=by)
    valid_to = began if fact.valid_to is None else min(fact.valid_to, began)
    return closed_fact.model_copy(update={"valid_to": valid_to})


def is_past(fact: Fact, /, *, at: Instant) -> bool:
    """Return whether a version held and no longer holds at `at`."""
    return fact.is_believed and not is_replaceable(fact, at=at) and not _is_empty(fact)


def is_taken(fact: Fact, versions: Iterable[Fact], /) -> bool:
    """Return whether another version is believed to hold at a time at which `fact` would hold."""
    return any(
        version.id != fact.id
        and version.is_believed
        and _begins_before_end(version, fact)
        and _begins_before_end(fact, version)
        for version in versions
    )


def _begins_before_end(begin_fact: Fact, end_fact: Fact) -> bool:
    if begin_fact.valid_from is None or end_fact.valid_to is None:
        return not _is_empty(end_fact)
    return not _is_empty(end_fact) and begin_fact.valid_from < end_fact.valid_to


def _is_empty(fact: Fact) -> bool:
    """Return whether a version never holds because another replaced it before it began."""
    return fact.valid_from is not None and fact.valid_to is not None and fact.valid_to <= fact.valid_from


class ChangePace(StrEnum):
    """Pace at which a kind of fact changes."""

    STABLE = "stable"
    DYNAMIC = "dynamic"
    VOLATILE = "volatile"


class FreshnessAges(NamedTuple):
    """Number of days after which a fact is aging, and stale."""

    aging: int
    stale: int


PACES: Final = {
    FactKind.PREFERENCE: ChangePace.STABLE,
    FactKind.PROFILE: ChangePace.STABLE,
    FactKind.RELATIONSHIP: ChangePace.STABLE,
    FactKind.CONSTRAINT: ChangePace.STABLE,
    FactKind.FACT: ChangePace.STABLE,
    FactKind.PROJECT: ChangePace.DYNAMIC,
    FactKind.TASK: ChangePace.VOLATILE,
}
"""Identity and preferences change seldom, a project within weeks, a task within days."""

AGES: Final = {
    ChangePace.STABLE: FreshnessAges(90, 365),
    ChangePace.DYNAMIC: FreshnessAges(14, 90),
    ChangePace.VOLATILE: FreshnessAges(3, 21),
}


class FactFreshness(Value):
    """Freshness of a fact, and the hint for its reader."""

    state: FreshnessState
    hint: FreshnessHint


FRESH: Final = FactFreshness(state=FreshnessState.FRESH, hint=FreshnessHint.NONE)
AGING: Final = FactFreshness(state=FreshnessState.AGING, hint=FreshnessHint.REVIEW)
STALE: Final = FactFreshness(state=FreshnessState.STALE, hint=FreshnessHint.VERIFY)


def fact_freshness(fact: Fact, now: Instant) -> FactFreshness:
    """Return how fresh `fact` is by its kind and the days since it was last observed or confirmed.

    A fact whose validity has ended, or that was marked stale, is stale at once.
    """
    if fact.stale_at is not None:
        return STALE
    if fact.valid_to is not None and fact.valid_to <= now:
        return STALE
    age_limits = AGES[PACES[fact.kind]]
    age_days = (now - fact.last_confirmed_at) / DAY_MS
    if age_days >= age_limits.stale:
        return STALE
    return AGING if age_days >= age_limits.aging else FRESH
