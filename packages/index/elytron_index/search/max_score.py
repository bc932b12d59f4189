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
        length_norms = k1 * (1.0 - b) + (k1 * b / self.average) * self.lengths[rows]
        counts = counts.astype(np.float64, copy=False)
        return (idf * (k1 + 1.0)) * (counts / (counts + length_norms))

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
        counts, exact_flags = np.zeros((2, len(rows)))
        table_end = 0
        if self.table is not None:
            # The table answers by row number. Only postings after its end have to be searched.
            table_end = int(rows.searchsorted(len(self.table.counts)))
            counts[:table_end] = self.table.counts[rows[:table_end]]
            exact_flags[:table_end] = counts[:table_end] > 0.0
        for run in self._behind():
            first_index, last_index = rows.searchsorted((run.rows[0], run.rows[-1] + 1))
            first_index = max(first_index, table_end)
            candidates = rows[first_index:last_index]
            # The shorter list is searched for in the longer one.
            if len(candidates) <= len(run.rows):
                run_places = run.rows.searchsorted(candidates)
                candidate_places = np.flatnonzero(run.rows[run_places] == candidates)
                run_places = run_places[candidate_places]
            else:
                candidate_places = candidates.searchsorted(run.rows)
                run_places = np.flatnonzero(candidates.take(candidate_places, mode="clip") == run.rows)
                candidate_places = candidate_places[run_places]
            counts[first_index + candidate_places] = run.counts[run_places]
            exact_flags[first_index + candidate_places] = 1.0 if run.exact is None else run.exact[run_places]
        return counts, exact_flags

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

    def speaking(self, is_visible: Mask, count: int, /) -> Rows:
        """Return the rows of `is_visible` best by their body, including ties with the last."""
        rows = self._likely(self.body, is_visible, count)
        return rows[highest_values(_sum_words(self.body, rows), count)].astype(np.int64)

    def telling(self, is_eligible: Mask, count: int, /) -> Rows:
        """Return the rows of `is_eligible` best by all fields together, including ties with the last."""
        rows = self._likely((*self.body, *self.name, *self.title), is_eligible, count)
        return rows[highest_values(self._total(rows), count)].astype(np.int64)

    def local(self, around: RowNeighbours, /) -> PoolScores:
        """Return the scores of the first line of `around`, whose rows ascend."""
        rows, place_in_rows = np.unique(around.lines, return_inverse=True)
        place_in_rows = place_in_rows.reshape(around.lines.shape)
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
        body, name = body[place_in_rows], name[place_in_rows[0]]
        return PoolScores(body, title, name, self._spread(around, place_in_rows, body_counts, name_counts))

    def _spread(
        self,
        around: RowNeighbours,
        place_in_rows: NDArray[np.intp],
        body_counts: Sequence[tuple[QueryWord, tuple[Floats, Floats]]],
        name_counts: Sequence[tuple[QueryWord, tuple[Floats, Floats]]],
    ) -> TermSpread:
        window, matched_counts, coverage, context = np.zeros((4, around.lines.shape[1]))
        if not any(word.runs for word in (*self.body, *self.name)) or not around.lines.shape[1]:
            return TermSpread(window, matched_counts, coverage, context)
        length_norms, k1 = bm25.window_norm(self.state, self.query, around), self.query.bm25.k1
        for word, (counts, exact_flags) in body_counts:
            if word.runs:
                line_counts = counts[place_in_rows]
                context += word.idf * np.minimum(line_counts.max(axis=0), 1.0)
                window += (word.idf * (k1 + 1.0)) * (
                    (count_sums := line_counts.sum(axis=0)) / (count_sums + length_norms)
                )
                coverage += word.idf * np.minimum(line_counts[0], 1.0)
                matched_counts += exact_flags[place_in_rows[0]]
        for word, (counts, exact_flags) in name_counts:
            if word.runs:
                coverage += word.idf * np.minimum(counts[place_in_rows[0]], 1.0)
                matched_counts += exact_flags[place_in_rows[0]]
        words_idf = sum(word.idf for word in self.body)
        terms_idf = words_idf + sum(word.idf for word in self.name)
        return TermSpread(window, matched_counts, coverage / terms_idf, context / (words_idf or 1.0))

    def _total(self, rows: NDArray[np.int32]) -> Floats:
        weighted_sums = _sum_words(self.body, rows)
        weights = self.query.weights
        for words, weight in ((self.title, weights.title), (self.name, weights.name)):
            if words:
                weighted_sums = weighted_sums + weight * _sum_words(words, rows)
        return weighted_sums

    def _likely(self, words: Sequence[QueryWord], eligible: Mask, limit: int) -> NDArray[np.int32]:
        """Return, ascending, all `eligible` rows that can be among the `limit` best by `words`, and few others."""
        # The rarest words come first: they raise the floor fastest, and the longest postings may never be read.
        words_by_gain = sorted(
            ((word.most, word) for word in words if word.runs), key=lambda gain_and_word: -gain_and_word[0]
        )
        remaining_gain = sum(word_gain for word_gain, _ in words_by_gain)
        least_sum, row_count = 0.0, 0
        new_rows: list[NDArray[np.int32]] = []
        sums = self.state.sums()
        try:
            for word_gain, word in words_by_gain:
                # A row without any of the words read so far gains at most `remaining_gain`, which is below the
                # floor.
                if row_count >= limit and remaining_gain * (1.0 + _SAFE) < least_sum:
                    break
                for run in word.runs:
                    is_eligible = eligible[run.rows]
                    rows, counts = run.rows[is_eligible], run.counts[is_eligible]
                    sums_before = sums[rows]
                    # A sum of 0 means a row seen for the first time, because skipping is valid only if all gains are
                    # positive.
                    new_rows.append(rows[sums_before == 0.0])
                    row_count += len(new_rows[-1])
                    sums[rows] = sums_before + word.gains.weight * word.gains.of(word.idf, rows, counts)
                remaining_gain -= word_gain
                if row_count > limit:
                    least_sum = edge_value(np.concatenate([sums[rows] for rows in new_rows]), limit)
            rows_above = np.concatenate([np.zeros(0, np.int32), *new_rows])
            # Rows that all remaining words together could not lift to the floor are dropped. `_SAFE` covers rounding.
            if row_count > limit:
                rows_above = rows_above[sums[rows_above] + remaining_gain >= least_sum * (1.0 - _SAFE)]
        finally:
            # The array is shared by all searches of this state. Clearing it whole would touch every row.
            for rows in new_rows:
                sums[rows] = 0.0
        return np.sort(rows_above)


