"""Cache of the rows that match a filter, and of each row's neighbours: computed once, valid until a change.

A search looks up the neighbours of the rows it weighs. Once as many lookups were made as there are rows, all neighbours
are computed and cached.
"""

import json
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.contracts.recall import Scalar
from elytron_core.policy.ranking.filters import filters_hold
from elytron_core.ports.store import DocumentRef
from elytron_core.text.traits import TextTrait
from elytron_index.query import METADATA, UnitFilters
from elytron_index.structures.columns import Codes, Mask, RowRefs, UnitColumns, ValueInterner
from elytron_index.structures.embeddings import ModelVectors

CODED_COLUMNS: Final = ("plane", "speaker", "role", "thread", "scope", "tags")
"""The columns that contain codes."""


class InternedNames:
    """The interned words of a space: the values of the code columns."""

    def __init__(self) -> None:
        self.plane = ValueInterner("")
        self.speaker = ValueInterner("")
        self.role = ValueInterner("")
        self.thread = ValueInterner("")
        self.scope: ValueInterner[tuple[tuple[str, str], ...]] = ValueInterner(())
        self.tags: ValueInterner[tuple[str, ...]] = ValueInterner(())

    def copy(self) -> "InternedNames":
        """Return the same words under the same codes."""
        names = InternedNames()
        for name in CODED_COLUMNS:
            getattr(names, name).load(getattr(self, name).values)
        return names


def visible_rows(filters: UnitFilters, columns: UnitColumns, names: InternedNames, /) -> Mask:
    """Return which rows are visible."""
    size = columns.size
    is_visible = columns.alive[:size].copy()
    if filters.planes:
        is_visible &= _holds_code(columns.plane[:size], names.plane.codes_of(filters.planes), len(names.plane))
    for scope_name, values in filters.scope:
        allowed_values = set(values)
        codes = [
            code for code, scope in enumerate(names.scope.values) if _scope_part(scope, scope_name) in allowed_values
        ]
        is_visible &= _holds_code(columns.scope[:size], codes, len(names.scope))
    if filters.as_of is not None:
        valid_to = columns.valid_to[:size]
        # A bound of 0 is unknown or open and excludes no moment.
        is_visible &= (columns.valid_from[:size] <= filters.as_of) | (columns.valid_from[:size] == 0)
        is_visible &= (valid_to > filters.as_of) | (valid_to == 0)
    closed_at = columns.closed_at[:size]
    if filters.known_at is None:
        is_visible &= closed_at == 0
    else:
        is_visible &= (columns.recorded_at[:size] <= filters.known_at) | (columns.recorded_at[:size] == 0)
        is_visible &= (closed_at > filters.known_at) | (closed_at == 0)
    if filters.min_trust is not None:
        is_visible &= columns.trust[:size] >= filters.min_trust
    return is_visible


def asked_rows(
    filters: UnitFilters,
    is_visible: Mask,
    columns: UnitColumns,
    names: InternedNames,
    excluded_row_numbers: Sequence[int],
    /,
) -> Mask:
    """Return which of the rows `is_visible` are selected: `is_visible` itself if all are."""
    if _asks_for_all(filters, excluded_row_numbers):
        return is_visible
    size = columns.size
    is_selected = is_visible.copy()
    if filters.speakers:
        is_selected &= _holds_code(columns.speaker[:size], names.speaker.codes_of(filters.speakers), len(names.speaker))
    if filters.roles:
        is_selected &= _holds_code(columns.role[:size], names.role.codes_of(filters.roles), len(names.role))
    if filters.threads:
        is_selected &= _holds_code(columns.thread[:size], names.thread.codes_of(filters.threads), len(names.thread))
    if filters.since is not None:
        is_selected &= columns.at[:size] >= filters.since
    if filters.until is not None:
        is_selected &= columns.at[:size] < filters.until
    if filters.tags_any or filters.tags_all:
        any_tags, all_tags = set(filters.tags_any), set(filters.tags_all)
        codes = [
            code
            for code, tags in enumerate(names.tags.values)
            if all_tags.issubset(tags) and (not any_tags or not any_tags.isdisjoint(tags))
        ]
        is_selected &= _holds_code(columns.tags[:size], codes, len(names.tags))
    if filters.where:
        codes = [
            code for code, scope in enumerate(names.scope.values) if filters_hold(filters.where, _scope_metadata(scope))
        ]
        is_selected &= _holds_code(columns.scope[:size], codes, len(names.scope))
    if excluded_row_numbers:
        is_selected[excluded_row_numbers] = False
    return is_selected


