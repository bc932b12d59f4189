"""The text side of a search: BM25 per field over the whole space, and per term over the relevant units.

A row's score is summed in the order of the query's terms, regardless of where the row is stored.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.text import analyser
from elytron_index.lexicon import terms as lexicon_terms
from elytron_index.query import Bm25Parameters, IndexQuery
from elytron_index.search.nearness import highest_values
from elytron_index.structures.columns import Mask
from elytron_index.structures.index_state import IndexState
from elytron_index.structures.postings import FoundPostings, TextField, code_of
from elytron_index.structures.visibility import Lines, RowNeighbours

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]

_KIN_POSTINGS: Final = 1 << 15
"""Maximum rows of a word and its related words that are joined; with more, only the word itself counts."""
_TABLE: Final = 1 << 18
"""Maximum size of a table of terms and rows; beyond that it only contains the rows that matter."""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The query's terms: all of them, and separately the words and the names of this space's speakers."""

    every: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]


class MatchedTerms(NamedTuple):
    """Rows of some terms, by term, with counts: a related word counts in part, the term itself in full."""

    terms: NDArray[np.int64]
    rows: Integers
    counts: Floats
    exact: Mask | None
    """Rows with the term itself, or the word that it probably misspells; None if all have it."""
    idf: Floats
    """Of each term."""


class TermSpread(NamedTuple):
    """Terms of the query in each unit of a pool."""

    window: Floats
    matched: Floats
    coverage: Floats
    context: Floats


class PoolScores(NamedTuple):
    """Text scores of a pool: `body` of all its lines, the others of the first, the units themselves."""

    body: Floats
    title: Floats
    name: Floats
    spread: TermSpread

    def total(self, weights: SignalWeights, /) -> Floats:
        """Return the weighted sum of the fields of the units themselves."""
        return self.body[0] + weights.title * self.title + weights.name * self.name


@dataclass(frozen=True, slots=True)
class TextScores:
    """Text scores of every row: a dense score per field, None if no row has any."""

    state: IndexState
    query: IndexQuery
    body: Floats | None
    title: Floats | None
    name: Floats | None
    words: int
    """Number of the terms that are words; those after them are names."""
    matches: MatchedTerms
    others: Rows
    """Rows with a term in a title."""
    related: Sequence[Mapping[str, float]]

    @property
    def is_body_alone(self) -> bool:
        """No unit has a term in another field, so the best by their body are the best by all."""
        return self.title is None and self.name is None

    def speaking(self, is_visible: Mask, count: int, /) -> Rows:
        """Return the rows of `is_visible` best by their body, including ties with the last."""
        if self.body is None:
            return np.zeros(0, np.int64)
        rows = ((self.body > 0.0) & is_visible).nonzero()[0]
        return rows[highest_values(self.body.take(rows), count)] if len(rows) > count else rows

    def telling(self, is_eligible: Mask, count: int, /) -> Rows:
        """Return the rows of `is_eligible` best by all fields together, including ties with the last."""
        has_match = np.zeros(self.state.columns.size, np.bool_)
        has_match[self.matches.rows] = True
        has_match[self.others] = True
        rows = (has_match & is_eligible).nonzero()[0]
        return rows[highest_values(self._total(rows), count)] if len(rows) > count else rows

    def local(self, around: RowNeighbours, /) -> PoolScores:
        """Return the scores of the first line of `around`."""
        pool, lines = around.lines[0], around.lines
        body = np.zeros(lines.shape) if self.body is None else self.body.take(lines)
        return PoolScores(body, scores_at(self.title, pool), scores_at(self.name, pool), self._spread(around))

    def _total(self, rows: Integers) -> Floats:
        weights = self.query.weights
        weighted_sums = scores_at(self.body, rows)
        for scores, weight in ((self.title, weights.title), (self.name, weights.name)):
            if scores is not None:
                weighted_sums = weighted_sums + weight * scores.take(rows)
        return weighted_sums

    def _spread(self, around: RowNeighbours) -> TermSpread:
        """Return the terms in the units themselves, and for the window those in all lines together."""
        postings, word_count, lines, size = self.matches, self.words, around.lines, self.state.columns.size
        window_sums, context_sums = np.zeros((2, lines.shape[1]))
        if not len(postings.rows) or not lines.shape[1]:
            return TermSpread(window_sums, context_sums, window_sums, context_sums)
        term_rarities = postings.idf.take(postings.terms)
        # Related words find a row, but only the word itself counts as matched.
        exact_rows = postings.rows if postings.exact is None else postings.rows[postings.exact]
        counted_rarities = term_rarities if postings.exact is None else term_rarities * np.minimum(postings.counts, 1.0)
        matched_counts = scores_at(_as_floats(np.bincount(exact_rows, minlength=size)), lines[0])
        coverage = scores_at(_as_floats(np.bincount(postings.rows, counted_rarities, size)), lines[0])
        table, lines = _term_table(size, postings, word_count, lines)
        line_counts = table.take(lines, axis=1)
        count_sums = np.add.reduce(line_counts, axis=1)
        # If nothing is counted in part, one of them has a term as soon as all together do.
        highest_counts = count_sums if postings.exact is None else np.maximum.reduce(line_counts, axis=1)
        k1, rarity = self.query.bm25.k1, postings.idf[:word_count, None]
        # A window is one text: the counts of its lines are summed before they saturate.
        gains = count_sums / (count_sums + window_norm(self.state, self.query, around))
        gains *= rarity * (k1 + 1.0)
        shares = np.minimum(highest_counts, 1.0) * rarity
        # Added in the order of the query's terms, as `max_score` does, so that both give the same numbers.
        for gain, context_share in zip(gains, shares, strict=True):
            window_sums += gain
            context_sums += context_share
        idf: list[float] = postings.idf.tolist()
        words_idf = sum(idf[:word_count])
        return TermSpread(
            window_sums,
            matched_counts,
            coverage / (words_idf + sum(idf[word_count:])),
            context_sums / (words_idf or 1.0),
        )


