"""What a text is about as a whole: the sum of what its words mean, each seen as a few numbers by the table of word kin.

Where kin reaches from one word to another, a gist tells of a long text that it is about the matter though it shares few
words with the query. All sums are of whole numbers, so that neither the order of words nor the processor changes one.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index import kin

Floats = NDArray[np.float64]

NUMBERS: Final = 64
"""So many numbers are a gist."""
DTYPE: Final = f"|V{NUMBERS}"
"""A gist in an array: a byte a number."""
_FULL: Final = 127
_FREQUENT: Final = 10
_STEPS: Final = 16
"""A word counts the more the rarer it is, by the root of its place in the order of frequency, in such steps."""


def of(texts: Sequence[Mapping[str, int]], /) -> list[bytes]:
    """Return the gist of each text, which holds each term so many times; all 0 where the table has none of them."""
    places = kin.places()
    known = [[(places[term], many) for term, many in counts.items() if term in places] for counts in texts]
    found = np.zeros((len(texts), NUMBERS))
    heads = list(accumulate((len(pairs) for pairs in known), initial=0))
    if heads[-1]:
        rows, times = zip(*(pair for pairs in known for pair in pairs), strict=True)
        meant = _senses().take(rows, axis=0) * np.array(times, np.int32)[:, None]
        some = [number for number, pairs in enumerate(known) if pairs]
        found[some] = np.add.reduceat(meant, [heads[number] for number in some], axis=0)
    peaks = np.maximum.reduce(np.abs(found), axis=1, keepdims=True)
    codes = np.rint(found * np.divide(_FULL, peaks, out=np.zeros_like(peaks), where=peaks > 0.0)).astype(np.int8)
    return codes.view(DTYPE)[:, 0].tolist()


def weigh(words: Sequence[str], worths: Sequence[float], gists: NDArray[np.void], found: Floats, /) -> None:
    """Put into `found` how like each of `gists` is to a query's words, each of which is worth so much.

    It is their cosine times the share of the query, by worth, that the table knows; where it knows nothing, `found`
    stays as it is.
    """
    places = kin.places()
    known = [(places[word], worth) for word, worth in zip(words, worths, strict=True) if word in places]
    asked = _senses().take(np.array([place for place, _ in known], np.int32), axis=0).sum(axis=0, dtype=np.float64)
    if not asked.any():
        return
    kept = gists.view(np.int8).reshape(-1, NUMBERS).astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", kept, kept))
    lengths *= math.sqrt(asked @ asked)
    np.divide(kept @ asked, lengths, out=found, where=lengths > 0.0)
    found *= sum(worth for _, worth in known) / sum(worths)


@cache
def _senses() -> NDArray[np.integer[Any]]:
    senses = kin.senses()
    worth = np.sqrt((np.arange(len(senses)) + _FREQUENT) / len(senses))
    return np.rint(senses * (_STEPS * worth)[:, None]).astype(np.int16)
