"""The attributes of all units as columns: one growable array per attribute, one row per unit.

Row 0 is not a unit: it is dead, has no neighbours, and is the target of absent links.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from elytron_core.ports.store import DocumentRef
from elytron_index.lexicon.text_vectors import DIMENSIONS

Rows = NDArray[np.int32]
Mask = NDArray[np.bool_]

DTYPES: Final[dict[str, str]] = {
    "plane": "<i4", "speaker": "<i4", "role": "<i4", "thread": "<i4", "scope": "<i4", "tags": "<i4",
    "part": "<i4", "order": "<i8", "at": "<i8", "sequence": "<i8", "trust": "<i4",
    "valid_from": "<i8", "valid_to": "<i8", "recorded_at": "<i8", "closed_at": "<i8",
    "chars": "<i4", "informative": "<f4", "body_terms": "<i4", "title_terms": "<i4",
    "check": "<i8", "text_vector": f"|V{DIMENSIONS}", "text_length": "<f4",
    "language_vector": f"|V{DIMENSIONS}", "language_length": "<f4", "traits": "<i4", "told": "<f4",
}  # fmt: skip
"""Every column of a unit, in the order in which `append` takes the values."""
_ARRAYS: Final = (*DTYPES, "before", "after", "alive")
_ROWS_AT_ONCE: Final = 1 << 14
_ROW_BYTES: Final = sum(np.dtype(dtype).itemsize for dtype in (*DTYPES.values(), np.int32, np.int32, np.bool_))
"""Bytes of a row in all columns, including its neighbours and its live mark."""


def whole_numbers(values: NDArray[np.integer[Any]], /) -> list[int]:
    """Return `values` as Python numbers."""
    return values.tolist()


class UnitColumns:
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
    sequence: NDArray[np.int64]
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
    language_vector: NDArray[np.void]
    language_length: NDArray[np.float32]
    traits: NDArray[np.int32]
    told: NDArray[np.float32]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    alive: Mask

    def __init__(self, capacity: int = 64, /) -> None:
        self.size = 1
        self.dead = 0
        self._is_borrowed = False
        self._is_shared = False
        for name, dtype in DTYPES.items():
            setattr(self, name, np.zeros(capacity, dtype))
        self.before = np.zeros(capacity, np.int32)
        self.after = np.zeros(capacity, np.int32)
        self.alive = np.zeros(capacity, np.bool_)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], /) -> "UnitColumns":
        """Return columns of living rows backed by `arrays`, including row 0; they are copied before one is written."""
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

    def frozen(self) -> "UnitColumns":
        """Return a snapshot of these columns, unaffected by new and removed rows."""
        # Rows are only appended, so views of the columns suffice. Live marks change in place.
        columns = UnitColumns.of({name: getattr(self, name)[: self.size] for name in DTYPES})
        columns.alive = self.alive[: self.size].copy()
        columns.dead = self.dead
        self._is_shared = True
        return columns

    def own(self) -> None:
        """Copy what still belongs to a checkpoint, with room for more."""
        if self._is_borrowed:
            self._is_borrowed = False
            self._grow(self.size + max(64, self.size // 4))

    def own_parts(self) -> Iterator[None]:
        """Copy what belongs to a checkpoint or was frozen, some rows at a time; a change in between copies
        everything."""
        self._is_borrowed |= self._is_shared
        self._is_shared = False
        capacity = self.size + max(64, self.size // 4)
        for name in _ARRAYS:
            if not self._is_borrowed:
                return
            old_column = getattr(self, name)
            new_column = np.zeros(capacity, old_column.dtype)
            for start in range(0, self.size, _ROWS_AT_ONCE):
                rows = slice(start, min(start + _ROWS_AT_ONCE, self.size))
                new_column[rows] = old_column[rows]
                yield
                if not self._is_borrowed:
                    return
            setattr(self, name, new_column)
        self._is_borrowed = False

    def purge(self) -> None:
        """Write zeros to all columns of removed rows; earlier snapshots do not change."""
        for _ in self.own_parts():
            pass
        removed_rows = np.flatnonzero(~self.alive[: self.size])
        for name in (*DTYPES, "before", "after"):
            column = getattr(self, name)
            column[removed_rows] = np.zeros((), column.dtype)

    def append(self, records: Sequence[tuple[Any, ...]], /) -> int:
        """Add one row per record (values as `DTYPES` orders them) and return the first row's number."""
        self.own()
        first_row, end_row = self.size, self.size + len(records)
        if end_row > len(self.alive):
            self._grow(max(end_row, 2 * len(self.alive)))
        for name, values in zip(DTYPES, zip(*records, strict=True), strict=True):
            getattr(self, name)[first_row:end_row] = values
        self.before[first_row:end_row] = 0
        self.after[first_row:end_row] = 0
        self.alive[first_row:end_row] = True
        self.size = end_row
        return first_row

    def remove_row(self, row: int, /) -> None:
        """Mark `row` as removed."""
        self.alive[row] = False
        self.dead += 1

    def times(self, rows: NDArray[np.integer], /) -> NDArray[np.int64]:
        """Return the times that order `rows`: none is later than its recording, if that is known."""
        claimed_at, recorded_at = self.at.take(rows), self.recorded_at.take(rows)
        return np.where((recorded_at != 0) & (recorded_at < claimed_at), recorded_at, claimed_at)

    def time(self, row: int, /) -> int:
        """Return the time of one row, as `times` does."""
        claimed_at, recorded_at = int(self.at[row]), int(self.recorded_at[row])
        return min(claimed_at, recorded_at) if recorded_at else claimed_at

    def is_foreign(self, rows: NDArray[np.integer], /) -> Mask:
        """Return which of `rows` have a text that is not in English."""
        return (self.text_length.take(rows) == 0.0) & (self.language_length.take(rows) > 0.0)

    def take(self, rows: Rows, /) -> "UnitColumns":
        """Return new columns with `rows` in that order, all alive and not linked."""
        columns = UnitColumns(len(rows) + 1)
        for name in DTYPES:
            getattr(columns, name)[1:] = getattr(self, name)[rows]
        columns.alive[1:] = True
        columns.size = len(rows) + 1
        return columns

    def lengths(self, field: int, /) -> NDArray[np.int32]:
        """Return the number of terms of each row in a field."""
        return (self.body_terms, self.title_terms)[field]

    @property
    def count(self) -> int:
        """Number of live units."""
        return self.size - 1 - self.dead

    @property
    def size_bytes(self) -> int:
        return _ROW_BYTES * len(self.alive)

    def _grow(self, capacity: int) -> None:
        for name in _ARRAYS:
            old_column = getattr(self, name)
            new_column = np.zeros(capacity, old_column.dtype)
            new_column[: self.size] = old_column[: self.size]
            setattr(self, name, new_column)


