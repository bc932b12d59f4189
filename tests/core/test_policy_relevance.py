"""When something answers a query, and when nothing relevant is stored."""

import pytest

from elytron_core.policy.relevance import Answer, Nearest, answer_of, is_said_by_others

NONE = Nearest(
    share=0.0, matched=0.0, terms=4, names=0, is_named=False, is_of_time=False, cosine=0.0, lowest=0.0, searched=500
)


@pytest.mark.parametrize(
    ("nearest", "answers"),
    [
        (NONE, False),
        (NONE._replace(share=0.3, matched=1.0), False),
        (NONE._replace(share=0.4, matched=1.0), True),
        (NONE._replace(share=0.2, matched=3.0), True),
        (NONE._replace(share=0.3, matched=1.0, is_named=True), True),
        (NONE._replace(share=0.3, matched=1.0, is_paired=True), True),
        (NONE._replace(share=0.3, matched=1.0, wants_guess=True), True),
        (NONE._replace(share=0.4, matched=1.0, unheard=1), False),
        (NONE._replace(share=0.5, matched=1.0, unheard=1), True),
        (NONE._replace(share=0.34, matched=1.0, unheard=1, terms=30), False),
        (NONE._replace(share=0.4, matched=1.0, unheard=1, terms=30), True),
        (NONE._replace(share=0.3, matched=1.0, unheard=3, wants_guess=True), True),
        (NONE._replace(terms=2, names=2, is_named=True), True),
        (NONE._replace(matched=1.0, is_of_time=True), True),
        (NONE._replace(is_of_time=True), False),
        (NONE._replace(share=0.15, is_retold=True), True),
        (NONE._replace(share=0.1, is_retold=True), False),
        (NONE._replace(share=0.3, unheard=2, wants_several=True), True),
        (NONE._replace(share=0.2, unheard=2, wants_several=True), False),
        (NONE._replace(gist=0.5, unheard=2), True),
        (NONE._replace(gist=0.45), False),
        (NONE._replace(gist=0.5, searched=5), True),
        (NONE._replace(terms=3, matched=1.0, searched=5), True),
        (NONE._replace(terms=3, matched=1.0), False),
        (NONE._replace(terms=0, searched=5), False),
    ],
)
def test_words_names_and_times_speak_for_what_is_nearest(nearest: Nearest, *, answers: bool) -> None:
    assert answer_of(nearest) is (Answer.FULL if answers else Answer.NONE)


@pytest.mark.parametrize(
    ("nearest", "answers"),
    [
        (NONE._replace(cosine=0.64, lowest=0.0), True),
        (NONE._replace(cosine=0.64, lowest=0.0, unheard=1), False),
        (NONE._replace(cosine=0.3, lowest=0.0), False),
        (NONE._replace(share=0.5, cosine=0.4, lowest=0.0), True),
        (NONE._replace(cosine=0.7, lowest=0.5), False),
        (NONE._replace(cosine=0.82, lowest=0.5), True),
        (NONE._replace(cosine=0.7, lowest=0.5, searched=5), True),
        (NONE._replace(share=0.9, cosine=0.1, lowest=0.0), True),
        (NONE._replace(cosine=1.0, lowest=1.0), True),
    ],
)
def test_with_vectors_the_way_from_the_least_like_counts_whatever_the_model(nearest: Nearest, *, answers: bool) -> None:
    assert answer_of(nearest) is (Answer.FULL if answers else Answer.NONE)


def test_what_is_to_hold_answers_where_nothing_tells_of_the_matter() -> None:
    heeded = NONE._replace(is_heeded=True)
    assert answer_of(heeded) is Answer.HEEDED
    assert answer_of(heeded._replace(share=0.9)) is Answer.FULL


def test_others_said_it_where_theirs_holds_clearly_more() -> None:
    assert is_said_by_others(0.3, 0.5)
    assert not is_said_by_others(0.5, 0.5)
    assert not is_said_by_others(0.0, 0.0)
