"""Purged content is nowhere in an index, and the rest answers as if it had never existed."""

from collections.abc import Sequence
from mmap import mmap
from weakref import ref

import numpy as np
import pytest
from benchmarks.rigs.live_words import live_bytes
from hypothesis import given
from hypothesis import strategies as st
from tests.index.corpora import ANALYSER, HISTORIES, fresh, living, reloaded

from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, EmbeddedDocument, IndexQuery, SearchUnit
from elytron_index.space_index import SpaceIndex

WORD = "zanzibar"
QUERY = IndexQuery("green tea with milk zanzibar", limit=50)


def unit(number: int, text: str, *, speaker: str = "Ada") -> DocumentChange:
    place = DocumentRef("turn", f"{number:02x}")
    said = SearchUnit(
        place, 0, "transcript", text, title=f"about {text}", speaker=speaker, thread="cc" if number % 4 else text,
        order=number, at=number + 1, scope=(("project", text),), tags=(text,), check=number + 1,
    )  # fmt: skip
    return DocumentChange(place, (said,), sequence=number + 1, called=(text, speaker))


def vectors(number: int, first: float) -> EmbeddedDocument:
    return EmbeddedDocument(
        DocumentRef("turn", f"{number:02x}"), "m", {number + 1: np.array((first, 1), "<f4").tobytes()}
    )


def told(*, stored: bool = False) -> SpaceIndex:
    """Return an index of twelve units, every third with the word; from its checkpoint if `stored`."""
    index = SpaceIndex(TextAnalyser())
    for number in range(12):
        text = f"{WORD} {number}" if number % 3 == 0 else f"green tea {number}"
        change = unit(number, text, speaker=WORD if number % 3 == 0 else "Ada")
        index.apply([change], embedded=[vectors(number, number)], watermark=number)
    if not stored:
        return index
    found = SpaceIndex.from_bytes(bytearray(index.to_bytes()), TextAnalyser())
    assert found is not None
    return found


def erase(index: SpaceIndex) -> None:
    index.search(QUERY)
    index.apply([DocumentChange(DocumentRef("turn", f"{number:02x}")) for number in range(0, 12, 3)], watermark=12)
    index.purge()


def words_of(index: SpaceIndex) -> list[bytes]:
    return [found for found in live_bytes(index) if WORD.encode() in found.lower()]


@pytest.mark.parametrize("stored", [False, True])
def test_a_purged_word_is_nowhere_in_the_index(*, stored: bool) -> None:
    index = told(stored=stored)
    assert words_of(index)
    erase(index)
    assert words_of(index) == []
    assert WORD.encode() not in index.to_bytes()
    assert index.speakers() == ("Ada",)


def test_a_loaded_checkpoint_is_released_with_its_words() -> None:
    data = told().to_bytes()
    buffer = mmap(-1, len(data))
    buffer.write(data)
    index, stays = SpaceIndex.from_bytes(buffer, TextAnalyser()), ref(buffer)
    del buffer
    assert index is not None
    index.search(QUERY)
    assert stays() is not None
    erase(index)
    assert stays() is None, "no part of the index reads it any more"
    assert index.search(QUERY) == without().search(QUERY)


def without() -> SpaceIndex:
    index = SpaceIndex(TextAnalyser())
    for number in range(12):
        if number % 3:
            index.apply([unit(number, f"green tea {number}")], embedded=[vectors(number, number)], watermark=number)
    return index


@pytest.mark.parametrize("stored", [False, True])
def test_a_purged_index_behaves_like_one_that_never_had_the_rest(*, stored: bool) -> None:
    index, expected = told(stored=stored), without()
    erase(index)
    for number in range(12, 20):
        for each in (index, expected):
            each.apply([unit(number, f"{WORD} milk {number}")], embedded=[vectors(number, 3)], watermark=number)
    for query in (QUERY, IndexQuery("", limit=50, vector=("m", np.array((4, 1), "<f4").tobytes()))):
        assert index.search(query) == expected.search(query)
    assert (index.planes(), index.models(), index.documents) == (
        expected.planes(), expected.models(), expected.documents,
    )  # fmt: skip
    again = SpaceIndex.from_bytes(index.to_bytes(), TextAnalyser())
    assert again is not None
    assert again.search(QUERY) == expected.search(QUERY)


