"""The vectors of a space, per model, and exact cosines with them.

Rows are unit float32 vectors in fixed blocks. A cosine is one dot product of one row, so that it does not depend on
where in which block the row stands.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.errors import InvalidInput

Vector = NDArray[np.float32]

_BLOCK_BYTES = 1 << 20


def unit_vector(data: bytes, /, *, field: str) -> Vector:
    """Return the little-endian float32 numbers of `data`, scaled to length 1.

    Raises InvalidInput where there are none or too many, where one is no finite number, and where all are 0.
    """
    if not data or len(data) % 4 or len(data) > 4 * limits.VECTOR_DIMENSIONS:
        raise InvalidInput(field=field, problem=f"is not 1 to {limits.VECTOR_DIMENSIONS} float32 numbers")
    numbers = np.frombuffer(data, "<f4").astype(np.float64)
    length = math.sqrt(float(np.dot(numbers, numbers)))
    if not math.isfinite(length):
        raise InvalidInput(field=field, problem="holds a number that is not finite")
    if length == 0.0:
        raise InvalidInput(field=field, problem="has length 0: no direction to compare")
    return (numbers / length).astype(np.float32)


class ModelVectors:
    """The vectors of one model, all of one dimension."""

    def __init__(self, dimension: int, /) -> None:
        self.dimension = dimension
        self._block_rows = max(16, _BLOCK_BYTES // (4 * dimension))
        self._blocks: list[NDArray[np.float32]] = []
        self._owners: NDArray[np.int32] = np.zeros(0, np.int32)
        self._size = 0

    def add(self, row: int, vector: Vector, /) -> None:
        """Keep `vector` for `row`."""
        if self._size == len(self._owners):
            self._grow()
        block, place = divmod(self._size, self._block_rows)
        self._blocks[block][place] = vector
        self._owners[self._size] = row
        self._size += 1

    @property
    def owners(self) -> NDArray[np.int32]:
        """The row of each vector kept; some may be dead."""
        return self._owners[: self._size]

    def cosines(self, query: Vector, /) -> NDArray[np.float32]:
        """Return the cosine of `query` with each vector, in the order of `owners`."""
        return np.concatenate([np.vecdot(part, query) for part in self._parts()])

    def matrix(self) -> NDArray[np.float32]:
        """Return all vectors as one array, in the order of `owners`."""
        return np.concatenate([*self._parts(), np.zeros((0, self.dimension), np.float32)])

    def load(self, owners: NDArray[np.int32], matrix: NDArray[np.float32], /) -> None:
        """Take over vectors and their rows."""
        step = self._block_rows
        for start in range(0, len(matrix), step):
            part = matrix[start : start + step]
            while self._size + len(part) > len(self._owners):
                self._grow()
            self._blocks[-1][: len(part)] = part
            self._owners[start : start + len(part)] = owners[start : start + len(part)]
            self._size += len(part)

    @property
    def size_bytes(self) -> int:
        return sum(block.nbytes for block in self._blocks) + self._owners.nbytes

    def _grow(self) -> None:
        """Double the first block until it is full, then add one block after the other."""
        rows = 0 if len(self._blocks) != 1 else len(self._blocks[0])
        if rows < self._block_rows and len(self._blocks) < 2:
            larger = np.zeros((min(self._block_rows, max(16, 2 * rows)), self.dimension), np.float32)
            if rows:
                larger[:rows] = self._blocks[0]
            self._blocks = [larger]
        else:
            self._blocks.append(np.zeros((self._block_rows, self.dimension), np.float32))
        owners = np.zeros(sum(map(len, self._blocks)), np.int32)
        owners[: self._size] = self._owners[: self._size]
        self._owners = owners

    def _parts(self) -> Iterator[NDArray[np.float32]]:
        left = self._size
        for block in self._blocks:
            yield block[: max(left, 0)]
            left -= len(block)


class Vectors:
    """The vectors of a space."""

    def __init__(self) -> None:
        self.models: dict[str, ModelVectors] = {}

    def parse(self, given: tuple[str, bytes], known: dict[str, int], /, *, field: str) -> Vector:
        """Return `given`'s unit vector. Raises InvalidInput unless it has the dimension of its model.

        `known` are dimensions beside those kept; the first vector of a model fixes its own there.
        """
        model, data = given
        vector = unit_vector(data, field=field)
        kept = self.models.get(model)
        dimension = kept.dimension if kept is not None else known.setdefault(model, len(vector))
        if len(vector) != dimension:
            raise InvalidInput(field=field, problem=f"has {len(vector)} dimensions, this model's vectors {dimension}")
        return vector

    def add(self, row: int, model: str, vector: Vector, /) -> None:
        """Keep `vector` for `row` under `model`."""
        kept = self.models.get(model)
        if kept is None:
            kept = self.models[model] = ModelVectors(len(vector))
        kept.add(row, vector)

    def renumber(self, renumbered: NDArray[np.int32], /) -> None:
        """Give each row its number in `renumbered` (0: gone), and forget what nobody holds any more."""
        kept: dict[str, ModelVectors] = {}
        for model, vectors in self.models.items():
            owners = renumbered[vectors.owners]
            living = owners > 0
            if living.any():
                fresh = kept[model] = ModelVectors(vectors.dimension)
                fresh.load(owners[living], vectors.matrix()[living])
        self.models = kept

    @property
    def size_bytes(self) -> int:
        return sum(vectors.size_bytes for vectors in self.models.values())
