"""The vectors of a space, per model, and their cosines with a query's vector.

A vector is stored as 16-bit integers under its own scale, each split into a coarse and a fine byte. The coarse bytes
give a rough cosine for every row in one scan; with the fine ones it is exact to about 1e-5. All sums are over integers,
so a cosine depends only on the two vectors, not on a row's place or on the library.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_index.structures.columns import whole_numbers

Codes = NDArray[np.int8]
Dots = NDArray[np.floating[Any]]
Products = NDArray[np.float64]
Kernel = Callable[[Codes, Codes], Products]
Scan = Callable[[Codes, Codes, Dots], None]

_ROWS = 4_096
_EXACT_IN_FLOAT32 = 1_024
"""Number of products of two int8 numbers whose sum is below 2^24, up to which float32 represents every whole number."""


def dot_products(queries: Codes, rows: Codes, /) -> Products:
    """Return the dot product of each of `queries` with each of `rows`."""
    return _best_kernel()(queries, rows)


def dots_type(dimension: int, /) -> type[np.float32] | type[np.float64]:
    """Return the smallest type that represents every dot product of `dimension` int8 numbers exactly."""
    return np.float32 if dimension <= _EXACT_IN_FLOAT32 else np.float64


def scan_rows(query: Codes, rows: Codes, dots: Dots, /) -> None:
    """Write the dot product of `query` with each of `rows` to `dots`, which is of `dots_type`."""
    _best_scan()(query, rows, dots)


def plain_scan(query: Codes, rows: Codes, dots: Dots, /) -> None:
    """The same with NumPy only."""
    dots[:] = plain_dots(query[None], rows)[0]


def plain_dots(queries: Codes, rows: Codes, /) -> Products:
    """Return the same with NumPy only, through exact float32 products of BLAS."""
    dots = np.zeros((len(queries), len(rows)))
    for start in range(0, queries.shape[1], _EXACT_IN_FLOAT32):
        end = start + _EXACT_IN_FLOAT32
        query_part = queries[:, start:end].astype(np.float32)
        for first_row in range(0, len(rows), _ROWS):
            rows_part = rows[first_row : first_row + _ROWS, start:end].astype(np.float32)
            dots[:, first_row : first_row + _ROWS] += query_part @ rows_part.T
    return dots


@cache
def _best_kernel() -> Kernel:
    # The library is an extra. NumPy gives the same whole numbers, only slower.
    try:
        from numkong import dots_pack, dots_packed
    except ImportError:
        return plain_dots

    def simd_dots(queries: Codes, rows: Codes, /) -> Products:
        if not len(rows):
            return np.zeros((len(queries), 0))
        return np.ascontiguousarray(np.asarray(dots_packed(rows, dots_pack(queries))).T, np.float64)

    return simd_dots


@cache
def _best_scan() -> Scan:
    try:
        import numkong
    except ImportError:
        return plain_scan

    def simd_scan(query: Codes, rows: Codes, dots: Dots, /) -> None:
        if len(rows):
            numkong.cdist(query[None], rows, "dot", out=dots[None])

    return simd_scan


Vector = NDArray[np.float32]
Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Part = Literal["coarse", "fine"]

_BLOCK = 1 << 14
"""Rows of a block. Blocks grow to this and are not copied any more, which bounds the pause of growing."""
_STEP = 256
_FULL = 127 * _STEP
_WORTH_COARSE, _WORTH_FINE = np.array(((_STEP * _STEP, _STEP), (_STEP, 1.0)))
ROUGH_STEP = (_STEP / _FULL) ** 2
"""Weight of a product of two coarse bytes, with both peaks."""


def unit_vector(data: bytes, /, *, field: str) -> Vector:
    """Return the little-endian float32 numbers of `data`, scaled to length 1.

    Raises InvalidInput if there are none or too many, if one is not finite, and if all are 0.
    """
    if not data or len(data) % 4 or len(data) > 4 * limits.VECTOR_DIMENSIONS:
        raise InvalidInput(field=field, problem=f"must be 1 to {limits.VECTOR_DIMENSIONS} float32 numbers")
    # Squares of large float32 numbers overflow in single precision.
    numbers = np.frombuffer(data, "<f4").astype(np.float64)
    length = math.sqrt(float(np.dot(numbers, numbers)))
    if not math.isfinite(length):
        raise InvalidInput(field=field, problem="contains a number that is not finite")
    if length == 0.0:
        raise InvalidInput(field=field, problem="has length 0, so it has no direction to compare")
    return (numbers / length).astype(np.float32)


@dataclass(frozen=True, slots=True)
class CodedVector:
    """A vector with two bytes per number: `peak` is its largest number, the coarse and the fine line are shares of
    it."""

    both: Codes
    peak: float

    @property
    def coarse(self) -> Codes:
        return self.both[0]

    @property
    def fine(self) -> Codes:
        return self.both[1]


def code_vector(vector: Vector, /) -> CodedVector:
    """Return `vector` with two bytes per number."""
    peak = float(np.maximum.reduce(np.abs(vector)))
    scaled_numbers = np.rint(vector.astype(np.float64) * (_FULL / peak)).astype("<i2")
    # Rounded to the nearest step, the upper byte is the coarse one, and the rest in the lower byte is the fine one.
    coarse, fine = (scaled_numbers + np.int16(_STEP >> 1)).view(np.int8)[1::2], scaled_numbers.view(np.int8)[::2]
    return CodedVector(np.array((coarse, fine)), peak)


@dataclass(frozen=True, slots=True)
class ScannedQuery:
    """A query's vector compared with every row by `ModelVectors.scan`."""

    vector: tuple[str, bytes]
    query: CodedVector
    dots: Dots
    products: Dots


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """The same in a small space by `ModelVectors.measure`: rough cosines of all rows, or also exact ones."""

    vector: tuple[str, bytes]
    query: CodedVector
    rough: Floats
    exact: Floats | None


