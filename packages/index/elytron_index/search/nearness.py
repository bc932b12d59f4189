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
    best_places = np.arange(len(pool)) if len(pool) <= limit else (score >= edge_value(score, limit)).nonzero()[0]
    values = score.take(best_places)
    descending = values.argsort()[::-1]
    ordered_values = values.take(descending)
    # Only equal scores need the further keys, and refs are expensive to read.
    if len(best_places) <= limit and (ordered_values[1:] < ordered_values[:-1]).all():
        return best_places.take(descending)
    return _best_of_equals(state, pool, score, limit)


def _best_of_equals(state: IndexState, pool: Rows, score: Floats, limit: int) -> Rows:
    columns = state.columns
    best_places = np.arange(len(pool))
    sure_places: list[Rows] = []
    # Narrowed key by key, so that refs are read for few rows.
    for key in (score, columns.times(pool), columns.sequence[pool], columns.order[pool]):
        missing_count = limit - sum(map(len, sure_places))
        if len(best_places) <= missing_count:
            break
        values = key[best_places]
        least_value = np.partition(values, len(values) - missing_count)[len(values) - missing_count]
        sure_places.append(best_places[values > least_value])
        best_places = best_places[values == least_value]
    best_places = np.concatenate((*sure_places, best_places))
    rows = pool[best_places]
    tie_breakers = (columns.times(rows), columns.sequence[rows], columns.order[rows])
    keys = (-score[best_places], *(-key for key in tie_breakers), np.arange(len(rows)))
    ordered_keys: list[tuple[float, int, int, int, int]] = sorted(zip(*(key.tolist() for key in keys), strict=True))
    if any(former[:4] == latter[:4] for former, latter in pairwise(ordered_keys)):
        # Only equal ones are ordered by their ref.
        refs, parts = state.refs.of(rows), whole_numbers(columns.part[rows])
        ordered_keys.sort(key=lambda key: (*key[:4], refs[key[4]], parts[key[4]]))
    return best_places[[key[4] for key in ordered_keys[:limit]]]


def best_three(values: Floats, threads: Lines, sizes: Lines, /) -> Floats:
    """Return for each line of `values`, one per unit, the mean of its thread's three best, none below 0.

    `sizes` is how many units its thread has, at most 3. A unit without a thread is alone.
    """
    if not values.shape[1]:
        return values
    # A single sort suffices: a non-negative float32 sorts as its bits do, after its thread's number.
    keys = (threads.astype(np.uint64) << _BITS) | values.astype(np.float32).view(np.uint32)
    keys.sort(axis=1)
    key_threads = keys[0] >> _BITS
    is_last = np.ones(len(key_threads), np.bool_)
    np.not_equal(key_threads[1:], key_threads[:-1], out=is_last[:-1])
    thread_ends = is_last.nonzero()[0]
    top_places, thread_numbers = thread_ends - _BACK, key_threads.take(thread_ends)
    top_values = keys.take(top_places, axis=1, mode="wrap").astype(np.uint32).view(np.float32).astype(np.float64)
    # A thread of fewer than three units would extend into the thread before it.
    top_values *= top_places > np.concatenate(((-1,), thread_ends[:-1]))
    sums_by_thread = np.zeros((len(values), int(thread_numbers[-1]) + 1))
    sums_by_thread[:, thread_numbers.astype(np.int64)] = np.add.reduce(top_values, axis=1)
    means = sums_by_thread.take(threads, axis=1) / sizes
    # Thread 0 means no thread: its units were summed as if they were one.
    if not thread_numbers[0]:
        np.copyto(means, values, where=threads == 0)
    return means


