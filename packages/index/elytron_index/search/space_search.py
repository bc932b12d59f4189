"""A search of one space: raw signals as arrays over the relevant units, then the best by a weighted sum.

Signals describe what a query is after: an answer to a question, a time, a kind of thing, a speaker, several threads.
Every sum runs in an order fixed by the query and the thread, never by where a unit is stored, so results do not depend
on the order in which units arrived.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.policy.ranking.excerpts import LONG_CHARS, SoughtWords
from elytron_core.policy.ranking.question import AnswerOwner
from elytron_core.policy.ranking.time_ranges import TimeSpan
from elytron_core.text.traits import TextTrait
from elytron_index.query import (
    FoundCandidates,
    IndexQuery,
    UnitCandidate,
    UnitFilters,
    UnitPlace,
    UnitSignals,
)
from elytron_index.search import bm25, max_score
from elytron_index.search.bm25 import Floats, PoolScores, QueryTerms, Rows, TextScores
from elytron_index.search.max_score import SkippingScores
from elytron_index.search.nearness import Nearness, TextLikeness, best_rows, best_three, query_nearness
from elytron_index.search.signal_trust import SignalTrust, chosen_sums, fitting_rows
from elytron_index.structures import visibility
from elytron_index.structures.columns import Mask, UnitColumns
from elytron_index.structures.index_state import IndexState
from elytron_index.structures.visibility import RowNeighbours

_DAY_MS: Final = 86_400_000
_AFTER_MS: Final = 14 * _DAY_MS
"""People report events afterwards, so news counts for this long after a time,"""
_AFTER_WORTH: Final = 0.7
_BEFORE_MS: Final = 3 * _DAY_MS
"""and anticipation for this long before it."""
_BEFORE_WORTH: Final = 0.2
_AGAIN_MOST: Final = 2
_TELLING: Final = 0.5
_OCCASION: Final = 0.3
"""A query is about the occasion of a wish that contains this share of its words;"""
_OCCASION_WORTH: Final = 0.5
"""such a wish counts this much, because the query also asks for something else."""
_HEEDED: Final = 5
"""This many lasting statements are heeded in full, because an answer cannot follow every wish ever made,"""
_HEEDED_FURTHER: Final = 0.5
"""and the others by this share."""


def date_nearness(spans: Sequence[TimeSpan], at: NDArray[np.int64], /) -> Floats:
    """Return the nearness of each moment to a mentioned time; 0 if it is unknown."""
    worth = np.zeros(len(at))
    for span in spans:
        within = ((at >= span.start) & (at < span.end)).astype(np.float64)
        late = (at - span.end) / _AFTER_MS
        within += _AFTER_WORTH * (1.0 - late) * ((late >= 0.0) & (late < 1.0))
        within += _BEFORE_WORTH * ((at < span.start) & (at >= span.start - _BEFORE_MS))
        np.maximum(worth, span.worth * within, out=worth)
    # An unknown time is stored as 0, which could otherwise be within a span that reaches back to 1970.
    return worth * (at != 0)


def later_places(text: Floats, columns: UnitColumns, pool: Rows, /) -> Floats:
    """Return the chronological position, 0 to 1, of each of `pool` whose text is worth at least half of the best; 0 for
    others.

    Of units that have no time but that of their recording, the later in the journal is the later one. Units that are
    claimed to be of one time are of one time.
    """
    at = columns.times(pool)
    places = np.zeros(len(at))
    telling = np.flatnonzero((text >= _TELLING * text.max(initial=0.0)) & (text > 0.0) & (at != 0))
    if not len(telling):
        return places
    times, rows = at[telling], pool[telling]
    sequences = np.where(times == columns.recorded_at.take(rows), columns.sequence.take(rows), 0)
    order = np.lexsort((sequences, times))
    is_later = (np.diff(times[order]) != 0) | (np.diff(sequences[order]) != 0)
    ranks = np.concatenate(((0,), np.cumsum(is_later)))
    places[telling[order]] = ranks / max(int(ranks[-1]), 1)
    return places


def wish_strength(columns: UnitColumns, heeds: TextTrait, pool: Rows, coverage: Floats, /) -> Floats:
    """Return how far each wish of `pool` is heeded: for an occasion, only if the query is about it."""
    wished = fitting_rows(columns, heeds, pool)
    if TextTrait.STANDING in heeds:
        return wished.astype(np.float64)
    return np.where(wished & (coverage >= _OCCASION), _OCCASION_WORTH, 0.0)


def in_talks_of(members: Mask, threads: NDArray[np.int32], /) -> Mask:
    """Return for the units of `threads` whether one of the `members` takes part in their conversation."""
    talks = np.zeros(int(threads.max()) + 1, np.bool_)
    talks[threads[members]] = True
    return talks.take(threads)


def foremost_standing(columns: UnitColumns, pool: Rows, score: Floats, standing: Floats, /) -> Floats:
    """Return `standing` with only the best by `score` in full."""
    rows = standing.nonzero()[0]
    if len(rows) <= _HEEDED:
        return standing
    # Ties are broken by time, position in the journal and in the thread, so that no arrival order decides.
    standing_rows = pool[rows]
    times = (-columns.order[standing_rows], -columns.sequence[standing_rows], -columns.times(standing_rows))
    order = np.lexsort((*times, -score[rows]))
    counted = standing.copy()
    counted[rows[order[_HEEDED:]]] *= _HEEDED_FURTHER
    return counted


def owned_units(state: IndexState, owner: AnswerOwner, pool: Rows, /) -> Mask | None:
    """Return which units' words are the owner's; None if no assistant speaks in the whole space."""
    assistants = state.assistants()
    if assistants is None:
        return None
    roles, speakers = assistants
    by_assistant = roles.take(state.columns.role.take(pool)) | speakers.take(state.columns.speaker.take(pool))
    return by_assistant if owner is AnswerOwner.ASSISTANT else ~by_assistant


def spread_out(columns: UnitColumns, pool: Rows, score: Floats, again: float, /) -> Floats:
    """Return the scores with `again` subtracted for each better unit of the same thread, at most twice."""
    threads = columns.thread[pool]
    order = np.lexsort((-columns.times(pool), -columns.order[pool], -score, threads))
    ordered = threads[order]
    heads = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)) if len(order) else np.zeros(0, int)
    rank = np.arange(len(order)) - np.repeat(heads, np.diff(np.append(heads, len(order))))
    spread = score.copy()
    # Thread 0 means no thread: its units are not from one talk.
    spread[order] -= again * np.minimum(rank, _AGAIN_MOST) * (ordered != 0)
    return spread


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """The terms of a query, and their scores for every row without filters."""

    cache_key: tuple[object, ...]
    terms: QueryTerms
    scores: TextScores | SkippingScores

    def sought(self) -> SoughtWords:
        """Return the query's words, except names, prepared for single sentences."""
        stands_for: dict[str, list[tuple[int, float]]] = {}
        for place, (word, others) in enumerate(zip(self.terms.words, self.scores.related, strict=True)):
            for term, share in ((word, 1.0), *others.items()):
                stands_for.setdefault(term, []).append((place, share))
        return SoughtWords(stands_for, self.worths())

    def worths(self) -> list[float]:
        """Return the weight of each word by its rarity here."""
        scores = self.scores
        worths = (
            [word.idf for word in scores.body] if isinstance(scores, SkippingScores) else scores.matches.idf.tolist()
        )
        return worths[: len(self.terms.words)]


