"""Scoring of long-term facts against a query, with named points that are data.

Matching points: the query is the topic, is part of the topic or content; each term in topic, content or a keyword;
trigram similarity; shared entities and dates. Worth points: evidence, source, same chat, recency, confirmation,
confidence, freshness. If any facts match, only those are returned, ranked by all their points; otherwise all are listed
by worth.

A weak query ("and her?") is read together with recent talk in `grounding`, whose words count for a share of a term. The
query `kind:topic` names one slot and returns only its facts, if it has any.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.facts import FreshnessState, fact_freshness
from elytron_core.policy.ranking import time_ranges
from elytron_core.text import similarity

WEAK_CHARS: Final = 6
"""A query of at most this many characters is weak;"""
WEAK_SHORT_CHARS: Final = 12
WEAK_SHORT_WORDS: Final = 2
"""so is one of at most these many characters and words."""


class FactWeights(Value):
    """Points for each sign that a fact matches or is valuable."""

    topic_exact: float = 14
    topic_contains: float = 10
    """The topic has the query's words, and more."""
    content_contains: float = 8
    term_topic: float = 4
    term_content: float = 2
    term_keyword: float = 3
    grounding_share: float = 0.5
    """Share of a term's points for a word from the grounding."""
    trigram_max: float = 18
    trigram_floor: float = 0.3
    """Texts less similar than this share only what any two texts do."""
    trigram_reach: int = 3
    """Texts of more than this many times the query's length are not compared."""

    entity_is_query: float = 10
    entity_in_query: float = 8
    entity_word_in_query: float = 6
    entity_in_grounding: float = 3
    entity_max: float = 96
    day_shared: float = 32
    month_shared: float = 24
    year_shared: float = 12
    """Only with a year in the content or validity, because most facts were observed in the requested year."""
    temporal_max: float = 64

    evidence_each: float = 6
    evidence_citation: float = 2
    evidence_max: float = 64
    authority: Mapping[facts.FactAuthority, float] = {
        facts.FactAuthority.USER_ASSERTED: 12,
        facts.FactAuthority.OPERATOR: 10,
        facts.FactAuthority.PROGRAM: 8,
        facts.FactAuthority.RUNTIME: 8,
        facts.FactAuthority.EXTRACTED: 4,
        facts.FactAuthority.IMPORTED: 2,
        facts.FactAuthority.ASSISTANT_SELF_CLAIM: 0,
    }
    """Well below the maximum of 64, so that authority decides between equally matching facts."""
    same_chat: float = 6
    recent_week: float = 6
    recent_month: float = 3
    confirmed_week: float = 4
    confirmed_month: float = 2
    confidence: Mapping[facts.FactConfidence, float] = {
        facts.FactConfidence.LOW: 0,
        facts.FactConfidence.MEDIUM: 2,
        facts.FactConfidence.HIGH: 4,
    }
    stale: float = -24
    review: float = -8


STANDARD: Final = FactWeights()


class FactQuery(Value):
    """A query: its text, its terms as an analyser gives them (stems welcome), where and when, the recent talk."""

    text: str
    terms: tuple[str, ...] = ()
    chat: str | None = None
    now: Instant
    grounding: str = ""


class ScoredFact(NamedTuple):
    """A fact with its match points. Value points are computed on request, because most facts are never shown."""

    fact: facts.Fact
    match: float
    matching: tuple[float, ...]
    """The parts of `match`."""
    query: FactQuery
    weights: FactWeights = STANDARD
    favour: float = 0.0
    """Points by which its plane is favoured, in addition to its own."""

    @property
    def score(self) -> float:
        """Return the total points."""
        return sum(_worth_points(self.fact, self.query, self.weights), self.match)

    @property
    def signals(self) -> dict[str, float]:
        """Return each non-zero part."""
        signal_points = (*self.matching, *_worth_points(self.fact, self.query, self.weights), self.favour)
        return {name: points for name, points in zip(FACT_SIGNALS, signal_points, strict=True) if points}


