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


def date_nearness(spans: Sequence[TimeSpan], times: NDArray[np.int64], /) -> Floats:
    """Return the nearness of each moment to a mentioned time; 0 if it is unknown."""
    highest_worth = np.zeros(len(times))
    for span in spans:
        span_nearness = ((times >= span.start) & (times < span.end)).astype(np.float64)
        lateness = (times - span.end) / _AFTER_MS
        span_nearness += _AFTER_WORTH * (1.0 - lateness) * ((lateness >= 0.0) & (lateness < 1.0))
        span_nearness += _BEFORE_WORTH * ((times < span.start) & (times >= span.start - _BEFORE_MS))
        np.maximum(highest_worth, span.worth * span_nearness, out=highest_worth)
    # An unknown time is stored as 0, which could otherwise be within a span that reaches back to 1970.
    return highest_worth * (times != 0)


def later_places(text: Floats, columns: UnitColumns, pool: Rows, /) -> Floats:
    """Return the chronological position, 0 to 1, of each of `pool` whose text is worth at least half of the best; 0 for
    others.

    Of units that have no time but that of their recording, the later in the journal is the later one. Units that are
    claimed to be of one time are of one time.
    """
    pool_times = columns.times(pool)
    positions = np.zeros(len(pool_times))
    telling_places = np.flatnonzero((text >= _TELLING * text.max(initial=0.0)) & (text > 0.0) & (pool_times != 0))
    if not len(telling_places):
        return positions
    telling_times, telling_rows = pool_times[telling_places], pool[telling_places]
    sequences = np.where(
        telling_times == columns.recorded_at.take(telling_rows), columns.sequence.take(telling_rows), 0
    )
    order = np.lexsort((sequences, telling_times))
    is_later = (np.diff(telling_times[order]) != 0) | (np.diff(sequences[order]) != 0)
    time_ranks = np.concatenate(((0,), np.cumsum(is_later)))
    positions[telling_places[order]] = time_ranks / max(int(time_ranks[-1]), 1)
    return positions


def wish_strength(columns: UnitColumns, heeds: TextTrait, pool: Rows, coverage: Floats, /) -> Floats:
    """Return how far each wish of `pool` is heeded: for an occasion, only if the query is about it."""
    is_wish = fitting_rows(columns, heeds, pool)
    if TextTrait.STANDING in heeds:
        return is_wish.astype(np.float64)
    return np.where(is_wish & (coverage >= _OCCASION), _OCCASION_WORTH, 0.0)


def in_talks_of(is_member: Mask, threads: NDArray[np.int32], /) -> Mask:
    """Return for the units of `threads` whether a unit of `is_member` takes part in their conversation."""
    has_member = np.zeros(int(threads.max()) + 1, np.bool_)
    has_member[threads[is_member]] = True
    return has_member.take(threads)


def foremost_standing(columns: UnitColumns, pool: Rows, score: Floats, standing_strengths: Floats, /) -> Floats:
    """Return `standing_strengths` with only the best by `score` in full."""
    standing_places = standing_strengths.nonzero()[0]
    if len(standing_places) <= _HEEDED:
        return standing_strengths
    # Ties are broken by time, position in the journal and in the thread, so that no arrival order decides.
    standing_rows = pool[standing_places]
    tie_breakers = (-columns.order[standing_rows], -columns.sequence[standing_rows], -columns.times(standing_rows))
    order = np.lexsort((*tie_breakers, -score[standing_places]))
    reduced_standing = standing_strengths.copy()
    reduced_standing[standing_places[order[_HEEDED:]]] *= _HEEDED_FURTHER
    return reduced_standing


def owned_units(state: IndexState, owner: AnswerOwner, pool: Rows, /) -> Mask | None:
    """Return which units' words are the owner's; None if no assistant speaks in the whole space."""
    assistants = state.assistants()
    if assistants is None:
        return None
    is_assistant_role, is_assistant_speaker = assistants
    by_assistant = is_assistant_role.take(state.columns.role.take(pool)) | is_assistant_speaker.take(
        state.columns.speaker.take(pool)
    )
    return by_assistant if owner is AnswerOwner.ASSISTANT else ~by_assistant


