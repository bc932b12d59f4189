"""Comparison of texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.text import similarity
from elytron_core.text.similarity import distinct_places


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  Green—TEA!\n", "green tea"),
        ("Café", "cafe"),
        ("ＡＢＣ　１２", "abc 12"),
        ("Straße", "strasse"),
        ("外婆，成都。", "外婆 成都"),
        ("snake_case", "snake case"),
        ("ガ", "ガ"),
        ("?!", ""),
    ],
)
def test_case_accents_width_and_punctuation_do_not_matter(text: str, normal: str) -> None:
    assert similarity.normalise_text(text) == normal


@given(st.text(max_size=60))
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    once = similarity.normalise_text(text)
    assert similarity.normalise_text(once) == once
    assert similarity.plain_text(similarity.plain_text(text)) == similarity.plain_text(text)


@pytest.mark.parametrize(
    ("text", "term", "held"),
    [
        ("green tea", "tea", True),
        ("green teas", "tea", True),
        ("a team", "tea", False),
        ("steak", "tea", False),
        ("walking home", "walk", True),
        ("a sidewalk", "walk", False),
        ("happy days", "happi", True),
        ("我外婆在成都", "外婆", True),
        ("我外婆在成都", "外公", False),
        ("anything", "", False),
    ],
)
def test_a_term_matches_a_word_or_its_beginning(text: str, term: str, held: bool) -> None:
    assert similarity.has_term(text, term) is held


@pytest.mark.parametrize(
    ("text", "words", "mentioned"),
    [
        ("mina drinks green tea", "green tea", True),
        ("mina drinks green teas", "green tea", False),
        ("我外婆在成都", "外婆", True),
        ("anything", "", False),
    ],
)
def test_words_are_mentioned_in_one_piece(text: str, words: str, mentioned: bool) -> None:
    assert similarity.has_phrase(text, words) is mentioned


def test_trigrams_are_marked_at_both_ends() -> None:
    assert similarity.text_trigrams("tea") == {" te", "tea", "ea "}
    assert similarity.text_trigrams("茶") == {" 茶 "}
    assert similarity.text_trigrams("") == frozenset()


@given(
    st.text("abc ", max_size=12).map(similarity.normalise_text),
    st.text("abc ", max_size=12).map(similarity.normalise_text),
)
def test_similarity_is_symmetric_and_full_only_for_equal_sets(one: str, other: str) -> None:
    grams, others = similarity.text_trigrams(one), similarity.text_trigrams(other)
    likeness = similarity.trigram_likeness(grams, others)
    assert 0 <= likeness <= 1
    assert likeness == similarity.trigram_likeness(others, grams)
    assert (likeness == 1) == (grams == others and bool(grams))


def test_the_words_of_a_text_are_long_ones_and_pairs_once_each_up_to_a_limit() -> None:
    assert similarity.words_of("the boat and the boat of 外婆家", limit=9) == ("boat", "外婆", "婆家")
    assert similarity.words_of("boat oars rope", limit=2) == ("boat", "oars")


@pytest.mark.parametrize(
    ("text", "blank"), [("", True), (" \t\n\u3000", True), ("\u200b\x00\u2028", True), ("·", False)]
)
def test_invisible_text_counts_as_blank(text: str, blank: bool) -> None:
    assert similarity.is_blank(text) is blank


WORDS = st.text("abc é茶", max_size=30).map(similarity.normalise_text)


@given(WORDS, WORDS)
def test_similarity_needs_no_trigrams_of_the_other_text_and_respects_its_limit(one: str, other: str) -> None:
    grams, others = similarity.text_trigrams(one), similarity.text_trigrams(other)
    alike = similarity.trigram_likeness(grams, others)
    assert similarity.likeness_to(grams, similarity.pad_words(other), len(others)) == alike
    assert similarity.likeness_at_most(similarity.grams_of(grams), similarity.grams_of(others)) >= alike


def test_repeated_texts_are_omitted() -> None:
    texts = (
        "The ferry leaves at seven.",
        "the ferry leaves at seven!",
        "The ferry leaves at 7.",
        "The ferry leaves at 9.",
    )

    assert tuple(distinct_places(texts)) == (0, 2, 3)
