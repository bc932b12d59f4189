"""The weights of recall, and the one scale for the hits of all planes.

The order inside the transcript plane is made by the index, which weighs every unit of a space at once; facts and skills
are scored by `ranking.facts` and `ranking.skills` in points of match. Here points become a strength between 0 and 1,
beside which a turn counts the share of the query's words that it holds. The weights are set by hand, each for a reason
that `docs/explanation/recall.md` gives, and are the same for every kind of conversation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from elytron_core.contracts.recall import HitDiversity, RecallPlane
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.embedding import ModelReach
from elytron_core.policy.ranking.question import AnswerVersion, ReadQuestion
from elytron_core.text.traits import pattern_table

HALF_STRENGTH: Final = 20.0
"""Points at which a fact's or skill's match is 0.5 on the common scale."""


@dataclass(frozen=True, slots=True)
class SignalWeights:
    """Weights for summing the index's signals to choose the units to return.

    Text signals are divided by the best text of the search, vector signals by the span of its cosines. Qualities of a
    text (its statements, its length, its fit) count in proportion to its match with the query; the others in full.
    """

    title: float = 0.6
    name: float = 0.3
    kin: float = 0.5
    """Share of a word's weight for another word of the highest similarity."""
    asking: float = 0.7
    """Share of a word's weight for a word common in questions, compared with others as rare."""
    near: float = 0.7
    window: float = 0.75
    window_assisted: float = 0.2
    """Maximum weight of a window in talk with assistants: long answers contain something of everything."""
    beside_assisted: float = 0.65
    """Share of `near` and `answer` that counts there, for the same reason."""
    session: float = 0.25
    answer: float = 0.5
    vector: float = 1.0
    """Between people, words, names and neighbouring units say more than similarity does."""
    vector_assisted: float = 1.2
    """Factor of `vector` in talk with assistants: in long messages words say less."""
    passage: float = 0.6
    """Share of the nearest passage in a message's similarity, if passages and the whole were embedded."""
    sentence: float = 0.7
    """Weight of a long message's nearest sentence against the whole message, which may match by chance."""
    text_vectors: float = 0.8
    text_vectors_beside: float = 0.1
    """Share of `text_vectors` that counts together with an encoder."""
    likeness: float = 0.4
    """From this best similarity on, it counts in full."""
    covered: float = 0.4
    """Words count in full if a unit and its neighbours contain this share of the query; otherwise in proportion."""
    misled: float = 0.5
    """Words lose up to this share if the units they choose are less similar to the query than the most similar ones."""
    few: float = 60.0
    """Among very few units, words and text qualities count a sixth, and nothing with an encoder; among this many, three
    fifths, or two thirds with one."""
    tied: float = 0.02
    """Among this few statements, which are no talk, words, neighbours and qualities count this share, to break ties."""
    rare: float = 0.6
    """There, a unit with all of the query's rare words counts this much more."""
    speaker: float = 0.5
    present: float = 0.5
    """A person's matters are in the conversations in which that person talks, rather than in others'."""
    owner: float = 1.0
    standing: float = 1.2
    date: float = 1.0
    fits: float = 0.2
    told: float = 1.0
    informative: float = 0.5
    later: float = 0.0
    """Negative if the earliest is requested."""
    again: float = 0.0
    """Subtracted for each better unit of the same thread, at most twice."""
    again_assisted: float = 0.5
    """Share of `again` that counts in talk with assistants: one long talk covers much there."""


STANDARD: Final = SignalWeights()
WORDED: Final = SignalWeights(text_vectors=0.0, few=0.0)
"""For lookups by words only."""
SEVERAL: Final = SignalWeights(speaker=0.75, again=0.2)
"""For questions whose answer is in several conversations: the pieces share their owner."""
WIDE: Final = SignalWeights(again=0.4)
RETOLD: Final = SignalWeights(window=0.4, told=1.4, owner=1.2)
"""For accounts of what was said: each piece counts by itself, its neighbours are not the answer."""
MANY: Final = SignalWeights(vector=1.5, text_vectors_beside=0.5)
"""With a multilingual encoder, which is less sure of English than an English one."""
LATER: Final = 0.6
"""Weight of the latest statement on a matter if the query asks what holds now."""


