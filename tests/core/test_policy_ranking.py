"""Ranking: weights that are data, one order whatever comes in first."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy import ranking
from elytron_core.policy.ranking import RankInput, RankWeights, Weight, rank

ONLY = Weight(by=0)


def weights(**given: Weight) -> RankWeights:
    """Return weights in which nothing counts but what is given."""
    return RankWeights(**{**dict.fromkeys(RankWeights.model_fields, ONLY), **given})


def candidate(name: str, *, at: int = 0, order: int = 0, **signals: float) -> RankInput:
    return RankInput(name, at, order, signals)


def scores(ranked: list[ranking.Ranked]) -> dict[str, float]:
    return {item.id: item.score for item in ranked}


def test_a_scaled_signal_goes_from_its_lowest_to_its_highest() -> None:
    given = [candidate("a", body=12), candidate("b", body=2), candidate("c", body=7)]
    assert scores(rank(given, weights(body=Weight(by=3, scaled=True)))) == {"a": 1, "c": 0.5, "b": 0}


def test_a_signal_that_some_lack_starts_at_nothing() -> None:
    given = [candidate("a", body=12), candidate("b"), candidate("c", body=6)]
    assert scores(rank(given, weights(body=Weight(by=1, scaled=True)))) == {"a": 1, "c": 0.5, "b": 0}


@pytest.mark.parametrize(("value", "score"), [(5.0, 1.0), (0.0, 0.0), (-5.0, 0.0)])
def test_a_signal_alike_everywhere_counts_whole_where_it_is_there(value: float, score: float) -> None:
    given = [candidate("a", body=value), candidate("b", body=value)]
    assert scores(rank(given, weights(body=Weight(by=1, scaled=True)))) == {"a": score, "b": score}


def test_an_unscaled_signal_counts_as_it_is_within_one() -> None:
    given = [candidate("a", speaker=0.5), candidate("b", speaker=7), candidate("c", speaker=-7)]
    assert scores(rank(given, weights(speaker=Weight(by=2)))) == {"a": 0.5, "b": 1, "c": -1}


def test_a_signal_nobody_shows_takes_nothing_from_the_score() -> None:
    given = [candidate("a", speaker=1)]
    assert scores(rank(given, weights(speaker=Weight(by=1), vector=Weight(by=9, scaled=True)))) == {"a": 1}


def test_a_name_without_weight_counts_nothing() -> None:
    [only] = rank([candidate("a", speaker=1, moon=1)], weights(speaker=Weight(by=1)))
    assert (only.score, only.parts) == (1, {"speaker": 1})


def test_the_parts_say_what_each_signal_gave() -> None:
    [best, _] = rank(
        [candidate("a", at=3, order=4, body=9, speaker=1), candidate("b", body=1)],
        weights(body=Weight(by=3, scaled=True), speaker=Weight(by=1)),
    )
    assert best == ranking.Ranked("a", 3, 4, 1.0, {"body": 0.75, "speaker": 0.25})


def test_equal_scores_fall_to_the_later_moment_then_to_the_smaller_id() -> None:
    given = [candidate("c", at=1), candidate("b", at=2), candidate("a", at=1), candidate("d", at=2)]
    assert [item.id for item in rank(given)] == ["b", "d", "a", "c"]


def test_nothing_ranks_as_nothing() -> None:
    assert rank([]) == []


NUMBERS = st.one_of(st.floats(), st.integers(-3, 3).map(float))
CANDIDATES = st.lists(
    st.builds(
        RankInput,
        id=st.text("abc", max_size=3),
        at=st.integers(0, 3),
        order=st.integers(0, 3),
        signals=st.dictionaries(st.sampled_from([*RankWeights.model_fields, "other"]), NUMBERS, max_size=5),
    ),
    unique_by=lambda item: item.id,
    max_size=8,
)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_given(given: list[RankInput], random: Random) -> None:
    shuffled = list(given)
    random.shuffle(shuffled)
    ranked = rank(given)
    assert rank(shuffled) == ranked
    assert sorted(item.id for item in ranked) == sorted(item.id for item in given)
    for item in ranked:
        assert -1 <= item.score <= 1
        assert math.isclose(item.score, math.fsum(item.parts.values()), abs_tol=1e-8)


def test_match_points_come_to_a_half_at_twenty_and_never_to_one() -> None:
    assert [ranking.common_scale(points) for points in (-5, 0, 20, 60)] == [0, 0, 0.5, 0.75]
    assert ranking.common_scale(1e6) < 1


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_more_points_of_match_never_give_less(points: float, more: float) -> None:
    assert ranking.common_scale(points) <= ranking.common_scale(points + more) <= 1
