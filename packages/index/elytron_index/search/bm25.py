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

    def speaking(self, visible: Mask, count: int, /) -> Rows:
        """Return the rows of `visible` best by their body, including ties with the last."""
        if self.body is None:
            return np.zeros(0, np.int64)
        rows = ((self.body > 0.0) & visible).nonzero()[0]
        return rows[highest_values(self.body.take(rows), count)] if len(rows) > count else rows

    def telling(self, eligible: Mask, count: int, /) -> Rows:
        """Return the rows of `eligible` best by all fields together, including ties with the last."""
        hit = np.zeros(self.state.columns.size, np.bool_)
        hit[self.matches.rows] = True
        hit[self.others] = True
        rows = (hit & eligible).nonzero()[0]
        return rows[highest_values(self._total(rows), count)] if len(rows) > count else rows

    def local(self, around: RowNeighbours, /) -> PoolScores:
        """Return the scores of the first line of `around`."""
        pool, lines = around.lines[0], around.lines
        body = np.zeros(lines.shape) if self.body is None else self.body.take(lines)
        return PoolScores(body, scores_at(self.title, pool), scores_at(self.name, pool), self._spread(around))

    def _total(self, rows: Integers) -> Floats:
        weights = self.query.weights
        total = scores_at(self.body, rows)
        for scores, weight in ((self.title, weights.title), (self.name, weights.name)):
            if scores is not None:
                total = total + weight * scores.take(rows)
        return total

    def _spread(self, around: RowNeighbours) -> TermSpread:
        """Return the terms in the units themselves, and for the window those in all lines together."""
        postings, words, lines, size = self.matches, self.words, around.lines, self.state.columns.size
        window, context = np.zeros((2, lines.shape[1]))
        if not len(postings.rows) or not lines.shape[1]:
            return TermSpread(window, context, window, context)
        rare = postings.idf.take(postings.terms)
        # Related words find a row, but only the word itself counts as matched.
        itself = postings.rows if postings.exact is None else postings.rows[postings.exact]
        share = rare if postings.exact is None else rare * np.minimum(postings.counts, 1.0)
        matched = scores_at(_as_floats(np.bincount(itself, minlength=size)), lines[0])
        coverage = scores_at(_as_floats(np.bincount(postings.rows, share, size)), lines[0])
        table, lines = _term_table(size, postings, words, lines)
        together = table.take(lines, axis=1)
        total = np.add.reduce(together, axis=1)
        # If nothing is counted in part, one of them has a term as soon as all together do.
        most = total if postings.exact is None else np.maximum.reduce(together, axis=1)
        k1, rarity = self.query.bm25.k1, postings.idf[:words, None]
        # A window is one text: the counts of its lines are summed before they saturate.
        gains = total / (total + window_norm(self.state, self.query, around))
        gains *= rarity * (k1 + 1.0)
        shares = np.minimum(most, 1.0) * rarity
        # Added in the order of the query's terms, as `max_score` does, so that both give the same numbers.
        for gain, part in zip(gains, shares, strict=True):
            window += gain
            context += part
        idf: list[float] = postings.idf.tolist()
        of_words = sum(idf[:words])
        return TermSpread(window, matched, coverage / (of_words + sum(idf[words:])), context / (of_words or 1.0))


def scores_at(scores: Floats | None, rows: Integers, /) -> Floats:
    """Return the scores of `rows`."""
    return np.zeros(len(rows)) if scores is None else scores.take(rows)


def terms_of(state: IndexState, text: str, /) -> QueryTerms:
    """Return the search terms of `text`, with the speakers' names separate."""
    every = tuple(state.analyser.query_terms(text))
    names = tuple(term for term in every if _is_name(state, term))
    return QueryTerms(every, tuple(term for term in every if term not in names) if names else every, names)


def read_terms(state: IndexState, query: IndexQuery, terms: QueryTerms, /) -> TextScores:
    """Return the scores of `terms` for every row."""
    related = [kin_of(state, word, query.weights.kin) for word in terms.words]
    postings = _find_postings(state, terms, related)
    likely = likely_slips(state, terms, related, postings.counts_of) if query.weights.kin else {}
    if likely:
        related = [likely.get(word, others) for word, others in zip(terms.words, related, strict=True)]
        # Read again only for misspellings, which are rare: most queries need one lookup.
        postings = _find_postings(state, terms, related)
    words, every = len(terms.words), len(terms.every)
    in_body = every + sum(map(len, related))
    ends = list(accumulate(postings.counts_of, initial=0))
    body_end, title_end = ends[in_body], ends[-1]
    body_terms = _with_kin(
        state, _part_found(postings, 0, in_body, 0, body_end), (*related, *({} for _ in terms.names))
    )
    body_terms.idf[:words] *= [weight_of(word, query.weights) for word in terms.words]
    body, name = _body_scores(state, query, body_terms, words)
    title = None
    if title_end > body_end:
        in_title = _part_found(postings, in_body, every, body_end, title_end)
        title = _field_scores(state, in_title, TextField.TITLE, query.bm25)
    return TextScores(state, query, body, title, name, words, body_terms, postings.rows[body_end:], related)


