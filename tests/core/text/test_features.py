"""Traits of texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.text.traits import FULL_CHARS, TextTrait, read_traits


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("The ferry leaves", TextTrait.NOTHING),
        ("It leaves at 6", TextTrait.NUMBER),
        ("I saw both", TextTrait.NUMBER),
        ("We met last Friday", TextTrait.TIME | TextTrait.NAME),
        ("back in 2019", TextTrait.TIME | TextTrait.NUMBER),
        ("a song by Ed Sheeran", TextTrait.NAME),
        ("Hey Ada, sit down", TextTrait.NOTHING),
        ('I read "Little Women"', TextTrait.QUOTE | TextTrait.NAME),
        ("Is it? Yes.", TextTrait.ASKS),
        ("Is it?", TextTrait.ASKS | TextTrait.ENDS_ASKING),
        ("是吗？", TextTrait.ASKS | TextTrait.ENDS_ASKING),
        ("We moved house", TextTrait.CHANGE),
        ("昨天买了两本书", TextTrait.TIME | TextTrait.NUMBER),
        ("号码改成了新的", TextTrait.CHANGE),
        ("it always rains", TextTrait.NOTHING),
        ("I never heard of it", TextTrait.NOTHING),
        ("if you go, take a coat", TextTrait.NOTHING),
        ("thanks for the answer", TextTrait.NOTHING),
        ("it would be nice", TextTrait.NOTHING),
        ("I found it best to wait", TextTrait.NOTHING),
        ("Don't worry", TextTrait.NOTHING),
        ("", TextTrait.NOTHING),
    ],
)
def test_traits_are_read_from_words_and_shapes(text: str, traits: TextTrait) -> None:
    assert read_traits(text).traits == traits


def test_a_text_about_oneself_and_times_scores_higher_than_a_reply() -> None:
    tells = read_traits("I went to Lisbon with my sister in 2019 and we loved it")
    replies = read_traits("Wow, that sounds great! How was your trip?")
    assert tells.factuality > 0 > replies.factuality


def test_a_long_text_counts_in_proportion() -> None:
    text = "I met my friend yesterday. " * 100
    assert read_traits(text).factuality == pytest.approx(
        read_traits(text[:FULL_CHARS]).factuality * FULL_CHARS / len(text), abs=0.01
    )


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert -0.3 <= read_traits(text).factuality <= 0.7
