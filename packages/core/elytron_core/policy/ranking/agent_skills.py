"""Scoring of a host's agent skills against a query: the points of runtime skills, given to name and description."""

from collections.abc import Iterable
from typing import Final

from elytron_core.contracts.knowledge.skills import AgentSkillHit, AgentSkillSummary
from elytron_core.policy.ranking.facts import Asked, FactQuery, alike, read
from elytron_core.policy.ranking.skills import STANDARD, SkillWeights
from elytron_core.text import similarity

AGENT_SKILLS_MAX: Final = 4


def score_agent_skills(
    skills: Iterable[AgentSkillSummary],
    query: FactQuery,
    *,
    weights: SkillWeights = STANDARD,
    limit: int = AGENT_SKILLS_MAX,
) -> tuple[AgentSkillHit, ...]:
    """Return up to `limit` agent skills that match, best first; equal ones by name."""
    asked = read(query, grounding_share=weights.grounding_share)
    hits = [hit for skill in skills if (hit := _hit(skill, asked, weights)).score > 0]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.name))[:limit])


def _hit(skill: AgentSkillSummary, asked: Asked, weights: SkillWeights) -> AgentSkillHit:
    name, description = similarity.normalise(skill.name), similarity.normalise(skill.description)
    places = ((similarity.padded(name), weights.term_title), (similarity.padded(description), weights.term_summary))
    points = {
        "name_exact": weights.topic_exact * (bool(name) and name == asked.text),
        "name_contains": weights.title_contains * similarity.mentions(name, asked.text),
        "terms": sum(
            share * max((most for text, most in places if similarity.has_any(text, signs)), default=0)
            for signs, share in asked.terms
        ),
        "trigram": alike(
            asked, (name,), most=weights.trigram_max, floor=weights.trigram_floor, reach=weights.trigram_reach
        ),
    }
    signals = {word: value for word, value in points.items() if value}
    return AgentSkillHit(
        name=skill.name,
        description=skill.description,
        place=skill.place,
        fingerprint=skill.fingerprint,
        resources=skill.resources,
        score=sum(signals.values()),
        signals=signals,
    )