class ReadingCache:
    """Caches the scores of the last query's words, since a recall searches one plane after the other.

    It is stored beside its state and not in it, so that a state is freed with its last holder.
    """

    def __init__(self) -> None:
        self._latest: ReadQuery | None = None

    def of(self, state: IndexState, query: IndexQuery, /) -> ReadQuery:
        """Return the scores of the words of `query` in `state`, which is unchanged since this was created or
        cleared."""
        is_large = _is_skipping_valid(state, query)
        # Filters are not part of the key, because these scores are of every row.
        key = (is_large, query.text, query.weights, query.bm25)
        cached_query = self._latest
        if cached_query is None or cached_query.cache_key != key:
            terms = bm25.terms_of(state, query.text)
            scores = max_score.read_skipping(state, query, terms) if is_large else bm25.read_terms(state, query, terms)
            cached_query = self._latest = ReadQuery(key, terms, scores)
        return cached_query

    def forget(self) -> None:
        """Clear the cache."""
        self._latest = None


def _is_skipping_valid(state: IndexState, query: IndexQuery) -> bool:
    """Return whether skipping is worthwhile in this space and valid with these weights: no word may have a negative
    gain."""
    weights = query.weights
    return state.columns.size >= max_score.LARGE and min(weights.title, weights.name) > 0.0


