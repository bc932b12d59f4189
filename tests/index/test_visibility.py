"""Caches between searches never outlive the units that they were computed from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.index.corpora import ANALYSER, FILTERS, HISTORIES, MOMENTS, QUERIES, built, fresh, living, reloaded

from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, EmbeddedDocument, FoundCandidates, IndexQuery, SearchUnit, UnitFilters
from elytron_index.search import bm25, nearness
from elytron_index.space_index import SpaceIndex
from elytron_index.structures import index_state, visibility

DAY_MS = 86_400_000
ASKED = IndexQuery("tea", limit=9)


def keys(found: FoundCandidates) -> list[str]:
    return [each.unit.ref.key for each in found.candidates]


def turn(place: int, text: str = "tea", *, closed_at: int = 0, at: int = 0, vector: float = 0.0) -> DocumentChange:
    ref = DocumentRef("turn", f"{place:02x}")
    held = ("m", np.array((1.0, vector), "<f4").tobytes()) if vector else None
    unit = SearchUnit(
        ref, 0, "transcript", text, thread="aa", order=place, at=at, closed_at=closed_at, check=1, vector=held
    )  # fmt: skip
    return DocumentChange(ref, (unit,))


@settings(max_examples=12)
@given(history=HISTORIES, queries=st.lists(QUERIES, min_size=1, max_size=2), data=st.data())
def test_earlier_queries_never_affect_later_answers(
    history: list[list[DocumentChange]], queries: list[IndexQuery], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visibility, "_SIGHTS_KEPT", data.draw(st.sampled_from([1, 12]), label="sights"))
        patch.setattr(visibility, "_ROWS_KEPT", data.draw(st.sampled_from([0, 1 << 15]), label="rows"))
        patch.setattr(index_state, "_COMPACT_DEAD", data.draw(st.sampled_from([0, 1_000]), label="dead"))
        patch.setattr(nearness, "LARGE", data.draw(st.sampled_from([0, 1 << 14]), label="large"))
        patch.setattr(nearness, "WHOLE", data.draw(st.sampled_from([0, 1 << 11]), label="whole"))
        patch.setattr(bm25, "_TABLE", data.draw(st.sampled_from([0, 60, 1 << 18]), label="table"))
        asked = SpaceIndex(ANALYSER)
        for sequence, batch in enumerate(history, 1):
            asked.apply(batch, watermark=sequence)
            if data.draw(st.booleans(), label="reload"):
                asked = reloaded(asked)
            unasked = fresh(living(history[:sequence]))
            for query in (*queries, queries[0]):
                assert asked.search(query) == unasked.search(query)


@settings(max_examples=12)
@given(history=HISTORIES, query=QUERIES, data=st.data())
def test_a_query_with_other_filters_or_weights_is_recomputed(
    history: list[list[DocumentChange]], query: IndexQuery, data: st.DataObject
) -> None:
    units = living(history)
    asked = fresh(units)

    for _ in range(3):
        weights = replace(
            SignalWeights(), kin=data.draw(st.sampled_from([0.0, 0.5])), title=data.draw(st.sampled_from([0, 1]))
        )
        vector = query.vector if data.draw(st.booleans()) else None
        again = replace(query, filters=data.draw(FILTERS), weights=weights, vector=vector)
        assert asked.search(again) == fresh(units).search(again)


@settings(max_examples=12)
@given(history=HISTORIES, query=QUERIES, moments=st.lists(MOMENTS | st.integers(5, 35), min_size=2, max_size=6))
def test_a_point_in_time_is_answered_independently_of_earlier_queries(
    history: list[list[DocumentChange]], query: IndexQuery, moments: list[int]
) -> None:
    units = living(history)
    asked = fresh(units)

    for moment in moments:
        query = replace(query, filters=replace(query.filters, as_of=moment))
        assert asked.search(query) == fresh(units).search(query)


def test_a_new_neighbour_contributes_immediately() -> None:
    index = built([[turn(1, "yes")]])
    for _ in range(3):
        assert [each.signals.near for each in index.search(ASKED).candidates] == [0.0]

    index.apply([turn(0)], watermark=2)

    assert {each.unit.ref.key: each.signals.near > 0 for each in index.search(ASKED).candidates} == {
        "00": False,
        "01": True,
    }


@pytest.mark.parametrize(
    "gone", [turn(0, closed_at=5), DocumentChange(DocumentRef("turn", "00"))], ids=["closed", "erased"]
)
def test_closed_or_erased_units_contribute_nothing_afterwards(gone: DocumentChange) -> None:
    index = built([[turn(0), turn(1, "yes"), turn(2, "tea", at=20 * DAY_MS)]])
    for _ in range(3):
        assert set(keys(index.search(ASKED))) == {"00", "01", "02"}

    index.apply([gone], watermark=2)

    found = index.search(ASKED)
    assert {each.unit.ref.key: each.signals.near > 0 for each in found.candidates} == {"01": True, "02": False}
    assert found.searched == 2


def test_vectors_that_come_later_are_compared() -> None:
    index = built([[turn(0, vector=0.5), turn(1)]])
    near = np.array((1.0, 2.0), "<f4").tobytes()
    query = replace(ASKED, vector=("m", near))
    for _ in range(3):
        assert len({each.signals.vector for each in index.search(query).candidates}) == 1

    index.apply([], embedded=[EmbeddedDocument(DocumentRef("turn", "01"), "m", {1: near})], watermark=2)

    cosines = {each.unit.ref.key: each.signals.vector for each in index.search(query).candidates}
    assert cosines == pytest.approx({"00": 0.8, "01": 1.0}, abs=1e-4)


def test_a_joining_assistant_is_distinguished_from_the_owner() -> None:
    index = built([[turn(0)]])
    assert index.search(ASKED).candidates[0].signals.owner == 0
    ref = DocumentRef("turn", "01")

    index.apply([DocumentChange(ref, (SearchUnit(ref, 0, "transcript", "tea", role="assistant"),))], watermark=2)

    assert {each.unit.ref.key: each.signals.owner for each in index.search(ASKED).candidates} == {"00": 1.0, "01": 0.0}


def test_cached_visibility_is_included_in_the_size_in_advance() -> None:
    index = built([[turn(place) for place in range(500)]])
    expected = index.size_bytes
    one = UnitFilters(planes=("transcript",), as_of=5)
    for _ in range(20):
        index.search(replace(ASKED, filters=one))

    sight = index._state.sights.of(one)  # pyright: ignore[reportPrivateUsage]
    around = sight._all  # pyright: ignore[reportPrivateUsage]
    assert around is not None
    kept = (sight.mask, around.numbers, around.telling)
    assert index.size_bytes == expected
    assert sum(array.nbytes for array in kept) <= index._state.sights.size_bytes  # pyright: ignore[reportPrivateUsage]
