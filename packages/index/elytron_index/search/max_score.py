"""The text side of a search in a large space: frequent words are read only where rarer ones leave a doubt.

The largest gain of a word is known before its postings are read. Once the best units exceed the sum of all remaining
words' gains, a unit without any other word cannot be among them. Results equal those of `elytron_index.search.bm25`,
number for number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elytron_index.query import Bm25Parameters, IndexQuery
from elytron_index.search import bm25
from elytron_index.search.bm25 import Floats, Integers, PoolScores, QueryTerms, Rows, TermSpread
from elytron_index.search.nearness import edge_value, highest_values
from elytron_index.structures.columns import Mask
from elytron_index.structures.index_state import IndexState
from elytron_index.structures.postings import CountTable, PostingRun, TextField, code_of
from elytron_index.structures.visibility import RowNeighbours

LARGE: Final = 1 << 14
"""In spaces with fewer rows everything is read at once."""
_SAFE: Final = 1e-9
"""Larger, as a share, than the difference between sums in another order."""


class WordHolders(NamedTuple):
    """Units with a word or its related words: rows ascending, how much of it, and whether it is the word itself."""

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8] | Floats
    exact: Mask | None
    """None if all have the word itself."""


@dataclass(frozen=True, slots=True)
class _FieldGain:
    """Gain of a term in one field: BM25 with the field's parameters, times the field's weight."""

    lengths: NDArray[np.int32]
    average: float
    parameters: Bm25Parameters
    weight: float

    def of(self, idf: float, rows: NDArray[np.integer[Any]], counts: NDArray[Any], /) -> Floats:
        k1, b = self.parameters.k1, self.parameters.b
        norm = k1 * (1.0 - b) + (k1 * b / self.average) * self.lengths[rows]
        counts = counts.astype(np.float64, copy=False)
        return (idf * (k1 + 1.0)) * (counts / (counts + norm))

    def most(self, idf: float, count: float, /) -> float:
        """Return the upper bound of the gain of up to `count` times the term."""
        k1, b = self.parameters.k1, self.parameters.b
        return self.weight * idf * (k1 + 1.0) * (count / (count + k1 * (1.0 - b)))


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A term of the query in one field, with all its units, dead or alive."""

    runs: Sequence[WordHolders]
    idf: float
    gains: _FieldGain
    table: CountTable | None = None

    @property
    def most(self) -> float:
        """Upper bound of a term's gain."""
        count = float(self.table.most) if self.table is not None else 0.0
        for run in self._behind():
            count = max(count, float(run.counts.max()))
        return self.gains.most(self.idf, count) if count else 0.0

    def at(self, rows: Integers, /) -> tuple[Floats, Floats]:
        """Return its count in each of `rows` (ascending), and 1 if that is the word itself."""
        counts, exact = np.zeros((2, len(rows)))
        table_end = 0
        if self.table is not None:
            # The table answers by row number. Only postings after its end have to be searched.
            table_end = int(rows.searchsorted(len(self.table.counts)))
            counts[:table_end] = self.table.counts[rows[:table_end]]
            exact[:table_end] = counts[:table_end] > 0.0
        for run in self._behind():
            first, last = rows.searchsorted((run.rows[0], run.rows[-1] + 1))
            first = max(first, table_end)
            candidates = rows[first:last]
            # The shorter list is searched for in the longer one.
            if len(candidates) <= len(run.rows):
                within = run.rows.searchsorted(candidates)
                places = np.flatnonzero(run.rows[within] == candidates)
                within = within[places]
            else:
                places = candidates.searchsorted(run.rows)
                within = np.flatnonzero(candidates.take(places, mode="clip") == run.rows)
                places = places[within]
            counts[first + places] = run.counts[within]
            exact[first + places] = 1.0 if run.exact is None else run.exact[within]
        return counts, exact

    def _behind(self) -> Sequence[WordHolders]:
        """Return the runs that extend beyond the table."""
        table = self.table
        return self.runs if table is None else [run for run in self.runs if run.rows[-1] >= len(table.counts)]


