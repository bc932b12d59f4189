"""What a text is about as a whole."""

from collections.abc import Mapping

import numpy as np
import pytest
from tests.index.test_aims import by_text, unit
from tests.index.test_search import ANALYSER, fresh

from elytron_index import IndexQuery, gist, kin
from elytron_index.space import SpaceIndex


def likeness(words: tuple[str, ...], *texts: Mapping[str, int]) -> list[float]:
    found = np.zeros(len(texts))
    gist.weigh(words, [1.0] * len(words), np.array(gist.of(texts), gist.DTYPE), found)
    return found.tolist()


DOGS = {"pet": 1, "leash": 2, "bark": 1, "veterinari": 1}
DOG = "The dog ran off its red leash."
BANK = "The bank sent its red letter."
RED_PUPPY = IndexQuery(text="red puppy", limit=9)
MONEY = {"bank": 2, "loan": 1, "interest": 1, "invoic": 1}


def test_a_text_about_the_matter_is_more_like_it_without_sharing_a_word() -> None:
    dogs, money = likeness(("puppi", "dog"), DOGS, MONEY)
    assert dogs > 0.4
    assert money < 0.2


def test_a_gist_is_the_same_whatever_it_is_made_with_and_in_which_order() -> None:
    backwards = dict(reversed(DOGS.items()))
    assert gist.of([DOGS, MONEY, {}]) == gist.of([DOGS]) + gist.of([MONEY]) + [bytes(gist.NUMBERS)]
    assert gist.of([backwards]) == gist.of([DOGS])


def test_what_the_table_does_not_know_of_a_query_takes_from_its_likeness() -> None:
    whole = likeness(("dog",), DOGS)
    assert likeness(("dog", "zyxxyq"), DOGS) == pytest.approx([whole[0] / 2])
    assert likeness(("zyxxyq",), DOGS) == likeness((), DOGS) == [0.0]


def test_a_text_without_a_word_of_the_table_is_like_nothing() -> None:
    assert likeness(("dog",), {}, {"zyxxyq": 3}) == [0.0, 0.0]


def test_every_stem_of_the_table_has_its_sense() -> None:
    assert kin.senses().shape == (len(kin.places()), gist.NUMBERS)
    pet, tortoise = (kin.senses()[kin.places()[stem]].astype(float) for stem in ("reptil", "tortois"))
    assert pet @ tortoise > 0


def test_beside_an_assistant_what_is_about_the_matter_goes_before_what_holds_as_many_words_of_it() -> None:
    units = [unit(1, BANK, thread="a"), unit(2, DOG, thread="b")]
    assert {found.signals.gist for found in by_text(units, RED_PUPPY).values()} == {0.0}
    dog, bank, *_ = by_text([*units, unit(3, "Noted: red.", thread="c", role="assistant")], RED_PUPPY).values()
    assert dog.unit.order == 2
    assert dog.signals.gist > bank.signals.gist


def test_gists_come_back_from_a_checkpoint() -> None:
    index = fresh([unit(1, DOG), unit(2, BANK), unit(3, "Noted: red.", role="assistant")])
    kept = SpaceIndex.from_bytes(index.to_bytes(), ANALYSER)
    assert kept is not None
    assert kept.search(RED_PUPPY) == index.search(RED_PUPPY)