_POOL: Final = 256
_POOL_TIMES: Final = 4
"""Text, neighbourhood and vector each contribute this many units, or this many times the limit, to be weighed in full.
"""

NEIGHBOUR_SHARES: Final = (0.3, 0.2, 0.1, 0.1)
"""Shares that a unit gets from its neighbours in the thread: one before, one after, two before, two after."""
LENT_CHARS: Final = 300
"""A long unit explains itself: at this length it gets half as much."""
_STANDING: Final = 64
"""Number of latest units weighed for standing statements about any subject."""

_new: Callable[..., Any] = tuple[Any, ...].__new__
_one: Callable[[list[float]], UnitSignals[float]] = partial(_new, UnitSignals)
_candidate: Callable[[tuple[UnitPlace, UnitSignals[float], float]], UnitCandidate] = partial(_new, UnitCandidate)


def search_space(state: IndexState, query: IndexQuery, reading: ReadingCache, /) -> FoundCandidates:
    """Return the best units for `query`, using the `reading` of this state.

    Raises InvalidInput, LimitExceeded for a limit, text or vector out of bounds.
    """
    if not 1 <= query.limit <= limits.RECALL_MAX:
        raise InvalidInput(field="limit", problem=f"must be 1 to {limits.RECALL_MAX}")
    if len(query.text) > limits.QUERY_CHARS:
        raise LimitExceeded(what="characters in a query", limit=limits.QUERY_CHARS, found=len(query.text))
    sight = state.sights.of(query.filters)
    excluded = visibility.excluded_rows(query.filters.exclude, state.refs)
    eligible = visibility.asked_rows(query.filters, sight.mask, state.columns, state.names, excluded)
    read = reading.of(state, query)
    terms = read.terms
    near = query_nearness(state, query, sight)
    like = TextLikeness(state.columns, query.text)
    pool = _weighed_pool(state, query, read.scores, near, like, visible=sight.mask, eligible=eligible)
    shares, speakers = _speaker_shares(state, terms)
    around = sight.around(pool)
    local = read.scores.local(around)
    table = np.zeros((len(UnitSignals._fields), len(pool)))
    signals = UnitSignals[Floats]._make(table)
    text = local.total(query.weights)
    _weigh_pool(state, query, signals, local, around, pool=pool, near=near)
    if shares is not None:
        signals.speaker[:] = shares.take(state.columns.speaker.take(pool))
    signals.text_vectors[:] = like.at(pool)
    trust = SignalTrust.of(query.weights, sight.count, signals.context, like.share, is_encoded=near is not None)
    # Cosines count from the lowest of all visible ones (decision 0012).
    if query.weights.text_vectors:
        likeness = signals.text_vectors if near is None else signals.vector - near.lowest
        trust = trust.beside(query.weights, text, likeness)
        trust = trust.among_few(state, query, sight.mask, sight.count)
    sums = _score_pool(state, query, pool, signals, text, trust=trust)
    score = _chosen_scores(state, query, pool, terms, sums=sums, few=trust.few, is_assisted=bool(signals.owner.any()))
    highs, lows = map(_one, map(np.ndarray.tolist, _column_extremes(table)))
    best = best_rows(state, pool, score, query.limit)
    rows = pool.take(best)
    most = _highest_sum(query, highs, trust)
    if trust.few and len(best) and (whole := float(sums[0][best[0]])) > 0.0:
        # The best as a share of the highest sum says how far all signals agree, whatever chose it.
        most *= float(score[best[0]]) / whole
    places = state.places(rows)
    weighed = map(_one, table.take(best, axis=1).T.tolist())
    return FoundCandidates(
        candidates=tuple(map(_candidate, zip(places, weighed, score.take(best).tolist(), strict=True))),
        terms=terms.every,
        name_terms=terms.names,
        speakers=speakers,
        highs=highs,
        lows=lows,
        most=most,
        alike=trust.alike,
        few=trust.few,
        is_foreign=like.is_foreign or bool(state.columns.is_foreign(rows[:1]).any()),
        pool=len(pool),
        searched=sight.count if eligible is sight.mask else int(np.count_nonzero(eligible)),
        long=tuple((state.columns.chars.take(rows) >= LONG_CHARS).nonzero()[0].tolist()),
        is_english=query.is_english,
    )


