"""When something answers a query, and when nothing relevant is stored."""

import pytest

from elytron_core.policy.relevance import Nearest, is_relevant

NONE = Nearest(
    share=0.0, matched=0.0, terms=4, names=0, is_named=False, is_of_time=False, cosine=0.0, lowest=0.0, searched=500
)


@pytest.mark.parametrize(
    ("nearest", "answers"),
    [
        (NONE, False),
        (NONE._replace(share=0.25, matched=1.0), False),
        (NONE._replace(share=0.3, matched=1.0), True),
        (NONE._replace(share=0.1, matched=3.0), True),
        (NONE._replace(share=0.2, matched=1.0, is_named=True), True),
        (NONE._replace(terms=2, names=2, is_named=True), True),
        (NONE._replace(matched=1.0, is_of_time=True), True),
        (NONE._replace(is_of_time=True), False),
        (NONE._replace(terms=3, matched=1.0, searched=5), True),
        (NONE._replace(terms=3, matched=1.0), False),
        (NONE._replace(terms=0, searched=5), False),
    ],
)
def test_words_names_and_times_speak_for_what_is_nearest(nearest: Nearest, *, answers: bool) -> None:
    assert is_relevant(nearest) is answers


@pytest.mark.parametrize(
    ("nearest", "answers"),
    [
        (NONE._replace(cosine=0.6, lowest=0.0), True),
        (NONE._replace(cosine=0.3, lowest=0.0), False),
        (NONE._replace(share=0.5, cosine=0.3, lowest=0.0), True),
        (NONE._replace(cosine=0.7, lowest=0.5), False),
        (NONE._replace(cosine=0.8, lowest=0.5), True),
        (NONE._replace(cosine=0.7, lowest=0.5, searched=5), True),
        (NONE._replace(share=0.9, cosine=0.1, lowest=0.0), True),
        (NONE._replace(cosine=1.0, lowest=1.0), True),
    ],
)
def test_with_vectors_the_way_from_the_least_like_counts_whatever_the_model(nearest: Nearest, *, answers: bool) -> None:
    assert is_relevant(nearest) is answers
