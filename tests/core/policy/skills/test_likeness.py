"""When two skills are duplicates."""

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
def test_two_skills_merge_at_sixteen_similarity_points(other: Skill, *, same: bool) -> None:
    one = SkillLook(skill("a"))
    assert is_duplicate(one, SkillLook(other)) is same
    assert is_duplicate(SkillLook(other), one) is same
    assert (skill_similarity(one, SkillLook(other)) >= 16) is same


def test_equal_skills_share_everything() -> None:
    one = skill("a", summary="how to brew")
    assert skill_similarity(SkillLook(one), SkillLook(one)) == 6 + 8 + 6 + 12


def test_a_duplicate_is_found_by_topic_title_word_or_summary() -> None:
    looks = SkillLooks()
    looks.put(skill("topic", title="Steep", procedure="Boil water."))
    looks.put(skill("word", topic="pot", title="Brew tea", procedure="Boil water."))
    looks.put(skill("summary", topic="pot", title="Steep", summary="How to make it", procedure="Boil water."))
    assert sorted(looks.twins(skill("new", summary="How to make it"))) == [
        "runtime_skill__summary",
        "runtime_skill__topic",
        "runtime_skill__word",
    ]


def test_a_skill_is_not_a_duplicate_of_itself_or_of_removed_skills() -> None:
    looks = SkillLooks()
    looks.put(skill("a"))
    assert list(looks.twins(skill("a"))) == []
    looks.put(skill("a", topic="war", title="Drums", procedure="Beat them."))
    assert list(looks.twins(skill("b"))) == [], "an earlier revision is compared no more"
    looks.drop("runtime_skill__a")
    looks.drop("runtime_skill__a")
    assert list(looks.twins(skill("b", topic="war", title="Drums", procedure="Beat them."))) == []


def test_only_the_most_overlapping_skills_are_compared() -> None:
    looks = SkillLooks()
    for at in range(2 * COMPARED):
        looks.put(skill(f"same-topic-{at:03}", title=f"Other {at}", procedure=f"Step {at}."))
    looks.put(skill("zzz"))
    assert list(looks.twins(skill("new"))) == ["runtime_skill__zzz"]
