"""Tables of rows with their vectors, and exact cosine search over them.

A search first scores all rows in single precision. The candidates for the top ranks are then computed exactly, so the
order depends only on the vectors, and equal rows get equal scores.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from elytron_agent.rag.rows import EmbeddingRow

Matrix = NDArray[np.float32]
_DIGITS: Final = 12
"""Decimal digits of a score. Rows that differ by less count as equally near."""
_AT_ONCE: Final = 64
"""Number of rows whose cosines are computed in one step."""
_ROUNDING: Final = 2.0**-24
"""Maximum relative error of one operation in single precision."""


class VectorKind(NamedTuple):
    """The vectors that a search compares."""

    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions on rows; an empty filter matches all. A row needs at least one of the tags."""

    source_types: frozenset[str] = frozenset()
    conversation: str | None = None
    tags: frozenset[str] = frozenset()

    def passes(self, row: EmbeddingRow, /) -> bool:
        """Return whether a row meets all conditions."""
        return (
            (not self.source_types or row.source_type in self.source_types)
            and (self.conversation is None or row.conversation == self.conversation)
            and (not self.tags or not self.tags.isdisjoint(row.tags))
        )

    @property
    def is_open(self) -> bool:
        """Return whether every row matches."""
        return not self.source_types and self.conversation is None and not self.tags


class SkippedRows(NamedTuple):
    """Number of rows that were not compared, by reason."""

    other_models: int = 0
    other_dimensions: int = 0
    unembedded: int = 0

    def plus(self, other: "SkippedRows", /) -> "SkippedRows":
        return SkippedRows(*map(sum, zip(self, other, strict=True)))


class RankedRow(NamedTuple):
    """A row with its cosine."""

    score: float
    row: EmbeddingRow

    @property
    def place(self) -> tuple[float, int, str]:
        """Return a sort key that puts the best row first: by distance, then length, then id."""
        return -self.score, self.row.token_count, self.row.id


class TableAnswer(NamedTuple):
    """The best rows of a table, and the number of compared and skipped rows."""

    ranked: Sequence[RankedRow]
    compared: int
    skipped: SkippedRows


