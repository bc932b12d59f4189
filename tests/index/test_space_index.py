"""What a space's index reports about its units, and what it rejects."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from tests.index import oracle
from tests.index.corpora import ANALYSER, HISTORIES, built, living, reloaded

from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, IndexQuery, SearchUnit, UnitView
from elytron_index.space_index import SpaceIndex
from elytron_index.structures import index_state, postings

REF = DocumentRef("turn", "aa")


def unit(
    text: str = "tea", *, ref: DocumentRef = REF, part: int = 0, vector: tuple[str, bytes] | None = None
) -> SearchUnit:
    return SearchUnit(ref, part, "transcript", text, vector=vector)


def floats(*numbers: float) -> tuple[str, bytes]:
    return "small", np.array(numbers, "<f4").tobytes()


@given(history=HISTORIES)
def test_neighbours_are_those_of_the_thread_in_order(history: list[list[DocumentChange]]) -> None:
    index, units = built(history), living(history)
    keys = [(each.ref, each.part) for each in units]

    for each, (before, after, second_before, second_after) in zip(units, oracle.neighbourhood(units), strict=True):
        view = next(view for view in index.units_of(each.ref) if view.part == each.part)
        near = index.units_near(view, before=2, after=2)
        assert [(found.ref, found.part) for found in near] == [
            keys[place] for place in (second_before, before, after, second_after) if place is not None
        ]


def test_a_view_contains_everything_but_the_text() -> None:
    whole = SearchUnit(
        REF, 2, "facts", "tea?", title="drinks", speaker="Ada", role="user", thread="cc", order=7, at=1_000,
        scope=(("agent", "x"), ("project", "p")), tags=("red",), valid_from=1, valid_to=9, recorded_at=2, closed_at=8,
        trust=3,
    )  # fmt: skip
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit(), whole), sequence=12)], watermark=14)

    assert index.watermark == 14
    assert index.units_of(REF)[1] == UnitView(
        REF,
        2,
        "facts",
        "Ada",
        "user",
        "cc",
        7,
        1_000,
        (("agent", "x"), ("project", "p")),
        ("red",),
        1,
        9,
        2,
        8,
        3,
        4,
        12,
    )
    assert (index.units, index.documents, index.planes()) == (2, 1, {"facts": 1, "transcript": 1})


def test_statistics_of_all_units_follow_each_change() -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit()._replace(role="user"),))], watermark=1)
    assert index.planes() == {"transcript": 1}
    assert index.search(IndexQuery(text="tea", limit=5)).highs.owner == 0.0

    other = DocumentRef("turn", "bb")
    index.apply([DocumentChange(other, (unit(ref=other)._replace(plane="notes", role="assistant"),))], watermark=2)
    assert index.planes() == {"notes": 1, "transcript": 1}
    assert index.search(IndexQuery(text="tea", limit=5)).highs.owner == 1.0

    index.apply([DocumentChange(other, ())], watermark=3)
    assert index.planes() == {"transcript": 1}
    assert index.search(IndexQuery(text="tea", limit=5)).highs.owner == 0.0


def test_an_unknown_unit_has_no_neighbours_and_an_unknown_document_no_units() -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit(),))], watermark=1)
    (view,) = index.units_of(REF)
    index.apply([DocumentChange(REF)], watermark=2)

    assert index.units_near(view, before=1, after=1) == ()
    assert index.units_of(REF) == ()


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        (("small", b""), "float32"),
        (("small", b"abc"), "float32"),
        (("small", bytes(4 * 8_193)), "float32"),
        (floats(0, 0), "length 0"),
        (floats(1, float("nan")), "finite"),
        (floats(1, float("inf")), "finite"),
        (floats(1, 2, 3), "dimensions"),
    ],
)
def test_an_incomparable_vector_is_rejected_and_changes_nothing(vector: tuple[str, bytes], problem: str) -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit(vector=floats(1, 2)),))], watermark=1)
    other = DocumentRef("turn", "bb")

    with pytest.raises(InvalidInput, match=problem):
        index.apply([DocumentChange(REF), DocumentChange(other, (unit(ref=other, vector=vector),))], watermark=2)
    with pytest.raises(InvalidInput, match=problem):
        index.search(IndexQuery("", limit=1, vector=vector))
    assert (index.watermark, index.units) == (1, 1)


def test_the_first_vector_of_a_model_fixes_its_dimension_within_one_call_too() -> None:
    with pytest.raises(InvalidInput, match="dimensions"):
        SpaceIndex(ANALYSER).apply(
            [DocumentChange(REF, (unit(vector=floats(1, 2)), unit(part=1, vector=floats(1))))], watermark=1
        )


def test_a_unit_of_another_document_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a document other"):
        SpaceIndex(ANALYSER).apply([DocumentChange(DocumentRef("turn", "bb"), (unit(),))], watermark=1)


def test_more_units_than_an_index_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_state, "ROWS_MAX", 2)

    with pytest.raises(LimitExceeded):
        SpaceIndex(ANALYSER).apply([DocumentChange(REF, (unit(), unit(part=1)))], watermark=1)


def test_vectors_in_many_blocks_equal_exact_cosines() -> None:
    random = np.random.default_rng(7)
    matrix = random.standard_normal((2_000, 256)).astype("<f4")
    index = SpaceIndex(ANALYSER)
    refs = [DocumentRef("turn", f"{place:04x}") for place in range(len(matrix))]
    index.apply(
        [
            DocumentChange(ref, (unit("", ref=ref, vector=("small", row.tobytes())),))
            for ref, row in zip(refs, matrix, strict=True)
        ],
        watermark=1,
    )
    query = random.standard_normal(256).astype("<f4")
    exact = (matrix @ query) / np.linalg.norm(matrix, axis=1) / np.linalg.norm(query)
    best = np.argsort(-exact)[:10].tolist()
    again = reloaded(index)

    for each in (index, again):
        found = each.search(IndexQuery("", limit=10, vector=("small", query.tobytes()))).candidates
        assert [candidate.unit.ref for candidate in found] == [refs[place] for place in best]
        assert [candidate.signals.vector for candidate in found] == pytest.approx(exact[best].tolist(), abs=1e-5)


def test_a_query_of_another_model_compares_nothing() -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit(vector=floats(1, 2)),))], watermark=1)

    (found,) = index.search(IndexQuery("", limit=1, vector=("large", floats(1)[1]))).candidates
    assert (found.signals.vector, found.score) == (0.0, 0.0)


def test_hundreds_of_thousands_of_postings_merge_and_keep_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_index.structures.postings._FULL", 10_000)
    grown, at_once = SpaceIndex(ANALYSER), SpaceIndex(ANALYSER)
    changes: list[DocumentChange] = []
    for place in range(2_500):
        ref, words = DocumentRef("turn", f"{place:05x}"), " ".join(f"w{place * step % 997}" for step in range(20))
        changes.append(DocumentChange(ref, (unit(f"tea {words}", ref=ref),)))
    for start in range(0, len(changes), 250):
        grown.apply(changes[start : start + 250], watermark=start)
    grown.apply([DocumentChange(change.ref) for change in changes[::3]], watermark=9)
    at_once.apply([change for place, change in enumerate(changes) if place % 3], watermark=9)
    query = IndexQuery("tea w12 w500 w996", limit=50)

    assert grown.search(query) == at_once.search(query)
    assert grown.units == at_once.units


@pytest.mark.parametrize("learns", ["", "here", "elsewhere"])
def test_a_text_of_many_terms_is_indexed_like_any_other(learns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "tea " * 300 + "cup of green leaves"
    plain, index, other = (SpaceIndex(ANALYSER) for _ in range(3))
    plain.apply([DocumentChange(REF, (unit(text),))], watermark=1)
    other.apply([DocumentChange(REF, (unit("other words come first"),))], watermark=1)
    counts = Counter(ANALYSER.terms(text))
    learnt = (other if learns == "elsewhere" else index).learnt()
    for term in counts if learns else ():
        learnt.add([term])
    assert index.search(IndexQuery("tea", limit=9)).candidates == ()

    monkeypatch.setattr(postings, "_MANY", 0)
    index.apply(
        [DocumentChange(REF, (unit(text)._replace(counts=counts, learnt=learnt if learns else None),))], watermark=1
    )

    assert index.to_bytes() == plain.to_bytes()


def test_changes_during_a_background_compaction_are_included() -> None:
    index, plain = SpaceIndex(ANALYSER), SpaceIndex(ANALYSER)

    def both(changes: list[DocumentChange], *, watermark: int) -> None:
        for one in (index, plain):
            one.apply(changes, watermark=watermark)

    refs = [DocumentRef("turn", f"{number:02x}") for number in range(40)]
    both(
        [DocumentChange(ref, (unit(ref=ref, vector=floats(1, place)),)) for place, ref in enumerate(refs)], watermark=1
    )
    both([DocumentChange(ref) for ref in refs[:25]], watermark=2)
    begun = index.begin_compacting()
    assert begun is not None
    stored = index.freeze()
    assert not index.is_sparse
    both([DocumentChange(refs[30]), DocumentChange(refs[3], (unit(ref=refs[3], vector=floats(2, 1)),))], watermark=3)
    index.compare("small")
    index.finish_compacting(begun.compacted())
    both([DocumentChange(refs[31])], watermark=4)

    query = IndexQuery("tea", limit=50, vector=floats(1, 1))
    assert index.search(query) == plain.search(query)
    assert (index.units, index.documents, index.compared) == (plain.units, plain.documents, "small")
    then = SpaceIndex.from_bytes(b"".join(stored.pieces()), ANALYSER)
    assert then is not None
    assert (then.watermark, then.units) == (2, 15)


def test_an_index_is_compacted_once_at_a_time_and_never_reverts() -> None:
    index = SpaceIndex(ANALYSER)
    index.apply([DocumentChange(REF, (unit("tea"),))], watermark=1)
    begun = index.begin_compacting()
    assert begun is not None
    assert index.begin_compacting() is None
    compacted = begun.compacted()
    index.apply([DocumentChange(REF, (unit("milk"),))], watermark=2)
    index.finish_compacting(compacted)
    index.finish_compacting(compacted)
    assert "milk" in index._state.postings.vocabulary.terms()  # pyright: ignore[reportPrivateUsage]


def test_an_index_continues_after_a_failed_compaction() -> None:
    index = SpaceIndex(ANALYSER)
    index.begin_compacting()
    index.abandon_compacting()
    index.apply([DocumentChange(REF, (unit(),))], watermark=1)
    assert index.units == 1


def test_an_index_compacts_itself_when_little_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_index.structures.index_state._COMPACT_DEAD", 2)
    index = SpaceIndex(ANALYSER)
    refs = [DocumentRef("turn", f"{number:02x}") for number in range(20)]
    index.apply([DocumentChange(ref, (unit(ref=ref),)) for ref in refs], watermark=1)
    grown = index.size_bytes
    index.apply([DocumentChange(ref) for ref in refs[1:]], watermark=2)
    assert not index.is_sparse
    assert index.size_bytes < grown
    assert [each.unit.ref for each in index.search(IndexQuery("tea", limit=5)).candidates] == refs[:1]
