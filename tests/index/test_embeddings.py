"""Vectors with two bytes per number: exact, equal with either library, and kept while a text is unchanged."""

import numpy as np
import pytest
from tests.index.corpora import ANALYSER, reloaded

from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, EmbeddedDocument, IndexQuery, SearchUnit
from elytron_index.space_index import SpaceIndex
from elytron_index.structures import embeddings
from elytron_index.structures.embeddings import (
    ROUGH_STEP,
    ModelVectors,
    code_vector,
    dot_products,
    dots_type,
    plain_dots,
    plain_scan,
    scan_rows,
)


def rows(count: int, dimensions: int = 48, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [1, 384, 3_000])
def test_both_kernels_return_the_same_integers(dimensions: int) -> None:
    dice = np.random.default_rng(5)
    queries, codes = (dice.integers(-128, 128, (count, dimensions)).astype(np.int8) for count in (2, 5_000))
    exact = queries.astype(np.int64) @ codes.T.astype(np.int64)
    assert np.array_equal(plain_dots(queries, codes), exact)
    assert np.array_equal(dot_products(queries, codes), exact)
    assert dot_products(queries, codes[:0]).shape == (2, 0)
    for one in (scan_rows, plain_scan):
        found = np.zeros(len(codes), dots_type(dimensions))
        one(queries[0], codes, found)
        one(queries[0], codes[:0], found[:0])
        assert np.array_equal(found, exact[0])


def test_without_the_library_numpy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numkong", None)
    embeddings._best_kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert embeddings._best_kernel() is plain_dots  # pyright: ignore[reportPrivateUsage]
    embeddings._best_kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]
    embeddings._best_scan.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert embeddings._best_scan() is plain_scan  # pyright: ignore[reportPrivateUsage]
    embeddings._best_scan.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_cosines_are_exact_and_coarse_ones_close() -> None:
    kept = ModelVectors(48)
    matrix = rows(100)
    for row, vector in enumerate(matrix, 1):
        kept.put(row, code_vector(vector))
    query = rows(1, seed=2)[0]
    exact = matrix @ query
    assert kept.exact(code_vector(query), np.arange(1, 101)) == pytest.approx(exact, abs=2e-5)
    whole, scaled = kept.scan(code_vector(query), 101)
    factor = code_vector(query).peak * ROUGH_STEP
    assert scaled[1:] * factor == pytest.approx(exact, abs=1e-2)
    assert whole * kept.scaled(np.arange(101), factor) == pytest.approx(scaled * factor, rel=1e-6)
    assert kept.scaled(np.array([1, 500]), 1.0).tolist() == [code_vector(matrix[0]).peak, 0.0]
    assert kept.exact(code_vector(query), np.array([0, 500])).tolist() == [0.0, 0.0]
    assert kept.get(0) is None
    assert kept.get(10_000) is None


def test_vectors_in_many_blocks_are_found_replaced_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_BLOCK", 64)
    kept = ModelVectors(48)
    matrix = rows(300)
    for row, vector in enumerate(matrix):
        kept.put(row, code_vector(vector))
    query = code_vector(matrix[7])
    wanted = np.array([299, 7, 64])
    assert kept.exact(query, wanted) == pytest.approx(matrix[wanted] @ matrix[7], abs=2e-5)
    numbers = np.arange(300, dtype=np.int32)[::-1].copy()
    turned = kept.renumbered(numbers)
    assert turned.exact(query, np.array([292]))[0] == pytest.approx(1.0, abs=1e-4)
    turned.put(300, query)
    turned.put(420, query)
    assert turned.exact(query, np.array([292, 300, 420])) == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)
    kept.remove(7)
    kept.remove(7)
    assert (kept.count, kept.get(7)) == (299, None)
    assert sum(len(coarse) for coarse, _ in kept.parts(300)) == 300


def test_loaded_bytes_are_copied_only_where_they_change() -> None:
    matrix = rows(3)
    first = ModelVectors(48)
    for row, vector in enumerate(matrix):
        first.put(row, code_vector(vector))
    coarse, fine = (np.concatenate(part) for part in zip(*first.parts(3), strict=True))
    for part in (coarse, fine):
        part.flags.writeable = False
    kept = ModelVectors(48)
    kept.load(coarse, fine, first.peaks[:3].copy())
    kept.put(1, code_vector(matrix[2]))
    kept.put(3, code_vector(matrix[0]))
    assert kept.exact(code_vector(matrix[2]), np.array([1, 2, 3]))[:2] == pytest.approx([1.0, 1.0], abs=1e-4)
    assert not coarse.flags.writeable


