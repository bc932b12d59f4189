"""Capsules: which are shown, how they are phrased, and which are dropped."""

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.planes.continuity import (
    CapsuleId,
    CapsuleKind,
    CapsuleState,
    ContinuityCapsule,
    state_at,
)
from elytron_core.policy import continuity
from elytron_core.policy.continuity import CAPSULES_CONSIDERED

NOW = Instant(100 * DAY_MS)


def capsule(name: str, topic: str = "tea shop", *, days: int = 1, **more: object) -> ContinuityCapsule:
    fields: dict[str, object] = {
        "id": CapsuleId(name),
        "kind": CapsuleKind.WORK_SESSION,
        "topic": topic,
        "summary": f"about {topic}",
        "channel": "default",
        "conversation": "default",
        "recorded_at": 0,
        "updated_at": NOW - days * DAY_MS,
    }
    return ContinuityCapsule.model_validate({**fields, **more})


def test_an_active_capsule_is_stale_after_fourteen_days_and_a_done_one_never() -> None:
    assert state_at(capsule("a", days=13), NOW) is CapsuleState.ACTIVE
    assert state_at(capsule("a", days=14), NOW) is CapsuleState.STALE
    assert state_at(capsule("a", days=50, state="done"), NOW) is CapsuleState.DONE


def test_at_most_three_capsules_are_selected_best_matches_first() -> None:
    held = [capsule(f"c{number}", f"matter {number}", days=number + 1) for number in range(6)]
    held.append(capsule("meant", "the lease", days=9))
    assert [c.id for c in continuity.select_capsules(held, "lease", now=NOW)] == ["meant", "c0", "c1"]
    hidden = [capsule("old", days=20), capsule("gone", state="superseded"), capsule("forgotten", forgotten_at=5)]
    assert continuity.select_capsules(hidden, "tea", now=NOW) == ()
    assert continuity.select_capsules([capsule("done", state="done")], "swimming", now=NOW) == ()


def test_only_the_twelve_newest_capsules_are_considered() -> None:
    held = [capsule(f"c{number}", f"matter {number}", days=1) for number in range(CAPSULES_CONSIDERED)]
    held.append(capsule("meant", "the lease", days=9))
    assert "meant" not in [c.id for c in continuity.select_capsules(held, "lease", now=NOW)]


def test_a_block_has_at_most_nine_hundred_characters_and_only_whole_capsules() -> None:
    told = [capsule("a", summary="x" * 500), capsule("b", summary="y" * 500), capsule("c", next_step="sign")]
    block = continuity.capsule_block(told)
    assert len(block) <= limits.CAPSULE_BLOCK_CHARS
    assert ("x" * 500 in block, "y" in block.split("\n")[-1][:20]) == (True, False)
    assert block.endswith("Next: sign")


def test_the_least_valuable_capsules_are_dropped_but_never_new_ones() -> None:
    held = [capsule(f"c{number:02}", f"m{number}", days=number) for number in range(17)]
    assert [c.id for c in continuity.giving_way(held, fresh=frozenset(), now=NOW)] == ["c16"]
    held[3] = capsule("replaced", "m3", state="superseded")
    assert [c.id for c in continuity.giving_way(held, fresh=frozenset(), now=NOW)] == ["replaced"]
    assert continuity.giving_way(held, fresh=frozenset(c.id for c in held), now=NOW) == ()
    many = [capsule(f"d{number:03}", days=1, conversation=f"k{number}") for number in range(98)]
    assert len(continuity.giving_way(many, fresh=frozenset(), now=NOW)) == 2
