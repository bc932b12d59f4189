"""Nearness of each unit's vector to the query's: one scan of rough cosines, made exact where it matters.

In a small space every rough cosine is refined with the numbers that the scan left out. In a large one this happens only
for rows that can be among the nearest or the lowest and for their neighbours, so it costs little more than the scan.

Selections from arrays are the highest values, the best of a pool in one total order, and the best three of each thread.
"""

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index.lexicon.text_vectors import (
    DIMENSIONS,
    LanguageVectors,
    TextVectors,
    encoded_cosines,
    text_codes,
    vector_length,
)
from elytron_index.query import IndexQuery
from elytron_index.structures.columns import Mask, UnitColumns, whole_numbers
from elytron_index.structures.embeddings import (
    ROUGH_STEP,
    MeasuredQuery,
    ModelVectors,
    ScannedQuery,
    dots_type,
    scan_rows,
)
from elytron_index.structures.index_state import IndexState
from elytron_index.structures.visibility import Lines, RowNeighbours, VisibleRows

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_MANY: Final = 1 << 15
_SAMPLED: Final = 4_096
_BITS: Final = np.uint64(32)
_BACK: Final = np.arange(3)[:, None]


def best_rows(state: IndexState, pool: Rows, score: Floats, limit: int, /) -> Rows:
    """Return the positions in `pool` of the `limit` best rows, best first.

    Order: score, newer, later in the journal, later in the thread, then ref and part. It is total, so that equal scores
    never depend on where a unit is kept.
    """
    best = np.arange(len(pool)) if len(pool) <= limit else (score >= edge_value(score, limit)).nonzero()[0]
    values = score.take(best)
    places = values.argsort()[::-1]
    ordered = values.take(places)
    # Only equal scores need the further keys, and refs are expensive to read.
    if len(best) <= limit and (ordered[1:] < ordered[:-1]).all():
        return best.take(places)
    return _best_of_equals(state, pool, score, limit)


def _best_of_equals(state: IndexState, pool: Rows, score: Floats, limit: int) -> Rows:
    columns = state.columns
    best = np.arange(len(pool))
    sure: list[Rows] = []
    # Narrowed key by key, so that refs are read for few rows.
    for key in (score, columns.times(pool), columns.sequence[pool], columns.order[pool]):
        missing_count = limit - sum(map(len, sure))
        if len(best) <= missing_count:
            break
        values = key[best]
        least = np.partition(values, len(values) - missing_count)[len(values) - missing_count]
        sure.append(best[values > least])
        best = best[values == least]
    best = np.concatenate((*sure, best))
    rows = pool[best]
    times = (columns.times(rows), columns.sequence[rows], columns.order[rows])
    keys = (-score[best], *(-key for key in times), np.arange(len(rows)))
    ordered: list[tuple[float, int, int, int, int]] = sorted(zip(*(key.tolist() for key in keys), strict=True))
    if any(former[:4] == latter[:4] for former, latter in pairwise(ordered)):
        # Only equal ones are ordered by their ref.
        refs, parts = state.refs.of(rows), whole_numbers(columns.part[rows])
        ordered.sort(key=lambda key: (*key[:4], refs[key[4]], parts[key[4]]))
    return best[[key[4] for key in ordered[:limit]]]


