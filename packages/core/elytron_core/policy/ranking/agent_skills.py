"""Scoring of a host's agent skills against a query: the points of runtime skills, given to name and description."""

from collections.abc import Iterable
from typing import Final

from elytron_core.contracts.knowledge.skills import AgentSkillHit, AgentSkillSummary
from elytron_core.policy.ranking.facts import Asked, FactQuery, read
from elytron_core.policy.ranking.skills import STANDARD, alike, term_points
from elytron_core.text import similarity

AGENT_SKILLS_MAX: Final = 4


def score_agent_skills(skills: Iterable[AgentSkillSummary], query: FactQuery) -> tuple[AgentSkillHit, ...]:
    """Return up to four agent skills that match, best first; equal ones by name."""
    asked = read(query, grounding_share=STANDARD.grounding_share)
    hits = [hit for skill in skills if (hit := _hit(skill, asked)).score > 0]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.name))[:AGENT_SKILLS_MAX])


def _hit(skill: AgentSkillSummary, asked: Asked) -> AgentSkillHit:
    name, description = similarity.normalise(skill.name), similarity.normalise(skill.description)
    places = ((similarity.padded(name), STANDARD.term_title), (similarity.padded(description), STANDARD.term_summary))
    points = {
        "name_exact": STANDARD.topic_exact * (bool(name) and name == asked.text),
        "name_contains": STANDARD.title_contains * similarity.mentions(name, asked.text),
        "terms": term_points(asked, places),
        "trigram": alike(asked, (name,), STANDARD),
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
