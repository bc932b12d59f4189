"""Points for runtime skills."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.policy.ranking.test_facts import LONG_AGO, NOW, query

from elytron_core.clock import DAY_MS
from elytron_core.ids import SkillId
from elytron_core.planes.skills import Skill, SkillState
from elytron_core.policy.ranking.facts import FactQuery
from elytron_core.policy.ranking.skills import ScoredSkill, SkillWeights, score_skills
from elytron_core.policy.skills import skill_quality

NO_LIKENESS = SkillWeights(trigram_max=0)


def skill(name: str = "s1", *, topic: str = "kettle", title: str = "Remove chalk", **fields: object) -> Skill:
    texts = {"summary": "with vinegar", "procedure": "Boil it, then rinse.", "name": f"runtime_skill__{name}"}
    times = {"observed_at": LONG_AGO, "recorded_at": LONG_AGO, "updated_at": LONG_AGO}
    return Skill.model_validate({"id": SkillId(name), "topic": topic, "title": title, **texts, **times, **fields})


def ids(scored: list[ScoredSkill]) -> list[str]:
    return [item.skill.id for item in scored]


@pytest.mark.parametrize(
    ("one", "asked", "points"),
    [
        (skill(), query("Kettle"), {"topic_exact": 14}),
        (skill(), query("chalk"), {"title_contains": 10}),
        (skill(title="Kettle care"), query("what of the kettle", "kettle"), {"terms": 10}),
        (skill(), query("what of that chalk", "chalk"), {"terms": 8}),
        (skill(), query("what of the vinegar", "vinegar"), {"terms": 5}),
        (skill(), query("when do I rinse that", "rins"), {"terms": 3}),
        (skill(), query("it again", grounding="the kettle whistles"), {"terms": 5}),
        (skill(source_chat_id="quay"), query("Kettle", chat="quay"), {"topic_exact": 14, "same_chat": 6}),
        (skill(source_chat_id="quay"), query("Kettle", chat="sea"), {"topic_exact": 14}),
        (skill(updated_at=NOW - 7 * DAY_MS), query("Kettle"), {"topic_exact": 14, "recency": 6}),
        (skill(updated_at=NOW - 30 * DAY_MS), query("Kettle"), {"topic_exact": 14, "recency": 3}),
        (skill(citations=("t1", "t2")), query("Kettle"), {"topic_exact": 14, "citations": 4}),
        (skill(citations=("t1", "t2", "t3", "t4")), query("Kettle"), {"topic_exact": 14, "citations": 6}),
    ],
)
def test_each_signal_has_its_points(one: Skill, asked: FactQuery, points: Mapping[str, float]) -> None:
    [scored] = score_skills([one], asked, weights=NO_LIKENESS)
    expected = {**points, "quality": skill_quality(one) / 8}
    assert scored.signals == expected
    assert scored.score == sum(expected.values())


@pytest.mark.parametrize(
    ("one", "points"),
    [
        (skill(validated_count=1), {"validated": 4, "governance": 4}),
        (skill(validated_count=9), {"validated": 12, "governance": 4}),
        (skill(use_count=2), {"use": 4}),
        (skill(use_count=99), {"use": 12}),
        (skill(validated_count=1, revision_pending=True), {"validated": 4, "governance": -6}),
        (skill(updated_at=NOW - 91 * DAY_MS, citations=("t1",)), {"citations": 2, "governance": -8}),
        (skill(summary=""), {"governance": -12}),
        (skill(summary="", revision_pending=True), {"governance": -18}),
    ],
)
def test_use_and_governance_add_and_subtract_points(one: Skill, points: Mapping[str, float]) -> None:
    [scored] = score_skills([one], query("Kettle"), weights=NO_LIKENESS)
    assert scored.signals == {"topic_exact": 14, "quality": skill_quality(one) / 8, **points}


def test_full_text_rank_orders_matching_skills() -> None:
    skills = [skill(f"s{at}", topic=f"kettle {at}") for at in range(8)]
    ranks = [one.id for one in reversed(skills)]
    scored = score_skills(skills, query("kettle", "kettle"), ranks=ranks, weights=NO_LIKENESS, limit=8)
    assert [item.signals.get("full_text", 0) for item in scored] == [18, 14, 11, 9, 7, 5, 0, 0]
    assert score_skills(skills, query("zebra", "zebra"), ranks=ranks) == []


def test_similarity_counts_up_to_eighteen_points() -> None:
    [scored] = score_skills([skill(topic="pumpe", title="pump")], query("pump"))
    assert scored.signals["trigram"] == 18
    assert scored.match == 10 + 18


@pytest.mark.parametrize(
    "put_away",
    [skill(enabled=False), skill(forgotten_at=NOW), skill(state=SkillState.RETIRED)],
    ids=["disabled", "forgotten", "retired"],
)
def test_archived_skills_are_never_recalled(put_away: Skill) -> None:
    assert score_skills([put_away], query("kettle", "kettle")) == []


@pytest.mark.parametrize("state", [SkillState.ACTIVE, SkillState.STALE, SkillState.LOW_VALUE])
def test_a_skill_in_use_is_recalled(state: SkillState) -> None:
    assert ids(score_skills([skill(state=state)], query("kettle"))) == ["s1"]


def test_a_new_skill_that_does_not_match_is_not_recalled() -> None:
    assert score_skills([skill(updated_at=NOW, citations=("t1",))], query("zebra crossings", "zebra")) == []


def test_at_most_four_skills_are_recalled_one_per_topic() -> None:
    skills = [skill(f"s{at}", topic=f"Kettle {at}") for at in range(6)]
    skills += [skill("twin", topic="kettle  0", updated_at=NOW)]
    assert ids(score_skills(skills, query("the kettle please", "kettle"))) == ["twin", "s1", "s2", "s3"]
    assert ids(score_skills(skills, query("the kettle please", "kettle"), limit=1)) == ["twin"]


SKILLS = st.lists(
    st.builds(
        skill,
        st.text("abc", min_size=1, max_size=2),
        topic=st.sampled_from(["kettle", "boat", "茶"]),
        title=st.sampled_from(["Kettle", "Sail the boat"]),
        updated_at=st.sampled_from([NOW, LONG_AGO]),
        enabled=st.booleans(),
    ),
    unique_by=lambda one: one.id,
    max_size=8,
)


@given(SKILLS, st.sampled_from(["kettle", "boat", "茶", "", "zebra"]), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_input_order(skills: list[Skill], text: str, random: Random) -> None:
    shuffled = list(skills)
    random.shuffle(shuffled)
    made = score_skills(skills, query(text, text))
    assert score_skills(shuffled, query(text, text)) == made
    assert len({item.skill.topic for item in made}) == len(made) <= 4
    assert all(item.skill.is_recallable and item.match > 0 for item in made)