def edge_value(values: Floats, count: int, /) -> float:
    """Return the `count`-th highest of `values`, which has more."""
    if len(values) >= _MANY:
        # A sample estimates the upper end; if it is wrong, all are read.
        sample = np.sort(values[:: len(values) // _SAMPLED])
        likely_values = values[values >= sample[-max(1, len(sample) * 4 * count // len(values))]]
        if len(likely_values) >= count:
            values = likely_values
    return float(np.partition(values, len(values) - count)[len(values) - count])


def highest_values(values: Floats, count: int, /) -> Mask | slice:
    """Return the positions of the `count` highest values, including ties with the lowest of them."""
    return slice(None) if len(values) <= count else values >= edge_value(values, count)


def likely_edge(values: NDArray[np.floating[Any]], is_eligible: Mask, count: int, /) -> float | None:
    """Return a value that slightly more than `count` of the `is_eligible` ones probably reach; None if all may."""
    sample_step = len(values) // _SAMPLED
    if len(values) < _MANY:
        return None
    sample = values[::sample_step][is_eligible[::sample_step]]
    sample_rank = 1 + 4 * count // sample_step
    return (
        float(np.partition(sample, len(sample) - sample_rank)[len(sample) - sample_rank])
        if len(sample) > sample_rank
        else None
    )


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

    def __init__(self, vectors: ModelVectors, measured_query: MeasuredQuery, is_compared: Mask, /) -> None:
        self._vectors = vectors
        self._measured = measured_query
        self._compared = is_compared
        self._rows: Rows = is_compared.nonzero()[0]
        self.lowest = self._find_lowest()
        """The lowest cosine of all, exactly."""

    def nearest(self, is_eligible: Mask, count: int, /) -> Rows:
        """Return the roughly `count` nearest of the rows `is_eligible`, including ties with the last."""
        compared_rows: Rows = (is_eligible & self._compared).nonzero()[0]
        return _nearest_rows(compared_rows, self._measured.rough.take(compared_rows), count, self.lowest)

    def above(self, around: RowNeighbours, /) -> Floats:
        """Return for each row of `around` the cosine above the lowest: exact for those of its first line, the pool.

        It is 0 if there is nothing to compare.
        """
        pool = around.lines[0]
        cosines_above = self._measured.rough - self.lowest
        cosines_above[pool] = self._exact(pool) - self.lowest
        np.maximum(cosines_above, 0.0, out=cosines_above)
        cosines_above *= self._compared
        return cosines_above.take(around.lines)

    def _find_lowest(self) -> float:
        measured_query, rows = self._measured, self._rows
        if measured_query.exact is not None:
            return float(np.minimum.reduce(measured_query.exact.take(rows)))
        rough_cosines = measured_query.rough.take(rows)
        low_places: Rows = (rough_cosines <= np.minimum.reduce(rough_cosines) + _ROUGH).nonzero()[0]
        low_places = low_places[highest_values(-rough_cosines.take(low_places), _LOWEST)]
        return float(np.minimum.reduce(self._vectors.exact(measured_query.query, rows.take(low_places))))

    def _exact(self, rows: NDArray[np.integer]) -> Floats:
        measured_query = self._measured
        if measured_query.exact is not None:
            return measured_query.exact.take(rows)
        return self._vectors.exact(measured_query.query, rows)


class LargeNearness:
    """The same without computing all cosines."""

    __slots__ = ("_compared", "_dots", "_factor", "_products", "_query", "_vectors", "lowest")

    def __init__(self, vectors: ModelVectors, scanned_query: ScannedQuery, is_compared: Mask, /) -> None:
        self._vectors = vectors
        self._query = scanned_query.query
        self._compared = is_compared
        self._factor = scanned_query.query.peak * ROUGH_STEP
        self._dots, self._products = scanned_query.dots, scanned_query.products
        self.lowest = self._find_lowest()
        """The lowest cosine of all, exactly."""

    def nearest(self, rows_mask: Mask, count: int, /) -> Rows:
        """Return the roughly `count` nearest of the rows `rows_mask`, including ties with the last."""
        is_eligible = rows_mask & self._compared
        guessed_edge = likely_edge(self._products, is_eligible, count)
        rows = np.flatnonzero(is_eligible if guessed_edge is None else self._products >= guessed_edge)
        if guessed_edge is not None:
            rows = rows[is_eligible[rows]]
            # Products are in single precision, so only those clearly above the guess are certain.
            certain_edge = guessed_edge + abs(guessed_edge) * _SLACK
            # The guess is made from a sample. If it was too high, all eligible rows are read.
            if (
                guessed_edge * self._factor <= self.lowest + _SLACK
                or np.count_nonzero(self._products[rows] > certain_edge) < count
            ):
                rows = np.flatnonzero(is_eligible)
        return _nearest_rows(rows, self._rough(rows), count, self.lowest)

    def above(self, around: RowNeighbours, /) -> Floats:
        """Return for each row of `around` the cosine above the lowest: exact for those of its first line, the pool.

        It is 0 if there is nothing to compare.
        """
        pool, lines = around.lines[0], around.lines
        exact_cosines = np.maximum(self._vectors.exact(self._query, pool) - self.lowest, 0.0)
        rows = lines.ravel()
        cosines = np.maximum(self._rough(rows) - self.lowest, 0.0)
        if len(pool):
            # Neighbours that are in the pool themselves use the exact cosine. The rows of a pool ascend.
            pool_places = pool.searchsorted(rows)
            neighbours_in_pool = np.flatnonzero(pool.take(pool_places, mode="clip") == rows)
            cosines[neighbours_in_pool] = exact_cosines[pool_places[neighbours_in_pool]]
        cosines[~self._compared[rows]] = 0.0
        return cosines.reshape(lines.shape)

    def _find_lowest(self) -> float:
        products = self._products
        least_row = int(products.argmin())
        # Hidden rows and row 0 were scanned too. The copy without them is made only if one of them is the lowest.
        if not self._compared[least_row]:
            products = np.where(self._compared, products, np.inf).astype(products.dtype, copy=False)
            least_row = int(products.argmin())
        least_product = float(products[least_row])
        low_rows = np.flatnonzero(
            products <= least_product + _ROUGH / self._factor + _SLACK * (abs(least_product) + _ROUGH / self._factor)
        )
        low_rows = low_rows[self._compared[low_rows]]
        rough_cosines = self._rough(low_rows)
        is_near = rough_cosines <= rough_cosines.min() + _ROUGH
        low_rows = low_rows[is_near][highest_values(-rough_cosines[is_near], _LOWEST)]
        return float(self._vectors.exact(self._query, low_rows).min())

    def _rough(self, rows: NDArray[np.integer]) -> Floats:
        """Return a cosine, accurate to some thousandths, for each of `rows`."""
        return self._dots[rows].astype(np.float64) * self._vectors.scaled(rows, self._factor)


Nearness = SmallNearness | LargeNearness


def query_nearness(state: IndexState, query: IndexQuery, visible_rows: VisibleRows, /) -> Nearness | None:
    """Return the nearness of the units in `visible_rows` to the vector of `query`; None if there is nothing to
    compare."""
    if query.vector is None:
        return None
    model = query.vector[0]
    vectors = state.vectors.models.get(model)
    # A recall searches several planes with one vector, so the last scan is cached with the state.
    scanned_query = state.scanned if state.scanned is not None and state.scanned.vector == query.vector else None
    query_code = (
        scanned_query.query
        if scanned_query is not None
        else state.vectors.parse(query.vector, {}, field="query vector")
    )
    is_compared = visible_rows.compared(model, vectors) if vectors is not None else None
    if vectors is None or is_compared is None:
        return None
    row_count = state.columns.size
    if scanned_query is None and row_count < LARGE:
        scanned_query = vectors.measure(query.vector, query_code, row_count, whole=WHOLE)
    elif scanned_query is None:
        scanned_query = ScannedQuery(query.vector, query_code, *vectors.scan(query_code, row_count))
    state.scanned = scanned_query
    if isinstance(scanned_query, MeasuredQuery):
        return SmallNearness(vectors, scanned_query, is_compared)
    return LargeNearness(vectors, scanned_query, is_compared)


def _nearest_rows(rows: Rows, rough_cosines: Floats, count: int, lowest_cosine: float) -> Rows:
    """Return the `count` nearest of `rows`, including ties with the last; those not above the lowest are equal."""
    if len(rows) <= count or (least_cosine := edge_value(rough_cosines, count)) <= lowest_cosine:
        return rows
    return rows[rough_cosines >= least_cosine]


class TextLikeness:
    """The similarity of one query to every row: a cosine, 0 if either text has no known word."""

    __slots__ = ("_cosines", "is_foreign", "share")

    def __init__(self, columns: UnitColumns, text: str, /) -> None:
        english_code, language_code = (codes[0] for codes in text_codes((text,)))
        row_count = columns.size
        cosines, has_language_vector = _code_cosines(
            language_code, columns.language_vector[:row_count], columns.language_length[:row_count]
        )
        self.share = LanguageVectors.load().vocabulary.share(text) if has_language_vector is not None else 0.0
        """Share of the query that the tables know."""
        self.is_foreign = has_language_vector is not None and not english_code.any()
        """The query is not in English."""
        english_cosines, has_english_vector = _code_cosines(
            english_code, columns.text_vector[:row_count], columns.text_length[:row_count]
        )
        if has_english_vector is not None:
            self.share = max(self.share, TextVectors.load().vocabulary.share(text))
            language_share = np.float32(LANGUAGES_SHARE)
            mixed_cosines = cosines * language_share + english_cosines * (np.float32(1.0) - language_share)
            cosines = (
                np.where(has_english_vector & has_language_vector, mixed_cosines, cosines + english_cosines)
                if has_language_vector is not None
                else english_cosines
            )
        self._cosines = cosines

    def nearest(self, is_eligible: Mask, count: int, /) -> Rows:
        """Return the `count` most similar of the rows `is_eligible`, including ties with the last."""
        rows: Rows = (is_eligible & (self._cosines > 0.0)).nonzero()[0]
        return rows[highest_values(self.at(rows), count)] if len(rows) > count else rows

    def at(self, rows: Lines | Rows, /) -> Floats:
        """Return the similarity of each of `rows`; row 0 has none."""
        return self._cosines.take(rows).astype(np.float64)


def text_likeness(text: str, other_text: str, /) -> float:
    """Return the similarity of two texts: a cosine, 0 if either has no known word."""
    codes = text_codes((text, other_text))
    english_cosine, language_cosine = (float(encoded_cosines(pair[0], pair[1:])[0]) for pair in codes)
    has_both = all(pair.any(axis=1).all() for pair in codes)
    return (
        LANGUAGES_SHARE * language_cosine + (1.0 - LANGUAGES_SHARE) * english_cosine
        if has_both
        else english_cosine + language_cosine
    )


def _code_cosines(
    query_code: NDArray[np.int8], codes: NDArray[np.void], lengths: NDArray[np.float32], /
) -> tuple[NDArray[np.float32], Mask | None]:
    """Return the cosine of a code with each of `codes`, 0 if one is 0, and which have one; None if the code is 0."""
    cosines = np.zeros(len(lengths), np.float32)
    query_length = vector_length(query_code)
    if not query_length:
        return cosines, None
    dots = np.zeros(len(lengths), dots_type(DIMENSIONS))
    scan_rows(query_code, codes.view(np.int8).reshape(-1, DIMENSIONS), dots)
    has_length = lengths > 0.0
    np.divide(dots, lengths * np.float32(query_length), out=cosines, where=has_length)
    return cosines, has_length