def test_an_index_that_is_purged_while_it_is_compacted_has_no_word_afterwards() -> None:
    index = told()
    index.apply([unit(11, "green tea 11")], embedded=[vectors(11, 11)], watermark=12)
    begun = index.begin_compacting()
    assert begun is not None
    compacted = begun.compacted()
    erase(index)
    index.finish_compacting(compacted)
    del begun, compacted
    assert words_of(index) == []
    assert index.search(QUERY) == without().search(QUERY)


def test_a_view_frozen_before_a_purge_stays_complete() -> None:
    index = told()
    frozen = index.freeze()
    erase(index)
    stored = SpaceIndex.from_bytes(b"".join(frozen.pieces()), TextAnalyser())
    assert stored is not None
    assert stored.search(QUERY) == told().search(QUERY)


def test_terms_learned_before_a_purge_are_found_after_it() -> None:
    index = told()
    text = " ".join(f"rare{number}" for number in range(5_000))
    learnt = index.learnt()
    counts = dict.fromkeys(ANALYSER.terms(text), 1)
    learnt.add(counts)
    erase(index)
    place = DocumentRef("turn", "ff")
    index.apply(
        [DocumentChange(place, (SearchUnit(place, 0, "transcript", text, counts=counts, learnt=learnt),))], watermark=13
    )
    assert [found.unit.ref for found in index.search(IndexQuery("rare77 rare4999", limit=1)).candidates] == [place]


@given(history=HISTORIES, every=st.integers(1, 3))
def test_intermediate_purges_change_no_answer(history: list[list[DocumentChange]], every: int) -> None:
    index, units = SpaceIndex(ANALYSER), living(history)
    for place, changes in enumerate(history):
        index.apply(changes, watermark=place + 1)
        if place % every == 0:
            index.purge()
    expected = fresh(units)
    for text in ("", "green tea", "where does Ada live"):
        assert _found(index, text) == _found(expected, text)
        assert _found(reloaded(index), text) == _found(expected, text)
    assert index.units == expected.units


def _found(index: SpaceIndex, text: str) -> Sequence[object]:
    return [
        (one.unit.ref, one.unit.part, one.signals, one.score) for one in index.search(IndexQuery(text, 50)).candidates
    ]


def fact(number: int, *, corrects: int | None = None) -> DocumentChange:
    place = DocumentRef("facts", f"{number:02x}")
    origin = DocumentRef("facts", f"{corrects:02x}") if corrects is not None else None
    said = SearchUnit(place, 0, "facts", f"home {number}", at=5, recorded_at=5)
    return DocumentChange(place, (said,), sequence=number, origin=origin)


@pytest.mark.parametrize(
    ("gone", "places"), [(1, {3: 3, 5: 3, 7: 7}), (3, {1: 1, 5: 5, 7: 7}), (5, {1: 1, 3: 1, 7: 7})]
)
def test_a_correction_of_an_erased_document_gets_its_own_sequence(gone: int, places: dict[int, int]) -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([fact(1)], watermark=1)
    index.apply([fact(3, corrects=1)], watermark=3)
    index.apply([fact(5, corrects=3), fact(7)], watermark=7)
    every = [DocumentRef("facts", f"{number:02x}") for number in (1, 3, 5, 7)]
    assert [index.sequence_of(place) for place in every] == [1, 1, 1, 7]
    for each in (reloaded(index), index):
        each.apply([DocumentChange(DocumentRef("facts", f"{gone:02x}"))], watermark=8)
        assert {number: each.sequence_of(DocumentRef("facts", f"{number:02x}")) for number in places} == places