def best_three(values: Floats, threads: Lines, sizes: Lines, /) -> Floats:
    """Return for each line of `values`, one per unit, the mean of its thread's three best, none below 0.

    `sizes` is how many units its thread has, at most 3. A unit without a thread is alone.
    """
    if not values.shape[1]:
        return values
    # A single sort suffices: a non-negative float32 sorts as its bits do, after its thread's number.
    keys = (threads.astype(np.uint64) << _BITS) | values.astype(np.float32).view(np.uint32)
    keys.sort(axis=1)
    owners = keys[0] >> _BITS
    is_last = np.ones(len(owners), np.bool_)
    np.not_equal(owners[1:], owners[:-1], out=is_last[:-1])
    ends = is_last.nonzero()[0]
    places, thread_numbers = ends - _BACK, owners.take(ends)
    best = keys.take(places, axis=1, mode="wrap").astype(np.uint32).view(np.float32).astype(np.float64)
    # A thread of fewer than three units would extend into the thread before it.
    best *= places > np.concatenate(((-1,), ends[:-1]))
    of_thread = np.zeros((len(values), int(thread_numbers[-1]) + 1))
    of_thread[:, thread_numbers.astype(np.int64)] = np.add.reduce(best, axis=1)
    means = of_thread.take(threads, axis=1) / sizes
    # Thread 0 means no thread: its units were summed as if they were one.
    if not thread_numbers[0]:
        np.copyto(means, values, where=threads == 0)
    return means


