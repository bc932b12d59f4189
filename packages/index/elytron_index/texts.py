"""The text side of a search: BM25 per field over the whole space, and per term over the units that matter.

A row's score is summed in the order of the query's terms, never by where the row is kept.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elytron_index import kin, spelling
from elytron_index.columns import Mask
from elytron_index.postings import Field, Found, code_of
from elytron_index.query import Bm25, IndexQuery, Weights
from elytron_index.selection import highest
from elytron_index.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_KIN_POSTINGS: Final = 1 << 15
"""So many rows of a word and its kin are joined; in a space that holds more, the word speaks for itself."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The query's terms: all of them, and apart the words and the names of this space's speakers."""

    every: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]


class Held(NamedTuple):
    """Which rows hold each word of a query, and how much of it: kin counts a share, the word itself in full."""

    rows: Rows
    counts: Floats
    exact: Mask
    """Where the word itself is there, or what it is most likely a slip of."""
    counts_of: NDArray[np.int64]
    """How many of the rows belong to which word, in the order asked."""
    idf: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """What each unit of a pool holds of the query, term by term."""

    window: Floats
    matched: Floats
    coverage: Floats
    context: Floats


@dataclass(frozen=True, slots=True)
class Local:
    """What the query's terms say of a pool: `body` of all its lines, the others of the first, the units themselves."""

    body: Floats
    title: Floats
    label: Floats
    name: Floats
    spread: Spread

    def total(self, weights: Weights, /) -> Floats:
        """Return the weighted sum of the fields of the units themselves."""
        return self.body[0] + weights.title * self.title + weights.label * self.label + weights.name * self.name


@dataclass(frozen=True, slots=True)
class Texts:
    """What the query's terms say of every row: a dense score per field, None where no row has any."""

    state: State
    query: IndexQuery
    body: Floats | None
    title: Floats | None
    label: Floats | None
    name: Floats | None
    words: Held
    names: Held
    hit: Mask
    """Rows with any term in any field."""

    @property
    def is_body_alone(self) -> bool:
        """No unit has a term in another field, so that the best by their body are the best by all."""
        return self.title is None and self.label is None and self.name is None

    def speaking(self, seen: Mask, wanted: int, /) -> Rows:
        """Return the rows of `seen` best by their body, with all that equal the last of them."""
        if self.body is None:
            return np.zeros(0, np.int64)
        rows = np.flatnonzero((self.body > 0.0) & seen)
        return rows[highest(self.body[rows], wanted)]

    def telling(self, asked: Mask, wanted: int, /) -> Rows:
        """Return the rows of `asked` best by all fields together, with all that equal the last of them."""
        rows = np.flatnonzero(self.hit & asked)
        return rows[highest(self._total(rows), wanted)]

    def local(self, around: NDArray[np.int32], /) -> Local:
        """Return what there is in the rows of `around` for its first line, whose rows ascend."""
        pool = around[0]
        body = np.zeros(around.shape) if self.body is None else self.body[around]
        title, label, name = at(self.title, pool), at(self.label, pool), at(self.name, pool)
        spread = _spread(self.state, self.query, self, around)
        return Local(body, title, label, name, spread)

    def _total(self, rows: NDArray[np.integer]) -> Floats:
        weights = self.query.weights
        total = at(self.body, rows)
        for scores, weight in ((self.title, weights.title), (self.label, weights.label), (self.name, weights.name)):
            if scores is not None:
                total = total + weight * scores[rows]
        return total


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
    related = [kin_of(state, word, query.weights.kin) for word in terms.words]
    found = _find(state, terms, related)
    likely = slips(state, terms, related, found[0].counts_of.tolist()) if query.weights.kin else {}
    if likely:
        related = [likely.get(word, others) for word, others in zip(terms.words, related, strict=True)]
        found = _find(state, terms, related)
    in_body, named, in_title, in_label = found
    words, names = _with_kin(state, in_body, related), _exact(state, named)
    hit = np.zeros(state.columns.size, np.bool_)
    hit[np.concatenate((words.rows, names.rows, in_title.rows, in_label.rows))] = True
    return Texts(
        state,
        query,
        body=_bm25(state, words, Field.BODY, query.body),
        title=_bm25(state, _exact(state, in_title), Field.TITLE, query.title) if len(in_title.rows) else None,
        label=_bm25(state, _exact(state, in_label), Field.LABEL, query.label) if len(in_label.rows) else None,
        name=_bm25(state, names, Field.BODY, query.body),
        words=words,
        names=names,
        hit=hit,
    )


def _spread(state: State, query: IndexQuery, texts: Texts, around: NDArray[np.int32], /) -> Spread:
    """Return what the units in `around`'s first line hold, and for the window what all its lines hold together."""
    window, matched, coverage, context = np.zeros((4, around.shape[1]))
    if not (len(texts.words.rows) or len(texts.names.rows)) or not around.shape[1]:
        return Spread(window, matched, coverage, context)
    norm, k1 = window_norm(state, query, around), query.body.k1
    counts = np.zeros(state.columns.size)
    for held, is_word in ((texts.words, True), (texts.names, False)):
        start = 0
        for idf, holders in zip(held.idf, held.counts_of.tolist(), strict=True):
            if holders:
                rows = held.rows[start : start + holders]
                exact = held.exact[start : start + holders]
                counts[rows] = held.counts[start : start + holders]
                together = counts[around]
                if is_word:
                    context += idf * np.minimum(together.max(axis=0), 1.0)
                    window += (idf * (k1 + 1.0)) * ((total := together.sum(axis=0)) / (total + norm))
                coverage += idf * np.minimum(together[0], 1.0)
                counts[rows] = exact
                matched += counts[around[0]]
                counts[rows] = 0.0
                start += holders
    words = sum(texts.words.idf)
    return Spread(window, matched, coverage / (words + sum(texts.names.idf)), context / (words or 1.0))