def read_skipping(state: IndexState, query: IndexQuery, terms: QueryTerms, /) -> SkippingScores:
    """Return the scores of `terms` for every row."""
    weights = query.weights
    related_by_word = [bm25.kin_of(state, word, weights.kin) for word in terms.words]
    groups = _word_groups(state, terms, related_by_word)
    living_counts = [postings.living for group in groups for postings in group]
    slips = bm25.likely_slips(state, terms, related_by_word, living_counts) if weights.kin else {}
    if slips:
        related_by_word = [slips.get(word, others) for word, others in zip(terms.words, related_by_word, strict=True)]
        groups = _word_groups(state, terms, related_by_word)
    body_gain, name_gain = (
        _field_gain(state, TextField.BODY, query.bm25, 1.0),
        _field_gain(state, TextField.BODY, query.bm25, weights.name),
    )
    title_gain = _field_gain(state, TextField.TITLE, query.bm25, weights.title)
    title_words = _query_words(state, terms.every, TextField.TITLE, title_gain)
    return SkippingScores(
        state,
        query,
        body=[
            _join_kin(state, group, others, body_gain, bm25.weight_of(word, weights))
            for word, group, others in zip(terms.words, groups, related_by_word, strict=True)
        ],
        name=_query_words(state, terms.names, TextField.BODY, name_gain),
        title=title_words,
        related=related_by_word,
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
        living_counts = [sum(int(np.count_nonzero(alive[run.rows])) for run in runs) for runs in runs_by_code]
    else:
        living_counts = [sum(len(run.rows) for run in runs) for runs in runs_by_code]
    return list(map(_TermPostings, codes, runs_by_code, living_counts))


def _word_groups(
    state: IndexState, terms: QueryTerms, related_by_word: Sequence[Mapping[str, float]]
) -> list[list[_TermPostings]]:
    """Return the postings of each word, before those of its related words."""
    term_groups = [(word, *others) for word, others in zip(terms.words, related_by_word, strict=True)]
    postings = iter(_living_postings(state, [term for group in term_groups for term in group], TextField.BODY))
    return [[next(postings) for _ in group] for group in term_groups]


def _field_gain(state: IndexState, field: TextField, parameters: Bm25Parameters, weight: float) -> _FieldGain:
    average_length = parameters.length(state.field_terms[field], state.field_units[field])
    return _FieldGain(state.columns.lengths(field), average_length, parameters, weight)


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
    own_postings, *related_postings = group
    shares = bm25.related_shares([postings.living for postings in group], others.values())
    counted_postings = [
        (postings, share)
        for postings, share in zip(related_postings, shares[1:], strict=True)
        if share and postings.living
    ]
    related_count = sum(postings.living for postings in related_postings)
    idf = weight * bm25.inverse_frequency(
        state.columns.count, own_postings.living or min(related_count, state.columns.count)
    )
    if not counted_postings:
        return _query_word(state, own_postings, idf, gains)
    is_exact = np.zeros(state.columns.size, np.bool_)
    new_rows: list[NDArray[np.int32]] = []
    sums = state.sums()
    for postings, share in ((own_postings, 1.0), *counted_postings):
        for run in postings.runs:
            sums_before = sums[run.rows]
            new_rows.append(run.rows[sums_before == 0.0])
            sums[run.rows] = sums_before + share * run.counts
            if share == 1.0:
                is_exact[run.rows] = True
    rows = np.sort(np.concatenate(new_rows))
    counts = sums[rows]
    sums[rows] = 0.0
    return QueryWord([WordHolders(rows, counts, is_exact[rows])], idf, gains)


def _sum_words(words: Sequence[QueryWord], rows: Integers) -> Floats:
    gains = np.zeros(len(rows))
    for word in words if len(rows) else ():
        _add_counts(gains, word, rows, word.at(rows)[0])
    return gains


def _add_counts(gains: Floats, word: QueryWord, rows: Integers, counts: Floats) -> None:
    places = np.flatnonzero(counts)
    gains[places] += word.gains.of(word.idf, rows[places], counts[places])