def window_norm(state: IndexState, query: IndexQuery, around: RowNeighbours, /) -> Floats:
    """Return the BM25 length normalisation for each column of `around`, read as one text."""
    k1, b = query.bm25.k1, query.bm25.b
    average = len(around.lines) * state.field_terms[TextField.BODY] / state.field_units[TextField.BODY]
    return k1 * (1.0 - b) + (k1 * b / average) * around.terms.astype(np.float64)


def kin_of(state: IndexState, word: str, weight: float, /) -> Mapping[str, float]:
    """Return the related words of `word` that are not names here, each with its share."""
    kindred = lexicon_terms.related_stems(word) if weight else None
    if not kindred:
        return {}
    speakers = state.speakers_of
    return {
        other: weight * kindred[other]
        for other in state.postings.vocabulary.among(kindred)
        # A related word that is the name of a speaker here means that person.
        if other not in speakers or not _is_name(state, other)
    }


def likely_slips(
    state: IndexState, terms: QueryTerms, related: Sequence[Mapping[str, float]], counts: Sequence[int], /
) -> dict[str, dict[str, float]]:
    """Return, for words unknown to the space and the table, the words they probably misspell.

    `counts` says how many rows contain each word and its related words.
    """
    slips: dict[str, dict[str, float]] = {}
    start = 0
    for word, others in zip(terms.words, related, strict=True):
        end = start + 1 + len(others)
        if not any(counts[start:end]) and not lexicon_terms.is_known_stem(word):
            near = lexicon_terms.terms_near(word, state.postings.vocabulary.among)
            if near:
                slips[word] = dict.fromkeys(near, 1.0)
        start = end
    return slips


def _is_name(state: IndexState, term: str) -> bool:
    speakers = state.speakers_of.get(term)
    return speakers is not None and any(state.speaker_units[code] for code in speakers)


def _find_postings(state: IndexState, terms: QueryTerms, related: Sequence[Mapping[str, float]]) -> FoundPostings:
    """Return the postings of the words, each before its related words, and of the names, in texts; then of all in
    titles."""
    number, units = state.postings.vocabulary.get, state.field_units
    word_terms = (word for word, others in zip(terms.words, related, strict=True) for word in (word, *others))
    codes = [code_of(number(term, -1), TextField.BODY) for term in chain(word_terms, terms.names)]
    has_titles = units[TextField.TITLE]
    codes += [code_of(number(term, -1), TextField.TITLE) if has_titles else -1 for term in terms.every]
    return state.postings.find(codes, state.columns.alive if state.columns.dead else None)


def _part_found(postings: FoundPostings, first: int, terms: int, start: int, end: int) -> FoundPostings:
    """Return the matches of `terms` terms from the `first` on, from `start` to `end`."""
    if not first and end == len(postings.rows):
        return FoundPostings(postings.terms, postings.rows, postings.counts, postings.counts_of[:terms])
    return FoundPostings(
        postings.terms[start:end] - first,
        postings.rows[start:end],
        postings.counts[start:end],
        postings.counts_of[first : first + terms],
    )


def _with_kin(state: IndexState, postings: FoundPostings, related: Sequence[Mapping[str, float]]) -> MatchedTerms:
    """Join each term's rows with those of its related words."""
    units, holders = state.columns.count, postings.counts_of
    if not any(related):
        rare = np.array([inverse_frequency(units, some) for some in holders])
        return MatchedTerms(postings.terms, postings.rows, postings.counts.astype(np.float64), None, rare)
    words: list[int] = []
    counted: list[float] = []
    rarity: list[float] = []
    for word, others in enumerate(related):
        own, *theirs = holders[len(words) : len(words) + 1 + len(others)]
        words += [word] * (1 + len(others))
        counted += related_shares([own, *theirs], others.values())
        # One unit may contain several related words, so their sum can exceed the number of units.
        rarity.append(inverse_frequency(units, own or min(sum(theirs), units)))
    return _join_rows(state, postings, np.array(words), np.array(counted), np.array(rarity))


def related_shares(holders: Sequence[int], others: Iterable[float], /) -> list[float]:
    """Return the counts of a word and its related words, which are left out if there are too many."""
    if sum(holders) <= _KIN_POSTINGS:
        return [1.0, *others]
    return [
        # A share of 1.0 is the word itself, or the word that it misspells, and is never left out.
        share if spent <= _KIN_POSTINGS or share == 1.0 else 0.0
        for share, spent in zip((1.0, *others), accumulate(holders), strict=True)
    ]


def weight_of(word: str, weights: SignalWeights, /) -> float:
    """Return the weight of `word` compared with others as rare: less if it is common in questions."""
    return weights.asking if word in analyser.ASKING else 1.0