def latest_rows(
    state: IndexState, filters: UnitFilters, traits: TextTrait, /, *, limit: int, least_trust: int = 0
) -> Rows:
    """Return the rows of the last `limit` units with one of `traits`, including ties with the last one's time.

    Those of assistants are left out, and units below `least_trust`, in any number: an untrusted one never pushes a
    trusted one out. Nothing if several speak and none of them is an assistant.
    """
    visible = state.sights.of(filters).mask
    excluded = visibility.excluded_rows(filters.exclude, state.refs)
    selected = visibility.asked_rows(filters, visible, state.columns, state.names, excluded)
    rows = (selected & ((state.columns.traits[: len(selected)] & int(traits)) != 0)).nonzero()[0]
    rows = rows[state.columns.trust[rows] >= least_trust]
    owned = owned_units(state, AnswerOwner.USER, rows)
    if owned is not None:
        rows = rows[owned]
    elif sum(map(bool, state.speaker_units)) > 1:
        return rows[:0]
    at = state.columns.times(rows)
    return rows[at >= np.partition(at, -limit)[-limit]] if len(rows) > limit else rows


def _weighed_pool(
    state: IndexState,
    query: IndexQuery,
    scores: TextScores | SkippingScores,
    near: Nearness | None,
    like: TextLikeness,
    /,
    *,
    visible: Mask,
    eligible: Mask,
) -> Rows:
    """Return the rows worth weighing in full: best by text, next to the best, most similar, nearest by vector, and the
    latest of the days or months that the query names.

    If these are fewer than the limit, the latest rows are added.
    """
    pool_size = max(_POOL, _POOL_TIMES * query.limit)
    rows = eligible.nonzero()[0]
    if len(rows) <= pool_size or (query.vector is None and not query.text.strip()):
        return rows
    mark = np.zeros(state.columns.size, np.bool_)
    speaking = scores.speaking(visible, pool_size)
    if len(speaking):
        # A turn next to one of the best may answer without a word of the query.
        before, after = state.columns.before, state.columns.after
        previous, following = before.take(speaking), after.take(speaking)
        mark[np.concatenate((previous, following, before.take(previous), after.take(following)))] = True
    # Then a choice by all fields would give the same rows again.
    is_one = scores.is_body_alone and (eligible is visible or np.array_equal(eligible, visible))
    mark[speaking if is_one else scores.telling(eligible, pool_size)] = True
    if query.weights.text_vectors:
        mark[like.nearest(eligible, pool_size)] = True
    if near is not None:
        mark[near.nearest(eligible, pool_size)] = True
    if query.spans:
        dated = rows[date_nearness(query.spans, state.columns.at.take(rows)) >= 1.0]
        mark[_latest_rows(state, dated, pool_size)] = True
    if TextTrait.STANDING in query.heeds:
        mark[_latest_rows(state, rows[fitting_rows(state.columns, query.heeds, rows)], _STANDING)] = True
    mark &= eligible
    if np.count_nonzero(mark) < query.limit:
        mark[_latest_rows(state, rows, pool_size)] = True
    return mark.nonzero()[0]


def _latest_rows(state: IndexState, rows: Rows, count: int) -> Rows:
    """Return the `count` latest of `rows`, which need not be the last ones: a compaction reorders rows."""
    if len(rows) <= count:
        return rows
    return rows.take(best_rows(state, rows, state.columns.times(rows).astype(np.float64), count))


