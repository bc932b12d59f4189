"""Vector tables: the order is that of exact cosines, for any rows and filters."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elytron_agent.rag.rows import EmbeddingRow, StoredVector
from elytron_agent.rag.vector_table import RowFilter, SkippedRows, VectorKind, VectorTable, exact_sums, merged_answers

SOURCES = ("message", "archival", "document")
TAGS = ("a", "b", "c")


def row(
    number: int, vector: NDArray[np.float16] | None, *, model: str = "m", tokens: int = 1, **more: object
) -> EmbeddingRow:
    vectors = () if vector is None else (StoredVector(model, len(vector), vector.astype("<f2").tobytes()),)
    fields = {"source_type": "archival", "conversation": "x", "tags": (), **more}
    return EmbeddingRow(f"t{number:04}", f"t{number:04}", token_count=tokens, size_bytes=1, vectors=vectors, **fields)  # pyright: ignore[reportArgumentType]


@st.composite
def row_sets(draw: st.DrawFn) -> tuple[VectorKind, list[EmbeddingRow], bytes, RowFilter, int]:
    dimension = draw(st.integers(1, 12))
    # Few distinct numbers, so that equal vectors and cosines occur.
    number = st.sampled_from((-1.0, -0.5, 0.0, 0.25, 0.5, 1.0)) | st.floats(-2, 2, width=16)
    vector = st.lists(number, min_size=dimension, max_size=dimension).filter(
        lambda found: any(abs(x) > 1e-3 for x in found)
    )
    rows: list[EmbeddingRow] = []
    for place in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from(("same", "same", "same", "other model", "other dimension", "none")))
        numbers = np.array(draw(vector), np.float16)
        if kind == "other dimension":
            numbers = np.append(numbers, np.float16(1))
        rows.append(
            row(
                place,
                None if kind == "none" else numbers,
                model="n" if kind == "other model" else "m",
                tokens=draw(st.integers(0, 3)),
                source_type=draw(st.sampled_from(SOURCES)),
                conversation=draw(st.sampled_from("xy")),
                tags=tuple(draw(st.sets(st.sampled_from(TAGS)))),
            )
        )
    query = np.array(draw(vector), "<f4").tobytes()
    wanted = RowFilter(
        frozenset(draw(st.sets(st.sampled_from(SOURCES), max_size=2))),
        draw(st.sampled_from((None, "x"))),
        frozenset(draw(st.sets(st.sampled_from(TAGS), max_size=2))),
    )
    return VectorKind("m", dimension), rows, query, wanted, draw(st.integers(1, 20))


def by_numpy(
    kind: VectorKind, rows: list[EmbeddingRow], query: bytes, wanted: RowFilter, limit: int
) -> list[tuple[str, float]]:
    """Return ids and cosines of the best rows, each computed in extended precision."""
    asked = np.frombuffer(query, "<f4").astype(np.longdouble)
    found: list[tuple[float, int, str]] = []
    for each in rows:
        for vector in each.vectors:
            if (vector.model, vector.dimension) == kind and passes(each, wanted):
                numbers = np.frombuffer(vector.halves, "<f2").astype(np.longdouble)
                cosine = np.dot(asked, numbers) / (np.sqrt(np.dot(asked, asked)) * np.sqrt(np.dot(numbers, numbers)))
                found.append((-round(float(cosine), 12), each.token_count, each.id))
    return [(name, -cosine) for cosine, _, name in sorted(found)[:limit]]


def passes(each: EmbeddingRow, wanted: RowFilter) -> bool:
    by_source = each.source_type in (wanted.source_types or SOURCES)
    by_tag = not wanted.tags or any(tag in wanted.tags for tag in each.tags)
    return by_source and by_tag and wanted.conversation in {None, each.conversation}


@given(row_sets())
def test_a_search_matches_numpy(drawn: tuple[VectorKind, list[EmbeddingRow], bytes, RowFilter, int]) -> None:
    kind, rows, query, wanted, limit = drawn
    answer = VectorTable.of(kind, rows).search(query, wanted, limit=limit)
    assert [(each.row.id, each.score) for each in answer.ranked] == by_numpy(kind, rows, query, wanted, limit)
    passing = [each for each in rows if passes(each, wanted)]
    assert answer.compared + sum(answer.skipped) == len(passing)
    assert answer.skipped == SkippedRows(
        other_models=sum(each.vectors[:1] != () and each.vectors[0].model == "n" for each in passing),
        other_dimensions=sum(bool(each.vectors) and each.vectors[0].dimension != kind.dimension for each in passing),
        unembedded=sum(not each.vectors for each in passing),
    )


@given(row_sets(), st.integers(1, 7))
def test_a_partitioned_search_equals_a_full_search(
    drawn: tuple[VectorKind, list[EmbeddingRow], bytes, RowFilter, int], size: int
) -> None:
    kind, rows, query, wanted, limit = drawn
    tables = [VectorTable.of(kind, rows[at : at + size]) for at in range(0, len(rows), size)]
    whole = VectorTable.of(kind, rows).search(query, wanted, limit=limit)
    assert merged_answers((table.search(query, wanted, limit=limit) for table in tables), limit=limit) == whole
    assert VectorTable.joined(tables, kind).search(query, wanted, limit=limit) == whole


@given(row_sets(), st.sets(st.integers(0, 39)))
def test_an_updated_table_equals_a_rebuilt_one(
    drawn: tuple[VectorKind, list[EmbeddingRow], bytes, RowFilter, int], changed: set[int]
) -> None:
    kind, rows, query, wanted, limit = drawn
    turns = {f"t{number:04}" for number in changed}
    fresh = [each._replace(tags=("a",), token_count=2) for each in rows if each.turn in turns][::2]
    updated = VectorTable.of(kind, rows).with_turns(turns, fresh)
    made = VectorTable.of(kind, [*(each for each in rows if each.turn not in turns), *fresh])
    assert updated.search(query, wanted, limit=limit) == made.search(query, wanted, limit=limit)


def test_the_order_is_exact_where_single_precision_is_not() -> None:
    generator = np.random.default_rng(7)
    base = generator.standard_normal(256).astype(np.float16)
    rows: list[EmbeddingRow] = []
    for number in range(2_000):
        vector = base.copy()
        vector[number % 256] = np.nextafter(vector[number % 256], np.float16(9))
        rows.append(row(number, vector, tokens=number % 5))
    query = generator.standard_normal(256).astype("<f4").tobytes()
    kind = VectorKind("m", 256)
    answer = VectorTable.of(kind, rows).search(query, RowFilter(), limit=20)
    assert [(each.row.id, each.score) for each in answer.ranked] == by_numpy(kind, rows, query, RowFilter(), 20)


def test_vectors_scaled_by_a_power_of_two_have_the_same_scores() -> None:
    dice = np.random.default_rng(7)
    vectors = dice.standard_normal((6, 64)).astype(np.float16)
    query = dice.standard_normal(64).astype("<f4").tobytes()
    kind = VectorKind("m", 64)

    def scores(factor: float) -> list[float]:
        table = VectorTable.of(kind, [row(at, vector * np.float16(factor)) for at, vector in enumerate(vectors)])
        return [each.score for each in table.search(query, RowFilter(), limit=6).ranked]

    assert scores(1) == scores(4_096)


@given(st.integers(0, 2**32 - 1), st.integers(1, 600), st.integers(0, 60), st.booleans())
def test_sums_of_rows_are_rounded_once(seed: int, count: int, spread: int, cancels: bool) -> None:
    dice = np.random.default_rng(seed)
    parts = dice.standard_normal((3, count)) * 2.0 ** dice.integers(-spread, spread + 1, (3, count))
    if cancels:
        parts = np.concatenate((parts, -parts[:, ::-1], parts[:, :1] * 2.0**-70), axis=1)
    parts[2] = 0.0
    assert exact_sums(parts) == [math.fsum(row) for row in parts.tolist()]
