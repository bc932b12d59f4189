"""Rounding to four places is what `round` does."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from elytron.recall.order import four_each


@given(st.floats() | st.integers(-(10**6), 10**6).map(lambda units: units / 20_000))
@example(0.00005)
@example(0.12345)
@example(99_999.99995)
@example(-0.00001)
@example(math.inf)
def test_four_places_are_those_of_round(number: float) -> None:
    assert repr(four_each("ab", (number, 0.0))) == repr({"a": round(number, 4)} if number else {})
