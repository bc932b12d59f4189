"""A search of one space: raw signals as arrays over the units that can matter, then the best by a weighted sum.

Every sum runs in an order fixed by the query and the thread, never by where a unit happens to be kept; so results do
not depend on how the units arrived.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_index import masks
from elytron_index.columns import Mask
from elytron_index.postings import Field, Found, code_of
from elytron_index.query import Bm25, Candidate, Candidates, IndexQuery, Signals
from elytron_index.selection import best, best_three
from elytron_index.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_POOL = 1_024
_POOL_TIMES = 8
"""Text, neighbourhood and vector each bring this many units, or this many times the limit, to be weighed in full."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """The query's terms: all of them, and apart the words of the space and the names of its speakers."""

    every: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Texts:
    """Dense text scores, one number per row, and the postings they came from."""

    body: Floats
    title: Floats
    label: Floats
    name: Floats
    sum: Floats
    matched: Floats
    coverage: Floats
    words: Found
    weights: Floats
    hit: Mask


def search(state: State, query: IndexQuery, /) -> Candidates:
    """Return the best units for `query`.

    Raises InvalidInput, LimitExceeded for a limit, text or vector out of bounds.
    """
    if not 1 <= query.limit <= limits.RECALL_MAX:
        raise InvalidInput(field="limit", problem=f"is not 1 to {limits.RECALL_MAX}")
    if len(query.text) > limits.QUERY_CHARS:
        raise LimitExceeded(what="characters in a query", limit=limits.QUERY_CHARS, found=len(query.text))
    terms = _terms(state, query.text)
    seen = masks.visible(query.filters, state.columns, state.names)
    excluded = masks.excluded_rows(query.filters.exclude, state.rows_of)
    asked = masks.asked(query.filters, seen, state.columns, state.names, excluded)
    texts = _texts(state, query, terms, seen)
    cosines, lowest = _cosines(state, query, seen)
    pool = _pool(state, query, texts, cosines, asked)
    shares, named = _speakers(state, terms)
    around = _around(state, pool)
    signals = _signals(state, query, texts, pool=pool, around=around, cosines=cosines, lowest=lowest, shares=shares)
    score = _score(state, query, pool, signals)
    chosen = best(state, pool, score, query.limit)
    rows = zip(*(signal[chosen].tolist() for signal in signals), strict=True)
    found = tuple(map(Candidate, state.views(pool[chosen]), map(_one, rows), score[chosen].tolist()))
    return Candidates(
        found=found,
        terms=terms.every,
        named=named,
        highs=_one(float(signal.max(initial=0.0)) for signal in signals),
        lows=_one(float(signal.min()) if len(pool) else 0.0 for signal in signals),
        pool=len(pool),
        searched=int(np.count_nonzero(asked)),
    )


def _one(values: Iterable[float]) -> Signals[float]:
    return Signals[float]._make(values)


def _terms(state: State, text: str) -> _Terms:
    every = tuple(state.analyser.query_terms(text))
    names = tuple(term for term in every if any(state.speaker_units[code] for code in state.speakers_of.get(term, ())))
    return _Terms(every, tuple(term for term in every if term not in names), names)


def _texts(state: State, query: IndexQuery, terms: _Terms, seen: Mask) -> _Texts:
    columns, size = state.columns, state.columns.size
    asked = [*((term, Field.BODY) for term in (*terms.words, *terms.names))]
    asked += [(term, Field.TITLE) for term in terms.every]
    asked += [(term, Field.LABEL) for term in terms.words]
    vocabulary = state.postings.vocabulary
    codes = [code_of(number, field) if (number := vocabulary.get(term)) is not None else -1 for term, field in asked]
    found = state.postings.find(codes, columns.alive if columns.dead else None)
    idf = np.array([_idf(columns.count, df) for df in found.counts_of.tolist()])
    ends = np.cumsum([len(terms.words), len(terms.names), len(terms.every), len(terms.words)]).tolist()
    words, names, titles, labels = (
        _between(found, start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)
    )
    whole = _between(found, 0, ends[1])
    mass = float(sum(idf[: ends[1]].tolist())) or 1.0
    hit = np.zeros(size, np.bool_)
    hit[found.rows] = True
    hit &= seen
    body = _bm25(state, words, idf[: ends[0]], Field.BODY, query.body)
    title = _bm25(state, titles, idf[ends[1] : ends[2]], Field.TITLE, query.title)
    label = _bm25(state, labels, idf[ends[2] :], Field.LABEL, query.label)
    name = _bm25(state, names, idf[ends[0] : ends[1]], Field.BODY, query.body)
    # What may not be seen lends nothing to its neighbours.
    body *= seen
    weights = query.weights
    return _Texts(
        body=body,
        title=title,
        label=label,
        name=name,
        sum=body + weights.title * title + weights.label * label + weights.name * name,
        matched=np.bincount(whole.rows, minlength=size).astype(np.float64),
        coverage=np.bincount(whole.rows, np.repeat(idf[: ends[1]], whole.counts_of), size) / mass,
        words=words,
        weights=idf[: ends[0]],
        hit=hit,
    )