FACT_SIGNALS: Final = (
    "topic_exact", "topic_contains", "content_contains", "terms", "trigram", "entity", "temporal",
    "evidence", "authority", "same_chat", "recency", "confirmed", "confidence", "freshness",
    "route",
)  # fmt: skip
"""The names of a fact's points: for matching, for its worth, and for its plane."""


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query prepared for comparison with many texts."""

    text: str
    terms: tuple[tuple[tuple[str, ...], float], ...]
    """The forms of each term, and its share of a term's points."""
    phrase: tuple[str, ...]
    """The forms of the whole text."""
    grams: frozenset[str]
    marks: similarity.TrigramDigest
    """Of these."""
    grounding: str
    dates: tuple[time_ranges.NamedDate, ...]


@dataclass(frozen=True)
class PreparedFact:
    """A fact with its content normalised and padded for searching."""

    fact: facts.Fact
    topic: str
    content: str
    keywords: str
    entities: tuple[str, ...]

    @cached_property
    def topic_grams(self) -> similarity.TrigramDigest:
        return _grams_of(self.topic)

    @cached_property
    def content_grams(self) -> similarity.TrigramDigest:
        """Return the content's trigrams; most contents are too long to be compared as a whole."""
        return _grams_of(self.content)


def prepare_fact(fact: facts.Fact, /) -> PreparedFact:
    """Return `fact` prepared for comparison with many queries."""
    return PreparedFact(
        fact,
        topic=similarity.pad_words(similarity.normalise_text(fact.topic)),
        content=similarity.pad_words(similarity.normalise_text(fact.content)),
        # No form has a line break, so that none matches across two keywords.
        keywords="\n".join(similarity.pad_words(similarity.normalise_text(keyword)) for keyword in fact.keywords),
        entities=tuple(similarity.normalise_text(entity) for entity in fact.entities),
    )


class _QueryTerm(NamedTuple):
    """A term's forms (the same twice if it has one), and its points in a fact's topic, content and keywords."""

    sign: str
    other: str
    in_topic: float
    in_content: float
    in_keyword: float


class _QueryComparison(NamedTuple):
    """A query with the weights of its terms."""

    query: PreparedQuery
    weights: FactWeights
    terms: tuple[_QueryTerm, ...]
    topic: str | None
    """The topic that the query is, padded; None if it is empty."""
    longest: int
    """Padded texts longer than this are not compared with the whole query."""


def is_weak(text: str, /) -> bool:
    """Return whether a query is too short to stand alone: at most 6 characters, or at most 12 and two words."""
    trimmed_text = text.strip()
    return len(trimmed_text) <= WEAK_CHARS or (
        len(trimmed_text) <= WEAK_SHORT_CHARS and len(trimmed_text.split()) <= WEAK_SHORT_WORDS
    )


def prepare_query(query: FactQuery, /, *, grounding_share: float) -> PreparedQuery:
    """Return `query` ready for comparing; the grounding counts only if the query is weak."""
    text = similarity.normalise_text(query.text)
    terms = {
        term: 1.0 for raw_term in query.terms[: limits.QUERY_TERMS] if (term := similarity.normalise_text(raw_term))
    }
    grounding = similarity.normalise_text(query.grounding) if is_weak(query.text) else ""
    for word in similarity.words_of(grounding, limit=limits.QUERY_TERMS):
        terms.setdefault(word, grounding_share)
    term_signs = tuple((similarity.signs_of(term), share) for term, share in terms.items())
    phrase = similarity.phrase_of(text)
    grams = similarity.text_trigrams(text)
    return PreparedQuery(
        text, term_signs, phrase, grams, similarity.grams_of(grams), grounding, time_ranges.named_in(query.text)
    )