def scores_at(scores: Floats | None, rows: Integers, /) -> Floats:
    """Return the scores of `rows`."""
    return np.zeros(len(rows)) if scores is None else scores.take(rows)


def terms_of(state: IndexState, text: str, /) -> QueryTerms:
    """Return the search terms of `text`, with the speakers' names separate."""
    all_terms = tuple(state.analyser.query_terms(text))
    names = tuple(term for term in all_terms if _is_name(state, term))
    return QueryTerms(all_terms, tuple(term for term in all_terms if term not in names) if names else all_terms, names)


def read_terms(state: IndexState, query: IndexQuery, terms: QueryTerms, /) -> TextScores:
    """Return the scores of `terms` for every row."""
    related_by_word = [kin_of(state, word, query.weights.kin) for word in terms.words]
    postings = _find_postings(state, terms, related_by_word)
    slips = likely_slips(state, terms, related_by_word, postings.counts_of) if query.weights.kin else {}
    if slips:
        related_by_word = [slips.get(word, others) for word, others in zip(terms.words, related_by_word, strict=True)]
        # Read again only for misspellings, which are rare: most queries need one lookup.
        postings = _find_postings(state, terms, related_by_word)
    word_count, term_count = len(terms.words), len(terms.every)
    body_term_count = term_count + sum(map(len, related_by_word))
    match_ends = list(accumulate(postings.counts_of, initial=0))
    body_end, title_end = match_ends[body_term_count], match_ends[-1]
    body_terms = _with_kin(
        state, _part_found(postings, 0, body_term_count, 0, body_end), (*related_by_word, *({} for _ in terms.names))
    )
    body_terms.idf[:word_count] *= [weight_of(word, query.weights) for word in terms.words]
    body, name = _body_scores(state, query, body_terms, word_count)
    title = None
    if title_end > body_end:
        title_postings = _part_found(postings, body_term_count, term_count, body_end, title_end)
        title = _field_scores(state, title_postings, TextField.TITLE, query.bm25)
    return TextScores(
        state, query, body, title, name, word_count, body_terms, postings.rows[body_end:], related_by_word
    )


def window_norm(state: IndexState, query: IndexQuery, around: RowNeighbours, /) -> Floats:
    """Return the BM25 length normalisation for each column of `around`, read as one text."""
    k1, b = query.bm25.k1, query.bm25.b
    average_length = len(around.lines) * state.field_terms[TextField.BODY] / state.field_units[TextField.BODY]
    return k1 * (1.0 - b) + (k1 * b / average_length) * around.terms.astype(np.float64)


def kin_of(state: IndexState, word: str, weight: float, /) -> Mapping[str, float]:
    """Return the related words of `word` that are not names here, each with its share."""
    related_stems = lexicon_terms.related_stems(word) if weight else None
    if not related_stems:
        return {}
    speakers = state.speakers_of
    return {
        related_word: weight * related_stems[related_word]
        for related_word in state.postings.vocabulary.among(related_stems)
        # A related word that is the name of a speaker here means that person.
        if related_word not in speakers or not _is_name(state, related_word)
    }