def edge_value(values: Floats, count: int, /) -> float:
    """Return the `count`-th highest of `values`, which has more."""
    if len(values) >= _MANY:
        # A sample estimates the upper end; if it is wrong, all are read.
        sample = np.sort(values[:: len(values) // _SAMPLED])
        likely = values[values >= sample[-max(1, len(sample) * 4 * count // len(values))]]
        if len(likely) >= count:
            values = likely
    return float(np.partition(values, len(values) - count)[len(values) - count])


def highest_values(values: Floats, count: int, /) -> Mask | slice:
    """Return the positions of the `count` highest values, including ties with the lowest of them."""
    return slice(None) if len(values) <= count else values >= edge_value(values, count)


def likely_edge(values: NDArray[np.floating[Any]], eligible: Mask, count: int, /) -> float | None:
    """Return a value that slightly more than `count` of the `eligible` ones probably reach; None if all may."""
    step = len(values) // _SAMPLED
    if len(values) < _MANY:
        return None
    sample = values[::step][eligible[::step]]
    rank = 1 + 4 * count // step
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank]) if len(sample) > rank else None


_ROUGH: Final = 0.03
"""Two cosines that differ by more than this, roughly, also differ exactly."""
_LOWEST: Final = 256
"""Maximum number of the roughly lowest cosines that are computed exactly to find the lowest."""
LANGUAGES_SHARE: Final = 0.15
"""Share of the multilingual table in the similarity of two English texts."""
_SLACK: Final = 1e-6
"""Larger than the relative error of a product in single precision."""
LARGE: Final = 1 << 14
"""In spaces with fewer rows rough cosines are computed for all,"""
WHOLE: Final = 1 << 11
"""and with fewer than this exact ones too, because choosing would cost more."""


class SmallNearness:
    """The cosines of one query with every visible unit, above the lowest of them."""

    __slots__ = ("_compared", "_measured", "_rows", "_vectors", "lowest")

    def __init__(self, vectors: ModelVectors, measured: MeasuredQuery, compared: Mask, /) -> None:
        self._vectors = vectors
        self._measured = measured
        self._compared = compared
        self._rows: Rows = compared.nonzero()[0]
        self.lowest = self._find_lowest()
        """The lowest cosine of all, exactly."""

    def nearest(self, eligible: Mask, count: int, /) -> Rows:
        """Return the roughly `count` nearest of the rows `eligible`, including ties with the last."""
        rows: Rows = (eligible & self._compared).nonzero()[0]
        return _nearest_rows(rows, self._measured.rough.take(rows), count, self.lowest)

    def above(self, around: RowNeighbours, /) -> Floats:
        """Return for each row of `around` the cosine above the lowest: exact for those of its first line, the pool.

        It is 0 if there is nothing to compare.
        """
        pool = around.lines[0]
        above = self._measured.rough - self.lowest
        above[pool] = self._exact(pool) - self.lowest
        np.maximum(above, 0.0, out=above)
        above *= self._compared
        return above.take(around.lines)

    def _find_lowest(self) -> float:
        measured, rows = self._measured, self._rows
        if measured.exact is not None:
            return float(np.minimum.reduce(measured.exact.take(rows)))
        rough = measured.rough.take(rows)
        low: Rows = (rough <= np.minimum.reduce(rough) + _ROUGH).nonzero()[0]
        low = low[highest_values(-rough.take(low), _LOWEST)]
        return float(np.minimum.reduce(self._vectors.exact(measured.query, rows.take(low))))

    def _exact(self, rows: NDArray[np.integer]) -> Floats:
        measured = self._measured
        if measured.exact is not None:
            return measured.exact.take(rows)
        return self._vectors.exact(measured.query, rows)


class LargeNearness:
    """The same without computing all cosines."""

    __slots__ = ("_compared", "_dots", "_factor", "_products", "_query", "_vectors", "lowest")

    def __init__(self, vectors: ModelVectors, scanned: ScannedQuery, compared: Mask, /) -> None:
        self._vectors = vectors
        self._query = scanned.query
        self._compared = compared
        self._factor = scanned.query.peak * ROUGH_STEP
        self._dots, self._products = scanned.dots, scanned.products
        self.lowest = self._find_lowest()
        """The lowest cosine of all, exactly."""

    def nearest(self, rows_mask: Mask, count: int, /) -> Rows:
        """Return the roughly `count` nearest of the rows `rows_mask`, including ties with the last."""
        eligible = rows_mask & self._compared
        likely = likely_edge(self._products, eligible, count)
        rows = np.flatnonzero(eligible if likely is None else self._products >= likely)
        if likely is not None:
            rows = rows[eligible[rows]]
            # Products are in single precision, so only those clearly above the guess are certain.
            sure = likely + abs(likely) * _SLACK
            # The guess is made from a sample. If it was too high, all eligible rows are read.
            if likely * self._factor <= self.lowest + _SLACK or np.count_nonzero(self._products[rows] > sure) < count:
                rows = np.flatnonzero(eligible)
        return _nearest_rows(rows, self._rough(rows), count, self.lowest)

    def above(self, around: RowNeighbours, /) -> Floats:
        """Return for each row of `around` the cosine above the lowest: exact for those of its first line, the pool.

        It is 0 if there is nothing to compare.
        """
        pool, lines = around.lines[0], around.lines
        exact = np.maximum(self._vectors.exact(self._query, pool) - self.lowest, 0.0)
        rows = lines.ravel()
        cosines = np.maximum(self._rough(rows) - self.lowest, 0.0)
        if len(pool):
            # Neighbours that are in the pool themselves use the exact cosine. The rows of a pool ascend.
            places = pool.searchsorted(rows)
            within = np.flatnonzero(pool.take(places, mode="clip") == rows)
            cosines[within] = exact[places[within]]
        cosines[~self._compared[rows]] = 0.0
        return cosines.reshape(lines.shape)

    def _find_lowest(self) -> float:
        values = self._products
        least = int(values.argmin())
        # Hidden rows and row 0 were scanned too. The copy without them is made only if one of them is the lowest.
        if not self._compared[least]:
            values = np.where(self._compared, values, np.inf).astype(values.dtype, copy=False)
            least = int(values.argmin())
        edge = float(values[least])
        low = np.flatnonzero(values <= edge + _ROUGH / self._factor + _SLACK * (abs(edge) + _ROUGH / self._factor))
        low = low[self._compared[low]]
        rough = self._rough(low)
        near = rough <= rough.min() + _ROUGH
        low = low[near][highest_values(-rough[near], _LOWEST)]
        return float(self._vectors.exact(self._query, low).min())

    def _rough(self, rows: NDArray[np.integer]) -> Floats:
        """Return a cosine, accurate to some thousandths, for each of `rows`."""
        return self._dots[rows].astype(np.float64) * self._vectors.scaled(rows, self._factor)


Nearness = SmallNearness | LargeNearness


def query_nearness(state: IndexState, query: IndexQuery, sight: VisibleRows, /) -> Nearness | None:
    """Return the nearness of the units in `sight` to the vector of `query`; None if there is nothing to compare."""
    if query.vector is None:
        return None
    model = query.vector[0]
    vectors = state.vectors.models.get(model)
    # A recall searches several planes with one vector, so the last scan is cached with the state.
    scanned = state.scanned if state.scanned is not None and state.scanned.vector == query.vector else None
    query_code = scanned.query if scanned is not None else state.vectors.parse(query.vector, {}, field="query vector")
    compared = sight.compared(model, vectors) if vectors is not None else None
    if vectors is None or compared is None:
        return None
    size = state.columns.size
    if scanned is None and size < LARGE:
        scanned = vectors.measure(query.vector, query_code, size, whole=WHOLE)
    elif scanned is None:
        scanned = ScannedQuery(query.vector, query_code, *vectors.scan(query_code, size))
    state.scanned = scanned
    if isinstance(scanned, MeasuredQuery):
        return SmallNearness(vectors, scanned, compared)
    return LargeNearness(vectors, scanned, compared)


def _nearest_rows(rows: Rows, rough: Floats, count: int, lowest: float) -> Rows:
    """Return the `count` nearest of `rows`, including ties with the last; those not above the lowest are equal."""
    if len(rows) <= count or (least := edge_value(rough, count)) <= lowest:
        return rows
    return rows[rough >= least]


class TextLikeness:
    """The similarity of one query to every row: a cosine, 0 if either text has no known word."""

    __slots__ = ("_cosines", "is_foreign", "share")

    def __init__(self, columns: UnitColumns, text: str, /) -> None:
        english, languages = (codes[0] for codes in text_codes((text,)))
        size = columns.size
        near, many = _code_cosines(languages, columns.language_vector[:size], columns.language_length[:size])
        self.share = LanguageVectors.load().vocabulary.share(text) if many is not None else 0.0
        """Share of the query that the tables know."""
        self.is_foreign = many is not None and not english.any()
        """The query is not in English."""
        alike, both = _code_cosines(english, columns.text_vector[:size], columns.text_length[:size])
        if both is not None:
            self.share = max(self.share, TextVectors.load().vocabulary.share(text))
            shared = np.float32(LANGUAGES_SHARE)
            mixed = near * shared + alike * (np.float32(1.0) - shared)
            near = np.where(both & many, mixed, near + alike) if many is not None else alike
        self._cosines = near

    def nearest(self, eligible: Mask, count: int, /) -> Rows:
        """Return the `count` most similar of the rows `eligible`, including ties with the last."""
        rows: Rows = (eligible & (self._cosines > 0.0)).nonzero()[0]
        return rows[highest_values(self.at(rows), count)] if len(rows) > count else rows

    def at(self, rows: Lines | Rows, /) -> Floats:
        """Return the similarity of each of `rows`; row 0 has none."""
        return self._cosines.take(rows).astype(np.float64)


def text_likeness(one: str, other: str, /) -> float:
    """Return the similarity of two texts: a cosine, 0 if either has no known word."""
    codes = text_codes((one, other))
    english, languages = (float(encoded_cosines(pair[0], pair[1:])[0]) for pair in codes)
    is_both = all(pair.any(axis=1).all() for pair in codes)
    return LANGUAGES_SHARE * languages + (1.0 - LANGUAGES_SHARE) * english if is_both else english + languages


def _code_cosines(
    query_code: NDArray[np.int8], codes: NDArray[np.void], lengths: NDArray[np.float32], /
) -> tuple[NDArray[np.float32], Mask | None]:
    """Return the cosine of a code with each of `codes`, 0 if one is 0, and which have one; None if the code is 0."""
    cosines = np.zeros(len(lengths), np.float32)
    asked_length = vector_length(query_code)
    if not asked_length:
        return cosines, None
    dots = np.zeros(len(lengths), dots_type(DIMENSIONS))
    scan_rows(query_code, codes.view(np.int8).reshape(-1, DIMENSIONS), dots)
    has = lengths > 0.0
    np.divide(dots, lengths * np.float32(asked_length), out=cosines, where=has)
    return cosines, has