def window_norm(state: State, query: IndexQuery, around: NDArray[np.int32], /) -> Floats:
    """Return what BM25 puts beside the count of a term for each column of `around`, read as one text."""
    k1, b = query.body.k1, query.body.b
    average = len(around) * state.field_terms[Field.BODY] / state.field_units[Field.BODY]
    return k1 * (1.0 - b) + (k1 * b / average) * state.columns.body_terms[around].sum(axis=0)


def _find(state: State, terms: Terms, related: Sequence[Mapping[str, float]]) -> list[Found]:
    """Return the postings of the words, each before its kin, and of the names, in texts; of all terms in titles;
    of the words in labels."""
    columns, vocabulary = state.columns, state.postings.vocabulary
    groups = (
        ([word for word, others in zip(terms.words, related, strict=True) for word in (word, *others)], Field.BODY),
        (terms.names, Field.BODY),
        (terms.every, Field.TITLE),
        (terms.words, Field.LABEL),
    )
    codes = [
        code_of(number, field) if (number := vocabulary.get(term)) is not None else -1
        for group, field in groups
        for term in group
    ]
    found = state.postings.find(codes, columns.alive if columns.dead else None)
    ends = accumulate((len(group) for group, _ in groups), initial=0)
    places = list(accumulate(found.counts_of.tolist(), initial=0))
    return [
        Found(
            found.rows[places[first] : places[end]],
            found.counts[places[first] : places[end]],
            found.counts_of[first:end],
        )
        for first, end in pairwise(ends)
    ]


def kin_of(state: State, word: str, weight: float) -> dict[str, float]:
    """Return the kin of `word` that nobody here is called, each with the share it counts."""
    if not weight:
        return {}
    known, speakers, units = state.postings.vocabulary, state.speakers_of, state.speaker_units
    return {
        other: weight * alike
        for other, alike in kin.of(word).items()
        if other in known and not (other in speakers and any(units[code] for code in speakers[other]))
    }


def slips(
    state: State, terms: Terms, related: Sequence[Mapping[str, float]], counts: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Return, for words that are nowhere and no words of the table either, what they are most likely slips of."""
    found: dict[str, dict[str, float]] = {}
    start = 0
    for word, others in zip(terms.words, related, strict=True):
        end = start + 1 + len(others)
        if not any(counts[start:end]) and not kin.knows(word):
            near = spelling.near(word, state.postings.vocabulary)
            if near:
                found[word] = dict.fromkeys(near, 1.0)
        start = end
    return found


def _with_kin(state: State, found: Found, related: Sequence[Mapping[str, float]]) -> Held:
    """Join each word's rows with those of its kin."""
    if not any(related):
        return _exact(state, found)
    size, units = state.columns.size, state.columns.count
    sizes = iter(found.counts_of.tolist())
    owners: list[int] = []
    counted: list[float] = []
    rarity: list[float] = []
    for word, others in enumerate(related):
        own, *theirs = (next(sizes) for _ in range(1 + len(others)))
        owners += [word] * (1 + len(others))
        counted += shares([own, *theirs], others.values())
        rarity.append(idf(units, own or min(sum(theirs), units)))
    share = np.repeat(counted, found.counts_of)
    places = np.repeat(np.array(owners) * size, found.counts_of) + found.rows
    held = np.bincount(places, share * found.counts, size * len(related)).astype(np.float64, copy=False)
    sure = np.zeros(len(held), np.bool_)
    sure[places[share == 1.0]] = True
    places = np.flatnonzero(held)
    words, rows = np.divmod(places, size)
    return Held(rows, held[places], sure[places], np.bincount(words, minlength=len(related)), tuple(rarity))


def _exact(state: State, found: Found) -> Held:
    """Return the rows that hold the words themselves."""
    rarity = tuple(idf(state.columns.count, holders) for holders in found.counts_of.tolist())
    everywhere = np.ones(len(found.rows), np.bool_)
    return Held(found.rows.astype(np.int64), found.counts.astype(np.float64), everywhere, found.counts_of, rarity)


def shares(holders: Sequence[int], others: Iterable[float], /) -> list[float]:
    """Return what a word and its kin count, where so many hold each: kin is left out once there are too many."""
    return [
        share if spent <= _KIN_POSTINGS or share == 1.0 else 0.0
        for share, spent in zip((1.0, *others), accumulate(holders), strict=True)
    ]


def idf(units: int, df: int, /) -> float:
    """Return what holding a term that `df` of the `units` hold is worth."""
    return math.log(1.0 + (units - df + 0.5) / (df + 0.5))


def _bm25(state: State, held: Held, field: Field, parameters: Bm25) -> Floats | None:
    if not len(held.rows):
        return None
    lengths = state.columns.lengths(field)
    average = state.field_terms[field] / state.field_units[field]
    k1, b = parameters.k1, parameters.b
    norm = k1 * (1.0 - b) + (k1 * b / average) * lengths[held.rows]
    gains = np.repeat(np.array(held.idf) * (k1 + 1.0), held.counts_of) * (held.counts / (held.counts + norm))
    return np.bincount(held.rows, gains, state.columns.size).astype(np.float64, copy=False)