def spread_out(columns: UnitColumns, pool: Rows, score: Floats, repeat_penalty: float, /) -> Floats:
    """Return the scores with `repeat_penalty` subtracted for each better unit of the same thread, at most twice."""
    threads = columns.thread[pool]
    order = np.lexsort((-columns.times(pool), -columns.order[pool], -score, threads))
    ordered_threads = threads[order]
    thread_starts = (
        np.concatenate(([0], np.flatnonzero(ordered_threads[1:] != ordered_threads[:-1]) + 1))
        if len(order)
        else np.zeros(0, int)
    )
    rank_in_thread = np.arange(len(order)) - np.repeat(thread_starts, np.diff(np.append(thread_starts, len(order))))
    spread_scores = score.copy()
    # Thread 0 means no thread: its units are not from one talk.
    spread_scores[order] -= repeat_penalty * np.minimum(rank_in_thread, _AGAIN_MOST) * (ordered_threads != 0)
    return spread_scores


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """The terms of a query, and their scores for every row without filters."""

    cache_key: tuple[object, ...]
    terms: QueryTerms
    scores: TextScores | SkippingScores

    def sought(self) -> SoughtWords:
        """Return the query's words, except names, prepared for single sentences."""
        stands_for: dict[str, list[tuple[int, float]]] = {}
        for word_number, (word, related_shares) in enumerate(zip(self.terms.words, self.scores.related, strict=True)):
            for term, share in ((word, 1.0), *related_shares.items()):
                stands_for.setdefault(term, []).append((word_number, share))
        return SoughtWords(stands_for, self.worths())

    def worths(self) -> list[float]:
        """Return the weight of each word by its rarity here."""
        scores = self.scores
        word_worths = (
            [word.idf for word in scores.body] if isinstance(scores, SkippingScores) else scores.matches.idf.tolist()
        )
        return word_worths[: len(self.terms.words)]


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
    read_query = reading.of(state, query)
    terms = read_query.terms
    nearness = query_nearness(state, query, sight)
    likeness = TextLikeness(state.columns, query.text)
    pool = _weighed_pool(state, query, read_query.scores, nearness, likeness, visible=sight.mask, eligible=eligible)
    speaker_shares, speakers = _speaker_shares(state, terms)
    neighbours = sight.around(pool)
    pool_scores = read_query.scores.local(neighbours)
    table = np.zeros((len(UnitSignals._fields), len(pool)))
    signals = UnitSignals[Floats]._make(table)
    text_scores = pool_scores.total(query.weights)
    _weigh_pool(state, query, signals, pool_scores, neighbours, pool=pool, near=nearness)
    if speaker_shares is not None:
        signals.speaker[:] = speaker_shares.take(state.columns.speaker.take(pool))
    signals.text_vectors[:] = likeness.at(pool)
    trust = SignalTrust.of(query.weights, sight.count, signals.context, likeness.share, is_encoded=nearness is not None)
    # Cosines count from the lowest of all visible ones (decision 0012).
    if query.weights.text_vectors:
        cosines = signals.text_vectors if nearness is None else signals.vector - nearness.lowest
        trust = trust.beside(query.weights, text_scores, cosines)
        trust = trust.among_few(state, query, sight.mask, sight.count)
    sums = _score_pool(state, query, pool, signals, text_scores, trust=trust)
    scores = _chosen_scores(state, query, pool, terms, sums=sums, few=trust.few, is_assisted=bool(signals.owner.any()))
    highs, lows = map(_one, map(np.ndarray.tolist, _column_extremes(table)))
    best_places = best_rows(state, pool, scores, query.limit)
    rows = pool.take(best_places)
    highest_sum = _highest_sum(query, highs, trust)
    if trust.few and len(best_places) and (best_sum := float(sums[0][best_places[0]])) > 0.0:
        # The best as a share of the highest sum says how far all signals agree, whatever chose it.
        highest_sum *= float(scores[best_places[0]]) / best_sum
    places = state.places(rows)
    unit_signals = map(_one, table.take(best_places, axis=1).T.tolist())
    return FoundCandidates(
        candidates=tuple(map(_candidate, zip(places, unit_signals, scores.take(best_places).tolist(), strict=True))),
        terms=terms.every,
        name_terms=terms.names,
        speakers=speakers,
        highs=highs,
        lows=lows,
        most=highest_sum,
        alike=trust.alike,
        few=trust.few,
        is_foreign=likeness.is_foreign or bool(state.columns.is_foreign(rows[:1]).any()),
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
    is_visible = state.sights.of(filters).mask
    excluded_rows = visibility.excluded_rows(filters.exclude, state.refs)
    is_selected = visibility.asked_rows(filters, is_visible, state.columns, state.names, excluded_rows)
    rows = (is_selected & ((state.columns.traits[: len(is_selected)] & int(traits)) != 0)).nonzero()[0]
    rows = rows[state.columns.trust[rows] >= least_trust]
    is_owned = owned_units(state, AnswerOwner.USER, rows)
    if is_owned is not None:
        rows = rows[is_owned]
    elif sum(map(bool, state.speaker_units)) > 1:
        return rows[:0]
    times = state.columns.times(rows)
    return rows[times >= np.partition(times, -limit)[-limit]] if len(rows) > limit else rows


def _weighed_pool(
    state: IndexState,
    query: IndexQuery,
    scores: TextScores | SkippingScores,
    nearness: Nearness | None,
    similarity: TextLikeness,
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
    is_chosen = np.zeros(state.columns.size, np.bool_)
    best_body_rows = scores.speaking(visible, pool_size)
    if len(best_body_rows):
        # A turn next to one of the best may answer without a word of the query.
        previous_rows, next_rows = state.columns.before, state.columns.after
        rows_before, rows_after = previous_rows.take(best_body_rows), next_rows.take(best_body_rows)
        is_chosen[
            np.concatenate((rows_before, rows_after, previous_rows.take(rows_before), next_rows.take(rows_after)))
        ] = True
    # Then a choice by all fields would give the same rows again.
    is_same_choice = scores.is_body_alone and (eligible is visible or np.array_equal(eligible, visible))
    is_chosen[best_body_rows if is_same_choice else scores.telling(eligible, pool_size)] = True
    if query.weights.text_vectors:
        is_chosen[similarity.nearest(eligible, pool_size)] = True
    if nearness is not None:
        is_chosen[nearness.nearest(eligible, pool_size)] = True
    if query.spans:
        dated_rows = rows[date_nearness(query.spans, state.columns.at.take(rows)) >= 1.0]
        is_chosen[_latest_rows(state, dated_rows, pool_size)] = True
    if TextTrait.STANDING in query.heeds:
        is_chosen[_latest_rows(state, rows[fitting_rows(state.columns, query.heeds, rows)], _STANDING)] = True
    is_chosen &= eligible
    if np.count_nonzero(is_chosen) < query.limit:
        is_chosen[_latest_rows(state, rows, pool_size)] = True
    return is_chosen.nonzero()[0]


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
        name_terms = state.name_terms[code]
        shares[code] = sum(term in terms.names for term in name_terms) / len(name_terms)
        if shares[code] == 1.0:
            speakers.append(state.names.speaker.values[code])
    return shares, tuple(sorted(speakers))


def _weigh_pool(
    state: IndexState,
    query: IndexQuery,
    signals: UnitSignals[Floats],
    pool_scores: PoolScores,
    around: RowNeighbours,
    /,
    *,
    pool: Rows,
    near: Nearness | None,
) -> None:
    """Put into `signals`, which is all 0, what speaks for each unit of the pool, but for its speaker."""
    columns = state.columns
    signals.title[:], signals.name[:] = pool_scores.title, pool_scores.name
    signals.window[:], signals.matched[:], signals.coverage[:], signals.context[:] = pool_scores.spread
    _weigh_neighbours(signals, pool_scores.body, near, around)
    if (is_owned := owned_units(state, query.owner, pool)) is not None:
        # If all or none are the owner's, the signal separates nothing.
        if is_owned.any() and not is_owned.all():
            signals.owner[:] = is_owned
        if query.heeds:
            signals.standing[:] = is_owned * wish_strength(columns, query.heeds, pool, signals.coverage)
    times = columns.at.take(pool)
    if query.spans:
        signals.date[:] = date_nearness(query.spans, times)
    if query.fits:
        signals.fits[:] = fitting_rows(columns, query.fits, pool)
    signals.told[:], signals.informative[:] = around.telling
    if query.weights.later:
        signals.later[:] = later_places(pool_scores.total(query.weights), columns, pool)


def _weigh_neighbours(
    signals: UnitSignals[Floats], bodies: Floats, nearness: Nearness | None, around: RowNeighbours, /
) -> None:
    """Fill `signals` with the pool's own bodies and cosines, their neighbours' shares, and the best three of
    threads."""
    lent_factor = 1.0 / (1.0 + (around.chars / LENT_CHARS) ** 2)
    lent_shares = np.array(NEIGHBOUR_SHARES)[:, None]
    np.multiply(np.add.reduce(bodies[1:] * lent_shares, axis=0), lent_factor, out=signals.near)
    np.multiply(bodies[1], around.answering, out=signals.answer)
    own_values = bodies[:1]
    if nearness is not None:
        cosines_above = nearness.above(around)
        np.multiply(np.add.reduce(cosines_above[1:] * lent_shares, axis=0), lent_factor, out=signals.vector_near)
        np.add(cosines_above[0], nearness.lowest, out=signals.vector)
        own_values = np.array((bodies[0], cosines_above[0]))
    signals.body[:] = bodies[0]
    thread_means = best_three(own_values, around.threads, around.thread_units)
    signals.session[:] = thread_means[0]
    if nearness is not None:
        signals.vector_session[:] = thread_means[1]


def _score_pool(
    state: IndexState,
    query: IndexQuery,
    pool: Rows,
    signals: UnitSignals[Floats],
    text_scores: Floats,
    /,
    *,
    trust: SignalTrust,
) -> tuple[Floats, Floats]:
    """Return the sum of all signals for each unit, and of those without the additions of words, neighbours and
    traits."""
    weights = query.weights
    near_weight, answer_weight, window_weight = weights.near, weights.answer, weights.window
    if signals.owner.any():
        near_weight, answer_weight = weights.beside_assisted * near_weight, weights.beside_assisted * answer_weight
        window_weight = min(window_weight, weights.window_assisted)
    text_scale = _value_scale(text_scores)
    word_sums = (trust.worded / text_scale) * (
        signals.body + near_weight * signals.near + answer_weight * signals.answer
    )
    word_sums += (trust.words / text_scale) * (text_scores - signals.body)
    additions = word_sums + (trust.worded * weights.session / text_scale) * signals.session
    additions += (trust.worded * window_weight / _value_scale(signals.window)) * signals.window
    sure_sums, neighbour_likeness, relevance = _likeness_sums(state, query, pool, signals, near_weight, trust=trust)
    additions += neighbour_likeness
    # A text's traits say little if it has little to do with the query.
    relevance = np.sqrt(np.minimum(np.maximum(np.maximum(word_sums, relevance), 0.0), 1.0))
    trait_sums = weights.informative * signals.informative + weights.told * signals.told
    additions += trust.words * relevance * (trait_sums + weights.fits * signals.fits if query.fits else trait_sums)
    if weights.later:
        additions += weights.later * signals.later
    if weights.present and signals.speaker.any():
        sure_sums += weights.present * in_talks_of(signals.speaker > 0.0, state.columns.thread.take(pool))
    speaker_sums = weights.speaker * signals.speaker + trust.words * weights.owner * signals.owner
    sure_sums += speaker_sums + weights.date * signals.date if query.spans else speaker_sums
    all_sums = sure_sums + additions
    # After the other signals, because only the best wishes by their sum count in full.
    if query.heeds and signals.standing.any():
        standing_sums = weights.standing * foremost_standing(state.columns, pool, all_sums, signals.standing)
        all_sums, sure_sums = all_sums + standing_sums, sure_sums + standing_sums
    return all_sums, sure_sums


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
    if repeat_penalty := weights.again * (weights.again_assisted if is_assisted else 1.0):
        score = spread_out(state.columns, pool, score, repeat_penalty)
    return np.round(score, 9)


def _likeness_sums(
    state: IndexState,
    query: IndexQuery,
    pool: Rows,
    signals: UnitSignals[Floats],
    near_weight: float,
    /,
    *,
    trust: SignalTrust,
) -> tuple[Floats, Floats | float, Floats]:
    """Return what similarity and its neighbours' similarity add for each unit, and how relevant the unit is by it.

    `near_weight` is what neighbours count.
    """
    weights = query.weights
    # The scale is bounded from below, so that a weak best similarity does not count as a full one.
    table_likeness = np.maximum(signals.text_vectors, 0.0) * (
        trust.alike / max(_value_scale(signals.text_vectors), weights.likeness)
    )
    table_factor = weights.text_vectors_beside if trust.is_encoded else 1.0
    likeness_sums = weights.text_vectors * table_factor * table_likeness
    relevance = table_likeness if weights.text_vectors else np.zeros(len(pool))
    if not trust.is_encoded:
        return likeness_sums, 0.0, relevance
    vector_weight = weights.vector * (weights.vector_assisted if signals.owner.any() else 1.0)
    cosines_above = signals.vector - np.minimum.reduce(signals.vector, initial=1.0)
    cosine_scale = _value_scale(cosines_above)
    own_nearness, joint_nearness = (
        cosines_above / cosine_scale,
        (cosines_above + near_weight * signals.vector_near) / cosine_scale,
    )
    # A model of English misjudges other languages, so the table replaces it there (decision 0068).
    if query.is_english:
        is_foreign = state.columns.is_foreign(pool)
        own_nearness, joint_nearness = (
            np.where(is_foreign, table_likeness, own_nearness),
            np.where(is_foreign, table_likeness, joint_nearness),
        )
    if not cosines_above.any():
        # A single memory has nothing to compare its cosine with.
        own_nearness, joint_nearness = table_likeness, table_likeness
    neighbour_likeness = vector_weight * (
        joint_nearness - own_nearness + (weights.session / cosine_scale) * signals.vector_session
    )
    return (
        likeness_sums + vector_weight * own_nearness,
        neighbour_likeness,
        np.maximum(relevance, joint_nearness) if vector_weight else relevance,
    )


def _highest_sum(query: IndexQuery, highs: UnitSignals[float], trust: SignalTrust) -> float:
    """Return the sum of a unit that were best by words, by similarity and by everything else that was found."""
    weights = query.weights
    is_assisted = highs.owner > 0.0
    window_weight = min(weights.window, weights.window_assisted) if is_assisted else weights.window
    highest_sum = trust.worded * (1.0 + weights.session + window_weight)
    highest_sum += weights.text_vectors * trust.alike * (weights.text_vectors_beside if trust.is_encoded else 1.0)
    if trust.is_encoded:
        highest_sum += weights.vector * (weights.vector_assisted if is_assisted else 1.0) * (1.0 + weights.session)
    highest_sum += trust.words * (weights.told + weights.informative / 2.0 + weights.owner * highs.owner)
    highest_sum += weights.speaker * highs.speaker + weights.date * highs.date + weights.standing * highs.standing
    return highest_sum + weights.later * highs.later if weights.later > 0.0 else highest_sum


def _column_extremes(table: Floats) -> tuple[Floats, Floats]:
    if not table.shape[1]:
        return table.sum(axis=1), table.sum(axis=1)
    return np.maximum.reduce(table, axis=1), np.minimum.reduce(table, axis=1)


def _value_scale(values: Floats) -> float:
    return float(np.maximum.reduce(values, initial=0.0)) or 1.0
