"""Terms keep their numbers, whether from a checkpoint or added later."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_index.lexicon.terms import TERM_BYTES, TermVocabulary, pack_terms

TERMS = st.lists(st.text(max_size=6), unique=True, max_size=12)
OTHERS = tuple(f"longer {number}" for number in range(100))


@given(TERMS, TERMS)
def test_stored_and_new_terms_are_found_by_number(first: list[str], more: list[str]) -> None:
    vocabulary = TermVocabulary(pack_terms(first))
    numbers = {term: number for number, term in enumerate(dict.fromkeys((*first, *more)))}
    assert {term: vocabulary.number_of(term) for term in (*more, *first)} == numbers
    assert {term: vocabulary.get(term) for term in numbers} == numbers
    held = [*first, *(term for term in more if term in first)]
    assert TermVocabulary(pack_terms(first)).among((*first, *more)) == held
    assert TermVocabulary(pack_terms(first)).among((*first, *more, *OTHERS)) == held
    assert vocabulary.terms() == vocabulary.to_stored().terms() == list(numbers)
    assert len(vocabulary) == len(numbers)


@given(TERMS, st.text(max_size=6))
def test_an_unseen_term_has_no_number(terms: list[str], other: str) -> None:
    for vocabulary in (TermVocabulary(), TermVocabulary(pack_terms(terms))):
        assert (other in vocabulary) == (len(vocabulary) > 0 and other in terms)
        assert vocabulary.get("a term longer than any of these") is None
        assert vocabulary.among([other, "a term longer than any of these"]) == [other] * (other in vocabulary)


def test_terms_with_equal_checksums_are_distinguished() -> None:
    alike = ["plumless", "buckeroo"]
    assert crc32(alike[0].encode()) == crc32(alike[1].encode())
    vocabulary = TermVocabulary(pack_terms([*alike, "tea"]))
    assert [vocabulary.get(term) for term in (*alike, "tea", "milk")] == [0, 1, 2, None]
    assert TermVocabulary(pack_terms(alike[:1])).among(alike) == alike[:1]
    assert TermVocabulary(pack_terms(alike[:1])).among((*alike, *OTHERS)) == alike[:1]


def test_a_lone_surrogate_is_a_term_like_others() -> None:
    kept = pack_terms(["tea", "\ud800", "\udfff"])
    assert TermVocabulary(kept).get("\udfff") == 2
    assert kept.terms() == ["tea", "\ud800", "\udfff"]


def test_a_missed_term_is_found_once_it_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_index.lexicon.terms._MISSED_MOST", 2)
    kept = TermVocabulary(pack_terms(["tea"]))
    for _ in range(2):
        assert [kept.get(term, -1) for term in ("milk", "honey", "sugar", "tea")] == [-1, -1, -1, 0]
    assert kept.number_of("honey") == 1
    assert ("honey" in kept, "milk" in kept) == (True, False)


def test_a_frozen_view_sees_no_later_terms() -> None:
    vocabulary = TermVocabulary(pack_terms(["tea"]))
    vocabulary.number_of("milk")
    frozen = vocabulary.frozen()
    vocabulary.number_of("honey")
    assert frozen.terms() == ["tea", "milk"]
    assert vocabulary.terms() == ["tea", "milk", "honey"]


def test_stored_terms_use_no_room_in_the_dictionary() -> None:
    kept = pack_terms([f"term{number}" for number in range(100)])
    vocabulary = TermVocabulary(kept)
    assert vocabulary.size_bytes == kept.size_bytes < 100 * TERM_BYTES / 3
    vocabulary.get("term7")
    assert vocabulary.size_bytes == kept.size_bytes + TERM_BYTES