def _speaker_shares(state: IndexState, terms: QueryTerms) -> tuple[Floats | None, tuple[str, ...]]:
    """Return each speaker name's share in the query (None: no name), and who is named in full."""
    if not terms.names:
        return None, ()
    shares = np.zeros(len(state.names.speaker))
    speakers: list[str] = []
    # A speaker whose units are all gone keeps its code until the index is compacted.
    for code in {code for term in terms.names for code in state.speakers_of[term] if state.speaker_units[code]}:
        name = state.name_terms[code]
        shares[code] = sum(term in terms.names for term in name) / len(name)
        if shares[code] == 1.0:
            speakers.append(state.names.speaker.values[code])
    return shares, tuple(sorted(speakers))


def _weigh_pool(
    state: IndexState,
    query: IndexQuery,
    s: UnitSignals[Floats],
    local: PoolScores,
    around: RowNeighbours,
    /,
    *,
    pool: Rows,
    near: Nearness | None,
) -> None:
    """Put into `s`, which is all 0, what speaks for each unit of the pool, but for its speaker."""
    columns = state.columns
    s.title[:], s.name[:] = local.title, local.name
    s.window[:], s.matched[:], s.coverage[:], s.context[:] = local.spread
    _weigh_neighbours(s, local.body, near, around)
    if (owned := owned_units(state, query.owner, pool)) is not None:
        # If all or none are the owner's, the signal separates nothing.
        if owned.any() and not owned.all():
            s.owner[:] = owned
        if query.heeds:
            s.standing[:] = owned * wish_strength(columns, query.heeds, pool, s.coverage)
    at = columns.at.take(pool)
    if query.spans:
        s.date[:] = date_nearness(query.spans, at)
    if query.fits:
        s.fits[:] = fitting_rows(columns, query.fits, pool)
    s.told[:], s.informative[:] = around.telling
    if query.weights.later:
        s.later[:] = later_places(local.total(query.weights), columns, pool)


def _weigh_neighbours(s: UnitSignals[Floats], bodies: Floats, near: Nearness | None, around: RowNeighbours, /) -> None:
    """Fill `s` with the pool's own bodies and cosines, their neighbours' shares, and the best three of threads."""
    take = 1.0 / (1.0 + (around.chars / LENT_CHARS) ** 2)
    lent_shares = np.array(NEIGHBOUR_SHARES)[:, None]
    np.multiply(np.add.reduce(bodies[1:] * lent_shares, axis=0), take, out=s.near)
    np.multiply(bodies[1], around.answering, out=s.answer)
    own = bodies[:1]
    if near is not None:
        above = near.above(around)
        np.multiply(np.add.reduce(above[1:] * lent_shares, axis=0), take, out=s.vector_near)
        np.add(above[0], near.lowest, out=s.vector)
        own = np.array((bodies[0], above[0]))
    s.body[:] = bodies[0]
    sessions = best_three(own, around.threads, around.thread_units)
    s.session[:] = sessions[0]
    if near is not None:
        s.vector_session[:] = sessions[1]


def _score_pool(
    state: IndexState, query: IndexQuery, pool: Rows, s: UnitSignals[Floats], text: Floats, /, *, trust: SignalTrust
) -> tuple[Floats, Floats]:
    """Return the sum of all signals for each unit, and of those without the additions of words, neighbours and
    traits."""
    weights = query.weights
    near, answer, window = weights.near, weights.answer, weights.window
    if s.owner.any():
        near, answer = weights.beside_assisted * near, weights.beside_assisted * answer
        window = min(window, weights.window_assisted)
    scale = _value_scale(text)
    word_sums = (trust.worded / scale) * (s.body + near * s.near + answer * s.answer)
    word_sums += (trust.words / scale) * (text - s.body)
    rest = word_sums + (trust.worded * weights.session / scale) * s.session
    rest += (trust.worded * window / _value_scale(s.window)) * s.window
    score, neighbour_likeness, matters = _likeness_sums(state, query, pool, s, near, trust=trust)
    rest += neighbour_likeness
    # A text's traits say little if it has little to do with the query.
    matters = np.sqrt(np.minimum(np.maximum(np.maximum(word_sums, matters), 0.0), 1.0))
    like = weights.informative * s.informative + weights.told * s.told
    rest += trust.words * matters * (like + weights.fits * s.fits if query.fits else like)
    if weights.later:
        rest += weights.later * s.later
    if weights.present and s.speaker.any():
        score += weights.present * in_talks_of(s.speaker > 0.0, state.columns.thread.take(pool))
    own = weights.speaker * s.speaker + trust.words * weights.owner * s.owner
    score += own + weights.date * s.date if query.spans else own
    whole = score + rest
    # After the other signals, because only the best wishes by their sum count in full.
    if query.heeds and s.standing.any():
        standing = weights.standing * foremost_standing(state.columns, pool, whole, s.standing)
        whole, score = whole + standing, score + standing
    return whole, score


