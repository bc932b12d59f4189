"""Documents of rows, and rows of documents.

Rows of a checkpoint stay as they were read: keys as bytes and one order over them, found by bisection, so that
opening makes no object per document. Later ones are in a list and a dictionary.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elytron_core.ports.store import Ref
from elytron_index.structures.columns import Rows, whole_numbers

NOBODY = Ref("", "")

Keys = NDArray[np.bytes_]


class Kept:
    """The refs of rows 1 on as a checkpoint holds them: a collection's number and a key each, and an order by key."""

    __slots__ = ("collections", "keys", "kinds", "order")

    def __init__(self, collections: Sequence[str], kinds: NDArray[np.int32], keys: Keys, order: Rows, /) -> None:
        self.collections = collections
        self.kinds = kinds
        self.keys = keys
        self.order = order

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, place: int, /) -> Ref:
        return Ref(self.collections[int(self.kinds[place])], self.keys[place].decode("ascii"))

    def rows(self, ref: Ref, /) -> tuple[int, ...]:
        """Return the rows of `ref`, ascending."""
        key = ref.key.encode("ascii", "replace")
        place = bisect_left(self.order, key, key=lambda row: bytes(self.keys[row - 1]))
        found: list[int] = []
        while place < len(self.order) and self.keys[self.order[place] - 1] == key:
            row = int(self.order[place])
            if self.collections[int(self.kinds[row - 1])] == ref.collection:
                found.append(row)
            place += 1
        return tuple(found)


class Refs:
    """The ref of every row, and the rows of every ref."""

    def __init__(self, kept: Kept | None = None, documents: int = 0, /) -> None:
        self._kept = kept
        self._first = 1 + (len(kept) if kept is not None else 0)
        self._fresh: list[Ref] = []
        self._rows: dict[Ref, tuple[int, ...]] = {}
        self.documents = documents

    def __getitem__(self, row: int, /) -> Ref:
        if row >= self._first:
            return self._fresh[row - self._first]
        return self._kept[row - 1] if self._kept is not None and row else NOBODY

    def of(self, rows: NDArray[np.integer[Any]], /) -> list[Ref]:
        """Return the refs of `rows`, in that order."""
        places = whole_numbers(rows)
        kept, first = self._kept, self._first
        if not places or min(places) >= first:
            return [self._fresh[row - first] for row in places]
        if kept is None or min(places) < 1 or max(places) >= first:
            return [self[row] for row in places]
        collections, at = kept.collections, rows - 1
        pairs = zip(whole_numbers(kept.kinds[at]), kept.keys[at].tolist(), strict=True)
        return [Ref(collections[kind], key.decode("ascii")) for kind, key in pairs]

    def __len__(self) -> int:
        return self._first + len(self._fresh)

    def get(self, ref: Ref, default: tuple[int, ...] = (), /) -> tuple[int, ...]:
        """Return the living rows of `ref`, in the order in which they came."""
        rows = self._rows.get(ref)
        if rows is None and self._kept is not None:
            rows = self._kept.rows(ref)
        return rows or default

    def extend(self, refs: Sequence[Ref], /) -> None:
        """Give the next rows to `refs`, one each."""
        rows_of = self._rows
        for row, ref in enumerate(refs, len(self)):
            rows = self.get(ref)
            self.documents += not rows
            rows_of[ref] = (*rows, row)
        self._fresh += refs

    def forget(self, ref: Ref, /) -> tuple[int, ...]:
        """Take all rows from `ref` and return them; they keep its name until they are gone."""
        rows = self.get(ref)
        self.documents -= bool(rows)
        if self._kept is not None:
            self._rows[ref] = ()
        else:
            self._rows.pop(ref, None)
        return rows

    def taken(self, rows: Rows, /) -> "Refs":
        """Return the refs of `rows`, which are all the living ones, numbered from 1 on."""
        return Refs(*packed([self[row] for row in whole_numbers(rows)]))

    def frozen(self) -> "Refs":
        """Return the refs of all rows as they stand; the rows of a ref are not asked of it."""
        refs = Refs(self._kept, self.documents)
        refs._fresh = self._fresh.copy()
        return refs

    def kept(self) -> Kept:
        """Return all refs, of which none may be of a dead row, as a checkpoint holds them."""
        if self._kept is not None and not self._fresh:
            return self._kept
        return packed([self[row] for row in range(1, len(self))])[0]

    @property
    def size_bytes(self) -> int:
        kept = self._kept
        arrays = kept.keys.nbytes + kept.kinds.nbytes + kept.order.nbytes if kept is not None else 0
        return arrays + 250 * len(self._rows) + 8 * len(self._fresh)

    def __iter__(self) -> Iterator[Ref]:
        return (self[row] for row in range(len(self)))


def packed(refs: Sequence[Ref], /) -> tuple[Kept, int]:
    """Return `refs` as a checkpoint holds them, and how many different ones there are."""
    collections = {name: number for number, name in enumerate(dict.fromkeys(ref.collection for ref in refs))}
    kinds = np.array([collections[ref.collection] for ref in refs], np.int32)
    keys: Keys = np.array([ref.key.encode("ascii") for ref in refs] or np.zeros(0, "S1"), np.bytes_)
    order: Any = np.argsort(keys, kind="stable").astype(np.int32) + np.int32(1)
    return Kept(list(collections), kinds, keys, order), len(set(refs))
