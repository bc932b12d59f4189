"""The nearest sentence of a long message, compared with the whole."""

import pytest

from elytron_core.policy.ranking.excerpts import (
    ASKS,
    FITS,
    NearestSentence,
    SoughtWords,
    nearest_sentence,
    sentences_of,
)
from elytron_core.text.analyser import TextAnalyser
from elytron_core.text.traits import TextTrait

ANALYSER = TextAnalyser()
RIDERS = SoughtWords({"mani": [(0, 1.0)], "rider": [(1, 1.0)], "cyclist": [(1, 0.5)]}, (1.0, 3.0))


def said(text: str, *, fits: TextTrait = TextTrait.NOTHING) -> NearestSentence | None:
    return nearest_sentence(sentences_of(text, ANALYSER.terms), RIDERS, fits)


def test_words_in_one_sentence_count_fully_and_scattered_ones_less() -> None:
    together = said("The board is grey. Many riders complained. It rained.")
    apart = said("Many boards are grey. A rider complained. It rained.")
    assert together == NearestSentence(0.0, 1.0, together.factuality if together else 0.0)
    assert apart is not None
    assert (apart.gain, apart.share) == (-0.25, 0.75)


def test_a_similar_word_counts_in_part() -> None:
    found = said("It rained. Cyclists complained.")
    assert found is not None
    assert (found.gain, found.share) == (0.0, pytest.approx(1.5 / 4))


def test_a_number_elsewhere_in_the_message_is_not_the_answer() -> None:
    beside = said("The rider is tired. It rained for 9 hours.", fits=TextTrait.NUMBER)
    within = said("The rider came at 9. It rained.", fits=TextTrait.NUMBER)
    assert beside is not None
    assert within is not None
    assert beside.gain == pytest.approx(-FITS * 3 / 4)
    assert within.gain == 0.0


def test_a_question_is_not_the_best_sentence() -> None:
    asked, told = said("What would a rider do? It rained."), said("What would a rider do? Our rider slept on 9 May.")
    assert asked is not None
    assert told is not None
    assert asked.gain == pytest.approx(-ASKS * 3 / 4)
    assert told.gain == 0.0
    assert told.factuality > asked.factuality


@pytest.mark.parametrize("text", ["", "It rained. The board is grey."])
def test_a_message_without_the_search_terms_has_no_best_sentence(text: str) -> None:
    assert said(text) is None
    assert (
        nearest_sentence(
            sentences_of("A rider.", ANALYSER.terms), SoughtWords({"rider": [(0, 1.0)]}, (0.0,)), TextTrait.NOTHING
        )
        is None
    )
