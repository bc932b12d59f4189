"""Irregular forms are found by their base words."""

import pytest

from elytron_core.text.analyser import BASES, TextAnalyser


@pytest.mark.parametrize(
    ("form", "word"),
    [("sold", "sell"), ("swam", "swimming"), ("Children", "child"), ("bought", "buys"), ("feet", "foot")],
)
def test_a_form_is_the_same_term_as_its_word(form: str, word: str) -> None:
    analyser = TextAnalyser()
    assert analyser.terms(form) == analyser.terms(word)


@pytest.mark.parametrize("word", ["found", "saw", "left", "rose", "leaves"])
def test_a_form_that_is_also_a_separate_word_is_preserved(word: str) -> None:
    assert word not in BASES