def unit(ref: DocumentRef, text: str, check: int, part: int = 0) -> SearchUnit:
    return SearchUnit(ref, part, "transcript", text, check=check)


def test_a_unit_keeps_its_vector_until_its_text_changes() -> None:
    index = SpaceIndex(ANALYSER)
    ref, data = DocumentRef("turns", "aa"), rows(1)[0].astype("<f4").tobytes()
    index.apply([DocumentChange(ref, (unit(ref, "tea", 7), unit(ref, "cup", 8, 1)))], watermark=1)
    assert (index.unembedded("m"), index.unembedded_refs("m", limit=5)) == (2, (ref,))
    index.apply([], embedded=[EmbeddedDocument(ref, "m", {7: data, 9: data})], watermark=2)
    assert (index.unembedded("m"), index.models(), index.dimensions_of("m")) == (1, {"m": 1}, 48)
    index.apply([DocumentChange(ref, (unit(ref, "tea", 7),))], watermark=3)
    assert index.unembedded("m") == 0
    index.compare("m", is_english=True)
    again = reloaded(index)
    assert (again.unembedded("m"), again.compared, again.is_english) == (0, "m", True)
    found = again.search(IndexQuery("", limit=1, vector=("m", data))).candidates
    assert found[0].signals.vector == pytest.approx(1.0, abs=1e-4)
    index.apply([DocumentChange(ref, (unit(ref, "milk", 5),))], watermark=4)
    assert (index.unembedded("m"), index.models(), index.dimensions_of("m")) == (1, {}, None)
    assert index.unembedded_refs("m", limit=5, skip={ref}) == ()


def test_erased_vectors_are_removed() -> None:
    index = SpaceIndex(ANALYSER)
    ref, data = DocumentRef("turns", "aa"), rows(1)[0].astype("<f4").tobytes()
    index.apply(
        [DocumentChange(ref, (unit(ref, "tea", 7),))], embedded=[EmbeddedDocument(ref, "m", {7: data})], watermark=1
    )
    index.apply([], embedded=[EmbeddedDocument(ref, "m", {})], watermark=2)
    assert index.models() == {}


def test_among_few_units_words_count_less_with_an_encoder() -> None:
    index, data = SpaceIndex(ANALYSER), rows(1)[0].astype("<f4").tobytes()
    refs = [DocumentRef("turns", f"{place:02x}") for place in range(4)]
    index.apply(
        [
            DocumentChange(ref, (unit(ref, text, 7),))
            for ref, text in zip(refs, ("tea", "cup", "pot", "jar"), strict=True)
        ],
        embedded=[EmbeddedDocument(ref, "m", {7: data}) for ref in refs],
        watermark=1,
    )
    index.compare("m", is_english=True)
    # Equally similar by a table and an encoder that both count nothing: only words distinguish the units.
    weights = SignalWeights(vector=0.0, text_vectors=0.0, told=0.0, informative=0.0, near=0.0, answer=0.0, session=0.0)
    leads: list[float] = []
    for vector in (("m", data), None, ("other", data)):
        first, second = index.search(IndexQuery("tea", limit=2, vector=vector, weights=weights)).candidates
        leads.append(first.score - second.score)
    assert 0.0 < leads[0] < leads[1] == leads[2]


def test_the_maximum_score_is_that_of_a_unit_best_in_everything() -> None:
    index, data = SpaceIndex(ANALYSER), rows(1)[0].astype("<f4").tobytes()
    (tea, cup) = (DocumentRef("turns", name) for name in ("00", "01"))
    changes = [
        DocumentChange(tea, (unit(tea, "The tea is ready.", 7),)),
        DocumentChange(cup, (unit(cup, "A cup broke.", 8),)),
    ]
    index.apply(changes, embedded=[EmbeddedDocument(tea, "m", {7: data})], watermark=1)
    index.compare("m", is_english=True)
    plain, likened = (index.search(IndexQuery("tea", limit=2, vector=vector)) for vector in (None, ("m", data)))
    assert all(0.0 < found.candidates[0].score <= found.most for found in (plain, likened))
    index.apply(
        [
            DocumentChange(ref, (SearchUnit(ref, 0, "transcript", "The tea", at=at),))
            for at, ref in ((1, tea), (2, cup))
        ],
        watermark=2,
    )
    one, other = (
        index.search(IndexQuery("tea", limit=2, weights=SignalWeights(later=later, few=0.0))) for later in (0.0, 0.6)
    )
    assert other.most == pytest.approx(one.most + 0.6)
