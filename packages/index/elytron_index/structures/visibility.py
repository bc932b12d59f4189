"""Cache of the rows that match a filter, and of each row's neighbours then: computed once, valid until a change.

A search looks up the neighbours of the rows it weighs. When as many were looked up as there are, all are, and kept.
"""

import sys
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.text.features import Trait
from elytron_index.query import Filters
from elytron_index.structures import filter_masks
from elytron_index.structures.columns import Columns, Mask
from elytron_index.structures.filter_masks import Names
from elytron_index.structures.vectors import ModelVectors

Rows = NDArray[np.int64]
Lines = NDArray[np.int32] | NDArray[np.int64]

_TALK_MS: Final = 8 * 3_600_000
"""Distance in time from which on a neighbour in the thread lends nothing."""
_THREAD_MOST: Final = 3
_ASKS: Final = int(Trait.ASKS)
_ENDS_ASKING: Final = int(Trait.ENDS_ASKING)

_SIGHTS_KEPT: Final = 12
_ROWS_KEPT: Final = 1 << 15
"""In a larger space no neighbours are kept: few of the rows are ever weighed."""
_PART_KEPT: Final = 4
"""Nor if fewer than one in this many rows may be seen."""
_ROW_BYTES: Final = 48
_FOREVER: Final = sys.maxsize


@dataclass(frozen=True, slots=True)
class Around:
    """Some rows with those beside them, and what of them does not depend on the question.

    They are two tables with a column for each row, so that some rows of all are taken at two strokes.
    """

    numbers: Lines
    telling: NDArray[np.float32]
    """Degree to which the rows' texts state something, and how informative they are."""

    @property
    def lines(self) -> Lines:
        """The rows themselves, one before, one after, two before, two after.

        0 is no row: for hidden ones, and for those far off in time, which lend nothing.
        """
        return self.numbers[:5]

    @property
    def thread_units(self) -> Lines:
        """Number of units in their threads, at most three; 1 without a thread."""
        return self.numbers[5]

    @property
    def terms(self) -> Lines:
        """Number of terms in their texts together."""
        return self.numbers[6]

    @property
    def answering(self) -> Lines:
        """1 where the one before asks and this one does not end in a question."""
        return self.numbers[7]

    @property
    def threads(self) -> Lines:
        return self.numbers[8]

    @property
    def chars(self) -> Lines:
        return self.numbers[9]

    def of(self, rows: Rows, /) -> "Around":
        """Return the same of some of the rows alone, where these are all."""
        # NumPy takes by numbers of this size: narrower ones it would widen each time.
        return Around(self.numbers.take(rows, axis=1).astype(np.int64), self.telling.take(rows, axis=1))


class Sight:
    """Visible rows under some filters, from `since` on and before `until` if they name a moment."""

    __slots__ = ("_all", "_columns", "_compared", "_looked_up", "_sizes", "count", "mask", "since", "until")

    def __init__(self, columns: Columns, mask: Mask, since: int, until: int, /) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self.since = since
        self.until = until
        self._columns = columns
        self._sizes = _thread_sizes(columns, mask)
        self._all: Around | None = None
        self._looked_up = 0
        self._compared: dict[str, Mask | None] = {}

    def around(self, rows: Rows, /) -> Around:
        """Return `rows`, all of which may be seen, with their neighbours."""
        size = len(self.mask)
        if self._all is None and size <= _ROWS_KEPT and self.count * _PART_KEPT >= size:
            self._looked_up += len(rows)
            if self._looked_up >= size:
                self._all = _around(self._columns, self.mask, self._sizes, np.arange(size))
        return _around(self._columns, self.mask, self._sizes, rows) if self._all is None else self._all.of(rows)

    def compared(self, model: str, kept: ModelVectors, /) -> Mask | None:
        """Return the rows that can be compared by `model`, whose vectors are `kept`; None if there are none."""
        if model not in self._compared:
            compared = kept.has(len(self.mask)) & self.mask
            self._compared[model] = compared if compared.any() else None
        return self._compared[model]


class Sights:
    """The sights of one state of a space's units, those used last."""

    def __init__(self, columns: Columns, names: Names, /) -> None:
        self._columns = columns
        self._names = names
        self._kept: dict[object, Sight] = {}

    def of(self, filters: Filters, /) -> Sight:
        """Return what may be seen under `filters`."""
        moment = filters.as_of
        key = (filters.planes, filters.scope, filters.known_at, filters.min_trust, moment is None)
        sight = self._kept.pop(key, None)
        if sight is None or not (moment is None or sight.since <= moment < sight.until):
            since, until = (-_FOREVER, _FOREVER) if moment is None else _span(self._columns, moment)
            sight = Sight(self._columns, filter_masks.visible(filters, self._columns, self._names), since, until)
            if len(self._kept) >= _SIGHTS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = sight
        return sight

    @property
    def size_bytes(self) -> int:
        """About how much memory they take when the whole space was searched."""
        return _ROW_BYTES * min(self._columns.size, _ROWS_KEPT) + self._columns.size


def _span(columns: Columns, moment: int) -> tuple[int, int]:
    """Return since when and until when the same holds in the world as at `moment`."""
    turns = np.concatenate((columns.valid_from[: columns.size], columns.valid_to[: columns.size]))
    turns = turns[turns != 0]
    gone = turns <= moment
    return int(turns.max(where=gone, initial=-_FOREVER)), int(turns.min(where=~gone, initial=_FOREVER))


def _thread_sizes(columns: Columns, seen: Mask) -> NDArray[np.int64]:
    """Return how many units of each thread may be seen, 1 to 3."""
    counts = np.bincount(columns.thread[: len(seen)], seen, minlength=1).astype(np.int64)
    counts[0] = 1
    return np.clip(counts, 1, _THREAD_MOST)


def _around(columns: Columns, seen: Mask, sizes: NDArray[np.int64], rows: Rows) -> Around:
    before, after, traits = columns.before, columns.after, columns.traits
    numbers = np.empty((10, len(rows)), np.int32)
    lines: Lines = numbers[:5]
    lines[0] = rows
    lines[1], lines[2] = before.take(rows), after.take(rows)
    lines[3], lines[4] = before.take(lines[1]), after.take(lines[2])
    lines *= seen.take(lines)
    at = columns.at.take(lines)
    # A talk that was taken up again much later is another talk.
    lines *= (np.abs(at - at[0]) <= _TALK_MS) | (at == 0) | (at[0] == 0)
    np.add.reduce(columns.body_terms.take(lines), axis=0, out=numbers[6])
    numbers[7] = ((traits.take(lines[1]) & _ASKS) != 0) & ((traits.take(lines[0]) & _ENDS_ASKING) == 0)
    numbers[5] = sizes.take(columns.thread.take(rows))
    numbers[8], numbers[9] = columns.thread.take(rows), columns.chars.take(rows)
    return Around(numbers, np.array((columns.told.take(rows), columns.informative.take(rows))))