@dataclass(frozen=True)
class VectorTable:
    """Rows with a vector of one kind, a matrix of these vectors, and the other rows.

    The rows themselves are stored without their vectors.
    """

    kind: VectorKind
    rows: Sequence[EmbeddingRow] = ()
    matrix: Matrix = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    others: Sequence[EmbeddingRow] = ()

    @classmethod
    def of(cls, kind: VectorKind, embedding_rows: Iterable[EmbeddingRow], /) -> Self:
        """Build the table of these rows."""
        rows: list[EmbeddingRow] = []
        vector_halves: list[bytes] = []
        other_rows: list[EmbeddingRow] = []
        for row in embedding_rows:
            row_vector = next((vector for vector in row.vectors if (vector.model, vector.dimension) == kind), None)
            row_without_vectors = row._replace(vectors=tuple(vector._replace(halves=b"") for vector in row.vectors))
            if row_vector is None:
                other_rows.append(row_without_vectors)
            else:
                rows.append(row_without_vectors)
                vector_halves.append(row_vector.halves)
        matrix = np.frombuffer(b"".join(vector_halves), "<f2").reshape(len(rows), kind.dimension)
        return cls(kind, rows, matrix.astype(np.float32), other_rows)

    def with_turns(self, turns: Collection[str], new_rows: Sequence[EmbeddingRow], /) -> Self:
        """Return the table with `new_rows` replacing all rows of `turns`."""
        remaining_indices = [index for index, row in enumerate(self.rows) if row.turn not in turns]
        new_table = self.of(self.kind, new_rows)
        other_rows = [row for row in self.others if row.turn not in turns]
        rows = [*(self.rows[index] for index in remaining_indices), *new_table.rows]
        matrix = np.concatenate(
            (self.matrix[remaining_indices].reshape(len(remaining_indices), self.kind.dimension), new_table.matrix)
        )
        return type(self)(self.kind, rows, matrix, [*other_rows, *new_table.others])

    @staticmethod
    def joined(tables: Sequence["VectorTable"], kind: VectorKind, /) -> "VectorTable":
        """Combine tables of one kind."""
        matrices = [table.matrix for table in tables if len(table.rows)]
        return VectorTable(
            kind,
            [row for table in tables for row in table.rows],
            np.concatenate(matrices) if matrices else np.zeros((0, kind.dimension), np.float32),
            [row for table in tables for row in table.others],
        )

    @property
    def size_bytes(self) -> int:
        """Approximate memory used by the table."""
        return self.matrix.nbytes + 400 * (len(self.rows) + len(self.others))

    def search(self, query: bytes, row_filter: RowFilter, /, *, limit: int) -> TableAnswer:
        """Return the best matching rows, best first. `query` is an array of little-endian single-precision numbers."""
        vector = np.frombuffer(query, "<f4")
        assert len(vector) == self.kind.dimension
        passing_indices = self._passing(row_filter)
        skipped_rows = self._skipped(row_filter)
        count = len(self.rows) if passing_indices is None else len(passing_indices)
        if not count:
            return TableAnswer([], 0, skipped_rows)
        exact_vector = vector.astype(np.float64)
        rough_cosines = (
            self.matrix @ (exact_vector / math.sqrt(exact_vector @ exact_vector)).astype(np.float32)
        ) * self._inverse_lengths
        if passing_indices is not None:
            rough_cosines = rough_cosines[passing_indices]
        near_indices = self._near(rough_cosines, limit)
        candidate_indices = near_indices if passing_indices is None else passing_indices[near_indices]
        index_blocks = (
            candidate_indices[block_start : block_start + _AT_ONCE]
            for block_start in range(0, len(candidate_indices), _AT_ONCE)
        )
        scores = [score for index_block in index_blocks for score in self._cosines(index_block, exact_vector)]
        ranked_rows = [
            RankedRow(score, self.rows[index]) for score, index in zip(scores, candidate_indices.tolist(), strict=True)
        ]
        return TableAnswer(sorted(ranked_rows, key=attrgetter("place"))[:limit], count, skipped_rows)

    def _near(self, rough: Matrix, limit: int) -> NDArray[np.intp]:
        """Return the indices of all rows that could be among the best, given the error of the rough cosines."""
        if len(rough) <= limit:
            return np.arange(len(rough))
        lowest_best = np.partition(rough, len(rough) - limit)[len(rough) - limit]
        rounding_error = 2 * (self.kind.dimension + 8) * _ROUNDING
        return np.flatnonzero(rough >= lowest_best - 2 * rounding_error)

    def _cosines(self, places: NDArray[np.intp], numbers: NDArray[np.float64]) -> Sequence[float]:
        # Products of half- and single-precision numbers are exact in double precision, and are then summed exactly.
        vectors = self.matrix[places].astype(np.float64)
        sums = exact_sums(np.concatenate((vectors * numbers, vectors * vectors, [numbers * numbers])))
        query_length = math.sqrt(sums[-1])
        product_pairs = zip(sums[: len(places)], sums[len(places) : -1], strict=True)
        return [
            round(dot_product / (math.sqrt(squared_length) * query_length), _DIGITS) if squared_length else 0.0
            for dot_product, squared_length in product_pairs
        ]

    def _passing(self, row_filter: RowFilter) -> NDArray[np.intp] | None:
        """Return the indices of the rows that match, or None for all."""
        if row_filter.is_open:
            return None
        return np.array([index for index, row in enumerate(self.rows) if row_filter.passes(row)], np.intp)

    def _skipped(self, row_filter: RowFilter) -> SkippedRows:
        reason_counts = Counter(self._reasons) if row_filter.is_open else Counter(
            reason for row, reason in zip(self.others, self._reasons, strict=True) if row_filter.passes(row)
        )  # fmt: skip
        return SkippedRows(*(reason_counts[reason] for reason in SkippedRows._fields))

    @cached_property
    def _reasons(self) -> Sequence[str]:
        return [_reason_of(row, self.kind) for row in self.others]

    @cached_property
    def _inverse_lengths(self) -> Matrix:
        lengths = np.sqrt(np.einsum("ij,ij->i", self.matrix, self.matrix))
        return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def exact_sums(parts: NDArray[np.float64], /) -> Sequence[float]:
    """Return the sum of each row exactly like `math.fsum`, rounded only once at the end.

    Adding a large power of 2 to a number and subtracting it again keeps only the upper digits. Sums of those are exact
    in any order. The remainders are summed in the same way.
    """
    partial_sums = list[list[float]]()
    magnitude_factor = 2.0 ** math.frexp(parts.shape[1] + 2)[1]
    while largest := max(float(parts.max(initial=0.0)), -float(parts.min(initial=0.0))):
        if not math.isfinite(largest):
            return [math.fsum(row) for row in parts.tolist()]
        rounding_power = magnitude_factor * 2.0 ** math.frexp(largest)[1]
        upper_parts = (parts + rounding_power) - rounding_power
        partial_sums.append(upper_parts.sum(axis=1).tolist())
        parts = parts - upper_parts
    return (
        [math.fsum(row_parts) for row_parts in zip(*partial_sums, strict=True)] if partial_sums else [0.0] * len(parts)
    )


def _reason_of(row: EmbeddingRow, kind: VectorKind) -> str:
    """Return why a row is not compared, as the name of a field of `SkippedRows`."""
    if any(vector.model == kind.model for vector in row.vectors):
        return "other_dimensions"
    return "other_models" if row.vectors else "unembedded"


def merged_answers(answers: Iterable[TableAnswer], /, *, limit: int) -> TableAnswer:
    """Combine the answers of several tables."""
    ranked_rows: list[RankedRow] = []
    compared_count, skipped_rows = 0, SkippedRows()
    for answer in answers:
        ranked_rows = sorted([*ranked_rows, *answer.ranked], key=lambda each: each.place)[:limit]
        compared_count += answer.compared
        skipped_rows = skipped_rows.plus(answer.skipped)
    return TableAnswer(ranked_rows, compared_count, skipped_rows)
