"""Scoring of runtime skills against a query, by the same means as facts but with separate points.

Only the best occurrence of a term counts, because a procedure's words repeat its title. Without a match nothing is
returned. Disabled, forgotten and retired skills are never returned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from elytron_core.contracts.skills import AgentSkillHit, AgentSkillSummary
from elytron_core.ids import SkillId
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.skills import Skill, SkillState
from elytron_core.policy.ranking.facts import FactQuery, PreparedQuery, by_age, prepare_query
from elytron_core.policy.skills import skill_quality, state_of
from elytron_core.text import similarity

SKILLS_MAX: Final = 4
"""More procedures than this do not help a turn."""


class SkillWeights(Value):
    """Points for each sign that a skill matches or is valuable."""

    topic_exact: float = 14
    title_contains: float = 10
    """The title has the query's words."""
    term_topic: float = 10
    term_title: float = 8
    term_summary: float = 5
    term_procedure: float = 3
    grounding_share: float = 0.5
    trigram_max: float = 18
    trigram_floor: float = 0.3
    trigram_reach: int = 3

    full_text: tuple[float, ...] = (18, 14, 11, 9, 7, 5)
    """For its rank in full-text search, best first."""
    same_chat: float = 6
    recent_week: float = 6
    recent_month: float = 3
    quality_divisor: float = 8
    validated: float = 4
    validated_counted: int = 3
    use: float = 2
    uses_counted: int = 6
    citation: float = 2
    citations_counted: int = 3
    proven: float = 4
    """Governance supports it: it has succeeded, and nothing is against it."""
    pending: float = -6
    stale: float = -8
    low_value: float = -12


STANDARD: Final = SkillWeights()


SkillSignal = Literal[
    "topic_exact", "title_contains", "name_exact", "name_contains", "terms", "trigram",
    "full_text", "same_chat", "recency", "quality", "validated", "use", "citations", "governance",
]  # fmt: skip
"""The names of the points of a skill, stored or in a host's directory."""


@dataclass(frozen=True, slots=True)
class ScoredSkill:
    """A skill with its points; `match` is the part from matching only, `signals` contain each non-zero part."""

    skill: Skill
    score: float
    match: float
    signals: Mapping[str, float]


def score_skills(
    skills: Sequence[Skill],
    query: FactQuery,
    *,
    ranks: Sequence[SkillId] = (),
    weights: SkillWeights = STANDARD,
    sequences: Mapping[SkillId, int] | None = None,
    limit: int = SKILLS_MAX,
) -> list[ScoredSkill]:
    """Return up to `limit` recallable skills that match, best first, one per topic.

    `ranks` are skills as full-text search ordered them, best first; its points choose among those that match.
    Equal points fall to the later update, by its time and then by `sequences`, its place in the journal, then to the
    smaller id, so the order never depends on the input's.
    """
    sequences_by_id: Mapping[SkillId, int] = sequences if sequences is not None else {}
    prepared_query = prepare_query(query, grounding_share=weights.grounding_share)
    points_by_rank = dict(zip(ranks, weights.full_text, strict=False))
    scored_skills = [
        _score_skill(skill, prepared_query, query, weights, full_text=points_by_rank.get(skill.id, 0))
        for skill in skills
        if skill.is_recallable
    ]
    scored_skills.sort(
        key=lambda item: (-item.score, -item.skill.updated_at, -sequences_by_id.get(item.skill.id, 0), item.skill.id)
    )
    best_by_topic: dict[str, ScoredSkill] = {}
    for item in scored_skills:
        # Value without a match would return the same good skills for every query.
        if item.match > 0:
            best_by_topic.setdefault(facts.topic_key(item.skill.topic), item)
    return list(best_by_topic.values())[:limit]


def _score_skill(
    skill: Skill, prepared: PreparedQuery, query: FactQuery, weights: SkillWeights, *, full_text: float
) -> ScoredSkill:
    match_points = _skill_matching(skill, prepared, weights)
    worth_points: dict[SkillSignal, float] = {
        "full_text": full_text,
        "same_chat": weights.same_chat * (skill.source_chat_id is not None and skill.source_chat_id == query.chat),
        "recency": by_age(query.now - skill.updated_at, week=weights.recent_week, month=weights.recent_month),
        "quality": skill_quality(skill) / weights.quality_divisor,
        "validated": weights.validated * min(skill.validated_count, weights.validated_counted),
        "use": weights.use * min(skill.use_count, weights.uses_counted),
        "citations": weights.citation * min(len(skill.citations), weights.citations_counted),
        "governance": _governance_points(skill, query, weights),
    }
    signals: dict[str, float] = {name: points for name, points in {**match_points, **worth_points}.items() if points}
    return ScoredSkill(skill, sum(signals.values()), sum(match_points.values()), signals)