def weights_for(
    question: ReadQuestion, diversity: HitDiversity, /, *, encoder: ModelReach | None = None
) -> SignalWeights:
    """Return the weights for answering `question` with an encoder that reads such languages."""
    match diversity:
        case HitDiversity.AUTO:
            weights = SEVERAL if question.wants_several else STANDARD
        case HitDiversity.OFF:
            weights = STANDARD
        case HitDiversity.WIDE:
            weights = WIDE
        case _:
            assert_never(diversity)
    if question.retells:
        weights = replace(weights, window=RETOLD.window, told=RETOLD.told, owner=RETOLD.owner)
    match encoder:
        case None:
            pass
        case ModelReach.ENGLISH:
            weights = replace(weights, misled=0.0)
        case ModelReach.MANY:
            weights = replace(weights, vector=MANY.vector, text_vectors_beside=MANY.text_vectors_beside)
        case _:
            assert_never(encoder)
    later_weight = {AnswerVersion.LATEST: LATER, AnswerVersion.FIRST: -LATER}.get(question.version)
    return replace(weights, later=later_weight) if later_weight is not None else weights


def common_scale(points: float, /) -> float:
    """Return match points on the scale 0..1: s / (s + 20), monotonic, 0 for none."""
    return points / (points + HALF_STRENGTH) if points > 0 else 0.0


COMPARED: Final = 10
"""Number of best hits in which the answer is expected."""


class AnswerSigns(NamedTuple):
    """Signs in a search's result that it has an answer."""

    strength: float
    """The highest likeness of all, by text vectors or an encoder, 0 to 1; if text vectors do not know the query, the
    highest share of its words that are together."""
    agreement: float
    """The best hit's sum of signals, as a share of a memory that were best in each of them."""
    behind: tuple[float, ...]
    """Distance of each hit from the best, as a share of the best sum; best first."""
    is_foreign: bool = False
    """True if the query or the best hit is not in English."""

    @property
    def evidence(self) -> float:
        """Evidence for an answer: a strong search whose signals agree on one memory."""
        return self.strength * self.agreement


class EstimateNumbers(NamedTuple):
    """Parameters of a score."""

    intercept: float
    evidence: float
    """Weight of evidence in a logistic model of whether the best hits answer."""
    sharpness: float
    """Rate at which a hit's probability falls with its distance; multiplied by the search's strength."""
    pieces: float
    """Number of pieces in an answer."""


WORDED_ANSWER_SCORE: Final = EstimateNumbers(-2.45, 8.48, 14.0, 1.25)
"""Without an encoder."""
FOREIGN: Final = EstimateNumbers(-1.55, 4.20, 18.0, 1.0)
"""The same in and across other languages, whose table gives lower similarity."""
ENCODED: Final = EstimateNumbers(-3.03, 8.99, 16.0, 1.0)
"""With an English encoder, by `minilm`."""
ENCODED_MANY: Final = EstimateNumbers(-2.77, 8.35, 17.0, 1.0)
"""With a multilingual encoder, by `use`, in English."""
FOREIGN_MANY: Final = EstimateNumbers(-1.98, 3.85, 20.0, 1.0)
"""The same in and across other languages."""
_NUMBERS: Final[Mapping[tuple[ModelReach | None, bool], EstimateNumbers]] = MappingProxyType(
    {
        (None, False): WORDED_ANSWER_SCORE,
        (None, True): FOREIGN,
        (ModelReach.ENGLISH, False): ENCODED,
        (ModelReach.ENGLISH, True): FOREIGN,
        (ModelReach.MANY, False): ENCODED_MANY,
        (ModelReach.MANY, True): FOREIGN_MANY,
    }
)
"""By encoder, and whether a language other than English is involved."""


def answer_chance(answer_signs: AnswerSigns, /, *, encoder: ModelReach | None) -> float:
    """Return the estimate that one of the best hits answers, found with such an encoder."""
    estimate_numbers = _NUMBERS[encoder, answer_signs.is_foreign]
    return 1.0 / (1.0 + math.exp(-(estimate_numbers.intercept + estimate_numbers.evidence * answer_signs.evidence)))


def hit_scores(answer_signs: AnswerSigns, /, *, encoder: ModelReach | None) -> list[float]:
    """Return the score of each hit, best first; scores never increase."""
    chance = answer_chance(answer_signs, encoder=encoder)
    return [chance * share for share in hit_shares(answer_signs, _NUMBERS[encoder, answer_signs.is_foreign])]


def hit_shares(answer_signs: AnswerSigns, estimate: EstimateNumbers, /) -> list[float]:
    """Return for each hit the probability that it answers if one of the best does."""
    falloff = estimate.sharpness * answer_signs.strength
    weights = [math.exp(-falloff * points_behind) for points_behind in answer_signs.behind]
    # Shares are of the compared hits, so that a longer page does not lower them.
    weight_sum = sum(islice(weights, COMPARED))
    return [1.0 - (1.0 - weight / weight_sum) ** estimate.pieces for weight in weights]


