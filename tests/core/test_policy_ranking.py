"""What the common scale promises: between 0 and 1, and in the order of the points."""

from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy.ranking import HALF_STRENGTH, common_scale

POINTS = st.floats(0, 1e6)


def test_no_points_are_worth_nothing_and_the_half_a_half() -> None:
    assert [common_scale(points) for points in (-5.0, 0.0, HALF_STRENGTH)] == [0.0, 0.0, 0.5]


@given(one=POINTS, other=POINTS)
def test_more_points_are_never_worth_less(one: float, other: float) -> None:
    assert 0.0 <= common_scale(one) < 1.0
    assert (common_scale(one) <= common_scale(other)) or one > other
