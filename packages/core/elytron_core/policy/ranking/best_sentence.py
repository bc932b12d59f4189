"""The sentence of a long message that is nearest to a query.

A long message has something of everything: the words of a query are far apart in it, its statements are about other
things, and the number that an answer would have belongs to another matter. An answer is in one sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from elytron_core.policy.ranking.excerpts import SENTENCE
from elytron_core.text import features
from elytron_core.text.features import Trait

LONG_CHARS: Final = 260
"""A shorter message, two or three sentences, is about one thing."""
READ_CHARS: Final = 8_000
"""The part of a message that is looked through."""
FITS: Final = 0.5
"""The share that is added to a sentence's worth if it has what the answer is likely to have,"""
ASKS: Final = 0.3
"""and the share taken off if it asks: a question states nothing."""
_ASKS: Final = int(Trait.ASKS)


class Sentence(NamedTuple):
    """The terms of a sentence, its traits, and how informative it is."""

    terms: tuple[str, ...]
    traits: int
    """The sum of its traits: a flag's own operators take most of the time of a comparison."""
    told: float


class Sought(NamedTuple):
    """Words of a query to look for: for each term the words that it matches and how far, and the worth of each word."""

    stands_for: Mapping[str, Sequence[tuple[int, float]]]
    worths: Sequence[float]


class Nearest(NamedTuple):
    """Comparison of the sentence that is nearest to a query with the whole message."""

    gain: float
    """Its worth less that of all sentences together as one; below 0 if the words are far apart."""
    share: float
    """The share of the query's words that it holds, by what they are worth."""
    told: float
    """The information in the sentence, as `features` counts it."""


def sentences_of(text: str, terms: Callable[[str], Sequence[str]], /) -> tuple[Sentence, ...]:
    """Return the sentences of `text`, whose terms `terms` gives."""
    said = (found[0].strip() for found in SENTENCE.finditer(text[:READ_CHARS]))
    return tuple(_read(each, terms) for each in said if each)


def nearest(sentences: Sequence[Sentence], sought: Sought, fits: Trait, /) -> Nearest | None:
    """Return how the nearest of a message's `sentences` compares with all; None if none has what is looked for.

    `fits` is what the answer is likely to have.
    """
    stands_for, worths = sought
    wanted = int(fits)
    whole: dict[int, float] = {}
    best: tuple[float, float, float] | None = None
    fits_anywhere = False
    for sentence in sentences:
        fits_anywhere = fits_anywhere or bool(sentence.traits & wanted)
        if stands_for.keys().isdisjoint(sentence.terms):
            continue
        held: dict[int, float] = {}
        for term in sentence.terms:
            for word, share in stands_for.get(term, ()):
                if share > held.get(word, 0.0):
                    held[word] = share
        for word, share in held.items():
            if share > whole.get(word, 0.0):
                whole[word] = share
        holds = sum(worths[word] * share for word, share in held.items())
        worth = holds * (1.0 + FITS * bool(sentence.traits & wanted) - ASKS * bool(sentence.traits & _ASKS))
        if best is None or worth > best[0]:
            best = worth, holds, sentence.told
    every = sum(worths)
    if best is None or not every:
        return None
    worth, holds, told = best
    together = sum(worths[word] * share for word, share in whole.items()) * (1.0 + FITS * fits_anywhere)
    return Nearest((worth - together) / every, holds / every, told)


def _read(text: str, terms: Callable[[str], Sequence[str]]) -> Sentence:
    traits, told = features.read(text)
    return Sentence(tuple(dict.fromkeys(terms(text))), int(traits), told)