def likely_slips(
    state: IndexState, terms: QueryTerms, related_by_word: Sequence[Mapping[str, float]], counts: Sequence[int], /
) -> dict[str, dict[str, float]]:
    """Return, for words unknown to the space and the table, the words they probably misspell.

    `counts` says how many rows contain each word and its related words.
    """
    slips: dict[str, dict[str, float]] = {}
    start = 0
    for word, others in zip(terms.words, related_by_word, strict=True):
        end = start + 1 + len(others)
        if not any(counts[start:end]) and not lexicon_terms.is_known_stem(word):
            likely_words = lexicon_terms.terms_near(word, state.postings.vocabulary.among)
            if likely_words:
                slips[word] = dict.fromkeys(likely_words, 1.0)
        start = end
    return slips


def _is_name(state: IndexState, term: str) -> bool:
    speakers = state.speakers_of.get(term)
    return speakers is not None and any(state.speaker_units[code] for code in speakers)


def _find_postings(
    state: IndexState, terms: QueryTerms, related_by_word: Sequence[Mapping[str, float]]
) -> FoundPostings:
    """Return the postings of the words, each before its related words, and of the names, in texts; then of all in
    titles."""
    term_number, units = state.postings.vocabulary.get, state.field_units
    word_terms = (word for word, others in zip(terms.words, related_by_word, strict=True) for word in (word, *others))
    codes = [code_of(term_number(term, -1), TextField.BODY) for term in chain(word_terms, terms.names)]
    has_titles = units[TextField.TITLE]
    codes += [code_of(term_number(term, -1), TextField.TITLE) if has_titles else -1 for term in terms.every]
    return state.postings.find(codes, state.columns.alive if state.columns.dead else None)


def _part_found(postings: FoundPostings, first_term: int, term_count: int, start: int, end: int) -> FoundPostings:
    """Return the matches of `term_count` terms from `first_term` on, from `start` to `end`."""
    if not first_term and end == len(postings.rows):
        return FoundPostings(postings.terms, postings.rows, postings.counts, postings.counts_of[:term_count])
    return FoundPostings(
        postings.terms[start:end] - first_term,
        postings.rows[start:end],
        postings.counts[start:end],
        postings.counts_of[first_term : first_term + term_count],
    )


def _with_kin(
    state: IndexState, postings: FoundPostings, related_by_term: Sequence[Mapping[str, float]]
) -> MatchedTerms:
    """Join each term's rows with those of its related words."""
    units, holder_counts = state.columns.count, postings.counts_of
    if not any(related_by_term):
        rarities = np.array([inverse_frequency(units, holder_count) for holder_count in holder_counts])
        return MatchedTerms(postings.terms, postings.rows, postings.counts.astype(np.float64), None, rarities)
    word_numbers: list[int] = []
    counted_shares: list[float] = []
    rarity: list[float] = []
    for word_number, others in enumerate(related_by_term):
        own_count, *related_counts = holder_counts[len(word_numbers) : len(word_numbers) + 1 + len(others)]
        word_numbers += [word_number] * (1 + len(others))
        counted_shares += related_shares([own_count, *related_counts], others.values())
        # One unit may contain several related words, so their sum can exceed the number of units.
        rarity.append(inverse_frequency(units, own_count or min(sum(related_counts), units)))
    return _join_rows(state, postings, np.array(word_numbers), np.array(counted_shares), np.array(rarity))


def related_shares(holder_counts: Sequence[int], others: Iterable[float], /) -> list[float]:
    """Return the counts of a word and its related words, which are left out if there are too many."""
    if sum(holder_counts) <= _KIN_POSTINGS:
        return [1.0, *others]
    return [
        # A share of 1.0 is the word itself, or the word that it misspells, and is never left out.
        share if posting_count <= _KIN_POSTINGS or share == 1.0 else 0.0
        for share, posting_count in zip((1.0, *others), accumulate(holder_counts), strict=True)
    ]


def weight_of(word: str, weights: SignalWeights, /) -> float:
    """Return the weight of `word` compared with others as rare: less if it is common in questions."""
    return weights.asking if word in analyser.ASKING else 1.0


def inverse_frequency(units: int, df: int, /) -> float:
    """Return the weight of a term that `df` of the `units` contain."""
    return math.log(1.0 + (units - df + 0.5) / (df + 0.5))


