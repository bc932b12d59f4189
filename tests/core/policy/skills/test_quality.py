"""Quality of skills, and their states by age."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant, instant
from elytron_core.ids import SkillId
from elytron_core.planes.skills import (
    LineageStatus,
    ReuseOutcome,
    Skill,
    SkillSource,
    SkillState,
    StrategyChange,
)
from elytron_core.policy.skills import (
    DIFF_CHARS,
    LINEAGE_NODES,
    STRATEGY_DIFFS,
    SkillDecision,
    fate_of,
    merge_skills,
    retire_skill,
    revise_skill,
    skill_lineage,
    skill_quality,
    state_of,
    touch_skill,
    with_outcome,
)

NOW = instant("2026-06-30T12:00:00Z")
HOUR_MS = 3_600_000


def skill(name: str = "brew", **fields: object) -> Skill:
    texts = {"topic": "tea", "title": "Brew tea", "summary": "", "procedure": "Boil water."}
    times = {"observed_at": NOW, "recorded_at": NOW, "updated_at": NOW}
    named = {"id": SkillId(name), "name": f"runtime_skill__{name}", "source": SkillSource.TASK_LEARNING}
    return Skill.model_validate({**named, **texts, **times, **fields})


def aged(days: int, name: str = "brew", **fields: object) -> Skill:
    return skill(name, updated_at=NOW - days * DAY_MS, **fields)


@pytest.mark.parametrize(
    ("one", "worth"),
    [
        (skill(), 20),
        (skill(summary="how to"), 38),
        (skill(citations=("a",)), 30),
        (skill(citations=("a", "b", "c", "d", "e")), 60),
        (skill(use_count=2), 32),
        (skill(use_count=99), 50),
        (skill(validated_count=1), 25),
        (skill(validated_count=99), 40),
        (skill(procedure="Boil.\nPour."), 34),
        (skill(source_chat_id="kitchen"), 26),
        (skill(mismatch_count=1), 16),
        (skill(mismatch_count=99), 8),
        (skill(revision_pending=True), 14),
        (skill(mismatch_count=3, revision_pending=True), 2),
        (skill(summary="s", citations=tuple("abcd"), use_count=5, validated_count=4, procedure="a\nb"), 100),
    ],
)
def test_quality_is_a_sum_of_points_up_to_a_hundred(one: Skill, worth: int) -> None:
    assert skill_quality(one) == worth


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (skill(summary="s"), SkillState.ACTIVE),
        (skill(citations=("a",)), SkillState.LOW_VALUE),
        (skill(citations=("a",), revision_pending=True), SkillState.LOW_VALUE),
        (skill(procedure="a\nb"), SkillState.ACTIVE),
        (aged(90, summary="s"), SkillState.ACTIVE),
        (aged(91, summary="s"), SkillState.LOW_VALUE),
        (aged(91, summary="s", citations=("a",)), SkillState.STALE),
        (aged(91, summary="s", citations=("a",), last_used_at=NOW - DAY_MS), SkillState.ACTIVE),
        (aged(91, summary="s", citations=("a",), last_outcome_at=NOW - DAY_MS), SkillState.ACTIVE),
        (aged(91, summary="s", citations=("a",), supersedes=("runtime_skill__old",)), SkillState.RETIRED),
        (aged(91, summary="s", supersedes=("runtime_skill__old",), use_count=3), SkillState.STALE),
        (skill(summary="s", state=SkillState.RETIRED), SkillState.RETIRED),
        (skill(summary="s", state=SkillState.STALE), SkillState.ACTIVE),
    ],
)
def test_age_and_quality_determine_the_state(one: Skill, state: SkillState) -> None:
    assert state_of(one, at=NOW) is state


@pytest.mark.parametrize(
    ("one", "fate"),
    [
        (skill(summary="s"), SkillDecision.KEEP),
        (aged(91, summary="s"), SkillDecision.PRUNE),
        (aged(91, summary="s", citations=("a",)), SkillDecision.PRUNE),
        (aged(91, summary="s", citations=("a", "b")), SkillDecision.MOVE),
        (aged(91, summary="s", use_count=1), SkillDecision.MOVE),
        (aged(91, summary="s", validated_count=1), SkillDecision.MOVE),
        (aged(91, summary="s", supersedes=("runtime_skill__old",)), SkillDecision.MOVE),
        (aged(91, summary="s", source=SkillSource.MANUAL), SkillDecision.MOVE),
        (aged(91, summary="s", forgotten_at=NOW), SkillDecision.KEEP),
        (aged(90, summary="s"), SkillDecision.KEEP),
    ],
)
def test_only_a_learned_and_unused_skill_is_pruned(one: Skill, fate: SkillDecision) -> None:
    assert fate_of(one, at=NOW) is fate


def test_uses_within_six_hours_count_as_one() -> None:
    once = touch_skill(skill(), at=NOW)
    assert (once.use_count, once.last_used_at) == (1, NOW)
    assert touch_skill(once, at=Instant(NOW + 6 * HOUR_MS - 1)) is once
    assert touch_skill(once, at=Instant(NOW + 6 * HOUR_MS)).use_count == 2


def test_a_mismatch_requests_a_revision_and_a_success_cancels_it() -> None:
    doubted = with_outcome(skill(), ReuseOutcome.MISMATCH, at=NOW, note="x" * 999)
    assert (doubted.mismatch_count, doubted.revision_pending, doubted.validated_count) == (1, True, 0)
    assert len(doubted.last_outcome_note) == limits.OUTCOME_NOTE_CHARS
    noted = with_outcome(doubted, ReuseOutcome.NEUTRAL, at=NOW)
    assert (noted.mismatch_count, noted.revision_pending, noted.last_outcome_note) == (1, True, "")
    proven = with_outcome(noted, ReuseOutcome.SUCCEEDED, at=NOW)
    assert (proven.mismatch_count, proven.revision_pending, proven.validated_count) == (1, False, 1)


def test_a_revision_preserves_the_evidence_and_describes_its_changes() -> None:
    old = skill(summary="short", procedure="a\nb\nc", citations=("t1",), use_count=3, supersedes=("runtime_skill__x",))
    new = skill(topic="green tea", summary="longer", procedure="a\nB\nc", citations=("t2",))
    made = revise_skill(old, new, digest="d1", reason="learned better")
    assert (made.revision_count, made.use_count, made.citations) == (2, 3, ("t1", "t2"))
    assert made.supersedes == ("runtime_skill__x",)
    [node] = made.predecessors
    assert (node.revision, node.digest, node.status) == (1, "d1", LineageStatus.SUPERSEDED)
    assert [(diff.change, diff.before, diff.after, diff.reason) for diff in made.diffs] == [
        (StrategyChange.DOCTRINE_REVISION, "tea: Brew tea", "green tea: Brew tea", "learned better"),
        (StrategyChange.SUMMARY_REVISION, "short", "longer", "learned better"),
        (StrategyChange.PROCEDURE_REFINEMENT, "b", "B", "learned better"),
    ]


def test_reordered_lines_are_a_refinement_too() -> None:
    made = revise_skill(skill(procedure="a\nb"), skill(procedure="b\na"), digest="d")
    assert [(diff.before, diff.after) for diff in made.diffs] == [("a\nb", "b\na")]


@given(st.integers(1, 40))
def test_history_is_bounded_and_keeps_the_latest_entries(revisions: int) -> None:
    kept = skill(procedure="step 0")
    for at in range(1, revisions + 1):
        new = skill(procedure=f"step {at}\n{'x' * 2_000}")
        kept = revise_skill(kept, new, digest=f"d{at - 1}")
    nodes = skill_lineage(kept, digest="now")
    assert len(nodes) <= LINEAGE_NODES
    assert [node.status for node in nodes[-2:]] == [LineageStatus.SUPERSEDED, LineageStatus.ACTIVE]
    assert (nodes[-1].digest, nodes[-2].digest) == ("now", f"d{revisions - 1}")
    assert len(kept.diffs) <= STRATEGY_DIFFS
    assert all(len(diff.before) <= DIFF_CHARS >= len(diff.after) for diff in kept.diffs)


def test_a_retired_skill_is_retired_in_its_lineage() -> None:
    gone = retire_skill(skill(), by="runtime_skill__other")
    assert skill_lineage(gone, digest="d")[-1].status is LineageStatus.RETIRED
    [node] = revise_skill(gone, skill(summary="back"), digest="d").predecessors
    assert node.status is LineageStatus.RETIRED


def test_merging_transfers_the_evidence() -> None:
    kept = skill("new", citations=("t2",), use_count=1, last_used_at=NOW)
    counts = {"use_count": 4, "validated_count": 2, "mismatch_count": 1}
    old = skill("old", citations=("t1",), enabled=False, source_chat_id="k", **counts)
    made = merge_skills(kept, old, digest="d")
    assert (made.use_count, made.validated_count, made.mismatch_count, made.last_used_at) == (5, 2, 1, NOW)
    assert (made.citations, made.supersedes, made.source_chat_id) == (("t1", "t2"), ("runtime_skill__old",), "k")
    assert not made.enabled, "what was switched off is not learned round"
    assert [node.name for node in made.predecessors] == ["runtime_skill__old"]
