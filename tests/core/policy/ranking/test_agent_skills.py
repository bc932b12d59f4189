"""Scoring of a host's agent skills against a query."""

from tests.core.policy.ranking.test_facts import query

from elytron_core.contracts.skills import AgentSkillSummary
from elytron_core.policy.ranking.skills import score_agent_skills


def agent_skill(name: str, description: str) -> AgentSkillSummary:
    return AgentSkillSummary(name=name, description=description, place=f"skills/{name}/SKILL.md", fingerprint="f")


PDF = agent_skill("pdf-forms", "Fill and merge PDF forms")
TEA = agent_skill("tea", "Brew tea in a pot")


def test_name_and_description_are_matched() -> None:
    [hit] = score_agent_skills([PDF, TEA], query("please merge these", "merg"))
    assert (hit.name, hit.signals, hit.read_only) == ("pdf-forms", {"terms": 5}, True)
    [hit] = score_agent_skills([PDF, TEA], query("tea", "tea"))
    assert {"name_exact", "name_contains", "terms", "trigram"} == hit.signals.keys()
    assert hit.score == sum(hit.signals.values())


def test_skills_that_do_not_match_are_omitted_and_at_most_four_returned() -> None:
    assert score_agent_skills([PDF, TEA], query("zebra", "zebra")) == ()
    many = [agent_skill(f"s{at}", "Brew tea") for at in reversed(range(9))]
    assert [hit.name for hit in score_agent_skills(many, query("brewing", "brew"))] == ["s0", "s1", "s2", "s3"]
