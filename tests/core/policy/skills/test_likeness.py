"""When two skills are one."""

import pytest
from tests.core.policy.skills.test_quality import skill

from elytron_core.planes.skills import Skill
from elytron_core.policy.skills import COMPARED, SkillLook, SkillLooks, is_duplicate, skill_similarity


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (skill("b"), True),
        (skill("b", title="Brewing tea"), True),
        (skill("b", procedure="Boil the water well."), True),
        (skill("b", title="Clean the pot", procedure="Rinse it with hot water and dry it."), False),
        (skill("b", topic="pot", title="Brew tea", procedure="Boil water."), True),
        (skill("b", topic="pot", title="Scour", procedure="Boil water."), False),
        (skill("b", topic="deploying", title="Deploy", procedure="Run the tests, then tag."), False),
    ],
)
def test_sixteen_points_of_likeness_make_two_skills_one(other: Skill, *, same: bool) -> None:
    one = SkillLook(skill("a"))
    assert is_duplicate(one, SkillLook(other)) is same
    assert is_duplicate(SkillLook(other), one) is same
    assert (skill_similarity(one, SkillLook(other)) >= 16) is same


def test_equal_skills_share_everything() -> None:
    one = skill("a", summary="how to brew")
    assert skill_similarity(SkillLook(one), SkillLook(one)) == 6 + 8 + 6 + 12


def test_a_twin_is_found_by_topic_by_a_word_of_the_title_and_by_the_summary() -> None:
    looks = SkillLooks()
    looks.put(skill("topic", title="Steep", procedure="Boil water."))
    looks.put(skill("word", topic="pot", title="Brew tea", procedure="Boil water."))
    looks.put(skill("summary", topic="pot", title="Steep", summary="How to make it", procedure="Boil water."))
    assert sorted(looks.twins(skill("new", summary="How to make it"))) == [
        "runtime_skill__summary",
        "runtime_skill__topic",
        "runtime_skill__word",
    ]


def test_a_skill_is_no_twin_of_itself_nor_of_what_was_taken_out() -> None:
    looks = SkillLooks()
    looks.put(skill("a"))
    assert list(looks.twins(skill("a"))) == []
    looks.put(skill("a", topic="war", title="Drums", procedure="Beat them."))
    assert list(looks.twins(skill("b"))) == [], "an earlier revision is compared no more"
    looks.drop("runtime_skill__a")
    looks.drop("runtime_skill__a")
    assert list(looks.twins(skill("b", topic="war", title="Drums", procedure="Beat them."))) == []


def test_only_those_that_share_most_are_compared() -> None:
    looks = SkillLooks()
    for at in range(2 * COMPARED):
        looks.put(skill(f"same-topic-{at:03}", title=f"Other {at}", procedure=f"Step {at}."))
    looks.put(skill("zzz"))
    assert list(looks.twins(skill("new"))) == ["runtime_skill__zzz"]