class QueryIntent(StrEnum):
    """Purpose of a query."""

    FACTUAL = "factual"
    PROCEDURAL = "procedural"
    CONTINUITY = "continuity"
    EVIDENCE = "evidence"
    MIXED = "mixed"


class PlaneRoute(Value):
    """Order of the planes for a query, and the points that favour each of them."""

    intent: QueryIntent
    planes: tuple[RecallPlane, ...]
    bonus: dict[RecallPlane, float] = {}
    slot: str | None = None
    """The slot that the query names as `kind:topic`, normalised."""

    def place(self, plane: RecallPlane, /) -> int:
        """Return the position of `plane`; the last if it is not named."""
        return self.planes.index(plane) if plane in self.planes else len(self.planes)


_FACTS, _SKILLS, _TURNS = RecallPlane.LONG_TERM, RecallPlane.PROCEDURAL, RecallPlane.TRANSCRIPT
_CAPSULES, _STATE, _SUMMARY, _NOTES = (
    RecallPlane.CONTINUITY,
    RecallPlane.EXECUTION,
    RecallPlane.SUMMARY,
    RecallPlane.ARCHIVE,
)

ORDER: Final = MappingProxyType(
    {
        QueryIntent.FACTUAL: (_FACTS, _TURNS, _CAPSULES, _SUMMARY, _NOTES, _STATE, _SKILLS),
        QueryIntent.PROCEDURAL: (_SKILLS, _STATE, _FACTS, _CAPSULES, _TURNS, _NOTES, _SUMMARY),
        QueryIntent.CONTINUITY: (_CAPSULES, _STATE, _SUMMARY, _TURNS, _NOTES, _FACTS, _SKILLS),
        QueryIntent.EVIDENCE: (_TURNS, _NOTES, _SUMMARY, _FACTS, _CAPSULES, _STATE, _SKILLS),
        QueryIntent.MIXED: (_FACTS, _TURNS, _SKILLS, _CAPSULES, _STATE, _SUMMARY, _NOTES),
    }
)
"""Order of the planes for equal scores."""
BONUS: Final = MappingProxyType(
    {
        QueryIntent.FACTUAL: {_FACTS: 18.0},
        QueryIntent.PROCEDURAL: {_SKILLS: 18.0, _STATE: 14.0},
        QueryIntent.CONTINUITY: {_CAPSULES: 20.0, _STATE: 16.0, _SUMMARY: 12.0},
        QueryIntent.EVIDENCE: {_TURNS: 32.0, _NOTES: 32.0},
        QueryIntent.MIXED: {},
    }
)

_SIGNS: Final = (QueryIntent.PROCEDURAL, QueryIntent.CONTINUITY, QueryIntent.EVIDENCE, QueryIntent.FACTUAL)
"""Intents recognised by words; the words are listed in `text/data/intents.toml`."""
_KINDS: Final = frozenset(kind.value for kind in facts.FactKind)


def lift_strength(strength: float, favour: float, /) -> float:
    """Return a match strength between 0 and 1 raised by `favour` points: good matches by more, never beyond 1.

    The order inside a plane stays as it is, and what does not match stays at 0.
    """
    return strength + strength * (1.0 - strength) * favour / (favour + HALF_STRENGTH)


def query_route(query: str, /) -> PlaneRoute:
    """Return which planes to search for `query`."""
    named_slot = _query_slot(query)
    if named_slot is not None:
        return _intent_route(QueryIntent.FACTUAL).model_copy(update={"slot": named_slot})
    lowered_query, intent_patterns = query.lower(), pattern_table("intents")
    intents = [intent for intent in _SIGNS if intent_patterns[intent].search(lowered_query)]
    # Signs of two purposes decide for neither.
    return _intent_route(intents[0] if len(intents) == 1 else QueryIntent.MIXED)


@cache
def _intent_route(intent: QueryIntent) -> PlaneRoute:
    return PlaneRoute(intent=intent, planes=ORDER[intent], bonus=dict(BONUS[intent]))


def _query_slot(query: str) -> str | None:
    if ":" not in query:
        return None
    kind, separator, topic = query.partition(":")
    kind, topic = kind.strip().casefold(), facts.topic_key(topic)
    return f"{kind}:{topic}" if separator and topic and kind in _KINDS else None