def _idf(units: int, df: int) -> float:
    return math.log(1.0 + (units - df + 0.5) / (df + 0.5))


def _between(found: Found, first: int, end: int) -> Found:
    start = int(found.counts_of[:first].sum())
    stop = start + int(found.counts_of[first:end].sum())
    return Found(found.rows[start:stop], found.counts[start:stop], found.counts_of[first:end])


def _bm25(state: State, found: Found, idf: Floats, field: Field, parameters: Bm25) -> Floats:
    size = state.columns.size
    if not len(found.rows):
        return np.zeros(size)
    lengths = (state.columns.body_terms, state.columns.title_terms, state.columns.label_terms)[field]
    average = state.field_terms[field] / state.field_units[field]
    k1, b = parameters.k1, parameters.b
    counts = found.counts.astype(np.float64)
    norm = k1 * (1.0 - b) + (k1 * b / average) * lengths[found.rows]
    gains = np.repeat(idf * (k1 + 1.0), found.counts_of) * (counts / (counts + norm))
    return np.bincount(found.rows, gains, size).astype(np.float64, copy=False)


def _cosines(state: State, query: IndexQuery, seen: Mask) -> tuple[Floats | None, float]:
    """Return each row's cosine above the lowest one seen (0 where it has none), and the lowest; None without any."""
    if query.vector is None:
        return None, 0.0
    vector = state.vectors.parse(query.vector, {}, field="query vector")
    kept = state.vectors.models.get(query.vector[0])
    if kept is None:
        return None, 0.0
    owners = kept.owners
    living = seen[owners]
    if not living.any():
        return None, 0.0
    values = kept.cosines(vector)[living].astype(np.float64)
    lowest = float(values.min())
    cosines = np.full(state.columns.size, -1.0)
    cosines[owners[living]] = values - lowest
    return cosines, lowest


def _pool(state: State, query: IndexQuery, texts: _Texts, cosines: Floats | None, asked: Mask) -> Rows:
    """Return the rows worth weighing in full: best by text, beside the best, nearest by vector."""
    if query.vector is None and not query.text.strip():
        return np.flatnonzero(asked)
    wanted = max(_POOL, _POOL_TIMES * query.limit)
    before, after = state.columns.before, state.columns.after
    speaking = _highest(texts.body, np.flatnonzero(texts.body), wanted)
    previous, following = before[speaking], after[speaking]
    mark = np.zeros(state.columns.size, np.bool_)
    for beside in (previous, following, before[previous], after[following]):
        mark[beside] = True
    mark[_highest(texts.sum, np.flatnonzero(texts.hit & asked), wanted)] = True
    if cosines is not None:
        mark[_highest(cosines, np.flatnonzero(asked & (cosines >= 0.0)), wanted)] = True
    mark &= asked
    return np.flatnonzero(mark)


def _highest(values: Floats, rows: Rows, wanted: int) -> Rows:
    """Return those of `rows` that have one of the `wanted` highest values; all that share the lowest of them."""
    if len(rows) <= wanted:
        return rows
    held = values[rows]
    return rows[held >= np.partition(held, -wanted)[-wanted]]


def _speakers(state: State, terms: _Terms) -> tuple[Floats, tuple[str, ...]]:
    """Return the share of each speaker's name that the query holds, and the speakers named in full."""
    shares = np.zeros(len(state.names.speaker))
    named: list[str] = []
    for code in {code for term in terms.names for code in state.speakers_of[term] if state.speaker_units[code]}:
        name = state.name_terms[code]
        shares[code] = sum(term in terms.names for term in name) / len(name)
        if shares[code] == 1.0:
            named.append(state.names.speaker.values[code])
    return shares, tuple(sorted(named))


