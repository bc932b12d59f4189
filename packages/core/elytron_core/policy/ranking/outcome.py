"""The outcome of a recall: whether one of the best hits answers, and whether the first one does.

A question about an unknown detail of a known matter finds that matter as well as an answerable question does. Two signs
partly separate them: the rest of the question, without the words it shares with the hit, is less similar to the rest of
the hit; and the hit lacks a value of the kind asked for, such as a price. `python -m benchmarks.answer_score` fits the
numbers.
"""

import math
import re
from collections.abc import Callable, Sequence
from operator import mul
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.contracts.recall import RecallOutcome
from elytron_core.lru_cache import remember_answers
from elytron_core.text.traits import pattern_table

FOUND_SCORE: Final = 0.65
"""The estimate that the first hit answers, from which recall says `found`."""


READ_CHARS: Final = 600
"""The part of a hit that is read."""
LEAD_AMONG: Final = 10
"""From this many others on a lead counts in full."""
_WORD: Final = re.compile(r"\w+")
_NAME: Final = re.compile(r"[^\W\d_]*[A-Z][^\W_]*\d*[^\W_]*|\w*\d\w*")
_KINDS: Final = ("colour", "price", "age", "measure", "duration", "count", "code", "time", "name")


class FirstHitSigns(NamedTuple):
    """Signs that the first hit answers."""

    evidence: float
    """Evidence from its plane's search."""
    few: float
    """1 if the search was among few statements, 0 in talk or among many."""
    unshared: float
    """Similarity of the parts that the question and the hit do not share; 1 if the hit has every word of the
    question."""
    coverage: float
    """Share of the question's words in the hit, weighted by rarity."""
    lead: float
    """Distance to the next hit, as a share of its sum; 0 if another was better by signals."""
    searched: int
    """Number of memories searched; among few of them a lead says little."""
    lacks_value: bool
    """True if the question asks for a kind of value that the hit lacks."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Factors of the weights after the intercept."""
        few_share, lead_share = self.few, min(self.lead, 1.0) * min(1.0, (self.searched - 1) / LEAD_AMONG)
        return (
            self.evidence,
            few_share,
            few_share * self.unshared,
            few_share * self.coverage,
            lead_share,
            float(self.lacks_value),
        )


class FirstHitWeights(NamedTuple):
    """Weights of a logistic model of whether the first hit answers."""

    intercept: float
    evidence: float
    few: float
    unshared: float
    coverage: float
    lead: float
    lacks_value: float


FIRST_HIT: Final = FirstHitWeights(-2.26, 4.85, -0.30, 4.09, -2.94, 3.11, -6.11)
"""The same without an encoder and with any."""


def first_hit_chance(hit_signs: FirstHitSigns, /) -> float:
    """Return the estimate that the first hit answers."""
    intercept, *weights = FIRST_HIT
    return 1.0 / (1.0 + math.exp(-intercept - sum(map(mul, weights, hit_signs.numbers))))


def recall_outcome(answered_chance: float, first_chance: float, /) -> RecallOutcome:
    """Return the outcome from the estimates that one of the best hits answers, and that the first one does."""
    if answered_chance < limits.PROJECTED_SCORE:
        return RecallOutcome.NOTHING
    return RecallOutcome.FOUND if first_chance >= FOUND_SCORE else RecallOutcome.DOUBTFUL


def unshared_parts(query: str, text: str, terms: Callable[[str], Sequence[str]], /) -> tuple[str, str]:
    """Return both texts without their shared words; `terms` extracts the terms of a text."""
    text = text[:READ_CHARS]
    shared_terms = set(terms(query)).intersection(terms(text))
    if not shared_terms:
        return query, text

    def kept(word: re.Match[str]) -> str:
        word_terms = terms(word[0])
        return "" if word_terms and shared_terms.issuperset(word_terms) else word[0]

    return _WORD.sub(kept, query), _WORD.sub(kept, text)


@remember_answers(256)
def value_kind(question: str, /) -> str | None:
    """Return the kind of value that an English question asks for, if its form can be recognised."""
    lowered_question, patterns = " ".join(question.lower().replace("’", "'").split()), pattern_table("values")
    return next((kind for kind in _KINDS if patterns[f"asks_{kind}"].search(lowered_question)), None)


def lacks_value(question: str, remaining_text: str, /) -> bool:
    """Return whether `question` asks for a value that `remaining_text`, a text without the question's words, lacks."""
    kind = value_kind(question)
    if kind is None:
        return False
    if kind == "name":
        # The first word of a sentence is capitalised in any case.
        texts_before_names = (remaining_text[: name.start()].rstrip() for name in _NAME.finditer(remaining_text))
        return not any(text_before and text_before[-1] not in ".!?:" for text_before in texts_before_names)
    return pattern_table("values")[kind].search(remaining_text.lower()) is None