class VectorBlock:
    """The vectors of some rows: a row without one has peak 0."""

    __slots__ = ("coarse", "fine")

    def __init__(self, coarse: Codes, fine: Codes, /) -> None:
        self.coarse = coarse
        self.fine = fine

    def writable(self) -> "VectorBlock":
        """Return this block, or a copy if its bytes belong to a checkpoint."""
        return self if self.coarse.flags.writeable else VectorBlock(self.coarse.copy(), self.fine.copy())


class ModelVectors:
    """The vectors of one model, all of one dimension, at the rows of their units."""

    def __init__(self, dimension: int, /) -> None:
        self.dimension = dimension
        self.blocks: list[VectorBlock] = []
        self.peaks: NDArray[np.float32] = np.zeros(0, np.float32)
        self.count = 0

    def put(self, row: int, vector: CodedVector, /) -> None:
        """Store `vector` for `row`."""
        while row >= len(self.peaks):
            self._grow()
        block_number, row_in_block = divmod(row, _BLOCK)
        block = self.blocks[block_number] = self.blocks[block_number].writable()
        block.coarse[row_in_block] = vector.coarse
        block.fine[row_in_block] = vector.fine
        self.count += int(self.peaks[row] == 0)
        self.peaks[row] = vector.peak

    def remove(self, row: int, /) -> None:
        """Remove the vector of `row`."""
        if row < len(self.peaks) and self.peaks[row] > 0:
            block_number, row_in_block = divmod(row, _BLOCK)
            block = self.blocks[block_number] = self.blocks[block_number].writable()
            block.coarse[row_in_block] = 0
            block.fine[row_in_block] = 0
            self.peaks[row] = 0
            self.count -= 1

    def get(self, row: int, /) -> CodedVector | None:
        """Return the vector of `row`."""
        if row >= len(self.peaks) or self.peaks[row] == 0:
            return None
        block_number, row_in_block = divmod(row, _BLOCK)
        block = self.blocks[block_number]
        return CodedVector(np.array((block.coarse[row_in_block], block.fine[row_in_block])), float(self.peaks[row]))

    def has(self, size: int, /) -> NDArray[np.bool_]:
        """Return which of the first `size` rows have a vector."""
        has_vector = np.zeros(size, np.bool_)
        stored_rows = min(size, len(self.peaks))
        has_vector[:stored_rows] = self.peaks[:stored_rows] > 0
        return has_vector

    def scan(self, query: CodedVector, size: int, /) -> tuple[Dots, Dots]:
        """Return the dot product of the coarse bytes for each of the first `size` rows, and the same scaled by their
        peaks.

        The second, times the query's peak and `ROUGH_STEP`, is the cosine, off by some thousandths. Both are 0 where
        there is no vector.
        """
        coarse_dots = np.zeros(size, dots_type(self.dimension))
        scaled_dots = np.zeros_like(coarse_dots)
        for start, block in self._parts(size):
            end = min(start + len(block.coarse), size)
            scan_rows(query.coarse, block.coarse[: end - start], coarse_dots[start:end])
            np.multiply(coarse_dots[start:end], self.peaks[start:end], out=scaled_dots[start:end])
        return coarse_dots, scaled_dots

    def scaled(self, rows: Integers, factor: float, /) -> NDArray[np.float32]:
        """Return the peak of each of `rows` times `factor`; 0 without a vector."""
        if len(self.peaks) > rows.max(initial=0):
            return self.peaks[rows] * factor
        return np.where(rows < len(self.peaks), self.peaks.take(rows, mode="clip") * factor, np.float32(0.0))

    def measure(self, vector: tuple[str, bytes], query: CodedVector, size: int, /, *, whole: int) -> MeasuredQuery:
        """Return the rough cosines of the first `size` rows, and also the exact ones if there are fewer rows than
        `whole`.

        They are 0 without a vector.
        """
        peaks = self.peaks[:size]
        if len(peaks) < size:
            peaks = np.concatenate((peaks, np.zeros(size - len(peaks), np.float32)))
        exact_cosines: Floats | None = None
        if size < whole:
            coarse_dots = self._dots(query.both, "coarse", size)
            exact_cosines = _block_cosines(coarse_dots, self._dots(query.both, "fine", size), peaks, query.peak)
            rough_cosines = coarse_dots[0]
        else:
            rough_cosines = self.scan(query, size)[0].astype(np.float64)
        rough_cosines *= peaks * (query.peak * ROUGH_STEP)
        return MeasuredQuery(vector, query, rough_cosines, exact_cosines)

    def exact(self, query: CodedVector, rows: Integers, /) -> Floats:
        """Return the cosine of each of `rows`; 0 without a vector."""
        if rows.max(initial=0) >= len(self.peaks):
            cosines = np.zeros(len(rows))
            stored_rows = np.flatnonzero(rows < len(self.peaks))
            cosines[stored_rows] = self.exact(query, rows[stored_rows]) if len(stored_rows) else 0.0
            return cosines
        coarse_dots, fine_dots = (
            dot_products(query.both, self._codes_at(rows, "coarse")),
            dot_products(query.both, self._codes_at(rows, "fine")),
        )
        return _block_cosines(coarse_dots, fine_dots, self.peaks.take(rows), query.peak)

    def renumbered(self, new_numbers: NDArray[np.int32], /) -> "ModelVectors":
        """Return the vectors of the rows that `new_numbers` gives a number, at that number."""
        renumbered_vectors = ModelVectors(self.dimension)
        rows = np.flatnonzero(self.has(len(new_numbers)) & (new_numbers > 0))
        if len(rows):
            rows = rows[np.argsort(new_numbers[rows])]
            coarse, fine = self._codes_at(rows, "coarse"), self._codes_at(rows, "fine")
            new_rows = new_numbers[rows]
            size = int(new_rows[-1]) + 1
            peaks = np.zeros(size, np.float32)
            peaks[new_rows] = self.peaks[rows]
            renumbered_vectors.load(_spread_codes(coarse, new_rows, size), _spread_codes(fine, new_rows, size), peaks)
        return renumbered_vectors

    def frozen(self) -> "ModelVectors":
        """Return a snapshot of these vectors. From now on a block is copied before it is written to."""
        snapshot = ModelVectors(self.dimension)
        # Both share the blocks from now on: the flag makes `writable` copy one before the next write.
        for block in self.blocks:
            block.coarse.flags.writeable = False
            block.fine.flags.writeable = False
        snapshot.blocks, snapshot.peaks, snapshot.count = self.blocks.copy(), self.peaks.copy(), self.count
        return snapshot

    def own(self) -> None:
        """Copy what belongs to a checkpoint."""
        self.blocks = [block.writable() for block in self.blocks]

    def load(self, coarse: Codes, fine: Codes, peaks: NDArray[np.float32], /) -> None:
        """Load the vectors of all rows from 0 on; read-only bytes are copied when necessary."""
        self.blocks = [
            VectorBlock(coarse[start : start + _BLOCK], fine[start : start + _BLOCK])
            for start in range(0, len(peaks), _BLOCK)
        ]
        self.peaks = peaks
        self.count = int(np.count_nonzero(peaks))
        self._fit_peaks()

    def parts(self, size: int, /) -> Iterator[tuple[Codes, Codes]]:
        """Yield the coarse and fine bytes of the first `size` rows, block by block."""
        for start, block in self._parts(size):
            end = min(len(block.coarse), size - start)
            yield block.coarse[:end], block.fine[:end]

    @property
    def size_bytes(self) -> int:
        return sum(2 * block.coarse.nbytes for block in self.blocks) + self.peaks.nbytes

    def _parts(self, size: int) -> Iterator[tuple[int, VectorBlock]]:
        start = 0
        for block in self.blocks:
            if start >= size:
                return
            yield start, block
            start += len(block.coarse)

    def _dots(self, queries: Codes, part: Part, size: int) -> Floats:
        """Return the dot products of each of `queries` with a part of each of the first `size` rows."""
        if len(self.blocks) == 1 and size <= len(self.peaks):
            return dot_products(queries, getattr(self.blocks[0], part)[:size])
        dots = np.zeros((len(queries), size))
        for start, block in self._parts(size):
            end = min(start + len(block.coarse), size)
            dots[:, start:end] = dot_products(queries, getattr(block, part)[: end - start])
        return dots

    def _codes_at(self, rows: Integers, part: Part) -> Codes:
        blocks: list[Codes] = [getattr(block, part) for block in self.blocks]
        if len(blocks) == 1:
            return blocks[0].take(rows, axis=0)
        codes: Codes = np.empty((len(rows), self.dimension), np.int8)
        block_numbers, rows_in_block = rows // _BLOCK, rows % _BLOCK
        block_starts = np.flatnonzero(block_numbers[1:] != block_numbers[:-1]) + 1
        # Ascending rows change the block rarely and are taken in slices. Others are taken block by block.
        if len(block_starts) < len(blocks):
            for start, end in pairwise([0, *whole_numbers(block_starts), len(rows)]):
                # NumPy writes to `out` without a buffer only if the mode is not "raise".
                blocks[int(block_numbers[start])].take(
                    rows_in_block[start:end], axis=0, out=codes[start:end], mode="clip"
                )
            return codes
        for block_number in whole_numbers(np.flatnonzero(np.bincount(block_numbers))):
            is_in_block = block_numbers == block_number
            codes[is_in_block] = blocks[block_number].take(rows_in_block[is_in_block], axis=0)
        return codes

    def _grow(self) -> None:
        """Double the last block until it is full; start with a small one, and add full blocks one by one."""
        if not self.blocks:
            self.blocks = [_fresh_block(64, self.dimension)]
        elif len(last_codes := self.blocks[-1].coarse) < _BLOCK:
            self.blocks[-1] = _grow_block(self.blocks[-1], min(_BLOCK, max(64, 2 * len(last_codes))), self.dimension)
        else:
            self.blocks.append(_fresh_block(_BLOCK, self.dimension))
        self._fit_peaks()

    def _fit_peaks(self) -> None:
        peaks = np.zeros(sum(len(block.coarse) for block in self.blocks), np.float32)
        peaks[: len(self.peaks)] = self.peaks
        self.peaks = peaks