def excluded_rows(refs: Iterable[DocumentRef], rows_of: RowRefs, /) -> list[int]:
    """Return the rows of `refs`."""
    rows: list[int] = []
    for ref in refs:
        rows += rows_of.get(ref)
    return rows


def _asks_for_all(filters: UnitFilters, excluded_row_numbers: Sequence[int]) -> bool:
    has_name_filter = filters.speakers or filters.roles or filters.threads or filters.tags_any or filters.tags_all
    return (
        not (has_name_filter or filters.where or excluded_row_numbers)
        and filters.since is None
        and filters.until is None
    )


def _scope_metadata(scope: tuple[tuple[str, str], ...]) -> dict[str, Scalar]:
    return {name.removeprefix(METADATA): json.loads(value) for name, value in scope if name.startswith(METADATA)}


def _scope_part(scope: tuple[tuple[str, str], ...], part: str) -> str:
    return next((value for name, value in scope if name == part), "")


def _holds_code(column: Codes, codes: list[int], code_count: int) -> Mask:
    if len(codes) == 1:
        return column == codes[0]
    is_allowed = np.zeros(code_count, np.bool_)
    is_allowed[codes] = True
    return is_allowed[column]


Rows = NDArray[np.int64]
Lines = NDArray[np.int32] | NDArray[np.int64]

_TALK_MS: Final = 8 * 3_600_000
"""Time difference from which a neighbour in the thread contributes nothing."""
_THREAD_MOST: Final = 3
_ASKS: Final = int(TextTrait.ASKS)
_ENDS_ASKING: Final = int(TextTrait.ENDS_ASKING)

_SIGHTS_KEPT: Final = 12
_ROWS_KEPT: Final = 1 << 15
"""In a larger space no neighbours are cached, because few of the rows are ever weighed."""
_PART_KEPT: Final = 4
"""Nor if fewer than one in this many rows are visible."""
_ROW_BYTES: Final = 48
_FOREVER: Final = sys.maxsize


@dataclass(frozen=True, slots=True)
class RowNeighbours:
    """Some rows with their neighbours, and the properties that do not depend on the question.

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
        """1 if the one before asks and this one does not end in a question."""
        return self.numbers[7]

    @property
    def threads(self) -> Lines:
        return self.numbers[8]

    @property
    def chars(self) -> Lines:
        return self.numbers[9]

    def of(self, rows: Rows, /) -> "RowNeighbours":
        """Return the same for some of the rows, if these are all."""
        # NumPy indexes with numbers of this size; it would widen narrower ones each time.
        return RowNeighbours(self.numbers.take(rows, axis=1).astype(np.int64), self.telling.take(rows, axis=1))


class VisibleRows:
    """Visible rows under some filters, valid from `since` on and before `until` if they name a moment."""

    __slots__ = ("_all", "_columns", "_compared", "_looked_up", "_sizes", "count", "mask", "since", "until")

    def __init__(self, columns: UnitColumns, mask: Mask, since: int, until: int, /) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self.since = since
        self.until = until
        self._columns = columns
        self._sizes = _thread_sizes(columns, mask)
        self._all: RowNeighbours | None = None
        self._looked_up = 0
        self._compared: dict[str, Mask | None] = {}

    def around(self, rows: Rows, /) -> RowNeighbours:
        """Return `rows`, which must all be visible, with their neighbours."""
        size = len(self.mask)
        if self._all is None and size <= _ROWS_KEPT and self.count * _PART_KEPT >= size:
            self._looked_up += len(rows)
            if self._looked_up >= size:
                self._all = _row_neighbours(self._columns, self.mask, self._sizes, np.arange(size))
        return _row_neighbours(self._columns, self.mask, self._sizes, rows) if self._all is None else self._all.of(rows)

    def compared(self, model: str, vectors: ModelVectors, /) -> Mask | None:
        """Return the rows comparable by `model`, whose vectors are `vectors`; None if there are none."""
        if model not in self._compared:
            is_compared = vectors.has(len(self.mask)) & self.mask
            self._compared[model] = is_compared if is_compared.any() else None
        return self._compared[model]


class VisibleRowsCache:
    """The recently used visible rows of one state of a space's units."""

    def __init__(self, columns: UnitColumns, names: InternedNames, /) -> None:
        self._columns = columns
        self._names = names
        self._cache: dict[object, VisibleRows] = {}

    def of(self, filters: UnitFilters, /) -> VisibleRows:
        """Return the visible rows under `filters`."""
        moment = filters.as_of
        # The moment itself is not part of the key: one result serves all moments between two changes of validity.
        key = (filters.planes, filters.scope, filters.known_at, filters.min_trust, moment is None)
        cached_view = self._cache.pop(key, None)
        if cached_view is None or not (moment is None or cached_view.since <= moment < cached_view.until):
            since, until = (-_FOREVER, _FOREVER) if moment is None else _moment_span(self._columns, moment)
            cached_view = VisibleRows(self._columns, visible_rows(filters, self._columns, self._names), since, until)
            if len(self._cache) >= _SIGHTS_KEPT:
                del self._cache[next(iter(self._cache))]
        self._cache[key] = cached_view
        return cached_view

    @property
    def size_bytes(self) -> int:
        """Approximate memory if the whole space was searched."""
        return _ROW_BYTES * min(self._columns.size, _ROWS_KEPT) + self._columns.size


