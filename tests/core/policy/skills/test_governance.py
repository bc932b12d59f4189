"""One governance run over all skills."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.policy.skills.test_quality import NOW, aged, skill

from elytron_core.clock import DAY_MS, Instant
from elytron_core.planes.skills import Skill, SkillState
from elytron_core.policy.skills import count_skills, govern_skills


def digest(one: Skill) -> str:
    return f"digest of {one.name}"


def named(one: Skill) -> str:
    return one.name.removeprefix("runtime_skill__")


def test_the_later_observed_of_two_equal_skills_stays() -> None:
    old = skill("old", summary="s", observed_at=NOW - DAY_MS, use_count=2)
    new = skill("new", summary="s")
    made = govern_skills([old, new], at=NOW, digest=digest)
    assert made.merged == ("runtime_skill__old",)
    by_name = {named(one): one for one in made.changed}
    assert (by_name["new"].supersedes, by_name["new"].use_count) == (("runtime_skill__old",), 2)
    assert (by_name["old"].state, by_name["old"].superseded_by) == (SkillState.RETIRED, "runtime_skill__new")
    assert by_name["new"].predecessors[0].digest == "digest of runtime_skill__old"
    assert made.pruned == made.moved == ()


@pytest.mark.parametrize("put_away", [{"forgotten_at": NOW}, {"state": SkillState.RETIRED}])
def test_archived_skills_are_not_merged(put_away: dict[str, object]) -> None:
    made = govern_skills([skill("a", summary="s"), skill("b", summary="s", **put_away)], at=NOW, digest=digest)
    assert not made.is_change


def test_states_are_recorded_and_unused_skills_pruned() -> None:
    skills = [
        aged(1, name="fresh", topic="a", title="aaaa", procedure="1. a\n2. b"),
        aged(99, name="lonely", topic="b", title="bbbb"),
        aged(99, name="cited", topic="c", title="cccc", summary="s", procedure="Sail home.", citations=("x", "y")),
        aged(99, name="poor", topic="d", title="dddd", use_count=1),
        aged(99, name="grown", topic="e", title="eeee", supersedes=("runtime_skill__x",)),
        skill("back", topic="f", title="ffff", summary="s", state=SkillState.STALE),
    ]
    made = govern_skills(skills, at=NOW, digest=digest)
    assert [named(one) for one in made.pruned] == ["lonely"]
    assert {state: made.names_in(state) for state in SkillState} == {
        SkillState.ACTIVE: ("runtime_skill__back",),
        SkillState.STALE: ("runtime_skill__cited",),
        SkillState.LOW_VALUE: ("runtime_skill__poor",),
        SkillState.RETIRED: ("runtime_skill__grown",),
    }
    left = [one for one in skills if one.name != "runtime_skill__lonely"]
    after = {one.name: one for one in left} | {one.name: one for one in made.changed}
    assert not govern_skills(after.values(), at=NOW, digest=digest).is_change, "a second look finds nothing to do"


def test_skills_are_counted_by_state() -> None:
    skills = [
        skill("a", summary="s"),
        skill("b", summary="s", enabled=False, revision_pending=True),
        skill("c", summary="s", forgotten_at=NOW),
        skill("d", state=SkillState.RETIRED),
        aged(99, use_count=9),
    ]
    found = count_skills(skills, at=NOW)
    assert (found.total, found.active, found.low_value, found.retired, found.stale) == (5, 3, 0, 1, 1)
    assert (found.disabled, found.forgotten, found.revision_pending, found.recallable) == (1, 1, 1, 2)


SKILLS = st.lists(
    st.builds(
        skill,
        st.text("abc", min_size=1, max_size=2),
        topic=st.sampled_from(["tea", "boat"]),
        title=st.sampled_from(["Brew tea", "Sail", "Brewing tea"]),
        updated_at=st.sampled_from([NOW, Instant(NOW - 100 * DAY_MS)]),
        observed_at=st.sampled_from([NOW, Instant(NOW - DAY_MS)]),
        use_count=st.integers(0, 2),
        citations=st.sampled_from([(), ("a",), ("a", "b")]),
    ),
    unique_by=lambda one: one.name,
    max_size=8,
)


@given(SKILLS, st.randoms(use_true_random=False))
def test_governance_does_not_depend_on_the_order(skills: list[Skill], random: Random) -> None:
    shuffled = list(skills)
    random.shuffle(shuffled)
    assert govern_skills(skills, at=NOW, digest=digest) == govern_skills(shuffled, at=NOW, digest=digest)
