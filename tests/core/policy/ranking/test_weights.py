"""The common scale: between 0 and 1, and in the order of the points."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import instant
from elytron_core.contracts.recall import HitDiversity
from elytron_core.policy.ranking.question import QuestionLabel, read_question
from elytron_core.policy.ranking.weights import (
    HALF_STRENGTH,
    LATER,
    RETOLD,
    SEVERAL,
    STANDARD,
    WIDE,
    common_scale,
    weights_for,
)

POINTS = st.floats(0, 1e6)


def test_zero_points_map_to_zero_and_half_to_a_half() -> None:
    assert [common_scale(points) for points in (-5.0, 0.0, HALF_STRENGTH)] == [0.0, 0.0, 0.5]


@given(one=POINTS, other=POINTS)
def test_more_points_are_never_worth_less(one: float, other: float) -> None:
    assert 0.0 <= common_scale(one) < 1.0
    assert (common_scale(one) <= common_scale(other)) or one > other


def test_a_question_is_weighted_by_the_number_and_time_of_its_answers() -> None:
    now = instant("2026-03-10")
    one, several = (read_question(text, now) for text in ("Who called?", "Which cities did they see?"))
    latest = read_question("Who calls?", now, {QuestionLabel.LATEST})
    assert weights_for(one, HitDiversity.AUTO) == weights_for(several, HitDiversity.OFF) == STANDARD
    assert weights_for(several, HitDiversity.AUTO) == SEVERAL
    assert SEVERAL.speaker > STANDARD.speaker
    assert weights_for(one, HitDiversity.WIDE) == WIDE
    assert weights_for(latest, HitDiversity.AUTO) == replace(STANDARD, later=LATER)


def test_each_piece_of_an_account_counts_by_itself() -> None:
    weights = weights_for(
        read_question("the work on the roof", instant("2026-03-10"), {QuestionLabel.RETELLING}), HitDiversity.AUTO
    )
    assert (weights.window, weights.told, weights.owner) == (RETOLD.window, RETOLD.told, RETOLD.owner)
    assert weights.again == SEVERAL.again