def _join_rows(
    state: IndexState, postings: FoundPostings, word_numbers: NDArray[np.int64], counted_shares: Floats, rarity: Floats
) -> MatchedTerms:
    """Join the rows of all matches that belong to one of the `word_numbers`, each counted by its share."""
    if not counted_shares.all():
        is_counted = counted_shares.take(postings.terms) != 0.0
        postings = FoundPostings(
            postings.terms[is_counted], postings.rows[is_counted], postings.counts[is_counted], postings.counts_of
        )
    match_count = len(postings.rows)
    if not match_count:
        return MatchedTerms(postings.terms, postings.rows, np.zeros(0), None, rarity)
    terms, match_shares = word_numbers.take(postings.terms), counted_shares.take(postings.terms)
    row_count, table_size = state.columns.size, len(rarity) * state.columns.size
    cells = terms * row_count + postings.rows
    # A small table is summed in place. A large one would be mostly zeros, so its positions are sorted instead.
    if table_size <= _TABLE:
        summed_counts = _as_floats(np.bincount(cells, match_shares * postings.counts, table_size))
        is_exact = np.zeros(table_size, np.bool_)
        is_exact[cells[match_shares == 1.0]] = True
        cells = summed_counts.nonzero()[0]
        terms = cells // row_count
        return MatchedTerms(terms, cells - terms * row_count, summed_counts.take(cells), is_exact.take(cells), rarity)
    # A stable order adds the numbers in the order of the terms.
    match_bits = match_count.bit_length()
    keys = (cells << match_bits) | np.arange(match_count)
    keys.sort()
    order, cells = keys & ((1 << match_bits) - 1), keys >> match_bits
    is_group_start = np.ones(match_count, np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=is_group_start[1:])
    groups = is_group_start.cumsum() - 1
    group_counts = np.bincount(groups, (match_shares * postings.counts).take(order))
    is_group_exact = np.zeros(len(group_counts), np.bool_)
    is_group_exact[groups[(match_shares == 1.0).take(order)]] = True
    first_matches = order[is_group_start]
    return MatchedTerms(
        terms.take(first_matches), postings.rows.take(first_matches), _as_floats(group_counts), is_group_exact, rarity
    )


def _term_table(row_count: int, postings: MatchedTerms, word_count: int, lines: Lines) -> tuple[Floats, Lines]:
    """Return how much each row (0: none) contains of each of the first `word_count` terms, and `lines` as rows of
    that table.

    Where it would be too large only the rows of `lines` have a place in it.
    """
    terms, rows, counts = postings.terms, postings.rows, postings.counts
    if word_count < len(postings.idf):
        words_end = int(terms.searchsorted(word_count))
        terms, rows, counts = terms[:words_end], rows[:words_end], counts[:words_end]
    if word_count * row_count > _TABLE:
        row_numbers = np.zeros(row_count, np.int32)
        row_numbers[lines] = 1
        # Row 0 means an absent neighbour and must stay without terms.
        row_numbers[0] = 0
        table_rows = row_numbers.nonzero()[0]
        row_numbers[table_rows] = np.arange(1, len(table_rows) + 1, dtype=np.int32)
        rows, lines, row_count = row_numbers.take(rows), row_numbers.take(lines), len(table_rows) + 1
        kept_matches = rows.nonzero()[0]
        terms, rows, counts = terms.take(kept_matches), rows.take(kept_matches), counts.take(kept_matches)
    table = np.zeros((word_count, row_count))
    table.reshape(-1)[terms * row_count + rows] = counts
    return table, lines


def _body_scores(
    state: IndexState, query: IndexQuery, postings: MatchedTerms, word_count: int
) -> tuple[Floats | None, Floats | None]:
    """Return each row's score for the words, and for the names."""
    gains = _term_gains(state, postings, TextField.BODY, query.bm25)
    if word_count == len(postings.idf):
        return _sum_by_row(state, postings.rows, gains), None
    words_end = int(postings.terms.searchsorted(word_count))
    return _sum_by_row(state, postings.rows[:words_end], gains[:words_end]), _sum_by_row(
        state, postings.rows[words_end:], gains[words_end:]
    )


def _field_scores(
    state: IndexState, postings: FoundPostings, field: TextField, parameters: Bm25Parameters
) -> Floats | None:
    """Return each row's score for the terms found in a field, without related words."""
    field_terms = _with_kin(state, postings, ())
    return _sum_by_row(state, postings.rows, _term_gains(state, field_terms, field, parameters))


def _term_gains(state: IndexState, postings: MatchedTerms, field: TextField, parameters: Bm25Parameters) -> Floats:
    """Return each row's gain from each of its terms."""
    average_length = parameters.length(state.field_terms[field], state.field_units[field])
    k1, b = parameters.k1, parameters.b
    length_norms = k1 * (1.0 - b) + (k1 * b / average_length) * state.columns.lengths(field).take(postings.rows)
    return (postings.idf * (k1 + 1.0)).take(postings.terms) * (postings.counts / (postings.counts + length_norms))


def _sum_by_row(state: IndexState, rows: Integers, gains: Floats) -> Floats | None:
    return _as_floats(np.bincount(rows, gains, state.columns.size)) if len(rows) else None


def _as_floats(float_sums: NDArray[Any]) -> Floats:
    return float_sums