def _moment_span(columns: UnitColumns, moment: int) -> tuple[int, int]:
    """Return since when and until when the same is valid in the world as at `moment`."""
    change_times = np.concatenate((columns.valid_from[: columns.size], columns.valid_to[: columns.size]))
    change_times = change_times[change_times != 0]
    is_past = change_times <= moment
    return int(change_times.max(where=is_past, initial=-_FOREVER)), int(
        change_times.min(where=~is_past, initial=_FOREVER)
    )


def _thread_sizes(columns: UnitColumns, is_visible: Mask) -> NDArray[np.int64]:
    """Return how many units of each thread are visible, 1 to 3."""
    counts = np.bincount(columns.thread[: len(is_visible)], is_visible, minlength=1).astype(np.int64)
    counts[0] = 1
    return np.clip(counts, 1, _THREAD_MOST)


def _row_neighbours(columns: UnitColumns, is_visible: Mask, sizes: NDArray[np.int64], rows: Rows) -> RowNeighbours:
    previous_rows, next_rows, traits = columns.before, columns.after, columns.traits
    neighbour_numbers = np.empty((10, len(rows)), np.int32)
    lines: Lines = neighbour_numbers[:5]
    lines[0] = rows
    lines[1], lines[2] = previous_rows.take(rows), next_rows.take(rows)
    lines[3], lines[4] = previous_rows.take(lines[1]), next_rows.take(lines[2])
    lines *= is_visible.take(lines)
    times = columns.times(lines)
    # A talk resumed much later is another talk.
    lines *= (np.abs(times - times[0]) <= _TALK_MS) | (times == 0) | (times[0] == 0)
    np.add.reduce(columns.body_terms.take(lines), axis=0, out=neighbour_numbers[6])
    neighbour_numbers[7] = ((traits.take(lines[1]) & _ASKS) != 0) & ((traits.take(lines[0]) & _ENDS_ASKING) == 0)
    neighbour_numbers[5] = sizes.take(columns.thread.take(rows))
    neighbour_numbers[8], neighbour_numbers[9] = columns.thread.take(rows), columns.chars.take(rows)
    return RowNeighbours(neighbour_numbers, np.array((columns.told.take(rows), columns.informative.take(rows))))


Key = tuple[int, int, DocumentRef, int]


