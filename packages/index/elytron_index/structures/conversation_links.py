"""The order of units inside each conversation, and links from each unit to the one before and after it."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elytron_core.ports.store import Ref
from elytron_index.structures.columns import Columns
from elytron_index.structures.row_map import Refs

Key = tuple[int, int, Ref, int]


class Threads:
    """Rows per thread, sorted by (order, at, ref, part). Keeps the links in the columns true."""

    def __init__(self, columns: Columns, refs: Refs, /) -> None:
        self._columns = columns
        self._refs = refs
        self._rows: dict[int, array[int]] = {}
        self._loaded = np.zeros(0, np.int32)
        """Rows of threads as a checkpoint has them, thread after thread; a thread that changed since is in `_rows`."""
        self._heads = np.zeros(0, np.int64)

    def insert(self, row: int, /) -> None:
        """Put `row` at its place in its thread; a row without a thread has none."""
        columns = self._columns
        thread = int(columns.thread[row])
        if not thread:
            return
        rows = self._of(thread)
        place = len(rows)
        if place and columns.order[rows[-1]] >= columns.order[row]:
            place = bisect_left(rows, self._key(row), key=self._key)
        before = rows[place - 1] if place else 0
        after = rows[place] if place < len(rows) else 0
        rows.insert(place, row)
        self._link(before, row)
        self._link(row, after)

    def remove(self, row: int, /) -> None:
        """Take `row` out of its thread and join its neighbours."""
        thread = int(self._columns.thread[row])
        if not thread:
            return
        rows = self._of(thread)
        rows.pop(bisect_left(rows, self._key(row), key=self._key))
        self._link(int(self._columns.before[row]), int(self._columns.after[row]))

    def around(self, row: int, before: int, after: int, /) -> tuple[list[int], list[int]]:
        """Return up to `before` rows ahead of `row` and up to `after` behind it, in order."""
        return self._walk(self._columns.before, row, before)[::-1], self._walk(self._columns.after, row, after)

    def all_rows(self) -> NDArray[np.int32]:
        """Return the rows of all threads, thread after thread, each in order."""
        joined = array("i")
        for rows in self._rows.values():
            joined += rows
        loaded = self._loaded
        if self._rows:
            changed = np.zeros(1 + int(self._columns.thread[loaded].max(initial=0)), np.bool_)
            changed[[thread for thread in self._rows if thread < len(changed)]] = True
            loaded = loaded[~changed[self._columns.thread[loaded]]]
        return np.concatenate((loaded, np.array(joined, np.int32)))

    def load(self, rows: NDArray[np.int32], /) -> None:
        """Take over `rows` as `all_rows` gave them."""
        columns = self._columns
        threads = columns.thread[rows]
        joined = threads[1:] == threads[:-1]
        self._loaded = rows
        self._heads = np.flatnonzero(np.concatenate((np.ones(min(1, len(rows)), np.bool_), ~joined)))
        columns.before[rows[1:]] = rows[:-1] * joined
        columns.after[rows[:-1]] = rows[1:] * joined

    @property
    def size_bytes(self) -> int:
        return 220 * len(self._rows) + 8 * len(self._heads) + 4 * self._columns.size

    def _of(self, thread: int) -> "array[int]":
        """Return the rows of a thread that is about to change."""
        rows = self._rows.get(thread)
        if rows is None:
            rows = self._rows[thread] = array("i")
            found = np.flatnonzero(self._columns.thread[self._loaded[self._heads]] == thread)
            if len(found):
                ends = np.append(self._heads, len(self._loaded))
                rows.frombytes(self._loaded[ends[found[0]] : ends[found[0] + 1]].astype(np.intc).tobytes())
        return rows

    def _key(self, row: int) -> Key:
        columns = self._columns
        return int(columns.order[row]), int(columns.at[row]), self._refs[row], int(columns.part[row])

    def _link(self, before: int, after: int) -> None:
        if before:
            self._columns.after[before] = after
        if after:
            self._columns.before[after] = before

    @staticmethod
    def _walk(links: Sequence[int] | NDArray[np.int32], row: int, steps: int) -> list[int]:
        found: list[int] = []
        while steps > len(found) and (row := int(links[row])):
            found.append(row)
        return found
