"""Scores are between 0 and 1, keep the order of hits, and stay below the estimate that anything answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.planes.embedding import ModelReach
from elytron_core.policy.ranking.weights import COMPARED, AnswerSigns, answer_chance, hit_scores

shares = st.floats(0.0, 1.0)
encoders = pytest.mark.parametrize("encoder", [None, *ModelReach])


@encoders
@given(strength=shares, agreement=st.floats(-1.0, 2.0), behind=st.lists(st.floats(0.0, 2.0), max_size=40))
def test_scores_keep_the_order_and_stay_below_that_of_the_question(
    strength: float, agreement: float, behind: list[float], *, encoder: ModelReach | None
) -> None:
    signs = AnswerSigns(strength, agreement, (0.0, *sorted(behind)))
    found = hit_scores(signs, encoder=encoder)
    assert found == sorted(found, reverse=True)
    assert found[-1] >= 0.0
    assert found[0] <= answer_chance(signs, encoder=encoder) < 1.0


@encoders
def test_evidence_counts_less_across_languages(*, encoder: ModelReach | None) -> None:
    weak, strong = (AnswerSigns(strength, 0.8, (0.0,)) for strength in (0.1, 0.9))
    (low, high), (other_low, other_high) = (
        [answer_chance(signs._replace(is_foreign=is_foreign), encoder=encoder) for signs in (weak, strong)]
        for is_foreign in (False, True)
    )
    assert low < other_low < other_high < high


@encoders
def test_the_only_memory_answers_if_anything_does(*, encoder: ModelReach | None) -> None:
    signs = AnswerSigns(0.6, 0.9, (0.0,))
    assert hit_scores(signs, encoder=encoder) == [answer_chance(signs, encoder=encoder)]


@encoders
def test_more_strength_and_agreement_make_an_answer_more_likely(*, encoder: ModelReach | None) -> None:
    weak, strong, agreed = (
        answer_chance(AnswerSigns(strength, agreement, (0.0,)), encoder=encoder)
        for strength, agreement in ((0.2, 0.5), (0.8, 0.5), (0.8, 0.9))
    )
    assert weak < strong < agreed


def test_a_lead_counts_in_proportion_to_the_search_strength() -> None:
    weak, strong = (AnswerSigns(strength, 0.8, (0.0, 0.5)) for strength in (0.2, 0.8))
    ratios = [first / second for first, second in (hit_scores(signs, encoder=None) for signs in (weak, strong))]
    assert 1.0 < ratios[0] < ratios[1]


def test_hits_beyond_those_compared_change_no_score() -> None:
    behind = (0.0, *(0.2 for _ in range(COMPARED - 1)))
    few, many = (hit_scores(AnswerSigns(0.5, 0.8, each), encoder=None) for each in (behind, (*behind, 0.3, 0.4)))
    assert many[:COMPARED] == few


def test_an_empty_result_has_no_scores() -> None:
    assert hit_scores(AnswerSigns(0.0, 0.0, ()), encoder=None) == []