NOBODY = DocumentRef("", "")

Keys = NDArray[np.bytes_]


class StoredRefs:
    """The refs of rows 1 on as stored in a checkpoint: a collection's number and a key each, and an order by key."""

    __slots__ = ("collections", "keys", "kinds", "order")

    def __init__(self, collections: Sequence[str], kinds: NDArray[np.int32], keys: Keys, order: Rows, /) -> None:
        self.collections = collections
        self.kinds = kinds
        self.keys = keys
        self.order = order

    def copy(self) -> "StoredRefs":
        """Return a copy in its own memory."""
        return StoredRefs(self.collections, self.kinds.copy(), self.keys.copy(), self.order.copy())

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int, /) -> DocumentRef:
        return DocumentRef(self.collections[int(self.kinds[index])], self.keys[index].decode("ascii"))

    def rows(self, ref: DocumentRef, /) -> tuple[int, ...]:
        """Return the rows of `ref`, ascending."""
        key = ref.key.encode("ascii", "replace")
        index = bisect_left(self.order, key, key=lambda row: bytes(self.keys[row - 1]))
        rows: list[int] = []
        while index < len(self.order) and self.keys[self.order[index] - 1] == key:
            row = int(self.order[index])
            if self.collections[int(self.kinds[row - 1])] == ref.collection:
                rows.append(row)
            index += 1
        return tuple(rows)


