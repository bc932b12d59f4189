"""Text vectors: what a text is about as 128 whole numbers, by a table of English and by one of fifteen languages.

Each was fitted once so that the sum of a text's rows points as nearly as it can the way in which a sentence encoder's
vector of the same text points (see text_vectors.md and language_vectors.md); that of many languages holds pieces of
their words, so texts of two languages compare. They need no model: a text costs a look-up and an addition for each
word. All sums are of whole numbers, so that neither the order of words nor the processor changes a result. Nothing is
read at import; `load` reads a table once in a process.

In the table of languages each number of a piece has 4 bits, times a factor of the piece. A byte a piece says how much
more often English has it than the others: by their sum the English table is silent for a text of another language. One
more says which language has it most often, and by how much more than the next: so the language of a text is known.
"""

import json
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elytron_core.lru_cache import remember_answers
from elytron_index.lexicon.terms import is_known_stem

Integers = NDArray[np.integer[Any]]

FILE: Final = "text_vectors.bin"
DIMENSIONS: Final = 128
"""Number of components of a text vector."""
WORD_CHARS: Final = 32
"""A longer run of letters is no word and has no tokens."""
CONTINUATION: Final = "##"
"""Prefix of a token that continues a word."""
_TOKEN: Final = re.compile(r"[a-z]+|[?!.,]")
_WORD: Final = re.compile(r"[a-z]+")
_FULL: Final = 127


class PieceVocabulary:
    """The tokens of a table: whole lower-case words, word pieces, and four punctuation marks.

    A word that is not a token itself is split into the longest matching pieces from its beginning. Accents are removed.
    Digits and letters of other scripts have no tokens.
    """

    def __init__(self, tokens: Sequence[str], /) -> None:
        self.tokens: Final = tokens
        self.places: Final[Mapping[str, int]] = dict(zip(tokens, range(len(tokens)), strict=True))
        # A cache per instance: one on the method would keep every vocabulary alive.
        self._pieces = remember_answers(16_384)(self._cut)

    def rows(self, text: str, /) -> list[int]:
        """Return the row of each token of `text`, in order."""
        if not text.isascii():
            text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
        row_by_token = self.places
        rows: list[int] = []
        for token in _TOKEN.findall(text.casefold()):
            row = row_by_token.get(token)
            if row is None:
                rows += self._pieces(token)
            else:
                rows.append(row)
        return rows

    def share(self, text: str, /) -> float:
        """Return the share of the letters and digits of `text` that are in tokens; 0 if there are none."""
        covered_chars = sum(map(len, filter(self.rows, _WORD.findall(text.casefold()))))
        return covered_chars / max(sum(map(str.isalnum, text)), 1)

    def _cut(self, word: str) -> tuple[int, ...]:
        """Return the rows of the pieces of `word`; none if pieces do not cover it."""
        if len(word) > WORD_CHARS:
            return ()
        piece_rows: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in self.places)
            end = next(ends, None)
            if end is None:
                return ()
            piece_rows.append(self.places[prefix + word[start:end]])
            start = end
        return tuple(piece_rows)


class TextVectors:
    """A table of token vectors, and the vectors of texts computed from it."""

    def __init__(self, data: bytes, /) -> None:
        vocabulary_start = data.index(b"\n") + 1
        header = json.loads(data[:vocabulary_start])
        vocabulary_end = vocabulary_start + header["vocabulary_bytes"]
        self.version: Final[str] = header["version"]
        self.vocabulary: Final = PieceVocabulary(data[vocabulary_start:vocabulary_end].decode("ascii").split("\n"))
        self.matrix: Final[NDArray[np.int8]] = np.frombuffer(data, np.int8, offset=vocabulary_end).reshape(
            -1, DIMENSIONS
        )
        assert len(self.vocabulary.tokens) == len(self.matrix)

    @staticmethod
    @cache
    def load() -> "TextVectors":
        """Return the shipped table, loaded and cached at a process's first call."""
        return TextVectors(files("elytron_index").joinpath(FILE).read_bytes())

    def tokens(self, text: str, /) -> list[str]:
        """Return the known tokens of `text`, in order."""
        return [self.vocabulary.tokens[row] for row in self.vocabulary.rows(text)]

    def vector(self, text: str, /) -> NDArray[np.int32]:
        """Return the sum of the token rows of `text`; all 0 if no token is known."""
        rows = self.vocabulary.rows(text)
        # Widened first: NumPy adds numbers of one size several times as fast as it widens them on the way.
        return np.add.reduce(self.matrix.take(rows, axis=0).astype(np.int32), axis=0) if rows else _zero_row()

    def vectors(self, texts: Sequence[str], /) -> NDArray[np.int32]:
        """Return the vector of each text, in order."""
        return np.array([self.vector(text) for text in texts], np.int32).reshape(-1, DIMENSIONS)


