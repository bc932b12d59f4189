"""Traits of texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.text.features import FULL_CHARS, Trait, read


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("The ferry leaves", Trait.NOTHING),
        ("It leaves at 6", Trait.NUMBER),
        ("I saw both", Trait.NUMBER),
        ("We met last Friday", Trait.TIME | Trait.NAME),
        ("back in 2019", Trait.TIME | Trait.NUMBER),
        ("a song by Ed Sheeran", Trait.NAME),
        ("Hey Ada, sit down", Trait.NOTHING),
        ('I read "Little Women"', Trait.QUOTE | Trait.NAME),
        ("Is it? Yes.", Trait.ASKS),
        ("Is it?", Trait.ASKS | Trait.ENDS_ASKING),
        ("是吗？", Trait.ASKS | Trait.ENDS_ASKING),
        ("We moved house", Trait.CHANGE),
        ("昨天买了两本书", Trait.TIME | Trait.NUMBER),
        ("号码改成了新的", Trait.CHANGE),
        ("it always rains", Trait.NOTHING),
        ("I never heard of it", Trait.NOTHING),
        ("if you go, take a coat", Trait.NOTHING),
        ("thanks for the answer", Trait.NOTHING),
        ("it would be nice", Trait.NOTHING),
        ("I found it best to wait", Trait.NOTHING),
        ("Don't worry", Trait.NOTHING),
        ("", Trait.NOTHING),
    ],
)
def test_traits_are_read_from_words_and_shapes(text: str, traits: Trait) -> None:
    assert read(text).traits == traits


def test_a_text_about_oneself_and_times_states_more_than_a_reply() -> None:
    tells = read("I went to Lisbon with my sister in 2019 and we loved it")
    replies = read("Wow, that sounds great! How was your trip?")
    assert tells.told > 0 > replies.told


def test_a_long_text_counts_in_proportion() -> None:
    text = "I met my friend yesterday. " * 100
    assert read(text).told == pytest.approx(read(text[:FULL_CHARS]).told * FULL_CHARS / len(text), abs=0.01)


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert -0.3 <= read(text).told <= 0.7