@dataclass(frozen=True, slots=True)
class SkippingScores:
    """Text scores of every row, computed for the requested rows."""

    state: IndexState
    query: IndexQuery
    body: Sequence[QueryWord]
    name: Sequence[QueryWord]
    title: Sequence[QueryWord]
    related: Sequence[Mapping[str, float]]

    @property
    def is_body_alone(self) -> bool:
        """No unit has a term in another field, so the best by their body are the best by all."""
        return not any(word.runs for word in (*self.name, *self.title))

    def speaking(self, visible: Mask, count: int, /) -> Rows:
        """Return the rows of `visible` best by their body, including ties with the last."""
        rows = self._likely(self.body, visible, count)
        return rows[highest_values(_sum_words(self.body, rows), count)].astype(np.int64)

    def telling(self, eligible: Mask, count: int, /) -> Rows:
        """Return the rows of `eligible` best by all fields together, including ties with the last."""
        rows = self._likely((*self.body, *self.name, *self.title), eligible, count)
        return rows[highest_values(self._total(rows), count)].astype(np.int64)

    def local(self, around: RowNeighbours, /) -> PoolScores:
        """Return the scores of the first line of `around`, whose rows ascend."""
        rows, inverse = np.unique(around.lines, return_inverse=True)
        inverse = inverse.reshape(around.lines.shape)
        body_counts = [(word, word.at(rows)) for word in self.body]
        body = np.zeros(len(rows))
        for word, (counts, _) in body_counts:
            _add_counts(body, word, rows, counts)
        name_counts = [(word, word.at(rows)) for word in self.name]
        name = np.zeros(len(rows))
        for word, (counts, _) in name_counts:
            _add_counts(name, word, rows, counts)
        pool = around.lines[0]
        title = _sum_words(self.title, pool)
        body, name = body[inverse], name[inverse[0]]
        return PoolScores(body, title, name, self._spread(around, inverse, body_counts, name_counts))

    def _spread(
        self,
        around: RowNeighbours,
        inverse: NDArray[np.intp],
        body_counts: Sequence[tuple[QueryWord, tuple[Floats, Floats]]],
        name_counts: Sequence[tuple[QueryWord, tuple[Floats, Floats]]],
    ) -> TermSpread:
        window, matched, coverage, context = np.zeros((4, around.lines.shape[1]))
        if not any(word.runs for word in (*self.body, *self.name)) or not around.lines.shape[1]:
            return TermSpread(window, matched, coverage, context)
        norm, k1 = bm25.window_norm(self.state, self.query, around), self.query.bm25.k1
        for word, (counts, exact) in body_counts:
            if word.runs:
                together = counts[inverse]
                context += word.idf * np.minimum(together.max(axis=0), 1.0)
                window += (word.idf * (k1 + 1.0)) * ((total := together.sum(axis=0)) / (total + norm))
                coverage += word.idf * np.minimum(together[0], 1.0)
                matched += exact[inverse[0]]
        for word, (counts, exact) in name_counts:
            if word.runs:
                coverage += word.idf * np.minimum(counts[inverse[0]], 1.0)
                matched += exact[inverse[0]]
        words = sum(word.idf for word in self.body)
        every = words + sum(word.idf for word in self.name)
        return TermSpread(window, matched, coverage / every, context / (words or 1.0))

    def _total(self, rows: NDArray[np.int32]) -> Floats:
        total = _sum_words(self.body, rows)
        weights = self.query.weights
        for words, weight in ((self.title, weights.title), (self.name, weights.name)):
            if words:
                total = total + weight * _sum_words(words, rows)
        return total

    def _likely(self, words: Sequence[QueryWord], eligible: Mask, limit: int) -> NDArray[np.int32]:
        """Return, ascending, all `eligible` rows that can be among the `limit` best by `words`, and few others."""
        # The rarest words come first: they raise the floor fastest, and the longest postings may never be read.
        ordered = sorted(((word.most, word) for word in words if word.runs), key=lambda pair: -pair[0])
        remaining = sum(most for most, _ in ordered)
        floor, count = 0.0, 0
        fresh: list[NDArray[np.int32]] = []
        sums = self.state.sums()
        try:
            for most, word in ordered:
                # A row without any of the words read so far gains at most `remaining`, which is below the floor.
                if count >= limit and remaining * (1.0 + _SAFE) < floor:
                    break
                for run in word.runs:
                    within = eligible[run.rows]
                    rows, counts = run.rows[within], run.counts[within]
                    before = sums[rows]
                    # A sum of 0 means a row seen for the first time, because skipping is valid only if all gains are
                    # positive.
                    fresh.append(rows[before == 0.0])
                    count += len(fresh[-1])
                    sums[rows] = before + word.gains.weight * word.gains.of(word.idf, rows, counts)
                remaining -= most
                if count > limit:
                    floor = edge_value(np.concatenate([sums[rows] for rows in fresh]), limit)
            rows_above = np.concatenate([np.zeros(0, np.int32), *fresh])
            # Rows that all remaining words together could not lift to the floor are dropped. `_SAFE` covers rounding.
            if count > limit:
                rows_above = rows_above[sums[rows_above] + remaining >= floor * (1.0 - _SAFE)]
        finally:
            # The array is shared by all searches of this state. Clearing it whole would touch every row.
            for rows in fresh:
                sums[rows] = 0.0
        return np.sort(rows_above)