class ThreadRows:
    """Rows per thread, sorted by (order, at, ref, part). Maintains the links in the columns."""

    def __init__(self, columns: UnitColumns, refs: RowRefs, /) -> None:
        self._columns = columns
        self._refs = refs
        self._rows: dict[int, array[int]] = {}
        self._loaded = np.zeros(0, np.int32)
        """Rows of threads as loaded from a checkpoint, thread by thread; a thread that changed since is in `_rows`."""
        self._heads = np.zeros(0, np.int64)

    def insert(self, row: int, /) -> None:
        """Insert `row` in its thread; a row without a thread has none."""
        columns = self._columns
        thread = int(columns.thread[row])
        if not thread:
            return
        rows = self._of(thread)
        # Turns usually come in order. Then the position is the end, and no keys have to be compared.
        position = len(rows)
        if position and columns.order[rows[-1]] >= columns.order[row]:
            position = bisect_left(rows, self._key(row), key=self._key)
        previous_row = rows[position - 1] if position else 0
        next_row = rows[position] if position < len(rows) else 0
        rows.insert(position, row)
        self._link(previous_row, row)
        self._link(row, next_row)

    def remove(self, row: int, /) -> None:
        """Remove `row` from its thread and join its neighbours."""
        thread = int(self._columns.thread[row])
        if not thread:
            return
        rows = self._of(thread)
        # The sort key of a removed row is still known, because refs keep the names of dead rows.
        rows.pop(bisect_left(rows, self._key(row), key=self._key))
        self._link(int(self._columns.before[row]), int(self._columns.after[row]))

    def around(self, row: int, before: int, after: int, /) -> tuple[list[int], list[int]]:
        """Return up to `before` rows before `row` and up to `after` after it, in order."""
        return self._walk(self._columns.before, row, before)[::-1], self._walk(self._columns.after, row, after)

    def all_rows(self) -> NDArray[np.int32]:
        """Return the rows of all threads, thread by thread, each in order."""
        changed_rows = array("i")
        for rows in self._rows.values():
            changed_rows += rows
        unchanged_rows = self._loaded
        if self._rows:
            is_changed = np.zeros(1 + int(self._columns.thread[unchanged_rows].max(initial=0)), np.bool_)
            is_changed[[thread for thread in self._rows if thread < len(is_changed)]] = True
            is_changed[0] = True  # a purged row
            unchanged_rows = unchanged_rows[~is_changed[self._columns.thread[unchanged_rows]]]
        return np.concatenate((unchanged_rows, np.array(changed_rows, np.int32)))

    def load(self, rows: NDArray[np.int32], /) -> None:
        """Load `rows` as `all_rows` returned them."""
        columns = self._columns
        threads = columns.thread[rows]
        is_same_thread = threads[1:] == threads[:-1]
        self._loaded = rows
        self._heads = np.flatnonzero(np.concatenate((np.ones(min(1, len(rows)), np.bool_), ~is_same_thread)))
        columns.before[rows[1:]] = rows[:-1] * is_same_thread
        columns.after[rows[:-1]] = rows[1:] * is_same_thread

    def own(self) -> None:
        """Copy what belongs to a checkpoint."""
        self._loaded = self._loaded.copy()

    @property
    def size_bytes(self) -> int:
        return 220 * len(self._rows) + 8 * len(self._heads) + 4 * self._columns.size

    def _of(self, thread: int) -> "array[int]":
        """Return the rows of a thread that is about to change."""
        rows = self._rows.get(thread)
        if rows is None:
            rows = self._rows[thread] = array("i")
            head_places = np.flatnonzero(self._columns.thread[self._loaded[self._heads]] == thread)
            if len(head_places):
                thread_bounds = np.append(self._heads, len(self._loaded))
                rows.frombytes(
                    self._loaded[thread_bounds[head_places[0]] : thread_bounds[head_places[0] + 1]]
                    .astype(np.intc)
                    .tobytes()
                )
        return rows

    def _key(self, row: int) -> Key:
        columns = self._columns
        return int(columns.order[row]), int(columns.at[row]), self._refs[row], int(columns.part[row])

    def _link(self, previous_row: int, next_row: int) -> None:
        if previous_row:
            self._columns.after[previous_row] = next_row
        if next_row:
            self._columns.before[next_row] = previous_row

    @staticmethod
    def _walk(links: Sequence[int] | NDArray[np.int32], row: int, steps: int) -> list[int]:
        rows: list[int] = []
        while steps > len(rows) and (row := int(links[row])):
            rows.append(row)
        return rows