def encode_vectors(vectors: Integers, /) -> NDArray[np.int8]:
    """Return vectors (one per row) in 8 bits, each scaled so that its largest number is 127. Zero stays zero."""
    peaks = np.maximum.reduce(np.abs(vectors), axis=-1, keepdims=True).astype(np.float64)
    return np.rint(vectors * np.divide(_FULL, peaks, out=np.zeros_like(peaks), where=peaks > 0.0)).astype(np.int8)


def vector_length(vector: NDArray[np.int8], /) -> float:
    """Return the length of an encoded vector."""
    wide_vector = vector.astype(np.int64)
    return math.sqrt(int(wide_vector @ wide_vector))


def encoded_cosines(query_code: NDArray[np.int8], codes: NDArray[np.int8], /) -> NDArray[np.float64]:
    """Return the cosine of an encoded vector with each of `codes`; 0 if either is zero.

    Products of 8-bit numbers and their sums are whole numbers below 2**24, which float32 holds exactly in any order.
    """
    query_floats, code_floats = query_code.astype(np.float32), codes.astype(np.float32)
    code_lengths = np.sqrt(np.einsum("ij,ij->i", code_floats, code_floats).astype(np.float64))
    code_lengths *= np.sqrt(np.float64(query_floats @ query_floats))
    return np.divide(code_floats @ query_floats, code_lengths, out=np.zeros(len(code_floats)), where=code_lengths > 0.0)


def _zero_row() -> NDArray[np.int32]:
    return np.zeros(DIMENSIONS, np.int32)


LANGUAGE_FILE: Final = "language_vectors.bin"
UNSPACED: Final = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
"""Letters of Chinese, Japanese and Thai, which are written without spaces."""
PIECE_CHARS: Final = 18
"""Maximum letters of a piece, without the continuation prefix."""
BLOCK: Final = 128
"""Number of code points per bucket, from `_BLOCKED` on."""
LANGUAGE_CODES: Final = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
RARE_CHARS: Final = 4
"""Minimum letters of a word that may be rare in the language."""
MIDDLE: Final = 8
"""Offset of a stored half byte from the number that it means."""

_LANGUAGE_TOKEN: Final = re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[^\W\d_])+|[?!.,]")
_BLOCKED: Final = 0x2E80
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_IGNORED: Final = re.compile("[\u0300-\u036f\u0610-\u061a\u0640\u064b-\u065f\u0670\u200b-\u200f]")
_ALIKE: Final = str.maketrans({"。": ".", "、": ",", "،": ",", "؟": "?", "ё": "е"})


def plain_form(text: str, /) -> str:
    """Return the form of `text` for lookup: normalised, lower case, no Arabic vowel marks, one full stop for all."""
    if text.isascii():
        return text.casefold()
    return _IGNORED.sub("", unicodedata.normalize("NFKC", text).casefold().translate(_ALIKE))


def bucket_key(token: str, /) -> str:
    """Return the bucket of `token`: its first letter, or the block of 128 letters around it in East Asia."""
    prefix = CONTINUATION if token.startswith(CONTINUATION) else ""
    return prefix + _letter_key(token[len(prefix)])


class TokenBucket(NamedTuple):
    """The tokens of one bucket: the row of the first, and all of them, one per line, without the prefix."""

    first: int
    lines: bytes