def score_facts(
    facts: Sequence[PreparedFact], query: FactQuery, *, weights: FactWeights = STANDARD
) -> list[ScoredFact]:
    """Return the matching facts in the given order; those of the slot that `kind:topic` names; or all if none
    matches."""
    named_slot = _slot_named(query.text)
    # A query may contain a colon by chance: it names a slot only if there is one.
    slot_facts = [prepared for prepared in facts if _slot_of(prepared.fact) == named_slot] if named_slot else []
    if slot_facts:
        query = query.model_copy(update={"text": query.text.partition(":")[2], "grounding": ""})
    comparison = _make_comparison(prepare_query(query, grounding_share=weights.grounding_share), weights)
    scored_facts: list[ScoredFact] = []
    for prepared in slot_facts or facts:
        match_points = _matching_points(prepared, comparison)
        scored_facts.append(ScoredFact(prepared.fact, sum(match_points), match_points, query, weights))
    return [item for item in scored_facts if item.match > 0] or scored_facts


def best_first(scored_facts: Iterable[ScoredFact], /) -> list[ScoredFact]:
    """Return scored facts by their total points.

    Equal points fall to the later observation, then to the later recording, so the order never depends on the one
    given.
    """
    latest_first = sorted(scored_facts, key=lambda item: (item.fact.ordered_at, item.fact.id), reverse=True)
    return sorted(latest_first, key=lambda item: -item.score)


def diversify_facts(scored: Sequence[ScoredFact], limit: int) -> list[ScoredFact]:
    """Return up to `limit` of `scored`: all in their order if they fit, otherwise best first in three passes.

    First the best of each kind (and of no topic twice), then the best of each topic, then what is left.
    """
    if len(scored) <= limit:
        return list(scored)
    scored = best_first(scored)
    topic_keys = [facts.topic_key(item.fact.topic) for item in scored]
    chosen_positions: set[int] = set()
    chosen_kinds: set[facts.FactKind] = set()
    chosen_topics: set[str] = set()
    for kind_is_new, topic_is_new in ((True, True), (False, True), (False, False)):
        for position, (item, topic) in enumerate(zip(scored, topic_keys, strict=True)):
            if len(chosen_positions) == limit:
                break
            adds_variety = not (kind_is_new and item.fact.kind in chosen_kinds) and not (
                topic_is_new and topic in chosen_topics
            )
            if adds_variety and position not in chosen_positions:
                chosen_positions.add(position)
                chosen_kinds.add(item.fact.kind)
                chosen_topics.add(topic)
    return [scored[position] for position in sorted(chosen_positions)]


def _slot_of(fact: facts.Fact) -> tuple[str, str]:
    return fact.kind.value, facts.topic_key(fact.topic)


def _slot_named(text: str) -> tuple[str, str] | None:
    kind, separator, topic = text.partition(":")
    return (kind.strip().casefold(), facts.topic_key(topic)) if separator else None


def _make_comparison(prepared: PreparedQuery, weights: FactWeights) -> _QueryComparison:
    return _QueryComparison(
        prepared,
        weights,
        tuple(
            _QueryTerm(
                term_signs[0],
                term_signs[-1],
                share * weights.term_topic,
                share * weights.term_content,
                share * weights.term_keyword,
            )
            for term_signs, share in prepared.terms
        ),
        topic=similarity.pad_words(prepared.text) if prepared.text else None,
        longest=weights.trigram_reach * len(prepared.text) + len(similarity.pad_words("")),
    )


def _matching_points(fact: PreparedFact, comparison: _QueryComparison) -> tuple[float, ...]:
    """Return the match points in the order of their names."""
    prepared, weights, terms, query_topic, max_text_chars = comparison
    topic, content, keywords = fact.topic, fact.content, fact.keywords
    term_points = 0.0
    for term_sign, other_sign, in_topic, in_content, in_keyword in terms:
        # Inlined `has_any`, because this runs for every fact and term.
        has_two_signs = other_sign is not term_sign
        if term_sign in topic or (has_two_signs and other_sign in topic):
            term_points += in_topic
        if term_sign in content or (has_two_signs and other_sign in content):
            term_points += in_content
        if keywords and (term_sign in keywords or (has_two_signs and other_sign in keywords)):
            term_points += in_keyword
    is_whole_topic = topic == query_topic
    return (
        weights.topic_exact if is_whole_topic else 0.0,
        weights.topic_contains if not is_whole_topic and similarity.has_any(topic, prepared.phrase) else 0.0,
        weights.content_contains if similarity.has_any(content, prepared.phrase) else 0.0,
        term_points,
        _trigram_points(fact, prepared, weights, longest=max_text_chars),
        min(sum([_entity_points(name, prepared, weights) for name in fact.entities]), weights.entity_max)
        if fact.entities
        else 0,
        min(sum([_date_points(fact.fact, date, weights) for date in prepared.dates]), weights.temporal_max)
        if prepared.dates
        else 0,
    )


