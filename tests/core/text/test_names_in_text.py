"""Names in texts: separate words, in every script."""

import pytest

from elytron_core.text.analyser import holds_name, other_names

MEI = ("Mei", "小梅", "Mum")
BEN = ("Ben", "本本")


@pytest.mark.parametrize("text", ["What did Mei buy?", "Mei's bag", "Mei今天买了什么？", "问Mei吧", "(Mei)", "Mei"])
def test_a_name_is_matched_as_a_separate_word(text: str) -> None:
    assert holds_name(text, "Mei")


@pytest.mark.parametrize("text", ["Meier called", "mei", "OMei", "Mei2", ""])
def test_parts_of_words_and_other_capitalization_are_not_names(text: str) -> None:
    assert not holds_name(text, "Mei")


def test_a_later_occurrence_counts_if_the_first_is_inside_a_word() -> None:
    assert holds_name("Meier asked Mei", "Mei")


def test_a_script_without_spaces_has_names_anywhere_but_no_single_characters() -> None:
    assert holds_name("外婆说小梅放糖太少", "小梅")
    assert not holds_name("珍贵", "珍")


def test_other_names_of_everyone_named_are_listed_once() -> None:
    assert other_names("小梅和Ben去哪儿了？", (MEI, BEN)) == ("Mei", "Mum", "本本")
    assert other_names("Mei, Mum, 小梅", (MEI, BEN)) == ()
    assert other_names("Where is Tom?", (MEI, BEN)) == ()