def read_skipping(state: IndexState, query: IndexQuery, terms: QueryTerms, /) -> SkippingScores:
    """Return the scores of `terms` for every row."""
    weights = query.weights
    related = [bm25.kin_of(state, word, weights.kin) for word in terms.words]
    groups = _word_groups(state, terms, related)
    counts = [postings.living for group in groups for postings in group]
    slips = bm25.likely_slips(state, terms, related, counts) if weights.kin else {}
    if slips:
        related = [slips.get(word, others) for word, others in zip(terms.words, related, strict=True)]
        groups = _word_groups(state, terms, related)
    body, name = (
        _field_gain(state, TextField.BODY, query.bm25, 1.0),
        _field_gain(state, TextField.BODY, query.bm25, weights.name),
    )
    title = _field_gain(state, TextField.TITLE, query.bm25, weights.title)
    titled = _query_words(state, terms.every, TextField.TITLE, title)
    return SkippingScores(
        state,
        query,
        body=[
            _join_kin(state, group, others, body, bm25.weight_of(word, weights))
            for word, group, others in zip(terms.words, groups, related, strict=True)
        ],
        name=_query_words(state, terms.names, TextField.BODY, name),
        title=titled,
        related=related,
    )


class _TermPostings(NamedTuple):
    """The postings of one term, and how many of them are of living units."""

    code: int
    runs: Sequence[PostingRun]
    living: int


def _living_postings(state: IndexState, terms: Sequence[str], field: TextField) -> list[_TermPostings]:
    vocabulary, alive = state.postings.vocabulary, state.columns.alive
    codes = [code_of(number, field) if (number := vocabulary.get(term)) is not None else -1 for term in terms]
    runs_by_code = state.postings.runs(codes)
    # Dead rows stay in postings until a merge, but do not make a word more frequent.
    if state.columns.dead:
        living = [sum(int(np.count_nonzero(alive[run.rows])) for run in runs) for runs in runs_by_code]
    else:
        living = [sum(len(run.rows) for run in runs) for runs in runs_by_code]
    return list(map(_TermPostings, codes, runs_by_code, living))


def _word_groups(
    state: IndexState, terms: QueryTerms, related: Sequence[Mapping[str, float]]
) -> list[list[_TermPostings]]:
    """Return the postings of each word, before those of its related words."""
    groups = [(word, *others) for word, others in zip(terms.words, related, strict=True)]
    postings = iter(_living_postings(state, [term for group in groups for term in group], TextField.BODY))
    return [[next(postings) for _ in group] for group in groups]


def _field_gain(state: IndexState, field: TextField, parameters: Bm25Parameters, weight: float) -> _FieldGain:
    average = parameters.length(state.field_terms[field], state.field_units[field])
    return _FieldGain(state.columns.lengths(field), average, parameters, weight)


def _query_words(state: IndexState, terms: Sequence[str], field: TextField, gains: _FieldGain) -> list[QueryWord]:
    units = state.columns.count
    return [
        _query_word(state, postings, bm25.inverse_frequency(units, postings.living), gains)
        for postings in _living_postings(state, terms, field)
    ]


def _query_word(state: IndexState, postings: _TermPostings, idf: float, gains: _FieldGain) -> QueryWord:
    if not postings.living:
        return QueryWord([], idf, gains)
    table = state.postings.frequent.table(postings.code, postings.runs, state.columns.size)
    if table is not None or len(postings.runs) == 1:
        return QueryWord([WordHolders(run.rows, run.counts, None) for run in postings.runs], idf, gains, table)
    # Joined, so that `at` searches one array and not one per segment.
    rows = np.concatenate([run.rows for run in postings.runs])
    return QueryWord([WordHolders(rows, np.concatenate([run.counts for run in postings.runs]), None)], idf, gains)


def _join_kin(
    state: IndexState, group: Sequence[_TermPostings], others: Mapping[str, float], gains: _FieldGain, weight: float
) -> QueryWord:
    """Return a word joined with its related words."""
    own, *kin = group
    shares = bm25.related_shares([postings.living for postings in group], others.values())
    counted = [(postings, share) for postings, share in zip(kin, shares[1:], strict=True) if share and postings.living]
    theirs = sum(postings.living for postings in kin)
    idf = weight * bm25.inverse_frequency(state.columns.count, own.living or min(theirs, state.columns.count))
    if not counted:
        return _query_word(state, own, idf, gains)
    sure = np.zeros(state.columns.size, np.bool_)
    fresh: list[NDArray[np.int32]] = []
    sums = state.sums()
    for postings, share in ((own, 1.0), *counted):
        for run in postings.runs:
            before = sums[run.rows]
            fresh.append(run.rows[before == 0.0])
            sums[run.rows] = before + share * run.counts
            if share == 1.0:
                sure[run.rows] = True
    rows = np.sort(np.concatenate(fresh))
    counts = sums[rows]
    sums[rows] = 0.0
    return QueryWord([WordHolders(rows, counts, sure[rows])], idf, gains)


def _sum_words(words: Sequence[QueryWord], rows: Integers) -> Floats:
    total = np.zeros(len(rows))
    for word in words if len(rows) else ():
        _add_counts(total, word, rows, word.at(rows)[0])
    return total


def _add_counts(total: Floats, word: QueryWord, rows: Integers, counts: Floats) -> None:
    places = np.flatnonzero(counts)
    total[places] += word.gains.of(word.idf, rows[places], counts[places])