def _trigram_points(fact: PreparedFact, prepared: PreparedQuery, weights: FactWeights, *, longest: int) -> float:
    """Return the points for trigram similarity of the query to the topic or content, whichever is higher."""
    least_likeness, best_likeness = weights.trigram_floor, 0.0
    # The upper bound is cheap and leaves few texts to compare.
    if len(fact.topic) <= longest and similarity.likeness_at_most(prepared.marks, fact.topic_grams) >= least_likeness:
        best_likeness = similarity.likeness_to(prepared.grams, fact.topic, fact.topic_grams.size)
    if (
        len(fact.content) <= longest
        and similarity.likeness_at_most(prepared.marks, fact.content_grams) >= least_likeness
    ):
        best_likeness = max(
            best_likeness, similarity.likeness_to(prepared.grams, fact.content, fact.content_grams.size)
        )
    return weights.trigram_max * best_likeness if best_likeness >= least_likeness else 0.0


def _grams_of(padded_text: str) -> similarity.TrigramDigest:
    return similarity.grams_of(similarity.text_trigrams(padded_text[1:-1]))


def _entity_points(name: str, prepared: PreparedQuery, weights: FactWeights) -> float:
    if not name:
        return 0
    if name == prepared.text:
        return weights.entity_is_query
    if similarity.has_phrase(prepared.text, name):
        return weights.entity_in_query
    if any(len(word) > 2 and similarity.has_phrase(prepared.text, word) for word in name.split()):
        return weights.entity_word_in_query
    return weights.entity_in_grounding if similarity.has_phrase(prepared.grounding, name) else 0


def _date_points(fact: facts.Fact, date: time_ranges.NamedDate, weights: FactWeights) -> float:
    fact_dates = [
        *time_ranges.named_in(fact.content),
        *(time_ranges.day_of(valid_time) for valid_time in (fact.valid_from, fact.valid_to) if valid_time is not None),
    ]
    if not date.month:
        return weights.year_shared if any(date.is_met_by(fact_date) for fact_date in fact_dates) else 0
    if not any(date.is_met_by(fact_date) for fact_date in (*fact_dates, time_ranges.day_of(fact.observed_at))):
        return 0
    return weights.day_shared if date.day else weights.month_shared


def _worth_points(fact: facts.Fact, query: FactQuery, weights: FactWeights) -> tuple[float, ...]:
    """Return the value points in the order of their names."""
    evidence = weights.evidence_each * fact.evidence_count + weights.evidence_citation * len(fact.citations)
    return (
        min(evidence, weights.evidence_max),
        weights.authority.get(fact.authority, 0),
        weights.same_chat * (fact.chat is not None and fact.chat == query.chat),
        by_age(query.now - fact.ordered_at, week=weights.recent_week, month=weights.recent_month),
        by_age(query.now - fact.last_confirmed_at, week=weights.confirmed_week, month=weights.confirmed_month),
        weights.confidence.get(fact.confidence, 0),
        _by_freshness(fact, query, weights),
    )


def _by_freshness(fact: facts.Fact, query: FactQuery, weights: FactWeights) -> float:
    match fact_freshness(fact, query.now).state:
        case FreshnessState.STALE:
            return weights.stale
        case FreshnessState.AGING:
            return weights.review
        case _:
            return 0


def by_age(age_ms: int, /, *, week: float, month: float) -> float:
    """Return points by age: `week` up to 7 days, `month` up to 30, then none."""
    if age_ms <= 7 * DAY_MS:
        return week
    return month if age_ms <= 30 * DAY_MS else 0
