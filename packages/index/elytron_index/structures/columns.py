"""The attributes of every unit as columns: one growable array per attribute, one row per unit.

Row 0 is no unit: dead, without neighbours, the target of absent links.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index.lexicon.text_vectors import DIMENSIONS

Rows = NDArray[np.int32]
Mask = NDArray[np.bool_]

DTYPES: Final[dict[str, str]] = {
    "plane": "<i4", "speaker": "<i4", "role": "<i4", "thread": "<i4", "scope": "<i4", "tags": "<i4",
    "part": "<i4", "order": "<i8", "at": "<i8", "trust": "<i4",
    "valid_from": "<i8", "valid_to": "<i8", "recorded_at": "<i8", "closed_at": "<i8",
    "chars": "<i4", "informative": "<f4", "body_terms": "<i4", "title_terms": "<i4",
    "check": "<i8", "text_vector": f"|V{DIMENSIONS}", "text_length": "<f4", "traits": "<i4", "told": "<f4",
}  # fmt: skip
"""Every column that a unit brings, in the order in which `append` takes the values."""
_ROW_BYTES: Final = sum(np.dtype(dtype).itemsize for dtype in (*DTYPES.values(), np.int32, np.int32, np.bool_))
"""Bytes of a row in all columns, with its neighbours and its live mark."""


def whole_numbers(values: NDArray[np.integer[Any]], /) -> list[int]:
    """Return `values` as Python numbers."""
    return values.tolist()


class Columns:
    """The rows of a space. Arrays are longer than `size`: read them up to it."""

    plane: NDArray[np.int32]
    speaker: NDArray[np.int32]
    role: NDArray[np.int32]
    thread: NDArray[np.int32]
    scope: NDArray[np.int32]
    tags: NDArray[np.int32]
    part: NDArray[np.int32]
    order: NDArray[np.int64]
    at: NDArray[np.int64]
    trust: NDArray[np.int32]
    valid_from: NDArray[np.int64]
    valid_to: NDArray[np.int64]
    recorded_at: NDArray[np.int64]
    closed_at: NDArray[np.int64]
    chars: NDArray[np.int32]
    informative: NDArray[np.float32]
    body_terms: NDArray[np.int32]
    title_terms: NDArray[np.int32]
    check: NDArray[np.int64]
    text_vector: NDArray[np.void]
    text_length: NDArray[np.float32]
    traits: NDArray[np.int32]
    told: NDArray[np.float32]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    alive: Mask

    def __init__(self, capacity: int = 64, /) -> None:
        self.size = 1
        self.dead = 0
        self._is_borrowed = False
        for name, dtype in DTYPES.items():
            setattr(self, name, np.zeros(capacity, dtype))
        self.before = np.zeros(capacity, np.int32)
        self.after = np.zeros(capacity, np.int32)
        self.alive = np.zeros(capacity, np.bool_)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], /) -> "Columns":
        """Return columns of living rows that read `arrays`, row 0 included; they are copied before one is written."""
        columns = cls(1)
        for name, values in arrays.items():
            setattr(columns, name, values)
        columns.size = len(columns.plane)
        columns.before = np.zeros(columns.size, np.int32)
        columns.after = np.zeros(columns.size, np.int32)
        columns.alive = np.ones(columns.size, np.bool_)
        columns.alive[0] = False
        columns._is_borrowed = True
        return columns

    def frozen(self) -> "Columns":
        """Return these columns as they stand: of what is written later, new rows and burials, it sees nothing."""
        kept = Columns.of({name: getattr(self, name)[: self.size] for name in DTYPES})
        kept.alive = self.alive[: self.size].copy()
        kept.dead = self.dead
        return kept

    def own(self) -> None:
        """Copy what still belongs to a checkpoint, with room for more."""
        if self._is_borrowed:
            self._is_borrowed = False
            self._grow(self.size + max(64, self.size // 4))

    def append(self, records: Sequence[tuple[Any, ...]], /) -> int:
        """Add one row per record (values as `DTYPES` orders them) and return the first row's number."""
        self.own()
        first, end = self.size, self.size + len(records)
        if end > len(self.alive):
            self._grow(max(end, 2 * len(self.alive)))
        for name, values in zip(DTYPES, zip(*records, strict=True), strict=True):
            getattr(self, name)[first:end] = values
        self.before[first:end] = 0
        self.after[first:end] = 0
        self.alive[first:end] = True
        self.size = end
        return first

    def bury(self, row: int, /) -> None:
        """Mark `row` as gone."""
        self.alive[row] = False
        self.dead += 1

    def take(self, rows: Rows, /) -> "Columns":
        """Return fresh columns that hold `rows` in that order, all alive and not linked."""
        kept = Columns(len(rows) + 1)
        for name in DTYPES:
            getattr(kept, name)[1:] = getattr(self, name)[rows]
        kept.alive[1:] = True
        kept.size = len(rows) + 1
        return kept

    def lengths(self, field: int, /) -> NDArray[np.int32]:
        """Return how many terms each row has in a field."""
        return (self.body_terms, self.title_terms)[field]

    @property
    def count(self) -> int:
        """Number of live units."""
        return self.size - 1 - self.dead

    @property
    def size_bytes(self) -> int:
        return _ROW_BYTES * len(self.alive)

    def _grow(self, capacity: int) -> None:
        for name in (*DTYPES, "before", "after", "alive"):
            old = getattr(self, name)
            new = np.zeros(capacity, old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)
