"""How far a query's words and its similarity are trusted, and the sums that select units."""

from typing import Final, NamedTuple

import numpy as np

from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.text.traits import TextTrait
from elytron_index.lexicon.text_vectors import is_rare_word
from elytron_index.query import IndexQuery
from elytron_index.search.bm25 import Floats, QueryTerms, Rows
from elytron_index.structures.columns import Mask, UnitColumns
from elytron_index.structures.index_state import IndexState
from elytron_index.structures.postings import TextField, code_of

_TALK: Final = 0.1
"""Minimum share of texts with questions for a thread to count as talk."""
_TEXT_POWER: Final = 4
"""Units are weighted by their word score, as a share of the best, to this power."""


def fitting_rows(columns: UnitColumns, traits: TextTrait, rows: Rows, /) -> Mask:
    """Return which of `rows` have one of `traits`."""
    return (columns.traits.take(rows) & int(traits)) != 0


class SignalTrust(NamedTuple):
    """Trust in a query's words, and in similarity; 1 in full."""

    is_encoded: bool
    """True if an encoder provides the similarity of units."""
    words: float
    """Few units say little about a word's rarity, but only words can match what text vectors do not know."""
    worded: float
    """Words say little if even the best unit contains few of them."""
    alike: float
    few: float = 0.0
    """1 among few statements, which are no talk: there similarity decides, and everything else breaks ties."""

    @classmethod
    def of(
        cls, weights: SignalWeights, units: int, context: Floats, known_share: float, /, *, is_encoded: bool
    ) -> "SignalTrust":
        units, few_limit = max(units, 1), weights.few
        word_trust = (
            units / (units + few_limit / 2.0) if is_encoded else (units + few_limit / 6.0) / (units + few_limit)
        )
        word_trust += (1.0 - word_trust) * (1.0 - known_share)
        coverage = min(1.0, float(np.maximum.reduce(context, initial=0.0)) / weights.covered)
        return cls(is_encoded, word_trust, word_trust * coverage, known_share)

    def among_few(self, state: IndexState, query: IndexQuery, is_visible: Mask, units: int, /) -> "SignalTrust":
        """Return it with how far `is_visible` are few statements and no talk, where words hardly count.

        Among these every word looks rare, and no text answers its neighbour; so similarity decides, as far as it knows
        the query. A talk of as few turns has questions, which distinguish it. If the query names a time, the times of
        units count as well as words, and similarity to the time's name would mislead.
        """
        weights = query.weights
        fewness = min(1.0, 2.0 - units / weights.few) if weights.few and not query.spans else 0.0
        if fewness <= 0.0:
            return self
        asking_share = np.count_nonzero(fitting_rows(state.columns, TextTrait.ASKS, is_visible.nonzero()[0])) / max(
            units, 1
        )
        return self._replace(few=fewness * self.alike * max(0.0, 1.0 - asking_share / _TALK))

    def beside(self, weights: SignalWeights, text: Floats, likeness: Floats, /) -> "SignalTrust":
        """Return it with less trust in words, in proportion to what similarity knows, if they choose dissimilar
        units."""
        highest_text, highest_likeness = (float(np.maximum.reduce(values, initial=0.0)) for values in (text, likeness))
        if highest_text <= 0.0 or highest_likeness <= 0.0:
            return self
        text_weights = (text / highest_text) ** _TEXT_POWER
        # Rounded, because the order of sums is that of the pool's rows.
        agreement = round(
            float(text_weights @ np.maximum(likeness, 0.0)) / (float(text_weights.sum()) * highest_likeness), 9
        )
        likeness_share = 1.0 if self.is_encoded else self.alike
        return self._replace(worded=self.worded * (1.0 - weights.misled * likeness_share * (1.0 - agreement)))


def chosen_sums(
    state: IndexState, query: IndexQuery, pool: Rows, terms: QueryTerms, /, *, few: float, sums: tuple[Floats, Floats]
) -> Floats:
    """Return the sum that selects: for few statements, that of similarity; words break ties unless they are rare."""
    all_sums, sure_sums = sums
    if not few:
        return all_sums
    weights = query.weights
    tied_sums = sure_sums + weights.tied * (all_sums - sure_sums) + weights.rare * rare_shares(state, terms, pool)
    return few * tied_sums + (1.0 - few) * all_sums


def rare_shares(state: IndexState, terms: QueryTerms, pool: Rows, /) -> Floats:
    """Return the share of the query's words rare in the language itself that each of `pool` contains exactly."""
    term_number = state.postings.vocabulary.get
    codes = [code_of(term_number(word, -1), TextField.BODY) for word in terms.words if is_rare_word(word)]
    if not codes:
        return np.zeros(len(pool))
    rows = state.postings.find(codes, state.columns.alive if state.columns.dead else None).rows
    return np.bincount(rows, minlength=state.columns.size).take(pool) / len(codes)