def _block_cosines(coarse_dots: Floats, fine_dots: Floats, peaks: Vector, peak: float) -> Floats:
    # Whole numbers below 2^53: their sum is independent of the order.
    dots = _WORTH_COARSE @ coarse_dots + _WORTH_FINE @ fine_dots
    return dots * (peaks.astype(np.float64) * (peak / (_FULL * _FULL)))


def _fresh_block(rows: int, dimension: int) -> VectorBlock:
    return VectorBlock(np.zeros((rows, dimension), np.int8), np.zeros((rows, dimension), np.int8))


def _grow_block(block: VectorBlock, rows: int, dimension: int) -> VectorBlock:
    larger_block = _fresh_block(rows, dimension)
    larger_block.coarse[: len(block.coarse)] = block.coarse
    larger_block.fine[: len(block.fine)] = block.fine
    return larger_block


def _spread_codes(codes: Codes, new_rows: Integers, size: int) -> Codes:
    spread_rows = np.zeros((size, codes.shape[1]), np.int8)
    spread_rows[new_rows] = codes
    return spread_rows


class SpaceVectors:
    """The vectors of a space."""

    def __init__(self) -> None:
        self.models: dict[str, ModelVectors] = {}

    def parse(self, named_vector: tuple[str, bytes], dimensions: dict[str, int], /, *, field: str) -> CodedVector:
        """Return `named_vector`'s vector. Raises InvalidInput unless it has the dimension of its model.

        `dimensions` are dimensions beside those kept; the first vector of a model fixes its own there.
        """
        model, data = named_vector
        vector = unit_vector(data, field=field)
        vectors = self.models.get(model)
        dimension = vectors.dimension if vectors is not None else dimensions.setdefault(model, len(vector))
        if len(vector) != dimension:
            raise InvalidInput(field=field, problem=f"has {len(vector)} dimensions, not the model's {dimension}")
        return code_vector(vector)

    def put(self, row: int, model: str, vector: CodedVector, /) -> None:
        """Store `vector` for `row` under `model`."""
        vectors = self.models.get(model)
        if vectors is None:
            vectors = self.models[model] = ModelVectors(len(vector.coarse))
        vectors.put(row, vector)

    def remove(self, rows: Sequence[int], model: str, /) -> None:
        """Remove the vectors of `model` for `rows`, and the model itself if these were its last."""
        vectors = self.models.get(model)
        if vectors is None:
            return
        for row in rows:
            vectors.remove(row)
        if not vectors.count:
            del self.models[model]

    def by_check(self, rows: Sequence[int], checks: Integers, /) -> dict[tuple[str, int], CodedVector]:
        """Return the vectors of `rows`, by model and by each row's check in `checks`."""
        if not self.models:
            return {}
        return {
            (model, int(checks[row])): vector for row in rows if checks[row] for model, vector in self.of(row).items()
        }

    def put_checked(
        self, rows: Sequence[int], checks: Integers, model: str, vectors: Mapping[int, CodedVector], /
    ) -> None:
        """Store for each of `rows` the vector of its check in `checks`."""
        for row in rows:
            vector = vectors.get(int(checks[row]))
            if vector is not None:
                self.put(row, model, vector)

    def of(self, row: int, /) -> dict[str, CodedVector]:
        """Return each model's vector for `row`."""
        vectors = {model: model_vectors.get(row) for model, model_vectors in self.models.items()}
        return {model: vector for model, vector in vectors.items() if vector is not None}

    @property
    def size_bytes(self) -> int:
        return sum(vectors.size_bytes for vectors in self.models.values())
