"""Text vectors: what an English text is about as 128 whole numbers, the sum of a row of a table for each of its tokens.

The table was fitted once so that such a sum points as nearly as it can the way in which a sentence encoder's vector of
the same text points (see text_vectors.md). It needs no model: a text costs a look-up and an addition for each word.
All sums are of whole numbers, so that neither the order of words nor the processor changes a result. Nothing is read at
import; `TextVectors.load` reads the table once in a process.
"""

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]

FILE: Final = "text_vectors.bin"
DIMENSIONS: Final = 128
"""Number of a text vector's components."""
WORD_CHARS: Final = 32
"""A longer run of letters is no word and has no tokens."""
CONTINUATION: Final = "##"
"""Prefix of a token that continues a word."""
_TOKEN: Final = re.compile(r"[a-z]+|[?!.,]")
_WORD: Final = re.compile(r"[a-z]+")
_FULL: Final = 127


class PieceVocabulary:
    """The tokens of a table: whole lower-case words, pieces of words, and four marks of punctuation.

    A word that is not a token itself is the longest pieces that make it up, from its beginning on. Accents are taken
    off. Figures and letters of other scripts have no tokens.
    """

    def __init__(self, tokens: Sequence[str], /) -> None:
        self.tokens: Final = tokens
        self.places: Final[Mapping[str, int]] = dict(zip(tokens, range(len(tokens)), strict=True))
        self._pieces = lru_cache(maxsize=16_384)(self._cut)

    def rows(self, text: str, /) -> list[int]:
        """Return the place of each token of `text`, in order."""
        if not text.isascii():
            text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
        places = self.places
        found: list[int] = []
        for token in _TOKEN.findall(text.casefold()):
            place = places.get(token)
            if place is None:
                found += self._pieces(token)
            else:
                found.append(place)
        return found

    def share(self, text: str, /) -> float:
        """Return the share of the letters and figures of `text` that are in tokens; 0 without any."""
        known = sum(map(len, filter(self.rows, _WORD.findall(text.casefold()))))
        return known / max(sum(map(str.isalnum, text)), 1)

    def _cut(self, word: str) -> tuple[int, ...]:
        """Return the places of the pieces of `word`; none if it cannot be put together from pieces."""
        if len(word) > WORD_CHARS:
            return ()
        found: list[int] = []
        start = 0
        while start < len(word):
            head = CONTINUATION if start else ""
            ends = (end for end in range(len(word), start, -1) if head + word[start:end] in self.places)
            end = next(ends, None)
            if end is None:
                return ()
            found.append(self.places[head + word[start:end]])
            start = end
        return tuple(found)


class TextVectors:
    """A table of token vectors, and the vectors of texts by it."""

    def __init__(self, data: bytes, /) -> None:
        start = data.index(b"\n") + 1
        told = json.loads(data[:start])
        end = start + told["vocabulary_bytes"]
        self.version: Final[str] = told["version"]
        self.vocabulary: Final = PieceVocabulary(data[start:end].decode("ascii").split("\n"))
        self.matrix: Final[NDArray[np.int8]] = np.frombuffer(data, np.int8, offset=end).reshape(-1, DIMENSIONS)
        assert len(self.vocabulary.tokens) == len(self.matrix)

    @staticmethod
    @cache
    def load() -> "TextVectors":
        """Return the table that ships. It is read at the first call of a process and kept."""
        return TextVectors(files("elytron_index").joinpath(FILE).read_bytes())

    def tokens(self, text: str, /) -> list[str]:
        """Return the tokens of `text` that the table knows, in order."""
        return [self.vocabulary.tokens[row] for row in self.vocabulary.rows(text)]

    def vector(self, text: str, /) -> NDArray[np.int32]:
        """Return the sum of the rows of the tokens of `text`; all 0 if the table knows none of them."""
        rows = self.vocabulary.rows(text)
        # Widened first: NumPy adds numbers of one size several times as fast as it widens them on the way.
        return np.add.reduce(self.matrix.take(rows, axis=0).astype(np.int32), axis=0) if rows else _zero_row()

    def vectors(self, texts: Sequence[str], /) -> NDArray[np.int32]:
        """Return the vector of each text, in order."""
        return np.array([self.vector(text) for text in texts], np.int32).reshape(-1, DIMENSIONS)


def encode_vectors(vectors: Integers, /) -> NDArray[np.int8]:
    """Return vectors (one a row) in 8 bits: each is scaled so that its largest number is 127. Zero stays zero."""
    peaks = np.maximum.reduce(np.abs(vectors), axis=-1, keepdims=True).astype(np.float64)
    return np.rint(vectors * np.divide(_FULL, peaks, out=np.zeros_like(peaks), where=peaks > 0.0)).astype(np.int8)


def vector_length(vector: NDArray[np.int8], /) -> float:
    """Return the length of an encoded vector."""
    whole = vector.astype(np.int64)
    return math.sqrt(int(whole @ whole))


def encoded_cosines(asked: NDArray[np.int8], kept: NDArray[np.int8], /) -> NDArray[np.float64]:
    """Return the cosine of an encoded vector to each of `kept`; 0 if either is zero.

    Products of 8-bit numbers and their sums are whole numbers below 2**24, which float32 holds exactly in any order.
    """
    query, rows = asked.astype(np.float32), kept.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows).astype(np.float64))
    lengths *= np.sqrt(np.float64(query @ query))
    return np.divide(rows @ query, lengths, out=np.zeros(len(rows)), where=lengths > 0.0)


def _zero_row() -> NDArray[np.int32]:
    return np.zeros(DIMENSIONS, np.int32)