class RowRefs:
    """The ref of every row, and the rows of every ref."""

    def __init__(self, stored_refs: StoredRefs | None = None, documents: int = 0, /) -> None:
        self._stored = stored_refs
        self._first = 1 + (len(stored_refs) if stored_refs is not None else 0)
        self._fresh: list[DocumentRef] = []
        self._rows: dict[DocumentRef, tuple[int, ...]] = {}
        self.documents = documents

    def __getitem__(self, row: int, /) -> DocumentRef:
        if row >= self._first:
            return self._fresh[row - self._first]
        return self._stored[row - 1] if self._stored is not None and row else NOBODY

    def of(self, rows: NDArray[np.integer[Any]], /) -> list[DocumentRef]:
        """Return the refs of `rows`, in that order."""
        row_numbers = whole_numbers(rows)
        stored_refs, first_fresh = self._stored, self._first
        if not row_numbers or min(row_numbers) >= first_fresh:
            return [self._fresh[row - first_fresh] for row in row_numbers]
        if stored_refs is None or min(row_numbers) < 1 or max(row_numbers) >= first_fresh:
            return [self[row] for row in row_numbers]
        collections, stored_places = stored_refs.collections, rows - 1
        numbers_and_keys = zip(
            whole_numbers(stored_refs.kinds[stored_places]), stored_refs.keys[stored_places].tolist(), strict=True
        )
        return [
            DocumentRef(collections[collection_number], key.decode("ascii"))
            for collection_number, key in numbers_and_keys
        ]

    def __len__(self) -> int:
        return self._first + len(self._fresh)

    def get(self, ref: DocumentRef, default: tuple[int, ...] = (), /) -> tuple[int, ...]:
        """Return the living rows of `ref`, in order of arrival."""
        rows = self._rows.get(ref)
        if rows is None and self._stored is not None:
            rows = self._stored.rows(ref)
        return rows or default

    def extend(self, refs: Sequence[DocumentRef], /) -> None:
        """Assign the next rows to `refs`, one each."""
        rows_of = self._rows
        for row, ref in enumerate(refs, len(self)):
            rows = self.get(ref)
            self.documents += not rows
            rows_of[ref] = (*rows, row)
        self._fresh += refs

    def forget(self, ref: DocumentRef, /) -> tuple[int, ...]:
        """Remove all rows from `ref` and return them; they keep its name until they are gone."""
        rows = self.get(ref)
        self.documents -= bool(rows)
        # An empty entry hides the rows that the checkpoint has for `ref`.
        if self._stored is not None:
            self._rows[ref] = ()
        else:
            self._rows.pop(ref, None)
        return rows

    def own(self) -> None:
        """Copy what belongs to a checkpoint."""
        self._stored = self._stored.copy() if self._stored is not None else None

    def select_rows(self, rows: Rows, /) -> "RowRefs":
        """Return the refs of `rows`, which must be all the living ones, numbered from 1 on."""
        return RowRefs(*pack_refs([self[row] for row in whole_numbers(rows)]))

    def frozen(self) -> "RowRefs":
        """Return a snapshot of the refs of all rows, without lookup by ref."""
        refs = RowRefs(self._stored, self.documents)
        refs._fresh = self._fresh.copy()
        return refs

    def to_stored(self) -> StoredRefs:
        """Return all refs, none of which may be of a dead row, as stored in a checkpoint."""
        if self._stored is not None and not self._fresh:
            return self._stored
        return pack_refs([self[row] for row in range(1, len(self))])[0]

    @property
    def size_bytes(self) -> int:
        stored_refs = self._stored
        array_bytes = (
            stored_refs.keys.nbytes + stored_refs.kinds.nbytes + stored_refs.order.nbytes
            if stored_refs is not None
            else 0
        )
        return array_bytes + 250 * len(self._rows) + 8 * len(self._fresh)

    def __iter__(self) -> Iterator[DocumentRef]:
        return (self[row] for row in range(len(self)))


def pack_refs(refs: Sequence[DocumentRef], /) -> tuple[StoredRefs, int]:
    """Return `refs` as stored in a checkpoint, and the number of distinct ones."""
    collections = {name: number for number, name in enumerate(dict.fromkeys(ref.collection for ref in refs))}
    collection_numbers = np.array([collections[ref.collection] for ref in refs], np.int32)
    # NumPy cannot derive a width from an empty list.
    keys: Keys = np.array([ref.key.encode("ascii") for ref in refs] or np.zeros(0, "S1"), np.bytes_)
    order: Any = np.argsort(keys, kind="stable").astype(np.int32) + np.int32(1)
    return StoredRefs(list(collections), collection_numbers, keys, order), len(set(refs))


Value = TypeVar("Value", bound=Hashable)
Codes = NDArray[np.int32]


class ValueInterner(Generic[Value]):
    """Gives each distinct value a code, ascending from 0 for the `empty` one."""

    def __init__(self, empty: Value, /) -> None:
        self._codes: dict[Value, int] = {empty: 0}
        self.values: list[Value] = [empty]

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: Value, /) -> int:
        """Return the code of `value`, assigning a new one if it has none."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def codes_of(self, values: Iterable[Value], /) -> list[int]:
        """Return the codes of those `values` that have one."""
        return [code for value in values if (code := self._codes.get(value)) is not None]

    def shrink(self, column: Codes, /) -> Codes:
        """Keep only the codes in `column`, renumber them, and return the column in the new codes."""
        # Code 0 is the empty value and stays, even if no row has it.
        codes, new_codes = np.unique(np.append(column, 0), return_inverse=True)
        self.values = [self.values[code] for code in codes.tolist()]
        self._codes = {value: code for code, value in enumerate(self.values)}
        return new_codes[:-1].astype(np.int32)

    def purge(self, column: Codes, /) -> list[int]:
        """Replace values whose codes are not in `column` by the empty value; return these codes, which stay
        reserved."""
        is_used = np.zeros(len(self.values), np.bool_)
        is_used[column] = is_used[0] = True
        empty_value = self.values[0]
        unused_codes = [code for code in whole_numbers(np.flatnonzero(~is_used)) if self.values[code] != empty_value]
        for code in unused_codes:
            del self._codes[self.values[code]]
            self.values[code] = empty_value
        return unused_codes

    def load(self, values: Sequence[Value], /) -> None:
        """Load `values` in the order of their codes."""
        self.values = list(values)
        self._codes = {value: code for code, value in enumerate(self.values)}
