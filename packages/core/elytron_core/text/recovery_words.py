"""Words that hold a key, as in BIP-39: 12 English words for 128 random bits and a checksum."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import groupby, pairwise
from string import ascii_letters
from typing import Final, NamedTuple

from elytron_core.errors import WordsInvalid
from elytron_core.text.similarity import IGNORABLE

ENTROPY_BYTES: Final = 16
WORD_COUNT: Final = 12
_COUNTS: Final = {12: 16, 15: 20, 18: 24, 21: 28, 24: 32}
"""Bytes of entropy by the number of words."""
_WORD_BITS: Final = 11
_VALUE_MASK: Final = (1 << _WORD_BITS * max(_COUNTS)) - 1
_SEED_ROUNDS: Final = 2048
_SEED_BYTES: Final = 64
_STEP: Final = 5
_RUN_CHARS: Final = 4 * WORD_COUNT - 1
"""Length of the shortest key: words of three letters."""
_LETTERS: Final = re.compile("[A-Za-z]+")
_WIDE: Final = {ord(char) + 0xFEE0: char for char in ascii_letters}
_MARKED: Final = re.compile(r"[\\<&\x1b\uff21-\uff5a]")
"""A character of markup or of an escape, or a wide letter."""
_HIDDEN: Final = re.compile(rf"{IGNORABLE}(?<=[A-Za-z].)")
_MARKUP: Final = re.compile(
    r"</?(?P<tag>[A-Za-z][\w-]{0,15})(?:\s[^<>]{0,200})?/?>|&#?\w{1,8};|\x1b\[[\d;]{0,20}m"
    r"|\\(?:u[0-9A-Fa-f]{4}|(?=(?P<escaped>[A-Za-z]{1,9}))[nrt])"
)
_TOKEN: Final = re.compile(rf"[A-Za-z](?:{IGNORABLE}*+[A-Za-z])*+|[^\W\d_A-Za-z]++")
_JOINING: Final = frozenset({"and", "st", "nd", "rd", "th"})
"""Words, and ends of numbers such as 1st, that may stand between the words of a key."""
_WORD_CHARS: Final = 8
"""Maximum letters of a listed word."""
_FOREIGN_CHARS: Final = 2
"""Maximum letters of another script between two words."""


class _TextWord(NamedTuple):
    """A word of a text: its number in the list, None for any other, its start and end."""

    number: int | None
    start: int
    end: int


@cache
def english_words() -> tuple[str, ...]:
    """Return the English list, in its order."""
    text = resources.files("elytron_core.text").joinpath("recovery_words.txt").read_text(encoding="ascii")
    return tuple(text.split())


@cache
def _word_numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(english_words())}


@cache
def _likely_words() -> frozenset[str]:
    return _JOINING.union(english_words())


def words_of(entropy: bytes, /) -> str:
    """Return the words for `entropy`, of 16 to 32 bytes in steps of four, separated by spaces."""
    assert len(entropy) in _COUNTS.values()
    check_bits = len(entropy) // 4
    bits = int.from_bytes(entropy, "big") << check_bits | _check_value(entropy, check_bits)
    word_count = (len(entropy) * 8 + check_bits) // _WORD_BITS
    listed_words = english_words()
    return " ".join(listed_words[bits >> _WORD_BITS * position & 0x7FF] for position in reversed(range(word_count)))


def entropy_of(words: str, /) -> bytes:
    """Return the entropy in `words`, which may be in any case. Raises WordsInvalid, which names no word."""
    word_list = normal_text(words).lower().split()
    if len(word_list) not in _COUNTS:
        raise WordsInvalid(problem=f"must be exactly {WORD_COUNT}")
    bits = 0
    for word in word_list:
        if (number := _word_numbers().get(word)) is None:
            raise WordsInvalid(problem="are not all in the English word list of BIP-39")
        bits = bits << _WORD_BITS | number
    if not _has_checksum(bits, len(word_list)):
        raise WordsInvalid(problem="have a wrong checksum: one word is wrong, or two were swapped")
    size = _COUNTS[len(word_list)]
    return (bits >> size // 4).to_bytes(size, "big")


def seed_of(words: str, /, *, passphrase: str = "") -> bytes:
    """Return the 64-byte seed of `words`, which are checked. Raises WordsInvalid."""
    normal_words = words_of(entropy_of(words))
    salt = "mnemonic" + normal_text(passphrase)
    return hashlib.pbkdf2_hmac("sha512", normal_words.encode(), salt.encode("utf-8"), _SEED_ROUNDS, _SEED_BYTES)


def normal_text(text: str, /) -> str:
    """Return `text` in the form NFKD: the same for every keyboard and system."""
    return unicodedata.normalize("NFKD", text)


def _check_value(entropy: bytes, bits: int) -> int:
    return hashlib.sha256(entropy).digest()[0] >> 8 - bits


def _has_checksum(value: int, count: int) -> bool:
    """Return whether the last `count` words in `value`, 11 bits each, end with their checksum."""
    size = _COUNTS[count]
    check_bits = size // 4
    entropy = (value >> check_bits & (1 << 8 * size) - 1).to_bytes(size, "big")
    return value & (1 << check_bits) - 1 == _check_value(entropy, check_bits)


def may_hold_words(text: str, /) -> bool:
    """Return whether `text` may contain the words of a key; if not, `recovery_spans` finds none."""
    return next(_word_runs(text), None) is not None


def recovery_spans(text: str, /) -> list[tuple[int, int]]:
    """Return the start and end of recovery words in `text`, for any number of words that BIP-39 allows."""
    joined_spans: list[tuple[int, int]] = []
    for start, end in sorted(_key_places(text)):
        # Overlapping matches are merged: one window in sixteen has a valid checksum by chance.
        if joined_spans and joined_spans[-1][1] > start:
            joined_spans[-1] = joined_spans[-1][0], max(joined_spans[-1][1], end)
        else:
            joined_spans.append((start, end))
    return joined_spans


def _key_places(text: str) -> Iterator[tuple[int, int]]:
    for word_run in _word_runs(text):
        bits = 0
        for end, word in enumerate(word_run, 1):
            bits = (bits << _WORD_BITS | (word.number or 0)) & _VALUE_MASK
            for count in (count for count in _COUNTS if count <= end and _has_checksum(bits, count)):
                # Random words do not repeat like this, and a text that repeats them is long.
                if 2 * len({run_word.number for run_word in word_run[end - count : end]}) > count:
                    yield word_run[end - count].start, word.end


def _word_runs(text: str) -> Iterator[list[_TextWord]]:
    """Yield runs of listed words of a key's length; other words break a run, numbers and signs do not."""
    if len(text) < _RUN_CHARS:
        return
    for text_reading in _text_readings(text):
        if _HIDDEN.search(text_reading) is None and not _has_samples(text_reading):
            continue
        for is_listed, words in groupby(_words_in(text_reading), key=lambda word: word.number is not None):
            if is_listed and len(word_run := list(words)) >= WORD_COUNT:
                yield word_run