class LanguageVocabulary:
    """Words and word pieces of many languages, and four punctuation marks.

    A word that is not a token itself is split into the longest matching pieces from its beginning; a letter that begins
    no piece is skipped. In scripts without spaces a whole run of letters is split so. Tokens are loaded by bucket, so a
    process only has those in memory whose letters it meets.
    """

    def __init__(self, buckets: Mapping[str, TokenBucket], /) -> None:
        self._buckets: Final = buckets
        self._read: Final[dict[str, Mapping[str, int]]] = {}
        self._pieces = remember_answers(16_384)(self._cut)

    @classmethod
    def of(cls, tokens: Iterable[str], /) -> "LanguageVocabulary":
        """Return a vocabulary of `tokens`. Rows follow the order of the buckets' names."""
        words_by_bucket: defaultdict[str, list[str]] = defaultdict(list)
        for token in tokens:
            words_by_bucket[bucket_key(token)].append(token.removeprefix(CONTINUATION))
        buckets: dict[str, TokenBucket] = {}
        first_row = 0
        for key, words in sorted(words_by_bucket.items()):
            buckets[key] = TokenBucket(first_row, "\n".join(words).encode("utf-8"))
            first_row += len(words)
        return cls(buckets)

    @property
    def buckets(self) -> Mapping[str, TokenBucket]:
        """The buckets, by name."""
        return self._buckets

    def tokens(self) -> list[str]:
        """Return all tokens by row."""
        buckets_by_row = sorted(self._buckets.items(), key=lambda item: item[1].first)
        prefixes_and_lines = (
            (CONTINUATION if key.startswith(CONTINUATION) else "", bucket.lines) for key, bucket in buckets_by_row
        )
        return [prefix + word for prefix, lines in prefixes_and_lines for word in lines.decode("utf-8").split("\n")]

    def rows(self, text: str, /) -> list[int]:
        """Return the row of each token of `text`, in order."""
        token_rows: list[int] = []
        for word in _LANGUAGE_TOKEN.findall(plain_form(text)):
            token_rows += self._pieces(word)[0]
        return token_rows

    def share(self, text: str, /) -> float:
        """Return the share of the letters and digits of `text` that are in tokens; 0 if there are none."""
        plain_text = plain_form(text)
        covered_chars = sum([self._pieces(word)[1] for word in _LANGUAGE_TOKEN.findall(plain_text)])
        return covered_chars / max(sum(map(str.isalnum, plain_text)), covered_chars, 1)

    def _cut(self, word: str) -> tuple[tuple[int, ...], int]:
        """Return the rows of the pieces of `word`, and how many letters and digits they cover."""
        word_chars = len(word)
        is_unspaced = _UNSPACED.match(word) is not None
        piece_rows: list[int] = []
        start = covered_chars = 0
        while start < word_chars:
            prefix = CONTINUATION if start and not is_unspaced else ""
            row_by_token = self._places(prefix + _letter_key(word[start]))
            ends = range(min(word_chars, start + PIECE_CHARS), start, -1) if row_by_token else ()
            end = next((end for end in ends if word[start:end] in row_by_token), None)
            if end is not None:
                piece_rows.append(row_by_token[word[start:end]])
                covered_chars += sum(map(str.isalnum, word[start:end]))
            start = end or start + 1
        return tuple(piece_rows), covered_chars

    def _places(self, key: str) -> Mapping[str, int]:
        """Return the row of each token of a bucket."""
        row_by_token = self._read.get(key)
        if row_by_token is None:
            bucket = self._buckets.get(key)
            words = bucket.lines.decode("utf-8").split("\n") if bucket is not None else ()
            first_row = bucket.first if bucket is not None else 0
            row_by_token = self._read[key] = {word: row for row, word in enumerate(words, first_row)}
        return row_by_token


