"""Linear models of short texts as data: yes or no to a few labels, by hashed n-grams and the vectors that ship.

A text is cut into tokens: words in small letters, single characters of Chinese and Japanese, figures as "0", and marks.
Features are tokens, parts of words, pairs and triples of neighbours, pairs with one token between them, the same of a
text in which rare words are cut to their endings, all hashed into buckets, and the sum of the vectors of its words by
the English table or by that of many languages, as the model says. A label's score is the sum of its weights divided by
the root of the number of tokens, plus a bias; it is above 0 if the label holds.

All sums are of whole numbers, and a root and a quotient are rounded alike on every processor: so a score never differs.
`benchmarks/linear_fit.py` makes the files.
"""

import json
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32, decompress

import numpy as np
from numpy.typing import NDArray

from elytron_core.lru_cache import remember_answers
from elytron_index.lexicon.text_vectors import DIMENSIONS, LanguageVectors, TextVectors

TOKENS_MAX: Final = 64
"""Number of tokens read from a text; the rest is ignored."""
_TOKEN: Final = re.compile(r"[^\W\d_ぁ-ヿ㐀-鿿]+(?:'[^\W\d_ぁ-ヿ㐀-鿿]+)*|\d+|[ぁ-ヿ㐀-鿿]|[?!.,:;？！。，：；\n]")
_MARKS: Final = str.maketrans("’？！。，：；\n", "'?!.,:;.")
_START, _END = "^", "$"
_PART_CHARS: Final = (3, 4)
_ENDING_CHARS: Final = 2


class WordTable(StrEnum):
    """Table of word vectors that a model is fitted with."""

    ENGLISH = "text_vectors"
    LANGUAGES = "language_vectors"

    @property
    def version(self) -> str:
        """The version of the shipped table."""
        return (TextVectors if self is WordTable.ENGLISH else LanguageVectors).load().version

    def word_sum(self, text: str, tokens: Sequence[str], /) -> NDArray[np.int64]:
        """Return the unweighted sum of the vectors of the words of `text`; `tokens` are its tokens."""
        if self is WordTable.LANGUAGES:
            return LanguageVectors.load().word_sum(text)
        table = TextVectors.load()
        rows = [row for token in tokens for row in _english_rows(token)]
        return np.add.reduce(table.matrix.take(rows, axis=0), axis=0, dtype=np.int64)


class TextFeatures(NamedTuple):
    """Features of a text for a model."""

    hashed: NDArray[np.int64]
    """The hash of each n-gram, repeated as it occurs, before reduction to a model's buckets."""
    vector: NDArray[np.int64]
    """The sum of the vectors of its words."""
    tokens: int


def tokens_of(text: str, /) -> list[str]:
    """Return the tokens of `text`, at most `TOKENS_MAX`."""
    tokens = _TOKEN.findall(text.translate(_MARKS).casefold())
    return ["0" if token.isdigit() else token for token in tokens[:TOKENS_MAX]]


def features_of(text: str, table: WordTable, frequent: frozenset[str] = frozenset(), /) -> TextFeatures:
    """Return the features of `text`; without `frequent` words there are no ending features."""
    tokens = tokens_of(text)
    grams = [gram for token in tokens for gram in _token_hashes(token)]
    grams += _neighbour_hashes(tokens, "")
    if frequent:
        endings = [token if token in frequent else _ending_feature(token) for token in tokens]
        grams += [crc32(f"~{token}".encode()) for token in endings]
        grams += _neighbour_hashes(endings, "~")
    return TextFeatures(np.array(grams, np.int64), table.word_sum(text, tokens), len(tokens))


def _neighbour_hashes(tokens: Sequence[str], mark: str) -> list[int]:
    """Return the hashes of pairs and triples of `tokens`, including the text's start and end."""
    framed_tokens = [_START, *tokens, _END]
    neighbour_grams = [f"{mark}{first_token} {second_token}" for first_token, second_token in pairwise(framed_tokens)]
    triples = list(zip(framed_tokens, framed_tokens[1:], framed_tokens[2:], strict=False))
    neighbour_grams += [
        f"{mark}{first_token} {second_token} {third_token}" for first_token, second_token, third_token in triples
    ]
    neighbour_grams += [f"{mark}{first_token} * {third_token}" for first_token, _, third_token in triples]
    return [crc32(gram.encode()) for gram in neighbour_grams]


def _ending_feature(token: str) -> str:
    """Return the feature of a rare word: its last two letters; one mark for all Chinese characters."""
    return f"-{token[-_ENDING_CHARS:]}" if token.isascii() else "-"


class LinearModel:
    """The weights of one or several labels."""

    def __init__(self, data: bytes, /) -> None:
        body_start = data.index(b"\n") + 1
        header = json.loads(data[:body_start])
        numbers = np.frombuffer(decompress(data[body_start:]), np.int8)
        self.labels: Final[tuple[str, ...]] = tuple(header["labels"])
        self.version: Final[str] = header["version"]
        """Changes with the weights, and with the table that they were fitted with."""
        self._table: Final = WordTable(header["table"])
        # The weights were fitted with one version of the table and are misleading with another.
        assert header["table_version"] == self._table.version
        self._frequent: Final = frozenset(map(str, header.get("frequent", ())))
        label_count = len(self.labels)
        buckets_end = header["buckets"] * label_count
        self._buckets: Final[NDArray[np.int8]] = numbers[:buckets_end].reshape(-1, label_count)
        self._vector_weights: Final[NDArray[np.int64]] = (
            numbers[buckets_end:].reshape(DIMENSIONS, label_count).astype(np.int64)
        )
        self._scales: Final[list[tuple[float, float]]] = [
            (float(hashed_scale), float(table_scale)) for hashed_scale, table_scale in header["scales"]
        ]
        self._biases: Final = tuple(map(float, header["biases"]))

    @staticmethod
    @cache
    def load(name: str, /) -> "LinearModel":
        """Return the shipped model `name`, loaded and cached at a process's first call."""
        return LinearModel(files("elytron_index").joinpath(f"{name}.model").read_bytes())

    def scores(self, text: str, /) -> tuple[float, ...]:
        """Return the score of each label, positive if it applies; a text without tokens has none."""
        features = features_of(text, self._table, self._frequent)
        if not features.tokens:
            return (-math.inf,) * len(self.labels)
        hashed_sums = np.add.reduce(
            self._buckets.take(features.hashed % len(self._buckets), axis=0), axis=0, dtype=np.int64
        )
        table_sums = features.vector @ self._vector_weights
        length_norm = math.sqrt(features.tokens)
        label_numbers = zip(hashed_sums.tolist(), table_sums.tolist(), self._scales, self._biases, strict=True)
        return tuple(
            (hashed_sum * hashed_scale + table_sum * table_scale) / length_norm + bias
            for hashed_sum, table_sum, (hashed_scale, table_scale), bias in label_numbers
        )

    def holding(self, text: str, /) -> frozenset[str]:
        """Return the labels that apply to `text`."""
        return frozenset(label for label, score in zip(self.labels, self.scores(text), strict=True) if score > 0.0)


@remember_answers(16_384)
def _token_hashes(token: str) -> Sequence[int]:
    """Return the hashes of a single token."""
    hashes = [crc32(token.encode())]
    if len(token) > 2:
        marked_token = f"<{token}>"
        hashes += [
            crc32(f"#{marked_token[start : start + size]}".encode())
            for size in _PART_CHARS
            for start in range(len(marked_token) - size + 1)
        ]
    return hashes


@remember_answers(16_384)
def _english_rows(token: str) -> Sequence[int]:
    return TextVectors.load().vocabulary.rows(token)
