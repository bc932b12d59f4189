"""The text side of a search: BM25 per field over the whole space, and per term over the units that matter.

A row's score is summed in the order of the query's terms, never by where the row is kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elytron_index.columns import Mask
from elytron_index.postings import Field, Found, code_of
from elytron_index.query import Bm25, IndexQuery
from elytron_index.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Terms:
    """The query's terms: all of them, and apart the words and the names of this space's speakers."""

    every: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """What the query's terms say of every row: a dense score per field, None where no row has any."""

    body: Floats | None
    title: Floats | None
    label: Floats | None
    name: Floats | None
    inside: Found
    """The postings of the words, then of the names, in the units' texts."""
    idf: Sequence[float]
    words: int
    hit: Mask
    """Rows with any term in any field."""

    def total(self, rows: Rows, query: IndexQuery, /) -> Floats:
        """Return the weighted sum of the fields at `rows`."""
        weights = query.weights
        total = at(self.body, rows)
        for scores, weight in ((self.title, weights.title), (self.label, weights.label), (self.name, weights.name)):
            if scores is not None:
                total = total + weight * scores[rows]
        return total


@dataclass(frozen=True, slots=True)
class Spread:
    """What each unit of a pool holds of the query, term by term."""

    window: Floats
    matched: Floats
    coverage: Floats


def at(scores: Floats | None, rows: NDArray[np.integer], /) -> Floats:
    """Return the scores of `rows`."""
    return np.zeros(len(rows)) if scores is None else scores[rows]


def terms_of(state: State, text: str, /) -> Terms:
    """Return the terms that `text` asks for, with the speakers' names told apart."""
    every = tuple(state.analyser.query_terms(text))
    units = state.speaker_units
    names = tuple(term for term in every if any(units[code] for code in state.speakers_of.get(term, ())))
    return Terms(every, tuple(term for term in every if term not in names), names)


def read(state: State, query: IndexQuery, terms: Terms, /) -> Texts:
    """Return what `terms` say of every row."""
    columns = state.columns
    groups = (
        (terms.words, Field.BODY, query.body),
        (terms.names, Field.BODY, query.body),
        (terms.every, Field.TITLE, query.title),
        (terms.words, Field.LABEL, query.label),
    )
    vocabulary = state.postings.vocabulary
    codes = [
        code_of(number, field) if (number := vocabulary.get(term)) is not None else -1
        for group, field, _ in groups
        for term in group
    ]
    found = state.postings.find(codes, columns.alive if columns.dead else None)
    idf = [_idf(columns.count, df) for df in found.counts_of.tolist()]
    scores: list[Floats | None] = []
    start = 0
    for group, field, parameters in groups:
        end = start + len(group)
        scores.append(_bm25(state, _between(found, start, end), idf[start:end], field, parameters))
        start = end
    body, name, title, label = scores
    hit = np.zeros(columns.size, np.bool_)
    hit[found.rows] = True
    inside = len(terms.every)
    return Texts(body, title, label, name, _between(found, 0, inside), idf[:inside], len(terms.words), hit)


def spread(state: State, query: IndexQuery, texts: Texts, around: NDArray[np.int32], /) -> Spread:
    """Return what the units in `around`'s first line hold, and for the window what all its lines hold together."""
    window, matched, coverage = np.zeros((3, around.shape[1]))
    if not len(texts.inside.rows) or not around.shape[1]:
        return Spread(window, matched, coverage)
    columns, k1, b = state.columns, query.body.k1, query.body.b
    average = len(around) * state.field_terms[Field.BODY] / state.field_units[Field.BODY]
    norm = k1 * (1.0 - b) + (k1 * b / average) * columns.body_terms[around].sum(axis=0)
    start = 0
    for number, (idf, df) in enumerate(zip(texts.idf, texts.inside.counts_of.tolist(), strict=True)):
        if df:
            counts = np.zeros(columns.size, np.uint8)
            counts[texts.inside.rows[start : start + df]] = texts.inside.counts[start : start + df]
            held = counts[around]
            own = held[0] > 0
            matched += own
            coverage += idf * own
            if number < texts.words:
                together = held.sum(axis=0, dtype=np.float64)
                window += (idf * (k1 + 1.0)) * (together / (together + norm))
            start += df
    return Spread(window, matched, coverage / sum(texts.idf))


def _idf(units: int, df: int) -> float:
    return math.log(1.0 + (units - df + 0.5) / (df + 0.5))


def _between(found: Found, first: int, end: int) -> Found:
    start = int(found.counts_of[:first].sum())
    stop = start + int(found.counts_of[first:end].sum())
    return Found(found.rows[start:stop], found.counts[start:stop], found.counts_of[first:end])


def _bm25(state: State, found: Found, idf: Sequence[float], field: Field, parameters: Bm25) -> Floats | None:
    if not len(found.rows):
        return None
    lengths = (state.columns.body_terms, state.columns.title_terms, state.columns.label_terms)[field]
    average = state.field_terms[field] / state.field_units[field]
    k1, b = parameters.k1, parameters.b
    counts = found.counts.astype(np.float64)
    norm = k1 * (1.0 - b) + (k1 * b / average) * lengths[found.rows]
    gains = np.repeat(np.array(idf) * (k1 + 1.0), found.counts_of) * (counts / (counts + norm))
    return np.bincount(found.rows, gains, state.columns.size).astype(np.float64, copy=False)