def inverse_frequency(units: int, df: int, /) -> float:
    """Return the weight of a term that `df` of the `units` contain."""
    return math.log(1.0 + (units - df + 0.5) / (df + 0.5))


def _join_rows(
    state: IndexState, postings: FoundPostings, words: NDArray[np.int64], counted: Floats, rarity: Floats
) -> MatchedTerms:
    """Join the rows of all matches that belong to one of the `words`, each counted by its share."""
    if not counted.all():
        is_counted = counted.take(postings.terms) != 0.0
        postings = FoundPostings(
            postings.terms[is_counted], postings.rows[is_counted], postings.counts[is_counted], postings.counts_of
        )
    many = len(postings.rows)
    if not many:
        return MatchedTerms(postings.terms, postings.rows, np.zeros(0), None, rarity)
    terms, share = words.take(postings.terms), counted.take(postings.terms)
    size, every = state.columns.size, len(rarity) * state.columns.size
    places = terms * size + postings.rows
    # A small table is summed in place. A large one would be mostly zeros, so its positions are sorted instead.
    if every <= _TABLE:
        summed = _as_floats(np.bincount(places, share * postings.counts, every))
        is_exact = np.zeros(every, np.bool_)
        is_exact[places[share == 1.0]] = True
        places = summed.nonzero()[0]
        terms = places // size
        return MatchedTerms(terms, places - terms * size, summed.take(places), is_exact.take(places), rarity)
    # A stable order adds the numbers in the order of the terms.
    bits = many.bit_length()
    keys = (places << bits) | np.arange(many)
    keys.sort()
    order, places = keys & ((1 << bits) - 1), keys >> bits
    heads = np.ones(many, np.bool_)
    np.not_equal(places[1:], places[:-1], out=heads[1:])
    groups = heads.cumsum() - 1
    counts = np.bincount(groups, (share * postings.counts).take(order))
    exact = np.zeros(len(counts), np.bool_)
    exact[groups[(share == 1.0).take(order)]] = True
    firsts = order[heads]
    return MatchedTerms(terms.take(firsts), postings.rows.take(firsts), _as_floats(counts), exact, rarity)


def _term_table(size: int, postings: MatchedTerms, words: int, lines: Lines) -> tuple[Floats, Lines]:
    """Return how much each row (0: none) contains of each of the first `words` terms, and `lines` as rows of that
    table.

    Where it would be too large only the rows of `lines` have a place in it.
    """
    terms, rows, counts = postings.terms, postings.rows, postings.counts
    if words < len(postings.idf):
        end = int(terms.searchsorted(words))
        terms, rows, counts = terms[:end], rows[:end], counts[:end]
    if words * size > _TABLE:
        numbers = np.zeros(size, np.int32)
        numbers[lines] = 1
        # Row 0 means an absent neighbour and must stay without terms.
        numbers[0] = 0
        table_rows = numbers.nonzero()[0]
        numbers[table_rows] = np.arange(1, len(table_rows) + 1, dtype=np.int32)
        rows, lines, size = numbers.take(rows), numbers.take(lines), len(table_rows) + 1
        within = rows.nonzero()[0]
        terms, rows, counts = terms.take(within), rows.take(within), counts.take(within)
    table = np.zeros((words, size))
    table.reshape(-1)[terms * size + rows] = counts
    return table, lines


def _body_scores(
    state: IndexState, query: IndexQuery, postings: MatchedTerms, words: int
) -> tuple[Floats | None, Floats | None]:
    """Return each row's score for the words, and for the names."""
    gains = _term_gains(state, postings, TextField.BODY, query.bm25)
    if words == len(postings.idf):
        return _sum_by_row(state, postings.rows, gains), None
    end = int(postings.terms.searchsorted(words))
    return _sum_by_row(state, postings.rows[:end], gains[:end]), _sum_by_row(state, postings.rows[end:], gains[end:])


def _field_scores(
    state: IndexState, postings: FoundPostings, field: TextField, parameters: Bm25Parameters
) -> Floats | None:
    """Return each row's score for the terms found in a field, without related words."""
    field_terms = _with_kin(state, postings, ())
    return _sum_by_row(state, postings.rows, _term_gains(state, field_terms, field, parameters))


def _term_gains(state: IndexState, postings: MatchedTerms, field: TextField, parameters: Bm25Parameters) -> Floats:
    """Return each row's gain from each of its terms."""
    average = parameters.length(state.field_terms[field], state.field_units[field])
    k1, b = parameters.k1, parameters.b
    norm = k1 * (1.0 - b) + (k1 * b / average) * state.columns.lengths(field).take(postings.rows)
    return (postings.idf * (k1 + 1.0)).take(postings.terms) * (postings.counts / (postings.counts + norm))


def _sum_by_row(state: IndexState, rows: Integers, gains: Floats) -> Floats | None:
    return _as_floats(np.bincount(rows, gains, state.columns.size)) if len(rows) else None


def _as_floats(sums: NDArray[Any]) -> Floats:
    return sums