def _governance_points(skill: Skill, query: FactQuery, weights: SkillWeights) -> float:
    state = state_of(skill, at=query.now)
    state_points = {SkillState.STALE: weights.stale, SkillState.LOW_VALUE: weights.low_value}.get(state, 0)
    state_points += weights.pending * skill.revision_pending
    return state_points or weights.proven * (skill.validated_count > 0)


def _skill_matching(skill: Skill, prepared: PreparedQuery, weights: SkillWeights) -> dict[SkillSignal, float]:
    topic, title = similarity.normalise_text(skill.topic), similarity.normalise_text(skill.title)
    weighted_fields = (
        (similarity.pad_words(topic), weights.term_topic),
        (similarity.pad_words(title), weights.term_title),
        (similarity.pad_words(similarity.normalise_text(skill.summary)), weights.term_summary),
        (similarity.pad_words(similarity.normalise_text(skill.procedure)), weights.term_procedure),
    )
    return {
        "topic_exact": weights.topic_exact * (bool(topic) and topic == prepared.text),
        "title_contains": weights.title_contains * similarity.has_phrase(title, prepared.text),
        "terms": term_points(prepared, weighted_fields),
        "trigram": text_likeness(prepared, (topic, title), weights),
    }


def term_points(prepared: PreparedQuery, weighted_fields: Sequence[tuple[str, float]], /) -> float:
    """Return the points for a query's terms, each in its best field; a field is a padded text and its points."""
    return sum(
        share * max((points for text, points in weighted_fields if similarity.has_any(text, signs)), default=0)
        for signs, share in prepared.terms
    )


def text_likeness(prepared: PreparedQuery, texts: Sequence[str], weights: SkillWeights, /) -> float:
    """Return the points for trigram similarity of the query to the most similar of `texts`."""
    # A long text shares trigrams with any query, so its similarity says little.
    max_chars = weights.trigram_reach * len(prepared.text)
    grams_of_texts = [similarity.text_trigrams(text) for text in texts if len(text) <= max_chars]
    best_likeness = max((similarity.trigram_likeness(prepared.grams, grams) for grams in grams_of_texts), default=0.0)
    return weights.trigram_max * best_likeness if best_likeness >= weights.trigram_floor else 0.0


AGENT_SKILLS_MAX: Final = 4


def score_agent_skills(skills: Iterable[AgentSkillSummary], query: FactQuery) -> tuple[AgentSkillHit, ...]:
    """Return up to four agent skills that match, best first; equal ones by name."""
    prepared_query = prepare_query(query, grounding_share=STANDARD.grounding_share)
    hits = [hit for skill in skills if (hit := _skill_hit(skill, prepared_query)).score > 0]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.name))[:AGENT_SKILLS_MAX])


def _skill_hit(skill: AgentSkillSummary, prepared: PreparedQuery) -> AgentSkillHit:
    name, description = similarity.normalise_text(skill.name), similarity.normalise_text(skill.description)
    weighted_fields = (
        (similarity.pad_words(name), STANDARD.term_title),
        (similarity.pad_words(description), STANDARD.term_summary),
    )
    points: dict[SkillSignal, float] = {
        "name_exact": STANDARD.topic_exact * (bool(name) and name == prepared.text),
        "name_contains": STANDARD.title_contains * similarity.has_phrase(name, prepared.text),
        "terms": term_points(prepared, weighted_fields),
        "trigram": text_likeness(prepared, (name,), STANDARD),
    }
    signals: dict[str, float] = {name: signal_points for name, signal_points in points.items() if signal_points}
    return AgentSkillHit(
        name=skill.name,
        description=skill.description,
        place=skill.place,
        fingerprint=skill.fingerprint,
        resources=skill.resources,
        score=sum(signals.values()),
        signals=signals,
    )
