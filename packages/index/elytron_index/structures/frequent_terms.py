"""Counts of the most frequent terms in each row, one byte a row: a look-up is one read.

A row's terms never change and rows are only added, so that a table stays true while the space grows; a row behind
its end is looked up in the postings.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_BYTES: Final = 1 << 26
MOST_TABLES: Final = 64
_LEAST: Final = 1 << 12
_SHARE: Final = 32
"""A term that one row in this many has is frequent."""


class Run(NamedTuple):
    """Postings of one term: rows ascending, and how often each holds it."""

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]


class Table(NamedTuple):
    """Counts of a term in each row, up to the table's end."""

    counts: NDArray[np.uint8]
    most: int
    holders: int


class Frequent:
    """Tables of terms, the one used last last; the first ones go when they are too many."""

    def __init__(self) -> None:
        self._tables: OrderedDict[int, Table] = OrderedDict()

    def table(self, code: int, runs: Sequence[Run], size: int, /) -> Table | None:
        """Return the table of the term `code` whose postings are `runs`, in a space of `size` rows.

        None where the term is not frequent. It may end before the last posting.
        """
        holders = sum(len(run.rows) for run in runs)
        if holders < max(_LEAST, size // _SHARE):
            return None
        table = self._tables.pop(code, None)
        if table is None or holders > table.holders + table.holders // 4:
            counts = np.zeros(int(runs[-1].rows[-1]) + 1, np.uint8)
            for run in runs:
                counts[run.rows] = run.counts
            table = Table(counts, int(counts.max()), holders)
        self._tables[code] = table
        while len(self._tables) > MOST_TABLES or (self.size_bytes > MOST_BYTES and len(self._tables) > 1):
            self._tables.popitem(last=False)
        return table

    def clear(self) -> None:
        """Drop all tables: rows or terms were renumbered."""
        self._tables.clear()

    @property
    def size_bytes(self) -> int:
        return sum(len(table.counts) for table in self._tables.values())