def _text_readings(text: str) -> Iterator[str]:
    r"""Yield `text` with spaces for its markup: twice where that may be listed words, as `<word>` and `\narrow`."""
    if _MARKED.search(text) is None:
        yield text
        return
    text = text.translate(_WIDE)
    yield (text_without_markup := _MARKUP.sub(_blank_markup, text))
    if (text_without_tags := _MARKUP.sub(lambda markup_match: " " * len(markup_match[0]), text)) != text_without_markup:
        yield text_without_tags


def _has_samples(text: str) -> bool:
    """Return whether `text` may contain the words of a key, by a quick look at every fifth word."""
    words, likely_words = _LETTERS.findall(text), _likely_words()
    # Of twelve words in a row, two adjacent samples are listed, and so is everything between.
    is_sample_likely = [word.lower() in likely_words for word in words[::_STEP]]
    return any(
        is_likely
        and is_next_likely
        and all(word.lower() in likely_words for word in words[sample_number * _STEP : (sample_number + 1) * _STEP])
        for sample_number, (is_likely, is_next_likely) in enumerate(pairwise(is_sample_likely))
    )


def _words_in(text: str) -> Iterator[_TextWord]:
    """Yield the words of `text`, except those that may join two others."""
    for token in _TOKEN.finditer(text):
        letters = token[0]
        if letters.isascii():
            if (word := letters.lower()) not in _JOINING:
                yield _TextWord(_word_numbers().get(word), token.start(), token.end())
        elif letters[0].isascii():
            yield from _hidden_words(letters, token.start())
        elif len(letters) > _FOREIGN_CHARS:
            yield _TextWord(None, token.start(), token.end())


def _blank_markup(markup_match: re.Match[str]) -> str:
    word = markup_match["tag"] or markup_match["escaped"] or ""
    return markup_match[0] if word.lower() in _word_numbers() else " " * len(markup_match[0])


def _hidden_words(letters: str, letters_start: int) -> Iterator[_TextWord]:
    """Yield words of letters with invisible characters between them, which may separate words or be inside one."""
    word, start = "", 0
    for part_match in _LETTERS.finditer(letters):
        start = start if word else part_match.start()
        word += part_match[0].lower()
        number = _word_numbers().get(word)
        if number is not None or word in _JOINING or len(word) >= _WORD_CHARS or part_match.end() == len(letters):
            if word not in _JOINING:
                yield _TextWord(number, letters_start + start, letters_start + part_match.end())
            word = ""
