"""Signals of what a query is after: an answer to a question, a time, a kind of thing, whose words, several threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.policy.ranking.excerpts import SoughtWords
from elytron_core.policy.ranking.query import AnswerOwner
from elytron_core.policy.temporal.time_ranges import TimeSpan
from elytron_core.text.features import TextTrait
from elytron_index.query import IndexQuery
from elytron_index.search import bm25, max_score
from elytron_index.search.bm25 import QueryTerms, TextScores
from elytron_index.search.max_score import SkippingScores
from elytron_index.structures.columns import Mask, UnitColumns
from elytron_index.structures.state import IndexState

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_DAY_MS: Final = 86_400_000
_AFTER_MS: Final = 14 * _DAY_MS
"""People tell afterwards what happened: so long after a time its news still comes in,"""
_AFTER_WORTH: Final = 0.7
_BEFORE_MS: Final = 3 * _DAY_MS
"""and so long before it is looked forward to."""
_BEFORE_WORTH: Final = 0.2
_AGAIN_MOST: Final = 2
_TELLING: Final = 0.5
_OCCASION: Final = 0.3
"""A query is about the occasion of a wish that holds such a share of what it asks;"""
_OCCASION_WORTH: Final = 0.5
"""that wish counts so much, for the query asks for something else as well."""
_HEEDED: Final = 5
"""So much of what is to hold is heeded in full: an answer cannot follow everything that was ever wished,"""
_HEEDED_FURTHER: Final = 0.5
"""the others by this share."""


def date_nearness(spans: Sequence[TimeSpan], at: NDArray[np.int64], /) -> Floats:
    """Return the nearness of each moment to a mentioned time; 0 if it is unknown."""
    worth = np.zeros(len(at))
    for span in spans:
        within = ((at >= span.start) & (at < span.end)).astype(np.float64)
        late = (at - span.end) / _AFTER_MS
        within += _AFTER_WORTH * (1.0 - late) * ((late >= 0.0) & (late < 1.0))
        within += _BEFORE_WORTH * ((at < span.start) & (at >= span.start - _BEFORE_MS))
        np.maximum(worth, span.worth * within, out=worth)
    return worth * (at != 0)


def later_places(text: Floats, at: NDArray[np.int64], /) -> Floats:
    """Return the place in time, 0 to 1, of each unit whose text is worth at least half of the best; 0 for others."""
    places = np.zeros(len(at))
    telling = np.flatnonzero((text >= _TELLING * text.max(initial=0.0)) & (text > 0.0) & (at != 0))
    moments, ranks = np.unique(at[telling], return_inverse=True)
    places[telling] = ranks / max(len(moments) - 1, 1)
    return places


def fitting_rows(columns: UnitColumns, traits: TextTrait, rows: Rows, /) -> Mask:
    """Return which of `rows` have one of `traits`."""
    return (columns.traits.take(rows) & int(traits)) != 0


def wish_strength(columns: UnitColumns, heeds: TextTrait, pool: Rows, coverage: Floats, /) -> Floats:
    """Return how far what each of `pool` wishes is heeded: for an occasion, only where the query is about it."""
    wished = fitting_rows(columns, heeds, pool)
    if TextTrait.STANDING in heeds:
        return wished.astype(np.float64)
    return np.where(wished & (coverage >= _OCCASION), _OCCASION_WORTH, 0.0)


def in_talks_of(named: Mask, threads: NDArray[np.int32], /) -> Mask:
    """Return for the units of `threads` whether one of the `named` takes part in their talk."""
    talks = np.zeros(int(threads.max()) + 1, np.bool_)
    talks[threads[named]] = True
    return talks.take(threads)


def foremost_standing(columns: UnitColumns, pool: Rows, score: Floats, standing: Floats, /) -> Floats:
    """Return `standing`, of which only the best by `score` count in full."""
    rows = standing.nonzero()[0]
    if len(rows) <= _HEEDED:
        return standing
    order = np.lexsort((-columns.order[pool[rows]], -columns.at[pool[rows]], -score[rows]))
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
    """Return the scores with `again` taken off for each better unit of the same thread, twice at most."""
    threads = columns.thread[pool]
    order = np.lexsort((-columns.at[pool], -columns.order[pool], -score, threads))
    ordered = threads[order]
    heads = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)) if len(order) else np.zeros(0, int)
    rank = np.arange(len(order)) - np.repeat(heads, np.diff(np.append(heads, len(order))))
    spread = score.copy()
    spread[order] -= again * np.minimum(rank, _AGAIN_MOST) * (ordered != 0)
    return spread


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """The terms of a query, and their scores of every row without filters."""

    asked: tuple[object, ...]
    terms: QueryTerms
    said: TextScores | SkippingScores

    def sought(self) -> SoughtWords:
        """Return what the query's words, names apart, are in single sentences."""
        stands_for: dict[str, list[tuple[int, float]]] = {}
        for place, (word, others) in enumerate(zip(self.terms.words, self.said.related, strict=True)):
            for term, share in ((word, 1.0), *others.items()):
                stands_for.setdefault(term, []).append((place, share))
        return SoughtWords(stands_for, self.worths())

    def worths(self) -> list[float]:
        """Return what each of the words is worth by its rarity here."""
        said = self.said
        worths = [word.idf for word in said.body] if isinstance(said, SkippingScores) else said.held.idf.tolist()
        return worths[: len(self.terms.words)]


class ReadingCache:
    """Scores of the last query's words, kept for the next, since a recall asks for one plane after the other.

    It is stored beside its state and not in it, so that a state is freed with its last holder.
    """

    def __init__(self) -> None:
        self._kept: ReadQuery | None = None

    def of(self, state: IndexState, query: IndexQuery, /) -> ReadQuery:
        """Return the scores of the words of `query` in `state`, which is unchanged since this was made or cleared."""
        is_large = max_score.is_skipping_valid(state, query)
        asked = (is_large, query.text, query.weights, query.bm25)
        kept = self._kept
        if kept is None or kept.asked != asked:
            terms = bm25.terms_of(state, query.text)
            said = max_score.read_skipping(state, query, terms) if is_large else bm25.read_terms(state, query, terms)
            kept = self._kept = ReadQuery(asked, terms, said)
        return kept

    def forget(self) -> None:
        """Keep nothing."""
        self._kept = None