class LanguageVectors:
    """A table of piece vectors of many languages, and the vectors of texts computed from it."""

    def __init__(self, data: bytes, /) -> None:
        buckets_start = data.index(b"\n") + 1
        header = json.loads(data[:buckets_start])
        self.version: Final[str] = header["version"]
        buckets: dict[str, TokenBucket] = {}
        token_count, bucket_end = 0, buckets_start
        for key, tokens, size in header["buckets"]:
            buckets[key] = TokenBucket(token_count, data[bucket_end : bucket_end + size])
            token_count, bucket_end = token_count + tokens, bucket_end + size
        self.vocabulary: Final = LanguageVocabulary(buckets)
        self._factors: Final = np.frombuffer(data, np.uint8, token_count, bucket_end)
        self._english: Final = np.frombuffer(data, np.int8, token_count, bucket_end + token_count)
        self._languages: Final = np.frombuffer(data, np.uint8, token_count, bucket_end + 2 * token_count)
        self._halves: Final = np.frombuffer(data, np.uint8, offset=bucket_end + 3 * token_count).reshape(
            token_count, DIMENSIONS // 2
        )

    @staticmethod
    @cache
    def load() -> "LanguageVectors":
        """Return the shipped table, loaded and cached at a process's first call."""
        return LanguageVectors(files("elytron_index").joinpath(LANGUAGE_FILE).read_bytes())

    def vector(self, text: str, /) -> NDArray[np.int32]:
        """Return the sum of the token rows of `text`; all 0 if no token is known."""
        return self._sum(self.vocabulary.rows(text))

    def word_sum(self, text: str, /) -> NDArray[np.int64]:
        """Return the sum of the token rows of `text`, without weighting by frequency."""
        halves = self._halves.take(self.vocabulary.rows(text), axis=0)
        low_sums, high_sums = (np.add.reduce(half, axis=0, dtype=np.int64) for half in (halves & 15, halves >> 4))
        return np.concatenate((low_sums, high_sums)) - MIDDLE * len(halves)

    def is_english(self, text: str, /) -> bool:
        """Return whether the pieces of `text` are as frequent in English as in other languages, or it has none."""
        return self._speaks_english(self.vocabulary.rows(text))

    def language(self, text: str, /) -> str:
        """Return the code of the likely language of `text`; empty if its pieces do not show one."""
        language_marks = self._languages.take(self.vocabulary.rows(text))
        votes = np.bincount(language_marks >> 4, weights=language_marks & 15, minlength=len(LANGUAGE_CODES))
        best_code = int(votes.argmax())
        return LANGUAGE_CODES[best_code] if votes[best_code] > 0 else ""

    def vector_pair(self, text: str, /) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the vectors of `text` by the English table (0 for other languages) and by this one."""
        rows = self.vocabulary.rows(text)
        english_vector = (
            TextVectors.load().vector(text) if self._speaks_english(rows) else np.zeros(DIMENSIONS, np.int32)
        )
        return english_vector, self._sum(rows)

    def _speaks_english(self, rows: Sequence[int]) -> bool:
        return not rows or int(np.add.reduce(self._english.take(rows), dtype=np.int64)) >= 0

    def _sum(self, rows: Sequence[int]) -> NDArray[np.int32]:
        halves, factors = self._halves.take(rows, axis=0), self._factors.take(rows).astype(np.int32)
        low_sums, high_sums = factors @ (halves & 15).astype(np.int32), factors @ (halves >> 4).astype(np.int32)
        return np.concatenate((low_sums, high_sums)) - np.int32(MIDDLE) * np.add.reduce(factors, dtype=np.int32)


def text_codes(texts: Sequence[str], /) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return each text's vector by the English table and by that of all languages, in 8 bits."""
    table = LanguageVectors.load()
    pairs = [table.vector_pair(text) for text in texts]
    english_vectors, language_vectors = (
        np.array([pair[half] for pair in pairs], np.int32).reshape(-1, DIMENSIONS) for half in (0, 1)
    )
    return encode_vectors(english_vectors), encode_vectors(language_vectors)


def is_english(text: str, /) -> bool:
    """Return whether the pieces of `text` are as frequent in English as in other languages, by the shipped table."""
    return LanguageVectors.load().is_english(text)


@remember_answers(1_024)
def language_of(text: str, /) -> str:
    """Return the code of a query's likely language, by the shipped table; empty if unknown."""
    return LanguageVectors.load().language(text)


def is_rare_word(term: str, /) -> bool:
    """Return whether a query term is rare in any language: a long number, a code, a name of two pieces or more.

    Terms of three letters may be parts of words of scripts without spaces.
    """
    if any(map(str.isdigit, term)):
        return len(term) >= RARE_CHARS - 1
    if len(term) < RARE_CHARS or is_known_stem(term):
        return False
    return len(LanguageVectors.load().vocabulary.rows(term)) != 1


@cache
def table_version() -> str:
    """Return the version of both tables."""
    return f"{TextVectors.load().version} {LanguageVectors.load().version}"


def _letter_key(letter: str) -> str:
    code_point = ord(letter)
    return letter if code_point < _BLOCKED else chr(code_point - code_point % BLOCK)