def _around(state: State, pool: Rows) -> NDArray[np.int32]:
    """Return five lines of rows: the pool itself, one before, one after, two before, two after; 0 for nobody."""
    before, after = state.columns.before, state.columns.after
    previous, following = before[pool], after[pool]
    return np.stack((pool.astype(np.int32), previous, following, before[previous], after[following]))


def _signals(
    state: State,
    query: IndexQuery,
    texts: _Texts,
    /,
    *,
    pool: Rows,
    around: NDArray[np.int32],
    cosines: Floats | None,
    lowest: float,
    shares: Floats,
) -> Signals[Floats]:
    columns = state.columns
    near = query.context
    steps = (near.before, near.after, near.second_before, near.second_after)
    take = 1.0 / (1.0 + (columns.chars[pool] / near.chars) ** 2)
    reach = np.minimum(np.count_nonzero(around, axis=0), 3)
    threads = columns.thread[pool]
    body = texts.body[pool]
    zeros = np.zeros(len(pool))
    vector, vector_near, vector_session = np.full(len(pool), lowest), zeros, zeros
    if cosines is not None:
        above = np.maximum(cosines, 0.0)
        vector = above[pool] + lowest
        vector_near = _near(above, around, steps) * take
        vector_session = best_three(above[pool], threads, reach)
    age = np.maximum(query.now - columns.at[pool], 0)
    known = (columns.at[pool] != 0) & (query.now != 0)
    return Signals(
        body=body,
        title=texts.title[pool],
        label=texts.label[pool],
        name=texts.name[pool],
        near=_near(texts.body, around, steps) * take,
        window=_window(state, query, texts, around),
        session=best_three(body, threads, reach),
        speaker=shares[columns.speaker[pool]],
        vector=vector,
        vector_near=vector_near,
        vector_session=vector_session,
        recency=np.where(known, query.half_life_ms / (query.half_life_ms + age), 0.0),
        informative=columns.informative[pool].astype(np.float64),
        matched=texts.matched[pool],
        coverage=texts.coverage[pool],
    )


def _near(values: Floats, around: NDArray[np.int32], steps: Sequence[float]) -> Floats:
    total = np.zeros(around.shape[1])
    for step, rows in zip(steps, around[1:], strict=True):
        total += step * values[rows]
    return total


def _window(state: State, query: IndexQuery, texts: _Texts, around: NDArray[np.int32]) -> Floats:
    """Return BM25 of each pool unit read together with its neighbours, rarity counted by single units."""
    total = np.zeros(around.shape[1])
    if not len(texts.words.rows) or not len(total):
        return total
    columns, k1, b = state.columns, query.body.k1, query.body.b
    average = 5.0 * state.field_terms[Field.BODY] / state.field_units[Field.BODY]
    norm = k1 * (1.0 - b) + (k1 * b / average) * columns.body_terms[around].sum(axis=0)
    counts = np.zeros(columns.size)
    start = 0
    for idf, length in zip(texts.weights.tolist(), texts.words.counts_of.tolist(), strict=True):
        rows = texts.words.rows[start : start + length]
        counts[rows] = texts.words.counts[start : start + length] * (texts.body[rows] > 0.0)
        together = counts[around].sum(axis=0)
        total += (idf * (k1 + 1.0)) * (together / (together + norm))
        counts[rows] = 0.0
        start += length
    return total


def _score(state: State, query: IndexQuery, pool: Rows, s: Signals[Floats]) -> Floats:
    if not len(pool):
        return np.zeros(0)
    weights = query.weights
    text = s.body + weights.title * s.title + weights.label * s.label + weights.name * s.name
    score = (text + weights.near * s.near + weights.session * s.session) / _scale(text)
    score = score + weights.window * s.window / _scale(s.window)
    above = s.vector - s.vector.min()
    beside = weights.near * s.vector_near + weights.session * s.vector_session
    score = score + weights.vector * (above + beside) / _scale(above)
    score = score + weights.speaker * s.speaker + weights.informative * s.informative + weights.recency * s.recency
    if weights.roles:
        bonus = np.zeros(len(state.names.role))
        for role, weight in weights.roles:
            bonus[state.names.role.known((role,))] = weight
        score = score + bonus[state.columns.role[pool]]
    return score


def _scale(values: Floats) -> float:
    return float(values.max()) or 1.0