def _chosen_scores(
    state: IndexState,
    query: IndexQuery,
    pool: Rows,
    terms: QueryTerms,
    /,
    *,
    sums: tuple[Floats, Floats],
    few: float,
    is_assisted: bool,
) -> Floats:
    """Return the scores that select units, spread over threads.

    They are rounded, so that scores that differ only by the order of sums are ordered by time.
    """
    weights = query.weights
    score = chosen_sums(state, query, pool, terms, few=few, sums=sums)
    if again := weights.again * (weights.again_assisted if is_assisted else 1.0):
        score = spread_out(state.columns, pool, score, again)
    return np.round(score, 9)


def _likeness_sums(
    state: IndexState, query: IndexQuery, pool: Rows, s: UnitSignals[Floats], near: float, /, *, trust: SignalTrust
) -> tuple[Floats, Floats | float, Floats]:
    """Return what similarity and its neighbours' similarity add for each unit, and how relevant the unit is by it.

    `near` is what neighbours count.
    """
    weights = query.weights
    # The scale is bounded from below, so that a weak best similarity does not count as a full one.
    alike = np.maximum(s.text_vectors, 0.0) * (trust.alike / max(_value_scale(s.text_vectors), weights.likeness))
    beside = weights.text_vectors_beside if trust.is_encoded else 1.0
    score = weights.text_vectors * beside * alike
    matters = alike if weights.text_vectors else np.zeros(len(pool))
    if not trust.is_encoded:
        return score, 0.0, matters
    vector = weights.vector * (weights.vector_assisted if s.owner.any() else 1.0)
    above = s.vector - np.minimum.reduce(s.vector, initial=1.0)
    span = _value_scale(above)
    own, own_and_near = above / span, (above + near * s.vector_near) / span
    # A model of English misjudges other languages, so the table replaces it there (decision 0068).
    if query.is_english:
        foreign = state.columns.is_foreign(pool)
        own, own_and_near = np.where(foreign, alike, own), np.where(foreign, alike, own_and_near)
    if not above.any():
        # A single memory has nothing to compare its cosine with.
        own, own_and_near = alike, alike
    neighbour_likeness = vector * (own_and_near - own + (weights.session / span) * s.vector_session)
    return score + vector * own, neighbour_likeness, np.maximum(matters, own_and_near) if vector else matters


def _highest_sum(query: IndexQuery, highs: UnitSignals[float], trust: SignalTrust) -> float:
    """Return the sum of a unit that were best by words, by similarity and by everything else that was found."""
    weights = query.weights
    is_assisted = highs.owner > 0.0
    window = min(weights.window, weights.window_assisted) if is_assisted else weights.window
    most = trust.worded * (1.0 + weights.session + window)
    most += weights.text_vectors * trust.alike * (weights.text_vectors_beside if trust.is_encoded else 1.0)
    if trust.is_encoded:
        most += weights.vector * (weights.vector_assisted if is_assisted else 1.0) * (1.0 + weights.session)
    most += trust.words * (weights.told + weights.informative / 2.0 + weights.owner * highs.owner)
    most += weights.speaker * highs.speaker + weights.date * highs.date + weights.standing * highs.standing
    return most + weights.later * highs.later if weights.later > 0.0 else most


def _column_extremes(table: Floats) -> tuple[Floats, Floats]:
    if not table.shape[1]:
        return table.sum(axis=1), table.sum(axis=1)
    return np.maximum.reduce(table, axis=1), np.minimum.reduce(table, axis=1)


def _value_scale(values: Floats) -> float:
    return float(np.maximum.reduce(values, initial=0.0)) or 1.0
