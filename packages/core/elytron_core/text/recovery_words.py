"""Words that hold a key, as in BIP-39: 12 English words for 128 random bits and a checksum."""

import hashlib
import re
import unicodedata
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from elytron_core.errors import WordsInvalid

ENTROPY_BYTES: Final = 16
WORD_COUNT: Final = 12
_COUNTS: Final = {12: 16, 15: 20, 18: 24, 21: 28, 24: 32}
"""Bytes of entropy by the number of words."""
_WORD_BITS: Final = 11
_SEED_ROUNDS: Final = 2048
_SEED_BYTES: Final = 64
_GAP: Final = 8
"""Characters between two words, at most: a space, a comma, the number of the next line."""
_STEP: Final = 5
_MARKS: Final = " \t.,;:!?()[]{}<>\"'`*_-0123456789"
_RUN_CHARS: Final = 4 * WORD_COUNT - 1
"""Length of the shortest key: words of three letters."""
_LETTERS: Final = re.compile("[A-Za-z]+")


@cache
def english_words() -> tuple[str, ...]:
    """Return the English list, in its order."""
    text = resources.files("elytron_core.text").joinpath("recovery_words.txt").read_text(encoding="ascii")
    return tuple(text.split())


@cache
def _word_numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(english_words())}


def words_of(entropy: bytes, /) -> str:
    """Return the words for `entropy`, of 16 to 32 bytes in steps of four, separated by spaces."""
    assert len(entropy) in _COUNTS.values()
    check_bits = len(entropy) // 4
    value = int.from_bytes(entropy, "big") << check_bits | _check_value(entropy, check_bits)
    count = (len(entropy) * 8 + check_bits) // _WORD_BITS
    listed = english_words()
    return " ".join(listed[value >> _WORD_BITS * place & 0x7FF] for place in reversed(range(count)))


def entropy_of(words: str, /) -> bytes:
    """Return the entropy in `words`, which may be in any case. Raises WordsInvalid, which names no word."""
    given = normal_text(words).lower().split()
    size = _COUNTS.get(len(given))
    if size is None:
        raise WordsInvalid(problem=f"must be {WORD_COUNT} words")
    numbers = [_word_numbers().get(word) for word in given]
    value = 0
    for number in numbers:
        if number is None:
            raise WordsInvalid(problem="are not all in the English word list of BIP-39")
        value = value << _WORD_BITS | number
    check_bits = size // 4
    entropy = (value >> check_bits).to_bytes(size, "big")
    if value & (1 << check_bits) - 1 != _check_value(entropy, check_bits):
        raise WordsInvalid(problem="have a wrong checksum: one word is wrong, or two were swapped")
    return entropy


def seed_of(words: str, /, *, passphrase: str = "") -> bytes:
    """Return the 64 bytes of seed of `words`, which are checked. Raises WordsInvalid."""
    plain = words_of(entropy_of(words))
    salt = "mnemonic" + normal_text(passphrase)
    return hashlib.pbkdf2_hmac("sha512", plain.encode(), salt.encode("utf-8"), _SEED_ROUNDS, _SEED_BYTES)


def normal_text(text: str, /) -> str:
    """Return `text` in the form NFKD: the same for every keyboard and system."""
    return unicodedata.normalize("NFKD", text)


def _check_value(entropy: bytes, bits: int) -> int:
    return hashlib.sha256(entropy).digest()[0] >> 8 - bits


def may_hold_words(text: str, /) -> bool:
    """Return True if `text` may hold the words of a key; if not, `recovery_spans` finds none."""
    if len(text) < _RUN_CHARS:
        return False
    tokens = text.split()
    listed = _word_numbers()
    # Of twelve words, with or without a number before each, two of three samples are words, and so is all between.
    hits = [at for at, token in enumerate(tokens[::_STEP]) if token.strip(_MARKS).lower() in listed]
    for at, following in pairwise(hits):
        if following - at <= 2:
            between = (token.strip(_MARKS).lower() for token in tokens[at * _STEP : (at + 1) * _STEP])
            if all(not word or word in listed for word in between):
                return True
    if max(map(len, tokens), default=0) < _RUN_CHARS:
        return False
    return any(len(token) >= _RUN_CHARS and token.isascii() and _has_run(token) for token in tokens)


def _has_run(token: str) -> bool:
    return sum(word.lower() in _word_numbers() for word in _LETTERS.findall(token)) >= WORD_COUNT


def recovery_spans(text: str, /) -> list[tuple[int, int]]:
    """Return where `text` holds the words of a key, of any number that BIP-39 knows: their start and end."""
    spans: list[tuple[int, int]] = []
    run: list[re.Match[str]] = []
    for word in _LETTERS.finditer(text) if may_hold_words(text) else ():
        if run and word.start() - run[-1].end() > _GAP:
            run.clear()
        if word[0].lower() not in _word_numbers():
            run.clear()
            continue
        run.append(word)
        for count in (count for count in _COUNTS if count <= len(run)):
            if _is_key([one[0] for one in run[-count:]]):
                start = run[-count].start()
                # What overlaps goes together: one window in sixteen has a right checksum by chance.
                while spans and spans[-1][1] > start:
                    start = min(start, spans.pop()[0])
                spans.append((start, word.end()))
    return spans


def _is_key(words: list[str]) -> bool:
    if 2 * len(set(words)) <= len(words):
        return False  # drawn at random, words do not repeat like this, and a text that repeats them is long
    try:
        entropy_of(" ".join(words))
    except WordsInvalid:
        return False
    return True
